"""A bug behind a request is one line for the client and a traceback in the log; the server goes on."""

from pathlib import Path

import pytest

from gencode.testing import says
from tests.interfaces.http.serving import served

SENT = {"agent": "Explore", "prompt": "look"}


async def torn(_: object) -> None:
    raise KeyError("a row that is gone")


async def test_a_request_that_meets_a_bug_is_answered_logged_and_harms_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(tmp_path, Explore=[says("found")]) as server:
        task = (await server.client.post("/api/tasks", SENT)).json["agentId"]
        with monkeypatch.context() as patch:
            patch.setattr(server.gen.history, "replayed", torn)
            broken = await server.client.get(f"/api/tasks/{task}/replay")
        after = await server.client.ended(task)
    assert broken.status == 500
    assert "KeyError" in broken.json["error"]
    assert "\n" not in broken.json["error"]
    assert [each.exc_info[0] for each in caplog.records if each.exc_info] == [KeyError]
    assert after["result"] == "found"
