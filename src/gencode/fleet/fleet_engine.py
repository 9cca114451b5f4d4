"""Hands tasks to workers on any machine: each is written to the journal and queued in one transaction.

From then on its parent follows it through the journal only, like a task of any other process.
"""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from gencode.core.errors import GenCodeError, StoreUnavailable, UserMistake
from gencode.core.events import TaskCreated
from gencode.core.rules import Action, Policy
from gencode.core.spec import Workspace
from gencode.core.status import EndReason, StopCause
from gencode.fleet.workspace_transfer import FleetOrder, SharedStore, WorkspaceTransfer
from gencode.journal.dispatch import (
    BUDGETS,
    TRAVELLING,
    DispatchedTask,
    Handover,
    MissingWorker,
    SharedJournal,
)
from gencode.journal.owner import new_owner
from gencode.permissions.links import as_links_lead
from gencode.permissions.paths import places_of
from gencode.tasks.crash_recovery import stop_anywhere

log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
"""Workers start and stop without an event in the journal, so whoever waits for one polls this often."""
BEGIN_SECONDS = 5.0
AWAY_SECONDS = 300.0
"""How long it may be unknown whether a task has ended, because the database is unreachable."""
WAITED_FOR = 10
"""The priority of a task whose parent waits for it; all others have 0."""
_PERMISSIONS = ("permission_mode", "allow", "ask", "deny")
TAKEN_BACK = StopCause(EndReason.PARENT_STOPPED, "its parent was stopped meanwhile")


class FleetTask:
    """A task that some worker runs, or will."""

    def __init__(
        self,
        task: str,
        created: TaskCreated | None,
        store: SharedJournal,
        looked: Callable[[], float],
        begins: str = "",
    ) -> None:
        """`looked` gives the time of the last check for finished tasks; infinity: nothing checks.

        `begins` is what a person should know about the state of the folder it starts in.
        """
        self._task = task
        self._store = store
        self._looked = looked
        self._asked: float | None = None
        self._gone = False
        self.created = created
        self.begins = begins
        self._is_over = False
        self._unpacking = False

    @property
    def task(self) -> str:
        """The id of its task."""
        return self._task

    @property
    def gone(self) -> bool:
        """Whether it has ended, or is not waited for any more."""
        return self._gone and not self._unpacking

    async def missing_worker(self) -> MissingWorker | None:
        """What it waits for that no worker is at; None where one is, or none is needed any more."""
        return await self._store.missing_worker(self._task)

    def comes_home(self) -> bool:
        """Whether its changes still have to be fetched: queued, or not checked since this was first called.

        An unreachable database is not waited for without a limit.
        """
        if self._asked is None:
            self._asked = time.monotonic()
        unseen = self._looked() < self._asked and time.monotonic() < self._asked + AWAY_SECONDS
        return self._is_over or (self.created is not None and unseen)

    def queue_changes(self) -> None:
        """Mark it as ended: its changes are fetched when those before it are done."""
        self._is_over = True

    @contextmanager
    def bringing_changes(self) -> Generator[None]:
        """While its changes are fetched it does not count as gone."""
        self._unpacking = True
        try:
            yield
        finally:
            self._unpacking = False

    def kill(self) -> None:
        """Stop waiting. A process of another machine cannot be ended from here; its lease decides."""
        self._gone = True


class FleetEngine:
    """Puts tasks into the queue of a shared database."""

    far = True

    def __init__(
        self,
        store: SharedStore,
        cwd: Path,
        flags: Mapping[str, Any],
        home: Path,
        policy: Policy | None = None,
    ) -> None:
        """`policy` is that of the sender, which knows more than its `flags`: the settings of this machine."""
        self._policy = policy
        self._store = store
        self.transfer = WorkspaceTransfer(store, home)
        self._cwd = cwd
        self._flags = {name: flags[name] for name in flags if name in TRAVELLING.difference(BUDGETS)}
        self._followed: set[FleetTask] = set()
        self._following: asyncio.Task[None] | None = None
        self._last_look = 0.0
        self._ready = False

    @property
    def follows(self) -> bool:
        """Whether a caller in this process waits for a task that was given to the workers."""
        return bool(self._followed)

    async def start(self, handover: Handover) -> FleetTask:
        """Give a task to the workers; it begins when one of them is free."""
        return await self.queue(handover, WAITED_FOR if handover.bound else 0)

    async def queue(self, handover: Handover, priority: int = 0, delay: timedelta | None = None) -> FleetTask:
        """The same with a priority (the highest first), and not before some time has passed."""
        from gencode.fleet.queue import ensure_queue

        if not self._ready:
            await ensure_queue(self._store)
            self._ready = True
        cwd = handover.created.cwd if handover.created else await self._folder_of(handover.task)
        packed = await self.transfer.pack_for(handover, cwd)
        flags = {**self._flags, **self._refused(cwd), "model": handover.model}
        before = await self._store.dispatched(handover.task) if handover.created is None else None
        takes = before.takes if before else 0
        order = FleetOrder(
            handover, cwd, flags, packed.mark, packed.snapshot, packed.alone, packed.tree, takes
        )
        try:
            body = msgspec.json.encode(order)
        except (TypeError, OverflowError) as error:
            raise UserMistake(f"The task cannot be given to another machine: {error}.") from None
        task = handover.task
        if handover.created is None:
            await self._again(task, before, body, priority, delay)
        else:
            task = await self._given(self._give(handover, body, priority, delay))
        away = FleetTask(task, handover.created, self._store, self._looked, packed.told)
        if handover.bound:
            self._follow(away)
        return away

    async def _give(self, handover: Handover, order: bytes, priority: int, delay: timedelta | None) -> str:
        """Queue a new task, or one that was written down and waited for its turn; its id."""
        from gencode.fleet.queue import enqueue_task

        created = handover.created
        if created is None:
            raise ValueError("only a new task is given away")
        enqueue = enqueue_task(created.agent, priority, delay)
        if not handover.task:
            return await self._store.submit(created, order, enqueue, handover.named, handover.account)
        await self._store.submit_held(handover.task, handover.keeper, order, enqueue)
        return handover.task

    async def _given(self, giving: Coroutine[Any, Any, str]) -> str:
        """The id of a task once it is queued; who is stopped meanwhile takes it back and follows nothing."""
        given = asyncio.get_running_loop().create_task(giving)
        try:
            return await asyncio.shield(given)
        except asyncio.CancelledError:
            with suppress(GenCodeError):
                await stop_anywhere(self._store, await given, new_owner(), TAKEN_BACK)
            raise

    def _refused(self, cwd: str) -> dict[str, list[str]]:
        """The sender's deny and ask rules, where a resumed task is given new permissions.

        These replace the ones it had, so every rule that is in force here has to travel with it.
        """
        if self._policy is None or not any(self._flags.get(name) for name in _PERMISSIONS):
            return {}
        return _strict_rules(self._policy, cwd)

    async def _folder_of(self, task: str) -> str:
        """The folder of an earlier task, which need not be on this machine."""
        known = await self._store.task(task)
        there = known is not None and known.cwd and not known.imported
        return known.cwd if known is not None and there else str(self._cwd)

    async def _again(
        self, task: str, before: DispatchedTask | None, order: bytes, priority: int, delay: timedelta | None
    ) -> None:
        """Queue an earlier task, and wait a while for a worker to begin, unless none could."""
        from gencode.fleet.queue import enqueue_task

        named = (before.agent, before.takes) if before else ("", 0)
        enqueue = enqueue_task(named[0], priority, delay, named[1])
        await self._store.submit_again(task, order, enqueue)
        if before is not None and delay is None:
            with suppress(StoreUnavailable):  # it is queued, whether or not that can be seen
                await self._begun_again(task, before)

    async def _begun_again(self, task: str, before: DispatchedTask) -> None:
        """Wait a while for a worker to begin with an earlier task, unless none could."""
        until = time.monotonic() + BEGIN_SECONDS
        while time.monotonic() < until:
            changed = self._store.changes.count
            now = await self._store.dispatched(task)
            if now is None or (now.takes > before.takes and (now.order is None or not now.status.ended)):
                return
            seen = await self._store.missing_worker(task)
            if seen is not None and seen.most is not None:
                return
            await self._store.changes.after(changed, LOOK_SECONDS)

    async def _unpacked(self, away: FleetTask) -> None:
        """Fetch what a task changed elsewhere into the folder it was sent from."""
        if away.created is None:
            return
        if away.gone:
            log.info("what task %s changed is not brought home: it is not waited for any more", away.task)
            return
        with away.bringing_changes():
            await self.transfer.unpack(away.task, away.created)

    def _follow(self, away: FleetTask) -> None:
        """Watch for the end of a task that a caller waits for."""
        self._followed.add(away)
        if self._following is None or self._following.done():
            self._following = asyncio.get_running_loop().create_task(self._followed_all())

    async def _followed_all(self) -> None:
        changes = self._store.changes
        while self._followed:
            changed = changes.count
            self._followed -= {away for away in self._followed if away.gone}
            began = time.monotonic()
            try:
                over = await self._store.over([away.task for away in self._followed])
            except GenCodeError as trouble:
                log.warning("it is not known which tasks are over: %s", trouble)
                await changes.after(changed, LOOK_SECONDS)
                continue
            line = [away for away in self._followed if away.task in over]
            for away in line:
                away.queue_changes()
            self._last_look = began
            for away in line:
                await self._unpacked(away)
                away.kill()
                self._followed.discard(away)
            if self._followed:
                await changes.after(changed, LOOK_SECONDS)

    def _looked(self) -> float:
        """When it was last looked which tasks are over."""
        return math.inf if self._following is None or self._following.done() else self._last_look


def _strict_rules(policy: Policy, cwd: str) -> dict[str, list[str]]:
    """The deny and ask rules of a policy, also for where links lead here: another machine could not tell."""
    rules = as_links_lead(policy, places_of(Workspace(Path(cwd), Path(cwd), Path.home()))).rules
    strict = (Action.DENY, Action.ASK)
    named = {each.value: [rule for rule in rules if rule.action is each] for each in strict}
    return {
        name: [f"{rule.tool}({rule.pattern})" for rule in found] for name, found in named.items() if found
    }
