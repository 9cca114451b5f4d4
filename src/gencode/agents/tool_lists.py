"""The tools of an agent file: reads its lists, and turns them into a choice of tools and rules.

`Bash(git *)` is the tool and a limit: commands that match are decided as usual, all others need approval
whatever the parent's mode is. `Agent(a, b)` limits which agents may be started. No list ever becomes all
tools.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, cast

from gencode.agents.agent_fields import LONGEST_LIST, Fields, normalized
from gencode.agents.file_errors import FileFinding
from gencode.agents.tool_names import MCP, READING, RETIRED, tools_called, tools_denied
from gencode.core.rules import Action, Mode, Rule, merge, written_in
from gencode.core.spec import ToolChoice, same_name
from gencode.core.text import one_line

_ON = frozenset(("true", "on", "yes", "allow", "allowed", "enable", "enabled"))
_OFF = frozenset(
    ("false", "off", "no", "deny", "denied", "disable", "disabled", "none", "never", "block", "blocked")
)
_ASKED = "ask"
_SWITCHES = ("enabled", "enable", "allow", "allowed", "value")
_TAKEN = re.compile(r"[-!](?=[^\W\d]|\*)")


class NameList(NamedTuple):
    """The names of a list, those that it takes away, and what could not be understood of it."""

    names: list[str]
    denied: list[str]
    odd: list[str]


def listed(value: Any) -> list[str] | None:
    """The entries of a value: a text with commas, a list of such, or nothing. None if it is none of these."""
    found = entries_of(value)
    return None if found is None else found.names


def entries_of(value: Any) -> NameList | None:
    """The entries of a list; None if it is no list."""
    if value is None or value is False:
        return NameList([], [], [])
    if not isinstance(value, str | list):
        return None
    found = NameList([], [], [])
    for each in [value] if isinstance(value, str) else cast("list[Any]", value):
        if isinstance(each, dict):
            _from_fields(cast("dict[str, Any]", each), found)
        elif isinstance(each, bool | list):
            found.odd.append(str(cast("Any", each)))
        elif each is not None:
            _from_text(str(each), found)
    return NameList(_unique(found.names), _unique(found.denied), _unique(found.odd))


def _from_fields(fields: dict[str, Any], found: NameList) -> None:
    """An entry with a value: `{name: Bash, enabled: false}`, or `{Bash: false}`."""
    name = fields.get("name")
    if isinstance(name, str):
        said = [switch(fields[key]) for key in _SWITCHES if key in fields]
        _sort_in(name, True if not said else all(said), found)
        return
    for key, value in fields.items():
        remark = isinstance(value, str) and switch(value) is None and value.casefold() != _ASKED
        _sort_in(key, True if value is None or remark else switch(value), found)


def _sort_in(name: str, on: bool | None, found: NameList) -> None:
    if on:
        _from_text(name, found)
    elif on is False:
        found.denied.append(name)
    else:
        found.odd.append(name)


def _from_text(text: str, found: NameList) -> None:
    for name in split_names(text):
        taken = _TAKEN.match(name)
        (found.denied if taken else found.names).append(name[1:] if taken else name)


def switch(value: Any) -> bool | None:
    """Whether a value switches something on or off; None if that is unclear."""
    if isinstance(value, dict):
        inner = cast("dict[str, Any]", value)
        return switch(next(iter(inner.values()))) if len(inner) == 1 and {*inner} <= {*_SWITCHES} else None
    word = str(value).strip().casefold()
    if isinstance(value, bool | str) and word in _ON | _OFF:
        return word in _ON
    return None


def denials(value: Any) -> list[str]:
    """Everything that a list of denials may mean, whatever its shape; `*` where there is no telling."""
    return list(dict.fromkeys(_denials(value)))


def _denials(value: Any) -> Iterator[str]:
    if value is None or value is False:
        return
    if isinstance(value, str):
        yield from _denied_names(value)
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _denials(each)
    elif isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        yield from _denied_names(str(fields["name"])) if "name" in fields else _each(fields)
    else:
        yield "*" if value is True else str(value)


def _each(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield from _denied_names(name)


def _denied_names(text: str) -> Iterator[str]:
    for name in split_names(normalized(text), ",\n;|"):
        bare = name[1:] if _TAKEN.match(name) else name
        words = bare.split()
        yield from words if "(" not in bare and all(map(tools_called, words)) else [bare]


def split_names(text: str, between: str = ",\n") -> list[str]:
    """The parts of a text between its commas and lines, but not those in parentheses or brackets of names."""
    text = text.strip()
    if text[:1] == "[":
        text = text[1:].removesuffix("]")
    parts, depth, start = list[str](), 0, 0
    for at, character in enumerate(text):
        depth = max(0, depth + (character == "(") - (character == ")"))
        if character in between and not depth:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    names = [part.strip().removeprefix("- ").strip().strip("\"'`").strip() for part in parts]
    names = [name for name in names if name]
    if len(names) == 1 and "(" not in names[0] and " " in names[0]:
        words = names[0].split()
        if all(tools_called(word) for word in words):
            return words
    return names


EVERY = "*"
LONGEST = 200
MOST = 500
_SENDING = ("Task", "spawn_subagent")
_ASKED_ANYWAY = ("Bash", "Write", "Edit", "WebFetch", "http_get")
"""What the mode default asks about, so that an allow rule for a pattern limits it to the pattern."""


class ToolEntry(NamedTuple):
    """One entry of a list of tools: the name, and the text in parentheses."""

    text: str
    name: str
    pattern: str

    @property
    def narrow(self) -> bool:
        """Whether it speaks of some calls only."""
        return self.pattern not in ("", "*", ":*", "**")


class ToolSelection(NamedTuple):
    """Which tools a file gives, and the rules, agents and mode that come with them."""

    choice: ToolChoice
    rules: tuple[Rule, ...] = ()
    sends: tuple[str, ...] | None = None
    mode: Mode | None = None
    findings: tuple[FileFinding, ...] = ()
    refused: str = ""
    """A denial that is unknown."""


class RequestedTools(NamedTuple):
    """The tools that a file asks for, in its own words; `allow` None is all tools."""

    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    line: int | None = None
    denied_at: int | None = None


def named(text: str) -> ToolEntry:
    """An entry taken apart."""
    name, opened, rest = text.partition("(")
    if opened and rest.endswith(")"):
        return ToolEntry(text, name.strip(), rest[:-1].strip())
    return ToolEntry(text, text, "")


class ToolSelector:
    """Turns the words of one file into a choice of tools. `families` are words for several tools at once."""

    def __init__(
        self, origin: str, families: tuple[str, ...] = (), *, servers: str = "", modules: bool = False
    ) -> None:
        self._origin = written_in(origin)
        self._families = families
        self._servers = servers
        self._modules = modules
        self._findings: list[FileFinding] = []

    def choose(self, wanted: RequestedTools, mode: Mode | None) -> ToolSelection:
        """The tools of a file whose mode is `mode` (None: its parent's)."""
        self._findings = []
        denied, rules, lost = self._denied(wanted)
        if EVERY in wanted.deny:
            return ToolSelection(ToolChoice(()), rules, None, mode, tuple(self._findings))
        tooling = self._chosen(wanted, mode, denied, rules)
        if not lost:
            return tooling
        given = READING if tooling.choice.allow is None else tooling.choice.allow
        choice = ToolChoice(tuple(name for name in given if name in READING), denied)
        return tooling._replace(choice=choice, refused=lost)

    def _chosen(
        self, wanted: RequestedTools, mode: Mode | None, denied: tuple[str, ...], rules: tuple[Rule, ...]
    ) -> ToolSelection:
        if wanted.allow is None or EVERY in wanted.allow:
            kept = tuple(each for each in wanted.allow or () if named(each).narrow)
            if kept:
                self._say("tool-pattern", f"{one_line(kept[0], 64)} limits nothing beside *", wanted.line)
            return ToolSelection(ToolChoice(None, denied), rules, None, mode, tuple(self._findings))
        entries = [named(each) for each in wanted.allow[:MOST]]
        names = self._names(entries, wanted.line)
        sends = self._sends(entries)
        limits, mode = self._limited(entries, names, mode, wanted.line)
        choice = ToolChoice(tuple(_unique(names)), denied)
        return ToolSelection(choice, merge(rules, limits), sends, mode, tuple(self._findings))

    def called(self, name: str) -> tuple[str, ...]:
        """Our names for a tool of this dialect; nothing when there is none."""
        found = tools_called(name, self._families)
        if self._modules and not found:
            found = tools_called(name.rpartition(":")[2], self._families)
        if found or not self._servers:
            return found
        server, slash, tool = name.removeprefix("@").partition("/")
        if self._servers == "/" and slash and server and tool:
            return (f"{MCP}{server}__{tool}",)
        if name.startswith("@") and server and not slash:
            return (f"{MCP}{server}",)
        return ()

    def _names(self, entries: Sequence[ToolEntry], line: int | None) -> list[str]:
        names: list[str] = []
        unknown: list[str] = []
        for entry in entries:
            found = self.called(entry.name)
            if not found:
                unknown.append(entry.name)
            elif same_name(entry.name) in RETIRED and found[0] != entry.name:
                self._say("tool-retired", f"the tool {entry.name} was read as {found[0]}", line)
            names += found or ((entry.text if entry.narrow else entry.name)[:LONGEST],)
        for name in unknown:
            self._say("tool-unknown", f"the tool {one_line(name, 64)} is not known here", line)
        if entries and len(unknown) == len(entries):
            said = "no tool of its list is known here, so it has none"
            self._say("tools-unresolved", said, line)
        if not entries:
            self._say("tools-empty", "its list of tools is empty, so it has none", line)
        return names

    def _sends(self, entries: Sequence[ToolEntry]) -> tuple[str, ...] | None:
        """The agents that the file allows to start; None when it does not say."""
        limits = [
            entry for entry in entries if entry.narrow and self.called(entry.name)[:1] in _as_lists(_SENDING)
        ]
        if not limits:
            return None
        return tuple(_unique(name for entry in limits for name in split_names(entry.pattern)))

    def _limited(
        self, entries: Sequence[ToolEntry], names: Sequence[str], mode: Mode | None, line: int | None
    ) -> tuple[tuple[Rule, ...], Mode | None]:
        """The rules that limit a tool to the calls which the file names, and the mode they apply in."""
        whole = {
            name for entry in entries if not entry.narrow for name in self.called(entry.name) or (entry.name,)
        }
        rules: list[Rule] = []
        for entry in entries:
            for tool in self.called(entry.name) if entry.narrow else ():
                if tool in whole or tool in _SENDING:
                    continue
                rules += self._limit(tool, entry, mode, line)
        commands = tuple(rule.pattern for rule in rules if (rule.tool, rule.action) == ("Bash", Action.ALLOW))
        if commands:  # also those that only read, which no mode asks about
            rules.append(Rule("Bash", EVERY, Action.ASK, self._origin, commands))
        if not any(rule.action is Action.ALLOW for rule in rules):
            return tuple(rules), mode
        if mode in (Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.PLAN, Mode.UNATTENDED):
            return tuple(rules), mode
        if mode is Mode.DONT_ASK:
            said = "its mode was read as default, because it names single calls of a tool"
            self._say("mode-narrowed", said, line)
        free = [self._rule(name, "*", Action.ALLOW) for name in _unique(names) if name in whole]
        return (*rules, *free), Mode.DEFAULT

    def _limit(self, tool: str, entry: ToolEntry, mode: Mode | None, line: int | None) -> list[Rule]:
        wide = mode is Mode.PLAN and tool in ("WebFetch", "http_get")
        edits = mode is Mode.ACCEPT_EDITS and tool in ("Write", "Edit")
        if tool in _ASKED_ANYWAY and not wide and not edits:
            said = f"{one_line(entry.text, 64)} was read as {tool}, where other calls need approval"
            self._say("tool-pattern", said, line)
            return [self._rule(tool, entry.pattern, Action.ALLOW)]
        said = f"{tool} cannot be limited to {one_line(entry.pattern, 64)}, so every call needs approval"
        self._say("tool-pattern", said, line)
        return [self._rule(tool, "*", Action.ASK)]

    def _denied(self, wanted: RequestedTools) -> tuple[tuple[str, ...], tuple[Rule, ...], str]:
        """The tools a file takes away, a deny rule for every call (not a whole tool) that it does, and the
        first such entry that is not understood.
        """
        names: list[str] = []
        rules: list[Rule] = []
        lost = ""
        for entry in map(named, wanted.deny):
            if entry.text == EVERY:
                continue
            found = self.called(entry.name) or tools_denied(entry.name, self._families)
            if found is None and not lost:
                lost = entry.text
                said = f"{one_line(entry.text, 64)}, which it takes away, is not known here; it can only read"
                self._say("denial-unknown", said, wanted.denied_at)
            for tool in found or (entry.name[:LONGEST],):
                if entry.narrow:
                    rules.append(self._rule(tool, entry.pattern, Action.DENY))
                else:
                    names.append(tool)
        return tuple(_unique(names)), tuple(rules), lost

    def _rule(self, tool: str, pattern: str, action: Action) -> Rule:
        return Rule(tool, pattern, action, self._origin)

    def _say(self, code: str, message: str, line: int | None) -> None:
        self._findings.append(FileFinding(code, message, line))


def _as_lists(names: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    return tuple((name,) for name in names)


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


_PARTS = ("mode", "allow", "deny")
_WORDS = {
    **dict.fromkeys(("allow", "allowed", "include", "included", "only"), "allow"),
    **dict.fromkeys(("deny", "denied", "disallow", "disallowed", "exclude", "excluded", "block"), "deny"),
    "ask": "ask",
}
"""Words for lists of tools that other products know."""


def requested_tools(fields: Fields) -> RequestedTools:
    """The tools that a file asks for."""
    wanted = _tools(fields)
    if "allowed-tools" in fields.values:
        wanted = _with_allowed(fields, wanted)
    denied = _denied(fields)
    deny = tuple(dict.fromkeys((*wanted.deny, *denied)))
    lines = (fields.line("tools") or fields.line("allowed-tools"), fields.line("disallowed-tools"))
    return RequestedTools(wanted.allow, deny, lines[0], lines[1] or lines[0])


def switched(fields: Fields, field: str, switches: dict[str, Any]) -> RequestedTools:
    """Tools that are switched on and off by name.

    Where nothing is switched off the names are a list: its author may have meant no more than these. So are
    they where a switch is neither on nor off.
    """
    on = [name for name, value in switches.items() if switch(value)]
    off = [name for name, value in switches.items() if switch(value) is False]
    odd = [name for name in switches if name not in on and name not in off]
    for name in odd:
        fields.say("bad-value", f"{one_line(name, 64)} is neither true nor false", fields.line(field))
    if EVERY in off or odd:
        return RequestedTools(
            tuple(name for name in on if name != EVERY), tuple(each for each in off if each != EVERY)
        )
    if not on or off or EVERY in on:
        return RequestedTools(None, tuple(off))
    said = "it only switches tools on, so it has these and no others"
    fields.say("tools-switched-on", said, fields.line(field))
    return RequestedTools(tuple(on))


def _tools(fields: Fields) -> RequestedTools:
    if "tools" not in fields.values:
        return RequestedTools()
    value = fields.values["tools"]
    if isinstance(value, dict):
        parts = cast("dict[str, Any]", value)
        if fields.strict or all(key in _PARTS for key in parts):
            return _ours(fields, parts)
        if any(same_name(key) in _WORDS and isinstance(each, list | str) for key, each in parts.items()):
            return _sorted_lists(fields, parts)
        return switched(fields, "tools", parts)
    allow, deny = _names(fields, "tools", value)
    return RequestedTools(tuple(allow), tuple(deny))


def _sorted_lists(fields: Fields, parts: dict[str, Any]) -> RequestedTools:
    """Lists of tools under words such as allow, include and exclude. What is only asked is not given."""
    lists: dict[str, list[str]] = {}
    for key, value in parts.items():
        kind = _WORDS.get(same_name(key), "")
        if kind == "deny":
            lists.setdefault(kind, []).extend(denials(value))
        elif kind == "allow":
            allow, deny = _names(fields, "tools", value)
            lists.setdefault(kind, []).extend(allow)
            lists.setdefault("deny", []).extend(deny)
        else:
            said = f"tools.{one_line(key, 64)} is not understood, so it has only what is allowed"
            fields.say("bad-value", said, fields.line("tools"))
            lists.setdefault("allow", [])
    allow = lists.get("allow")
    return RequestedTools(None if allow is None else tuple(allow), tuple(lists.get("deny", ())))


def _ours(fields: Fields, parts: dict[str, Any]) -> RequestedTools:
    for key in parts:
        if key not in _PARTS:
            fields.refuse("tools", f"tools has no part {one_line(key, 64)!r}, only {', '.join(_PARTS)}")
    if fields.strict:
        fields.texts("tools", parts.get("deny"))
    deny = tuple(denials(parts.get("deny")))
    mode = parts.get("mode") or ("denylist" if "deny" in parts and "allow" not in parts else "allowlist")
    if mode == "denylist":
        if parts.get("allow"):
            fields.refuse("tools", "tools.allow contradicts the mode denylist; take one of them out")
        return RequestedTools(None, deny)
    if mode != "allowlist":
        said = f"tools.mode must be allowlist or denylist, not {one_line(str(mode), 64)!r}"
        fields.refuse("tools", said)
    allow, taken = _names(fields, "tools", parts.get("allow"))
    return RequestedTools(tuple(allow), (*deny, *taken))


def _with_allowed(fields: Fields, wanted: RequestedTools) -> RequestedTools:
    """`allowed-tools` belongs in skills. In an agent it can only narrow."""
    line = fields.line("allowed-tools")
    names, denied = _names(fields, "allowed-tools", fields.values["allowed-tools"])
    allowed, deny = tuple(names), (*wanted.deny, *denied)
    if wanted.allow is None or EVERY in wanted.allow:
        fields.say("allowed-tools", "allowed-tools was read as tools", line)
        return RequestedTools(allowed, deny)
    if fields.strict:
        fields.refuse("allowed-tools", "tools and allowed-tools are both given; keep tools")
    fields.say("allowed-tools", "tools and allowed-tools are both given; it has what is in both", line)
    both = {name for each in allowed for name in tools_called(each) or (each,)}
    kept = (each for each in wanted.allow if EVERY in allowed or {*(tools_called(each) or (each,))} & both)
    return RequestedTools(tuple(kept), deny)


def _names(fields: Fields, field: str, value: Any) -> tuple[list[str], list[str]]:
    """The tools that a field names, and those that it takes away among them."""
    if fields.strict:
        fields.texts(field, value)
    found = entries_of(value)
    if found is None:
        fields.wrong(field, f"{field} must be names of tools")
        return [], []
    kept = [name for name in found.names if len(name) <= LONGEST_LIST and name.isprintable()]
    if len(kept) < len(found.names):
        fields.wrong(field, f"{field} holds a text that is too long or invisible")
    for odd in found.odd:
        fields.wrong(field, f"{field} holds {one_line(odd, 64)}, which is not the name of a tool")
    return kept, denials([*found.denied])


def _denied(fields: Fields) -> list[str]:
    value = fields.values.get("disallowed-tools")
    if fields.strict:
        fields.texts("disallowed-tools", value)
    if value is not None and not isinstance(value, str | list | bool):
        fields.wrong("disallowed-tools", "disallowed-tools must be names of tools")
        return [EVERY]
    return denials(value)
