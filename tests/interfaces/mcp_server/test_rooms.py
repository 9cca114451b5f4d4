"""Rooms: one for each folder, opened once, and closed when there are too many."""

import asyncio
from pathlib import Path

import pytest

from gencode.core.errors import StoreTrouble, UserMistake
from gencode.core.spec import TaskRequest
from gencode.interfaces.mcp_server import workspaces
from gencode.testing import says
from tests.interfaces.mcp_server.offices import office

SLOW = {"*": [says("…", delay_ms=60_000)]}


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    found = [tmp_path / name for name in ("one", "two", "three")]
    for folder in found:
        folder.mkdir()
    return found


async def test_whoever_comes_at_once_gets_the_same_room(tmp_path: Path, folders: list[Path]) -> None:
    async with office(tmp_path, SLOW) as here:
        found = await asyncio.gather(*(here.rooms.at(folders[0]) for _ in range(5)))
        assert len({id(gen) for gen in found}) == 1


async def test_a_room_in_which_nobody_works_makes_place_for_another(
    tmp_path: Path, folders: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workspaces, "MOST_OPEN", 2)
    async with office(tmp_path, SLOW) as here:
        first = await here.rooms.at(folders[0])
        second = await here.rooms.at(folders[1])
        with pytest.raises(StoreTrouble):
            await first.tasks()
        await second.start_task(TaskRequest("Explore", "Stay", background=True))
        with pytest.raises(UserMistake, match="2 folders"):
            await here.rooms.at(folders[2])


async def test_a_folder_that_cannot_be_opened_is_tried_again(tmp_path: Path, folders: list[Path]) -> None:
    broken = folders[0] / ".gen" / "settings.toml"
    broken.parent.mkdir()
    async with office(tmp_path, SLOW) as here:
        broken.write_text("deny = 7")
        with pytest.raises(UserMistake):
            await here.rooms.at(folders[0])
        broken.unlink()
        assert (await here.rooms.at(folders[0])).workspace.root == folders[0]
