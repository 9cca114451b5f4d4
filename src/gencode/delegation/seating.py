"""Makes seats: which tools, which prompt and which gate an agent gets at the place it is sent to."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Literal

from msgspec.structs import replace

from gencode.core.errors import UserMistake
from gencode.core.events import TaskStarted
from gencode.core.messages import Usage
from gencode.core.prices import Price
from gencode.core.rules import Mode, Policy
from gencode.core.spec import AgentSpec, ToolChoice, Workspace, same_name
from gencode.core.task import Task
from gencode.delegation.kinship import Kinship
from gencode.delegation.origin import Origin
from gencode.permissions.table import MEMORY_TOOLS
from gencode.runtime.gate import Gate, Relation
from gencode.runtime.instructions import no_instructions
from gencode.runtime.limits import Limits
from gencode.runtime.models import Model, ModelRegistry
from gencode.runtime.ports import AgentSource
from gencode.runtime.prompt import system_prompt
from gencode.runtime.purse import NO_PRICE
from gencode.runtime.seat import Seat
from gencode.runtime.seen import Seen
from gencode.runtime.toolbox import Toolbox

SHALLOWEST = 1
"""How deep agents are nested at least: the main agent may send agents, those may not."""

DELEGATES = ("Task", "TaskOutput", "TaskStop", "spawn", "spawn_subagent")
MOST_LISTED = 10
SHELL_PREFIX = "shell_"
"""What the ids of commands in the background begin with."""


class Seating:
    """Knows agents, models and tools, and puts an agent in its place. `depth` is how deep they are nested.

    `instructions` is what files say to agents that work somewhere under some policies.
    """

    def __init__(
        self,
        agents: AgentSource,
        models: ModelRegistry,
        toolbox: Toolbox,
        depth: int = SHALLOWEST,
        price: Callable[[str], Price] = lambda _: Price(),
        instructions: Callable[[Workspace, Sequence[Policy]], str] = no_instructions,
    ) -> None:
        self._depth = depth
        self._price = price
        self._instructions = instructions
        self._agents = agents
        self._models = models
        self._toolbox = toolbox
        self._toolboxes: dict[tuple[ToolChoice, bool, bool, bool], Toolbox] = {}
        self.kinship = Kinship()

    def find(self, name: str) -> AgentSpec:
        """An agent by name; UnknownName offers the nearest."""
        return self._agents.find(name)

    def spawnable(self, origin: Origin) -> Sequence[AgentSpec]:
        """Every agent that may be sent from a place."""
        if not self.may_send(origin):
            return ()
        named = None if origin.sends is None else {same_name(name) for name in origin.sends}
        return [spec for spec in self._agents.spawnable() if named is None or same_name(spec.name) in named]

    def may_send(self, origin: Origin) -> bool:
        """Whether agents may be sent from a place: it is not too deep, and its agent's file names some."""
        return origin.depth < self._depth and (origin.depth == 0 or bool(origin.sends))

    def agent_kind(self, name: str) -> Literal["builtin-reader", "other"]:
        """Whether an agent is a built-in one that only reads, and so may be sent without a question."""
        spec = self._known(name)
        return "builtin-reader" if spec and spec.builtin and spec.mode is Mode.PLAN else "other"

    def agent_mode(self, name: str) -> Mode | None:
        """The mode of an agent's file; None where it has none and takes its sender's."""
        spec = self._known(name)
        return spec.mode if spec else None

    def model(self, asked: str, spec: AgentSpec, parent: Model) -> Model:
        """The model of an agent: that of the call, else that of its file."""
        if asked:
            return self._models.resolve(asked, parent)
        return self._models.resolve(spec.model, parent, from_file=True)

    def tools(self, spec: AgentSpec, origin: Origin) -> Toolbox:
        """The tools an agent sees. What it may not use is hidden here and refused again at the gate."""
        deepest = not self.may_send(origin)
        plans = any(policy.mode is Mode.PLAN for policy in origin.chain)
        sent = origin.depth > 0
        key = (spec.tools, deepest, plans, sent)
        if key not in self._toolboxes:  # agents of a kind share one, and with it what is encoded of it
            toolbox = self._toolbox.chosen(spec.tools).without(DELEGATES if deepest else ())
            if sent and spec.tools.allow is None:  # an agent writes to others only when its file says so
                toolbox = toolbox.without(("SendMessage",))
            written = [name for name, tool in toolbox.items() if tool.effect == "write"] if plans else ()
            self._toolboxes[key] = toolbox.without(name for name in written if name not in MEMORY_TOOLS)
        return self._toolboxes[key]

    def started(
        self, spec: AgentSpec, toolbox: Toolbox, origin: Origin, system: str, had: Sequence[str] = ()
    ) -> TaskStarted:
        """The fact that an agent begins to work, with what is missing for it; `had` are its earlier tools."""
        missing = self._toolbox.missing(spec.tools)
        warnings = [f"the tool {name} is not there" for name in missing] + list(origin.model.warnings)
        lost = [name for name in had if name not in self._toolbox and name not in missing]
        warnings += [f"the tool {name}, which it had before, is not there any more" for name in lost]
        warnings += self._withheld(spec, origin)
        warnings += [note.text for note in origin.notes()]
        return TaskStarted(origin.model.name, system, tuple(toolbox), tuple(warnings))

    def check_price(self, place: Origin) -> None:
        """Refuse a budget of money for a model whose price nobody knows, before anything is spent."""
        if place.purse is None or place.purse.left().usd is None:
            return
        if self._price(place.model.name).of(Usage()) is None:
            raise UserMistake(f"{place.model.name}: {NO_PRICE}")

    def system(self, spec: AgentSpec, toolbox: Toolbox, origin: Origin, task: str) -> str:
        """The system prompt of an agent at its place."""
        sends = "Task" in toolbox or "spawn_subagent" in toolbox
        if spec.instructions and (kept := self._instructions(origin.workspace, origin.chain)):
            spec = replace(spec, prompt=f"{spec.prompt.rstrip()}\n\n{kept}")
        return system_prompt(
            spec,
            task=task,
            tools=tuple(toolbox),
            mode=origin.chain.mode,
            workspace=origin.workspace,
            agents=[(each.name, each.description) for each in self.spawnable(origin)] if sends else (),
            now=datetime.now().astimezone(),
        )

    def seat(self, spec: AgentSpec, task: Task, toolbox: Toolbox, origin: Origin, limits: Limits) -> Seat:
        """Everything the loop needs to run this agent."""
        self.kinship.learn(task.id, task.parent)
        gate = Gate(
            chain=origin.chain,
            toolbox=toolbox,
            workspace=origin.workspace,
            task=task.id,
            agent=spec.name,
            asker=origin.asker,
            background=origin.background and not origin.disturb,
            named=frozenset(spec.tools.allow or ()),
            agent_kind=self.agent_kind,
            agent_mode=self.agent_mode,
            relation=partial(self._relation, origin, task.id),
            memory=origin.answered,
            given=origin.given,
            lineage=origin.lineage,
            own=partial(self._own, origin, task.id),
        )
        return Seat(
            agent=spec.name,
            model=origin.model.name,
            provider=origin.model.provider,
            system=task.system,
            toolbox=toolbox,
            gate=gate,
            workspace=origin.workspace,
            limits=limits,
            effort=origin.model.effort,
            shells=origin.shells,
            seen=origin.seen or Seen(origin.ledger, f"the agent {spec.name}, task {task.id}"),
            purse=origin.purse,
            price=self._price(origin.model.name) if origin.purse is not None else Price(),
            schema=task.output_schema,
        )

    def _withheld(self, spec: AgentSpec, origin: Origin) -> list[str]:
        """That an agent's file names tools which an agent at this place does not get."""
        if self.may_send(origin):
            return []
        there = [name for name in spec.tools.allow or () if name in self._toolbox]
        names = [name for name in dict.fromkeys(there) if self._toolbox[name].name in DELEGATES]
        if not names:
            return []
        what = f"tool {names[0]} is" if len(names) == 1 else f"tools {', '.join(names)} are"
        return [f"the {what} not given to an agent that was sent"]

    def _relation(self, origin: Origin, task: str, target: str) -> Relation:
        if target.startswith(SHELL_PREFIX):
            return "own" if target in origin.shells().of(task) else "foreign"
        return self.kinship.relation(task, target)

    def _own(self, origin: Origin, task: str, target: str) -> Sequence[str]:
        """The latest tasks or shells of a task, whichever kind `target` is of."""
        shell = target.startswith(SHELL_PREFIX)
        own = list(origin.shells().of(task))[::-1] if shell else self.kinship.children(task)
        return own[:MOST_LISTED]

    def _known(self, name: str) -> AgentSpec | None:
        try:
            return self._agents.find(name)
        except UserMistake:
            return None
