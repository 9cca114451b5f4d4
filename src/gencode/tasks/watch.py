"""Watches tasks through the journal, whatever process runs them; also finds which agent changed a file."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from gencode.agent.stop import Stop
from gencode.core.errors import Conflict, GenCodeError, StoreUnavailable, UserMistake
from gencode.core.events import Event, PassingFact, ProgressMade
from gencode.core.outcome import Outcome, outcome_of
from gencode.core.status import EndReason, Status, StopCause, WaitFor
from gencode.core.structs import replace
from gencode.core.task import Task
from gencode.journal.dispatch import MissingWorker, NoWorkerReason, SharedJournal
from gencode.journal.store import Store, TaskQuery
from gencode.tasks.crash_recovery import close_if_orphan
from gencode.tasks.deadline import UnclaimedTimer
from gencode.tasks.queries import readable_events, with_woken_as_pending

T = TypeVar("T")

LOOK_SECONDS = 0.5
"""How often a waiter looks without a change: a process that dies writes nothing."""
AWAY_SECONDS = 300.0
"""How long a database may be unavailable before waiters give up."""
QUIET_SECONDS = 2.0
"""How long a missing worker is not reported: most tasks are taken at once."""
OUTLOOK_SECONDS = 1.5
FIRST_PAUSE = 0.2
LONGEST_PAUSE = 5.0
WAITS = "waits for the database, which cannot be reached; the agent itself may still be running"
QUEUES = "waits for the database, which cannot be reached, to give an agent to the workers"
MOST_ASKED = 200
"""How many of the latest tasks of a folder are searched for who changed a file."""
WRITTEN_LATER = 0.7
"""How many seconds to wait for the record of a file change."""
WOKEN = (
    "Task {task} was resumed and waits for a worker; send it more (gen task send {task}), wait for it "
    "(gen task output {task}), or stop it first (gen task stop {task})."
)
OUT_OF_TIME = StopCause(EndReason.TIME_LIMIT, "it was waited for long enough")

FindOutlook = Callable[[], Awaitable[MissingWorker | None]]
"""Finds out why no worker has taken a task."""
Tell = Callable[[PassingFact], None]
"""Publishes that the database is unavailable."""


def tell_nobody(_fact: PassingFact) -> None:
    """Publishes nothing."""


async def retry(
    step: Callable[[], Awaitable[T]], stop: Stop, tell: Tell = tell_nobody, note: str = WAITS
) -> T:
    """The result of a repeatable step, retried with growing pauses while the store is unavailable.

    StoreUnavailable if it stays unavailable, or the waiter is stopped.
    """
    until, pause = time.monotonic() + AWAY_SECONDS, FIRST_PAUSE
    while True:
        try:
            return await step()
        except StoreUnavailable:
            if stop.stopped or time.monotonic() > until:
                raise
        if pause == FIRST_PAUSE:
            tell(ProgressMade(note, note=True, waits_for=WaitFor.DATABASE))
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


class WorkerWait:
    """Reports why no worker has taken a task, and when to stop waiting."""

    def __init__(
        self, tell: Callable[[PassingFact], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tell = tell
        self._clock = clock
        self._next = clock() + QUIET_SECONDS
        self._seen: MissingWorker | None = None
        self._told: MissingWorker | None = None
        self._timer = UnclaimedTimer(clock)

    async def look(self, missing_worker: FindOutlook | None, *, quiet: bool) -> str:
        """Look why a task is `quiet`, if it may not have begun; a reason found twice in a row is reported.

        Why it has to end, if the wait was too long.
        """
        now = self._clock()
        if missing_worker is None or (quiet and now < self._next):
            return ""
        if not quiet:
            self._next, self._seen = now + QUIET_SECONDS, None
            self._timer.is_over(None)
            return ""
        self._next = now + OUTLOOK_SECONDS
        before, self._seen = self._seen, None
        try:
            self._seen = seen = await missing_worker()
        except GenCodeError:  # it looks again, and whoever follows the task reports the error
            self._timer.pause()
            return ""
        told = replace(seen, unclear=False) if seen else None
        if seen and seen.reason is not NoWorkerReason.NOT_YET and seen == before and told != self._told:
            self._told = told
            self._tell(ProgressMade(f"waits for {_in_full(seen)}", note=True, waits_for=WaitFor.WORKER))
        return seen.end if self._timer.is_over(seen) and seen else ""


def _in_full(seen: MissingWorker) -> str:
    if seen.most is None:
        return seen.words
    return f"{seen.words}; if none comes within {seen.most:.10g} s, it ends"


class TaskWatcher:
    """Reads tasks whenever the journal changes. A task whose process died is ended when it is looked at."""

    def __init__(self, store: Store, owner: str, outputs: Path | None = None) -> None:
        self._store = store
        self._owner = owner
        self._outputs = outputs

    async def task(self, task: str) -> Task:
        """A task by its whole id, as it is now."""
        found = await self._store.task(task)
        if found is not None and not found.status.ended:
            await close_if_orphan(self._store, task, self._owner, self._outputs)
            found = await self._store.task(task)
        if found is None:
            raise UserMistake(f"There is no task {task}.")
        [seen] = await with_woken_as_pending(self._store, [found])
        if seen.status.ended and isinstance(self._store, SharedJournal):
            # It may have been resumed and ended again since it was read, and this would be its earlier end.
            seen = await self._store.task(task) or seen
        return seen

    def outcome(self, task: Task) -> Outcome:
        """A folded task in its public shape."""
        return outcome_of(task, outputs=self._outputs)

    async def check_not_woken(self, task: Task) -> None:
        """UserMistake for a task that was resumed and has not begun: its new messages must not be lost."""
        if task.status.ended and (await self.task(task.id)).status is Status.PENDING:
            raise Conflict(WOKEN.format(task=task.id))

    async def until(
        self,
        task: str,
        done: Callable[[Task], bool],
        seconds: float | None = None,
        tell: Tell = tell_nobody,
    ) -> Task:
        """The task as soon as it is `done` or has ended, or as it is after so many seconds.

        Also waits while the database is unavailable.
        """
        until = None if seconds is None else time.monotonic() + seconds
        stop, look = Stop(), partial(self.task, task)
        over = None
        if seconds is not None:
            over = asyncio.get_running_loop().call_later(seconds, stop.stop, OUT_OF_TIME)
        try:
            while True:
                seen = self._store.changes.count
                found = await retry(look, stop, tell)
                rest = LOOK_SECONDS if until is None else min(LOOK_SECONDS, until - time.monotonic())
                if done(found) or found.status.ended or rest <= 0:
                    return found
                await self._store.changes.after(seen, rest)
        finally:
            if over is not None:
                over.cancel()

    async def ended(self, task: str, seconds: float | None = None, tell: Tell = tell_nobody) -> Task:
        """The task once it has ended, or as it is after so many seconds."""
        return await self.until(task, lambda found: found.status.ended, seconds, tell)

    async def events(
        self, task: str, after: int = 0, tell: Tell = tell_nobody
    ) -> AsyncGenerator[Event, None]:
        """The events of a task from a number on, as they are written, until it has ended."""
        stop = Stop()
        while True:
            seen = self._store.changes.count
            found = await retry(partial(self.task, task), stop, tell)
            events, problem = await retry(partial(readable_events, self._store, task, after), stop, tell)
            for event in events:
                after = event.seq or after
                yield event
            if problem is not None:
                raise problem
            if found.status.ended and found.seq <= after:
                return
            await self._store.changes.after(seen, LOOK_SECONDS)

    async def author(self, cwd: str, path: str, sha256: str, but: str | None) -> str:
        """Which agent in a folder left a file in this state, by the journals; empty if none did.

        Changes of others are recorded a moment later, so while any of them is running it looks again.
        """
        until = time.monotonic() + WRITTEN_LATER
        while sha256:
            seen = self._store.changes.count
            latest = await self._store.tasks(TaskQuery(cwd=cwd, limit=MOST_ASKED))
            found = [*reversed(latest), await self._host(cwd)]
            others = [task for task in found if task is not None and task.id != but]
            for task in others:
                if any((each.path, each.sha256) == (path, sha256) for each in task.evidence.files_changed):
                    return f"the agent {task.agent}, task {task.id}"
            rest = until - time.monotonic()
            if rest <= 0 or all(task.status.ended for task in others):
                break
            await self._store.changes.after(seen, rest)
        return ""

    async def _host(self, cwd: str) -> Task | None:
        """The task that a folder was made for as its worktree; that task belongs to another folder."""
        from gencode.workspaces.worktrees.worktree import enclosing_worktree

        path = enclosing_worktree(Path(cwd))
        return await self._store.task(path.name) if path is not None else None
