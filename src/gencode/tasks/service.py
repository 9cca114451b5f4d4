"""The task service: starts, resumes, forks, messages and budgets tasks for a person or a program."""

import asyncio
from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from gencode.agent.models import elsewhere
from gencode.agent.run_setup import RunLimits
from gencode.budgets.ledger import BudgetSpent
from gencode.budgets.limits import NO_BUDGET
from gencode.core.budget import Budget
from gencode.core.errors import Fenced, StoreTrouble, UserMistake
from gencode.core.events import BudgetSet
from gencode.core.messages import NoticeKind, SystemNotice, UserMessage
from gencode.core.spec import AgentSpec, ForkPoint, TaskRequest
from gencode.core.status import Status
from gencode.core.task import Task, untold_commands
from gencode.files.file_versions import SeenFiles
from gencode.journal.dispatch import Handover
from gencode.journal.store import TaskQuery, TaskSignal
from gencode.sessions.caller import Approved
from gencode.sessions.session import Session
from gencode.tasks.argument_checks import checked_budget, checked_message
from gencode.tasks.control import MessageKept, MessageSender
from gencode.tasks.deadline import TimeLimit, seconds_left, time_limits
from gencode.tasks.delegate import Delegation
from gencode.tasks.delivery import worth_a_turn
from gencode.tasks.fork import Fork, fork_point
from gencode.tasks.plan import EarlierTask, TaskPlan, check_prompt, check_turns
from gencode.tasks.records import TaskRecords
from gencode.tasks.remote_task import DetachedTask
from gencode.tasks.running_task import LocalTask, RunningTask
from gencode.tasks.setup_builder import output_schema_at, with_checked_schema
from gencode.tasks.start import TaskStarter
from gencode.tasks.task_budgets import TaskBudgets

COME_BACK = UserMessage(
    "Background work has finished. Tell the user the result.",
    sender="system",
    notice=SystemNotice(NoticeKind.RESULTS),
)
MOST_LED = 1_000
"""So many conversations are remembered; in older ones what was said yes to for all of one is asked again."""
BLIND = (
    "The model {model} does not accept images, so nothing was sent. Choose another model, or describe the "
    "image."
)
OWN_FORM = (
    "{session} is a conversation; its answers follow the output-schema of the agent that leads it. Leave the "
    "schema out."
)
Prompt = str | UserMessage
"""What a person says, alone or with the pictures that go with it."""


class SessionLimits(Struct, frozen=True):
    """What bounds everything that is asked for here."""

    turns: int | None = None
    seconds: float | None = None
    budget: Budget = NO_BUDGET
    named: Budget = NO_BUDGET
    """What of the budget was said for this very session."""


class TaskService:
    """Starts, resumes and forks the tasks of a session, within its terms."""

    def __init__(
        self,
        session: Session,
        *,
        limits: SessionLimits,
        records: TaskRecords,
        delegation: Delegation,
        starter: TaskStarter,
    ) -> None:
        self._session = session
        self._limits = limits
        self._store = store = delegation.store
        self._records = records
        self._delegation = delegation
        self._planner = delegation.planner
        self._watch = delegation.watch
        self._supervisor = delegation.supervisor
        self._starter = starter
        self._processes = starter.processes
        self._messages = MessageSender(self._processes, store, delegation.reach, delegation.watch, self._wake)
        self._budgets = TaskBudgets(store, limits.budget, limits.named)
        self._led: dict[str, tuple[SeenFiles, Approved]] = {}
        """What conversations that were led here know of files, and what is approved in each."""
        self._waking = asyncio.Lock()

    async def start(self, request: TaskRequest) -> RunningTask:
        """Start one subagent without a main conversation: the settings are its root policy."""
        with elsewhere(far=self._processes.far and request.isolation == "process"):
            caller = replace(self._session.caller().afresh(), account=await self._budgets.open_account())
        return await self._starter.start(
            await self._planner.plan_new(request, caller, seconds=self._limits.seconds)
        )

    async def resume(self, task: str, request: TaskRequest) -> RunningTask:
        """Go on with an earlier task, as it was."""
        found = await self._records.find(task)
        if found.conversation and request.output_schema is not None:
            raise UserMistake(OWN_FORM.format(session=found.id))
        if found.conversation:
            raise UserMistake(f"{found.id} is a conversation; resume it with: gen -p --session {found.id}")
        await self._watch.check_not_woken(found)
        return await self._resumed(found, request)

    async def _resumed(self, found: Task, request: TaskRequest) -> RunningTask:
        request = await with_checked_schema(request)
        if request.budget == NO_BUDGET:
            await self._budgets.check_not_spent(found)
        account = await self._account_above(found)
        async with self._budgets.with_advice():
            return await self._resume_here(found, request, account)

    async def _resume_here(self, found: Task, request: TaskRequest, account: str) -> RunningTask:
        plan = await self._planner.plan_resume(found, request, self._limits.seconds, account)
        return await self._starter.start(plan)

    async def _account_above(self, task: Task) -> str:
        """The account of this session, where it pays for a task; a conversation pays for its own.

        What that may spend by what is said here applies from now on, unless somebody is at a turn of it.
        """
        top = await self._budgets.root_of(task)
        if not top.conversation:
            return await self._budgets.open_account()
        if top.status.ended:
            had, budget = await self._budgets.current(top), await self._budgets.of_conversation(top)
            if budget != had:
                await self._set(top, budget)
        return ""

    async def fork(self, task: str, fork: Fork, request: TaskRequest) -> LocalTask:
        """Start a fork of an earlier task."""
        found = await self._forkable(task)
        _, request = await self._forms(found, fork, request)  # what is not there costs nothing
        request = fork.bounding(request, found)
        account = await self._account_above(found)
        async with self._budgets.with_advice():
            plan = await self._planner.plan_fork(found, fork, request, self._limits.seconds, account)
            return await self._starter.start_here(plan)

    async def fork_detached(self, task: str, fork: Fork, request: TaskRequest) -> DetachedTask:
        """The same in a process that outlives this one, or on a worker that can have its folder."""
        found = await self._forkable(task)
        check_prompt(request.prompt)
        check_turns(request.max_turns)
        point, request = await self._forms(found, fork, request)
        budget = fork.bounding(request, found).budget
        if await self._account_above(found):
            budget = await self._budgets.detached_budget(budget)
        request = replace(request, background=True, budget=budget)
        plan = await self._planner.plan_detached_fork(found, point, request, self._limits.seconds)
        return await self._starter.detach(plan)

    async def fork_in_background(self, task: str, fork: Fork, request: TaskRequest) -> Task:
        """A fork that nobody waits for: here, or on a worker where its folder is not here; as it is then."""
        if not self._planner.callers.is_far(await self._forkable(task)):
            return (await self.fork(task, fork, request)).task
        begun = await self.fork_detached(task, fork, request)
        return await self._records.find(begun.id)

    async def _forms(self, found: Task, fork: Fork, request: TaskRequest) -> tuple[ForkPoint, TaskRequest]:
        """Where a fork begins, and its request; without a schema it has the one that counted there."""
        events = await self._store.events(found.id)
        point = fork_point(found, events, fork)
        return point, await with_checked_schema(request, output_schema_at(events, point.at))

    async def _forkable(self, task: str) -> Task:
        found = await self._records.find(task)
        if found.conversation:
            raise UserMistake(
                f"{found.id} is a conversation, and only tasks of subagents can be forked. Fork one of its "
                f"subagents (gen task list), or resume it with: gen -p --session {found.id}"
            )
        return found

    async def send(self, task: str, text: str, *, here: bool = False) -> tuple[Task, bool]:
        """Send a message to a task; a subagent that has ended is resumed with it, in the background.

        That is in a process of its own where there can be others, unless it should be `here`.

        The task as it is then, and whether it was woken. What is refused is not kept; `MessageKept` says that
        somebody was to hear it who ended before, and cannot go on now. Who is woken by somebody else at the
        same moment hears it from there.
        """
        found = await self._watch.task((await self._records.find(task)).id)
        return await self._messages.send(found, text, here=here)

    async def wake(self, task: Task) -> Task:
        """Resume a task that has ended with the messages that wait for it."""
        return await self._messages.wake(task)

    async def _wake(self, task: str, prompt: str, *, here: bool) -> None:
        request = TaskRequest("", prompt, resume=task, background=True)
        if self._processes.possible and not here:
            await self.detach(request)
            return
        async with self._waking:  # all of this process is one owner, who cannot lose against itself
            await self.resume(task, request)

    async def detach(self, request: TaskRequest) -> str:
        """Start a subagent, or resume an earlier one, in a process that outlives this one; its id."""
        check_turns(request.max_turns)
        with elsewhere(far=self._processes.far):
            if request.resume:
                request = await with_checked_schema(request)
                earlier = await self._records.find(request.resume)
                await self._watch.check_not_woken(earlier)
                await self._budgets.check_not_spent(earlier)  # a worker would say so to nobody
                account = await self._account_above(earlier)
                seconds = self._limits.seconds
                plan = await self._planner.plan_detached_resume(earlier, request, seconds, account)
                return (await self._starter.detach(plan)).id
            budget = await self._budgets.detached_budget(request.budget)
            request = replace(request, budget=budget, background=True)
            plan = await self._planner.plan_new(request, self._session.caller(), seconds=self._limits.seconds)
            return (await self._starter.detach(plan.detached)).id

    async def take_on(self, handover: Handover) -> RunningTask:
        """Start a task that another process handed over, or resume it where a third one died with it."""
        known = handover.seen or (await self._store.task(handover.task) if handover.task else None)
        # One that was to go on is pending once somebody has written down what it was told.
        told = known is not None and known.status is Status.PENDING and handover.created is None
        if known is not None and (told or known.status is Status.RUNNING):
            return await self._starter.start(await self._planner.plan_takeover(known, handover))
        if handover.created is not None:
            plan = await self._planner.plan_received(handover.created, handover)
            return await self._starter.start(plan)
        request = TaskRequest(
            agent="",
            prompt=handover.prompt,
            model=handover.model,
            max_turns=handover.max_turns,
            background=True,
            output_schema=handover.output_schema,
        )
        request, found = await with_checked_schema(request), await self._records.find(handover.task)
        await self._budgets.check_not_spent(found)
        return await self._resume_here(found, request, handover.account)

    async def turn(
        self,
        spec: AgentSpec,
        prompt: Prompt,
        session: str | None = None,
        *,
        named: str = "",
        waits: bool = False,
    ) -> LocalTask:
        """Start a turn of a conversation that this agent leads; a new one may be `named` by an id.

        With `waits` it ends when its background commands have, or `command_seconds` are over: nobody stays
        who could begin another turn when they do.
        """
        said = checked_message(prompt)
        model = self._session.model.current
        if said.images and not model.sees:
            raise UserMistake(BLIND.format(model=model.name))
        found = await self._records.find(session) if session is not None else None
        budget = await self._budgets.of_conversation(found)
        left = seconds_left(found, budget)
        bounds = time_limits({TimeLimit.BUDGET: left, TimeLimit.RUN: self._limits.seconds})
        limits = RunLimits(self._limits.turns or spec.max_turns, commands=None if waits else 0.0)
        known = self._led.get(found.id) if found else None
        seen, approved = known or (None, self._session.approved.for_session())
        caller = replace(self._session.leader(spec), seen=seen, approved=approved)
        plan = await self._planner.plan_turn(spec, said, caller, limits, bounds, budget, found, named)
        job = await self._starter.start_here(plan)
        self._budgets.keep(job.id, budget)
        self._led.pop(job.id, None)
        self._led[job.id] = job.setup.seen, approved
        if len(self._led) > MOST_LED:
            del self._led[next(iter(self._led))]
        return job

    async def hear(self, spec: AgentSpec, session: str, said: UserMessage | None = None) -> LocalTask | None:
        """Start a turn of an idle conversation with the results that wait for it, or with a message.

        None when nothing waits that is worth a turn; `MessageKept` when its budget is spent.
        """
        found = await self._records.find(session)
        children = await self._store.tasks(TaskQuery(parent=found.id))
        if said is None and (worth_a_turn(found, children) or self.commands_ended(found)):
            said = COME_BACK
        elif said is None and not await self._store.unread_messages(found.id):
            return None
        try:
            return await self.turn(spec, said or "", found.id)
        except BudgetSpent as spent:
            raise MessageKept(f"{spent} Results that were not delivered yet are kept.") from None

    def commands_ended(self, task: Task) -> bool:
        """Whether a background command of an idle task has ended here and that was not delivered."""
        if not (untold := untold_commands(task)):
            return False
        here = self._session.shells.all().of_task(task.id)
        return any(each.shell in here and here[each.shell].over for each in untold)

    @property
    def budget(self) -> Budget:
        """What a conversation may spend."""
        return self._budgets.budget

    async def set_session_budget(self, budget: Budget, conversation: str | None = None) -> None:
        """Let this session spend so much from now on: all work of this process, and this conversation.

        What was spent before counts. UserMistake for dollars where the price of the model is not known.
        """
        found = await self._records.find(conversation) if conversation is not None else None
        if budget.usd is not None:
            self._delegation.setups.check_model(self._session.model.current.name)
        await self._budgets.limit_session(budget)
        tops = {found.id: found} if found is not None else {}
        for live in self._supervisor.local_tasks():
            top = await self._budgets.root_of(live.task)
            if top.conversation:
                tops[top.id] = top
        for top in tops.values():
            await self._set(top, budget)
            self._budgets.keep(top.id, budget)

    async def set_budget(self, task: str, budget: Budget | Mapping[str, float | None]) -> Budget:
        """Let a task spend so much from now on, with everything below it and all that it ever spent.

        It may be at work, here or in another process. UserMistake when those above it leave less than that.
        """
        found, budget = await self._records.find(task), checked_budget(budget)
        if budget.usd is not None and found.run.model:
            self._delegation.setups.check_model(found.run.model)
        if found.conversation:
            self._budgets.keep(found.id, await self._budgets.of_conversation(found))
        await self._set(found, budget)
        return budget

    async def _set(self, task: Task, budget: Budget) -> None:
        """Bound a task in the ledger, which applies at once, and write that into its journal.

        A process that runs it elsewhere reads it from the ledger when it is told to.
        """
        job = self._supervisor.local(task.id)
        if job is not None:
            await self._budgets.limit(task, budget)
            job.change_seconds(budget, self._supervisor.find)
            await job.record.commit(BudgetSet(budget))
            return
        try:
            async with self._starter.borrow(task.id) as lease:
                await self._budgets.limit(task, budget)
                await self._store.append(lease, [BudgetSet(budget)])
        except (StoreTrouble, BudgetSpent):
            raise
        except (UserMistake, Fenced):
            await self._budgets.limit(task, budget)
            await self._store.send_signal(task.id, TaskSignal.BUDGET)

    async def budget_of(self, session: str | None) -> Budget:
        """What a conversation may spend, by what was said now and before."""
        return await self._budgets.of_conversation(await self._records.find(session) if session else None)

    async def current_budget(self, task: Task) -> Budget:
        """What a task may spend at this moment, wherever that was said."""
        return await self._budgets.current(task)

    async def compact(self, spec: AgentSpec, session: str, why: str = "a person asked for it") -> bool:
        """Compact an idle conversation that this agent leads; False when there is nothing to leave out."""
        found = await self._records.find(session)
        run = EarlierTask(found)
        plan = TaskPlan(agent=spec, place=self._session.leader(spec).leading(spec), run=run)
        return await self._starter.compact(plan, run, why)
