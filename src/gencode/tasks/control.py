"""Controls tasks from any process: stop, interrupt, send a message, move to the background."""

import asyncio
import time
from contextlib import suppress
from enum import StrEnum

from msgspec import Struct

from gencode.agent.ports import StopAction
from gencode.core.errors import Conflict, Fenced, UserMistake
from gencode.core.events import TaskStarted
from gencode.core.status import STOP_UNANSWERED, EndReason, Status, StopCause
from gencode.core.task import Task
from gencode.journal.owner import owner_state
from gencode.journal.store import Store, TaskSignal
from gencode.tasks import process_engine
from gencode.tasks.crash_recovery import close_task, stop_anywhere
from gencode.tasks.queries import descendants, queue_positions
from gencode.tasks.supervisor import REPORT_SECONDS, Supervisor
from gencode.tasks.watch import LOOK_SECONDS, TaskWatcher

STOP_SECONDS = 3.0
"""How long the process that runs a task may take to stop it."""
LET_GO_SECONDS = 20.0
"""How long moving a task to the background may take, including the start of another process."""
HEARD_SECONDS = 0.25
SENT_BACK = StopCause(EndReason.BACKGROUNDED, "it was moved to the background")
MOST_LIVES = 10
"""After so many starts only its parent and a person can resume an agent: two that write to each other would
resume each other for ever.
"""


class MessageState(StrEnum):
    """What became of the message sent with an interrupt."""

    NONE = ""
    READ = "read"
    WAITING = "waiting"
    """The task reads it before its next reply, or when it leaves the queue."""
    KEPT = "kept"
    """It is read when the task or conversation is resumed."""
    NOT_SENT = "not_sent"
    """The task had already finished."""


class StopResult(Struct, frozen=True):
    """The result of a stop: the task as it is now, all affected tasks, and what became of a message."""

    task: Task
    affected: tuple[Task, ...] = ()
    message: MessageState = MessageState.NONE


class TaskControl:
    """Acts on tasks by their journals. A task of a dead process is ended when it is looked at."""

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

        With `report` it reports in one last turn. A task that has ended is only released, if a hung process
        still holds it.
        """
        family = [await self._watch.task(task), *await descendants(self._store, task)]
        running = {each.id for each in family if not each.status.ended}
        below = [each.id for each in family[1:] if tree and each.id in running]
        # All are signalled before any is waited for, from the top, so that no child's end wakes its parent.
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
        """Release an ended task from a process that hangs, so that others can resume it."""
        for held in await self._store.owned():
            if held.task == task and held.owner and held.over:
                with suppress(UserMistake, Fenced):  # it has just responded
                    await self._store.release(
                        await self._store.take(task, self._supervisor.owner, held.owner)
                    )

    async def affected(self, task: str, verb: StopAction) -> list[Task]:
        """The tasks that an action would affect at this moment, the task itself first unless it has ended.

        These are the subagents it waits for; with `tree` also its background tasks, and for actions that end
        a task also what ends with its process. A task in the queue does nothing that could be interrupted.
        """
        found = await self._watch.task(task)
        idle = verb == "interrupt" and found.status is Status.PENDING
        if idle or (found.status.ended and verb != "tree"):
            return []
        family = [found, *await descendants(self._store, task)]
        waited = {found.id} if verb == "interrupt" else {found.id, *await self._beside(found)}
        for each in family[1:]:
            if verb == "tree" or (each.parent in waited and not each.terms.background):
                waited.add(each.id)
        return [each for each in family if each.id in waited and not each.status.ended]

    async def _beside(self, task: Task) -> list[str]:
        """The tasks that end with a task because nothing else needs their common process."""
        owners = {held.task: held.owner for held in await self._store.owned()}
        owner = owners.get(task.id, "")
        if owner == owners.get(task.parent or "") or not process_engine.is_bound_process(owner):
            return []
        return [each for each, whose in owners.items() if whose == owner]

    async def queue_position(self, task: str) -> int | None:
        """The queue position of a task; None if it is not in a queue."""
        return (await queue_positions(self._store, [task], self._supervisor.slots.caps)).get(task)

    async def interrupt(self, task: str, why: StopCause, message: str = "") -> StopResult:
        """Interrupt the current step of a task, and what it waits for; it continues with the `message`.

        The turn of a conversation ends; its background tasks continue in both cases.
        """
        found = await self._watch.task(task)
        affected = await self.affected(task, "interrupt")
        number = 0
        if message and not found.status.ended:
            number = await self.post(task, message, "user")
            await self._read(task, number)
        if (job := self._supervisor.local(task)) is not None:
            job.interrupt(why)
            if job.task.conversation:
                await job.wait(STOP_SECONDS)
        elif affected and await self._store.send_signal(task, TaskSignal.INTERRUPT):
            if found.conversation:
                await self._watch.ended(task, STOP_SECONDS)
            else:
                await self._watch.until(task, lambda now: now.seq > affected[0].seq, STOP_SECONDS)
        now = await self._watch.task(task)
        state = _message_state(
            now, message, number, over=now.status.ended or bool(affected and now.conversation)
        )
        if now.status is Status.PENDING or _ended_by_itself(now):
            return StopResult(now, message=state)
        below = await asyncio.gather(*(self._watch.ended(each.id, STOP_SECONDS) for each in affected[1:]))
        return StopResult(
            now, (*affected[:1], *(each for each in below if not _ended_by_itself(each))), state
        )

    async def send(self, task: str, text: str, sender: str = "user") -> Task:
        """Send a message to a task, whichever process runs it; the task once it has read that.

        A task that has ended reads it when it is resumed.
        """
        # A task that is just ending may not have read it; the caller then resumes the task.
        return await self._read(task, await self.post(task, text, sender))

    async def _read(self, task: str, number: int) -> Task:
        """A task once it has read a message, or after a moment."""
        return await self._watch.until(task, lambda now: now.delivered.mailed >= number, HEARD_SECONDS)

    async def post(self, task: str, text: str, sender: str) -> int:
        """Store a message for a task, whichever process runs it; its number."""
        number = await self._store.post(task, text, sender)
        if (job := self._supervisor.local(task)) is not None:
            for posted in await self._store.unread_messages(task):  # and earlier ones from other processes
                job.inbox.put(posted)
        return number

    async def may_be_woken(self, task: Task) -> bool:
        """Whether agents that are not its parent may resume a task that has ended."""
        if task.status is Status.CANCELLED or task.imported:
            return False
        events = await self._store.events(task.id)
        return sum(isinstance(event.fact, TaskStarted) for event in events) < MOST_LIVES

    async def move_to_background(self, task: str) -> Task:
        """Move a foreground task to the background; UserMistake if its parent does not release it."""
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
        """Stop one task: here, through its process, or in place of a process that does not respond."""
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
        """End a task in place of a process here that hangs, which can write nothing after that.

        A process that runs only this task and its subagents is killed.
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


class MessageKept(UserMistake):
    """The message is kept, but the task cannot be resumed now."""


def _message_state(task: Task, message: str, number: int, *, over: bool) -> MessageState:
    """What became of a message; `over`: the run that it was sent to reads nothing more."""
    if not message:
        return MessageState.NONE
    if not number:
        return MessageState.NOT_SENT
    if task.delivered.mailed >= number:
        return MessageState.READ
    return MessageState.KEPT if over else MessageState.WAITING


def _ended_by_itself(task: Task) -> bool:
    """Whether a task had ended before it could be interrupted."""
    return task.status.ended and task.status is not Status.CANCELLED
