"""The front desk: a request becomes a seat, a seat becomes a live task."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from gencode.core.errors import CorruptFact, UserMistake
from gencode.core.events import Event, MessageAdded, TaskBackgrounded, TaskCreated, settle
from gencode.core.messages import Message, ToolCall, UserMessage, unanswered
from gencode.core.outcome import Outcome, outcome_of, output_file
from gencode.core.rules import Mode
from gencode.core.spec import AgentSpec, TaskRequest
from gencode.core.task import Task, transcript_of
from gencode.delegation.apart import Apart, new_task
from gencode.delegation.desk import Desk
from gencode.delegation.earlier import told_first, tools_of
from gencode.delegation.inbox import Results
from gencode.delegation.live import Job, Live
from gencode.delegation.origin import Origin, link_of
from gencode.delegation.orphans import close_if_orphan, interruption
from gencode.delegation.outputs import make_whole
from gencode.delegation.reach import Reach
from gencode.delegation.seating import Seating
from gencode.delegation.spawning import spawned
from gencode.delegation.supervisor import Supervisor
from gencode.delegation.watch import Watch
from gencode.runtime.bus import Bus
from gencode.runtime.limits import Limits
from gencode.runtime.ports import Engine, Lease, Store, TaskQuery
from gencode.runtime.recorder import Recorder
from gencode.runtime.seat import Seat
from gencode.runtime.toolbox import Toolbox

SENDERS = ("Task", "spawn", "spawn_subagent")
"""Who has one of these tools can send agents and hears of their results."""
EMPTY = "The prompt is empty; say what the agent should do."


class Launcher:
    """Starts tasks and goes on with earlier ones; the same way for the main agent and for every other.

    `outputs` is the folder in which background tasks have files, `engine` makes processes for single tasks.
    """

    def __init__(
        self,
        store: Store,
        bus: Bus,
        supervisor: Supervisor,
        seating: Seating,
        outputs: Path | None = None,
        engine: Engine | None = None,
    ) -> None:
        self._outputs = outputs
        self._store = store
        self._bus = bus
        self._supervisor = supervisor
        self._seating = seating
        self.apart = Apart(store, bus, supervisor, engine)
        self._watch = Watch(store, supervisor.owner, outputs)
        self.reach = Reach(store, supervisor, self._watch)

    async def launch(
        self,
        request: TaskRequest,
        origin: Origin,
        call: ToolCall | None = None,
        seconds: float | None = None,
    ) -> Live:
        """Start a subagent below `origin`; UserMistake names what is wrong with the request."""
        spec, created, place = self._prepared(request, origin, call)
        if request.isolation == "process":
            handover = new_task(created, place.model, seconds, bound=True)
            remote = await self.apart.bind(handover, place.stop)
            self._seating.kinship.learn(remote.id, created.parent)
            return remote
        return await self._begin(spec, created, place, Limits(created.max_turns, seconds))

    async def detach(self, request: TaskRequest, origin: Origin, seconds: float | None = None) -> str:
        """Start a subagent in a process that goes on when this one ends; the id of its task."""
        _, created, place = self._prepared(replace(request, background=True), origin)
        place.stop.fall()
        return await self.apart.detach(new_task(created, place.model, seconds, bound=False))

    async def take_on(self, created: TaskCreated, place: Origin, seconds: float | None) -> Job:
        """Start a subagent that another process asked for."""
        return await self._begin(self.agent_of(created), created, place, Limits(created.max_turns, seconds))

    def _prepared(
        self, request: TaskRequest, origin: Origin, call: ToolCall | None = None
    ) -> tuple[AgentSpec, TaskCreated, Origin]:
        """A request as an agent, the first fact of its task and its place."""
        spec = self._seating.find(request.agent)
        spec = spawned(spec) if request.spawned else spec
        if not request.prompt.strip():
            raise UserMistake(EMPTY)
        if request.max_turns is not None and request.max_turns < 1:
            raise UserMistake(f"max_turns must be at least 1, not {request.max_turns}.")
        model = self._seating.model(request.model, spec, origin.model)
        grant = origin.grant(spec)
        child = origin.below(spec, model, background=request.background, link=link_of(spec, grant))
        turns = request.max_turns or spec.max_turns
        created = TaskCreated(
            agent=spec.name,
            prompt=request.prompt,
            description=request.description,
            parent=origin.task,
            call=call.id if call else None,
            background=request.background,
            cwd=str(origin.workspace.cwd),
            asked_model=model.asked,
            max_turns=turns,
            depth=child.depth,
            policies=child.chain.bare,
            grant=grant,
            spawned=request.spawned,
        )
        return spec, created, child

    async def converse(
        self, spec: AgentSpec, prompt: str, origin: Origin, limits: Limits, session: str | None = None
    ) -> Job:
        """Start the main conversation, or go on with an earlier one."""
        if not prompt.strip():
            raise UserMistake("The prompt is empty; say what you want to know or have done.")
        place = origin.talking(spec)
        if session is not None:
            return await self._continued(session, spec, place, limits, prompt)
        created = TaskCreated(
            agent=spec.name,
            prompt=prompt,
            conversation=True,
            cwd=str(origin.workspace.cwd),
            asked_model=origin.model.asked,
            max_turns=limits.turns,
            policies=origin.chain.bare,
        )
        return await self._begin(spec, created, place, limits)

    async def resume(
        self, task: Task, request: TaskRequest, place: Origin, seconds: float | None = None
    ) -> Job:
        """Go on with an earlier task of an agent, which keeps its identity, type and transcript.

        `place` is where the agent sits: below whoever asks for it now.
        """
        if not request.prompt.strip():
            raise UserMistake(EMPTY)
        if self._supervisor.find(task.id):
            raise UserMistake(f"Task {task.id} is running; wait for it or stop it first.")
        spec = self.agent_of(task)
        limits = Limits(request.max_turns or task.max_turns or spec.max_turns, seconds)
        behind = request.background and not task.background
        return await self._continued(task.id, spec, place, limits, request.prompt, behind=behind)

    def agent_of(self, task: Task | TaskCreated) -> AgentSpec:
        """The agent of a task, as its file is now."""
        try:
            spec = self._seating.find(task.agent)
        except UserMistake as mistake:
            name = f"Task {task.id}" if isinstance(task, Task) else "The task"
            raise UserMistake(f"{name} cannot go on without its agent. {mistake}") from None
        return spawned(spec) if task.spawned else spec

    def agent_kind(self, name: str) -> Literal["builtin-reader", "other"]:
        """Whether an agent is a built-in one that only reads, and so may be sent without a question."""
        return self._seating.agent_kind(name)

    def agent_mode(self, name: str) -> Mode | None:
        """The mode of an agent's file; None where it has none and takes its sender's."""
        return self._seating.agent_mode(name)

    def same_agent(self, name: str, task: Task) -> bool:
        """Whether a task is one of the agent that is named."""
        return self._seating.find(name).name == task.agent

    def spawnable(self) -> Sequence[AgentSpec]:
        """Every agent that may be sent."""
        return self._seating.spawnable()

    def result_cap(self, agent: str) -> int:
        """How much of its result an agent hands to another agent's context."""
        return self._seating.find(agent).result_cap

    def place_of(self, task: Task, origin: Origin, model: str, *, background: bool) -> Origin:
        """Where an earlier task sits when somebody at `origin` goes on with it."""
        spec = self.agent_of(task)
        asked = model or task.asked_model
        chosen = self._seating.model(asked, spec, origin.model)
        link = link_of(spec, task.grant)
        return replace(origin.below(spec, chosen, background=background, link=link), depth=task.depth)

    async def look(self, task: str, seconds: float) -> Outcome:
        """The outcome of a task, after at most so many seconds of waiting for its end."""
        if job := self._supervisor.find(task):
            await job.wait(seconds)
            return self.told(job.task)
        found = await self._watch.ended(task, seconds)
        await make_whole(self._store, self._outputs, found)
        return self.told(found)

    def told(self, task: Task) -> Outcome:
        """A folded task in its public shape."""
        return outcome_of(task, outputs=self._outputs)

    async def known(self, task: str) -> Task:
        """A task by its whole id."""
        found = await self._store.task(task)
        if found is None:
            raise UserMistake(f"There is no task {task}.")
        return found

    async def stop(self, task: str, why: str) -> tuple[Outcome, bool]:
        """Stop a task; its outcome, and whether it was still running."""
        stops = await self.reach.stop(task, why)
        return await self.look(task, 0), bool(stops.hit)

    async def outcome(self, job: Live) -> Outcome:
        """The outcome of a job, once it has ended."""
        return self.told(await job.ended())

    async def _begin(self, spec: AgentSpec, created: TaskCreated, origin: Origin, limits: Limits) -> Job:
        """A new task: its birth, its start and what it was told are written as one, and then heard of."""
        toolbox = self._seating.tools(spec, origin)
        task = "" if created.conversation else created.prompt
        system = self._seating.system(spec, toolbox, origin, task)
        heard = [UserMessage(created.prompt), *origin.notes()]
        then = (self._seating.started(spec, toolbox, origin, system), *map(MessageAdded, heard))
        lease = await self._store.create(created, self._supervisor.owner, then)
        facts = enumerate((created, *then), start=1)
        at = lease.state.created_at
        record = Recorder(self._store, self._bus, lease, self._outputs)
        record.publish([Event(lease.task, seq, at, settle(fact)[0]) for seq, fact in facts])
        return self._seated(spec, record, toolbox, origin, limits, heard)

    async def _continued(
        self, task: str, spec: AgentSpec, origin: Origin, limits: Limits, prompt: str, *, behind: bool = False
    ) -> Job:
        """Go on with a task that nobody else may be working on and that can be read as a whole."""
        await close_if_orphan(self._store, task, self._supervisor.owner, self._outputs)
        try:
            lease = await self._store.take(task, self._supervisor.owner)
            return await self._go_on(spec, lease, origin, limits, prompt, behind=behind)
        except CorruptFact as corrupt:
            raise UserMistake(
                f"Task {task} cannot go on: {corrupt} Nothing was changed; gen task show {task} has what "
                "can be read of it."
            ) from None

    async def _go_on(
        self, spec: AgentSpec, lease: Lease, origin: Origin, limits: Limits, prompt: str, *, behind: bool
    ) -> Job:
        """An earlier task with something more to do, from now on in the background when it is `behind`.

        It keeps the system prompt it had.
        """
        begun = False
        try:
            events = await self._store.events(lease.task)
            record = Recorder(self._store, self._bus, lease, self._outputs)
            if cut := interruption(lease.state, unanswered(transcript_of(events))):
                await record.commit(*cut)
                events = await self._store.events(lease.task)
            earlier = transcript_of(events)
            toolbox = self._seating.tools(spec, origin)
            system = "" if lease.state.system else self._seating.system(spec, toolbox, origin, "")
            notes = [note for note in origin.notes() if note not in earlier]
            heard = [*told_first(lease.state), UserMessage(prompt), *notes]
            started = self._seating.started(spec, toolbox, origin, system, tools_of(events))
            first = (TaskBackgrounded(),) if behind else ()
            await record.commit(started, *first, *map(MessageAdded, heard))
            children = await self._learn_family(lease.state)
            job = self._seated(spec, record, toolbox, origin, limits, [*earlier, *heard], children)
            begun = True
            return job
        finally:
            if not begun:
                await self._store.release(lease)

    def _seated(
        self,
        spec: AgentSpec,
        record: Recorder,
        toolbox: Toolbox,
        origin: Origin,
        limits: Limits,
        transcript: Sequence[Message],
        children: Sequence[Task] = (),
    ) -> Job:
        origin = replace(origin, model=origin.model.thinking(spec.effort))
        seat = self._seating.seat(spec, record.task, toolbox, origin, limits)
        if any(name in toolbox for name in SENDERS):
            inbox = Results(record, self.result_cap, children, self._outputs)
            self._take_up(children, inbox, seat)
            desk = Desk(self, replace(origin, task=record.task.id), inbox)
            seat = replace(seat, delegate=desk, inbox=inbox)
        return self._supervisor.start(Job(seat, [*transcript], record, origin.stop))

    def _take_up(self, children: Sequence[Task], inbox: Results, seat: Seat) -> None:
        """Expect what earlier turns sent and still runs here, and hand out the files of it all."""
        for child in children:
            if not child.background:
                continue
            if self._outputs is not None:
                seat.gate.hand_out(output_file(self._outputs, child.id))
            if job := self._supervisor.find(child.id):
                inbox.expect(job)

    async def _learn_family(self, task: Task) -> list[Task]:
        """Who belongs to a task that an earlier process began: its siblings and, given back, its children."""
        children = await self._store.tasks(TaskQuery(parent=task.id))
        for child in children:
            self._seating.kinship.learn(child.id, task.id)
        if task.parent is not None:
            for sibling in await self._store.tasks(TaskQuery(parent=task.parent)):
                self._seating.kinship.learn(sibling.id, task.parent)
            above = await self._store.task(task.parent)
            self._seating.kinship.learn(task.parent, above.parent if above else None)
        return children
