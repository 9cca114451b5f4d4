"""Who waits for an agent that no worker is at is told what it waits for, and JSON stays JSON."""

import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fleet.conftest import PATIENT
from tests.fleet.driving import Fleet, Process
from tests.interfaces.cli.running import start
from tests.postgres import Postgres
from tests.waiting import PATIENCE, wait_until

pytestmark = pytest.mark.needs("postgres")

SENDS = {"subagent_type": "Explore", "prompt": "look", "isolation": "process"}
NONE = "waits for a worker: no worker is running (to fix this: gen worker --workspace {folder},"
FAR = "waits for a worker: only a worker that shares its folder can run it"


class Waiting:
    """`gen` while it waits, and the lines on its stderr so far."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        self.lines: list[str] = []
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.lines.extend(self.process.stderr)

    def said(self, words: str) -> None:
        """Wait until it has said something."""
        wait_until(lambda: any(words in line for line in self.lines), f"it says: {words}; not {self.lines}")

    def ended(self) -> str:
        """What it answered."""
        assert self.process.stdout is not None
        out = self.process.stdout.read()
        assert self.process.wait(PATIENCE) == 0, self.lines
        self.close()
        return out

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        self._reading.join()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


@pytest.fixture
def plain(postgres: Postgres, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(postgres, tmp_path / "plain")
    task = {"calls": [{"name": "Task", "input": SENDS}]}
    made.write({"main": [task, {"text": "done"}], "*": [{"text": "found it"}]})
    yield made
    made.close()


def test_the_reason_is_said_once_and_again_when_it_changes(plain: Fleet) -> None:
    model = f"scripted:{plain.folder}/script.json"
    words = ("-p", "go", "--output-format", "json", "--model", model)
    asked = Waiting(start(*words, cwd=plain.folder, GEN_DATABASE_URL=plain.url))
    stream = ("task", "run", "Explore", "look", "--background", "--json", "--model", model)
    sent = start(*stream, cwd=plain.folder, GEN_DATABASE_URL=plain.url)
    task: str = json.loads(sent.communicate(timeout=PATIENCE)[0])["agentId"]
    waits = ("task", "output", task, "--json", "--timeout", "600000")
    other = Waiting(start(*waits, cwd=plain.folder, GEN_DATABASE_URL=plain.url))
    try:
        none = NONE.format(folder=plain.folder)
        for each in (asked, other):
            each.said(none)
        far = plain.folder.parent / "far"
        far.mkdir()
        plain.workers.append(Process(far, plain.url, *PATIENT).ready())
        for each in (asked, other):
            each.said(FAR)
        plain.start(1, *PATIENT)
        assert json.loads(asked.ended())["result"] == "done"
        assert json.loads(other.ended())["result"] == "found it"
        for each in (asked, other):
            told = [line for line in each.lines if "waits for a worker" in line]
            assert ([none in line for line in told].count(True), len(told)) == (1, len({*told})), told
    finally:
        for each in (asked, other):
            each.close()
