"""Explains a permission decision before a call is made, by the same facts and policies as at the gate."""

from collections.abc import Sequence
from typing import Any

from gencode.agent.gate import needs_person
from gencode.agent.toolbox import Tool, Toolbox
from gencode.core.errors import UnknownName, UserMistake
from gencode.core.rules import Action, Decision, Effect, Mode, Remedy
from gencode.core.spec import AgentSpec, same_name
from gencode.core.structs import replace
from gencode.permissions.calls import SPAWN_TOOLS, CallFacts, Source, agent_of
from gencode.permissions.chain import Chain
from gencode.permissions.decision import KNOWN_TOOLS, check_tool
from gencode.permissions.explanation import Explanation, explain, told
from gencode.sessions.session import Caller, chain_link
from gencode.tasks.argument_checks import checked_arguments, checked_text
from gencode.tasks.setup_builder import RunSetupBuilder

_CANONICAL = {same_name(name): name for name in KNOWN_TOOLS}
_EFFECTS: dict[str, Effect] = {
    **dict.fromkeys(("Read", "Grep", "Glob", "LS", "get_file_info"), "read"),
    **dict.fromkeys(("Write", "Edit", "delete_file", "move_file"), "write"),
    **dict.fromkeys(SPAWN_TOOLS, "delegate"),
}


class CallExplainer:
    """Explains calls in one session. A person is assumed to be there.

    `outside` are the tools of servers that the agent in question gets.
    """

    def __init__(self, setups: RunSetupBuilder, toolbox: Toolbox, outside: Sequence[Tool] = ()) -> None:
        self._setups = setups
        self._toolbox = toolbox
        self._outside = {tool.name: tool for tool in outside}

    def explain(
        self,
        tool: str,
        arguments: dict[str, Any],
        caller: Caller,
        agent: AgentSpec | None = None,
        *,
        background: bool = False,
    ) -> Explanation:
        """The decision for a call of the `caller`, or of an agent that it would start."""
        tool, arguments = checked_text("tool", tool), checked_arguments(arguments)
        chain = caller.chain if agent is None else caller.chain.below(chain_link(agent))
        if same_name(tool) == "bash" and not isinstance(arguments.get("command"), str):
            raise UserMistake('Bash needs a string in the field "command": --input \'{"command": "…"}\'.')
        call = self._facts(tool, arguments, caller, chain, agent, background=background)
        found = explain(call, chain, _ceiling(chain))
        served = self._outside.get(call.tool)
        if found.decision is Action.ALLOW and served is not None and (why := served.doubt()):
            decision = needs_person(why, chain, nobody=background)
            return replace(told(call, decision, found.chain, found.notes), lifts=served.approval)
        if agent is None or served is not None or _gives(agent, call, self._toolbox):
            return found
        return told(call, _not_given(agent, call), found.chain, found.notes)

    def _facts(
        self,
        tool: str,
        arguments: dict[str, Any],
        caller: Caller,
        chain: Chain,
        agent: AgentSpec | None,
        *,
        background: bool,
    ) -> CallFacts:
        known = self._toolbox.get(tool) if tool in self._toolbox else self._outside.get(tool)
        name = known.name if known else _CANONICAL.get(same_name(tool), tool)
        if known is None:
            _check(name, self._toolbox)
        sent = agent_of(name, arguments) if name in SPAWN_TOOLS else ""
        source: Source = "builtin"
        if known is not None and known.source != "builtin":
            source = "mcp" if known.source == "mcp" else "plugin"
        return CallFacts(
            tool=name,
            input=arguments,
            effect=known.effect if known else _EFFECTS.get(name, "execute"),
            workspace=caller.workspace,
            source=source,
            aliases=known.aliases if known else (),
            background=background,
            named=frozenset(agent.tools.allow or ()) if agent else frozenset(),
            of_project=agent is not None and agent.project,
            agent_kind=self._setups.agent_kind(sent) if sent else "",
            widens=chain.grant_for(self._setups.agent_mode(sent)) if sent else None,
            already=frozenset(each for each in caller.approved.once if each.kind == "reads"),
            spawn_approval=caller.session.spawn_approval,
            web_read_hosts=caller.session.web_read_hosts,
        )


def _check(name: str, toolbox: Toolbox) -> None:
    """UserMistake for what is no tool: `*` means all of them in a rule, and none in a call."""
    if name == "*":
        raise UnknownName("tool", name, {*KNOWN_TOOLS, *toolbox})
    check_tool(name, toolbox)


def _gives(agent: AgentSpec, call: CallFacts, toolbox: Toolbox) -> bool:
    """Whether an agent's file gives it the tool; otherwise the gate refuses it before any policy."""
    keys = {same_name(name) for name in (call.tool, *call.aliases)}
    allowed, denied = agent.tools.allow, agent.tools.deny
    if allowed is None:
        given = call.tool not in toolbox or not toolbox[call.tool].on_request
    else:
        given = any(same_name(name) in keys for name in allowed)
    return given and not any(same_name(name) in keys for name in denied)


def _not_given(agent: AgentSpec, call: CallFacts) -> Decision:
    tools = "all" if agent.tools.allow is None else ", ".join(agent.tools.allow) or "none"
    without = f" without {', '.join(agent.tools.deny)}" if agent.tools.deny else ""
    why = f"The agent {agent.name} does not have the tool {call.tool}; its file gives it {tools}{without}."
    return Decision(Action.DENY, why, policy=f"agent {agent.name}", remedy=Remedy.OTHER_AGENT)


def _ceiling(chain: Chain) -> tuple[str, ...]:
    ceiling = chain.ceiling()
    if ceiling is None:
        return ()
    own = chain[-1]
    way = "only a person can grant more, when the agent is started"
    if ceiling.mode in (Mode.PLAN, Mode.UNATTENDED):
        way = "this cannot be lifted"
    return (f"{own.owner} is in the mode {own.mode}, but {ceiling.owner} in {ceiling.mode}: {way}.",)
