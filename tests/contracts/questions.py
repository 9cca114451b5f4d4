"""Promises of the `QuestionStore` port: one answer counts, none comes too late, nothing waits for nobody."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from gencode.core.errors import UserMistake
from gencode.core.events import TaskCreated, TaskStarted
from gencode.core.messages import ToolCall
from gencode.core.questions import (
    ALL,
    Answer,
    CannotAsk,
    NewQuestion,
    NobodyAvailable,
    Presence,
    Question,
    kept_there,
    silence,
)
from gencode.core.rules import Action, DecidedBy, Decision
from gencode.questions.question_desk import Audience, QuestionDesk, who_answers
from gencode.stores.question_table import NOT_OURS, TOO_LONG
from tests.waiting import until

OWNER = "worker"
TERMINAL = "terminal"
LIFETIME = 600.0
"""So long a question waits here, however slow the machine is."""
ME = Presence("me", "/a", background=True)


async def running(store: Any, owner: str = OWNER, **words: Any) -> str:
    usual: dict[str, Any] = {"agent": "tester", "cwd": "/a", "background": True}
    created = TaskCreated(**{**usual, **words})
    return (await store.create(created, owner, [TaskStarted()])).task


def about(task: str, *rules: str) -> Question:
    call = ToolCall("c1", "Bash", {"command": "make \0 \u2192"})
    return Question(task, "tester", call, Decision(Action.ASK, "It is asked."), ("main", "tester"), "", rules)


def post(question: Question, *, behind: bool = True, owner: str = OWNER, home: bool = False) -> NewQuestion:
    return NewQuestion(question, owner, behind, LIFETIME, home)


def name_of_one_that_died() -> str:
    code = "from gencode.journal.owner import new_owner; print(new_owner())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout[
        :-1
    ]


async def numbers(store: Any, presence: Presence) -> list[int]:
    """What waits for a person, looked up anew."""
    await store.questions.here(presence, 60.0)
    return [each.number for each in await store.questions.news(presence)]


@asynccontextmanager
async def asking(store: Any, seconds: float = 60.0) -> AsyncGenerator[QuestionDesk]:
    """The desk of a process in which nobody is."""
    desk = QuestionDesk(here=False, seconds=seconds)
    async with desk.open(store, OWNER):
        yield desk


async def test_of_many_answers_at_once_one_counts_and_the_others_are_told(store: Any) -> None:
    question = about(await running(store), "Bash(make)")
    await store.questions.here(ME, 60.0)
    number = await store.questions.put(post(question))
    [waiting] = await store.questions.waiting("/a")
    assert (waiting.number, waiting.question) == (number, question)
    answers = [Answer(True, why=str(place)) for place in range(8)]
    told = await asyncio.gather(
        *(store.questions.answer(number, each, f"person {each.why}") for each in answers),
        return_exceptions=True,
    )
    [counted] = [each for each, trouble in zip(answers, told, strict=True) if trouble is None]
    refused = {str(trouble) for trouble in told if trouble is not None}
    assert refused == {f"Question {number} was answered already, by person {counted.why}."}
    assert await store.questions.answers([number, number + 1]) == {number: counted}
    assert await store.questions.withdraw(number) == counted
    assert list(await store.questions.waiting("")) == []


async def test_an_answer_never_meets_a_question_that_came_later(store: Any) -> None:
    task = await running(store)
    await store.questions.here(ME, 60.0)
    first = await store.questions.put(post(about(task)))
    assert await store.questions.withdraw(first) is None
    second = await store.questions.put(post(about(task)))
    assert second != first
    with pytest.raises(UserMistake, match="is not pending any more"):
        await store.questions.answer(first, Answer(True), "me")
    assert await store.questions.answers([first, second]) == {second: None}
    assert await numbers(store, ME) == [second]


async def test_a_question_is_put_only_where_somebody_is_there_for_it(store: Any) -> None:
    task = await running(store, TERMINAL)
    child = await running(store, parent=task)
    for presence in (None, replace(ME, background=False), replace(ME, cwd="/b")):
        if presence is not None:
            await store.questions.here(presence, 60.0)
        with pytest.raises(NobodyAvailable, match="Nobody can be asked here"):
            await store.questions.put(post(about(child)))
        await store.questions.gone(ME.name)
    await store.questions.here(ME, 0.0)
    with pytest.raises(NobodyAvailable, match="Nobody can be asked here"):
        await store.questions.put(post(about(child)))
    led = replace(ME, name=TERMINAL, background=False)
    await store.questions.here(led, 60.0)
    number = await store.questions.put(post(about(child), behind=False))
    assert await numbers(store, led) == [number]
    assert await numbers(store, ME) == []


async def test_what_is_asked_at_home_is_shown_to_those_who_follow_the_conversation(store: Any) -> None:
    talk = await running(store, TERMINAL, background=False, conversation=True)
    child = await running(store, TERMINAL, parent=talk, background=False)
    ask = await store.questions.put(post(about(child), behind=False, owner=TERMINAL, home=True))
    behind = await store.questions.put(post(about(child), owner=TERMINAL, home=True))
    seen = {
        "itself": await numbers(store, replace(ME, name=TERMINAL, follows=talk)),
        "nothing": await numbers(store, ME),
        "another": await numbers(store, replace(ME, follows="00000000")),
        "it": await numbers(store, replace(ME, follows=talk)),
        "undisturbed": await numbers(store, replace(ME, follows=talk, background=False)),
        "all": await numbers(store, replace(ME, follows=ALL)),
        "all of another folder": await numbers(store, replace(ME, cwd="/b", follows=ALL)),
        "all of every folder": await numbers(store, replace(ME, cwd="", follows=ALL)),
    }
    assert seen == {
        **{"itself": [], "nothing": [], "another": [], "it": [ask, behind], "undisturbed": [ask]},
        **{"all": [ask, behind], "all of another folder": [], "all of every folder": [ask, behind]},
    }


async def test_a_question_is_gone_with_the_run_that_asked_it(store: Any) -> None:
    task = await running(store)
    await store.questions.here(ME, 60.0)
    with pytest.raises(CannotAsk, match=NOT_OURS):
        await store.questions.put(post(about(task), owner="a worker that was fenced"))
    number = await store.questions.put(post(about(task)))
    assert await numbers(store, ME) == [number]
    await store.take(task, "another", instead_of=OWNER)
    assert await numbers(store, ME) == []
    with pytest.raises(UserMistake, match="is not pending any more"):
        await store.questions.answer(number, Answer(True), "me")


async def test_a_question_is_gone_at_once_with_a_process_that_died(store: Any) -> None:
    dead = name_of_one_that_died()
    await store.questions.here(ME, 60.0)
    number = await store.questions.put(post(about(await running(store, dead)), owner=dead))
    assert (await numbers(store, ME), list(await store.questions.waiting(""))) == ([], [])
    with pytest.raises(UserMistake, match="is not pending any more"):
        await store.questions.answer(number, Answer(True), "me")


async def test_a_question_that_nobody_answers_is_a_no_and_too_long_ones_are_not_asked(store: Any) -> None:
    task = await running(store)
    await store.questions.here(ME, 60.0)
    async with asking(store, 0.3) as desk:
        assert await desk.ask(about(task)) == silence(0.3)
        assert list(await store.questions.waiting("")) == []
        long = replace(about(task), call=ToolCall("c1", "Bash", {"command": "x" * 400_000}))
        assert await desk.ask(long) == unasked(TOO_LONG)
        shown = replace(about(task), preview="line\n" * 100_000)
        assert await desk.ask(shown) == silence(0.3)
        await store.questions.gone(ME.name)
        with pytest.raises(NobodyAvailable):
            await desk.ask(about(task))
        assert desk.parked == 0


def unasked(why: str) -> Answer:
    """What stands for an answer that nobody could give."""
    return Answer(False, why=why, by=DecidedBy.NOBODY)


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        (Answer(True, "agent"), unasked("This can only be approved for: call")),
        (
            Answer(True, words=("x",)),
            unasked("This question takes an approval, not an answer in words"),
        ),
        (Answer(True, network=True), Answer(True, network=True)),
        (Answer(False, why="no"), Answer(False, why="no")),
    ],
)
async def test_an_answer_is_taken_at_once_and_says_no_more_than_was_asked(
    store: Any, said: Answer, counts: Answer
) -> None:
    task = await running(store)
    await store.questions.here(ME, 60.0)
    async with asking(store) as desk:
        asked = asyncio.ensure_future(desk.ask(about(task)))

        async def is_there() -> bool:
            return bool(await numbers(store, ME))

        await until(is_there, "it is asked")
        assert desk.parked == 1
        [number] = await numbers(store, ME)
        await store.questions.answer(number, said, "me")
        assert await asked == counts


async def test_who_asks_elsewhere_and_loses_the_question_is_told_that_nobody_answered(store: Any) -> None:
    task = await running(store)
    await store.questions.here(ME, 60.0)
    async with asking(store) as desk:
        asked = asyncio.ensure_future(desk.ask(about(task)))

        async def is_there() -> bool:
            return bool(await numbers(store, ME))

        await until(is_there, "it is asked")
        await store.questions.withdraw((await numbers(store, ME))[0])
        assert await asked == unasked("The question was lost")


@asynccontextmanager
async def shared(
    store: Any, desk: QuestionDesk, *rules: str
) -> "AsyncGenerator[tuple[asyncio.Task[Answer], int]]":
    """A question that is asked where somebody is, and is a row by now."""
    async with desk.open(store, TERMINAL):
        task = await running(store, TERMINAL, background=False)
        asked = asyncio.get_running_loop().create_task(desk.ask(about(task, *rules)))

        async def lies_there() -> bool:
            return bool(await store.questions.waiting("/a"))

        await until(lies_there, "it is written down")
        [waiting] = await store.questions.waiting("/a")
        assert [each.question.task for each in desk.waiting()] == [task]
        yield asked, waiting.number


@pytest.mark.parametrize("seconds", [None, 600.0])
async def test_a_question_is_shown_with_its_folder_and_the_time_that_it_really_waits(
    store: Any, seconds: float | None
) -> None:
    async with shared(store, QuestionDesk(seconds=seconds)) as (asked, number):
        [waiting] = await store.questions.waiting("")
        where = (waiting.number, waiting.folder, waiting.place, waiting.background)
        assert where == (number, "/a", TERMINAL, False)
        left = waiting.left
        assert left is None if seconds is None else 0 < left <= seconds
        asked.cancel()
        await asyncio.wait([asked])


async def test_what_is_answered_here_is_not_asked_elsewhere_any_more(store: Any) -> None:
    desk = QuestionDesk()
    async with shared(store, desk, "Bash(make)") as (asked, number):
        await desk.answer(desk.waiting()[0].number, Answer(True, "session"))
        assert await asked == Answer(True, "session")
        assert list(await store.questions.waiting("")) == []
        with pytest.raises(UserMistake, match=f"was answered already, by {who_answers()}"):
            await store.questions.answer(number, Answer(False), "me")


async def test_what_is_answered_elsewhere_is_not_asked_here_any_more_and_reaches_less(store: Any) -> None:
    desk = QuestionDesk()
    async with shared(store, desk, "Bash(make)") as (asked, number):
        [waiting] = desk.waiting()
        await store.questions.answer(number, Answer(True, "session"), "me")
        assert await asked == Answer(True, "subtree")
        assert list(desk.waiting()) == []
    about = waiting.question
    other = replace(about.call, input={"command": "make something else"})
    known = [await store.questions.who(about.task, call) for call in (about.call, other)]
    assert known == ["me", ""]


async def test_of_an_answer_here_and_one_elsewhere_the_first_counts_and_the_other_is_told_whose(
    store: Any,
) -> None:
    task = await running(store, TERMINAL, background=False)
    numbers = [
        await store.questions.put(post(about(task), behind=False, owner=TERMINAL, home=True))
        for _ in range(2)
    ]
    yes, no = Answer(True), Answer(False, why="no")
    assert await store.questions.settle(numbers[0], no, "here") is None
    with pytest.raises(UserMistake, match="was answered already, by here"):
        await store.questions.answer(numbers[0], yes, "me")
    await store.questions.answer(numbers[1], yes, "me")
    assert await store.questions.settle(numbers[1], no, "here") == yes
    assert await store.questions.settle(numbers[1] + 1, no, "here") is None
    assert await store.questions.who(task, about(task).call) == "me"


async def test_who_answers_where_the_task_is_not_run_any_more_is_told_so(store: Any) -> None:
    late: list[str] = []
    desk = QuestionDesk(late=late.append)
    async with shared(store, desk) as (asked, _):
        [waiting] = desk.waiting()
        await store.take(waiting.question.task, "another", instead_of=TERMINAL)
        with pytest.raises(UserMistake, match="its agent has ended: this answer has no effect") as told:
            await desk.answer(waiting.number, Answer(True))
        assert late == [str(told.value)]
        assert await asked == unasked(NOT_OURS)


async def test_an_answer_from_elsewhere_that_says_too_much_leaves_the_question_to_the_person_here(
    store: Any,
) -> None:
    desk = QuestionDesk()
    async with shared(store, desk) as (asked, number):
        await store.questions.answer(number, Answer(True, "always"), "me")
        assert not (await asyncio.wait([asked], timeout=0.3))[0]
        [waiting] = desk.waiting()
        await desk.answer(waiting.number, Answer(False, why="no"))
        assert await asked == Answer(False, why="no")


async def test_a_question_that_is_withdrawn_here_is_withdrawn_elsewhere(store: Any) -> None:
    desk = QuestionDesk()
    async with shared(store, desk) as (asked, _):
        asked.cancel()
        await asyncio.wait([asked])
    assert list(await store.questions.waiting("")) == []
    assert (list(desk.waiting()), asked.cancelled()) == ([], True)


async def test_who_says_nothing_has_not_answered_for_the_others(store: Any) -> None:
    talk = await running(store, TERMINAL, background=False, conversation=True)
    number = await store.questions.put(post(about(talk), behind=False, owner=TERMINAL, home=True))
    asked: list[int] = []
    audience = Audience(follows=lambda: talk)
    silent = QuestionDesk(audience=audience, seconds=0.05, changed=lambda waiting: asked.append(len(waiting)))
    async with silent.open(store, ME.name), silent.attend("/a", background=True):
        await until(lambda: asked == [1, 0], "it was shown and is not any more")
    assert [each.number for each in await store.questions.waiting("")] == [number]


async def test_an_answer_that_is_given_for_another_process_is_not_lost_when_this_one_leaves(
    store: Any,
) -> None:
    await store.questions.here(ME, 60.0)
    talk = await running(store, TERMINAL, background=False, conversation=True)
    number = await store.questions.put(post(about(talk), behind=False, owner=TERMINAL, home=True))
    desk = QuestionDesk(audience=Audience(follows=lambda: talk))
    async with desk.open(store, ME.name):
        async with desk.attend("/a", background=True):
            await until(lambda: len(desk.waiting()) == 1, "it is shown")
            answering = asyncio.ensure_future(desk.answer(desk.waiting()[0].number, Answer(True)))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        await answering
    assert await store.questions.answers([number]) == {number: Answer(True)}


def test_away_from_home_a_yes_reaches_no_further_than_the_agent_and_those_below_it() -> None:
    reaches = ("call", "agent", "subtree", "session", "always")
    kept = [kept_there(Answer(True, reach)).reach for reach in reaches]
    assert kept == ["call", "agent", "subtree", "subtree", "subtree"]
