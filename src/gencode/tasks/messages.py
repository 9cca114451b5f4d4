"""A word to a task, whoever runs it, until that has heard it: an agent that has ended is woken for it."""

import time
from typing import Protocol

from gencode.core.errors import UserMistake
from gencode.core.task import Task
from gencode.journal.store import Store
from gencode.tasks.control import TaskControl
from gencode.tasks.liveness import is_abandoned
from gencode.tasks.other_process import OtherProcesses
from gencode.tasks.watch import LOOK_SECONDS, TaskWatcher

PATIENCE = 60.0
"""So many seconds somebody who has taken a task may need to go on with it."""


class MessageKept(UserMistake):
    """What was said is kept, but who should hear it does not go on with it now."""


class Wake(Protocol):
    """Lets a task go on in the background, with a prompt or with what waits for it."""

    async def __call__(self, task: str, prompt: str, *, here: bool) -> None: ...


class MessageSender:
    """Says something to tasks and wakes those that have ended."""

    def __init__(
        self, apart: OtherProcesses, store: Store, reach: TaskControl, watch: TaskWatcher, wake: Wake
    ) -> None:
        self._apart = apart
        self._store = store
        self._reach = reach
        self._watch = watch
        self._wake = wake

    async def rouse(self, task: Task) -> Task:
        """Let an agent that has ended go on with what waits for it, also when who said that ends."""
        return (await self.send(task, "", posted=True))[0]

    async def send(
        self, found: Task, text: str, *, here: bool = False, posted: bool = False
    ) -> tuple[Task, bool]:
        """Say something to a task, if it is not `posted` yet; the task then, and whether it was woken."""
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
                        raise MessageKept(f"{refused} What was said to task {found.id} is kept.") from None
                    raise
            found = now
            await self._store.changes.after(seen, LOOK_SECONDS)

    async def _deaf(self, task: Task) -> bool:
        """Whether an agent has ended without having heard all that was said to it."""
        return task.status.ended and not task.conversation and bool(await self._store.waiting(task.id))

    async def _held(self, task: str) -> bool:
        """Whether somebody has taken a task to go on with it."""
        return any(each.task == task and not is_abandoned(each) for each in await self._store.owned())
