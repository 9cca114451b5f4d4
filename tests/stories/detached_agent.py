"""An agent in the background, in a process of its own."""

import sqlite3
import time
from pathlib import Path
from typing import Any

from tests.interfaces.cli.running import SECONDS, gen

LOOK = {"text": "I look around.", "calls": [{"name": "Glob", "input": {"pattern": "*"}}]}
SLOW = {"text": "never said", "delay_ms": 600_000}
WITH_BASH = "general-purpose"


def begun(folder: Path, model: str, *words: str, agent: str = "Explore") -> dict[str, Any]:
    """A detached task, as the command that started it tells of it."""
    ended = gen("task", "run", agent, "go", "--background", "--json", "--model", model, *words, cwd=folder)
    assert ended.code == 0, ended.err
    return ended.json


def wait_for(folder: Path, task: str, **fields: Any) -> dict[str, Any]:
    """The task once it looks like this to another process."""
    until = time.monotonic() + SECONDS
    told: dict[str, Any] = {}
    while time.monotonic() < until:
        told = gen("task", "show", task, "--json", cwd=folder).json
        if all(told[name] == value for name, value in fields.items()):
            return told
        time.sleep(0.05)
    raise AssertionError(f"{fields} never became true of {told}")


def worker_of(home: Path, task: str) -> int:
    """The process that runs a task, as the journal knows it."""
    connection = sqlite3.connect(home / ".gen" / "gencode.db")
    (owner,) = connection.execute("SELECT owner FROM gen_task WHERE id = ?", (task,)).fetchone()
    connection.close()
    return int(owner.split("|")[2])
