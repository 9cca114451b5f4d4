"""Whatever an editor sends, it is answered, harms no file, and the next message is taken."""

from pathlib import Path

import pytest

from tests.interfaces.acp.hostile_editor import attack


@pytest.mark.parametrize("seed", [1, 2])
async def test_hostile_messages_and_answers_meet_no_bug(tmp_path: Path, seed: int) -> None:
    found = await attack(tmp_path, 100, seed)
    assert (found.alive, found.faults, (tmp_path / "a.txt").exists()) == (True, [], True)
    assert found.answered > found.sent / 2
