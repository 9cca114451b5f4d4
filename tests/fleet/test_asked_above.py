"""An agent on a worker asks: its sender, who is at work on another machine, hears that first."""

import asyncio
from typing import Any

import pytest

from gencode import GenCode
from gencode.core.status import Status
from gencode.journal.store import TaskQuery
from tests.contracts.provider import Play
from tests.fleet.conftest import PATIENT
from tests.fleet.driving import Fleet
from tests.tasks.minds import MODEL, Told, answer, inquiry, say, thinking
from tests.tasks.words import heard, results, said

pytestmark = pytest.mark.needs("postgres")


def send(prompt: str) -> tuple[str, dict[str, Any]]:
    return "Task", {"subagent_type": "general-purpose", "prompt": prompt, "isolation": "process"}


def think(told: Told) -> Play:
    """The sender lets another agent work first, which needs the place of the one that waits."""
    if told.prompt == "work":
        return say("Worked.")
    if told.prompt == "choose":
        return say("I went on.") if told.replies else say("I ask.", inquiry("left", "right"))
    if not told.turns:
        return say("I begin.", send("choose"))
    if told.askers and "Worked." not in told.heard:
        return say("First this.", send("work"))
    if told.askers and not told.has_answered:
        return say("I know it.", answer(told, "right"))
    return say("It is done.")


async def test_its_sender_is_let_go_hears_it_and_answers_while_others_work_in_its_place(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {"database_url": fleet.url, "allow": ["Task(general-purpose)"]}
    async with asyncio.timeout(120), thinking(think, monkeypatch):
        fleet.start(1, "--concurrency", "1", *PATIENT)
        async with GenCode.open(fleet.folder, model=MODEL, settings=settings) as gen:
            outcome = await gen.ask("go").outcome()
            known = {each.created.prompt: each for each in await gen.history.tasks(TaskQuery())}
            told = await said(gen, known["choose"].id)
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "It is done.")
    assert (known["work"].result, known["choose"].result) == ("Worked.", "I went on.")
    assert results(told) == ["The agent main answered; the answer is the message after this one."]
    assert heard(told)[-1].text == f"[main (task {outcome.agent_id}) says]\nright"
