"""The commands of a session: what is prepared for the first of them is there for all."""

import asyncio
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from gencode.core.spec import Workspace
from gencode.sandbox import shells as room
from gencode.sandbox.shells import CommandRequest, Shells


async def test_who_is_stopped_with_the_first_command_keeps_nobody_from_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    swept = room.end_leftovers

    def slowly(folder: Path) -> None:
        time.sleep(0.3)
        swept(folder)

    monkeypatch.setattr(room, "end_leftovers", slowly)
    order = CommandRequest("sleep 600", Workspace(tmp_path, tmp_path, tmp_path), "t", 60.0)
    shells = Shells(tmp_path / "gen", "auto")
    try:
        first = asyncio.ensure_future(shells.run(order))
        await asyncio.wait([first], timeout=0.1)
        first.cancel()
        ended = [await shells.run(replace(order, text=f"echo {number}")) for number in range(2)]
    finally:
        await shells.close()
    assert [each.ended.output.text() for each in ended] == ["0\n", "1\n"]
