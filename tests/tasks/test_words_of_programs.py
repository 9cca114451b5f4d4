"""What a Python program says about a task and cannot be meant is refused in a sentence; nothing begins."""

from pathlib import Path
from typing import Any

import pytest

from gencode.core.errors import UserMistake
from gencode.testing import says, scripted

TURNS = "max_turns must be a whole number from 1 to 9,007,199,254,740,992, not {said!r}."


@pytest.mark.parametrize("said", ["3", 3.0, True, [3]])
async def test_a_limit_of_turns_is_a_number(tmp_path: Path, said: Any) -> None:
    async with scripted(tmp_path, Explore=[says("x")]) as gen:
        done = await gen.task("Explore", "look")
        for wish in (
            gen.task("Explore", "look", max_turns=said),
            gen.task("Explore", "look", max_turns=said, background=True),
            gen.resume(done.agent_id, "again", max_turns=said),
            gen.fork(done.agent_id, "otherwise", max_turns=said),
        ):
            with pytest.raises(UserMistake) as refused:
                await wish
            assert str(refused.value) == TURNS.format(said=said)
        assert len(await gen.tasks()) == 1


@pytest.mark.parametrize("at", ["3", 2.0, True, 0, 99])
async def test_a_fork_begins_at_a_number_of_a_fact(tmp_path: Path, at: Any) -> None:
    async with scripted(tmp_path, Explore=[says("x")]) as gen:
        done = await gen.task("Explore", "look")
        with pytest.raises(UserMistake) as refused:
            await gen.fork(done.agent_id, "otherwise", at=at)
        last = (await gen.history.events(done.agent_id))[-1].seq
        assert str(refused.value) == (
            f"Task {done.agent_id} has no event {at!r}; its events are numbered 1 to {last}."
        )
        assert len(await gen.tasks()) == 1


@pytest.mark.parametrize("word", ["description", "model"])
async def test_what_is_a_text_is_not_anything_else(tmp_path: Path, word: Any) -> None:
    number: Any = 3
    odd: dict[str, Any] = {word: number}
    async with scripted(tmp_path, Explore=[says("x")]) as gen:
        wishes: list[tuple[str, Any]] = [
            (word, gen.task("Explore", "look", **odd)),
            ("prompt", gen.task("Explore", number)),
            ("agent", gen.task(number, "look")),
        ]
        for name, wish in wishes:
            with pytest.raises(UserMistake, match=f"^The {name} of a task must be a string, not 3.$"):
                await wish
        assert await gen.tasks() == []
