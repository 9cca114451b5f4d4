"""Asking the person of this process so that whoever looks at the conversation elsewhere may answer, too.

The question is asked here at once, and lies in the database as long as it waits. The first answer counts; one
that comes from elsewhere is checked here, and reaches no further than one to any other process.
"""

import asyncio
import logging
from contextlib import suppress

from msgspec.structs import replace

from gencode.core.errors import GenCodeError, UserMistake
from gencode.core.rules import DecidedBy
from gencode.delegation.far_asking import answer_to, family, who_answers
from gencode.runtime.asking import Answer, Asker, Punctual, Question, Unasked
from gencode.runtime.broker import GONE, asked_of, said_nothing
from gencode.runtime.ports import Store
from gencode.runtime.questions import FOR_EVER, Post, QuestionBox, check_answer, kept_there

log = logging.getLogger(__name__)

LATE = "The question was answered already, by {by}: this answer does not count."


class SharedAsker:
    """Asks `asker` and, once it is opened, everybody who follows the conversation."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._store: Store | None = None
        self._box: QuestionBox | None = None
        self._owner = ""
        self._leaving: set[asyncio.Task[None]] = set()

    def open(self, store: Store, box: QuestionBox, owner: str) -> None:
        """From now on others may answer what the tasks of `owner` ask."""
        self._store, self._box, self._owner = store, box, owner

    async def close(self) -> None:
        """Wait until no question lies there that was answered here."""
        self._box = None
        if self._leaving:
            await asyncio.wait(self._leaving)

    def patience(self, question: Question) -> float:
        """For so many seconds others are shown what is asked now."""
        seconds = self._asker.patience(question) if isinstance(self._asker, Punctual) else None
        return FOR_EVER if seconds is None else min(seconds, FOR_EVER)

    async def ask(self, question: Question) -> Answer:
        """What the first one says who answers, here or elsewhere."""
        if self._box is None or self._store is None:
            return await self._asker.ask(question)
        box, seconds = self._box, self.patience(question)
        putting = asyncio.ensure_future(self._put(box, self._store, question, seconds))
        taking = _TakingBack(box, putting, question)
        here = asyncio.ensure_future(asked_of(self._asker, question, taking.deliver))
        there = asyncio.ensure_future(_answered(box, putting, question, self._owner))
        lies_there = True
        try:
            await asyncio.wait([here, there], return_when=asyncio.FIRST_COMPLETED)
            if there.done():
                lies_there = False
                if taking.begun:  # somebody here has answered as well, and is told that it was too late
                    await asyncio.wait([here])
                return there.result()
            lies_there = not taking.begun
            return taking.earlier or here.result()
        finally:
            here.cancel()
            there.cancel()
            await asyncio.gather(here, there, return_exceptions=True)
            if lies_there:
                self._forget(box, putting)

    async def _put(self, box: QuestionBox, store: Store, question: Question, seconds: float) -> int | None:
        try:
            path, background = await family(store, question)
            post = Post(replace(question, path=path), self._owner, background, seconds, home=True)
            return await box.put(post)
        except GenCodeError as trouble:
            log.info("a question is asked only here: %s", trouble)
            return None

    def _forget(self, box: QuestionBox, putting: "asyncio.Task[int | None]") -> None:
        """Take a question back that is not asked any more, also one that is only just being laid down."""

        async def forgotten() -> None:
            number = await putting
            if number is not None:
                with suppress(GenCodeError):
                    await box.withdraw(number)

        leaving = asyncio.get_running_loop().create_task(forgotten())
        self._leaving.add(leaving)
        leaving.add_done_callback(self._leaving.discard)


async def _answered(
    box: QuestionBox, putting: "asyncio.Task[int | None]", question: Question, owner: str
) -> Answer:
    """What somebody elsewhere says; one that says more than was asked is not heard."""
    number = await asyncio.shield(putting)
    with suppress(Unasked):
        said = None if number is None else await answer_to(box, number, owner)
        if said is not None and (counted := _counted(said, question)):
            return counted
    return await asyncio.get_running_loop().create_future()


class _TakingBack:
    """Takes a question back that was answered here; `earlier` is what somebody elsewhere said before that."""

    def __init__(self, box: QuestionBox, putting: "asyncio.Task[int | None]", question: Question) -> None:
        self._box = box
        self._putting = putting
        self._question = question
        self.begun = False
        self.earlier: Answer | None = None

    async def deliver(self, answer: Answer) -> None:
        """Let an answer from here count; UserMistake when another one came before it."""
        if not self._putting.done():
            return  # nobody else can have seen it yet
        self.begun = True
        number = self._putting.result()
        if number is None:
            return
        silent = said_nothing(answer)
        try:
            taken = self._box.withdraw(number) if silent else self._box.settle(number, answer, who_answers())
            said = await taken
            self.earlier = None if said is None else _counted(said, self._question)
        except Unasked as lost:  # somebody else has its task by now
            self.earlier = Answer(False, why=str(lost).removesuffix("."), by=DecidedBy.NOBODY)
            raise UserMistake(GONE) from None
        except GenCodeError as trouble:
            log.info("an answer counts only here: %s", trouble)
        if self.earlier is not None and not silent:
            raise UserMistake(LATE.format(by=await self._who() or "somebody elsewhere"))

    async def _who(self) -> str:
        with suppress(GenCodeError):
            return await self._box.who(self._question.task, self._question.call)
        return ""


def _counted(said: Answer, question: Question) -> Answer | None:
    try:
        check_answer(question, said)
    except UserMistake as mistake:
        log.warning("an answer from elsewhere does not count: %s", mistake)
        return None
    return kept_there(said)
