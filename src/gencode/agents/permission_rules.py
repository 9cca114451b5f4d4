"""Turns the permissions of opencode and Kilo (tools and patterns with actions) into rules.

There the last match applies, here the strictest rule. So patterns are translated in the way that never allows
more; if something is unknown, the agent keeps only the tools that read.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from gencode.agents.agent_fields import Fields, normalized
from gencode.agents.tool_lists import EVERY, RequestedTools, switch
from gencode.agents.tool_names import MCP, READING, USUAL, tools_called, tools_denied
from gencode.core.rules import Action, Mode, Rule, RuleOrigin, merge, written_in
from gencode.core.spec import AgentSpec, ToolChoice
from gencode.core.structs import replace
from gencode.core.text import one_line

_KEYS = {
    "edit": ("Edit", "Write"),
    "read": ("Read", "LS"),
    "external_directory": (),
    "doom_loop": (),
    "lsp": (),
}
_NAMES = ("permission", "tool", "capability", "key", "name")
_PATTERNS = ("pattern", "resource", "match", "patterns")
_ACTIONS = ("action", "effect", "decision")
PATHS = frozenset(("Read", "LS", "Grep", "Glob", "Write", "Edit"))


class ToolPermissions(NamedTuple):
    """The permissions of one tool in a file: for all its calls, and for some."""

    always: Action | None
    some: tuple[tuple[str, Action], ...] = ()

    @property
    def refuses(self) -> bool:
        """Whether no call of the tool is left."""
        return self.always is Action.DENY and all(action is Action.DENY for _, action in self.some)

    def of(self, *actions: Action) -> tuple[str, ...]:
        """The patterns with one of these actions."""
        return tuple(pattern for pattern, action in self.some if action in actions)


class PermissionMap(NamedTuple):
    """The rules for each tool by its key; `odd` are parts that are unknown."""

    says: dict[str, ToolPermissions]
    odd: tuple[str, ...] = ()


class _PermissionLine(NamedTuple):
    key: str
    pattern: str
    action: Action


def permissions_of(fields: Fields) -> PermissionMap:
    """The permissions of a file, each key with everything that applies to it."""
    value = fields.values.get("permission")
    if value is None:
        return PermissionMap({})
    odd: list[str] = []
    lines = [each for line in _lines(value, odd) for each in _concrete(line)]
    keys = dict.fromkeys(line.key for line in lines)
    return PermissionMap({key: _says(lines, key) for key in keys}, tuple(odd))


def tools_of(key: str) -> tuple[str, ...]:
    """Our tools that a key speaks of."""
    if key in _KEYS:
        return _KEYS[key]
    return tools_called(key)


def _lines(value: Any, odd: list[str]) -> Iterator[_PermissionLine]:
    """The rules, one line for each pattern."""
    if isinstance(value, dict):
        for key, said in cast("dict[str, Any]", value).items():
            patterns = cast("dict[str, Any]", said).items() if isinstance(said, dict) else [(EVERY, said)]
            for pattern, action in patterns:
                yield _PermissionLine(normalized(key).strip().casefold(), pattern.strip(), _action(action))
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _rule_lines(each, odd)
    elif isinstance(value, str | bool):
        yield _PermissionLine(EVERY, EVERY, _action(value))
    else:
        odd.append(repr(value))


def _rule_lines(value: Any, odd: list[str]) -> Iterator[_PermissionLine]:
    """One rule of a list, such as `{permission: bash, pattern: "rm *", action: deny}`."""
    rule = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    key, pattern, action = (
        next((rule[name] for name in names if name in rule), None) for names in (_NAMES, _PATTERNS, _ACTIONS)
    )
    patterns = cast("list[Any]", pattern) if isinstance(pattern, list) else [pattern or EVERY]
    if not isinstance(key, str) or action is None or not all(isinstance(each, str) for each in patterns):
        odd.append(repr(cast("Any", value)))
        return
    for each in patterns:
        yield _PermissionLine(normalized(key).strip().casefold(), str(each).strip(), _action(action))


def _concrete(line: _PermissionLine) -> Iterator[_PermissionLine]:
    """A line for each tool that a key with a star means."""
    yield line
    if line.key != EVERY and EVERY in line.key:
        for tool in tools_denied(line.key) or ():
            if not tool.startswith(MCP):
                yield line._replace(key=tool.casefold())


def _says(lines: list[_PermissionLine], key: str) -> ToolPermissions:
    always: Action | None = None
    some: dict[str, Action] = {}
    for line in lines:
        if line.key not in (key, EVERY):
            continue
        if line.pattern in ("", EVERY, "**"):
            always = line.action
            some.clear()
        else:
            some.pop(line.pattern, None)
            some[line.pattern] = line.action
    return ToolPermissions(always, tuple(some.items()))


def _action(value: Any) -> Action:
    """The action of a word; an unknown one denies."""
    word = str(value).strip().casefold()
    if word in ("ask", "prompt", "confirm"):
        return Action.ASK
    return Action.ALLOW if switch(value) else Action.DENY


def rules_for(tool: str, says: ToolPermissions, origin: RuleOrigin) -> list[Rule]:
    """The rules for a tool whose calls can be distinguished by a pattern."""
    rules: list[Rule] = []
    for pattern, action in says.some:
        if action is Action.ALLOW and says.always not in (Action.ASK, Action.DENY):
            continue
        rules += [Rule(tool, each, action, origin) for each in _patterns(tool, pattern, action)]
        if tool == "Bash" and action is not Action.ALLOW and EVERY in pattern[:-1]:
            # Their star also matches across words, ours does not: what cannot be translated needs approval.
            rules.append(Rule(tool, EVERY, Action.ASK, origin))
    if says.always is not None and says.always is not Action.ALLOW:
        left = (Action.ALLOW, Action.ASK) if says.always is Action.DENY else (Action.ALLOW,)
        unless = [each for one in says.of(*left) for each in _patterns(tool, one, Action.ALLOW)]
        rules.append(Rule(tool, EVERY, says.always, origin, tuple(dict.fromkeys(unless))))
    return rules


def _patterns(tool: str, pattern: str, action: Action) -> tuple[str, ...]:
    """A pattern in our syntax. Their star also matches spaces and slashes."""
    if tool in PATHS and action is not Action.ALLOW and EVERY in pattern:
        return (pattern, pattern.replace("**", EVERY).replace(EVERY, "**"))
    if tool != "Bash" or not pattern.endswith(EVERY) or pattern.endswith(" *"):
        return (pattern,)
    stem = pattern.rstrip(EVERY).rstrip(":")
    if action is Action.ALLOW:
        return (stem, f"{stem} *") if stem else ()
    return (pattern, f"{pattern} *")


def _told(fields: Fields, odd: tuple[str, ...]) -> None:
    """Say which parts are not understood."""
    for each in odd:
        said = f"the permission {one_line(each, 64)} is not understood, so it can only read"
        fields.say("permission-unknown", said, fields.line("permission"))


def without_refused(wanted: RequestedTools, fields: Fields) -> RequestedTools:
    """What a file wants of tools, without those that its permissions refuse as a whole."""
    says = permissions_of(fields).says
    refused = [key for key, each in says.items() if each.refuses and key != EVERY]
    return wanted._replace(deny=tuple(dict.fromkeys((*wanted.deny, *refused))))


def with_permissions(spec: AgentSpec, fields: Fields) -> AgentSpec:
    """An agent with what its permissions say; nothing of it gives more."""
    permissions = permissions_of(fields)
    spec = _carried(spec, fields, permissions.says)
    if EVERY in permissions.says:
        spec = _all_others(spec, permissions.says)
    if permissions.odd:
        _told(fields, permissions.odd)
        given = READING if spec.tools.allow is None else spec.tools.allow
        left = tuple(name for name in given if name in READING)
        spec = replace(spec, tools=ToolChoice(left, spec.tools.deny))
    return spec


def _carried(spec: AgentSpec, fields: Fields, permissions: dict[str, ToolPermissions]) -> AgentSpec:
    rules: list[Rule] = []
    deny = list(spec.tools.deny)
    mode, sends, origin = spec.mode, spec.sends, written_in(fields.path)
    for key, says in permissions.items():
        tools = tools_of(key)
        if key == EVERY or not tools:
            continue
        if says.refuses:
            deny += tools
        elif tools == ("Task",) and says.always in (Action.DENY, Action.ASK):
            sends = says.of(Action.ALLOW)
        elif {*tools} <= {"Bash", *PATHS}:
            rules += [rule for tool in tools for rule in rules_for(tool, says, origin)]
            if says.always in (Action.DENY, Action.ASK) and says.of(Action.ALLOW):
                mode = mode if mode in (Mode.PLAN, Mode.UNATTENDED) else Mode.DEFAULT
                end = "is refused" if says.always is Action.DENY else "needs approval"
                said = f"{one_line(key, 64)}: what no pattern allows {end}"
                fields.say("permission-read", said, fields.line("permission"))
        elif says.always is Action.DENY:
            said = f"{one_line(key, 64)}: single calls cannot be told apart here, so all are refused"
            fields.say("permission-read", said, fields.line("permission"))
            deny += tools
        else:
            rules += [rule for tool in tools for rule in _coarse(tool, says, origin)]
    choice = ToolChoice(spec.tools.allow, tuple(dict.fromkeys(deny)))
    return replace(spec, tools=choice, rules=merge(spec.rules, rules), mode=mode, sends=sends)


def _coarse(tool: str, says: ToolPermissions, origin: RuleOrigin) -> list[Rule]:
    """The rules for a tool of which only calls that need approval or are refused can be recognised."""
    rules = [Rule(tool, EVERY, Action.ASK, origin)] if says.always is Action.ASK else []
    return rules + [
        Rule(tool, pattern, action, origin) for pattern, action in says.some if action is not Action.ALLOW
    ]


def _all_others(spec: AgentSpec, permissions: dict[str, ToolPermissions]) -> AgentSpec:
    """`*` speaks of every tool that no other key speaks of."""
    always = permissions[EVERY].always
    if always is Action.ALLOW:
        return spec
    spoken = {tool for key in permissions if key != EVERY for tool in tools_of(key)}
    if always is Action.DENY:
        allow = USUAL if spec.tools.allow is None else spec.tools.allow
        choice = ToolChoice(tuple(name for name in allow if name in spoken), spec.tools.deny)
        return replace(spec, tools=choice)
    asks = [Rule(name, EVERY, Action.ASK, written_in(spec.source)) for name in USUAL if name not in spoken]
    return replace(spec, rules=merge(spec.rules, asks))
