"""Agents room: what a file says about tools becomes a choice of tools, with rules where it names calls.

`Bash(git *)` is the tool and a limit: commands that the pattern covers count as usual, all others are asked
whatever the sender's mode is. `Agent(a, b)` says which agents may be sent. Nothing here ever turns a list
into all tools.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from gencode.agents.entries import split_names
from gencode.agents.file_errors import FileFinding
from gencode.agents.tool_names import MCP, READING, RETIRED, tools_called, tools_denied
from gencode.core.rules import Action, Mode, Rule, merge, written_in
from gencode.core.spec import ToolChoice, same_name
from gencode.runtime.prompt import one_line

EVERY = "*"
LONGEST = 200
MOST = 500
_SENDING = ("Task", "spawn_subagent")
_ASKED_ANYWAY = ("Bash", "Write", "Edit", "WebFetch", "http_get")
"""What the mode default asks about, so that an allow rule for a pattern limits it to the pattern."""


class ToolEntry(NamedTuple):
    """One entry of a list of tools: the name before a parenthesis, and what stands in it."""

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
    """A denial that nobody understands."""


class RequestedTools(NamedTuple):
    """What a file says about tools, in its own words; `allow` None is all tools."""

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
        """The tools of a file whose mode is `mode` (None: its sender's)."""
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
        """The agents that the file says may be sent; None when it does not say."""
        limits = [
            entry for entry in entries if entry.narrow and self.called(entry.name)[:1] in _as_lists(_SENDING)
        ]
        if not limits:
            return None
        return tuple(_unique(name for entry in limits for name in split_names(entry.pattern)))

    def _limited(
        self, entries: Sequence[ToolEntry], names: Sequence[str], mode: Mode | None, line: int | None
    ) -> tuple[tuple[Rule, ...], Mode | None]:
        """The rules that keep a tool to the calls which the file names, and the mode they count in."""
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
            said = f"{one_line(entry.text, 64)} was read as {tool}, where other calls than these are asked"
            self._say("tool-pattern", said, line)
            return [self._rule(tool, entry.pattern, Action.ALLOW)]
        said = f"{tool} cannot be kept to {one_line(entry.pattern, 64)}, so every call of it is asked"
        self._say("tool-pattern", said, line)
        return [self._rule(tool, "*", Action.ASK)]

    def _denied(self, wanted: RequestedTools) -> tuple[tuple[str, ...], tuple[Rule, ...], str]:
        """The tools a file takes away, a deny rule for every call (not a whole tool) that it does, and the
        first entry of which nobody knows what it takes away.
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
