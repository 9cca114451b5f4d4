"""opencode: tools are switched on and off, permissions are patterns of which the last match counts.

Here the strictest rule counts, so patterns are carried over in the way that never lets more through: where a
file refuses or asks everything but some commands, those count as usual and all others are asked.
"""

from pathlib import PurePath
from typing import Any, NamedTuple, cast

from msgspec.structs import replace

from gencode.agents.dialect import COMMON, Dialect, Parsed, spelled
from gencode.agents.fields import Fields
from gencode.agents.tool_lists import EVERY, Wanted
from gencode.agents.tool_names import USUAL, tools_called
from gencode.agents.tools_field import tools_wanted
from gencode.core.rules import Action, Mode, Rule, merge
from gencode.core.spec import AgentSpec, ToolChoice
from gencode.runtime.prompt import one_line

FIELDS = {
    **COMMON,
    **spelled(
        permission="permission permissions",
        kind="mode",
        max_turns="max-turns steps maxSteps",
        prompt="prompt system",
        off="disable disabled",
        nothing="variant top_p options request",
    ),
}
_KEYS = {
    "edit": ("Edit", "Write"),
    "read": ("Read", "LS"),
    "external_directory": (),
    "doom_loop": (),
    "lsp": (),
}
_ASKED = ("Bash", "Write", "Edit", "WebFetch")
_AGENTS = ("agent", "agents")


class _Says(NamedTuple):
    """What a file says about one tool: about all its calls, and about some."""

    always: Action | None
    some: tuple[tuple[str, Action], ...] = ()


def prepare(parsed: Parsed) -> Parsed:
    """The old name of the turn limit gives way to the new one."""
    fields = dict(parsed.fields)
    if "steps" in fields:
        fields.pop("maxSteps", None)
    return replace(parsed, fields=fields)


def wanted(fields: Fields) -> Wanted:
    """The tools that are switched, without those that are refused as a whole."""
    found = tools_wanted(fields)
    refused = [
        key
        for key, says in _permissions(fields).items()
        if says.always is Action.DENY and not says.some and key != EVERY
    ]
    return found._replace(deny=tuple(dict.fromkeys((*found.deny, *refused))))


def finish(spec: AgentSpec, fields: Fields) -> AgentSpec:
    """Permissions become rules; an agent that only leads conversations is not offered to others."""
    if fields.truth("off"):
        fields.refuse("off", "it is switched off (disable: true)")
    permissions = _permissions(fields)
    spec = _carried(spec, fields, permissions)
    if EVERY in permissions:
        spec = _all_others(spec, permissions)
    return replace(spec, hidden=spec.hidden or fields.word("kind").casefold() == "primary")


def called(path: PurePath) -> str:
    """The path below the folder of agents."""
    parts = path.with_suffix("").parts
    place = max((at for at, part in enumerate(parts[:-1]) if part in _AGENTS), default=len(parts) - 2)
    return "/".join(parts[place + 1 :])


def _permissions(fields: Fields) -> dict[str, _Says]:
    value = fields.values.get("permission")
    if isinstance(value, str):
        value = {EVERY: value}
    if not isinstance(value, dict):
        return {}
    return {key.casefold(): _says(each) for key, each in cast("dict[str, Any]", value).items()}


def _says(value: Any) -> _Says:
    """An action, or patterns with actions. A word that is no action is taken for ask."""
    if not isinstance(value, dict):
        return _Says(_action(value))
    always: Action | None = None
    some: dict[str, Action] = {}
    for pattern, action in cast("dict[str, Any]", value).items():
        if pattern.strip() in (EVERY, "**"):
            always = _action(action)
            some.clear()
        else:
            some[pattern.strip()] = _action(action)
    return _Says(always, tuple(some.items()))


def _action(value: Any) -> Action:
    word = str(value).casefold()
    return Action(word) if word in ("allow", "ask", "deny") else Action.ASK


def _carried(spec: AgentSpec, fields: Fields, permissions: dict[str, _Says]) -> AgentSpec:
    rules: list[Rule] = []
    deny = list(spec.tools.deny)
    mode, sends, origin = spec.mode, spec.sends, fields.path
    for key, says in permissions.items():
        tools = _KEYS.get(key) if key in _KEYS else tools_called(key)
        if key == EVERY or not tools:
            continue
        if says.always is Action.DENY and not says.some:
            deny += tools
        elif tools == ("Task",) and says.always in (Action.DENY, Action.ASK):
            sends = tuple(name for name, action in says.some if action is Action.ALLOW)
        elif says.always in (Action.DENY, Action.ASK) and any(each is Action.ALLOW for _, each in says.some):
            rules += _excepted(tools, says, origin)
            mode = mode if mode in (Mode.PLAN, Mode.UNATTENDED) else Mode.DEFAULT
            said = f"{one_line(key, 64)}: what it does not allow by a pattern is asked"
            fields.say("permission-read", said, fields.line("permission"))
        else:
            rules += _ruled(tools, says, origin)
    choice = ToolChoice(spec.tools.allow, tuple(dict.fromkeys(deny)))
    return replace(spec, tools=choice, rules=merge(spec.rules, rules), mode=mode, sends=sends)


def _all_others(spec: AgentSpec, permissions: dict[str, _Says]) -> AgentSpec:
    """`*` speaks of every tool that no other key speaks of."""
    always = permissions[EVERY].always
    if always is Action.ALLOW:
        return spec
    spoken = {tool for key in permissions if key != EVERY for tool in _KEYS.get(key) or tools_called(key)}
    if always is Action.DENY:
        allow = USUAL if spec.tools.allow is None else spec.tools.allow
        choice = ToolChoice(tuple(name for name in allow if name in spoken), spec.tools.deny)
        return replace(spec, tools=choice)
    asks = [Rule(name, EVERY, Action.ASK, spec.source) for name in USUAL if name not in spoken]
    return replace(spec, rules=merge(spec.rules, asks))


def _excepted(tools: tuple[str, ...], says: _Says, origin: str) -> list[Rule]:
    rules: list[Rule] = []
    for tool in tools:
        if tool not in _ASKED:
            rules.append(Rule(tool, EVERY, Action.ASK, origin))
            continue
        for pattern, action in says.some:
            rules += [Rule(tool, each, action, origin) for each in _patterns(tool, pattern, action)]
    return rules


def _ruled(tools: tuple[str, ...], says: _Says, origin: str) -> list[Rule]:
    rules = [Rule(tool, EVERY, Action.ASK, origin) for tool in tools if says.always is Action.ASK]
    for pattern, action in says.some:
        if action is Action.ALLOW:
            continue
        for tool in tools:
            rules += [Rule(tool, each, action, origin) for each in _patterns(tool, pattern, action)]
            if tool == "Bash" and EVERY in pattern[:-1]:
                # Their star also spans words, ours does not: what cannot be carried over is asked.
                rules.append(Rule(tool, EVERY, Action.ASK, origin))
    return rules


def _patterns(tool: str, pattern: str, action: Action) -> tuple[str, ...]:
    """A pattern in our words. At its end their star stands for more words, too."""
    if tool != "Bash" or not pattern.endswith(EVERY) or pattern.endswith(" *"):
        return (pattern,)
    stem = pattern.rstrip(EVERY).rstrip(":")
    if action is Action.ALLOW:
        return (stem, f"{stem} *")
    return (pattern, f"{pattern} *")


DIALECT = Dialect(
    "opencode",
    project=(".opencode/agent", ".opencode/agents"),
    user=(".config/opencode/agent", ".config/opencode/agents"),
    fields=FIELDS,
    prepare=prepare,
    wanted=wanted,
    finish=finish,
    called=called,
)
