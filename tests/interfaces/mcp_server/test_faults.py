"""A bug behind a client's request is one line for it and a traceback in the log; the server goes on."""

from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from gencode.core.task import Task
from gencode.journal.store import TaskQuery
from gencode.stores.sqlite import SqliteStore
from gencode.testing import says
from tests.interfaces.mcp_server.offices import ERAS, office


async def torn(_: SqliteStore, __: TaskQuery) -> list[Task]:
    raise KeyError("a row that is gone")


@pytest.mark.parametrize("era", ERAS)
async def test_a_request_that_meets_a_bug_is_answered_logged_and_harms_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, era: str
) -> None:
    async with office(tmp_path, {"*": [says("x")]}) as here, here.client(era) as client:
        with monkeypatch.context() as patch:
            patch.setattr(SqliteStore, "tasks", torn)
            with pytest.raises(MCPError, match="KeyError") as broken:
                await client.list_resources()
        after = await client.list_resources()
    assert broken.value.code == INTERNAL_ERROR
    assert "\n" not in broken.value.message
    assert KeyError in [each.exc_info[0] for each in caplog.records if each.exc_info]
    assert after.resources == []
