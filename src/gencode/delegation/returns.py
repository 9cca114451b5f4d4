"""Agents that another process woke: what they came to is told to whoever sent them and is at work here.

That holds for every agent at work, whatever surface leads its conversation, if anybody does.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from gencode.core.errors import GenCodeError
from gencode.core.ids import stamp
from gencode.core.reasons import EndReason
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.delegation.family import as_sent
from gencode.delegation.inbox import Arrivals
from gencode.delegation.live import Job
from gencode.delegation.supervisor import Supervisor
from gencode.delegation.unheard import unheard
from gencode.runtime.ports import Store, TaskQuery

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
MORE_SECONDS = 0.01
"""So much longer it takes until the next look for each task that had to be read."""
SLACK = timedelta(minutes=1)
"""So far the clocks of machines may differ before an end could be overlooked."""
ENDED = tuple(each for each in Status if each.ended)


class Returns:
    """Looks in the journal for ends that nobody here has seen, and puts them before the senders."""

    def __init__(self, store: Store, supervisor: Supervisor) -> None:
        self._store = store
        self._supervisor = supervisor
        self._since = datetime.now(UTC)

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        read = 0
        while True:
            await asyncio.sleep(LOOK_SECONDS + read * MORE_SECONDS)
            try:
                read = await self._look()
            except GenCodeError as trouble:
                log.warning("it is not known what ended elsewhere: %s", trouble)

    async def _look(self) -> int:
        """Tell what has ended since; how many tasks were read for that."""
        senders = {job.id: job for job in self._supervisor.local_tasks() if _has_sent(job)}
        now = datetime.now(UTC)
        ended: list[Task] = []
        if senders:
            since = stamp(self._since - SLACK)
            query = TaskQuery(parents=tuple(senders), statuses=ENDED, ended_after=since)
            ended = await self._store.tasks(query)
        self._since = now
        for task in ended:
            sender = senders.get(task.parent or "")
            if sender is not None and self._supervisor.find(task.id) is None:
                _tell(sender, task)
        return len(ended)


def to_be_told(sender: Task, children: Sequence[Task]) -> bool:
    """Whether anything came back to a conversation at rest that is worth a turn nobody asked for.

    What somebody stopped is not: whoever did so knows, and the conversation is told in its next turn.
    """
    return any(not _was_stopped(end) for each in as_sent(sender, children) for end in unheard(sender, each))


def _was_stopped(task: Task) -> bool:
    if task.reason is EndReason.STOP_UNANSWERED:
        return True
    return task.status is Status.CANCELLED and task.reason is not EndReason.PARENT_GONE


def _has_sent(job: Job) -> bool:
    return isinstance(job.seat.inbox, Arrivals) and job.seat.inbox.has_sent


def _tell(sender: Job, task: Task) -> None:
    """Let an agent hear of an end that it was not told, if that is told by itself."""
    [known], inbox = as_sent(sender.task, [task]), sender.seat.inbox
    if isinstance(inbox, Arrivals) and unheard(sender.task, known):
        inbox.arrived(known)
