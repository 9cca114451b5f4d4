"""Hands tasks to workers on any machine: written down and queued in one transaction (engines rack).

Whoever sent a task knows it only through the journal from then on, as with any other process.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from gencode.core.errors import GenCodeError, UserMistake
from gencode.engines.process import WorkOrder
from gencode.runtime.fleet import TRAVELLING, Dispatching
from gencode.runtime.ports import Handover

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.2
BEGIN_SECONDS = 5.0
WAITED_FOR = 10
"""The priority of a task that somebody waits for; of any other it is 0."""


class Away:
    """A task that some worker runs, or will."""

    def __init__(self, task: str) -> None:
        self._task = task
        self._gone = False

    @property
    def task(self) -> str:
        """The id of its task."""
        return self._task

    @property
    def gone(self) -> bool:
        """Whether it has ended, or nobody waits for it any more."""
        return self._gone

    def kill(self) -> None:
        """Wait no longer. Nobody here can end a process of another machine; its lease decides."""
        self._gone = True


class FleetEngine:
    """Puts tasks into the queue of a shared database."""

    def __init__(self, store: Dispatching, cwd: Path, flags: Mapping[str, Any]) -> None:
        self._store = store
        self._cwd = cwd
        self._flags = {name: flags[name] for name in flags if name in TRAVELLING}
        self._followed: set[Away] = set()
        self._following: asyncio.Task[None] | None = None

    async def start(self, handover: Handover) -> Away:
        """Give a task to the workers; it begins when one of them is free."""
        return await self.queue(handover, WAITED_FOR if handover.bound else 0)

    async def queue(self, handover: Handover, priority: int = 0, delay: timedelta | None = None) -> Away:
        """The same with a priority (the highest first), and not before some time has passed."""
        from gencode.engines.pgqueuer import enqueuing, ensure_queue

        await ensure_queue(self._store)
        cwd = handover.created.cwd if handover.created else str(self._cwd)
        order = WorkOrder(handover, cwd, {**self._flags, "model": handover.model})
        try:
            body = msgspec.json.encode(order)
        except (TypeError, OverflowError) as error:
            raise UserMistake(f"The task cannot be given to another machine: {error}.") from None
        if handover.created is not None:
            agent = handover.created.agent
            task = await self._store.submit(handover.created, body, enqueuing(agent, priority, delay))
        else:
            task = handover.task
            await self._again(task, body, priority, delay)
        away = Away(task)
        if handover.bound:
            self._follow(away)
        return away

    async def _again(self, task: str, order: bytes, priority: int, delay: timedelta | None) -> None:
        """Queue an earlier task, and wait a while for a worker to begin: until then it looks as it did."""
        from gencode.engines.pgqueuer import enqueuing

        before = await self._store.dispatched(task)
        enqueue = enqueuing(before.agent if before else "", priority, delay)
        await self._store.submit_again(task, order, enqueue)
        until = time.monotonic() + (BEGIN_SECONDS if delay is None else 0.0)
        while before is not None and time.monotonic() < until:
            await asyncio.sleep(LOOK_SECONDS)
            now = await self._store.dispatched(task)
            if now is None or (now.takes > before.takes and (now.order is None or not now.status.ended)):
                return

    def _follow(self, away: Away) -> None:
        """Notice when a task is over for which somebody waits."""
        self._followed.add(away)
        if self._following is None or self._following.done():
            self._following = asyncio.get_running_loop().create_task(self._followed_all())

    async def _followed_all(self) -> None:
        while self._followed:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                over = await self._store.over([away.task for away in self._followed])
            except GenCodeError as trouble:
                log.warning("it is not known which tasks are over: %s", trouble)
                continue
            for away in [each for each in self._followed if each.gone or each.task in over]:
                away.kill()
                self._followed.discard(away)
