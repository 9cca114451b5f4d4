"""The front desk: a request becomes a seat, a seat becomes a live task."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from gencode.budgets.limits import NO_BUDGET, check_budget, tightest
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.events import TaskCreated
from gencode.core.messages import ToolCall, UserMessage
from gencode.core.outcome import Outcome, outcome_of
from gencode.core.rules import Mode
from gencode.core.spec import AgentSpec, TaskRequest, same_name
from gencode.core.task import Task, whole_transcript
from gencode.delegation.apart import Apart, new_task
from gencode.delegation.deadline import (
    TimeLimit,
    TimeLimits,
    handed_limits,
    report_by,
    seconds_left,
    time_limits,
    with_time_left,
)
from gencode.delegation.desk import Desk
from gencode.delegation.forks import Fork, check_begun, forked, remembered
from gencode.delegation.forms import checked_of, formed_for
from gencode.delegation.live import Job, Live
from gencode.delegation.means import Means
from gencode.delegation.origin import Origin, link_of
from gencode.delegation.outputs import make_whole
from gencode.delegation.reach import Reach
from gencode.delegation.seating import Seating
from gencode.delegation.spawning import spawned
from gencode.delegation.starting import More, Order, Starting, check_prompt, check_turns
from gencode.delegation.supervisor import Supervisor
from gencode.delegation.task_queries import path_above
from gencode.delegation.trees import Workplaces, in_worktree, kept_if_begun
from gencode.delegation.watch import Watch, as_awaited, facts_of
from gencode.permissions.calls import AgentKind
from gencode.runtime.bus import Bus
from gencode.runtime.limits import Limits
from gencode.runtime.models import elsewhere
from gencode.runtime.ports import Handover, Store, TaskQuery


class Launcher:
    """Starts tasks and goes on with earlier ones; the same way for the main agent and for every other."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        supervisor: Supervisor,
        seating: Seating,
        means: Means,
    ) -> None:
        self._outputs = means.home / "outputs" if means.home else None
        self._store = store
        self._supervisor = supervisor
        self._seating = seating
        self.seconds = means.seconds
        self._remembers = means.remembers
        self.workplaces = Workplaces(means.home, store)
        self.starting = Starting(store, bus, supervisor, seating, self._outputs, means.command_seconds)
        self.apart = Apart(store, bus, supervisor, means.engine)
        self.watch = Watch(store, supervisor.owner, self._outputs)
        self.live, self.local, self.owner = supervisor.find, supervisor.local, supervisor.owner
        self.at_work = supervisor.local_tasks
        self.check_model = seating.check_model
        self.borrow, self.settled = self.starting.borrow, self.starting.settled
        self.reach = Reach(store, supervisor, self.watch)
        self.inquirer = means.inquirer

    async def launch(
        self,
        request: TaskRequest,
        origin: Origin,
        call: ToolCall | None = None,
        seconds: float | None = None,
    ) -> Live:
        """Start a subagent below `origin`; UserMistake names what is wrong with the request."""
        spec, request = await self._sendable(request, origin)
        order, created = self._prepared(spec, request, origin, call, seconds)
        await self._check_price(order.place, created.budget, created.parent)
        if (request.isolation or order.spec.isolation) == "process":
            return await self._launch_apart(order, created)
        if in_worktree(order.spec, request.isolation):
            order, created = await self._in_worktree(order, created)
        elif self._remembers and not self._seating.hooked(order.spec):
            order = replace(order, remembers=True)
        async with kept_if_begun(order.workplace):
            return await self.starting.begin(order, created, Desk(self))

    async def _check_price(self, place: Origin, budget: Budget, parent: str | None) -> None:
        """Refuse a budget of money for a model whose price nobody knows, before anything is spent."""
        if budget.usd is None:
            job = self._supervisor.local(parent or "")
            path = job.record.lease.path if job else await path_above(self._store, parent, place.account)
            if "usd" not in (await self._store.ledger.left(path) or ()):
                return
        self.check_model(place.model.name)

    async def _launch_apart(self, order: Order, created: TaskCreated) -> Live:
        """Start a subagent in a process of its own; it spends from the same accounts as here."""
        place = order.place
        slot = self._supervisor.slots.slot("", created.parent or "", place.model.name)
        account = place.account if created.parent is None else ""
        handover = new_task(created, place.model, order.time.most, bound=True, account=account)
        timed = partial(with_time_left, order.time, self._supervisor.find)
        remote = await self.apart.bind(handover, place.stop, slot, timed)
        self.starting.tree.learn(remote.id, created.parent, created.agent)
        return remote

    async def _in_worktree(
        self, order: Order, created: TaskCreated, source: Task | None = None
    ) -> tuple[Order, TaskCreated]:
        """The same order in a git worktree that is made for it."""
        workplace = await self.workplaces.make(order.place.workspace, source)
        place = replace(order.place, workspace=workplace.workspace)
        return replace(order, place=place, workplace=workplace), replace(created, worktree=workplace.path)

    async def detach(self, request: TaskRequest, origin: Origin, seconds: float | None = None) -> str:
        """Start a subagent in a process that goes on when this one ends; the id of its task."""
        spec, request = await self._sendable(replace(request, background=True), origin)
        order, created = self._prepared(spec, request, origin, None, seconds)
        order.place.stop.fall()
        await self._check_price(order.place, created.budget, created.parent)
        wanted, far = in_worktree(order.spec, request.isolation), self.apart.far
        async with self.workplaces.lent(created, origin.workspace, wanted=wanted, far=far) as (created, _):
            handover = new_task(created, order.place.model, order.time.most, bound=False)
            return await self.apart.detach(handover)

    async def take_on(self, created: TaskCreated, place: Origin, handover: Handover) -> Job:
        """Start a subagent that another process asked for, and that it may have written down."""
        given = self.workplaces.handed(created, handover.task)
        lodged = given is not None and not created.worktree
        before = await remembered(self._store, created, handover, lodged=lodged)
        workspace = (given.workspace if given else place.workspace).as_clone(created.clone)
        place = replace(place, workspace=workspace)
        await self._check_price(place, created.budget, created.parent)
        limits, bounds = Limits(created.max_turns), handed_limits(created, handover, self.seconds)
        order = Order(self.agent_of(created), place, limits, bounds, given)
        return await self.starting.begin(order, created, Desk(self), before, handover)

    def _prepared(
        self,
        spec: AgentSpec,
        request: TaskRequest,
        origin: Origin,
        call: ToolCall | None,
        seconds: float | None,
    ) -> tuple[Order, TaskCreated]:
        """A request as an agent at its place, and the first fact of its task."""
        check_prompt(request.prompt)
        check_turns(request.max_turns)
        background = request.background or spec.background
        check_budget(request.budget)
        sent, apart = origin.task is not None, (request.isolation or spec.isolation) == "process"
        with elsewhere(far=apart and self.apart.far):
            model = self._seating.model(request.model, spec, origin.model)
        grant = origin.grant(spec)
        place = origin.below(spec, model, background=background, link=link_of(spec, grant))
        budget = tightest(request.budget, self._seating.budget_of(spec, model))
        turns = (request.within(spec) if sent else request).max_turns or spec.max_turns
        bounds = self._time(place, budget.seconds, seconds, waited=not background)
        created = TaskCreated(
            agent=spec.name,
            prompt=request.prompt,
            description=request.description,
            parent=origin.task,
            call=call.id if call else None,
            background=background,
            cwd=str(origin.workspace.cwd),
            asked_model=model.asked,
            max_turns=turns,
            depth=place.depth,
            policies=place.policies,
            grant=grant,
            spawned=request.spawned,
            budget=budget,
            output_schema=request.output_schema,
            tools=spec.tools,
            model=model.lasting,
            clone=origin.workspace.clone,
        )
        return Order(spec, place, Limits(turns), bounds), created

    async def _sendable(self, request: TaskRequest, origin: Origin) -> tuple[AgentSpec, TaskRequest]:
        """The agent that a request names, if it may be sent from here, and the request as that takes it."""
        spec = self._seating.find(request.agent)
        if origin.sends is not None and origin.task is not None:
            named = {same_name(name) for name in origin.sends}
            if same_name(spec.name) not in named:
                there = ", ".join(origin.sends) or "none"
                raise UserMistake(f"{spec.name} may not be sent from here; those that may be are: {there}.")
        spec = spawned(spec) if request.spawned else spec
        return spec, await formed_for(request, spec)

    def _time(self, place: Origin, left: float | None, seconds: float | None, *, waited: bool) -> TimeLimits:
        """What bounds the time of a run: so much is `left` of its budget. Its sender may wait for it."""
        limits = {TimeLimit.BUDGET: left, TimeLimit.AGENT: self.seconds, TimeLimit.RUN: seconds}
        return time_limits(
            limits,
            until=place.until if place.background else None,  # who is waited for ends with whoever waits
            parent=place.task,
            report_by=report_by(place.task, self.live) if waited else None,
        )

    async def converse(
        self,
        spec: AgentSpec,
        said: UserMessage,
        origin: Origin,
        limits: Limits,
        bounds: TimeLimits,
        budget: Budget,
        session: str | None = None,
        named: str = "",
    ) -> Job:
        """Start the main conversation, under the id it is `named` by if that is free, or go on with one."""
        spec = replace(spec, output_schema=await checked_of(spec))
        place = origin.talking(spec)
        await self._check_price(place, budget, None)
        order = Order(spec, place, limits, bounds, images=said.images, named=named)
        if session is not None:
            more = More(said.text, budget=budget, notice=said.notice)
            async with self.starting.alone(session):
                return await self.starting.go_on(session, order, more, Desk(self))
        if not said.text.strip():
            raise UserMistake("The prompt is empty; say what you want to know or have done.")
        created = TaskCreated(
            agent=spec.name,
            prompt=said.text,
            conversation=True,
            cwd=str(origin.workspace.cwd),
            asked_model=origin.model.asked,
            max_turns=limits.turns,
            policies=origin.chain.bare,
            budget=budget,
        )
        return await self.starting.begin(order, created, Desk(self))

    async def compact(self, spec: AgentSpec, origin: Origin, session: str, why: str) -> bool:
        """Sum up a conversation at rest; False when there is nothing to leave out."""
        order = Order(spec, origin.talking(spec), Limits())
        return await self.starting.compact(session, order, Desk(self), why)

    async def resume(
        self,
        task: Task,
        request: TaskRequest,
        place: Origin,
        seconds: float | None = None,
        *,
        over: bool = False,
    ) -> Job:
        """Go on with an earlier task of an agent, which keeps its identity, type and transcript.

        `place` is where the agent sits: below whoever asks for it now. Without a prompt it goes on with the
        letters that wait for it, or in the place of a process that died when it takes `over`.
        """
        await check_begun(self._store, task)
        check_turns(request.max_turns)
        check_budget(request.budget)
        async with self.starting.alone(task.id):
            spec = self.agent_of(task)
            named = None if request.budget == NO_BUDGET else request.budget
            budget = named or task.budget
            left = seconds_left(task, budget, over=over)
            place = replace(place, workspace=place.workspace.as_clone(task.clone))
            turns = request.max_turns or task.max_turns or spec.max_turns
            bounds = self._time(place, left, seconds, waited=not request.background)
            behind = request.background and not task.background
            more = More(request.prompt, behind, named, over, request.output_schema, request.notice)
            await self._check_price(place, budget, task.parent)
            async with self.workplaces.entered(task):
                if workplace := await self.workplaces.again(task, place.workspace):
                    place = replace(place, workspace=workplace.workspace.as_clone(task.clone))
                order = Order(spec, place, Limits(turns), bounds, workplace)
                return await self.starting.go_on(task.id, order, more, Desk(self))

    async def fork(
        self, task: Task, fork: Fork, request: TaskRequest, place: Origin, seconds: float | None = None
    ) -> Job:
        """Begin a new task with what an earlier one had said and heard up to one of its facts."""
        check_prompt(request.prompt)
        check_turns(request.max_turns)
        spec, events = self.agent_of(task), await self._store.events(task.id)
        tree = in_worktree(spec, request.isolation, task)
        place = replace(place, workspace=place.workspace.as_clone(task.clone))
        created, facts = forked(task, events, fork, request, place, tree=tree)
        check_budget(created.budget)
        await self._check_price(place, created.budget, created.parent)
        bounds = self._time(place, created.budget.seconds, seconds, waited=False)
        order = Order(spec, place, Limits(created.max_turns), bounds)
        if tree:
            order, created = await self._in_worktree(order, created, task)
        async with kept_if_begun(order.workplace):
            return await self.starting.begin(order, created, Desk(self), facts)

    def agent_of(self, task: Task | TaskCreated) -> AgentSpec:
        """The agent of a task, as its file is now."""
        try:
            spec = self._seating.find(task.agent)
        except UserMistake as mistake:
            name = f"Task {task.id}" if isinstance(task, Task) else "The task"
            raise UserMistake(f"{name} cannot go on without its agent. {mistake}") from None
        if task.tools is not None and not (isinstance(task, Task) and task.imported):
            kept = replace(task.tools, deny=(*task.tools.deny, *spec.tools.deny))
            spec = replace(spec, tools=kept)  # what its file gained meanwhile is for new tasks
        return spawned(spec) if task.spawned else spec

    def agent_kind(self, name: str) -> AgentKind:
        """Whether an agent is a built-in one that only reads, and so may be sent without a question."""
        return self._seating.agent_kind(name)

    def agent_mode(self, name: str) -> Mode | None:
        """The mode of an agent's file; None where it has none and takes its sender's."""
        return self._seating.agent_mode(name)

    def same_agent(self, name: str, task: Task) -> bool:
        """Whether a task is one of the agent that is named."""
        return self._seating.find(name).name == task.agent

    def spawnable(self, origin: Origin) -> Sequence[AgentSpec]:
        """Every agent that may be sent from a place."""
        return self._seating.spawnable(origin)

    def may_send(self, origin: Origin) -> bool:
        """Whether agents may be sent from a place."""
        return self._seating.may_send(origin)

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
        found = await self.watch.ended(task, seconds)
        await make_whole(self._store, self._outputs, found)
        return self.told(found)

    def told(self, task: Task) -> Outcome:
        """A folded task in its public shape."""
        return outcome_of(task, outputs=self._outputs)

    async def children(self, task: str) -> list[Outcome]:
        """The tasks that a task has sent, oldest first."""
        found = await as_awaited(self._store, await self._store.tasks(TaskQuery(parent=task)))
        return [self.told(child) for child in found]

    async def retold(self, task: str) -> Outcome:
        """A task with its transcript, as far as that can be read."""
        found = await self.known(task)
        events, _ = await facts_of(self._store, task)
        transcript: list[dict[str, Any]] = [to_builtins(message) for message in whole_transcript(events)]
        return replace(self.told(found), transcript=transcript)

    async def unheard(self, task: str) -> bool:
        """Whether something was said to a task that it has not heard yet."""
        return bool(await self._store.waiting(task))

    async def known(self, task: str) -> Task:
        """A task by its whole id."""
        found = await self._store.task(task)
        if found is None:
            raise UserMistake(f"There is no task {task}.")
        return found

    async def outcome(self, job: Live) -> Outcome:
        """The outcome of a job, once it has ended."""
        return self.told(await job.ended())
