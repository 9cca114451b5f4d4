"""Starts workers, gives them work, and reads from the journal what became of it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from gencode import GenCode
from gencode.core.events import Event, MessageAdded, TaskEnded, TaskStarted
from gencode.core.messages import AssistantMessage, ToolMessage
from gencode.core.questions import Asker
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.core.task import Task, replay, transcript_of
from gencode.fleet.worker import HARD_END
from tests.postgres import Postgres
from tests.waiting import PATIENCE, until

LEASE_SECONDS = float(os.environ.get("GEN_FLEET_LEASE", "2"))
TASKS = int(os.environ.get("GEN_FLEET_TASKS", "6"))
TURNS = 6
CUT = "Interrupted"
"""So begins what an agent reads of a call that was started and not finished."""


class Process:
    """One worker; like a service manager, `tend` starts it again when it could not stop in time and ended."""

    def __init__(
        self, folder: Path, url: str, *options: str, agent: str = "", inside: tuple[str, ...] = ()
    ) -> None:
        self.log = folder / f"worker-{time.monotonic_ns()}"
        environ = {
            **os.environ,
            "PYTHONWARNINGS": "error",
            "GEN_DATABASE_URL": url,
            "GEN_HOME": str(self.log),
        }
        lease = ("--lease-seconds", str(LEASE_SECONDS))
        self.log.mkdir()
        if agent:
            (self.log / "agents").mkdir()
            text = f"---\nname: {agent}\ndescription: Only on this machine.\n---\nWork.\n"
            (self.log / "agents" / f"{agent}.md").write_text(text)
        command = [*inside, sys.executable, "-m", "gencode", "worker", "--json", *lease, *options]

        def begin() -> subprocess.Popen[bytes]:
            with (self.log / "said").open("ab") as said:
                return subprocess.Popen(command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=said)

        self._begin = begin
        self.process = begin()
        self.told: dict[str, str] = {}
        self.gave_up = False

    def tend(self) -> None:
        """Start it again if it gave up, as often as it needs to reach the database."""
        code = self.process.poll()
        self.gave_up = self.gave_up or code == HARD_END
        if self.gave_up and code:
            self.close()
            self.process = self._begin()

    def ready(self) -> "Process":
        """Wait until it has begun."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (self.log / "said").read_text() + self.logged()
        self.told = json.loads(line)
        return self

    @property
    def number(self) -> int:
        return self.process.pid

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def logged(self) -> str:
        path = self.log / "logs" / "gen.log"
        return path.read_text() if path.exists() else ""

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        if self.process.stdout is not None:
            self.process.stdout.close()


class Fleet:
    """Workers in one folder, and a database that they share."""

    def __init__(self, postgres: Postgres, folder: Path) -> None:
        self.postgres = postgres
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.url = postgres.new_schema()
        self.schema = self.url.rpartition("=")[2]
        self.workers: list[Process] = []
        self._closed = threading.Event()
        self._tending = threading.Thread(target=self._tend)
        self._tending.start()
        self.write({"*": [*(_turn(n) for n in range(TURNS)), {"text": "done"}]})
        (folder / "note.txt").write_text("a note\n")

    def write(self, agents: dict[str, Any]) -> None:
        """What the model says."""
        put_script(self.folder / "script.json", agents)

    def start(self, count: int, *options: str) -> list[Process]:
        """Start so many workers and wait until they have begun."""
        new = [Process(self.folder, self.url, *options) for _ in range(count)]
        self.workers += new
        return [each.ready() for each in new]

    def open(self, asker: Asker | None = None, **settings: Any) -> AbstractAsyncContextManager[GenCode]:
        """A GenCode on the shared database, as on a person's machine."""
        named = {"database_url": self.url, **settings}
        model = f"scripted:{self.folder}/script.json"
        return GenCode.open(self.folder, model=model, settings=named, asker=asker)

    def rows(self, statement: str) -> list[list[str]]:
        """What a statement gives in the schema of this fleet."""
        told = self.postgres.run(f"SET search_path TO {self.schema}; {statement}")
        return [line.split("|") for line in told.splitlines()]

    def owners(self, status: str = "") -> dict[str, int]:
        """The process that is at each task, or at each one of such a status."""
        asked = "SELECT id, status, split_part(owner, '|', 3) FROM gen_task WHERE owner IS NOT NULL"
        found = self.rows(asked)
        return {task: int(at) for task, now, at in found if at and status in ("", now)}

    async def busy(self) -> tuple[Process, Process]:
        """A worker that is at something, and another one."""
        await until(lambda: bool(self.owners()), "some worker is at something")
        numbers = {*self.owners().values()}
        first, *others = sorted(self.workers, key=lambda each: each.number not in numbers)
        return first, others[0]

    def _tend(self) -> None:
        while not self._closed.wait(0.2):
            for worker in list(self.workers):
                worker.tend()

    def close(self) -> None:
        self._closed.set()
        self._tending.join()
        for worker in self.workers:
            worker.close()


def put_script(path: Path, agents: dict[str, Any]) -> None:
    """Put a script in the place of another one, which may be read at the same moment."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"agents": agents}))
    new.replace(path)


async def submit(gen: GenCode, count: int = TASKS, agent: str = "general-purpose") -> list[str]:
    """Give so many tasks to the workers; their ids."""
    return [(await gen.detach(TaskRequest(agent, f"task {n}"))).agent_id for n in range(count)]


async def ended(gen: GenCode, tasks: list[str]) -> list[Task]:
    """The tasks once all of them have ended."""
    found = [await gen.history.ended(task, PATIENCE) for task in tasks]
    assert [task.id for task in found if not task.status.ended] == []
    return found


async def check_journal(gen: GenCode, task: str) -> list[Event]:
    """Every reply was written once and in order, every number is there once, and the fold is the task.

    Every call has one result, which of a call that was cut says so.
    """
    events = await gen.history.events(task)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert replay(events) == await gen.history.task(task)
    said = [
        event.fact.message.text
        for event in events
        if isinstance(event.fact, MessageAdded) and isinstance(event.fact.message, AssistantMessage)
    ]
    assert said == [*(f"turn {n}" for n in range(TURNS)), "done"]
    messages = transcript_of(events)
    asked = [call.id for each in messages if isinstance(each, AssistantMessage) for call in each.calls]
    results = [result for each in messages if isinstance(each, ToolMessage) for result in each.results]
    assert [result.call for result in results] == asked
    assert [result.text for result in results if result.error != result.text.startswith(CUT)] == []
    return events


def runs(events: list[Event]) -> int:
    """How often a task was begun; every run but the last one was cut."""
    cut = [event for event in events if isinstance(event.fact, TaskEnded)][:-1]
    assert all(isinstance(each.fact, TaskEnded) and each.fact.status is Status.INTERRUPTED for each in cut)
    started = sum(isinstance(event.fact, TaskStarted) for event in events)
    assert started == len(cut) + 1
    return started


def _turn(number: int) -> dict[str, Any]:
    call = {"name": "Read", "input": {"file_path": "note.txt"}}
    return {"text": f"turn {number}", "calls": [call], "delay_ms": 120}
