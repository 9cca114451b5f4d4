"""The front desk: a request becomes a seat, a seat becomes a live task."""

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from gencode.core.errors import UserMistake
from gencode.core.events import Event, MessageAdded, TaskCreated, settle
from gencode.core.messages import Message, ToolCall, UserMessage, unanswered
from gencode.core.outcome import Outcome, outcome_of
from gencode.core.rules import Mode
from gencode.core.spec import AgentSpec, TaskRequest
from gencode.core.task import Task, transcript_of
from gencode.delegation.desk import Desk
from gencode.delegation.inbox import Results
from gencode.delegation.origin import Origin, link_of
from gencode.delegation.orphans import interruption
from gencode.delegation.seating import Seating
from gencode.delegation.supervisor import Job, Supervisor
from gencode.runtime.bus import Bus
from gencode.runtime.limits import Limits
from gencode.runtime.ports import Lease, Store, TaskQuery
from gencode.runtime.recorder import Recorder
from gencode.runtime.toolbox import Toolbox

EMPTY = "The prompt is empty; say what the agent should do."


class Launcher:
    """Starts tasks and goes on with earlier ones; the same way for the main agent and for every other."""

    def __init__(self, store: Store, bus: Bus, supervisor: Supervisor, seating: Seating) -> None:
        self._store = store
        self._bus = bus
        self._supervisor = supervisor
        self._seating = seating

    async def launch(
        self,
        request: TaskRequest,
        origin: Origin,
        call: ToolCall | None = None,
        seconds: float | None = None,
    ) -> Job:
        """Start a subagent below `origin`; UserMistake names what is wrong with the request."""
        spec = self._seating.find(request.agent)
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
        )
        return await self._begin(spec, created, child, Limits(turns, seconds))

    async def converse(
        self, spec: AgentSpec, prompt: str, origin: Origin, limits: Limits, session: str | None = None
    ) -> Job:
        """Start the main conversation, or go on with an earlier one."""
        if not prompt.strip():
            raise UserMistake("The prompt is empty; say what you want to know or have done.")
        place = origin.talking(spec)
        if session is not None:
            lease = await self._store.take(session, self._supervisor.owner)
            return await self._go_on(spec, lease, place, limits, prompt)
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
        spec = self._seating.find(task.agent)
        lease = await self._store.take(task.id, self._supervisor.owner)
        limits = Limits(request.max_turns or task.max_turns or spec.max_turns, seconds)
        return await self._go_on(spec, lease, place, limits, request.prompt)

    def agent_kind(self, name: str) -> Literal["builtin-reader", "other"]:
        """Whether an agent is a built-in one that only reads, and so may be sent without a question."""
        return self._seating.agent_kind(name)

    def agent_mode(self, name: str) -> Mode | None:
        """The mode of an agent's file; None where it has none and takes its sender's."""
        return self._seating.agent_mode(name)

    def spawnable(self) -> Sequence[AgentSpec]:
        """Every agent that may be sent."""
        return self._seating.spawnable()

    def result_cap(self, agent: str) -> int:
        """How much of its result an agent hands to another agent's context."""
        return self._seating.find(agent).result_cap

    def place_of(self, task: Task, origin: Origin, model: str, *, background: bool) -> Origin:
        """Where an earlier task sits when somebody at `origin` goes on with it."""
        spec = self._seating.find(task.agent)
        asked = model or task.asked_model
        chosen = self._seating.model(asked, spec, origin.model)
        link = link_of(spec, task.grant)
        return replace(origin.below(spec, chosen, background=background, link=link), depth=task.depth)

    async def look(self, task: str, seconds: float) -> Outcome:
        """The outcome of a task, after at most so many seconds of waiting for its end."""
        if job := self._supervisor.find(task):
            await job.wait(seconds)
            return outcome_of(job.record.task)
        return outcome_of(await self.known(task))

    async def known(self, task: str) -> Task:
        """A task by its whole id."""
        found = await self._store.task(task)
        if found is None:
            raise UserMistake(f"There is no task {task}.")
        return found

    async def stop(self, task: str, why: str) -> tuple[Outcome, bool]:
        """Stop a task that runs here; its outcome, and whether it was still running."""
        job = self._supervisor.find(task)
        if job is not None:
            await job.halt(why)
        return await self.look(task, 0), job is not None

    async def outcome(self, job: Job) -> Outcome:
        """The outcome of a job, once it has ended."""
        return outcome_of(await job.ended())

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
        self._bus.publish([Event(lease.task, seq, at, settle(fact)[0]) for seq, fact in facts])
        record = Recorder(self._store, self._bus, lease)
        return self._seated(spec, record, toolbox, origin, limits, heard)

    async def _go_on(self, spec: AgentSpec, lease: Lease, origin: Origin, limits: Limits, prompt: str) -> Job:
        """An earlier task with something more to do; it keeps the system prompt it had."""
        begun = False
        try:
            earlier = transcript_of(await self._store.events(lease.task))
            record = Recorder(self._store, self._bus, lease)
            if cut := interruption(lease.state, unanswered(earlier)):
                await record.commit(*cut)
                earlier = transcript_of(await self._store.events(lease.task))
            toolbox = self._seating.tools(spec, origin)
            system = "" if lease.state.system else self._seating.system(spec, toolbox, origin, "")
            heard = [UserMessage(prompt), *(note for note in origin.notes() if note not in earlier)]
            started = self._seating.started(spec, toolbox, origin, system)
            await record.commit(started, *map(MessageAdded, heard))
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
        if "Task" in toolbox:
            inbox = Results(record, self.result_cap, children)
            desk = Desk(self, replace(origin, task=record.task.id), inbox)
            seat = replace(seat, delegate=desk, inbox=inbox)
        return self._supervisor.start(Job(seat, [*transcript], record, origin.stop))

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
