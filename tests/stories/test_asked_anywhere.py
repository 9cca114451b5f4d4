"""Agents in processes of their own ask whoever is there, on one machine without any server."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.interfaces.cli.running import gen as command
from tests.stores.other_program import rows
from tests.waiting import until

from gencode import GenCode
from gencode.app import components
from gencode.core.questions import Answer, NobodyAvailable, Question
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.places import database
from gencode.questions.question_desk import QuestionDesk
from gencode.testing import call, says, scripted


def touch(name: str) -> dict[str, Any]:
    return {"name": "Bash", "input": {"command": f"touch {name}"}}


def script(folder: Path, *calls: dict[str, Any], main: Sequence[dict[str, Any]] = (), first: str = "") -> str:
    """A model whose agents say something, if they do, and make these calls, one in each turn."""
    begin = [{"text": first}] if first else []
    turns = [*begin, *({"calls": [call]} for call in calls), {"text": "done"}]
    path = folder / "script.json"
    path.write_text(json.dumps({"agents": {"main": [*main, {"text": "over"}], "*": turns}}))
    return f"scripted:{path}"


@asynccontextmanager
async def sitting(
    folder: Path, model: str, person: QuestionDesk | None, *, behind: bool = True, **settings: Any
) -> AsyncGenerator[GenCode]:
    """A GenCode where a person is asked, also by agents in the background when they are to be."""
    named = {"background_questions": behind, **settings}
    there = [(0 if person is None else 1,)]
    async with GenCode.open(folder, model=model, settings=named, asker=person) as gen:
        assert rows(database(), "SELECT count(*) FROM gen_presence") == there
        yield gen


async def sent(gen: GenCode) -> str:
    return (await gen.detach(TaskRequest("general-purpose", "do it"))).agent_id


async def heard(gen: GenCode, task: str) -> str:
    """What the tools of a task said, once it has ended."""
    assert (await gen.history.ended(task, 60)).status is Status.COMPLETED
    told = (await gen.show(task)).transcript
    return json.dumps([message for message in told or () if "results" in message])


class Saying:
    """A person who always says the same and remembers what they were asked."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[Question] = []
        self._answer = answer

    async def answer(self, question: Question) -> Answer:
        self.asked.append(question)
        return self._answer


async def test_a_detached_agent_asks_and_any_process_answers(tmp_path: Path) -> None:
    person = QuestionDesk()
    model = script(tmp_path, touch("x"))
    async with sitting(tmp_path, model, person) as gen:
        task = await sent(gen)
        await until(lambda: len(person.waiting()) == 1, "it is asked")
        [listed] = (await asyncio.to_thread(command, "task", "questions", "--json", cwd=tmp_path)).json[
            "questions"
        ]
        assert (listed["task"], listed["call"]["input"]) == (task, {"command": "touch x"})
        number = str(listed["number"])
        told = await asyncio.gather(
            *(asyncio.to_thread(command, "task", "answer", number, "yes", cwd=tmp_path) for _ in range(2))
        )
        assert sorted(each.code for each in told) == [0, 2]
        assert f"Question {number} was answered already, by " in "".join(each.err for each in told)
        await heard(gen, task)
        assert not person.waiting()
    assert (tmp_path / "x").exists()


async def test_an_agent_that_is_woken_asks_and_a_yes_counts_for_it_alone(tmp_path: Path) -> None:
    person = Saying(Answer(True, "session"))
    model = script(tmp_path, first="begun")
    async with sitting(tmp_path, model, QuestionDesk(person)) as gen:
        tasks = [await sent(gen) for _ in range(2)]
        for task in tasks:
            await heard(gen, task)
        script(tmp_path, touch("a"), touch("a"), first="begun")
        for task in tasks:
            assert (await gen.send(task, "and now?")).resumed
            await heard(gen, task)
    assert [(each.task, each.call.input) for each in person.asked] == [
        (task, {"command": "touch a"}) for task in tasks
    ]
    assert (tmp_path / "a").exists()


@pytest.mark.parametrize("there", [False, True])
async def test_nobody_is_asked_who_is_not_there_or_does_not_want_to_be(tmp_path: Path, there: bool) -> None:
    person = Saying(Answer(True))
    model = script(tmp_path, touch("never"))
    async with sitting(tmp_path, model, QuestionDesk(person) if there else None, behind=False) as gen:
        assert "nobody can approve it in this run" in await heard(gen, await sent(gen))
    assert (person.asked, (tmp_path / "never").exists()) == ([], False)


class Absent:
    """There is nobody."""

    async def ask(self, question: Question) -> Answer:
        raise NobodyAvailable


async def test_who_asks_and_finds_nobody_may_do_what_is_allowed_where_nobody_can_be_asked(
    tmp_path: Path,
) -> None:
    main = [
        says("", call("Task", subagent_type="general-purpose", prompt="x")),
        says("", call("Bash", command="touch x")),
    ]
    inquiry = call("AskUserQuestion", questions=[{"question": "Red?", "options": []}])
    main += [says("", inquiry), says("over")]
    async with scripted(tmp_path, asker=Absent(), main=main, others=[says("done")]) as gen:
        session = (await gen.ask("go").outcome()).agent_id
        [child] = await gen.tasks(session)
        told = json.dumps((await gen.show(session)).transcript)
    assert child.status is Status.COMPLETED
    assert told.count("Nobody is available to answer") == 1
    assert told.count("nobody can approve it in this run") == 1
    assert not (tmp_path / "x").exists()


async def test_who_waits_for_an_agent_is_asked_and_its_question_dies_with_its_process(tmp_path: Path) -> None:
    """The agent of the conversation is one that it waits for, so no setting is needed."""
    person = QuestionDesk()
    apart = {"subagent_type": "general-purpose", "prompt": "x", "isolation": "process"}
    model = script(tmp_path, touch("late"), main=[{"calls": [{"name": "Task", "input": apart}]}])
    async with sitting(tmp_path, model, person, behind=False, allow=["Task(general-purpose)"]) as gen:
        talking = asyncio.ensure_future(gen.ask("go").outcome())
        await until(lambda: len(person.waiting()) == 1, "it is asked")
        [waiting] = person.waiting()
        assert waiting.question.path == ("main", "general-purpose")
        [owner] = {
            each.owner for each in await components(gen).store.owned() if each.task == waiting.question.task
        }
        os.kill(int(owner.split("|")[2]), signal.SIGKILL)
        await until(lambda: not person.waiting(), "nobody asks it any more")
        assert list(await gen.questions.waiting("")) == []
        assert (await talking).status is Status.COMPLETED
    assert not (tmp_path / "late").exists()
