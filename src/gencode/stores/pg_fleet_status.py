"""The status of a fleet as `gen doctor` shows it: workers, waiting tasks and why, returned changes."""

from collections.abc import Sequence
from pathlib import PurePath

import msgspec
from msgspec import Struct, field

from gencode.core.ids import new_id
from gencode.core.structs import replace
from gencode.journal.dispatch import (
    MissingPart,
    MissingWorker,
    NoWorkerReason,
    StuckTask,
    WorkerInfo,
    WorkerProblem,
)
from gencode.journal.folder_snapshot import FolderSnapshot, ReturnedChanges
from gencode.journal.owner import LEASE_SECONDS
from gencode.stores.pg_fleet import FleetStore
from gencode.stores.pg_pool import Pool
from gencode.stores.pg_schema import VERSION, version_at
from gencode.stores.pg_workspace_transfer import FRESH_SECONDS

STUCK_SECONDS = 60.0
"""A task that no worker has run for so long is reported."""
MOST_ASKED = 20
"""The reason is looked up for at most so many of them."""
SILENT_SECONDS = 30.0
"""A worker that has not reported for so long takes no tasks."""
USUAL_SECONDS = 3_600.0
"""The time limit of a task whose dispatch note has none."""


class FleetStatus(Struct, frozen=True):
    """The status of a fleet; of a database that is not up to date only the version is known."""

    address: str
    version: int
    newest: int
    workers: list[WorkerInfo] = []
    waiting: int = 0
    running: int = 0
    stuck: list[StuckTask] = []
    returned: list[ReturnedChanges] = []
    """Changes made on workers that are not merged yet."""


class _TimeLimit(Struct, frozen=True):
    """How long a task may take, as its dispatch note says."""

    seconds: float | None = None


class _DispatchNote(Struct, frozen=True):
    """What a dispatch note says about the folder and the time limit of a task."""

    cwd: str = ""
    snapshot: FolderSnapshot | None = field(default=None, name="parcel")  # as it is stored
    alone: str = ""
    handover: _TimeLimit = _TimeLimit()


async def fleet_status(url: str, stuck_seconds: float = STUCK_SECONDS) -> FleetStatus:
    """Read the status of a fleet."""
    link = await Pool.open(url)
    try:
        found = FleetStatus(link.address, await version_at(link), VERSION)
        if found.version != VERSION:
            return found
        store = FleetStore(link, LEASE_SECONDS, new_id)
        waiting, running = await store.depth()
        stuck = await store.overdue(stuck_seconds)
        looked = await _looked(store, stuck[:MOST_ASKED], late=True)
        looked += await _hopeless(store, {each.task for each in stuck})
        return replace(
            found,
            workers=await store.workers(),
            waiting=waiting,
            running=running,
            stuck=looked + stuck[MOST_ASKED:],
            returned=await store.snapshots.waiting(),
        )
    finally:
        await link.close()


async def missing_workers(
    store: FleetStore, tasks: Sequence[str], *, late: bool = False
) -> dict[str, MissingWorker]:
    """What tasks wait for that no worker is at, of each that does; `late`: they have waited for long."""
    found = await store.unattended(tasks)
    workers = await store.workers()
    there = [each for each in workers if each.silent < SILENT_SECONDS and not each.draining]
    hindrances = await store.snapshots.hindrances([task for task, _, _ in found])
    seen: dict[str, MissingWorker] = {}
    for task, agent, order in found:
        takers = [each for each in there if _takes(each, agent)]
        names = {each.name for each in takers}
        known = [each for each in hindrances.get(task, ()) if each.worker in names]
        said = _read(order)
        hope = _hope(takers, known)
        reason = (
            _reason(agent, said, takers, known, late=late or not hope)
            if there
            else _without_worker(NoWorkerReason.NONE_THERE, said)
        )
        if not hope:
            most = said.handover.seconds or USUAL_SECONDS
            reason = replace(reason, most=most, unclear=_unclear(takers, known))
        seen[task] = reason
    return seen


async def _looked(store: FleetStore, stuck: Sequence[StuckTask], *, late: bool) -> list[StuckTask]:
    """Tasks that no worker runs, each with the reason if it is known."""
    seen = await missing_workers(store, [each.task for each in stuck], late=late)
    found = [(each, seen.get(each.task, MissingWorker())) for each in stuck]
    return [replace(each, missing_worker=missing_worker) for each, missing_worker in found]


async def _hopeless(store: FleetStore, known: set[str]) -> list[StuckTask]:
    """Those that have not waited long, but that no present worker can take."""
    fresh = [each for each in await store.overdue(0) if each.task not in known]
    looked = await _looked(store, fresh[:MOST_ASKED], late=False)
    return [
        each
        for each in looked
        if each.missing_worker.reason not in (NoWorkerReason.NOT_YET, NoWorkerReason.BUSY)
    ]


def _hope(takers: Sequence[WorkerInfo], hindrances: Sequence[WorkerProblem]) -> bool:
    """Whether a worker that is there may take a task yet: one that has not looked at it.

    While others put it back again and again, all that have room hear of it; who has what it needs takes it.
    """
    looked = {each.worker for each in hindrances}
    offered = any(each.seconds < FRESH_SECONDS for each in hindrances)
    return any(each.name not in looked and (_full(each) or not offered) for each in takers)


def _unclear(takers: Sequence[WorkerInfo], hindrances: Sequence[WorkerProblem]) -> bool:
    """Whether a worker that put a task back long ago is full now: when it has room, it looks again.

    One that has room looks every few seconds (after a minute for an agent that it has not), so what it said
    counts, however old: others were only faster since then.
    """
    full = {each.name for each in takers if _full(each)}
    return any(each.worker in full and each.seconds >= FRESH_SECONDS for each in hindrances)


def _reason(
    agent: str,
    said: _DispatchNote,
    takers: Sequence[WorkerInfo],
    hindrances: Sequence[WorkerProblem],
    *,
    late: bool,
) -> MissingWorker:
    """Why none of the present workers has begun a task."""
    if not takers:
        return replace(_without_worker(NoWorkerReason.NO_TAKER, said), agent=agent)
    told = [each for each in hindrances if each.lacks is not MissingPart.FOLDER]
    if told and all(each.lacks is MissingPart.AGENT for each in told):
        return _without_agent(agent, takers, told)
    if not told and not said.alone and late:
        told = hindrances
    if told:
        return MissingWorker(
            NoWorkerReason.HINDERED, told=tuple(sorted((each.worker, each.why) for each in told))
        )
    if said.alone:
        near = [each for each in takers if PurePath(said.cwd).is_relative_to(each.workspace)]
        if late or not near:
            return replace(_without_worker(NoWorkerReason.FOLDER, said), alone=said.alone, near=bool(near))
        takers = near
    return _without_worker(NoWorkerReason.BUSY, said) if all(map(_full, takers)) else MissingWorker()


def _without_worker(reason: NoWorkerReason, said: _DispatchNote) -> MissingWorker:
    """The reason that another worker is needed; it names the folder if only its worker will do."""
    return MissingWorker(reason, folder=said.cwd if said.alone else "")


def _full(worker: WorkerInfo) -> bool:
    return worker.running >= worker.most


def _without_agent(
    agent: str, takers: Sequence[WorkerInfo], hindrances: Sequence[WorkerProblem]
) -> MissingWorker:
    """The way to an agent that is missing wherever somebody looked; the others let its tasks pass by."""
    looked = {each.worker for each in hindrances}
    full = any(_full(each) and each.name not in looked for each in takers)
    return MissingWorker(NoWorkerReason.NO_AGENT, agent, full=full)


def _read(order: bytes) -> _DispatchNote:
    try:
        return msgspec.json.decode(order, type=_DispatchNote)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _DispatchNote()


def _takes(worker: WorkerInfo, agent: str) -> bool:
    named = worker.agents.casefold().split(", ")
    return worker.agents == "all" or agent.casefold() in named
