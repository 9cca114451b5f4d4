"""What an agent asks in a terminal is shown by `gen serve` in the same folder, and can be answered there."""

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from gencode import GenCode
from gencode.core.errors import UserMistake
from gencode.core.questions import Answer
from gencode.core.status import Status
from gencode.journal.owner import machine_of, new_owner
from gencode.questions.question_desk import QuestionDesk
from gencode.testing import call, says
from tests.interfaces.cli.running import script
from tests.interfaces.http.serving import gen_serve


async def test_the_page_of_another_process_answers_the_question_of_a_terminal(tmp_path: Path) -> None:
    model = script(tmp_path, main=[says("", call("Bash", command="touch x")), says("over")])
    person = QuestionDesk()
    async with (
        gen_serve(tmp_path, "--model", "offline") as server,
        GenCode.open(tmp_path, model=model, asker=person) as gen,
    ):
        talking = asyncio.ensure_future(gen.ask("go").outcome())
        told = await server.client.until("/api/questions", lambda each: each["questions"])
        [question] = told["questions"]
        assert (question["tool"], question["input"]) == ("Bash", {"command": "touch x"})
        assert (question["cwd"], question["place"]) == (str(tmp_path), machine_of(new_owner()))
        [waiting] = person.waiting()
        there = datetime.fromisoformat(question["since"]).timestamp()
        assert there == pytest.approx(waiting.since, abs=2)
        answer = await server.client.post(f"/api/questions/{question['number']}", {"allow": True})
        assert answer.status == 200
        assert (await talking).status is Status.COMPLETED
        assert not person.waiting()
    assert (tmp_path / "x").exists()


def inputs(told: Any) -> list[Any]:
    return [each["input"] for each in told["questions"]]


async def test_of_two_answers_at_once_one_counts_and_the_other_is_told(tmp_path: Path) -> None:
    names = [str(number) for number in range(6)]
    model = script(
        tmp_path, main=[*(says("", call("Bash", command=f"touch x{name}")) for name in names), says("over")]
    )
    person = QuestionDesk()
    allowed: dict[str, bool] = {}

    async def answered_here(answer: Answer) -> bool:
        try:
            await person.answer(person.waiting()[0].number, answer)
        except UserMistake:
            return False
        return True

    async with (
        gen_serve(tmp_path, "--model", "offline") as server,
        GenCode.open(tmp_path, model=model, asker=person) as gen,
    ):
        talking = asyncio.ensure_future(gen.ask("go").outcome())
        for name in names:
            asks = {"command": f"touch x{name}"}
            told = await server.client.until("/api/questions", lambda each, asks=asks: asks in inputs(each))
            number = told["questions"][inputs(told).index(asks)]["number"]
            there, here = await asyncio.gather(
                server.client.post(f"/api/questions/{number}", {"allow": True}),
                answered_here(Answer(False, why="no")),
            )
            assert (there.status, here) in [(200, False), (404, True)]
            allowed[name] = not here
        assert (await talking).status is Status.COMPLETED
    assert {name: (tmp_path / f"x{name}").exists() for name in names} == allowed
