"""Controls tasks from any process: stop, interrupt, send a message, move to the background."""

import asyncio
import time
from contextlib import suppress
from typing import Protocol

from msgspec import Struct

from gencode.agent.ports import StopAction
from gencode.core.errors import Conflict, Fenced, UserMistake
from gencode.core.events import TaskStarted
from gencode.core.status import STOP_UNANSWERED, EndReason, Status, StopCause
from gencode.core.task import Task
from gencode.journal.owner import owner_state
from gencode.journal.store import Store, TaskQuery, TaskSignal
from gencode.tasks import process_engine
from gencode.tasks.crash_recovery import close_task, stop_anywhere
from gencode.tasks.liveness import is_abandoned
from gencode.tasks.queries import queue_positions
from gencode.tasks.remote_task import OtherProcesses
from gencode.tasks.supervisor import REPORT_SECONDS, Supervisor
from gencode.tasks.watch import LOOK_SECONDS, TaskWatcher

STOP_SECONDS = 3.0
"""So long the process that runs a task has to stop it."""
LET_GO_SECONDS = 20.0
"""So long it has to send it to the background, and another process to begin: nobody is cut off meanwhile."""
HEARD_SECONDS = 0.25
SENT_BACK = StopCause(EndReason.BACKGROUNDED, "it was moved to the background")
MOST_LIVES = 10
"""So often an agent begins before only its sender and a person can let it go on: two that write to each other
would wake each other for ever."""
PATIENCE = 60.0
"""So many seconds somebody who has taken a task may need to go on with it."""


class StopResult(Struct, frozen=True):
    """The result of a stop: the task as it is now, and all tasks that were affected."""

    task: Task
    hit: tuple[Task, ...] = ()


class TaskControl:
    """Acts on tasks by what the journal knows of them. A task of a dead process ends when it is looked at."""

    def __init__(self, store: Store, supervisor: Supervisor, watch: TaskWatcher) -> None:
        self._store = store
        self._supervisor = supervisor
        self._watch = watch

    async def apply_action(
        self, task: str, verb: StopAction, why: StopCause, message: str = ""
    ) -> StopResult:
        """Interrupt or stop a task; only an interrupted one gets a `message`."""
        if verb == "interrupt":
            return await self.interrupt(task, why, message)
        return await self.stop(task, why, tree=verb == "tree", report=verb == "keep")

    async def stop(
        self, task: str, why: StopCause, *, tree: bool = False, report: bool = False
    ) -> StopResult:
        """Stop a task and the work it waits for; with `tree` also its background tasks.

        With `report` it says in one last turn what it has found. What has ended is freed where a process has
        it that does not answer, and else nothing happens to it.
        """
        family = [await self._watch.task(task), *await self._below(task)]
        running = {each.id for each in family if not each.status.ended}
        below = [each.id for each in family[1:] if tree and each.id in running]
        # All are asked before any is waited for, from the top, so that no end below wakes anybody above.
        for each in (task, *below) if below and not report else ():
            if each in running and self._supervisor.find(each) is None:
                await self._store.send_signal(each, TaskSignal.STOP)
        if task in running:
            await self._stopped(task, why, report=report)
        else:
            await self._free(task)
        await asyncio.gather(*(self._stopped(each, why, report=False) for each in below))
        now = [await self._watch.task(each.id) for each in family]
        return StopResult(now[0], tuple(each for each in now if each.id in running and each.status.ended))

    async def _free(self, task: str) -> None:
        """Free an ended task from a process that hangs, so that others can resume it."""
        for held in await self._store.owned():
            if held.task == task and held.owner and held.over:
                with suppress(UserMistake, Fenced):  # it has answered just now
                    await self._store.release(
                        await self._store.take(task, self._supervisor.owner, held.owner)
                    )

    async def hits(self, task: str, verb: StopAction) -> list[Task]:
        """The tasks that an action would affect at this moment, the task itself first unless it has ended.

        Below it, that is what somebody waits for; with `tree` also what was sent to the background, and with
        all that end a task what ends with its process. Who waits for its turn does nothing that could be cut.
        """
        found = await self._watch.task(task)
        idle = verb == "interrupt" and found.status is Status.PENDING
        if idle or (found.status.ended and verb != "tree"):
            return []
        family = [found, *await self._below(task)]
        waited = {found.id} if verb == "interrupt" else {found.id, *await self._beside(found)}
        for each in family[1:]:
            if verb == "tree" or (each.parent in waited and not each.terms.background):
                waited.add(each.id)
        return [each for each in family if each.id in waited and not each.status.ended]

    async def _beside(self, task: Task) -> list[str]:
        """The tasks that run in the process of a task and end with that, because nobody else needs it."""
        owners = {held.task: held.owner for held in await self._store.owned()}
        owner = owners.get(task.id, "")
        if owner == owners.get(task.parent or "") or not process_engine.is_bound_process(owner):
            return []
        return [each for each, whose in owners.items() if whose == owner]

    async def queue_position(self, task: str) -> int | None:
        """The queue position of a task; None where it does not wait in a queue."""
        return (await queue_positions(self._store, [task], self._supervisor.slots.caps)).get(task)

    async def interrupt(self, task: str, why: StopCause, message: str = "") -> StopResult:
        """Interrupt what a task does at this moment, and what it waits for; it continues with the `message`.

        A conversation's turn is over; what it sent to the background goes on in both cases.
        """
        hit = await self.hits(task, "interrupt")
        if message and not (await self._watch.task(task)).status.ended:
            await self.send(task, message)
        if (job := self._supervisor.local(task)) is not None:
            job.interrupt(why)
            if job.task.conversation:
                await job.wait(STOP_SECONDS)
        elif hit and await self._store.send_signal(task, TaskSignal.INTERRUPT):
            await self._watch.until(task, lambda now: now.seq > hit[0].seq, STOP_SECONDS)
        now = await self._watch.task(task)
        if now.status is Status.PENDING or _ended_by_itself(now):
            return StopResult(now)
        below = await asyncio.gather(*(self._watch.ended(each.id, STOP_SECONDS) for each in hit[1:]))
        return StopResult(now, (*hit[:1], *(each for each in below if not _ended_by_itself(each))))

    async def send(self, task: str, text: str, sender: str = "user") -> Task:
        """Send a message to a task, whichever process runs it; the task as it is once it has read that.

        One that has ended hears it when it goes on.
        """
        number = await self.post(task, text, sender)
        # One that is just about to end may not have heard it; whoever sent it then wakes the task.
        return await self._watch.until(task, lambda now: now.delivered.mailed >= number, HEARD_SECONDS)

    async def post(self, task: str, text: str, sender: str) -> int:
        """Store a message for a task, whichever process runs it; its number."""
        number = await self._store.post(task, text, sender)
        job = self._supervisor.local(task)
        if job is not None and job.setup.inbox is not None:
            for letter in await self._store.unread_messages(
                task
            ):  # with those that came before it from elsewhere
                job.setup.inbox.put(letter)
        return number

    async def may_be_woken(self, task: Task) -> bool:
        """Whether agents that are not its parent may wake a task that has ended."""
        if task.status is Status.CANCELLED or task.imported:
            return False
        events = await self._store.events(task.id)
        return sum(isinstance(event.fact, TaskStarted) for event in events) < MOST_LIVES

    async def move_to_background(self, task: str) -> Task:
        """Send a task that somebody waits for to the background; UserMistake when nobody lets go of it."""
        found = await self._watch.task(task)
        if found.status.ended:
            raise Conflict(f"Task {task} has already ended ({found.status}).")
        if found.conversation:
            raise UserMistake(f"{task} is a conversation; only subagents can run in the background.")
        if found.terms.background or not await self._store.send_signal(task, TaskSignal.BACKGROUND):
            return await self._watch.task(task)
        found = await self._watch.until(task, lambda now: now.terms.background, LET_GO_SECONDS)
        if not found.terms.background and not found.status.ended:
            raise UserMistake(
                f"Task {task} could not be moved to the background within {LET_GO_SECONDS:.0f} s; it runs as "
                "before."
            )
        return await self._handed_over(found)

    async def _handed_over(self, task: Task) -> Task:
        """A task that was moved to the background; if it changes its process for that, once it runs there."""
        until = time.monotonic() + LET_GO_SECONDS
        while task.end.reason is EndReason.BACKGROUNDED and time.monotonic() < until:
            seen = self._store.changes.count
            task = await self._watch.task(task.id)
            if task.end.reason is EndReason.BACKGROUNDED:
                await self._store.changes.after(seen, LOOK_SECONDS)
        return task

    async def _stopped(self, task: str, why: StopCause, *, report: bool) -> None:
        """Stop one task: here, or by asking its process, or in the place of one that does not answer."""
        job = self._supervisor.find(task)
        if report and (local := self._supervisor.local(task)) is not None:
            local.report(why)
        elif report:
            await self._store.send_signal(task, TaskSignal.REPORT)
        if job is not None:
            await job.wait(REPORT_SECONDS if report else 0)
            await job.halt(why)
            return
        if not report:
            await stop_anywhere(self._store, task, self._supervisor.owner, why)
        found = await self._watch.ended(task, (REPORT_SECONDS if report else 0) + STOP_SECONDS)
        if not found.status.ended:
            await self._fence(task)

    async def _fence(self, task: str) -> None:
        """End a task in the place of a process here that hangs; after that it can write nothing more.

        A process that has only this task, and what that sent, ends with it.
        """
        owned = await self._store.owned()
        owner = next((held.owner for held in owned if held.task == task), "")
        if owner_state(owner) == "unknown":
            return
        await close_task(self._store, task, self._supervisor.owner, owner, STOP_UNANSWERED)
        now = await self._store.task(task)
        beside = {held.task for held in owned if held.owner == owner}
        if now is not None and now.end.reason is EndReason.STOP_UNANSWERED and now.parent not in beside:
            await process_engine.kill_task_process(owner)

    async def _below(self, task: str) -> list[Task]:
        """Everything below a task, parents before children; what was imported may go round in circles."""
        found: dict[str, Task] = {}
        above = [task]
        while above:
            level = [each for parent in above for each in await self._store.tasks(TaskQuery(parent=parent))]
            above = [each.id for each in level if each.id not in found and each.id != task]
            found |= {each.id: each for each in level if each.id != task}
        return list(found.values())


class MessageKept(UserMistake):
    """The message is kept, but its receiver cannot be resumed now."""


class WakeInBackground(Protocol):
    """Resumes a task in the background, with a prompt or with the messages that wait for it."""

    async def __call__(self, task: str, prompt: str, *, here: bool) -> None: ...


class MessageSender:
    """Says something to tasks and wakes those that have ended."""

    def __init__(
        self,
        apart: OtherProcesses,
        store: Store,
        reach: TaskControl,
        watch: TaskWatcher,
        wake: WakeInBackground,
    ) -> None:
        self._apart = apart
        self._store = store
        self._reach = reach
        self._watch = watch
        self._wake = wake

    async def wake(self, task: Task) -> Task:
        """Resume a task that has ended with the messages that wait for it."""
        return (await self.send(task, "", posted=True))[0]

    async def send(
        self, found: Task, text: str, *, here: bool = False, posted: bool = False
    ) -> tuple[Task, bool]:
        """Send a message to a task, whichever process runs it; the task as it is once it has read that."""
        until = time.monotonic() + PATIENCE
        while True:
            seen = self._store.changes.count
            # On its way to another machine a prompt could be lost, a letter is not.
            far = self._apart.far and not here
            if not posted and (far or found.conversation or not found.status.ended):
                found = await self._reach.send(found.id, text)
                posted = True
            if posted and not await self._deaf(found):
                return found, False
            try:
                await self._wake(found.id, "" if posted else text, here=here)
                return await self._watch.task(found.id), True
            except UserMistake as refused:
                now = await self._watch.task(found.id)
                lost = now.seq != found.seq or await self._held(found.id)
                if posted and not await self._deaf(now):
                    return now, False
                if not lost or time.monotonic() > until:
                    if posted:
                        raise MessageKept(f"{refused} The message to task {found.id} is kept.") from None
                    raise
            found = now
            await self._store.changes.after(seen, LOOK_SECONDS)

    async def _deaf(self, task: Task) -> bool:
        """Whether a task has ended without having read all its messages."""
        return (
            task.status.ended and not task.conversation and bool(await self._store.unread_messages(task.id))
        )

    async def _held(self, task: str) -> bool:
        """Whether a process has leased a task to resume it."""
        return any(each.task == task and not is_abandoned(each) for each in await self._store.owned())


def _ended_by_itself(task: Task) -> bool:
    """Whether a task had ended before it could be interrupted."""
    return task.status.ended and task.status is not Status.CANCELLED
