"""Following tasks through the journal, from whatever process; nobody has to know who runs them."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

from gencode.core.errors import CorruptFact, UserMistake
from gencode.core.events import Event
from gencode.core.task import Task
from gencode.delegation.orphans import close_if_orphan
from gencode.runtime.ports import Store, TaskQuery

LOOK_SECONDS = 0.1
MOST_ASKED = 200
"""So many of the latest tasks of a folder are looked at for who changed a file."""


async def facts_of(store: Store, task: str, after: int = 0) -> tuple[list[Event], CorruptFact | None]:
    """The facts of a task as far as they can be read, and what is wrong with the next one."""
    try:
        return await store.events(task, after), None
    except CorruptFact as corrupt:
        return [event for event in corrupt.before if isinstance(event, Event)], corrupt


class Watch:
    """Looks at the journal ten times a second. A task whose process died ends when it is looked at."""

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
        return found

    async def until(self, task: str, done: Callable[[Task], bool], seconds: float | None = None) -> Task:
        """The task as soon as it is `done` or has ended, or as it is after so many seconds."""
        until = None if seconds is None else time.monotonic() + seconds
        while True:
            found = await self.task(task)
            rest = LOOK_SECONDS if until is None else min(LOOK_SECONDS, until - time.monotonic())
            if done(found) or found.status.ended or rest <= 0:
                return found
            await asyncio.sleep(rest)

    async def ended(self, task: str, seconds: float | None = None) -> Task:
        """The task once it has ended, or as it is after so many seconds."""
        return await self.until(task, lambda found: found.status.ended, seconds)

    async def events(self, task: str, after: int = 0) -> AsyncGenerator[Event, None]:
        """The facts of a task from a number on, each as soon as it is written, until it has ended."""
        while True:
            found = await self.task(task)
            events, problem = await facts_of(self._store, task, after)
            for event in events:
                after = event.seq or after
                yield event
            if problem is not None:
                raise problem
            if found.status.ended and found.seq <= after:
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def author(self, cwd: str, path: str, sha256: str, but: str | None) -> str:
        """Which agent in a folder left a file in this state, as the journals tell; empty if none did."""
        latest = await self._store.tasks(TaskQuery(cwd=cwd, limit=MOST_ASKED)) if sha256 else []
        for task in reversed(latest):
            changed = task.evidence.files_changed
            if task.id != but and any((each.path, each.sha256) == (path, sha256) for each in changed):
                return f"the agent {task.agent}, task {task.id}"
        return ""
