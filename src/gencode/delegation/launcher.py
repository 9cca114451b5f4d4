"""The front desk: a request becomes a seat, a seat becomes a live task."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from gencode.core.errors import ToolError, UserMistake
from gencode.core.events import Event, MessageAdded, TaskCreated, TaskStarted, settle
from gencode.core.messages import Message, ToolCall, UserMessage, unanswered
from gencode.core.outcome import Outcome, outcome_of
from gencode.core.rules import Mode, Policy, child_policy
from gencode.core.spec import AgentSpec, TaskRequest, ToolChoice, Workspace
from gencode.core.task import transcript_of
from gencode.delegation.orphans import interruption
from gencode.delegation.supervisor import Job, Supervisor
from gencode.runtime.bus import Bus
from gencode.runtime.gate import Gate
from gencode.runtime.limits import Limits
from gencode.runtime.loop import Seat
from gencode.runtime.models import Model, ModelRegistry
from gencode.runtime.ports import AgentSource, Asker, Lease, Store
from gencode.runtime.prompt import system_prompt
from gencode.runtime.recorder import Recorder
from gencode.runtime.stop import Stop
from gencode.runtime.toolbox import Toolbox

MAX_DEPTH = 1
"""How deep agents may be nested: the main agent may send agents, those may not."""

DELEGATES = ("Task",)


class Origin(Struct, frozen=True, eq=False):
    """Who asks for work: the ceiling over it and the branch it hangs from."""

    policies: tuple[Policy, ...]
    model: Model
    workspace: Workspace
    stop: Stop
    task: str | None = None
    depth: int = 0
    asker: Asker | None = None
    answered: set[str] = set()


class Launcher:
    """Seats agents and starts their tasks; the same way for the main agent and for every other."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        supervisor: Supervisor,
        agents: AgentSource,
        models: ModelRegistry,
        toolbox: Toolbox,
    ) -> None:
        self._store = store
        self._bus = bus
        self._supervisor = supervisor
        self._agents = agents
        self._models = models
        self._toolbox = toolbox
        self._toolboxes: dict[tuple[ToolChoice, bool, bool], Toolbox] = {}

    async def launch(
        self,
        request: TaskRequest,
        origin: Origin,
        call: ToolCall | None = None,
        seconds: float | None = None,
    ) -> Job:
        """Start a subagent below `origin`; UserMistake names what is wrong with the request."""
        spec = self._agents.find(request.agent)
        if not request.prompt.strip():
            raise UserMistake("The prompt is empty; say what the agent should do.")
        if request.max_turns is not None and request.max_turns < 1:
            raise UserMistake(f"max_turns must be at least 1, not {request.max_turns}.")
        model = self._model(request.model, spec, origin.model)
        child = replace(origin, policies=_below(origin, spec), model=model, stop=origin.stop.branch())
        turns = request.max_turns or spec.max_turns
        created = TaskCreated(
            agent=spec.name,
            prompt=request.prompt,
            description=request.description,
            parent=origin.task,
            call=call.id if call else None,
            cwd=str(origin.workspace.cwd),
            asked_model=model.asked,
            max_turns=turns,
            depth=origin.depth + 1,
            policies=child.policies,
        )
        child = replace(child, depth=origin.depth + 1)
        return await self._begin(spec, created, child, Limits(turns, seconds))

    async def converse(
        self, spec: AgentSpec, prompt: str, origin: Origin, limits: Limits, session: str | None = None
    ) -> Job:
        """Start the main conversation, or go on with an earlier one."""
        if not prompt.strip():
            raise UserMistake("The prompt is empty; say what you want to know or have done.")
        branch = replace(origin, stop=origin.stop.branch())
        if session is not None:
            lease = await self._store.take(session, self._supervisor.owner)
            earlier = transcript_of(await self._store.events(session))
            if cut := interruption(lease.state, unanswered(earlier)):
                await self._store.append(lease, cut)
                earlier = transcript_of(await self._store.events(session))
            return await self._go_on(spec, lease, branch, limits, prompt, earlier)
        created = TaskCreated(
            agent=spec.name,
            prompt=prompt,
            conversation=True,
            cwd=str(origin.workspace.cwd),
            asked_model=origin.model.asked,
            max_turns=limits.turns,
            policies=origin.policies,
        )
        return await self._begin(spec, created, branch, limits)

    def agent_kind(self, name: str) -> Literal["builtin-reader", "other"]:
        """Whether an agent is a built-in one that only reads, and so may be sent without a question."""
        try:
            spec = self._agents.find(name)
        except UserMistake:
            return "other"
        return "builtin-reader" if spec.builtin and spec.mode is Mode.PLAN else "other"

    def spawnable(self) -> Sequence[AgentSpec]:
        """Every agent that may be sent."""
        return self._agents.spawnable()

    def result_cap(self, agent: str) -> int:
        """How much of its result an agent hands to another agent's context."""
        return self._agents.find(agent).result_cap

    async def outcome(self, job: Job) -> Outcome:
        """The outcome of a job, once it has ended."""
        return outcome_of(await job.ended())

    async def _begin(self, spec: AgentSpec, created: TaskCreated, origin: Origin, limits: Limits) -> Job:
        """A new task: its birth, its start and what it was told are written as one, and then heard of."""
        toolbox = self._tools(spec, origin)
        system = self._system(spec, toolbox, origin, "" if created.conversation else created.prompt)
        said = UserMessage(created.prompt)
        then = (self._started(spec, toolbox, origin, system), MessageAdded(said))
        lease = await self._store.create(created, self._supervisor.owner, then)
        facts = enumerate((created, *then), start=1)
        at = lease.state.created_at
        self._bus.publish([Event(lease.task, seq, at, settle(fact)[0]) for seq, fact in facts])
        record = Recorder(self._store, self._bus, lease)
        seat = self._seat(spec, lease, toolbox, origin, limits)
        return self._supervisor.start(Job(seat, [said], record, origin.stop))

    async def _go_on(
        self,
        spec: AgentSpec,
        lease: Lease,
        origin: Origin,
        limits: Limits,
        prompt: str,
        earlier: Sequence[Message],
    ) -> Job:
        """An earlier task with something more to do; it keeps the system prompt it had."""
        toolbox = self._tools(spec, origin)
        record = Recorder(self._store, self._bus, lease)
        system = "" if lease.state.system else self._system(spec, toolbox, origin, "")
        said = UserMessage(prompt)
        await record.commit(self._started(spec, toolbox, origin, system), MessageAdded(said))
        seat = self._seat(spec, lease, toolbox, origin, limits)
        return self._supervisor.start(Job(seat, [*earlier, said], record, origin.stop))

    def _started(self, spec: AgentSpec, toolbox: Toolbox, origin: Origin, system: str) -> TaskStarted:
        missing = self._toolbox.missing(spec.tools)
        warnings = [f"the tool {name} is not there" for name in missing] + list(origin.model.warnings)
        return TaskStarted(origin.model.name, system, tuple(toolbox), tuple(warnings))

    def _system(self, spec: AgentSpec, toolbox: Toolbox, origin: Origin, task: str) -> str:
        return system_prompt(
            spec,
            task=task,
            tools=tuple(toolbox),
            mode=origin.policies[-1].mode,
            workspace=origin.workspace,
            agents=[(each.name, each.description) for each in self.spawnable()] if "Task" in toolbox else (),
            now=datetime.now().astimezone(),
        )

    def _seat(self, spec: AgentSpec, lease: Lease, toolbox: Toolbox, origin: Origin, limits: Limits) -> Seat:
        gate = Gate(
            chain=origin.policies,
            toolbox=toolbox,
            workspace=origin.workspace,
            task=lease.task,
            agent=spec.name,
            asker=origin.asker,
            named=frozenset(spec.tools.allow or ()),
            agent_kind=self.agent_kind,
            memory=origin.answered,
        )
        delegate = Desk(self, replace(origin, task=lease.task)) if "Task" in toolbox else None
        return Seat(
            agent=spec.name,
            model=origin.model.name,
            provider=origin.model.provider,
            system=lease.state.system,
            toolbox=toolbox,
            gate=gate,
            workspace=origin.workspace,
            limits=limits,
            delegate=delegate,
        )

    def _tools(self, spec: AgentSpec, origin: Origin) -> Toolbox:
        """The tools an agent sees. What it may not use is hidden here and refused again at the gate."""
        deepest = origin.depth >= MAX_DEPTH
        plans = any(policy.mode is Mode.PLAN for policy in origin.policies)
        key = (spec.tools, deepest, plans)
        if key not in self._toolboxes:  # agents of a kind share one, and with it what is encoded of it
            toolbox = self._toolbox.chosen(spec.tools).without(DELEGATES if deepest else ())
            written = [name for name, tool in toolbox.items() if tool.effect == "write"] if plans else ()
            self._toolboxes[key] = toolbox.without(written)
        return self._toolboxes[key]

    def _model(self, asked: str, spec: AgentSpec, parent: Model) -> Model:
        if asked:
            return self._models.resolve(asked, parent)
        return self._models.resolve(spec.model, parent, from_file=True)


class Desk:
    """The launcher as one seat sees it: work asked for here hangs below that seat."""

    def __init__(self, launcher: Launcher, origin: Origin) -> None:
        self._launcher = launcher
        self._origin = origin

    async def run(self, request: TaskRequest, call: ToolCall) -> Outcome:
        """Run an agent to its end and give its outcome."""
        if self._origin.depth >= MAX_DEPTH:
            raise ToolError(
                "An agent that was sent cannot send agents itself; do the work here or report back."
            )
        job = await self._launcher.launch(request, self._origin, call)
        try:
            return await self._launcher.outcome(job)
        except asyncio.CancelledError:  # the sender was stopped or ran out of time, and its agent ends first
            await job.halt("the agent that sent it was stopped")
            raise

    def agents(self) -> Sequence[tuple[str, str]]:
        """Name and description of every agent that may be sent."""
        return [(spec.name, spec.description) for spec in self._launcher.spawnable()]

    def result_cap(self, agent: str) -> int:
        """How much of its result an agent hands to another agent's context."""
        return self._launcher.result_cap(agent)


def _below(origin: Origin, spec: AgentSpec) -> tuple[Policy, ...]:
    """The chain of policies over an agent: its origin's and its own. The strictest decides."""
    own = child_policy(origin.policies[-1], spec.mode, spec.rules, f"agent {spec.name}")
    return (*origin.policies, own)
