"""Asking the person of this process so that whoever looks at the conversation elsewhere may answer, too.

The question is asked here at once, and lies in the database as long as it waits. The first answer counts; one
that comes from elsewhere is checked here, and reaches no further than one to any other process.
"""

import asyncio
import logging
from contextlib import suppress

from msgspec.structs import replace

from gencode.core.errors import GenCodeError, UserMistake
from gencode.delegation.far_asking import LOOK_SECONDS, family
from gencode.runtime.asking import Answer, Asker, Question, Unasked
from gencode.runtime.ports import Store
from gencode.runtime.questions import Post, QuestionBox, check_answer, kept_there

log = logging.getLogger(__name__)

SHOWN_SECONDS = 86_400.0
"""For so long others are shown a question; here it waits as long as it does."""


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

    async def ask(self, question: Question) -> Answer:
        """What the first one says who answers, here or elsewhere."""
        if self._box is None or self._store is None:
            return await self._asker.ask(question)
        box = self._box
        here = asyncio.ensure_future(self._asker.ask(question))
        putting = asyncio.ensure_future(self._put(box, self._store, question))
        there = asyncio.ensure_future(_answered(box, putting, question, self._owner))
        lies_there = True
        try:
            await asyncio.wait([here, there], return_when=asyncio.FIRST_COMPLETED)
            if there.done():
                lies_there = False
                return there.result()
            answer = here.result()
            if putting.done():
                earlier = await _taken_back(box, putting.result(), question)
                lies_there = False
                return earlier or answer
            return answer
        finally:
            here.cancel()
            there.cancel()
            await asyncio.wait([here, there])
            if lies_there:
                self._forget(box, putting)

    async def _put(self, box: QuestionBox, store: Store, question: Question) -> int | None:
        try:
            path, background = await family(store, question)
            post = Post(replace(question, path=path), self._owner, background, SHOWN_SECONDS, home=True)
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
    while number is not None:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            said = await box.answered(number, owner)
        except Unasked:
            break
        except GenCodeError as trouble:
            log.warning("it is not known what was answered: %s", trouble)
            continue
        if said is not None:
            if counted := _counted(said, question):
                return counted
            break
    return await asyncio.get_running_loop().create_future()


async def _taken_back(box: QuestionBox, number: int | None, question: Question) -> Answer | None:
    """The answer that came from elsewhere before the one from here, if one did."""
    if number is None:
        return None
    with suppress(GenCodeError):
        said = await box.withdraw(number)
        return None if said is None else _counted(said, question)
    return None


def _counted(said: Answer, question: Question) -> Answer | None:
    try:
        check_answer(question, said)
    except UserMistake as mistake:
        log.warning("an answer from elsewhere does not count: %s", mistake)
        return None
    return kept_there(said)
