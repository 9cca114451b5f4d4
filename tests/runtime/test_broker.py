"""Questions wait in one place: in order, one at a time for a person, answered from anywhere, in time."""

import asyncio
import time

import pytest
from msgspec.structs import replace

from gencode.core.errors import UserMistake
from gencode.core.messages import ToolCall
from gencode.core.rules import Action, Decision
from gencode.runtime.asking import Answer, Patience, Question
from gencode.runtime.broker import TYPING_SECONDS, Broker, Waiting, silence

YES = Answer(True)
NO = Answer(False, why="not now")


def question(text: str, *rules: str) -> Question:
    call = ToolCall(text, "Bash", {"command": text})
    return Question("0a0a0a0a", "main", call, Decision(Action.ASK, "it is asked"), ("main",), rules=rules)


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


def numbers(broker: Broker) -> list[int]:
    return [each.number for each in broker.waiting()]


async def test_a_person_is_shown_one_question_at_a_time_in_order() -> None:
    person = Slow()
    broker = Broker(person)
    asked = [asyncio.create_task(broker.ask(question(name))) for name in ("one", "two", "three")]
    await turns()
    assert person.screen == ["one"]
    assert [each.question.call.id for each in broker.waiting()] == ["one", "two", "three"]
    for answer in (YES, NO, YES):
        person.press(answer)
    assert await asyncio.gather(*asked) == [YES, NO, YES]
    assert (person.screen, person.most_at_once, broker.waiting()) == (["one", "two", "three"], 1, [])


async def test_an_answer_from_elsewhere_takes_the_question_off_the_screen() -> None:
    person = Slow()
    broker = Broker(person)
    first = asyncio.create_task(broker.ask(question("one")))
    second = asyncio.create_task(broker.ask(question("two")))
    await turns()
    broker.answer(numbers(broker)[0], NO)
    assert await first == NO
    await turns()
    assert person.screen == ["one", "two"]
    person.press(YES)
    assert await second == YES


async def test_a_question_that_waits_behind_another_may_be_answered_too() -> None:
    person = Slow()
    broker = Broker(person)
    first = asyncio.create_task(broker.ask(question("one")))
    second = asyncio.create_task(broker.ask(question("two")))
    await turns()
    broker.answer(numbers(broker)[1], NO)
    person.press(YES)
    assert (await first, await second, person.screen) == (YES, NO, ["one"])


async def test_nobody_waits_for_ever() -> None:
    person = Slow()
    broker = Broker(person, seconds=0.01)
    assert await broker.ask(question("one")) == silence(0.01)
    assert await Broker(seconds=0.01).ask(question("one")) == silence(0.01)
    assert broker.waiting() == []


async def test_a_question_says_itself_how_long_it_waits_also_behind_others() -> None:
    broker = Broker(Slow(), seconds=600.0)
    first = asyncio.create_task(broker.ask(question("one")))
    await turns()
    behind = replace(question("two"), patience=Patience(600.0, 0.01))
    assert await broker.ask(behind) == silence(0.01)
    broker.answer(numbers(broker)[0], YES)
    assert await first == YES
    alone = replace(question("three"), patience=Patience(0.01))
    assert await broker.ask(alone) == silence(0.01)


@pytest.mark.parametrize(("most", "longest"), [(None, TYPING_SECONDS), (10.0, 10.0)])
async def test_who_types_an_answer_is_given_the_time_that_the_agent_has(
    most: float | None, longest: float
) -> None:
    shown: list[Question] = []

    class Reader(Slow):
        async def answer(self, question: Question) -> Answer:
            shown.append(question)
            return await super().answer(question)

    broker = Broker(Reader())
    asked = asyncio.create_task(broker.ask(replace(question("one"), patience=Patience(5.0, most))))
    await turns()
    longer = broker.stay(shown[0])
    assert shown[0].until is not None and longer.until is not None
    assert longest - 5.0 - 1.0 < longer.until - shown[0].until < longest - 5.0 + 1.0
    assert broker.waiting()[0].question == longer
    asked.cancel()
    await asyncio.wait([asked])
    assert broker.stay(longer) == longer


async def test_a_question_whose_agent_was_stopped_is_withdrawn() -> None:
    person = Slow()
    broker = Broker(person)
    asked = asyncio.create_task(broker.ask(question("one")))
    await turns()
    asked.cancel()
    await asyncio.wait([asked])
    assert (asked.cancelled(), broker.waiting()) == (True, [])
    person.press(YES)
    assert await broker.ask(question("two")) == YES


async def test_every_change_is_heard() -> None:
    heard: list[list[int]] = []
    broker = Broker(heard=lambda waiting: heard.append([each.number for each in waiting]))
    began = time.time()
    asked = asyncio.create_task(broker.ask(question("one")))
    await turns()
    [number] = numbers(broker)
    [waiting] = broker.waiting()
    assert waiting == Waiting(number, question("one"), waiting.since)
    assert began <= waiting.since <= time.time()
    broker.answer(number, YES)
    assert (await asked, heard) == (YES, [[number], []])


async def test_an_answer_for_always_is_written_down_and_others_are_not() -> None:
    written: list[str] = []
    person = Slow()
    broker = Broker(person, always=written.append)
    for answer in (Answer(True, "always"), Answer(True, "session"), Answer(False, "always")):
        person.press(answer)
        assert await broker.ask(question("make", "Bash(make)")) == answer
    assert written == ["Bash(make)"]


async def test_answering_what_does_not_wait_names_what_does() -> None:
    broker = Broker()
    asked = asyncio.create_task(broker.ask(question("one")))
    await turns()
    [number] = numbers(broker)
    with pytest.raises(UserMistake, match=f"No question -1 is waiting; waiting are: {number}"):
        broker.answer(-1, YES)
    broker.answer(number, YES)
    with pytest.raises(UserMistake, match=f"No question {number} is waiting"):
        broker.answer(number, NO)
    assert await asked == YES


async def test_a_number_of_another_process_meets_no_question() -> None:
    """Many brokers stand for many starts of a server: no number comes twice, and none is small."""
    brokers = [Broker() for _ in range(50)]
    asked = [asyncio.create_task(each.ask(question(name))) for each in brokers for name in ("one", "two")]
    await turns()
    found = [number for each in brokers for number in numbers(each)]
    for each in brokers:
        for number in numbers(each):
            each.answer(number, NO)
    await asyncio.gather(*asked)
    assert (len(set(found)), min(found) > len(found), max(found) < 2**53) == (100, True, True)


async def refused(answer: Answer) -> None:
    """Where an answer is handed over, another one came before it."""
    raise UserMistake(f"{answer.reach} came too late.")


async def test_who_answers_too_late_is_told_and_nothing_is_kept_for_always() -> None:
    told: list[str] = []
    written: list[str] = []
    broker = Broker(always=written.append, late=told.append)
    asked = asyncio.create_task(broker.ask(question("one", "Bash(one)"), refused))
    await turns()
    [number] = numbers(broker)
    with pytest.raises(UserMistake, match="always came too late"):
        await broker.answered(number, Answer(True, "always"))
    with pytest.raises(UserMistake, match="always came too late"):
        await asked
    assert (told, written, broker.waiting()) == (["always came too late."], [], [])


async def test_who_answers_what_is_withdrawn_meanwhile_is_told() -> None:
    broker = Broker()
    never = asyncio.Event()

    async def deliver(_answer: Answer) -> None:
        await never.wait()

    asked = asyncio.create_task(broker.ask(question("one"), deliver))
    await turns()
    answering = asyncio.create_task(broker.answered(numbers(broker)[0], YES))
    await turns()
    asked.cancel()
    with pytest.raises(UserMistake, match="this answer does not count"):
        await answering
    assert asked.cancelled()


async def test_it_says_how_long_a_question_may_wait() -> None:
    broker = Broker(Slow(), seconds=60.0)
    said = [each.patience(question("one")) for each in (Broker(), Broker(seconds=60.0), broker)]
    assert said == [None, 60.0, 60.0]
    asked = asyncio.create_task(broker.ask(question("one")))
    await turns()
    assert broker.patience(question("two")) == 120.0
    assert broker.patience(replace(question("two"), patience=Patience(10.0))) == 20.0
    assert broker.patience(replace(question("two"), patience=Patience(10.0, 15.0))) == 15.0
    asked.cancel()
    await asyncio.wait([asked])
