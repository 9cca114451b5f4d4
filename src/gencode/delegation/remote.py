"""A task in a process of its own, as its sender sees it: followed, stopped and closed through the journal."""

import asyncio
import time

from gencode.core.errors import Stopped
from gencode.core.events import TaskBackgrounded
from gencode.core.task import Task, fold
from gencode.delegation.live import GRACE_SECONDS, Live
from gencode.delegation.orphans import close_if_orphan
from gencode.delegation.watch import LOOK_SECONDS
from gencode.runtime.bus import Bus
from gencode.runtime.ports import Elsewhere, Store, Wish
from gencode.runtime.purse import Spent
from gencode.runtime.slots import Slot
from gencode.runtime.stop import Stop


class Remote(Live):
    """The sender's end of a task that another process runs. What is written there is heard here, too."""

    def __init__(self, task: Task, stop: Stop, process: Elsewhere, store: Store, bus: Bus) -> None:
        super().__init__(stop)
        self._task = task
        self._process = process
        self.slot: Slot | None = None
        """Its right to be at work, in the process that sent it."""
        self._store = store
        self._bus = bus

    @property
    def task(self) -> Task:
        """The task as it was written when the journal was last looked at."""
        return self._task

    def fall(self) -> None:
        """Take it off the stop tree and let others work: it has ended."""
        super().fall()
        if self.slot is not None:
            self.slot.give_back()

    async def follow(self, owner: str) -> None:
        """Hear what is written until the task has ended, or its process is gone and it is ended here."""
        patience = 0.0
        try:
            try:
                with self.stop.interrupts():
                    await self._followed()
            except Stopped:
                patience = GRACE_SECONDS / 2
                await self._store.ask(self.id, Wish.STOP)
                async with asyncio.timeout(GRACE_SECONDS):
                    await self._followed()
            patience = GRACE_SECONDS
        except (TimeoutError, asyncio.CancelledError):
            pass
        finally:
            await self._let_go(owner, patience)

    async def _followed(self) -> None:
        while not self._task.status.ended and not self._process.gone:
            await asyncio.sleep(LOOK_SECONDS)
            await self._hear()

    async def _let_go(self, owner: str, patience: float) -> None:
        """Wait for the process and close what it left open: a crash there ends this task, nothing else."""
        until = time.monotonic() + patience
        while not self._process.gone:
            if time.monotonic() >= until:
                self._process.kill()
            await asyncio.sleep(LOOK_SECONDS / 10)
        await close_if_orphan(self._store, self.id, owner)
        await self._hear()

    def _pay(self, before: Task) -> None:
        """Count here what was spent there."""
        if self.purse is not None and self._task.turns > before.turns:
            was, now = before.usage, self._task.usage
            tokens = now.input_tokens + now.output_tokens - was.input_tokens - was.output_tokens
            self.purse.pay(
                Spent(self._task.turns - before.turns, tokens, (now.usd or 0.0) - (was.usd or 0.0))
            )

    async def _hear(self) -> None:
        events = await self._store.events(self.id, self._task.seq)
        before = self._task
        for event in events:
            self._task = fold(self._task, event)
        self._pay(before)
        self._bus.publish(events)
        if any(isinstance(event.fact, TaskBackgrounded) for event in events):
            self.send_back()
