"""A fleet as `gen doctor` sees it: workers, what waits and why, what came back (stores rack)."""

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gencode.core.ids import new_id
from gencode.runtime.away.parcel import Parcel, Returned
from gencode.runtime.fleet import Stuck, WorkerCard
from gencode.stores.opening import LEASE_SECONDS
from gencode.stores.pg_fleet import FleetStore
from gencode.stores.pg_link import Link
from gencode.stores.pg_schema import VERSION, version_at

STUCK_SECONDS = 60.0
"""A task that nobody has been at for so long is worth a look."""
MOST_ASKED = 20
"""Of so many of them it is found out why."""


class Survey(Struct, frozen=True):
    """A fleet; of a database that is not up to date only the version is known."""

    address: str
    version: int
    newest: int
    workers: list[WorkerCard] = []
    waiting: int = 0
    running: int = 0
    stuck: list[Stuck] = []
    returned: list[Returned] = []
    """What was changed on workers and not taken over yet."""


class _Folder(Struct, frozen=True):
    """What an order says about its folder."""

    parcel: Parcel | None = None
    alone: str = ""


async def survey(url: str, stuck_seconds: float = STUCK_SECONDS) -> Survey:
    """Look at a fleet; nothing is changed."""
    link = await Link.open(url)
    try:
        found = Survey(link.address, await version_at(link), VERSION)
        if found.version != VERSION:
            return found
        store = FleetStore(link, LEASE_SECONDS, new_id)
        waiting, running = await store.depth()
        stuck = await store.overdue(stuck_seconds)
        why = [await _why(store, each.task) for each in stuck[:MOST_ASKED]]
        return replace(
            found,
            workers=await store.workers(),
            waiting=waiting,
            running=running,
            stuck=[replace(each, why=reason) for each, reason in zip(stuck, why, strict=False)]
            + stuck[MOST_ASKED:],
            returned=await store.parcels.waiting(),
        )
    finally:
        await link.close()


async def _why(store: FleetStore, task: str) -> str:
    """Why no worker is at a task, as far as that is known."""
    hindrances = await store.parcels.hindrances(task)
    if hindrances:
        return "; ".join(hindrances)
    found = await store.dispatched(task)
    try:
        folder = msgspec.json.decode(found.order or b"{}" if found else b"{}", type=_Folder)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ""
    return f"it waits for a worker that shares its folder, because {folder.alone}" if folder.alone else ""
