"""The schedule of a worker: what is planned in its folders runs here while its leases last (surfaces)."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from gencode.app import GenCode
from gencode.interfaces.chat.schedule_runner import scheduler_of
from gencode.interfaces.render.plain_text import note
from gencode.journal.store import Store
from gencode.schedule.scheduled_jobs import ScheduledJob
from gencode.tasks.scheduler import Scheduler

LOOK_SECONDS = 1.0


class Appointments:
    """Runs a scheduler for as long as all is `well`; what runs is stopped when it is not."""

    def __init__(self, scheduler: Scheduler, well: Callable[[], bool]) -> None:
        self._scheduler = scheduler
        self._well = well
        self._drained = False
        self.life = asyncio.get_running_loop().create_task(self._kept())

    def drain(self) -> None:
        """Begin nothing more; `life` is over when what runs has ended."""
        self._drained = True
        self._scheduler.drain()

    async def close(self) -> None:
        """Stop what runs."""
        self.life.cancel()
        await asyncio.wait([self.life])

    async def _kept(self) -> None:
        while not self._drained:
            if self._well():
                await self._ran()
            else:
                await asyncio.sleep(LOOK_SECONDS)

    async def _ran(self) -> None:
        running = asyncio.get_running_loop().create_task(self._scheduler.run())
        try:
            while not running.done() and (self._drained or self._well()):
                await asyncio.wait([running], timeout=LOOK_SECONDS)
        finally:
            running.cancel()
            await asyncio.wait([running])


@asynccontextmanager
async def appointments(
    store: Store, workspace: Path, well: Callable[[], bool]
) -> AsyncGenerator[Appointments, None]:
    """What is planned for folders inside `workspace`, which many workers may share: each time once."""

    def mine(job: ScheduledJob) -> bool:
        folder = Path(job.cwd).resolve()
        return folder.is_dir() and folder.is_relative_to(workspace.resolve())

    async with GenCode.open(workspace, store=store) as gen:
        kept = Appointments(scheduler_of(gen, note, store=store, mine=mine), well)
        try:
            yield kept
        finally:
            await kept.close()
