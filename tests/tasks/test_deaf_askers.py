"""Askers of programs that do not heed a stop: nobody waits for them, and a late answer does not count."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from gencode.core.questions import Answer, Question
from gencode.core.status import Status
from gencode.testing import call, says, scripted
from tests.tasks.words import results, said
from tests.virtual_clock import virtual_time

WRITE = call("Write", file_path="a.txt", content="a")
INQUIRY = {"question": "Which one?", "options": [{"label": "red"}, {"label": "blue"}], "default": "blue"}
WHICH = call("AskUserQuestion", questions=[INQUIRY])
DEFAULT = r"Nobody answered within [\d.]+ s\.\n- Which one\? → \(no answer; your default: blue\)\n.+"


class Deaf:
    """Somebody who answers yes, and red, when they like: whoever asks has to wait, or to do without it."""

    def __init__(self) -> None:
        self.wake = asyncio.Event()
        self.asked = asyncio.Event()
        self.over = asyncio.Event()
        asyncio.get_running_loop().call_later(
            20, self.wake.set
        )  # a test that would hang for it fails instead

    async def ask(self, question: Question) -> Answer:
        self.asked.set()
        while not self.wake.is_set():
            try:
                await self.wake.wait()
            except asyncio.CancelledError:
                continue
        self.over.set()
        return Answer(True, reach="session", words=("red",))

    async def answers_late(self) -> None:
        """Let them answer, and whoever hears that act on it."""
        assert not self.wake.is_set(), "somebody waited for them"
        self.wake.set()
        await self.over.wait()
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("settings", [{"answer_seconds": 0.5}, {"max_seconds": 2}])
@virtual_time
async def test_the_default_counts_when_their_time_is_up_and_the_agent_still_has_some(
    tmp_path: Path, settings: dict[str, float]
) -> None:
    asker = Deaf()
    async with (
        asyncio.timeout(30),
        scripted(tmp_path, asker=asker, settings=settings, main=[says("", WHICH), says("I go on.")]) as gen,
    ):
        outcome = await gen.ask("go").outcome()
        await asker.answers_late()
        [given] = results(await said(gen, outcome.agent_id))
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "I go on.")
    assert re.fullmatch(DEFAULT, given)


@pytest.mark.parametrize(
    ("settings", "wish", "ends"),
    [
        ({"max_seconds": 1}, WRITE, Status.TIMED_OUT),
        ({}, WRITE, Status.CANCELLED),
        ({"answer_seconds": 600}, WHICH, Status.CANCELLED),
    ],
)
@virtual_time
async def test_an_agent_that_waits_for_them_ends_when_its_time_is_up_or_somebody_stops_it(
    tmp_path: Path, settings: dict[str, float], wish: dict[str, Any], ends: Status
) -> None:
    asker = Deaf()
    async with (
        asyncio.timeout(30),
        scripted(tmp_path, asker=asker, settings=settings, main=[says("I ask.", wish), says("never")]) as gen,
    ):
        turn = await gen.start_turn("go")
        await asker.asked.wait()
        if ends is Status.CANCELLED:
            await gen.stop(turn.id)
        outcome = await gen.outcome(turn)
        await asker.answers_late()
        after = await gen.get(turn.id)
    assert (outcome.status, outcome.result, after) == (ends, "I ask.", outcome)
    assert not (tmp_path / "a.txt").exists()


@virtual_time
async def test_whoever_closes_gencode_does_not_wait_for_them(tmp_path: Path) -> None:
    asker = Deaf()
    async with asyncio.timeout(30):
        async with scripted(tmp_path, asker=asker, main=[says("I ask.", WRITE), says("never")]) as gen:
            turn = await gen.start_turn("go")
            await asker.asked.wait()
        await asker.answers_late()
    assert (turn.task.status, turn.task.result) == (Status.CANCELLED, "I ask.")
    assert not (tmp_path / "a.txt").exists()
