"""Who goes on with one task at the same moment, many times in one process: one of them does."""

import asyncio
from pathlib import Path

import pytest

from gencode.app import GenCode
from gencode.core.errors import UserMistake
from gencode.providers.scripted import ScriptedProvider
from gencode.tasks.running_task import LocalTask
from gencode.testing import says
from tests.postgres import Postgres


async def race(folder: Path) -> None:
    script = ScriptedProvider.of({"Explore": [says(f"reply {number}", delay_ms=300) for number in range(8)]})
    async with GenCode.open(folder, model=script) as gen:
        task = (await gen.task("Explore", "look")).agent_id
        for number in range(1, 6):
            resumed = (gen.resume(task, "more", background=True) for _ in range(5))
            started = await asyncio.gather(*resumed, return_exceptions=True)
            refused = [each for each in started if isinstance(each, UserMistake)]
            assert len(refused) == 4
            live = gen.running.find(task)
            assert isinstance(live, LocalTask)
            ended = await live.ended()
            assert (ended.status.value, ended.result) == ("completed", f"reply {number}")


async def test_one_of_many_goes_on_in_the_file(tmp_path: Path) -> None:
    await race(tmp_path)


@pytest.mark.needs("postgres")
async def test_one_of_many_goes_on_in_a_shared_database(
    tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEN_DATABASE_URL", postgres.new_schema())
    await race(tmp_path)
