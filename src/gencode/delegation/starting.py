"""How a task begins and goes on: its first facts are written, its agent is seated, its job is handed over."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gencode.budgets.limits import NO_BUDGET, limits_of
from gencode.core.budget import Budget, allowed, amount_of
from gencode.core.errors import CorruptFact, UserMistake
from gencode.core.events import DurableFact, Event, MessageAdded, TaskBackgrounded, TaskCreated, settle
from gencode.core.ids import stamp
from gencode.core.messages import Image, Message, SystemNotice, UserMessage
from gencode.core.reasons import DIED, TAKEN_OVER
from gencode.core.spec import AgentSpec
from gencode.core.task import Task, fold, transcript_of, whole_transcript
from gencode.delegation.cache import NEVER, given_again, inputs_of, recalled, said_again
from gencode.delegation.crash_recovery import close_if_orphan, interruption
from gencode.delegation.deadline import TimeLimits, latest_end
from gencode.delegation.delivery import AgentInbox, Commands, Delivery, as_sent
from gencode.delegation.desk import Desk
from gencode.delegation.earlier import busy, has_open_words, in_line, tools_of, with_place, words_for
from gencode.delegation.family import Family
from gencode.delegation.forms import schema_of
from gencode.delegation.knowing import know_again, knowing
from gencode.delegation.live import Job
from gencode.delegation.liveness import TaskLiveness, is_abandoned, lease_task, ownership_of
from gencode.delegation.origin import Origin
from gencode.delegation.relatives import TaskRelatives, TaskTree
from gencode.delegation.seating import Seating
from gencode.delegation.supervisor import Supervisor
from gencode.delegation.task_queries import is_bounded
from gencode.delegation.trees import Workplace
from gencode.delegation.watch import LOOK_SECONDS
from gencode.runtime.bus import Bus
from gencode.runtime.fleet import Dispatching
from gencode.runtime.forms import Form, told_form
from gencode.runtime.limits import Limits
from gencode.runtime.payer import CallQueue, Payer
from gencode.runtime.ports import Handover, Lease, Request, Store
from gencode.runtime.recorder import Recorder
from gencode.runtime.seat import Seat
from gencode.runtime.shown import as_shown
from gencode.runtime.slots import Slot
from gencode.runtime.toolbox import Toolbox

COMMAND_SECONDS = 600.0
"""So long an agent that has answered waits for its background commands, where nothing else is said."""
PATIENCE = 5.0
"""So many seconds somebody may have the lease of a task at rest."""
NOTHING_SAID = "The prompt is empty; say what the agent should do."


class Order(Struct, frozen=True, eq=False):
    """An agent at its place, and what bounds it there."""

    spec: AgentSpec
    place: Origin
    limits: Limits
    time: TimeLimits = TimeLimits()
    workplace: Workplace | None = None
    remembers: bool = False
    """Whether its result may be given again, and an earlier one be given for it."""
    images: tuple[Image, ...] = ()
    """What it is shown with its prompt."""
    named: str = ""
    """The id of its task, where that was given out before it begins."""

    def minded(self) -> "Order":
        """With the model asked as the agent's file says, so that those it sends are asked likewise."""
        return replace(self, place=replace(self.place, model=self.place.model.for_agent(self.spec)))


class More(Struct, frozen=True):
    """What an earlier task is told when it goes on: from now on in the background when it is `behind`."""

    prompt: str = ""
    behind: bool = False
    budget: Budget | None = None
    over: bool = False
    """Whether it goes on in the place of a process that died, with nothing new to do."""
    form: Form = None
    """What its results have to fit from now on; None: what they had to before."""
    notice: SystemNotice | None = None
    """What the prompt is about, where nobody but GenCode says it."""


class Starting:
    """Writes the beginnings of tasks and seats their agents."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        supervisor: Supervisor,
        seating: Seating,
        outputs: Path | None = None,
        command_seconds: float = COMMAND_SECONDS,
    ) -> None:
        self._command_seconds = command_seconds
        self._store = store
        self._bus = bus
        self._supervisor = supervisor
        self._seating = seating
        self._outputs = outputs
        self.tree = TaskTree()
        self._family = Family(store, bus, supervisor, self.tree, outputs)
        supervisor.chores.append(Delivery(store, supervisor).run)
        self._calls = CallQueue(store.ledger, store.changes, self._close_if_dead)
        self._going_on: dict[str, asyncio.Event] = {}
        self._lent: dict[str, asyncio.Event] = {}

    async def begin(
        self,
        order: Order,
        created: TaskCreated,
        desk: Desk,
        before: Sequence[DurableFact] = (),
        handover: Handover | None = None,
    ) -> Job:
        """A new task: its birth, its start and what it was told are written as one, and then heard of.

        Where too many agents are at work, only its birth is; the rest is written when it is its turn.
        `before` are facts that come between its birth and its start, which it would go on with were it cut in
        line; by a `handover` it may have been born elsewhere.
        """
        order = order.minded()
        spec, origin = order.spec, order.place
        await self._seating.ready(spec)
        toolbox = self._seating.tools(spec, origin)
        system = self._seating.system(spec, toolbox, origin, "" if created.conversation else created.prompt)
        started = self._seating.started(spec, toolbox, origin, system)
        started = replace(started, seconds=order.time.most)
        then = (*before, started, *map(MessageAdded, _first_words(order, created)))
        told = transcript_of(Event("", None, "", fact) for fact in then)
        request = Request(origin.model.name, system, as_shown(told, origin.model.name), toolbox.schemas())
        known, began = await recalled(self._store, created, request, origin) if order.remembers else NEVER
        slot = None if known else self._slot(created, origin)
        at_once = slot is None or slot.try_take()
        born = False
        try:
            named = order.named or (order.workplace.named if order.workplace else "")
            # Whoever takes it after us would write it again; and a worktree is made anew with what it is.
            kept = before if not at_once and handover is None and not named else ()
            facts = (*then, *said_again(known)) if at_once else kept
            lease, events = await self._born(created, facts, origin.account, handover, named)
            born = True
        finally:
            if not born and slot is not None:
                slot.give_back()
        record = Recorder(self._store, self._bus, lease, self._outputs)
        record.publish(events)
        await self._family.greet(lease.state)
        seat = await knowing(self._seat(order, record, toolbox, slot, system), told)
        job = self._job(order, seat, told, record, desk)
        job.first = () if at_once else then[len(kept) :]
        job.remembers = partial(inputs_of, self._store, seat, lease.task, began) if began else None
        job.ready = given_again(known) if known else None
        if handover is not None and handover.task:
            await self._bring_mail(job)
        return self._supervisor.start(job)

    async def _born(
        self,
        created: TaskCreated,
        then: Sequence[DurableFact],
        account: str,
        handover: Handover | None,
        named: str,
    ) -> tuple[Lease, list[Event]]:
        """The lease of a new task and its first facts; another process may have written it down already.

        BudgetSpent when a budget above it leaves too little, or no agent.
        """
        store, owner = self._store, self._supervisor.owner
        if handover is not None and handover.task:
            instead = handover.keeper or None
            if handover.seen is not None and then and isinstance(store, Dispatching):
                return await store.begin(handover.seen, owner, then, instead)
            lease = await store.take(handover.task, owner, instead)
            begun = False
            try:
                events = await store.append(lease, then)
                begun = True
            finally:
                if not begun:
                    await store.release(lease)
            return lease, events
        session = account if created.parent is None and not created.conversation else ""
        lease = await store.create(created, owner, then, named, session)
        facts, at = enumerate((created, *then), start=1), lease.state.created_at
        return lease, [Event(lease.task, seq, at, settle(fact)[0]) for seq, fact in facts]

    async def _close_if_dead(self, task: str) -> None:
        await close_if_orphan(self._store, task, self._supervisor.owner, self._outputs)

    async def _bring_mail(self, job: Job) -> None:
        """Hand over what was said to a task while it waited elsewhere, so that its first reply knows that."""
        for letter in await self._store.waiting(job.id):
            if job.seat.inbox is not None:
                job.seat.inbox.put(letter)

    async def go_on(self, task: str, order: Order, more: More, desk: Desk) -> Job:
        """Go on with a task that can be read as a whole, while it is `alone`."""
        await close_if_orphan(self._store, task, self._supervisor.owner, self._outputs)
        try:
            lease = await self._leased(task, order.place.account or None)
            return await self._taken(lease, order, more, desk)
        except CorruptFact as corrupt:
            raise UserMistake(
                f"Task {task} cannot go on: {corrupt} Nothing was changed; gen task show {task} has what "
                "can be read of it."
            ) from None

    @asynccontextmanager
    async def borrow(self, task: str) -> AsyncGenerator[Lease, None]:
        """The lease of a task at rest for a moment; UserMistake while somebody works on it."""
        while returned := self._lent.get(task):
            await returned.wait()
        self._lent[task] = returned = asyncio.Event()
        try:
            self._check_free(task)
            lease = await self._leased(task)
            try:
                yield lease
            finally:
                await self._store.release(lease)
        finally:
            del self._lent[task]
            returned.set()

    @asynccontextmanager
    async def alone(self, task: str) -> AsyncGenerator[None, None]:
        """While nothing else here goes on with a task; UserMistake while somebody works on it."""
        # All of this process is one owner, who would get its own lease again while it is at work.
        live = self._supervisor.find(task)
        if live is not None and live.work is not None and not live.queued and await live.has_ended():
            await asyncio.wait([live.work])  # its end is written, and it is just being put away
        while returned := self._lent.get(task):
            await returned.wait()
        self._check_free(task)
        self._going_on[task] = begun = asyncio.Event()
        try:
            yield
        finally:
            del self._going_on[task]
            begun.set()

    def _check_free(self, task: str) -> None:
        live = self._supervisor.find(task)
        if live is not None or task in self._going_on:
            raise busy(task, waits=live is not None and live.queued)

    async def settled(self, task: str) -> None:
        """Wait until a task that is about to go on does so, or does not."""
        while begun := self._going_on.get(task):
            await begun.wait()

    async def _leased(self, task: str, session: str | None = None) -> Lease:
        """The lease of a task; somebody else may have it for a moment, or have died with it, at its rest.

        From now on the account of this `session` pays for it, where one is named.
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

    async def compact(self, task: str, order: Order, desk: Desk, why: str) -> bool:
        """Sum up the transcript of a task that is at rest; False when there is nothing to leave out."""
        async with self.alone(task):
            return await self._compacted(task, order, desk, why)

    async def _compacted(self, task: str, order: Order, desk: Desk, why: str) -> bool:
        from gencode.runtime.compaction import compact

        await close_if_orphan(self._store, task, self._supervisor.owner, self._outputs)
        lease = await self._leased(task)
        try:
            order = order.minded()
            record = Recorder(self._store, self._bus, lease, self._outputs)
            toolbox = self._seating.tools(order.spec, order.place)
            seat = self._seat(order, record, toolbox, None, lease.state.system)
            earlier = transcript_of(await self._store.events(task))
            children = as_sent(lease.state, await self._family.learn(lease.state))
            job = self._job(order, seat, earlier, record, desk, children)
            job.turns.fall()
            return await compact(job.seat, job.transcript, record, order.place.stop, why)
        finally:
            await self._store.release(lease)

    async def _taken(self, lease: Lease, order: Order, more: More, desk: Desk) -> Job:
        """An earlier task with something more to do. It keeps the system prompt it had."""
        order = order.minded()
        spec, origin = order.spec, order.place
        begun, slot = False, None
        try:
            letters = await self._store.waiting(lease.task)
            record = Recorder(self._store, self._bus, lease, self._outputs)
            children = await self._family.learn(lease.state)
            events, before = await self._cut_off(record, children, at_once=not more.over)
            if not letters and not more.over and not has_open_words(before, events):
                check_prompt(more.prompt)
            earlier = transcript_of(events)
            await self._seating.ready(spec)
            toolbox = self._seating.tools(spec, origin)
            system = "" if lease.state.system else self._seating.system(spec, toolbox, origin, "")
            sender = "system" if more.notice else "user"
            said = UserMessage(more.prompt, sender, images=order.images, notice=more.notice)
            heard = words_for(before, said, letters, events)
            notes = origin.notes(before.place)
            heard += [note for note in notes if note.notice is not None or note not in earlier]
            form = schema_of(lease.state, spec, more.form)
            heard += told_form(form, earlier)
            heard = with_place(before, heard, order.workplace, origin.workspace, events)
            started = self._seating.started(spec, toolbox, origin, system, tools_of(events))
            first = (TaskBackgrounded(),) if more.behind else ()
            started = replace(started, budget=more.budget, was=lease.state.status)
            started = replace(started, output_schema=more.form, seconds=order.time.most)
            slot = self._slot(lease.state, origin)
            seat = self._seat(order, record, toolbox, slot, lease.state.system or system)
            seat = replace(seat, schema=form)
            await know_again(seat, record, whole_transcript(events))
            job = self._job(order, seat, [*earlier, *heard], record, desk, as_sent(before, children))
            at_once = slot is None or slot.try_take()
            begins, job.first = (started, ()) if at_once else in_line(started)
            async with self._limited(lease.task, more.budget):
                await record.commit(begins, *first, *map(MessageAdded, heard))
            begun = True
            self._family.rejoin(before, children, job)
            return self._supervisor.start(job)
        finally:
            if not begun:
                if slot is not None:
                    slot.give_back()
                await self._store.release(lease)

    @asynccontextmanager
    async def _limited(self, task: str, budget: Budget | None) -> AsyncGenerator[None, None]:
        """Bound a task by another budget, unless it does not go on in this block."""
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
        """The facts of a task and the task they lead to, after the end of a run that was cut.

        That is written at once, or else together with the new beginning, so that nobody sees it ended.
        """
        task = record.task
        events = await self._store.events(task.id)
        bounded = await is_bounded(self._store, task)
        why = DIED if at_once else TAKEN_OVER
        cut = interruption(task, transcript_of(events), why, children, bounded=bounded)
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

    def _slot(self, task: Task | TaskCreated, origin: Origin) -> Slot | None:
        """The right to be at work; who talks with a person needs none."""
        if task.conversation:
            return None
        return self._supervisor.slots.slot("", task.parent or "", origin.model.name)

    def _seat(self, order: Order, record: Recorder, toolbox: Toolbox, slot: Slot | None, system: str) -> Seat:
        task, origin = record.task, order.place
        self.tree.learn(task.id, task.parent, order.spec.name)
        relatives = TaskRelatives(self.tree, task.id, origin.shells, partial(self._family.meet, task))
        seat = self._seating.seat(order.spec, task, toolbox, origin, order.limits, relatives)
        if slot is not None:
            slot.task = task.id
        payer = Payer(self._store.ledger, self._calls, record.lease.path, record.lease.owner)
        return self._family.introduced(replace(seat, slot=slot, system=system, payer=payer), task)

    def _job(
        self,
        order: Order,
        seat: Seat,
        transcript: Sequence[Message],
        record: Recorder,
        desk: Desk,
        children: Sequence[Task] = (),
    ) -> Job:
        cwd = seat.workspace.cwd
        waits, task = order.limits.commands, record.task.id
        inbox = AgentInbox(
            *(record, desk.result_cap, children, self._outputs),
            lambda: seat.seen.stale(cwd),
            Commands(
                lambda: seat.shells().of(task),
                self._command_seconds if waits is None else waits,
                lambda: latest_end(self._supervisor.find(task), self._supervisor.find),
            ),
        )
        folder = record.folder
        for each in record.task.evidence.commands:
            if each.shell and folder is not None:
                seat.gate.hand_out(folder / f"{each.shell}.txt")
        desk.sit(replace(order.place, task=record.task.id), inbox)
        self._family.take_up(children, inbox, seat)
        seat = replace(seat, delegate=desk, inbox=inbox)
        liveness = TaskLiveness(record, self._supervisor.timing)
        known = (order.place.stop, order.workplace, liveness, order.time)
        return Job(seat, [*transcript], record, *known)


def check_prompt(prompt: str) -> None:
    """UserMistake for one that says nothing."""
    if not prompt.strip():
        raise UserMistake(NOTHING_SAID)


def check_turns(turns: int | None) -> None:
    """UserMistake for a limit of turns that can be none."""
    if turns is not None and amount_of("turns", turns) is not turns:  # a program may say a text
        raise UserMistake(f"max_turns must be {allowed('turns')}, not {turns!r}.")


def _first_words(order: Order, created: TaskCreated) -> list[UserMessage]:
    """What a new task hears before anything else."""
    spec = order.spec
    first = [UserMessage(spec.initial_prompt)] if created.conversation and spec.initial_prompt else []
    place = order.workplace.heard() if order.workplace else ()
    said = UserMessage(created.prompt, images=order.images)
    return [*first, said, *place, *order.place.notes(), *told_form(schema_of(created, spec))]
