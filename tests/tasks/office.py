"""A scheduler to try: over a store, with runs that play a script."""

import asyncio
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gencode.app import GenCode
from gencode.channels.outbox import Outbox
from gencode.core.ids import stamp
from gencode.core.rules import Mode, Policy
from gencode.journal.store import Store, TaskQuery
from gencode.schedule.scheduled_jobs import ScheduledJob
from gencode.stores.memory import MemoryStore
from gencode.tasks.scheduler import Scheduler
from gencode.testing import says, scripted

NOW = datetime(2026, 3, 10, 12, 0, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
DAILY = "0 12 * * *"


class Wire:
    """A channel that keeps what it is given."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def send(self, chat: str, text: str, mark: str) -> None:
        self.sent.append(text)


class Office:
    """A scheduler over a store, with runs that play a script, and what it tells."""

    def __init__(self, folder: Path, store: Store | None = None, **agents: Any) -> None:
        self.store = store or MemoryStore()
        self.folder = folder
        self.told: list[str] = []
        self.wire = Wire()
        self.agents = agents or {"main": [says("Done.")], "Explore": [says("Found.")]}
        self.settings: dict[str, Any] = {}
        self.scheduler = Scheduler(
            self.store, Outbox(self.store, {"wire": self.wire}), self.opening, self.told.append
        )

    def opening(self, job: ScheduledJob) -> AbstractAsyncContextManager[GenCode]:
        return scripted(self.folder, store=self.store, settings=self.settings, **self.agents)

    async def plan(self, due: datetime | None = NOW, when: str = DAILY, **more: Any) -> ScheduledJob:
        job = ScheduledJob(
            when=when,
            prompt="look around",
            zone="UTC",
            cwd=str(self.folder),
            policy=Policy(Mode.DEFAULT),
            created_at=stamp(NOW - 30 * 1440 * MINUTE),
            due=stamp(due) if due else None,
        )
        return await self.store.schedule.add(replace(job, **more), 200)

    async def due(self, now: datetime = NOW) -> list[ScheduledJob]:
        """Run what is due at a moment, to its end; what was claimed."""
        claimed = await self.scheduler.look(now)
        await asyncio.gather(*map(self.scheduler.fire, claimed))
        return claimed

    async def now(self) -> list[ScheduledJob]:
        return await self.store.schedule.jobs()

    async def conversations(self) -> list[str]:
        return [task.created.prompt for task in await self.store.tasks(TaskQuery(conversations=True))]


async def begun(office: Office) -> bool:
    return bool((await office.now())[0].last_task)


async def delivered(office: Office) -> bool:
    return bool(office.wire.sent)
