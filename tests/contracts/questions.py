"""Promises of the `QuestionBox` port: one answer counts, none comes too late, nothing waits for nobody."""

import asyncio
import subprocess
import sys
from typing import Any

import pytest
from msgspec.structs import replace

from gencode.core.errors import UserMistake
from gencode.core.events import TaskCreated, TaskStarted
from gencode.core.messages import ToolCall
from gencode.core.rules import Action, DecidedBy, Decision
from gencode.delegation.far_asking import FarAsker, FarQuestions, who_answers
from gencode.runtime.asking import Answer, NobodyThere, Question, Unasked
from gencode.runtime.broker import Broker, silence
from gencode.runtime.questions import ALL, Post, Presence
from tests.waiting import until

OWNER = "worker"
TERMINAL = "terminal"
ME = Presence("me", "/a", background=True)


async def running(store: Any, owner: str = OWNER, **words: Any) -> str:
    usual: dict[str, Any] = {"agent": "tester", "cwd": "/a", "background": True}
    created = TaskCreated(**{**usual, **words})
    return (await store.create(created, owner, [TaskStarted()])).task


def about(task: str, *rules: str) -> Question:
    call = ToolCall("c1", "Bash", {"command": "make \0 \u2192"})
    return Question(task, "tester", call, Decision(Action.ASK, "It is asked."), ("main", "tester"), "", rules)


def post(question: Question, *, behind: bool = True, owner: str = OWNER, home: bool = False) -> Post:
    return Post(question, owner, behind, 60.0, home)


def name_of_one_that_died() -> str:
    code = "from gencode.runtime.owner import new_owner; print(new_owner())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout[
        :-1
    ]


async def numbers(store: Any, presence: Presence) -> list[int]:
    """What waits for a person, looked up anew."""
    await store.questions.here(presence, 60.0)
    if (ear := getattr(store, "_ear", None)) is not None:
        ear.hear(presence.name)
    found = await store.questions.news(presence)
    assert found is not None
    return [each.number for each in found]


def asking(store: Any, seconds: float = 60.0) -> FarAsker:
    asker = FarAsker(store, store.questions, seconds)
    asker.owner = OWNER
    return asker


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
    if (ear := getattr(store, "_ear", None)) is not None:
        ear.hear(OWNER)
    assert await store.questions.answered(number, OWNER) == counted
    assert await store.questions.withdraw(number) == counted
    assert list(await store.questions.waiting("")) == []


async def test_an_answer_never_meets_a_question_that_came_later(store: Any) -> None:
    task = await running(store)
    await store.questions.here(ME, 60.0)
    first = await store.questions.put(post(about(task)))
    assert await store.questions.withdraw(first) is None
    second = await store.questions.put(post(about(task)))
    assert second != first
    with pytest.raises(UserMistake, match="nobody asks it any more"):
        await store.questions.answer(first, Answer(True), "me")
    with pytest.raises(Unasked, match="The question was lost"):
        await store.questions.answered(first, OWNER)
    assert await numbers(store, ME) == [second]


async def test_a_question_is_put_only_where_somebody_is_there_for_it(store: Any) -> None:
    task = await running(store, TERMINAL)
    child = await running(store, parent=task)
    for presence in (None, replace(ME, background=False), replace(ME, cwd="/b")):
        if presence is not None:
            await store.questions.here(presence, 60.0)
        with pytest.raises(NobodyThere, match="Nobody can be asked here"):
            await store.questions.put(post(about(child)))
        await store.questions.gone(ME.name)
    await store.questions.here(ME, 0.0)
    with pytest.raises(NobodyThere, match="Nobody can be asked here"):
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
    with pytest.raises(Unasked, match="not run here any more"):
        await store.questions.put(post(about(task), owner="a worker that was fenced"))
    number = await store.questions.put(post(about(task)))
    assert await numbers(store, ME) == [number]
    await store.take(task, "another", instead_of=OWNER)
    assert await numbers(store, ME) == []
    with pytest.raises(UserMistake, match="nobody asks it any more"):
        await store.questions.answer(number, Answer(True), "me")


async def test_a_question_is_gone_at_once_with_a_process_that_died(store: Any) -> None:
    dead = name_of_one_that_died()
    await store.questions.here(ME, 60.0)
    number = await store.questions.put(post(about(await running(store, dead)), owner=dead))
    assert (await numbers(store, ME), list(await store.questions.waiting(""))) == ([], [])
    with pytest.raises(UserMistake, match="nobody asks it any more"):
        await store.questions.answer(number, Answer(True), "me")


async def test_a_question_that_nobody_answers_is_a_no_and_too_long_ones_are_not_asked(store: Any) -> None:
    task = await running(store)
    await store.questions.here(ME, 60.0)
    asker = asking(store, 0.3)
    assert await asker.ask(about(task)) == silence(0.3)
    assert list(await store.questions.waiting("")) == []
    long = replace(about(task), call=ToolCall("c1", "Bash", {"command": "x" * 400_000}))
    assert await asker.ask(long) == unasked("It is too long to be asked")
    shown = replace(about(task), preview="line\n" * 100_000)
    assert await asker.ask(shown) == silence(0.3)
    await store.questions.gone(ME.name)
    with pytest.raises(NobodyThere):
        await asker.ask(about(task))
    assert asker.parked == 0


def unasked(why: str) -> Answer:
    """What stands for an answer that nobody could give."""
    return Answer(False, why=why, by=DecidedBy.NOBODY)


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        (Answer(True, "agent"), unasked("A yes to this can only stand for call")),
        (Answer(True, words=("x",)), unasked("A yes or a no is asked for, and no answer in words")),
        (Answer(True, network=True), Answer(True, network=True)),
        (Answer(False, why="no"), Answer(False, why="no")),
    ],
)
async def test_an_answer_is_taken_at_once_and_says_no_more_than_was_asked(
    store: Any, said: Answer, counts: Answer
) -> None:
    task = await running(store)
    await store.questions.here(ME, 60.0)
    asker = asking(store)
    asked = asyncio.ensure_future(asker.ask(about(task)))

    async def is_there() -> bool:
        return bool(await numbers(store, ME))

    await until(is_there, "it is asked")
    assert asker.parked == 1
    [number] = await numbers(store, ME)
    await store.questions.answer(number, said, "me")
    assert await asked == counts


async def shared(store: Any, broker: Broker, *rules: str) -> "tuple[asyncio.Task[Answer], int]":
    """A question that is asked at home and lies in the database by now."""
    from gencode.delegation.shared_asking import SharedAsker

    asker = SharedAsker(broker)
    asker.open(store, store.questions, TERMINAL)
    task = await running(store, TERMINAL, background=False)
    asked = asyncio.get_running_loop().create_task(asker.ask(about(task, *rules)))

    async def lies_there() -> bool:
        return bool(await store.questions.waiting("/a"))

    await until(lies_there, "it is laid down")
    [waiting] = await store.questions.waiting("/a")
    assert [each.question.task for each in broker.waiting()] == [task]
    return asked, waiting.number


@pytest.mark.parametrize("seconds", [None, 600.0])
async def test_a_question_is_shown_with_its_folder_and_the_time_that_it_really_waits(
    store: Any, seconds: float | None
) -> None:
    asked, number = await shared(store, Broker(seconds=seconds))
    [waiting] = await store.questions.waiting("")
    assert (waiting.number, waiting.folder, waiting.place, waiting.background) == (
        number,
        "/a",
        TERMINAL,
        False,
    )
    left = waiting.left
    assert left is None if seconds is None else 0 < left <= seconds
    asked.cancel()
    await asyncio.wait([asked])


async def test_what_is_answered_here_is_not_asked_elsewhere_any_more(store: Any) -> None:
    broker = Broker()
    asked, number = await shared(store, broker, "Bash(make)")
    broker.answer(broker.waiting()[0].number, Answer(True, "session"))
    assert await asked == Answer(True, "session")
    assert list(await store.questions.waiting("")) == []
    with pytest.raises(UserMistake, match=f"was answered already, by {who_answers()}"):
        await store.questions.answer(number, Answer(False), "me")


async def test_what_is_answered_elsewhere_is_not_asked_here_any_more_and_reaches_less(store: Any) -> None:
    broker = Broker()
    asked, number = await shared(store, broker, "Bash(make)")
    [waiting] = broker.waiting()
    await store.questions.answer(number, Answer(True, "session"), "me")
    assert await asked == Answer(True, "subtree")
    assert list(broker.waiting()) == []
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
    broker = Broker(late=late.append)
    asked, _ = await shared(store, broker)
    [waiting] = broker.waiting()
    await store.take(waiting.question.task, "another", instead_of=TERMINAL)
    with pytest.raises(UserMistake, match="its agent has ended: this answer does not count") as told:
        await broker.answered(waiting.number, Answer(True))
    assert late == [str(told.value)]
    assert await asked == unasked("The task is not run here any more")


async def test_an_answer_from_elsewhere_that_says_too_much_leaves_the_question_to_the_person_here(
    store: Any,
) -> None:
    broker = Broker()
    asked, number = await shared(store, broker)
    await store.questions.answer(number, Answer(True, "always"), "me")
    while not (await asyncio.wait([asked], timeout=0.3))[0]:
        [waiting] = broker.waiting()
        broker.answer(waiting.number, Answer(False, why="no"))
    assert await asked == Answer(False, why="no")


async def test_a_question_that_is_withdrawn_here_is_withdrawn_elsewhere(store: Any) -> None:
    broker = Broker()
    asked, _ = await shared(store, broker)
    asked.cancel()

    async def is_gone() -> bool:
        return not await store.questions.waiting("")

    await until(is_gone, "nobody is asked any more")
    assert (list(broker.waiting()), asked.cancelled()) == ([], True)


async def test_who_says_nothing_has_not_answered_for_the_others(store: Any) -> None:
    talk = await running(store, TERMINAL, background=False, conversation=True)
    number = await store.questions.put(post(about(talk), behind=False, owner=TERMINAL, home=True))
    asked: list[int] = []
    silent = Broker(seconds=0.05, heard=lambda waiting: asked.append(len(waiting)))
    bringing = asyncio.ensure_future(
        FarQuestions(store.questions, silent, lambda: replace(ME, follows=talk)).run()
    )
    await until(lambda: asked == [1, 0], "it was shown and is not any more")
    bringing.cancel()
    await asyncio.wait([bringing])
    assert [each.number for each in await store.questions.waiting("")] == [number]
