"""`gen worker`: runs queued tasks of a shared database, with a health endpoint and its folders' schedule."""

import argparse
import asyncio
import os
import select
import signal
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gencode.app import GenCode
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.outcome import as_json
from gencode.interfaces.chat.schedule_runner import scheduler_for
from gencode.interfaces.cli.foreground_run import start_beside
from gencode.interfaces.cli.parser import Commands, add, count, port, seconds
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.number_format import counted
from gencode.interfaces.render.plain_text import answer_json, note
from gencode.journal.store import Store
from gencode.places import workspace_at
from gencode.schedule.scheduled_jobs import ScheduledJob
from gencode.settings import Settings, gen_home, load
from gencode.tasks.scheduler import Scheduler

if TYPE_CHECKING:
    from gencode.fleet.worker import Worker, WorkerOptions


NO_DATABASE = (
    "No shared database is configured. Set GEN_DATABASE_URL=postgresql://… or database_url in your settings, "
    "then start gen worker on each machine."
)
CONCURRENCY = 8
DRAIN_SECONDS = 60.0
LOOK_SECONDS = 0.5
SCHEDULE_SECONDS = 1.0
HOST = "127.0.0.1"
PATH = "/health"
LONGEST_REQUEST = 4_096
READ_SECONDS = 5.0
LOST = "Lost the database: the agents here were stopped, and other workers may resume them."
ENDED = (
    "Some agents could not be stopped in time, so this worker exits (status 70) and other workers resume its "
    "tasks. Start it again."
)
FOUND = "Reconnected to the database; taking tasks again."


def add_command(commands: Commands, does: str) -> None:
    """`gen worker`."""
    parser = add(
        commands,
        "worker",
        run,
        does,
        ("gen worker --concurrency 4", "gen worker --agents Explore,Plan --drain-seconds 120"),
    )
    parser.add_argument(
        "--concurrency", type=count, metavar="N", help="run up to N tasks at once (default 8)"
    )
    parser.add_argument(
        "--agents", metavar="NAMES", help="only tasks of these agents, separated by commas (default: all)"
    )
    parser.add_argument(
        "--workspace", metavar="DIR", help="only tasks of folders in this one (default: the current one)"
    )
    parser.add_argument(
        "--folders",
        choices=("auto", "shared", "away"),
        help="use a task's own folder if it is really shared (auto), always (shared), or never (away); "
        "otherwise the task gets a copy made with git",
    )
    parser.add_argument(
        "--lease-seconds",
        type=seconds,
        metavar="S",
        help="let other workers take over after S seconds without a heartbeat (default 15); the same for all "
        "workers",
    )
    parser.add_argument(
        "--drain-seconds",
        type=seconds,
        metavar="S",
        help="on shutdown, give running tasks S seconds before other workers take over (default 60)",
    )
    parser.add_argument(
        "--health-port", type=port, metavar="N", help="serve /health on this port (default: any free one)"
    )


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

    shape = _shape(args, told, workspace)
    store = await open_postgres(told.database_url, shape.lease_seconds)
    try:
        worker = Worker(store, shape, say_ended)
        health = HealthEndpoint(lambda: _state(worker))
        address = await health.start(getattr(args, "health_port", 0))
        try:
            _tell(args, worker, store.link.address, address)
            async with worker_schedule(store, workspace, lambda: worker.leases.well) as planned:
                return await _until_told(worker, planned, getattr(args, "drain_seconds", DRAIN_SECONDS))
        finally:
            health.close()
    finally:
        await store.close()


def _shape(args: argparse.Namespace, told: Settings, workspace: Path) -> "WorkerOptions":
    from gencode.fleet.worker import WorkerOptions
    from gencode.journal.owner import LEASE_SECONDS

    named = tuple(name.strip() for name in getattr(args, "agents", "").split(",") if name.strip())
    if "agents" in args and not named:
        raise UserMistake("--agents is empty; leave it out to serve all agents.")
    return WorkerOptions(
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
    most = counted(card.most, "task")
    note(f"Worker {card.name} runs up to {most} at once from {database}.")
    note(f"Agents: {card.agents}; folder: {card.workspace}")
    note(f"Health: {health}")


def say_ended() -> None:
    """Print why the process ends, if that is possible at once: its tasks must not run on meanwhile."""
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


async def _until_told(worker: "Worker", planned: "WorkerSchedule", drain_seconds: float) -> int:
    """Work; the first signal drains, the second one or the end of the time hands back what still runs."""
    loop = asyncio.get_running_loop()
    told, again = asyncio.Event(), asyncio.Event()

    def heard() -> None:
        (again if told.is_set() else told).set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, heard)
    working = loop.create_task(worker.work())
    waiting, watching = loop.create_task(told.wait()), start_beside(_watched(worker))
    await asyncio.wait([working, waiting], return_when=asyncio.FIRST_COMPLETED)
    if not working.done():
        note("Shutting down: running tasks may finish, no new tasks are taken.")
        worker.drain()
        planned.drain()
        insisting = loop.create_task(again.wait())
        done = asyncio.gather(working, planned.life, return_exceptions=True)
        ready = [done, insisting]
        await asyncio.wait(ready, timeout=drain_seconds, return_when=asyncio.FIRST_COMPLETED)
        insisting.cancel()
        if not working.done():
            note("Handing the running tasks to other workers.")
            await worker.hand_back()
    waiting.cancel()
    watching.cancel()
    await working
    return 0


Look = Callable[[], tuple[bool, dict[str, Any]]]
"""Whether all is well, and the text to print."""


class HealthEndpoint:
    """Listens from `start` to `close`."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._server: asyncio.Server | None = None

    async def start(self, port: int = 0) -> str:
        """Listen on a port (0: any that is free); the address."""
        try:
            self._server = await asyncio.start_server(self._answer, HOST, port, limit=LONGEST_REQUEST)
        except OSError as error:
            raise UserMistake(
                f"Cannot listen on port {port}: {error.strerror}. Choose another one."
            ) from None
        return f"http://{HOST}:{self._server.sockets[0].getsockname()[1]}{PATH}"

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._reply(head.split(b"\r\n", 1)[0].split()))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    def _reply(self, line: list[bytes]) -> bytes:
        if line[:2] != [b"GET", PATH.encode()]:
            return _response("404 Not Found", {"error": f"there is only {PATH}"})
        well, told = self._look()
        return _response("200 OK" if well else "503 Service Unavailable", {"healthy": well, **told})


def _response(status: str, told: dict[str, Any]) -> bytes:
    body = as_json(told).encode() + b"\n"
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body


class WorkerSchedule:
    """Runs a scheduler for as long as all is `well`; what runs is stopped when it is not."""

    def __init__(self, scheduler: Scheduler, well: Callable[[], bool]) -> None:
        self._scheduler = scheduler
        self._well = well
        self._drained = False
        self.life = start_beside(self._kept())

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
            if not self._drained:  # the database is lost, or the scheduler has failed
                await asyncio.sleep(SCHEDULE_SECONDS)

    async def _ran(self) -> None:
        running = start_beside(self._scheduler.run())
        try:
            while not running.done() and (self._drained or self._well()):
                await asyncio.wait([running], timeout=SCHEDULE_SECONDS)
        finally:
            running.cancel()
            await asyncio.wait([running])


@asynccontextmanager
async def worker_schedule(
    store: Store, workspace: Path, well: Callable[[], bool]
) -> AsyncGenerator[WorkerSchedule, None]:
    """What is planned for folders inside `workspace`, which many workers may share: each time once."""

    def mine(job: ScheduledJob) -> bool:
        folder = Path(job.cwd).resolve()
        return folder.is_dir() and folder.is_relative_to(workspace.resolve())

    async with GenCode.open(workspace, store=store) as gen:
        kept = WorkerSchedule(scheduler_for(gen, note, store=store, mine=mine), well)
        try:
            yield kept
        finally:
            await kept.close()
