"""Questions in Postgres: one answer counts, none comes too late, and what nobody waits for is gone."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from msgspec.structs import replace

from gencode.core.errors import UserMistake
from gencode.core.events import TaskCreated, TaskStarted
from gencode.core.messages import ToolCall
from gencode.core.rules import Action, Decision
from gencode.runtime.asking import Answer, Question
from gencode.runtime.questions import Post, Presence, Unasked, kept_there
from tests.fleet.driving import until
from tests.postgres import Postgres

pytestmark = pytest.mark.needs("postgres")

OWNER = "worker"
ME = Presence("me", "/a", background=True)


@pytest.fixture
async def store(postgres: Postgres) -> AsyncGenerator[Any]:
    from gencode.stores.pg_fleet import FleetStore

    opened = await FleetStore.open(postgres.new_schema(), lease_seconds=5.0)
    yield opened
    await opened.close()


async def running(store: Any, **words: Any) -> str:
    created = TaskCreated(agent="tester", cwd="/a", background=True, **words)
    return (await store.create(created, OWNER, [TaskStarted()])).task


def about(task: str, *rules: str) -> Question:
    call = ToolCall("c1", "Bash", {"command": "make \0 \u2192"})
    return Question(task, "tester", call, Decision(Action.ASK, "It is asked."), ("main", "tester"), "", rules)


def post(question: Question, *, behind: bool = True, owner: str = OWNER) -> Post:
    return Post(question, owner, behind, 60.0)


async def numbers(store: Any, presence: Presence) -> list[int]:
    """What waits for a person, looked up anew."""
    await store.questions.here(presence, 60.0)
    store._ear.hear(presence.name)
    return [each.number for each in await store.questions.news(presence)]


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
    store._ear.hear(OWNER)
    assert await store.questions.answered(number, OWNER) == counted
    assert await store.questions.withdraw(number) == counted
    assert list(await store.questions.waiting("")) == []


async def test_a_question_is_put_only_where_somebody_is_there_for_it(store: Any) -> None:
    task = await running(store)
    child = await running(store, parent=task)
    for presence in (None, replace(ME, background=False), replace(ME, cwd="/b")):
        if presence is not None:
            await store.questions.here(presence, 60.0)
        with pytest.raises(Unasked, match="Nobody can be asked here"):
            await store.questions.put(post(about(child)))
        await store.questions.gone(ME.name)
    await store.questions.here(ME, 0.0)
    with pytest.raises(Unasked, match="Nobody can be asked here"):
        await store.questions.put(post(about(task)))
    led = replace(ME, name=OWNER, background=False)
    await store.questions.here(led, 60.0)
    number = await store.questions.put(post(about(child), behind=False))
    assert await numbers(store, led) == [number]
    assert await numbers(store, ME) == []


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


async def test_a_question_that_nobody_answers_is_a_no_and_too_long_ones_are_not_asked(store: Any) -> None:
    from gencode.delegation.far_asking import FarAsker

    task = await running(store)
    await store.questions.here(ME, 60.0)
    asker = FarAsker(store, store.questions, seconds=0.3)
    asker.owner = OWNER
    assert await asker.ask(about(task)) == Answer(False, why="Nobody answered within 0.3 s")
    assert list(await store.questions.waiting("")) == []
    long = replace(about(task), call=ToolCall("c1", "Bash", {"command": "x" * 400_000}))
    assert await asker.ask(long) == Answer(False, why="It is too long to be asked")
    shown = replace(about(task), preview="line\n" * 100_000)
    assert await asker.ask(shown) == Answer(False, why="Nobody answered within 0.3 s")
    assert asker.parked == 0


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        (Answer(True, "agent"), Answer(False, why="A yes to this can only stand for call")),
        (Answer(True, words=("x",)), Answer(False, why="0 answers in words are asked for, not 1")),
        (Answer(True, network=True), Answer(True, network=True)),
        (Answer(False, why="no"), Answer(False, why="no")),
    ],
)
async def test_an_answer_is_taken_at_once_and_says_no_more_than_was_asked(
    store: Any, said: Answer, counts: Answer
) -> None:
    from gencode.delegation.far_asking import FarAsker

    task = await running(store)
    await store.questions.here(ME, 60.0)
    asker = FarAsker(store, store.questions)
    asker.owner = OWNER
    asking = asyncio.ensure_future(asker.ask(about(task)))

    async def is_there() -> bool:
        return bool(await numbers(store, ME))

    await until(is_there, "it is asked")
    assert asker.parked == 1
    [number] = await numbers(store, ME)
    await store.questions.answer(number, said, "me")
    assert await asking == counts


def test_away_from_home_a_yes_reaches_no_further_than_the_agent_and_those_below_it() -> None:
    reaches = ("call", "agent", "subtree", "session", "always")
    kept = [kept_there(Answer(True, reach)).reach for reach in reaches]
    assert kept == ["call", "agent", "subtree", "subtree", "subtree"]
