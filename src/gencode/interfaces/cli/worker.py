"""`gen worker`: execute queued tasks for a shared database, until told to end."""

import argparse
import asyncio
import os
import select
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.interfaces.cli.worker_health import Health
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.plain_text import answer_json, note
from gencode.places import workspace_at
from gencode.settings import Settings, gen_home, load

if TYPE_CHECKING:
    from gencode.fleet.worker import Shape, Worker
    from gencode.interfaces.cli.worker_schedule import Appointments

NO_DATABASE = (
    "There is no shared database; name one with GEN_DATABASE_URL=postgresql://… or database_url in your "
    "settings, then start gen worker on as many machines as you like."
)
CONCURRENCY = 8
DRAIN_SECONDS = 60.0
LOOK_SECONDS = 0.5
LOST = "The database has not answered for too long: the agents that ran here are stopped, others may go on."
ENDED = (
    "Not everything that ran here could be stopped in time, so this worker ends as a whole (status 70): "
    "others go on with its tasks. Start it again."
)
FOUND = "The database is there again, and tasks are taken as before."


def run(args: argparse.Namespace) -> int:
    """Work until SIGTERM or Ctrl-C; a second one hands the rest to other workers at once."""
    folder = Path(getattr(args, "workspace", getattr(args, "cwd", ".")))
    workspace = workspace_at(folder).root
    told = load(workspace)
    if not told.database_url:
        raise UserMistake(NO_DATABASE)
    return run_to_end(_work(args, told, workspace))


async def _work(args: argparse.Namespace, told: Settings, workspace: Path) -> int:
    from gencode.fleet.worker import Worker, open_postgres
    from gencode.interfaces.cli.worker_schedule import appointments

    shape = _shape(args, told, workspace)
    store = await open_postgres(told.database_url, shape.lease_seconds)
    try:
        worker = Worker(store, shape)
        worker.last_word = say_ended
        health = Health(lambda: _state(worker))
        address = await health.start(getattr(args, "health_port", 0))
        try:
            _tell(args, worker, store.link.address, address)
            async with appointments(store, workspace, lambda: worker.leases.well) as planned:
                return await _until_told(worker, planned, getattr(args, "drain_seconds", DRAIN_SECONDS))
        finally:
            health.close()
    finally:
        await store.close()


def _shape(args: argparse.Namespace, told: Settings, workspace: Path) -> "Shape":
    from gencode.fleet.worker import Shape
    from gencode.journal.owner import LEASE_SECONDS

    named = tuple(name.strip() for name in getattr(args, "agents", "").split(",") if name.strip())
    if "agents" in args and not named:
        raise UserMistake("--agents names no agent; leave it out to serve all of them.")
    return Shape(
        most=getattr(args, "concurrency", CONCURRENCY),
        workspace=workspace,
        home=gen_home(),
        agents=named,
        caps=told.fleet_caps,
        lease_seconds=getattr(args, "lease_seconds", LEASE_SECONDS),
        folders=getattr(args, "folders", "auto"),
        walls=told.sandbox,
        budget=Budget(tokens=told.max_tokens_total, usd=told.max_usd, spawns=told.max_spawns),
    )


def _state(worker: "Worker") -> tuple[bool, dict[str, Any]]:
    card = worker.card
    return worker.leases.well, {
        "worker": card.name,
        "running": card.running,
        "most": card.most,
        "draining": card.draining,
        "renewed": round(worker.leases.age, 1),
    }


def _tell(args: argparse.Namespace, worker: "Worker", database: str, health: str) -> None:
    card = worker.card
    if "json" in args:
        answer_json({"worker": card.name, "database": database, "health": health})
        return
    most = "1 task" if card.most == 1 else f"{card.most} tasks"
    note(f"Worker {card.name} takes up to {most} at once from {database}.")
    note(f"Agents: {card.agents}; folder: {card.workspace}")
    note(f"Its health: {health}")


def say_ended() -> None:
    """Say why the process ends, if that can be said at once: what runs here must not run on meanwhile."""
    with suppress(OSError, ValueError):
        stderr = sys.stderr.fileno()
        if select.select([], [stderr], [], 0)[1]:
            os.write(stderr, f"{ENDED}\n".encode())


async def _watched(worker: "Worker") -> None:
    """Say when the database is lost, and when it is there again."""
    before: bool | None = None
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        well = worker.leases.well
        if before is not None and well != before:
            note(FOUND if well else LOST)
        if well or before is not None:
            before = well


async def _until_told(worker: "Worker", planned: "Appointments", drain_seconds: float) -> int:
    """Work; the first signal drains, the second one or the end of the time hands back what still runs."""
    loop = asyncio.get_running_loop()
    told, again = asyncio.Event(), asyncio.Event()

    def heard() -> None:
        (again if told.is_set() else told).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, heard)
    working = loop.create_task(worker.work())
    waiting, watching = loop.create_task(told.wait()), loop.create_task(_watched(worker))
    await asyncio.wait([working, waiting], return_when=asyncio.FIRST_COMPLETED)
    if not working.done():
        note("Told to end: no more tasks are taken, and those that run go on to their end.")
        worker.drain()
        planned.drain()
        insisting = loop.create_task(again.wait())
        done = asyncio.gather(working, planned.life, return_exceptions=True)
        ready = [done, insisting]
        await asyncio.wait(ready, timeout=drain_seconds, return_when=asyncio.FIRST_COMPLETED)
        insisting.cancel()
        if not working.done():
            note("What still runs is left to other workers.")
            await worker.hand_back()
    waiting.cancel()
    watching.cancel()
    await working
    return 0
