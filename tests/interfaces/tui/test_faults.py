"""What fails unexpectedly in a person's action is shown in a line and logged; the app goes on."""

import asyncio
import gc
import logging
from pathlib import Path

import pytest

from gencode.core.task import Task
from gencode.interfaces.chat.prompt_history import PromptHistory
from gencode.journal.store import TaskQuery
from gencode.stores.memory import MemoryStore
from gencode.testing import says
from tests.interfaces.tui.driving import Seat, seated, turns

SHOWN = "by a fault in GenCode"


class FileOfPrompts(PromptHistory):
    """A history that reads its file at every key, as a program's own may do."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._read_from = file

    def earlier(self, typed: str) -> str | None:
        return self._read_from.read_text() or None


class TornStore(MemoryStore):
    """A store of a program, with a bug."""

    torn = False

    async def tasks(self, query: TaskQuery) -> list[Task]:
        if self.torn:
            raise KeyError("a row that is gone")
        return await super().tasks(query)


def tracebacks(caplog: pytest.LogCaptureFixture) -> list[type[BaseException]]:
    return [each.exc_info[0] for each in caplog.records if each.exc_info and each.exc_info[0]]


async def assert_goes_on(setup: Seat) -> None:
    await setup.type("go")
    await setup.assert_sees("still here")
    await setup.rests()
    assert setup.app.trouble is None


async def test_a_key_whose_file_has_vanished_is_told_and_the_app_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prompts = tmp_path / "prompts"
    prompts.write_text("an earlier one")
    also = {"history": FileOfPrompts(prompts)}
    async with seated(tmp_path, also=also, script=turns(main=[says("still here")])) as setup:
        prompts.unlink()
        await setup.press("up")
        await setup.assert_sees(SHOWN)
        assert tracebacks(caplog) == [FileNotFoundError]
        await assert_goes_on(setup)


async def test_a_command_on_a_store_that_fails_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = TornStore()
    async with seated(tmp_path, store=store, script=turns(main=[says("still here")])) as setup:
        store.torn = True
        await setup.type("/resume")
        await setup.assert_sees(SHOWN)
        store.torn = False
        assert KeyError in tracebacks(caplog)
        await assert_goes_on(setup)


async def test_a_key_binding_that_fails_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with seated(tmp_path, script=turns(main=[says("still here")])) as setup:
        composer = setup.app.main.composer
        del setup.app.main.composer  # what Ctrl+D looks at
        await setup.press("ctrl+d")
        setup.app.main.composer = composer
        await setup.assert_sees(SHOWN)
        assert tracebacks(caplog) == [AttributeError]
        await assert_goes_on(setup)


async def test_a_task_that_nobody_awaits_is_told_when_it_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def look() -> str:
        return (tmp_path / "never written").read_text()

    caplog.set_level(logging.ERROR)
    async with seated(tmp_path, script=turns(main=[says("still here")])) as setup:
        asyncio.get_running_loop().create_task(look()).add_done_callback(lambda _: None)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        gc.collect()
        await setup.assert_sees(SHOWN)
        assert FileNotFoundError in tracebacks(caplog)
        await assert_goes_on(setup)
