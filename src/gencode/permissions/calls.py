"""The facts about a tool call that a permission decision uses, and the subject that rules match."""

import re
from collections.abc import Iterator, Set
from typing import Any, Literal, NamedTuple, cast
from urllib.parse import urlsplit

from msgspec import Struct

from gencode.core.rules import Action, Effect, Mode, Policy, Rule, RuleSource
from gencode.core.spec import FORK, Workspace, same_name
from gencode.permissions.paths import shown

Source = Literal["builtin", "plugin", "mcp"]
AgentKind = Literal["builtin-reader", "other", ""]
SpawnApproval = Literal["never", "session", "always"]
"""When starting an agent needs approval: never, once in a session (but for built-in readers), every time."""

FETCH_TOOLS = frozenset({"WebFetch", "http_get"})
SPAWN_TOOLS = frozenset({"Task", "spawn", "spawn_subagent"})
REACH_TOOLS = frozenset({"http_post", "http_request", "message", "cron", "set_env"})

_MAY_THEN = {
    Mode.ACCEPT_EDITS: "change the files of the workspace without asking",
    Mode.DONT_ASK: "run any command and change any file without asking, except where a rule says otherwise",
}
_AGENT_ALIASES = {"general": "generalpurpose", "planner": "plan"}


class Approval(NamedTuple):
    """What a person approved for the rest of a session: a tool, a host, an agent or its wider mode.

    A `grant` is for an agent in this `mode` that the task `caller` sends; `reads` for an MCP tool that the
    user's settings approve as one that only reads.
    """

    kind: Literal["tool", "host", "agent", "grant", "reads"]
    name: str
    caller: str = ""
    mode: Mode | None = None


class CallFacts(Struct, frozen=True, kw_only=True):
    """One call and everything around it that its decision depends on.

    `answerable`: a person can be asked. `background`: nobody took on the questions of this agent, whatever
    `answerable` says. `named`: tools that the agent's own file names; `of_project`: it came with a folder.
    `own`: the target of TaskOutput, TaskStop, SendMessage or KillShell belongs to the caller; `kin`: it is
    the caller's parent or sibling.
    `already`: what a person approved for the rest of this session. `grant`: the wider mode a person
    gave the last policy of the chain. `caller`: the task that makes the call. `widens`: the mode of the agent
    that would be sent, where it is wider than the caller's and only a person can give it. `spawn_approval`:
    what the setting of that name says. `web_read_hosts`: hosts that agents in plan mode may read from.
    """

    tool: str
    input: dict[str, Any]
    effect: Effect
    workspace: Workspace
    source: Source = "builtin"
    aliases: tuple[str, ...] = ()
    background: bool = False
    answerable: bool = True
    named: frozenset[str] = frozenset()
    of_project: bool = False
    agent_kind: AgentKind = ""
    own: bool = False
    kin: bool = False
    already: Set[Approval] = frozenset()
    grant: Mode | None = None
    caller: str = ""
    widens: Mode | None = None
    spawn_approval: SpawnApproval = "session"
    web_read_hosts: tuple[str, ...] = ()


def is_mcp(call: CallFacts) -> bool:
    """Whether the call goes to an MCP server, by where the tool came from or by its name."""
    return call.source == "mcp" or call.tool.startswith("mcp__")


def agent_of(tool: str, arguments: dict[str, Any]) -> str:
    """The name of the agent that a spawning call would start."""
    if tool == "Task":
        return FORK if arguments.get("context") == FORK else _text(arguments.get("subagent_type"))
    if tool == "spawn_subagent":
        return _text(arguments.get("type", "general"))
    return "general-purpose"


def agent_key(name: str) -> str:
    """The key under which agents are compared, the aliases of the contract included."""
    key = same_name(name)
    return _AGENT_ALIASES.get(key, key)


def host_of(arguments: dict[str, Any]) -> str:
    """The host of the URL a call would fetch, or an empty text when there is none to be sure of."""
    try:
        host = urlsplit(_text(arguments.get("url"))).hostname
    except ValueError:
        return ""
    return (host or "").removesuffix(".")


def reads_from(call: CallFacts, host: str) -> bool:
    """Whether the settings let agents that only read fetch from this host."""
    return bool(host) and any(_fits(pattern, host, strict=False) for pattern in call.web_read_hosts)


def approval_for(call: CallFacts) -> Approval | None:
    """What an approval stands for in the rest of the session; None when it is for this one call only."""
    if is_mcp(call):
        return Approval("tool", call.tool)
    if call.source != "builtin":
        return None
    if call.tool in FETCH_TOOLS:
        host = host_of(call.input)
        return Approval("host", host) if host else None
    if call.tool in SPAWN_TOOLS:
        agent = agent_of(call.tool, call.input)
        if call.widens is not None:
            return grant_approval(call.caller, agent, call.widens)
        if call.spawn_approval == "always":
            return None
        return Approval("agent", key) if (key := agent_key(agent)) else None
    return Approval("tool", call.tool) if call.tool in REACH_TOOLS else None


def grant_approval(caller: str, agent: str, mode: Mode) -> Approval:
    """The approval of a wider mode: for this agent in this mode, started by this one task."""
    return Approval("grant", agent_key(agent), caller, mode)


def wider_words(call: CallFacts) -> str:
    """What an agent with a wider mode may do once the user approves; empty when its mode is not wider."""
    return "" if call.widens is None else wider_mode_words(agent_of(call.tool, call.input), call.widens)


def wider_mode_words(agent: str, mode: Mode) -> str:
    """What an agent may do once the user approves this mode for it."""
    then = _MAY_THEN.get(mode, "do more than its parent")
    return f"the agent {shown(agent)} works in the wider mode {mode}: if approved, it may {then}"


def names_agent(rule: Rule, agent: str) -> bool:
    """Whether whoever started this run allows this very agent to be started, and with it its wider mode."""
    by_person = rule.action is Action.ALLOW and rule.origin.source is RuleSource.FLAG
    return by_person and rule.tool in SPAWN_TOOLS and agent_key(rule.pattern) == agent_key(agent)


def rule_for(call: CallFacts, policy: Policy, action: Action) -> Rule | None:
    """The first rule of this action that speaks of this call; for tools that take no path or command.

    A deny or ask rule with a pattern matches when any text of the input fits it; an allow rule only when the
    agent or the host fits, because nothing else about these calls can be shown to be covered.
    """
    for rule in policy.rules:
        if rule.action is not action or not speaks_of(rule, call):
            continue
        if rule.blanket:
            return rule
        strict = action is not Action.ALLOW
        subjects = [subject] if (subject := _subject(call)) else []
        if rule.unless:
            if any(_fits(each, text, strict=False) for each in rule.unless for text in subjects):
                continue
            return rule
        if strict:
            subjects.extend(_texts(call.input))
        if any(_fits(rule.pattern, text, strict=strict) for text in subjects):
            return rule
        if subjects and call.tool in SPAWN_TOOLS and agent_key(rule.pattern) == agent_key(subjects[0]):
            return rule
    return None


def speaks_of(rule: Rule, call: CallFacts) -> bool:
    """Whether a rule names this tool. Deny and ask rules may also use another spelling or an alias."""
    if rule.names(call.tool):
        return True
    if rule.action is Action.ALLOW:
        return False
    key = same_name(rule.tool)
    return any(key == same_name(name) for name in (call.tool, *call.aliases))


def _subject(call: CallFacts) -> str:
    if call.tool in SPAWN_TOOLS:
        return agent_of(call.tool, call.input)
    return host_of(call.input) if call.tool in FETCH_TOOLS else ""


def _fits(pattern: str, text: str, *, strict: bool) -> bool:
    domain = pattern.removeprefix("domain:")
    if strict and domain != pattern and text.casefold().endswith("." + domain.casefold()):
        return True
    first, *others = (re.escape(piece) for piece in domain.split("*"))
    if not others:
        return text.casefold() == domain.casefold()
    middle = "".join(f"(?>.*?{piece})" for piece in others[:-1] if piece)
    return re.match(f"{first}{middle}.*{others[-1]}\\Z", text, re.DOTALL | re.IGNORECASE) is not None


def _texts(value: object) -> Iterator[str]:
    """Every text inside an input, keys of inner objects included."""
    todo: list[object] = [value]
    while todo:
        each = todo.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            inner = cast("dict[object, object]", each)
            todo.extend((*inner.keys(), *inner.values()))
        elif isinstance(each, list | tuple):
            todo.extend(cast("list[object]", each))


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
