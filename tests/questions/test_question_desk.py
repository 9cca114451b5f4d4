"""Questions wait in one place: in order, one at a time for a person, answered from anywhere, in time."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Generic, TypeVar

import pytest
from msgspec.structs import replace

from gencode.core.errors import StoreUnavailable, UserMistake
from gencode.core.messages import ToolCall
from gencode.core.questions import Answer, AnswerTimeout, NewQuestion, Presence, Question, silence
from gencode.core.rules import Action, Decision
from gencode.journal.store import Store
from gencode.questions import question_desk
from gencode.questions.question_desk import TYPING_SECONDS, PendingQuestion, Person, QuestionDesk
from gencode.stores.memory import MemoryStore
from gencode.stores.question_table import QuestionTable
from tests.contracts.questions import OWNER, about, running
from tests.waiting import until

Desks = Callable[..., Awaitable[QuestionDesk]]
Rows = TypeVar("Rows", bound=QuestionTable)
YES = Answer(True)
NO = Answer(False, why="not now")


def question(text: str, *rules: str) -> Question:
    call = ToolCall(text, "Bash", {"command": text})
    return Question("0a0a0a0a", "main", call, Decision(Action.ASK, "it is asked"), ("main",), rules=rules)


@pytest.fixture
async def desks() -> AsyncGenerator[Desks]:
    """Makes desks that are open on a store."""
    async with AsyncExitStack() as stack:

        async def opened(
            person: Person | None = None, *, store: Store | None = None, **words: Any
        ) -> QuestionDesk:
            desk = QuestionDesk(person, **words)
            await stack.enter_async_context(desk.open(store or MemoryStore(), OWNER))
            return desk

        yield opened


class Slow:
    """A person who answers when the test lets them, and remembers what was on the screen."""

    def __init__(self) -> None:
        self.screen: list[str] = []
        self.most_at_once = 0
        self._at_once = 0
        self._keys: asyncio.Queue[Answer] = asyncio.Queue()

    def press(self, answer: Answer) -> None:
        self._keys.put_nowait(answer)

    async def answer(self, question: Question) -> Answer:
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        self.screen.append(question.call.id)
        try:
            return await self._keys.get()
        finally:
            self._at_once -= 1


async def turns(many: int = 5) -> None:
    for _ in range(many):
        await asyncio.sleep(0)


def numbers(desk: QuestionDesk) -> list[int]:
    return [each.number for each in desk.waiting()]


async def test_a_person_is_shown_one_question_at_a_time_in_order(desks: Desks) -> None:
    person = Slow()
    desk = await desks(person)
    asked = [asyncio.create_task(desk.ask(question(name))) for name in ("one", "two", "three")]
    await turns()
    assert person.screen == ["one"]
    assert [each.question.call.id for each in desk.waiting()] == ["one", "two", "three"]
    for answer in (YES, NO, YES):
        person.press(answer)
    assert await asyncio.gather(*asked) == [YES, NO, YES]
    assert (person.screen, person.most_at_once, desk.waiting()) == (["one", "two", "three"], 1, [])


async def test_an_answer_from_elsewhere_takes_the_question_off_the_screen(desks: Desks) -> None:
    person = Slow()
    desk = await desks(person)
    first = asyncio.create_task(desk.ask(question("one")))
    second = asyncio.create_task(desk.ask(question("two")))
    await turns()
    await desk.answer(numbers(desk)[0], NO)
    assert await first == NO
    await turns()
    assert person.screen == ["one", "two"]
    person.press(YES)
    assert await second == YES


async def test_a_question_that_waits_behind_another_may_be_answered_too(desks: Desks) -> None:
    person = Slow()
    desk = await desks(person)
    first = asyncio.create_task(desk.ask(question("one")))
    second = asyncio.create_task(desk.ask(question("two")))
    await turns()
    await desk.answer(numbers(desk)[1], NO)
    person.press(YES)
    assert (await first, await second, person.screen) == (YES, NO, ["one"])


async def test_nobody_waits_for_ever(desks: Desks) -> None:
    person = Slow()
    desk = await desks(person, seconds=0.01)
    assert await desk.ask(question("one")) == silence(0.01)
    assert await (await desks(seconds=0.01)).ask(question("one")) == silence(0.01)
    assert desk.waiting() == []


async def test_a_question_says_itself_how_long_it_waits_also_behind_others(desks: Desks) -> None:
    desk = await desks(Slow(), seconds=600.0)
    first = asyncio.create_task(desk.ask(question("one")))
    await turns()
    behind = replace(question("two"), patience=AnswerTimeout(600.0, 0.01))
    assert await desk.ask(behind) == silence(0.01)
    await desk.answer(numbers(desk)[0], YES)
    assert await first == YES
    alone = replace(question("three"), patience=AnswerTimeout(0.01))
    assert await desk.ask(alone) == silence(0.01)


@pytest.mark.parametrize(("most", "longest"), [(None, TYPING_SECONDS), (10.0, 10.0)])
async def test_who_types_an_answer_is_given_the_time_that_the_agent_has(
    desks: Desks, most: float | None, longest: float
) -> None:
    shown: list[Question] = []

    class Reader(Slow):
        async def answer(self, question: Question) -> Answer:
            shown.append(question)
            return await super().answer(question)

    desk = await desks(Reader())
    asked = asyncio.create_task(desk.ask(replace(question("one"), patience=AnswerTimeout(5.0, most))))
    await turns()
    longer = desk.stay(shown[0])
    assert shown[0].until is not None and longer.until is not None
    assert longest - 5.0 - 1.0 < longer.until - shown[0].until < longest - 5.0 + 1.0
    assert desk.waiting()[0].question == longer
    asked.cancel()
    await asyncio.wait([asked])
    assert desk.stay(longer) == longer


async def test_a_question_whose_agent_was_stopped_is_withdrawn(desks: Desks) -> None:
    person = Slow()
    desk = await desks(person)
    asked = asyncio.create_task(desk.ask(question("one")))
    await turns()
    asked.cancel()
    await asyncio.wait([asked])
    assert (asked.cancelled(), desk.waiting()) == (True, [])
    person.press(YES)
    assert await desk.ask(question("two")) == YES


async def test_every_change_is_heard(desks: Desks) -> None:
    heard: list[list[int]] = []

    def tell(waiting: Sequence[PendingQuestion]) -> None:
        heard.append([each.number for each in waiting])

    desk = await desks(changed=tell)
    began = time.time()
    asked = asyncio.create_task(desk.ask(question("one")))
    await turns()
    [number] = numbers(desk)
    [waiting] = desk.waiting()
    assert waiting == PendingQuestion(number, question("one"), waiting.since)
    assert began <= waiting.since <= time.time()
    await desk.answer(number, YES)
    assert (await asked, heard) == (YES, [[number], []])


async def test_an_answer_for_always_is_written_down_and_others_are_not(desks: Desks) -> None:
    written: list[str] = []
    person = Slow()
    desk = await desks(person, always=written.append)
    for answer in (Answer(True, "always"), Answer(True, "session"), Answer(False, "always")):
        person.press(answer)
        assert await desk.ask(question("make", "Bash(make)")) == answer
    assert written == ["Bash(make)"]


async def test_answering_what_does_not_wait_names_what_does(desks: Desks) -> None:
    desk = await desks()
    asked = asyncio.create_task(desk.ask(question("one")))
    await turns()
    [number] = numbers(desk)
    with pytest.raises(UserMistake, match=f"No question -1 is waiting; waiting are: {number}"):
        await desk.answer(-1, YES)
    await desk.answer(number, YES)
    with pytest.raises(UserMistake, match=f"No question {number} is waiting"):
        await desk.answer(number, NO)
    assert await asked == YES


async def test_a_number_of_another_process_meets_no_question(desks: Desks) -> None:
    """Many desks_ stand for many starts of a server: no number comes twice, and none is small."""
    desks_ = [await desks() for _ in range(50)]
    asked = [asyncio.create_task(each.ask(question(name))) for each in desks_ for name in ("one", "two")]
    await turns()
    found = [number for each in desks_ for number in numbers(each)]
    for each in desks_:
        for number in numbers(each):
            await each.answer(number, NO)
    await asyncio.gather(*asked)
    assert (len(set(found)), min(found) > len(found), max(found) < 2**53) == (100, True, True)


class Odd(MemoryStore, Generic[Rows]):
    """A store with questions of its own kind."""

    def __init__(self, kind: type[Rows]) -> None:
        super().__init__()
        self.odd = kind(self._database)

    @property
    def questions(self) -> QuestionTable:
        return self.odd


class Hesitant(QuestionTable):
    """Questions of a store that never says whether an answer was the first one."""

    async def settle(self, number: int, answer: Answer, by: str) -> Answer | None:
        return await asyncio.get_running_loop().create_future()


async def test_who_answers_what_is_withdrawn_meanwhile_is_told(desks: Desks) -> None:
    store = Odd(Hesitant)
    hesitant = store.odd
    desk = await desks(store=store)
    task = await running(store, OWNER)
    asked = asyncio.create_task(desk.ask(about(task)))

    async def is_written() -> bool:
        return bool(await hesitant.waiting(""))

    await until(is_written, "it is written down")
    answering = asyncio.create_task(desk.answer(numbers(desk)[0], YES))
    await turns()
    asked.cancel()
    with pytest.raises(UserMistake, match="this answer has no effect"):
        await answering
    assert asked.cancelled()


async def test_others_are_shown_a_question_as_long_as_it_may_wait_here(desks: Desks) -> None:
    store = MemoryStore()
    desk = await desks(Slow(), store=store, seconds=60.0)
    task = await running(store, OWNER)
    one = about(task)
    patient = [
        one,
        one,
        replace(one, patience=AnswerTimeout(10.0)),
        replace(one, patience=AnswerTimeout(10.0, 15.0)),
    ]
    asked: list[asyncio.Task[Answer]] = []
    for question in patient:
        asked.append(asyncio.create_task(desk.ask(question)))
        await turns(20)
    left = [each.left or 0.0 for each in await store.questions.waiting("")]
    assert [round(each) for each in left] == [60, 120, 30, 15]
    for each in asked:
        each.cancel()
    await asyncio.wait(asked)


class Away(QuestionTable):
    """Questions of a store that is away for a while."""

    away = True

    async def put(self, new: NewQuestion) -> int:
        if self.away:
            raise StoreUnavailable("The store is away.")
        return await super().put(new)


@pytest.mark.parametrize("here", [True, False])
async def test_while_the_store_is_away_a_question_is_asked_here_and_written_down_later(
    desks: Desks, monkeypatch: pytest.MonkeyPatch, here: bool
) -> None:
    monkeypatch.setattr(question_desk, "SHORTEST_PAUSE", 0.01)

    store = Odd(Away)
    rows = store.odd
    await rows.here(Presence("me", "/a", background=True), 60.0)
    desk = await desks(store=store, here=here)
    task = await running(store, OWNER)
    asked = asyncio.create_task(desk.ask(about(task)))
    await turns(20)
    assert (len(desk.waiting()), list(await rows.waiting(""))) == (int(here), [])
    rows.away = False

    async def is_written() -> bool:
        return bool(await rows.waiting(""))

    await until(is_written, "it is written down")
    [waiting] = await rows.waiting("")
    await rows.answer(waiting.number, NO, "me")
    assert await asked == NO


async def test_an_answer_here_applies_at_once_while_the_store_is_away(desks: Desks) -> None:
    store = Odd(Away)
    desk = await desks(store=store)
    asked = asyncio.create_task(desk.ask(about(await running(store, OWNER))))
    await turns(20)
    await desk.answer(numbers(desk)[0], YES)
    assert await asked == YES
