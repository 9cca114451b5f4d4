"""Decides about tools that take neither a path nor a command, by mode."""

from gencode.core.rules import (
    ALLOW,
    ASK,
    DENY,
    Action,
    Decision,
    Mode,
    Policy,
    Remedy,
    Rule,
    needs_removal,
    stricter,
)
from gencode.core.structs import replace
from gencode.core.text import word_set
from gencode.permissions.calls import (
    FETCH_TOOLS,
    REACH_TOOLS,
    SPAWN_TOOLS,
    Approval,
    CallFacts,
    agent_of,
    approval_for,
    host_of,
    is_mcp,
    reads_from,
    rule_for,
    wider_words,
)
from gencode.permissions.paths import described, shown

_FREE_TOOLS = word_set(
    "get_env TodoWrite ToolSearch ToolUse notify current_time sleep memory_list memory_read task_list "
    "task_replay Skill AskUserQuestion WebSearch"
)
_FREE_FAMILIES = ("json_", "base64_")
_OWN_TOOLS = frozenset({"TaskOutput", "TaskStop", "SendMessage", "KillShell"})
_TARGETS = ("task_id", "shell_id")
_LONGEST_ID = 40
_EVERYWHERE = "user"
"""The scope of notes that agents of all folders read."""
MEMORY_TOOLS = frozenset({"memory_write", "memory_patch", "memory_append"})
"""Who plans may keep notes too."""
NAMED_TOOLS = MEMORY_TOOLS | {"SendMessage"}
"""Tools of which it matters whether the agent's file names them."""

TABLE_TOOLS = _FREE_TOOLS | _OWN_TOOLS | MEMORY_TOOLS | FETCH_TOOLS | SPAWN_TOOLS | REACH_TOOLS


def decide_table(call: CallFacts, policy: Policy, *, own_mode: bool, nobody: bool) -> Decision:
    """What one policy says. `own_mode`: it is the last of a longer chain; `nobody`: none can be asked."""
    if rule := rule_for(call, policy, DENY):
        return _ruled(call, policy, DENY, described(rule))
    by_table = _row(call, policy, own_mode=own_mode, nobody=nobody)
    if rule := rule_for(call, policy, ASK):
        return stricter(_ruled(call, policy, ASK, described(rule)), by_table)
    if by_table.action is ASK and (rule := rule_for(call, policy, ALLOW)):
        return _ruled(call, policy, ALLOW, described(rule))
    return by_table


def _row(call: CallFacts, policy: Policy, *, own_mode: bool, nobody: bool) -> Decision:
    tool = call.tool
    if is_mcp(call):
        return _reaching(call, policy)
    if call.source != "builtin":
        return _foreign(call, policy)
    if tool in _OWN_TOOLS:
        return _owned(call, policy)
    if tool in _FREE_TOOLS or tool.startswith(_FREE_FAMILIES):
        return _say(call, policy, ALLOW, "this tool changes nothing outside the session")
    if tool in TABLE_TOOLS and policy.mode is Mode.DONT_ASK:
        return _autonomous(call, policy)
    if tool in FETCH_TOOLS:
        return _fetching(call, policy, own_mode=own_mode)
    if tool in SPAWN_TOOLS:
        return _spawning(call, policy, nobody=nobody)
    if tool in MEMORY_TOOLS:
        return _remembering(call, policy)
    if tool in REACH_TOOLS:
        return _reaching(call, policy)
    return _unknown(call, policy)


def _owned(call: CallFacts, policy: Policy) -> Decision:
    if call.own:
        return _say(call, policy, ALLOW, "it is the agent's own task or shell")
    if call.tool == "SendMessage" and call.kin:
        if call.tool in call.named:
            return _say(call, policy, ALLOW, "the agent's file names it, so it may reach its relatives")
        return _say(call, policy, DENY, "only an agent whose file names it may do this", Remedy.NAME_TOOL)
    target = next((call.input[name] for name in _TARGETS if name in call.input), None)
    named = f"{shown(target, _LONGEST_ID)} " if isinstance(target, str) else ""
    # Whether somebody else has one of that name is not said, and often not known.
    return _say(call, policy, DENY, f"there is no task or shell {named}of yours", Remedy.NOTHING)


def _foreign(call: CallFacts, policy: Policy) -> Decision:
    if policy.mode is Mode.DONT_ASK:
        return _autonomous(call, policy)
    if call.effect == "read":
        return _say(call, policy, ALLOW, "this added tool only reads")
    if policy.mode is Mode.PLAN:
        return _planned(call, policy)
    return _ask(call, policy, "an added tool that does more than read needs approval")


def _fetching(call: CallFacts, policy: Policy, *, own_mode: bool) -> Decision:
    if policy.mode is Mode.PLAN and own_mode:
        return _say(call, policy, ALLOW, "a subagent in plan mode may fetch what its parents allow")
    host = host_of(call.input)
    if reads_from(call, host):
        return _say(call, policy, ALLOW, f"the setting web_read_hosts names {shown(host)}")
    if _answered(call):
        return _say(call, policy, ALLOW, f"a person allowed {shown(host)} in this session")
    why = f"fetching from {shown(host)} needs approval once per session" if host else "the URL has no host"
    return _ask(call, policy, why, f"domain:{host}" if host else "")


def _spawning(call: CallFacts, policy: Policy, *, nobody: bool) -> Decision:
    always = call.spawn_approval == "always"
    if call.agent_kind == "builtin-reader" and not always:
        return _say(call, policy, ALLOW, "this built-in agent only reads")
    if _answered(call):
        given = f"granted it the mode {call.widens}" if call.widens else "allowed this agent"
        return _say(call, policy, ALLOW, f"a person {given} in this session")
    if nobody:
        why = "nobody can approve its wider mode in this run, so its parents' modes limit it"
        return _say(call, policy, ALLOW, why)
    agent = agent_of(call.tool, call.input)
    if wider := wider_words(call):
        asked = _ask(call, policy, wider, agent)
        return replace(asked, grants=call.widens)
    if call.spawn_approval == "never":
        return _say(call, policy, ALLOW, "the setting spawn_approval is never")
    how_often = "every time" if always else "once per session"
    return _ask(call, policy, f"starting {shown(agent)} needs approval {how_often}", agent)


def _remembering(call: CallFacts, policy: Policy) -> Decision:
    if call.of_project and call.input.get("scope") == _EVERYWHERE:
        return _ask(
            call, policy, "a note of yours is read in every folder, and the agent belongs to this one"
        )
    if call.tool in call.named:
        return _say(call, policy, ALLOW, "the agent's file names it")
    return _ask(call, policy, "only an agent whose file names it may do this without approval")


def _reaching(call: CallFacts, policy: Policy) -> Decision:
    if policy.mode is Mode.DONT_ASK:
        return _autonomous(call, policy)
    reads = is_mcp(call) and call.effect == "read" and Approval("reads", call.tool) in call.already
    if policy.mode is Mode.PLAN:
        why = "the server marks it as read-only, and the user's settings trust that"
        return _say(call, policy, ALLOW, why) if reads else _planned(call, policy)
    if _answered(call):
        return _say(call, policy, ALLOW, "a person allowed this tool in this session")
    return _ask(call, policy, "this tool needs approval once per session")


def _unknown(call: CallFacts, policy: Policy) -> Decision:
    """A tool the table does not list: the table is silent, so even dontAsk does not cover it."""
    if policy.mode is Mode.PLAN and call.effect != "read":
        return _planned(call, policy)
    return _ask(call, policy, "the permission table does not list this tool")


def _answered(call: CallFacts) -> bool:
    return approval_for(call) in call.already


def _autonomous(call: CallFacts, policy: Policy) -> Decision:
    return _say(call, policy, ALLOW, "the mode dontAsk allows what no rule forbids")


def _planned(call: CallFacts, policy: Policy) -> Decision:
    return _say(call, policy, DENY, "only reading is allowed in this mode", Remedy.OTHER_MODE)


def _ruled(call: CallFacts, policy: Policy, action: Action, rule: str) -> Decision:
    decided = Decision(action, f"{call.tool}: the rule {rule} matches.", rule, policy.owner)
    return decided if action is ALLOW else needs_removal(decided, rule)


def _say(
    call: CallFacts, policy: Policy, action: Action, why: str, remedy: Remedy = Remedy.OFFERS
) -> Decision:
    return Decision(action, f"{call.tool}: {why}.", "", policy.owner, remedy)


def _ask(call: CallFacts, policy: Policy, why: str, pattern: str = "") -> Decision:
    """It needs approval, or a rule for what the pattern names (without one: for all calls of the tool)."""
    offers = (Rule(call.tool, pattern or "*", ALLOW),)
    return replace(_say(call, policy, ASK, why), offers=offers)
