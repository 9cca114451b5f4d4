"""Whom a call is put to, and what becomes of one that a person declines or that cannot succeed."""

import os
from pathlib import Path
from typing import Any

import pytest

from gencode import GenCode
from gencode.core.messages import ToolMessage
from gencode.core.questions import Answer, Question
from gencode.providers.scripted import ScriptedProvider
from gencode.sandbox.choose_sandbox import best_sandbox
from gencode.stores.memory import MemoryStore
from gencode.testing import Overhearing, call, says


class Person:
    """Answers every question, and keeps it."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[Question] = []
        self._answer = answer

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        return self._answer


async def results(
    folder: Path, person: Person | None, *calls: dict[str, Any], mode: str = "default"
) -> list[str]:
    """What the model reads of calls that it makes one after the other."""
    turns = [says("", each) for each in calls]
    provider = Overhearing(ScriptedProvider.of({"main": [*turns, says("ok")]}))
    settings = {"permission_mode": mode}
    async with GenCode.open(
        folder, model=provider, store=MemoryStore(), asker=person, settings=settings
    ) as gen:
        await gen.ask("go").outcome()
    messages = provider.requests[-1].messages
    return [each.text for message in messages if isinstance(message, ToolMessage) for each in message.results]


async def test_nobody_is_asked_about_a_change_that_cannot_succeed(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    person = Person(Answer(True))
    edit = {"file_path": "a.txt", "old_string": "two", "new_string": "three"}
    unread, _, lost, unread_again = await results(
        tmp_path,
        person,
        call("Edit", **edit),
        call("Read", file_path="a.txt"),
        call("Edit", **edit),
        call("Write", file_path="a.txt", content="x"),
    )
    assert "was not read in this task" in unread
    assert "old_string is not in a.txt" in lost
    assert unread_again.startswith("Replaced a.txt")
    assert [each.call.name for each in person.asked] == ["Write"]


async def test_what_the_agent_may_not_know_is_left_to_the_person(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "outside").write_text("secret line\n")
    person = Person(Answer(False, why="use a copy, please"))
    edit = call("Edit", file_path=str(tmp_path / "outside"), old_string="secret lime", new_string="")
    (said,) = await results(work, person, edit)
    assert [each.call.name for each in person.asked] == ["Edit"]
    assert said.startswith("The user declined this call. They wrote: use a copy, please\n")
    assert "secret line" not in said


@pytest.mark.parametrize("mode", ["default", "dontAsk"])
async def test_a_command_that_asks_for_the_network_needs_a_person(tmp_path: Path, mode: str) -> None:
    if not best_sandbox().shares_network:
        pytest.skip("commands share no network here")
    person = Person(Answer(True))
    plain = call("Bash", command="readlink /proc/self/ns/net")
    wish = call("Bash", command="readlink /proc/self/ns/net", network="to install the dependencies")
    first, second, last = await results(tmp_path, person, plain, wish, plain, mode=mode)
    (question,) = person.asked
    assert question.call.input["network"] == "to install the dependencies"
    machine = os.readlink("/proc/self/ns/net")  # noqa: PTH115
    assert (first.strip() == machine, second.strip() == machine, last.strip() == machine) == (
        False,
        True,
        False,
    )
    (refused,) = await results(tmp_path, None, wish, mode=mode)
    assert (refused.startswith("Refused:"), "network" in refused) == (True, True)
