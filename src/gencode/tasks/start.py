"""Starts tasks: writes a plan to the journal, builds the setup of the run and gives it to the supervisor."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

from gencode.agent.call_budget import CallBudget, CallQueue
from gencode.agent.final_answer import Form, form_notices
from gencode.agent.models import Model
from gencode.agent.ports import Request
from gencode.agent.recorder import Recorder
from gencode.agent.request_images import as_shown
from gencode.agent.run_setup import LoopResult, RunSetup
from gencode.agent.toolbox import Toolbox
from gencode.agent.work_queue import Slot
from gencode.budgets.limits import NO_BUDGET, limits_of
from gencode.core.budget import Budget
from gencode.core.errors import CorruptFact, UserMistake
from gencode.core.events import DurableFact, Event, MessageAdded, TaskBackgrounded, TaskCreated, settle
from gencode.core.ids import stamp
from gencode.core.messages import Message, UserMessage
from gencode.core.status import DIED, TAKEN_OVER
from gencode.core.structs import replace
from gencode.core.task import Task, as_rewound, fold, last_start, transcript_of, whole_transcript
from gencode.files.file_versions import SeenFiles, last_known, recall
from gencode.journal.dispatch import Handover, SharedJournal
from gencode.journal.store import Lease
from gencode.sessions.session import Caller
from gencode.tasks.crash_recovery import close_if_orphan, interruption
from gencode.tasks.deadline import remaining
from gencode.tasks.delegate import AgentDelegate
from gencode.tasks.delivery import AgentInbox, BackgroundCommands, as_delivered
from gencode.tasks.liveness import TaskLiveness, is_abandoned, lease_task, ownership_of
from gencode.tasks.plan import DetachedPlan, EarlierTask, NewTaskPlan, TaskPlan, check_prompt
from gencode.tasks.queries import accounts_above
from gencode.tasks.relatives import TaskFamily, TaskRelatives, TaskTree
from gencode.tasks.remote_task import DetachedTask, new_handover
from gencode.tasks.result_cache import NEVER, cache_inputs, cached_ending, cached_reply, find_cached
from gencode.tasks.resume import (
    busy_error,
    has_unanswered_messages,
    queued_start,
    resume_messages,
    with_place_notice,
)
from gencode.tasks.running_task import LocalTask, RunningTask
from gencode.tasks.setup_builder import output_schema_of
from gencode.tasks.task_folders import discarded_unless_begun
from gencode.tasks.watch import LOOK_SECONDS

if TYPE_CHECKING:
    from gencode.tasks.task_parts import TaskParts

PATIENCE = 5.0
"""For how many seconds another process may have the lease of an idle task."""


class TaskStarter:
    """Starts planned tasks: new ones and earlier ones, here and in other processes."""

    def __init__(self, parts: "TaskParts") -> None:
        self._parts = parts
        self._store = store = parts.store
        self._supervisor = parts.supervisor
        self._setups = parts.setups
        self._outputs = parts.outputs
        self._bus = bus = parts.bus
        self._command_seconds = parts.settings.command_seconds
        """How long an agent that has answered waits for its background commands."""
        self._tree = TaskTree()
        self._family = TaskFamily(store, bus, self._supervisor, self._tree, self._outputs)
        self._calls = CallQueue(store.ledger, store.changes, self._close_if_dead)
        self._resuming: dict[str, asyncio.Event] = {}
        self._leased_idle: dict[str, asyncio.Event] = {}

    async def start(self, plan: TaskPlan) -> RunningTask:
        """Start a task; UserMistake if it cannot start, and then nothing of it remains."""
        if plan.isolated:
            return await self._in_process(plan)
        return await self.start_here(plan)

    async def start_here(self, plan: TaskPlan) -> LocalTask:
        """Start a task whose plan is certain to run in this process."""
        run = plan.run
        if isinstance(run, EarlierTask):
            async with self._alone(run.task.id):
                await self._check_plans_price(plan)
                if run.task.conversation:
                    return await self._resume(plan, run)
                async with self._parts.folders.locked(run.task):
                    if workplace := await self._parts.folders.restored(run.task, plan.place.workspace):
                        plan = plan.working_in(workplace)
                    return await self._resume(plan, run)
        await self._check_plans_price(plan)
        if run.worktree:
            workplace = await self._parts.folders.create(plan.place.workspace, run.copies)
            created = replace(run.created, worktree=workplace.path)
            run = replace(run, created=created)
            plan = replace(plan.working_in(workplace), run=run)
        if plan.workplace is None:
            return await self._begin(plan, run)
        async with discarded_unless_begun(plan.workplace):
            return await self._begin(plan, run)

    async def detach(self, plan: DetachedPlan) -> DetachedTask:
        """Start a task in a process that outlives this one; returns once it has begun there."""
        run = plan.run
        if isinstance(run, EarlierTask):
            handover = Handover(
                model=plan.model.lasting,
                task=run.task.id,
                prompt=run.prompt,
                max_turns=plan.turns,
                seconds=plan.seconds,
                background=True,
                account=plan.account,
                output_schema=run.schema,
            )
            return await self._parts.processes.detach(handover)
        await self._check_price(plan.model, run.created, run.created.budget, plan.account)
        wanted, far = run.worktree, self._parts.processes.far
        lent = self._parts.folders.for_other_process(
            run.created, plan.workspace, run.copies, wanted=wanted, far=far
        )
        async with lent as (created, notice):
            handover = new_handover(created, plan.model, plan.seconds, bound=False)
            begun = await self._parts.processes.detach(replace(handover, fork=run.fork))
            return begun._replace(folder_notice=begun.folder_notice or notice)

    async def _check_plans_price(self, plan: TaskPlan) -> None:
        await self._check_price(plan.place.model, plan.task, plan.budget, plan.place.account)

    async def _in_process(self, plan: TaskPlan) -> RunningTask:
        """Start a new subagent in its own process; it spends from the same accounts as here."""
        run, place = plan.run, plan.place
        if isinstance(run, EarlierTask):
            raise UserMistake(f"Task {run.task.id} is resumed in this process; leave isolation out.")
        created = run.created
        await self._check_price(place.model, created, plan.budget, place.account)
        slot = self._supervisor.slots.slot("", created.parent or "", place.model.name)
        account = place.account if created.parent is None else ""
        handover = new_handover(created, place.model, plan.time.most, bound=True, account=account)
        remote = await self._parts.processes.bind(handover, place.stop, slot, plan.time)
        self._tree.learn(remote.id, created.parent, created.agent)
        return remote

    async def _check_price(
        self, model: Model, task: Task | TaskCreated, budget: Budget, account: str
    ) -> None:
        """UserMistake for a budget in dollars and a model with an unknown price, before anything is spent."""
        if budget.usd is None and task.parent is None and not account:
            return
        if budget.usd is None:
            job = self._supervisor.local(task.parent or "")
            path = job.record.lease.path if job else await accounts_above(self._store, task.parent, account)
            if "usd" not in (await self._store.ledger.left(path) or ()):
                return
        self._setups.check_model(model.name)

    async def _begin(self, plan: TaskPlan, run: NewTaskPlan) -> LocalTask:
        """Start a new task: its creation, its start and its first messages are written in one transaction.

        If too many agents are running, only its creation is; the rest is written when it leaves the queue.
        """
        plan = plan.settled()
        spec, place, created = plan.agent, plan.place, run.created
        await self._setups.ready(spec)
        toolbox = self._setups.tools(spec, place)
        system, changed = await self._prompt(plan, created, toolbox)
        started = self._setups.started(spec, toolbox, place, system)
        started = replace(started, seconds=plan.time.most)
        then = (*run.memory, started, *map(MessageAdded, (*changed, *_first_messages(plan, created))))
        told = transcript_of(Event("", None, "", fact) for fact in then)
        known, began = NEVER
        if run.reusable:
            shown = as_shown(told, place.model.name)
            request = Request(place.model.name, system, shown, toolbox.schemas())
            known, began = await find_cached(self._store, created, request, place)
        slot = None if known else self._slot(created, place)
        at_once = slot is None or slot.try_acquire()
        written = False
        try:
            named = run.named or (plan.workplace.named if plan.workplace else "")
            # A process that takes it over would write them again, and so would a new worktree.
            kept = run.memory if not at_once and run.received is None and not named else ()
            whole = (*then, cached_reply(known)) if known else then
            facts = whole if at_once else kept
            lease, events = await self._created(replace(run, named=named), facts, place.account)
            written = True
        finally:
            if not written and slot is not None:
                slot.release()
        record = Recorder(self._store, self._bus, lease, self._outputs)
        record.publish(events)
        await self._family.load_parent(lease.state)
        job = self._job(
            plan,
            record,
            toolbox,
            system,
            told,
            slot=slot,
            first=() if at_once else then[len(kept) :],
            began=began,
            ready=cached_ending(known) if known else None,
        )
        if run.memory:
            await recall_files(job.setup, told)
        if run.received is not None and run.received.task:
            await self._bring_messages(job)
        return self._supervisor.start(job)

    async def _prompt(
        self, plan: TaskPlan, created: TaskCreated, toolbox: Toolbox
    ) -> tuple[str, list[UserMessage]]:
        """The system prompt of a new task. A fork has its original's, and messages about changes."""
        leads, place = created.conversation, plan.place
        if created.forked:
            before = last_start(await self._store.events(created.forked))
            if before is not None and before.system:
                return before.system, self._setups.changes(before, toolbox, place, leads=leads)
        environment = await self._setups.environment(toolbox, place, anew=leads or place.spawned)
        return self._setups.system(plan.agent, toolbox, place, environment, leads=leads), []

    async def _created(
        self, run: NewTaskPlan, then: Sequence[DurableFact], account: str
    ) -> tuple[Lease, list[Event]]:
        """The lease of a new task and its first events; another process may have written it already.

        BudgetSpent if too little is left in the accounts above it.
        """
        store, owner, created, received = self._store, self._supervisor.owner, run.created, run.received
        if received is not None and received.task:
            instead = received.keeper or None
            if received.seen is not None and then and isinstance(store, SharedJournal):
                return await store.begin(received.seen, owner, then, instead)
            lease = await store.take(received.task, owner, instead)
            begun = False
            try:
                events = await store.append(lease, then)
                begun = True
            finally:
                if not begun:
                    await store.release(lease)
            return lease, events
        session = account if created.parent is None and not created.conversation else ""
        lease = await store.create(created, owner, then, run.named, session)
        facts, at = enumerate((created, *then), start=1), lease.state.created_at
        return lease, [Event(lease.task, seq, at, settle(fact)[0]) for seq, fact in facts]

    async def _close_if_dead(self, task: str) -> None:
        await close_if_orphan(self._store, task, self._supervisor.owner, self._outputs)

    async def _bring_messages(self, job: LocalTask) -> None:
        """Put messages that came while the task waited elsewhere into its inbox, before its first reply."""
        for posted in await self._store.unread_messages(job.id):
            job.inbox.put(posted)

    async def _resume(self, plan: TaskPlan, run: EarlierTask) -> LocalTask:
        """Resume a task, inside `_alone`; UserMistake if its journal cannot be read."""
        task = run.task.id
        await close_if_orphan(self._store, task, self._supervisor.owner, self._outputs)
        try:
            lease = await self._leased(task, plan.place.account or None)
            return await self._taken(lease, plan, run)
        except CorruptFact as corrupt:
            raise UserMistake(
                f"Task {task} cannot be resumed: {corrupt} Nothing was changed; gen task show {task} prints "
                "what can be read of it."
            ) from None

    @asynccontextmanager
    async def idle_lease(self, task: str) -> AsyncGenerator[Lease, None]:
        """The lease of an idle task for a moment; UserMistake while the task is running."""
        while returned := self._leased_idle.get(task):
            await returned.wait()
        self._leased_idle[task] = returned = asyncio.Event()
        try:
            self._check_free(task)
            lease = await self._leased(task)
            try:
                yield lease
            finally:
                await self._store.release(lease)
        finally:
            del self._leased_idle[task]
            returned.set()

    @asynccontextmanager
    async def _alone(self, task: str) -> AsyncGenerator[None, None]:
        """Excludes other resumes of a task in this process; UserMistake while the task is running."""
        # This process is one owner, which would get its own lease again while the task is running.
        live = self._supervisor.find(task)
        if live is not None and live.work is not None and not live.queued and await live.has_ended():
            await asyncio.wait([live.work])  # its end is written, and its cleanup is still running
        while returned := self._leased_idle.get(task):
            await returned.wait()
        self._check_free(task)
        self._resuming[task] = begun = asyncio.Event()
        try:
            yield
        finally:
            del self._resuming[task]
            begun.set()

    def _check_free(self, task: str) -> None:
        live = self._supervisor.find(task)
        if live is not None or task in self._resuming:
            raise busy_error(task, waits=live is not None and live.queued)

    async def settled(self, task: str) -> None:
        """Wait until a resume that has begun here has succeeded or failed."""
        while begun := self._resuming.get(task):
            await begun.wait()

    async def _leased(self, task: str, session: str | None = None) -> Lease:
        """The lease of a task; another process may have it for a moment, or have died with it while the task
        was idle.

        From now on the account of this `session` pays for it, if one is named.
        """
        until = time.monotonic() + PATIENCE
        dead = None
        while True:
            seen = self._store.changes.count
            try:
                return await lease_task(self._store, task, self._supervisor.owner, dead, session)
            except UserMistake:
                found = await self._store.task(task)
                if found is None or not found.status.ended or time.monotonic() > until:
                    raise
            held = await ownership_of(self._store, task)
            dead = held.owner if held is not None and is_abandoned(held) else None
            await self._store.changes.after(seen, LOOK_SECONDS)

    async def compact(self, plan: TaskPlan, run: EarlierTask, why: str) -> bool:
        """Compact the transcript of an idle task; False if nothing can be left out."""
        from gencode.agent.compaction import compact

        task = run.task.id
        async with self._alone(task):
            await close_if_orphan(self._store, task, self._supervisor.owner, self._outputs)
            lease = await self._leased(task)
            record = Recorder(self._store, self._bus, lease, self._outputs)
            try:
                plan = plan.settled()
                toolbox = self._setups.tools(plan.agent, plan.place)
                earlier = transcript_of(await self._store.events(task))
                children = as_delivered(lease.state, await self._family.learn(lease.state))
                job = self._job(plan, record, toolbox, lease.state.terms.system, earlier, children)
                job.turns.fall()
                return await compact(job.setup, job.transcript, record, plan.place.stop, why)
            finally:
                try:
                    await record.flush()  # the cost of a call that was cut off settles its hold
                finally:
                    await self._store.release(lease)

    async def _taken(self, lease: Lease, plan: TaskPlan, run: EarlierTask) -> LocalTask:
        """Start the next run of an earlier task. It keeps its system prompt."""
        plan = plan.settled()
        spec, place = plan.agent, plan.place
        begun, slot = False, None
        try:
            unread = await self._store.unread_messages(lease.task)
            record = Recorder(self._store, self._bus, lease, self._outputs)
            children = await self._family.learn(lease.state)
            events, before = await self._cut_off(record, children, at_once=not run.takes_over)
            if not unread and not run.takes_over and not has_unanswered_messages(before, events):
                check_prompt(run.prompt)
            earlier = transcript_of(events)
            await self._setups.ready(spec)
            toolbox = self._setups.tools(spec, place)
            before_that, system = last_start(as_rewound(events)), ""
            if not lease.state.terms.system:
                environment = await self._setups.environment(toolbox, place, anew=True)
                leads = lease.state.conversation
                system = self._setups.system(spec, toolbox, place, environment, leads=leads)
            sender = "system" if run.notice else "user"
            said = UserMessage(run.prompt, sender, images=plan.images, runs=plan.runs, notice=run.notice)
            heard = resume_messages(before, said, unread, events)
            heard += place.notes(before.delivered.place, earlier)
            if before_that is not None:
                leads = lease.state.conversation
                heard = [*self._setups.changes(before_that, toolbox, place, leads=leads), *heard]
            schema = output_schema_of(lease.state, spec, run.schema)
            heard += form_notices(schema, earlier)
            heard = with_place_notice(before, heard, plan.workplace, place.workspace, events)
            started = self._setups.started(
                spec, toolbox, place, system, before_that.tools if before_that else ()
            )
            first = (TaskBackgrounded(),) if run.to_background else ()
            started = replace(
                started,
                budget=run.budget,
                was=lease.state.status,
                output_schema=run.schema,
                seconds=plan.time.most,
            )
            slot = self._slot(lease.state, place)
            at_once = slot is None or slot.try_acquire()
            begins, later = (started, ()) if at_once else queued_start(started)
            job = self._job(
                plan,
                record,
                toolbox,
                lease.state.terms.system or system,
                [*earlier, *heard],
                as_delivered(before, children),
                slot=slot,
                schema=run.schema,
                first=later,
            )
            await restore_known_files(job.setup, record, whole_transcript(events))
            async with self._limited(lease.task, run.budget):
                await record.commit(begins, *first, *map(MessageAdded, heard))
            begun = True
            self._family.rejoin(before, children, job)
            return self._supervisor.start(job)
        finally:
            if not begun:
                if slot is not None:
                    slot.release()
                await self._store.release(lease)

    @asynccontextmanager
    async def _limited(self, task: str, budget: Budget | None) -> AsyncGenerator[None, None]:
        """Apply another budget to a task; undone if it is not resumed in this block."""
        ledger = self._store.ledger
        before = await ledger.balance(task) if budget is not None else None
        had = before.budget if before is not None else NO_BUDGET
        if budget is None or limits_of(budget) == limits_of(had):
            yield
            return
        await ledger.limit(task, budget)
        gone_on = False
        try:
            yield
            gone_on = True
        finally:
            if not gone_on:
                await ledger.limit(task, had)

    async def _cut_off(
        self, record: Recorder, children: Sequence[Task], *, at_once: bool
    ) -> tuple[list[Event], Task]:
        """The events of a task and its state, after the end of a run that was interrupted.

        The end is written at once, or together with the new start, so that nobody sees it ended.
        """
        task = record.task
        events = await self._store.events(task.id)
        in_flight = await self._store.ledger.holds(task.id)
        why = DIED if at_once else TAKEN_OVER
        cut = interruption(task, events, why, children, in_flight=in_flight)
        if not cut:
            return events, task
        if at_once:
            await record.commit(*cut)
            return await self._store.events(task.id), record.task
        for number, fact in enumerate(cut, start=task.seq + 1):
            record.defer(fact)
            events.append(Event(task.id, number, stamp(), settle(fact)[0]))
            task = fold(task, events[-1])
        return events, task

    def _slot(self, task: Task | TaskCreated, place: Caller) -> Slot | None:
        """A slot in the work queue; a conversation needs none."""
        if task.conversation:
            return None
        return self._supervisor.slots.slot("", task.parent or "", place.model.name)

    def _job(
        self,
        plan: TaskPlan,
        record: Recorder,
        toolbox: Toolbox,
        system: str,
        transcript: Sequence[Message],
        children: Sequence[Task] = (),
        *,
        slot: Slot | None = None,
        schema: Form = None,
        first: tuple[DurableFact, ...] = (),
        began: str = "",
        ready: LoopResult | None = None,
    ) -> LocalTask:
        """A running task with everything its run needs; `schema` replaces that of the task."""
        task, place = record.task, plan.place
        self._tree.learn(task.id, task.parent, plan.agent.name)
        if slot is not None:
            slot.assign(task.id)
        shells, find = place.session.shells.all, self._supervisor.find
        relatives = TaskRelatives(self._tree, task.id, shells, partial(self._family.look_up, task))
        gate = self._setups.gate(plan.agent, task, toolbox, place, relatives)
        seen = place.seen or SeenFiles(place.session.files, f"the agent {plan.agent.name}, task {task.id}")
        waits = self._command_seconds if plan.limits.commands is None else plan.limits.commands
        inbox = AgentInbox(
            record,
            cap=self._setups.result_cap,
            earlier=children,
            outputs=self._outputs,
            stale=lambda: seen.stale(place.workspace.cwd),
            commands=BackgroundCommands(
                lambda: shells().of_task(task.id),
                waits,
                lambda: remaining(find(task.id), find),
            ),
        )
        self._family.restore_inbox(record, children, inbox, gate)
        delegate = AgentDelegate(self._parts, replace(place, task=task.id), inbox)
        setup = RunSetup(
            model=place.model,
            system=self._family.with_introduction(system, task, gate),
            gate=gate,
            limits=replace(plan.limits, commands=waits),
            delegate=delegate,
            inbox=inbox,
            seen=seen,
            shells=shells,
            slot=slot,
            call_budget=CallBudget(self._store.ledger, self._calls, record.lease.path, record.lease.owner),
            price=self._setups.price(place.model),
            schema=output_schema_of(task, plan.agent, schema),
            hooks=self._setups.hooks(plan.agent, task, toolbox, place),
            sent=place.task is not None,
        )
        return LocalTask(
            setup,
            [*transcript],
            record,
            place.stop,
            inbox=inbox,
            delegate=delegate,
            workplace=plan.workplace,
            liveness=TaskLiveness(record, self._supervisor.timing),
            limits=plan.time,
            first=first,
            rests_on=partial(cache_inputs, self._store, setup, task.id, began) if began else None,
            ready=ready,
        )


def _first_messages(plan: TaskPlan, created: TaskCreated) -> list[UserMessage]:
    """The first messages of a new task."""
    spec = plan.agent
    first = [UserMessage(spec.initial_prompt)] if created.conversation and spec.initial_prompt else []
    place = plan.workplace.introduction() if plan.workplace else ()
    prompt = UserMessage(created.prompt, images=plan.images, runs=plan.runs)
    schema = output_schema_of(created, spec)
    form = () if schema is None else form_notices(schema)
    return [*first, prompt, *place, *plan.place.notes(), *form]


async def restore_known_files(setup: RunSetup, record: Recorder, transcript: Sequence[Message]) -> None:
    """Let an agent read the outputs of its earlier runs, and change files it knew that are unchanged.

    An imported task may claim to know any file, and knows none.
    """
    from gencode.agent.output_files import result_files

    for file in result_files(record.folder) if record.folder else ():
        setup.gate.allow_reading(file)
    if not record.task.imported:
        await recall_files(setup, transcript)


async def recall_files(setup: RunSetup, transcript: Sequence[Message]) -> None:
    """Restore the file versions an agent knows, from the calls in its transcript."""
    if known := last_known(transcript):
        await asyncio.to_thread(recall, setup.seen, known, setup.workspace)
