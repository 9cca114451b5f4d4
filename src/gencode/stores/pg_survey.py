"""A fleet as `gen doctor` sees it: workers, what waits and why, what came back (stores rack)."""

import shlex
from collections.abc import Sequence
from pathlib import PurePath

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gencode.core.ids import new_id
from gencode.runtime.away.parcel import Parcel, Returned
from gencode.runtime.fleet import NO_AGENT, Dispatch, Outlook, Stuck, WorkerCard
from gencode.runtime.ports import Store
from gencode.stores.opening import LEASE_SECONDS
from gencode.stores.pg_fleet import FleetStore
from gencode.stores.pg_link import Link
from gencode.stores.pg_schema import VERSION, version_at

STUCK_SECONDS = 60.0
"""A task that nobody has been at for so long is worth a look."""
MOST_ASKED = 20
"""Of so many of them it is found out why."""
SILENT_SECONDS = 30.0
"""A worker of which nothing was heard for so long takes nothing."""
BUSY = "all workers have enough to do"
"""The one reason that goes away by itself."""


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

    cwd: str = ""
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
        workers = await store.workers()
        looked = [await _looked(store, each, workers) for each in stuck[:MOST_ASKED]]
        looked += await _hopeless(store, workers, {each.task for each in stuck})
        return replace(
            found,
            workers=workers,
            waiting=waiting,
            running=running,
            stuck=looked + stuck[MOST_ASKED:],
            returned=await store.parcels.waiting(),
        )
    finally:
        await link.close()


async def outlook(store: Store, task: str) -> Outlook | None:
    """What a task waits for that no worker is at; None where one is, or none is needed."""
    if not isinstance(store, FleetStore):
        return None
    found = await store.dispatched(task)
    if found is None or found.order is None or not found.free:
        return None
    return _outlook(found, await store.workers(), await store.parcels.hindrances(task), late=False)


async def _looked(
    store: FleetStore, stuck: Stuck, workers: Sequence[WorkerCard], *, late: bool = True
) -> Stuck:
    """A task that nobody is at, with the reason as far as that is known."""
    found = await store.dispatched(stuck.task)
    if found is None:
        return stuck
    seen = _outlook(found, workers, await store.parcels.hindrances(stuck.task), late=late)
    return replace(stuck, why=seen.why, way=seen.way)


async def _hopeless(store: FleetStore, workers: Sequence[WorkerCard], known: set[str]) -> list[Stuck]:
    """Those that wait for a short time only and that no worker can take as things are."""
    fresh = [each for each in await store.overdue(0) if each.task not in known]
    looked = [await _looked(store, each, workers, late=False) for each in fresh[:MOST_ASKED]]
    return [each for each in looked if each.why not in ("", BUSY)]


def _outlook(
    found: Dispatch, workers: Sequence[WorkerCard], hindrances: Sequence[str], *, late: bool
) -> Outlook:
    folder = _folder(found)
    there = [each for each in workers if each.silent < SILENT_SECONDS and not each.draining]
    takers = [each for each in there if _takes(each, found.agent)]
    place = ""
    if folder.alone and folder.cwd:
        place = f" --workspace {_typed(folder.cwd)}, on a machine that has this folder"
    if not there:
        return Outlook("no worker is there", f"gen worker{place}")
    if not takers:
        why = f"no worker that is there takes tasks of {found.agent}"
        return Outlook(why, f"gen worker --agents {shlex.quote(found.agent)}{place}")
    if hindrances and all(each.endswith(NO_AGENT.format(agent=found.agent)) for each in hindrances):
        return _without_agent(found.agent, takers, hindrances)
    if hindrances:
        return Outlook("; ".join(hindrances), "put right what a worker lacks, and it goes on by itself")
    if folder.alone:
        near = [each for each in takers if PurePath(folder.cwd).is_relative_to(each.workspace)]
        if late or not near:
            none = "" if near else ", and none says that it works there"
            why = f"only a worker that shares its folder can run it, because {folder.alone}{none}"
            return Outlook(why, f"gen worker{place}")
        takers = near
    if all(each.running >= each.most for each in takers):
        return Outlook(BUSY, f"gen worker{place}")
    return Outlook()


def _without_agent(agent: str, takers: Sequence[WorkerCard], hindrances: Sequence[str]) -> Outlook:
    """The way to an agent that is missing wherever somebody looked; the others let its tasks pass by."""
    looked = {each.rpartition(": ")[0] for each in hindrances}
    full = any(each.running >= each.most and each.name not in looked for each in takers)
    why = f"no worker{' that is free' if full else ''} has the agent {agent}"
    return Outlook(why, f"put {agent}.md into ~/.gen/agents on a worker, and it goes on by itself")


def _folder(found: Dispatch) -> _Folder:
    try:
        return msgspec.json.decode(found.order or b"{}", type=_Folder)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _Folder()


def _typed(path: str) -> str:
    """A path as a shell takes it, on one line and with no two spaces in a row, whatever is in it."""
    if path.isprintable() and " ".join(path.split()) == path:
        return shlex.quote(path)
    plain = {"\\": "\\\\", "'": "\\'"}
    return "$'" + "".join(plain.get(each, each) if _is_plain(each) else _octets(each) for each in path) + "'"


def _is_plain(sign: str) -> bool:
    return sign.isprintable() and not sign.isspace()


def _octets(sign: str) -> str:
    return "".join(f"\\x{octet:02x}" for octet in sign.encode(errors="surrogateescape"))


def _takes(worker: WorkerCard, agent: str) -> bool:
    named = worker.agents.casefold().split(", ")
    return worker.agents == "all" or agent.casefold() in named
