"""The broker: the one place where questions to a person wait, from agents at any depth.

Every surface sees the same waiting questions and any of them may answer. A person who sits at a terminal is
shown one question at a time, in the order they came; whoever comes through a program sees all of them.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from math import floor
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from gencode.core.errors import UserMistake
from gencode.core.rules import DecidedBy
from gencode.runtime.asking import Answer, Asker, Question

SILENCE = "Nobody answered"
NOBODY = Answer(False, why=SILENCE, by=DecidedBy.SILENCE)
NUMBERS = 10**15
"""So many numbers there are for questions; JavaScript can count that far."""
TYPING_SECONDS = 30.0
"""Who types an answer has at least so long until the next key."""
GONE = "The question was answered elsewhere, or its agent has ended: this answer does not count."

Deliver = Callable[[Answer], Awaitable[None]]
"""Hands an answer over to where it was asked for; UserMistake when another one came before it."""


async def _as_it_is(_answer: Answer) -> None:
    """An answer that nobody else could give."""


class Person(Protocol):
    """Somebody at a screen."""

    async def answer(self, question: Question) -> Answer:
        """Show one question and wait; cancelled when it was answered elsewhere or is no longer asked."""
        ...


class Waiting(Struct, frozen=True):
    """A question that has no answer yet.

    Its number is drawn by lot: an answer to a question of an earlier process meets none that waits now.
    `since` is the moment (in seconds since 1970) at which the agent asked it, wherever that was.
    """

    number: int
    question: Question
    since: float


class _Open:
    """A waiting question with its time, which begins when it is shown.

    `given` is the first answer to it, `late` why that one came too late (empty: it counts).
    """

    def __init__(self, number: int, question: Question, seconds: float | None) -> None:
        away = question.away
        self.waiting = Waiting(number, question, (away.since if away else None) or time.time())
        loop = asyncio.get_running_loop()
        self.given: asyncio.Future[Answer] = loop.create_future()
        self.late: asyncio.Future[str] = loop.create_future()
        patience = question.patience
        self._seconds = seconds if patience.seconds is None else patience.seconds
        self._began = time.monotonic()
        self._last = None if patience.most is None else self._began + patience.most
        self._ends: float | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._end_at(self._last)

    def begin(self) -> Question:
        """It is shown from now on; the question, with the moment at which it ends."""
        self._began = time.monotonic()
        if self._seconds is not None:
            self._end_at(self._began + self._seconds)
        return self.waiting.question

    def stay(self) -> Question:
        """Somebody is at an answer; the question, with the moment at which it ends now."""
        soon = time.monotonic() + TYPING_SECONDS
        if self._ends is not None and self._ends < soon:
            self._end_at(soon)
        return self.waiting.question

    def close(self) -> None:
        """Nobody waits for an answer any more."""
        if self._alarm is not None:
            self._alarm.cancel()
        self.given.cancel()
        self.late.cancel()

    def _end_at(self, moment: float | None) -> None:
        if moment is None:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._ends = moment if self._last is None else min(moment, self._last)
        left = self._ends - time.monotonic()
        self._alarm = asyncio.get_running_loop().call_later(left, self._over)
        # Rounded down: what a person reads is never later than the end.
        question = replace(self.waiting.question, until=floor((time.time() + left) * 10) / 10)
        self.waiting = replace(self.waiting, question=question)

    def _over(self) -> None:
        waited = (self._ends or self._began) - self._began
        if not self.given.done():
            self.given.set_result(silence(waited))


class Broker:
    """Asks a person on behalf of all agents of a session.

    `seconds` is how long a question may stay unanswered once it is shown if it has no patience of its own
    (None: for ever), `always` writes a rule where every later session finds it, `heard` is told whenever the
    waiting questions change, `late` why an answer that was given here does not count.
    """

    def __init__(
        self,
        person: Person | None = None,
        *,
        seconds: float | None = None,
        always: Callable[[str], None] | None = None,
        heard: Callable[[Sequence[Waiting]], None] | None = None,
        late: Callable[[str], None] | None = None,
    ) -> None:
        self._person = person
        self._seconds = seconds
        self._always = always
        self._heard = heard
        self._late = late
        self._open: dict[int, _Open] = {}
        self._turn = asyncio.Lock()

    def waiting(self) -> Sequence[Waiting]:
        """The questions that have no answer yet, the oldest first."""
        return [each.waiting for each in self._open.values()]

    def patience(self, question: Question) -> float | None:
        """So many seconds a question that is asked now may wait at most; None: for ever.

        A person is shown one at a time, and only then its time begins.
        """
        own = question.patience
        seconds = self._seconds if own.seconds is None else own.seconds
        if seconds is None:
            return own.most
        in_line = seconds if self._person is None else seconds * (len(self._open) + 1)
        return in_line if own.most is None else min(in_line, own.most)

    def stay(self, question: Question) -> Question:
        """Somebody types an answer to a question: it is not taken away; the question as it stands now."""
        asked = (question.task, question.call.id)
        for each in self._open.values():
            if (each.waiting.question.task, each.waiting.question.call.id) == asked:
                return each.stay()
        return question

    def answer(self, number: int, answer: Answer) -> None:
        """Answer a waiting question, from wherever; UserMistake if it does not wait any more."""
        self._give(number, answer)

    async def answered(self, number: int, answer: Answer) -> None:
        """Answer a waiting question; UserMistake also when somebody in another process was quicker."""
        late = self._give(number, answer).late
        await asyncio.wait([late])
        if why := GONE if late.cancelled() else late.result():
            raise UserMistake(why)

    def _give(self, number: int, answer: Answer) -> _Open:
        if number not in self._open or self._open[number].given.done():
            waits = ", ".join(map(str, self._open)) or "none"
            raise UserMistake(f"No question {number} is waiting; waiting are: {waits}.")
        self._open[number].given.set_result(answer)
        return self._open[number]

    async def ask(self, question: Question, deliver: Deliver = _as_it_is) -> Answer:
        """What a person says, once it is handed over; a no with the reason where nobody does in time."""
        number = self._drawn()
        each = self._open[number] = _Open(number, question, self._seconds)
        self._tell()
        try:
            answer = await self._asked(each)
            await self._delivered(each, answer, deliver)
        finally:
            each.close()
            del self._open[number]
            self._tell()
        if answer.allow and answer.reach == "always" and self._always:
            for rule in question.rules:
                self._always(rule)
        return answer

    async def _delivered(self, each: _Open, answer: Answer, deliver: Deliver) -> None:
        """Hand an answer over; whoever gave it is told when it came too late."""
        try:
            await deliver(answer)
            each.late.set_result("")
        except UserMistake as mistake:
            each.late.set_result(str(mistake))
            if self._late is not None:
                self._late(str(mistake))
            raise

    async def _asked(self, each: _Open) -> Answer:
        if self._person is None:
            each.begin()
            return await each.given
        shown = asyncio.ensure_future(self._shown(self._person, each))
        shown.add_done_callback(lambda done: _hand_over(done, each.given))
        try:
            return await each.given
        finally:
            shown.cancel()
            await asyncio.wait([shown])

    async def _shown(self, person: Person, each: _Open) -> Answer:
        """What the person says once it is the turn of this question."""
        async with self._turn:
            return await person.answer(each.begin())

    def _drawn(self) -> int:
        while (number := secrets.randbelow(NUMBERS)) in self._open:
            pass
        return number

    def _tell(self) -> None:
        if self._heard is not None:
            self._heard(self.waiting())


async def asked_of(asker: Asker, question: Question, deliver: Deliver) -> Answer:
    """What somebody says, once it is handed over; a broker tells them when that came too late."""
    if isinstance(asker, Broker):
        return await asker.ask(question, deliver)
    answer = await asker.ask(question)
    await deliver(answer)
    return answer


def silence(seconds: float) -> Answer:
    """What stands for an answer that nobody gave within so many seconds."""
    return Answer(False, why=f"{SILENCE} within {seconds:.4g} s", by=DecidedBy.SILENCE)


def said_nothing(answer: Answer) -> bool:
    """Whether an answer is what stands for none: where others are asked as well, they still may give one."""
    return answer.by is DecidedBy.SILENCE


def _hand_over(shown: "asyncio.Future[Answer]", given: "asyncio.Future[Answer]") -> None:
    """What the person at the screen did counts, unless somebody else was quicker."""
    if given.done():
        return
    if shown.cancelled():
        given.set_result(NOBODY)
    elif error := shown.exception():
        given.set_exception(error)
    else:
        given.set_result(shown.result())
