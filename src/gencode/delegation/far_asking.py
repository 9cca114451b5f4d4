"""Asking a person at another process: the end where an agent asks, and the end where the person is.

A notification only wakes both up sooner; what counts is what lies in the database. An answer is taken by the
one run that asked, and is checked again there.
"""

import asyncio
import getpass
import logging
import socket
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from math import inf
from pathlib import Path

from msgspec.structs import replace

from gencode.core.errors import GenCodeError, UserMistake
from gencode.core.rules import DecidedBy
from gencode.runtime.asking import Answer, Asker, Away, NobodyThere, Patience, Question, Unasked
from gencode.runtime.broker import asked_of, said_nothing, silence
from gencode.runtime.ports import Store
from gencode.runtime.questions import (
    Post,
    Presence,
    QuestionBox,
    Travelling,
    check_answer,
    kept_there,
)

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.05
PATIENCE = 600.0
"""Seconds after which a question that nobody answers is a no, unless it says itself how long it waits."""
HERE_SECONDS = 15.0
"""A person of whom nothing was heard for so long is taken for gone."""
LONGEST_PAUSE = 8.0
"""Where the database cannot be used (it may be read-only), it is tried again after so many seconds."""
LONGEST_PREVIEW = 100_000
DEEPEST = 20


class FarAsker:
    """Asks on behalf of agents that run here, away from the person. `owner` holds the leases of their tasks.

    An agent that waits for an answer is counted in `parked`, so that others may work in its place.
    """

    def __init__(self, store: Store, box: QuestionBox, seconds: float = PATIENCE) -> None:
        self._store = store
        self._box = box
        self._seconds = seconds
        self.owner = ""
        self.parked = 0
        self.moved: tuple[str, str] | None = None
        """The copy in which the agents work, and the folder that it is a copy of."""

    async def ask(self, question: Question) -> Answer:
        """What a person says; a no where nobody says anything in time. NobodyThere where there is none."""
        try:
            with self.parking():
                answer = await self._asked(at_home(_bounded(question), self.moved))
            check_answer(question, answer)
        except NobodyThere:
            raise
        except UserMistake as mistake:
            return Answer(False, why=str(mistake).removesuffix("."), by=DecidedBy.NOBODY)
        return kept_there(answer)

    @contextmanager
    def parking(self) -> Generator[None]:
        """While an agent waits for an answer."""
        self.parked += 1
        try:
            yield
        finally:
            self.parked -= 1

    async def _asked(self, question: Question) -> Answer:
        path, background = await family(self._store, question)
        seconds = question.patience.in_all(self._seconds)
        post = Post(replace(question, path=path), self.owner, background, seconds)
        number = await self._box.put(post)
        taken = False
        try:
            until = time.monotonic() + seconds
            answer = await answer_to(self._box, number, self.owner, until) or await self._box.withdraw(number)
            taken = True
            return answer or silence(seconds)
        finally:
            if not taken:
                await self._forget(number)

    async def _forget(self, number: int) -> None:
        """A question that nobody waits for any more disappears; if that fails, with its time."""
        with suppress(GenCodeError):
            await asyncio.shield(self._box.withdraw(number))


async def answer_to(box: QuestionBox, number: int, owner: str, until: float = inf) -> Answer | None:
    """The answer to a question of `owner`, once there is one; None at a moment, Unasked when it is gone."""
    while time.monotonic() < until:
        await asyncio.sleep(LOOK_SECONDS)
        try:
            answer = await box.answered(number, owner)
        except Unasked:
            raise
        except GenCodeError as trouble:
            log.warning("it is not known what was answered: %s", trouble)
            continue
        if answer is not None:
            return answer
    return None


async def family(store: Store, question: Question) -> tuple[tuple[str, ...], bool]:
    """The agents from the first one down to the one that asks, and whether any works in the background."""
    names: list[str] = []
    background = False
    task: str | None = question.task
    while task and len(names) < DEEPEST:
        found = await store.task(task)
        if found is None:
            break
        names.append(found.agent)
        asks = task == question.task
        background = background or (found.background and not (asks and question.waited))
        task = found.parent
    path = tuple(reversed(names))
    return path if len(path) > len(question.path) else question.path, background


def at_home(question: Question, moved: tuple[str, str] | None) -> Question:
    """With rules for the folder of whoever is asked: a copy is gone when "always" comes to count.

    Rules that cannot be told that way are not offered.
    """
    if moved is None:
        return question
    copy, folder = moved
    said = question.decision
    moved_rules = [replace(rule, pattern=rule.pattern.replace(copy, folder)) for rule in said.offers]
    offers = tuple(rule for rule in moved_rules if Path(copy).name not in rule.pattern)
    kept = len(offers) == len(said.offers)
    decision = replace(
        said,
        why=said.why.replace(copy, folder),
        lifts=said.lifts.replace(copy, folder),
        offers=offers if kept else (),
    )
    return replace(question, rules=tuple(rule.spelled for rule in decision.lasting), decision=decision)


def _bounded(question: Question) -> Question:
    """With what would change cut where nobody reads on; the call itself is never cut."""
    if len(question.preview) <= LONGEST_PREVIEW:
        return question
    rest = len(question.preview) - LONGEST_PREVIEW
    return replace(
        question,
        preview=f"{question.preview[:LONGEST_PREVIEW]}\n… {rest:,} more characters that are not shown",
    )


class FarQuestions:
    """Brings questions of other processes to the person who is asked here, and their answers back."""

    def __init__(self, box: QuestionBox, asker: Asker, presence: Callable[[], Presence]) -> None:
        self._box = box
        self._asker = asker
        self._presence = presence
        self._shown: dict[int, asyncio.Task[None]] = {}
        self._handing: set[int] = set()
        self._done: set[int] = set()
        self._said_at = -HERE_SECONDS
        self.tried = asyncio.Event()
        """Whether others know of the person by now, or cannot at the moment."""

    async def run(self) -> None:
        """Do so until it is cancelled."""
        try:
            pause = LOOK_SECONDS
            while True:
                try:
                    await self._look()
                    pause = LOOK_SECONDS
                except GenCodeError as trouble:
                    if pause == LOOK_SECONDS:
                        log.warning("questions of other processes cannot be looked up: %s", trouble)
                    pause = min(max(2 * pause, 1.0), LONGEST_PAUSE)
                self.tried.set()
                await asyncio.sleep(pause)
        finally:
            for asking in self._shown.values():
                asking.cancel()
            with suppress(GenCodeError):
                await asyncio.shield(self._box.gone(self._presence().name))

    async def _look(self) -> None:
        now = time.monotonic()
        if now - self._said_at > HERE_SECONDS / 3:
            await self._box.here(self._presence(), HERE_SECONDS)
            self._said_at = now
        found = await self._box.news(self._presence())
        if found is None:
            return
        self._show(found)

    def _show(self, found: Sequence[Travelling]) -> None:
        """Ask what is new, and ask no more what was answered elsewhere or nobody waits for."""
        waiting = {each.number for each in found}
        for number in [each for each in self._shown if each not in waiting and each not in self._handing]:
            self._shown.pop(number).cancel()
        self._done &= waiting
        for each in found:
            if each.number not in self._shown and each.number not in self._done:
                asking = asyncio.get_running_loop().create_task(self._ask(each))
                self._shown[each.number] = asking

    async def _ask(self, each: Travelling) -> None:
        async def deliver(answer: Answer) -> None:
            if not said_nothing(answer):
                self._handing.add(each.number)  # what is handed over is not withdrawn: it was heard
                await self._box.answer(each.number, answer, who_answers())

        try:
            async with asyncio.timeout(each.left):
                await asked_of(self._asker, shown_from(each), deliver)
        except TimeoutError:
            log.info("nobody answered question %s", each.number)
        except GenCodeError as trouble:
            log.warning("an answer could not be handed over: %s", trouble)
        finally:
            self._handing.discard(each.number)
            self._shown.pop(each.number, None)
            self._done.add(each.number)


def shown_from(each: Travelling) -> Question:
    """A question as it is shown away from where it was asked: with the place, and its times."""
    left = None if each.left is None else round(each.left, 1)
    now = time.time()
    until = None if left is None else round(now + left, 1)
    away = Away(each.folder, each.place, each.background, left, round(now - each.asked, 1))
    return replace(each.question, away=away, patience=Patience(most=left), until=until)


def who_answers() -> str:
    """Who answers from here, for whoever comes too late."""
    try:
        return f"{getpass.getuser()} on {socket.gethostname()}"
    except (OSError, KeyError):
        return f"somebody on {socket.gethostname()}"
