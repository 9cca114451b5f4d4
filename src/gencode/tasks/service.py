"""The task service: starts, resumes, forks, messages and budgets tasks for a person or a program."""

import asyncio
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from gencode.agent.models import elsewhere
from gencode.agent.run_setup import RunLimits
from gencode.budgets.ledger import BudgetSpent
from gencode.budgets.limits import NO_BUDGET
from gencode.core.budget import Budget
from gencode.core.errors import Fenced, StoreTrouble, UserMistake
from gencode.core.events import BudgetSet
from gencode.core.messages import NoticeKind, SystemNotice, UserMessage
from gencode.core.spec import FORK, AgentSpec, ForkPoint, TaskRequest
from gencode.core.status import Status
from gencode.core.structs import replace
from gencode.core.task import Task, undelivered_commands
from gencode.files.file_versions import SeenFiles
from gencode.journal.dispatch import Handover
from gencode.journal.store import TaskQuery, TaskSignal
from gencode.sessions.session import Approved
from gencode.tasks.argument_checks import checked_budget, checked_message
from gencode.tasks.control import MessageKept
from gencode.tasks.deadline import TimeLimit, seconds_left, time_limits
from gencode.tasks.delivery import as_delivered, undelivered, worth_a_turn
from gencode.tasks.fork import Fork, fork_point, forked_conversation
from gencode.tasks.liveness import is_abandoned, ownership_of
from gencode.tasks.plan import EarlierTask, TaskPlan, check_prompt, check_turns
from gencode.tasks.remote_task import DetachedTask
from gencode.tasks.running_task import LocalTask, RunningTask
from gencode.tasks.setup_builder import output_schema_at, with_checked_schema
from gencode.tasks.task_budgets import TaskBudgets
from gencode.tasks.watch import LOOK_SECONDS

COME_BACK = UserMessage(
    "[Background work has finished. Tell the user the result.]",
    sender="system",
    notice=SystemNotice(NoticeKind.RESULTS),
)
PATIENCE = 60.0
"""How many seconds a process that has leased a task may need to resume it."""
MOST_LED = 1_000
"""How many conversations are remembered; in older ones approvals for the session are asked for again."""
BLIND = (
    "The model {model} does not accept images, so nothing was sent. Choose another model, or describe the "
    "image."
)
OWN_FORM = (
    "{session} is a conversation; its answers follow the output-schema of the agent that leads it. Leave the "
    "schema out."
)

if TYPE_CHECKING:
    from gencode.tasks.rewind import Rewound
    from gencode.tasks.task_parts import TaskParts
Prompt = str | UserMessage
"""A prompt, with or without images."""


class SessionLimits(Struct, frozen=True):
    """The limits of everything that is requested in a session."""

    turns: int | None = None
    seconds: float | None = None
    budget: Budget = NO_BUDGET
    named: Budget = NO_BUDGET
    """The part of the budget that was set for this very session."""


class TaskService:
    """Starts, resumes and forks the tasks of a session, within its limits."""

    def __init__(self, parts: "TaskParts") -> None:
        self._parts = parts
        self._session = parts.session
        self._limits = limits = parts.limits
        self._store = parts.store
        self._planner = parts.planner
        self._supervisor = parts.supervisor
        self._starter = parts.starter
        self._budgets = TaskBudgets(parts.store, limits.budget, limits.named)
        self._led: dict[str, tuple[SeenFiles | None, Approved]] = {}
        """The file versions known to conversations that were led here, and the approvals in each."""
        self._waking = asyncio.Lock()

    async def start(self, request: TaskRequest) -> RunningTask:
        """Start one subagent without a main conversation: the settings are its root policy."""
        with elsewhere(far=self._parts.processes.far and request.isolation == "process"):
            caller = replace(self._session.caller().afresh(), account=await self._budgets.open_account())
        return await self._starter.start(
            await self._planner.plan_new(request, caller, seconds=self._limits.seconds)
        )

    async def resume(self, task: str, request: TaskRequest) -> RunningTask:
        """Resume an earlier task."""
        found = await self._parts.records.find(task)
        if found.conversation and request.output_schema is not None:
            raise UserMistake(OWN_FORM.format(session=found.id))
        if found.conversation:
            raise UserMistake(f"{found.id} is a conversation; resume it with: gen -p --session {found.id}")
        await self._parts.watcher.check_not_woken(found)
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
        """The account of this session, if it pays for a task; a conversation pays for its own.

        The conversation's budget as it is here applies from now on, unless a turn of it is running.
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
        """Start a fork of an earlier task; that of a conversation is a subagent of it."""
        found = await self._parts.records.find(task)
        if found.conversation:
            return await self._fork_below(found, fork, request)
        _, request = await self._forms(found, fork, request)  # before anything is spent
        request = fork.bounding(request, found)
        account = await self._account_above(found)
        async with self._budgets.with_advice():
            plan = await self._planner.plan_fork(found, fork, request, self._limits.seconds, account)
            return await self._starter.start_here(plan)

    async def fork_conversation(self, session: str, fork: Fork) -> Task:
        """A new, idle conversation that begins with the transcript of another one."""
        found = await self._parts.records.find(session, conversation=True)
        if not found.conversation:
            raise UserMistake(
                f"{found.id} is a task of {found.agent}; fork it with: gen task fork {found.id}"
            )
        events = await self._store.events(found.id)
        created, then = forked_conversation(found, events, fork_point(found, events, fork).at)
        lease = await self._store.create(created, self._supervisor.owner, then)
        await self._store.release(lease)
        return await self._parts.records.find(lease.task)

    async def _fork_below(self, found: Task, fork: Fork, request: TaskRequest) -> LocalTask:
        """Start a subagent of a conversation that begins with all of its transcript."""
        if fork.at is not None:
            raise UserMistake(
                f"A subagent that forks the conversation {found.id} begins with all of it. For a copy of "
                f"it from event {fork.at}: gen sessions fork {found.id} --at {fork.at}"
            )
        request = replace(request, context=FORK, budget=fork.budget or request.budget)
        place = replace(await self._parts.callers.for_task(found, "", verb="fork"), task=found.id)
        async with self._budgets.with_advice():
            plan = await self._planner.plan_new(request, place, seconds=self._limits.seconds)
            job = await self._starter.start_here(plan)
        leader = self._supervisor.local(found.id)
        if request.background and leader is not None and not leader.over:
            leader.inbox.expect(job)
        return job

    async def fork_detached(self, task: str, fork: Fork, request: TaskRequest) -> DetachedTask:
        """Start a fork in a process that outlives this one, or on a worker that can have its folder."""
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
        """Start a fork in the background, here or on a worker if its folder is not here; the task then."""
        found = await self._parts.records.find(task)
        if found.conversation or not self._parts.callers.is_far(found):
            return (await self.fork(task, fork, request)).task
        begun = await self.fork_detached(task, fork, request)
        return await self._parts.records.find(begun.id)

    async def _forms(self, found: Task, fork: Fork, request: TaskRequest) -> tuple[ForkPoint, TaskRequest]:
        """Where a fork begins, and its request, by default with the schema that applied there."""
        events = await self._store.events(found.id)
        point = fork_point(found, events, fork)
        return point, await with_checked_schema(request, output_schema_at(events, point.at))

    async def _forkable(self, task: str) -> Task:
        found = await self._parts.records.find(task)
        if found.conversation:
            raise UserMistake(
                f"{found.id} is a conversation. Fork it where it is open (/fork TEXT), or copy it: "
                f"gen sessions fork {found.id}"
            )
        return found

    async def send(self, task: str, text: str, *, here: bool = False) -> tuple[Task, bool]:
        """Send a message to a task; a subagent that has ended is resumed with it, in the background.

        It is resumed in its own process if there can be others, unless it should be `here`.

        The task at that moment, and whether it was resumed. A refused message is not kept; `MessageKept` says
        that the task ended before it could read the message, and cannot be resumed now. If somebody else
        resumes it at the same moment, it reads the message there.
        """
        found = await self._parts.watcher.task((await self._parts.records.find(task)).id)
        return await self._send(found, text, here=here)

    async def wake(self, task: Task) -> Task:
        """Resume a task that has ended with the messages that wait for it."""
        return (await self._send(task, "", posted=True))[0]

    async def _send(
        self, found: Task, text: str, *, here: bool = False, posted: bool = False
    ) -> tuple[Task, bool]:
        until = time.monotonic() + PATIENCE
        while True:
            seen = self._store.changes.count
            # On its way to another machine a prompt could be lost, a posted message is not.
            far = self._parts.processes.far and not here
            if not posted and (far or found.conversation or not found.status.ended):
                found = await self._parts.control.send(found.id, text)
                posted = True
            if posted and not await self._has_unread(found):
                return found, False
            try:
                await self._wake(found.id, "" if posted else text, here=here)
                return await self._parts.watcher.task(found.id), True
            except UserMistake as refused:
                now = await self._parts.watcher.task(found.id)
                lost = now.seq != found.seq or await self._is_leased(found.id)
                if posted and not await self._has_unread(now):
                    return now, False
                if not lost or time.monotonic() > until:
                    if posted:
                        raise MessageKept(f"{refused} The message to task {found.id} is kept.") from None
                    raise
            found = now
            await self._store.changes.after(seen, LOOK_SECONDS)

    async def _wake(self, task: str, prompt: str, *, here: bool) -> None:
        """Resume a task in the background, in its own process if possible."""
        request = TaskRequest("", prompt, resume=task, background=True)
        if self._parts.processes.possible and not here:
            await self.detach(request)
            return
        async with self._waking:  # leases exclude other processes only
            await self.resume(task, request)

    async def _has_unread(self, task: Task) -> bool:
        """Whether a subagent has ended with unread messages."""
        if not task.status.ended or task.conversation:
            return False
        return bool(await self._store.unread_messages(task.id))

    async def _is_leased(self, task: str) -> bool:
        """Whether a process has leased a task to resume it."""
        held = await ownership_of(self._store, task)
        return held is not None and not is_abandoned(held)

    async def detach(self, request: TaskRequest) -> str:
        """Start a subagent, or resume an earlier one, in a process that outlives this one; its id."""
        check_turns(request.max_turns)
        with elsewhere(far=self._parts.processes.far):
            if request.resume:
                request = await with_checked_schema(request)
                earlier = await self._parts.records.find(request.resume)
                await self._parts.watcher.check_not_woken(earlier)
                await self._budgets.check_not_spent(earlier)  # nobody would see the error of a worker
                account = await self._account_above(earlier)
                seconds = self._limits.seconds
                plan = await self._planner.plan_detached_resume(earlier, request, seconds, account)
                return (await self._starter.detach(plan)).id
            budget = await self._budgets.detached_budget(request.budget)
            request = replace(request, budget=budget, background=True)
            plan = await self._planner.plan_new(request, self._session.caller(), seconds=self._limits.seconds)
            return (await self._starter.detach(plan.detached)).id

    async def take_on(self, handover: Handover) -> RunningTask:
        """Start a task that another process handed over, or resume it if a third process died with it."""
        known = handover.seen or (await self._store.task(handover.task) if handover.task else None)
        # A task that is resumed is pending once its new messages are written.
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
        request, found = await with_checked_schema(request), await self._parts.records.find(handover.task)
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
        model: str = "",
    ) -> LocalTask:
        """Start a turn of a conversation that this agent leads; a new one may get the id in `named`.

        `model` is the one that the file of a slash command names.

        With `waits` it ends when its background commands have, or `command_seconds` are over: no later turn
        could report them.
        """
        said = checked_message(prompt)
        answers = self._session.model.for_turn(model)
        if said.images and not answers.sees:
            raise UserMistake(BLIND.format(model=answers.name))
        found = await self._parts.records.find(session) if session is not None else None
        budget = await self._budgets.of_conversation(found)
        left = seconds_left(found, budget)
        bounds = time_limits({TimeLimit.BUDGET: left, TimeLimit.RUN: self._limits.seconds})
        limits = RunLimits(self._limits.turns or spec.max_turns, commands=None if waits else 0.0)
        known = self._led.get(found.id) if found else None
        seen, approved = known or (None, self._session.approved.for_session())
        caller = replace(self._session.leader(spec), model=answers, seen=seen, approved=approved)
        plan = await self._planner.plan_turn(spec, said, caller, limits, bounds, budget, found, named)
        job = await self._starter.start_here(plan)
        self._budgets.keep(job.id, budget)
        self._led.pop(job.id, None)
        self._led[job.id] = job.setup.seen, approved
        if len(self._led) > MOST_LED:
            del self._led[next(iter(self._led))]
        return job

    async def delete_failed(self) -> None:
        """Delete the failed and cancelled subagents of conversations that were led here.

        One whose end its parent was not told yet stays until it is.
        """
        for session in self._led:
            parent = await self._store.task(session)
            if parent is None:
                continue
            query = TaskQuery(parent=session, statuses=(Status.FAILED, Status.CANCELLED))
            for child in as_delivered(parent, await self._store.tasks(query)):
                if not undelivered(parent, child):
                    await self._parts.records.remove(child.id)

    async def hear(self, spec: AgentSpec, session: str, said: UserMessage | None = None) -> LocalTask | None:
        """Start a turn of an idle conversation for the results that wait for it, or with a message.

        None if nothing that is worth a turn waits; `MessageKept` if its budget is spent.
        """
        found = await self._parts.records.find(session)
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
        if not (undelivered := undelivered_commands(task)):
            return False
        here = self._session.shells.all().of_task(task.id)
        return any(each.shell in here and here[each.shell].over for each in undelivered)

    @property
    def budget(self) -> Budget:
        """The budget of a conversation."""
        return self._budgets.budget

    async def set_session_budget(self, budget: Budget, conversation: str | None = None) -> None:
        """Set the budget of this session: all work of this process, and this conversation.

        Earlier costs count. UserMistake for dollars if the price of the model is not known.
        """
        found = await self._parts.records.find(conversation) if conversation is not None else None
        if budget.usd is not None:
            self._parts.setups.check_model(self._session.model.current.name)
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
        """Set the budget of a task with its subagents; earlier costs count.

        It may be running, in any process. UserMistake if less is left in the accounts above it.
        """
        found, budget = await self._parts.records.find(task), checked_budget(budget)
        if budget.usd is not None and found.run.model:
            self._parts.setups.check_model(found.run.model)
        if found.conversation:
            self._budgets.keep(found.id, await self._budgets.of_conversation(found))
        await self._set(found, budget)
        return budget

    async def _set(self, task: Task, budget: Budget) -> None:
        """Limit a task in the ledger, which applies at once, and write that into its journal.

        A process that runs it elsewhere gets a signal to read the ledger.
        """
        job = self._supervisor.local(task.id)
        if job is not None:
            await self._budgets.limit(task, budget)
            job.change_seconds(budget, self._supervisor.find)
            await job.record.commit(BudgetSet(budget))
            return
        try:
            async with self._starter.idle_lease(task.id) as lease:
                await self._budgets.limit(task, budget)
                await self._store.append(lease, [BudgetSet(budget)])
        except (StoreTrouble, BudgetSpent):
            raise
        except (UserMistake, Fenced):
            await self._budgets.limit(task, budget)
            await self._store.send_signal(task.id, TaskSignal.BUDGET)

    async def rewind(
        self, session: Task, to: int, *, conversation: bool, files: bool, overwrite: bool
    ) -> "Rewound":
        """Rewind an idle conversation, the files that its agents changed, or both to an earlier prompt."""
        done = await self._parts.rewinder.rewind(
            session, to, conversation=conversation, files=files, overwrite=overwrite
        )
        if known := self._led.get(session.id):
            self._led[session.id] = (None, known[1])  # the rest of its transcript says which files it knows
        return done

    async def budget_of(self, session: str | None) -> Budget:
        """The budget of a conversation now."""
        return await self._budgets.of_conversation(
            await self._parts.records.find(session) if session else None
        )

    async def current_budget(self, task: Task) -> Budget:
        """The budget of a task now, whichever process set it."""
        return await self._budgets.current(task)

    async def compact(self, spec: AgentSpec, session: str, why: str = "the user asked for it") -> bool:
        """Compact an idle conversation that this agent leads; False if nothing can be left out."""
        found = await self._parts.records.find(session)
        run = EarlierTask(found)
        plan = TaskPlan(agent=spec, place=self._session.leader(spec).leading(spec), run=run)
        return await self._starter.compact(plan, run, why)
