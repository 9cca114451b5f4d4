"""Whoever ends before a worker has begun with an agent calls it off: it is cancelled, and never runs."""

import json
import signal

import pytest

from tests.fleet.driving import Fleet
from tests.interfaces.cli.running import start
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.needs("postgres")

SENDS = {"subagent_type": "Explore", "prompt": "look", "isolation": "process"}


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (signal.SIGINT, ("-p", "go")),
        (signal.SIGTERM, ("task", "run", "Explore", "look", "--isolation", "process", "--json")),
    ],
)
async def test_an_agent_that_waits_for_a_worker_is_cancelled_with_its_conversation(
    fleet: Fleet, number: signal.Signals, words: tuple[str, ...]
) -> None:
    fleet.write({"main": [{"calls": [{"name": "Task", "input": SENDS}]}], "*": [{"text": "found it"}]})
    model = f"scripted:{fleet.folder}/script.json"
    process = start(*words, "--model", model, cwd=fleet.folder, GEN_DATABASE_URL=fleet.url)

    def waiting() -> list[list[str]]:
        return fleet.rows("SELECT id FROM gen_task WHERE agent = 'Explore' AND dispatch IS NOT NULL")

    await until(lambda: bool(waiting()), "it waits for a worker")
    [[task]] = waiting()
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number, err
    assert "runs in the background" not in err
    found = fleet.rows(
        "SELECT id, status, dispatch IS NULL, owner IS NULL FROM gen_task WHERE agent = 'Explore'"
    )
    assert found == [[task, "cancelled", "t", "t"]]
    if "--json" in words:
        assert json.loads(out)["status"] == "cancelled"
