"""A task whose folder is not in a git repository: it goes to the worker that has the folder, and says so."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gencode.core.status import Status
from gencode.stores.pg_fleet_status import fleet_status
from tests.fleet.conftest import PATIENT
from tests.fleet.driving import Fleet, Process, ended, submit
from tests.interfaces.cli.running import gen as typed
from tests.postgres import Postgres

pytestmark = pytest.mark.needs("postgres")


@pytest.fixture
def plain(postgres: Postgres, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(postgres, tmp_path / "plain")
    made.write({"*": [{"text": "done"}]})
    yield made
    made.close()


async def test_what_no_worker_can_take_waits_with_a_reason_until_one_comes(plain: Fleet) -> None:
    model, way = f"scripted:{plain.folder}/script.json", f"gen worker --workspace {plain.folder}"

    def said(*words: str) -> str:
        return typed(*words, cwd=plain.folder, GEN_DATABASE_URL=plain.url).err

    told = said("task", "run", "Explore", "look", "--background", "--model", model)
    assert "no worker is running" in told and way in told
    far = plain.folder.parent / "far"
    far.mkdir()
    plain.workers.append(Process(far, plain.url, *PATIENT).ready())
    async with plain.open() as gen:
        [first] = [stuck.task for stuck in (await fleet_status(plain.url, 0)).stuck]
        told = said("task", "list")
        assert "only a worker that shares its folder can run it" in told
        assert "no running worker has it" in told and way in told
        plain.start(1, *PATIENT)
        tasks = await submit(gen, 5, "Explore")
        found = await ended(gen, [first, *tasks])
    assert [task.status for task in found] == [Status.COMPLETED] * 6
