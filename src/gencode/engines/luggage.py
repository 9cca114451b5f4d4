"""What goes with a task to a worker that has not its folder, and what comes back with it (engines rack)."""

import logging
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import Struct

from gencode.core.errors import GenCodeError, UserMistake
from gencode.core.events import TaskCreated
from gencode.core.rules import Action
from gencode.core.spec import Workspace
from gencode.core.status import Status
from gencode.engines.process import WorkOrder
from gencode.permissions.chain import rebuilt
from gencode.permissions.paths import decide_path, resolve
from gencode.runtime.away.parcel import Parcel, Returned, begins_behind, mark_of
from gencode.runtime.fleet import TRAVELLING, Dispatching
from gencode.runtime.ports import Store

log = logging.getLogger(__name__)


class Shared(Dispatching, Store, Protocol):
    """A journal that many workers share."""


class FarOrder(WorkOrder, frozen=True):
    """What a worker on any machine is told.

    `mark` tells the folder from another one at the same place, `parcel` how it is made anew, `alone` why it
    cannot be; then only a machine that has it runs the task.
    """

    mark: str = ""
    parcel: Parcel | None = None
    alone: str = ""


def read_order(body: bytes) -> FarOrder:
    """What a worker is told, if it is no more than it may be."""
    try:
        order = msgspec.json.decode(body, type=FarOrder)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UserMistake(f"its order cannot be read: {error}") from None
    if foreign := sorted({*order.flags} - TRAVELLING):
        raise UserMistake(f"its order sets what only a worker's own user may set: {', '.join(foreign)[:200]}")
    return order


class Packed(Struct, frozen=True):
    """What a worker is told about a folder: its mark, and how to make it anew, or why nobody can."""

    mark: str
    parcel: Parcel | None = None
    alone: str = ""


class Luggage:
    """Packs folders for tasks, and unpacks what they changed."""

    def __init__(self, store: Shared, home: Path) -> None:
        from gencode.runtime.away.packing import Packer

        self._store = store
        self._home = home
        self._packers: dict[str, Packer] = {}

    async def pack(self, cwd: str, task: str = "") -> Packed:
        """A folder for a task. An earlier task whose changes nobody has taken over goes on from there."""
        from gencode.runtime.away.packing import Packer

        mark = mark_of(cwd)
        earlier = await self._store.parcels.returned(task) if task else None
        if earlier is not None and not (earlier[0].taken and mark):
            return Packed(mark, _as_it_was(earlier[0]))
        if not mark:
            return Packed(mark, alone=f"{cwd} is not on the machine that sent it")
        packer = self._packers.setdefault(cwd, Packer(Path(cwd), self._home, self._store.parcels))
        try:
            return Packed(mark, await packer.pack())
        except UserMistake as mistake:
            log.info("%s goes only to workers that share it: %s", cwd, mistake)
            return Packed(mark, alone=str(mistake))

    async def unpack(self, task: str, created: TaskCreated) -> None:
        """Bring what a task changed elsewhere to its sender, where it is allowed and fits."""
        try:
            found = await self._store.parcels.returned(task)
            now = await self._store.task(task)
            if found is None or found[0].taken or now is None or now.status is not Status.COMPLETED:
                return
            from gencode.runtime.away.homecoming import Homecoming
            from gencode.runtime.away.telling import noted, told

            homecoming = Homecoming(Path(created.cwd), self._store.parcels)
            arrived = await homecoming.bring(*found, lambda path: may_write(path, created))
            await noted(self._store, task, "\n".join(told(arrived)))
        except GenCodeError as trouble:
            log.warning("what task %s changed could not be brought home: %s", task, trouble)


def _as_it_was(work: Returned) -> Parcel:
    """The folder as it was when a task was sent, with a word where that is not how the task left it."""
    behind = begins_behind(work, "")
    notes = [note for note in work.parcel.notes if note != behind]
    return msgspec.structs.replace(work.parcel, notes=(*notes, behind)) if behind else work.parcel


def may_write(path: Path, created: TaskCreated) -> bool:
    """Whether the policies over a task let it write a file without asking anybody."""
    if not created.policies:
        return False
    workspace = Workspace(Path(created.cwd), Path(created.cwd), Path.home())
    place = resolve(str(path), workspace)
    chain = rebuilt(created.policies, created.grant)
    decisions = (decide_path("Write", place, policy, workspace) for policy in chain)
    return all(decision.action is Action.ALLOW for decision in decisions)
