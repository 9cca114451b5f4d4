"""Resumes what a server stopped when it shut down, once one server of the machine runs again."""

import fcntl
import logging
import os
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path

from gencode.app import GenCode
from gencode.core.errors import GenCodeError, UserMistake
from gencode.core.ids import stamp
from gencode.core.messages import NoticeKind, SystemNotice, UserMessage
from gencode.core.spec import TaskRequest
from gencode.core.status import EndReason, Status, StopCause
from gencode.core.structs import replace
from gencode.core.task import Task, transcript_of
from gencode.journal.store import TaskQuery
from gencode.settings import gen_home
from gencode.tasks.queries import restart_order
from gencode.tasks.resume import trailing_notices

_MODE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class LeaderLock:
    """A lock file that one process holds at a time; a dead process holds none."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def acquire(self) -> bool:
        """Try to get the lock; whether this process has it now."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def lock_path(work: str, folder: Path) -> Path:
    """The lock file of some work for one folder."""
    return gen_home() / f"{work}-{sha256(os.fsencode(folder)).hexdigest()[:16]}.lock"


@contextmanager
def leader_lock(path: Path) -> Generator[LeaderLock, None, None]:
    """A lock file, which is released at the end."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, _MODE, 0o600)
    except OSError as error:
        raise UserMistake(f"{path} cannot be written: {error.strerror}.") from None
    try:
        yield LeaderLock(handle)
    finally:
        os.close(handle)


log = logging.getLogger(__name__)

SHUT_DOWN = StopCause(EndReason.SHUT_DOWN, "the server was shut down; it resumes when a server runs again")
PARENT_RESUMES = StopCause(
    EndReason.PARENT_STOPPED, "the server was shut down; its parent resumes when a server runs again"
)
RESUME_NOTICE = UserMessage(
    "The server was shut down while you were working, and is running again. Continue where you left off.",
    sender="system",
    notice=SystemNotice(NoticeKind.RESTARTED),
)
OLDEST = timedelta(days=7)


async def resume_all(gen: GenCode, lock: Path) -> list[Task]:
    """Resume every task of this folder that a shutdown stopped; which those are.

    A subagent that its parent waited for is left to its parent, which knows that it was stopped.
    """
    with leader_lock(lock) as leadership:
        if not leadership.acquire():
            return []  # another server is doing just that
        query = TaskQuery(
            cwd=str(gen.workspace.cwd),
            statuses=(Status.CANCELLED,),
            ended_after=stamp(datetime.now(UTC) - OLDEST),
        )
        cut = [task for task in await gen.history.tasks(query) if task.end.reason is EndReason.SHUT_DOWN]
        free = [task for task in cut if not _is_waited_for(task)]
        # In the line they stood in; conversations last, so that they expect what they had sent.
        free.sort(key=lambda each: (each.conversation, restart_order(each)))
        return [task for task in free if await _resumed(gen, task)]


def shut_down(gen: GenCode) -> None:
    """Stop everything that runs, and note for each task whether it resumes by itself."""
    for live in sorted(gen.running, key=lambda each: each.task.created.depth, reverse=True):
        live.stop.stop(PARENT_RESUMES if _is_waited_for(live.task) else SHUT_DOWN)
    gen.running.stop(SHUT_DOWN)


def _is_waited_for(task: Task) -> bool:
    return task.parent is not None and not task.terms.background and not task.conversation


async def _resumed(gen: GenCode, task: Task) -> bool:
    try:
        if await gen.history.task(task.id) != task:
            return False  # a server of another machine was quicker
        if task.conversation:
            await gen.start_follow_up(task.id, task.agent, RESUME_NOTICE)
            return True
        request = TaskRequest("", "", resume=task.id, background=task.terms.background)
        if not await _was_told(gen, task):
            request = replace(request, prompt=RESUME_NOTICE.text, notice=RESUME_NOTICE.notice)
        await gen.start_resume(task.id, request)
    except GenCodeError as trouble:
        log.warning("task %s could not be resumed: %s", task.id, trouble)
        return False
    return True


async def _was_told(gen: GenCode, task: Task) -> bool:
    """Whether a task knows of the shutdown or need not: it had not begun, or has said nothing since."""
    known = trailing_notices(transcript_of(await gen.history.events(task.id)))
    return task.run.started_at is None or RESUME_NOTICE.notice in [each.notice for each in known]
