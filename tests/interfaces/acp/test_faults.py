"""A bug behind an editor's message is one line for it and a traceback in the log; the agent goes on."""

from pathlib import Path

import pytest
from acp.exceptions import RequestError

from gencode.testing import says
from tests.interfaces.acp.driving import wired

INTERNAL_ERROR = -32_603
TORN = """
from gencode.stores.sqlite import SqliteStore

whole = SqliteStore.tasks


async def torn(self, query):
    SqliteStore.tasks = whole
    raise KeyError("a row that is gone")


SqliteStore.tasks = torn
"""


async def test_a_message_that_meets_a_bug_is_answered_logged_and_harms_no_other(
    tmp_path: Path, home: Path
) -> None:
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "sitecustomize.py").write_text(TORN)
    async with wired(tmp_path, PYTHONPATH=str(tmp_path / "torn")) as wire:
        with pytest.raises(RequestError, match="KeyError") as broken:
            await wire.agent.list_sessions(cwd=str(tmp_path))
        session = await wire.new(tmp_path, main=[says("still here")])
        await wire.say(session, "go")
        said = wire.editor.text(session)
    assert broken.value.code == INTERNAL_ERROR
    assert "\n" not in str(broken.value)
    assert "Traceback" in (home / ".gen" / "logs" / "gen.log").read_text()
    assert said.endswith("still here")
