"""Warnings about tasks that wait for a worker or whose process is silent, and what to do about them."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

from msgspec import UNSET

from gencode.app import GenCode
from gencode.core.events import PassingFact, ProgressMade
from gencode.core.outcome import Outcome
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.core.text import visible_line
from gencode.interfaces.cli.foreground_run import start_beside
from gencode.interfaces.render.number_format import counted, seconds
from gencode.interfaces.render.plain_text import NoteRenderer, note
from gencode.journal.dispatch import MissingWorker, NoWorkerReason
from gencode.journal.owner import process_of, suspended
from gencode.tasks.process_engine import runs_one_task
from gencode.tasks.watch import Tell, WorkerWait, tell_nobody

T = TypeVar("T")

MOST_ASKED = 20
"""Of so many tasks it is found out what they wait for."""
PATIENCE = 2.0
"""So many seconds workers have to look at a task for which one of them is free."""
LOOK_SECONDS = 0.5
"""Workers come and go without a change in the journal, so it is looked so often besides."""


async def awaited(gen: GenCode, task: Outcome, patience: float = PATIENCE) -> str:
    """What a task waits for that no worker has begun with; empty where one has, or none is needed."""
    seen = await _outlook(gen, task, patience)
    return visible_line(seen.words) if seen is not None else ""


async def _outlook(gen: GenCode, task: Outcome, patience: float) -> MissingWorker | None:
    workers, changes = gen.workers, gen.history.changes
    if task.status is not Status.PENDING or workers is None:
        return None
    until = time.monotonic() + patience
    changed = changes.count
    seen = await workers.missing_worker(task.agent_id)
    while (
        seen == MissingWorker() and time.monotonic() < until
    ):  # a worker begins with it or says what it lacks
        changed = await changes.after(changed, LOOK_SECONDS)
        seen = await workers.missing_worker(task.agent_id)
    return seen


@asynccontextmanager
async def aloud(gen: GenCode, task: Task) -> AsyncGenerator[Tell, None]:
    """While somebody waits for a task here: say what it waits for that no worker is at, and end that.

    What else the person should hear of the wait is told with what this gives.
    """
    workers = gen.workers
    if workers is None:
        yield tell_nobody
        return
    find_outlook = partial(workers.missing_worker, task.id)

    def tell(fact: PassingFact) -> None:
        if isinstance(fact, ProgressMade):
            note(f"[{visible_line(task.agent)}] {visible_line(fact.text)}")

    async def look() -> None:
        waits = WorkerWait(tell)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if why := await waits.look(find_outlook, quiet=True):
                await workers.close_unclaimed(task.id, why)

    looking = start_beside(look())
    try:
        yield tell
    finally:
        looking.cancel()
        await asyncio.wait([looking])


async def handing_over(gen: GenCode, doing: Awaitable[T]) -> T:
    """Have a task handed over that nobody follows here; what the person should know meanwhile is said."""
    listener, notes = gen.listen(), NoteRenderer()

    async def tell() -> None:
        async for event in listener:
            notes.hear(event)

    telling = start_beside(tell())
    try:
        return await doing
    finally:
        listener.close()
        await asyncio.wait([telling])


async def all_awaited(gen: GenCode, tasks: Sequence[Outcome]) -> list[str]:
    """What these tasks wait for, a line for each reason that there is something to be said about."""
    seen = Counter([await _outlook(gen, task, 0.0) for task in tasks[-MOST_ASKED:]])
    return [
        f"{counted(count, 'task is waiting', 'tasks are waiting')} for {visible_line(each.words)}"
        for each, count in seen.items()
        if each is not None and each.reason is not NoWorkerReason.NOT_YET
    ]


async def ways_out(gen: GenCode, tasks: Sequence[Outcome]) -> list[str]:
    """A line for each process that hangs with some of these tasks, and for each that is silent by itself."""
    stalled = [task for task in tasks if task.stalled_seconds is not UNSET]
    if not stalled:
        return []
    silent = await gen.history.unresponsive()
    owners = {task.agent_id: silent[task.agent_id].owner for task in stalled if task.agent_id in silent}
    return [
        *(_of_process(each, list(_top(stalled, owners, each))) for each in dict.fromkeys(owners.values())),
        *(_of_task(task, gen.settings.silence_seconds) for task in stalled if task.agent_id not in owners),
    ]


def _top(stalled: Iterable[Outcome], owners: dict[str, str], owner: str) -> Iterator[Outcome]:
    """The tasks of a process, without those that others of it sent: these end with them."""
    for task in stalled:
        if owners.get(task.agent_id) == owner and owners.get(task.parent_id or "") != owner:
            yield task


def _of_process(owner: str, tasks: Sequence[Outcome]) -> str:
    first, more = tasks[0], f" and {len(tasks) - 1} more" if tasks[1:] else ""
    named = f"{first.agent_id} ({visible_line(first.agent)}){more}"
    process, stop = process_of(owner) or "elsewhere", f"gen task stop {first.agent_id}"
    if suspended(owner):
        way = f"kill -CONT {process}" if runs_one_task(owner) else "fg in its terminal"
        return f"{named}: process {process} is suspended. Continue it: {way}. Or stop it: {stop}"
    length = seconds(float(first.stalled_seconds or 0.0))
    return f"{named}: no heartbeat from process {process} for {length}. Stop it: {stop}"


def _of_task(task: Outcome, most: float) -> str:
    named = f"{task.agent_id} ({visible_line(task.agent)})"
    stop = f"gen task stop {task.agent_id}"
    return f"{named} has no activity; it times out after {seconds(most)} without any. Stop it now: {stop}"
