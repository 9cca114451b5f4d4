"""The gate: the one door every tool call of every agent goes through."""

from collections.abc import Callable, Sequence
from typing import Literal

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


class Gate:
    """Decides about the calls of one seat. `chain` is read at every call, the root first, its own last.

    `memory` is shared by the session: what a person said yes to once. A background agent whose questions a
    client has taken on is given `background=False`.
    """

    def __init__(
        self,
        *,
        chain: Sequence[Policy],
        toolbox: Toolbox,
        workspace: Workspace,
        task: str,
        agent: str,
        agent_kind: Callable[[str], Literal["builtin-reader", "other"]],
        memory: set[str],
        asker: Asker | None = None,
        background: bool = False,
        named: frozenset[str] = frozenset(),
        relation: Callable[[str], Relation] = lambda target: "foreign",
    ) -> None:
        self._chain = chain
        self._toolbox = toolbox
        self._workspace = workspace
        self._task = task
        self._agent = agent
        self._agent_kind = agent_kind
        self._memory = memory
        self._asker = asker
        self._background = background
        self._named = frozenset(toolbox[name].name if name in toolbox else name for name in named)
        self._relation = relation
        self._readable: dict[tuple[Resolved, tuple[Policy, ...]], bool] = {}

    @property
    def chain_names(self) -> tuple[str, ...]:
        """The owners of the policies that decide here, the root first."""
        return tuple(policy.owner for policy in self._chain)

    def judge(self, call: ToolCall) -> Decision:
        """The decision without asking anybody."""
        if call.name not in self._toolbox:
            return self._absent(call)
        return decide(self._facts(call, self._toolbox[call.name]), self._chain)

    async def admit(self, call: ToolCall) -> Decision:
        """The decision, after asking a person where it says so: only `allow` or `deny` come back."""
        decision = self.judge(call)
        if decision.action is not Action.ASK or self._asker is None:
            return decision
        if not await self._asker.ask(Question(self._task, self._agent, call, decision)):
            why = f"A person said no. {decision.why}"
            return Decision(Action.DENY, why, decision.rule, decision.policy, decision.lifts)
        if key := once_key(self._facts(call, self._toolbox[call.name])):
            self._memory.add(key)
        return Decision(Action.ALLOW, f"A person said yes. {decision.why}", decision.rule, decision.policy)

    def may_read(self, path_text: str) -> bool:
        """Whether Read of this one path would be allowed. The disk is looked at anew each time."""
        resolved = resolve(path_text, self._workspace)
        key = (resolved, tuple(self._chain))
        known = self._readable.get(key)
        if known is None:
            known = bool(self._chain) and all(
                decide_path("Read", resolved, policy, self._workspace).action is Action.ALLOW
                for policy in self._chain
            )
            if len(self._readable) >= _MOST_REMEMBERED:
                self._readable.clear()
            self._readable[key] = known
        return known

    def _facts(self, call: ToolCall, tool: Tool) -> CallFacts:
        target = next((call.input[name] for name in _TARGET_FIELDS if name in call.input), None)
        relation = self._relation(target) if isinstance(target, str) else "foreign"
        spawns = tool.name in SPAWN_TOOLS
        return CallFacts(
            tool=tool.name,
            input=call.input,
            effect=tool.effect,
            workspace=self._workspace,
            source=_SOURCES.get(tool.source, "plugin"),
            aliases=tool.aliases,
            background=self._background,
            answerable=self._asker is not None,
            named=self._named,
            agent_kind=self._agent_kind(agent_of(tool.name, call.input)) if spawns else "",
            own=relation == "own",
            kin=relation == "kin",
            already=self._memory,
        )

    def _absent(self, call: ToolCall) -> Decision:
        there = ", ".join(self._toolbox) or "none"
        why = f"There is no tool {shown(call.name)} for {self._agent}. The tools are: {there}."
        return Decision(Action.DENY, why, lifts="an agent whose tools include it")
