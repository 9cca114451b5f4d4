"""The gate: the one door every tool call of every agent goes through."""

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec import Struct

from gencode.core.messages import ToolCall
from gencode.core.rules import Action, Decision, Policy
from gencode.core.spec import Workspace
from gencode.permissions.calls import SPAWN_TOOLS, CallFacts, Source, agent_of, once_key
from gencode.permissions.decision import decide
from gencode.permissions.paths import Resolved, decide_path, resolve, shown
from gencode.runtime.ports import Asker, Question
from gencode.runtime.toolbox import Tool, Toolbox

Relation = Literal["own", "kin", "foreign"]
"""Whose a task or shell is: the caller's, its parent's or a sibling's, or somebody else's."""

_MOST_REMEMBERED = 4_096
_SOURCES: dict[str, Source] = {"builtin": "builtin", "mcp": "mcp"}
_TARGET_FIELDS = ("task_id", "shell_id")


def _somebody_elses(_target: str) -> Relation:
    return "foreign"


class Gate(Struct, kw_only=True, eq=False):
    """Decides about the calls of one seat. `chain` is read at every call, the root first, its own last.

    `named` are the tools the agent's file names, `agent_kind` knows agents and `relation` tasks and shells by
    name. `memory` is shared by the session: what a person said yes to once. A background agent whose
    questions a client has taken on is given `background=False`.
    """

    chain: Sequence[Policy]
    toolbox: Toolbox
    workspace: Workspace
    task: str
    agent: str
    agent_kind: Callable[[str], Literal["builtin-reader", "other"]]
    memory: set[str]
    asker: Asker | None = None
    background: bool = False
    named: frozenset[str] = frozenset()
    relation: Callable[[str], Relation] = _somebody_elses
    _readable: dict[tuple[Resolved, tuple[Policy, ...]], bool] = {}

    def __post_init__(self) -> None:
        box = self.toolbox
        self.named = frozenset(box[name].name if name in box else name for name in self.named)

    @property
    def chain_names(self) -> tuple[str, ...]:
        """The owners of the policies that decide here, the root first."""
        return tuple(policy.owner for policy in self.chain)

    def judge(self, call: ToolCall) -> Decision:
        """The decision without asking anybody."""
        if call.name not in self.toolbox:
            return self._absent(call)
        return decide(self._facts(call, self.toolbox[call.name]), self.chain)

    async def admit(self, call: ToolCall) -> Decision:
        """The decision, after asking a person where it says so: only `allow` or `deny` come back."""
        decision = self.judge(call)
        if decision.action is not Action.ASK or self.asker is None:
            return decision
        if not await self.asker.ask(Question(self.task, self.agent, call, decision)):
            why = f"A person said no. {decision.why}"
            return Decision(Action.DENY, why, decision.rule, decision.policy, decision.lifts)
        if key := once_key(self._facts(call, self.toolbox[call.name])):
            self.memory.add(key)
        return Decision(Action.ALLOW, f"A person said yes. {decision.why}", decision.rule, decision.policy)

    def may_read(self, path_text: str) -> bool:
        """Whether this one file may be looked into without asking: no rule for Read or Grep is against it.

        The disk is looked at anew each time.
        """
        resolved = resolve(path_text, self.workspace)
        key = (resolved, tuple(self.chain))
        known = self._readable.get(key)
        if known is None:
            known = bool(self.chain) and all(
                decide_path("Grep", resolved, policy, self.workspace).action is Action.ALLOW
                for policy in self.chain
            )
            if len(self._readable) >= _MOST_REMEMBERED:
                self._readable.clear()
            self._readable[key] = known
        return known

    def _facts(self, call: ToolCall, tool: Tool) -> CallFacts:
        target = next((call.input[name] for name in _TARGET_FIELDS if name in call.input), None)
        relation = self.relation(target) if isinstance(target, str) else "foreign"
        spawns = tool.name in SPAWN_TOOLS
        return CallFacts(
            tool=tool.name,
            input=call.input,
            effect=tool.effect,
            workspace=self.workspace,
            source=_SOURCES.get(tool.source, "plugin"),
            aliases=tool.aliases,
            background=self.background,
            answerable=self.asker is not None,
            named=self.named,
            agent_kind=self.agent_kind(agent_of(tool.name, call.input)) if spawns else "",
            own=relation == "own",
            kin=relation == "kin",
            already=self.memory,
        )

    def _absent(self, call: ToolCall) -> Decision:
        there = ", ".join(self.toolbox) or "none"
        why = f"There is no tool {shown(call.name)} for {self.agent}. The tools are: {there}."
        return Decision(Action.DENY, why, lifts="an agent whose tools include it")
