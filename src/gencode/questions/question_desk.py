"""The question desk: asks people on behalf of agents, and shows questions of other processes here.

Every question is a row in the store. It is shown to people here at once, and to people of other processes as
soon as those look; the first answer written to the row applies, and is checked again where the question was
asked. While the store is unavailable a question is still asked here.
"""

import asyncio
import getpass
import logging
import secrets
import socket
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext, suppress
from math import floor
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from gencode.core.errors import GenCodeError, StoreTrouble, UserMistake
from gencode.core.questions import (
    FOR_EVER,
    NOBODY,
    Answer,
    AnswerTimeout,
    CannotAsk,
    NewQuestion,
    NobodyAvailable,
    Presence,
    Question,
    QuestionOrigin,
    QuestionRow,
    QuestionStore,
    check_answer,
    kept_there,
    silence,
)
from gencode.core.rules import DecidedBy
from gencode.core.structs import replace
from gencode.journal.store import Store

log = logging.getLogger(__name__)

T = TypeVar("T")

NUMBERS = 10**15
"""The number of possible question numbers; JavaScript can represent them exactly."""
TYPING_SECONDS = 30.0
"""How long somebody who types an answer has until the next key."""
PATIENCE = 600.0
"""After how many seconds a question that is shown only elsewhere is declined, by default."""
LOOK_SECONDS = 1.0
"""How often the store is read without a change: a process may have died, or a time limit passed."""
SPACING_SECONDS = 0.05
"""The shortest time between two reads, however often something is written."""
HERE_SECONDS = 15.0
"""After how many seconds without a sign of life a person is considered gone."""
HERE_WAIT = 5.0
"""How long it may take at most until other processes know that somebody can be asked here."""
SHORTEST_PAUSE = 1.0
LONGEST_PAUSE = 8.0
"""The longest pause between attempts while the store cannot be used (it may be read-only)."""
LONGEST_PREVIEW = 100_000
DEEPEST = 20
GONE = "The question was answered elsewhere, or its agent has ended: this answer has no effect."
LATE = "The question was answered already, by {by}: this answer has no effect."
LOST = "The question was lost"


class Person(Protocol):
    """A person at a screen."""

    async def answer(self, question: Question) -> Answer:
        """Show one question and wait; cancelled if it was answered elsewhere or is no longer open."""
        ...


class PendingQuestion(Struct, frozen=True):
    """A question that has no answer yet.

    Its number is random, so an answer to a question of an earlier process matches no open one. `since` is
    when the agent asked it (in seconds since 1970), wherever that was.
    """

    number: int
    question: Question
    since: float


class _OpenQuestion:
    """A question that is open here, with its deadline.

    `given` is the first answer; `elsewhere`: it was read from the row, so it is not written there. `late`
    says why an answer that was given here came too late (empty: it applies). `row` is the number of its row,
    once it has one; the row is no longer read if it is `ignored`.
    """

    def __init__(self, number: int, question: Question, seconds: float | None) -> None:
        away = question.away
        self.pending = PendingQuestion(number, question, (away.since if away else None) or time.time())
        loop = asyncio.get_running_loop()
        self.given: asyncio.Future[Answer] = loop.create_future()
        self.late: asyncio.Future[str] = loop.create_future()
        self.row: int | None = None
        self.elsewhere = False
        self.ignored = False
        patience = question.patience
        self._seconds = seconds if patience.seconds is None else patience.seconds
        self._began = time.monotonic()
        self._last = None if patience.most is None else self._began + patience.most
        self._ends: float | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._end_at(self._last)

    def begin(self) -> Question:
        """Start its time limit when it is shown; the question with its deadline."""
        self._began = time.monotonic()
        if self._seconds is not None:
            self._end_at(self._began + self._seconds)
        return self.pending.question

    def stay(self) -> Question:
        """Extend its time limit while somebody types; the question with its deadline now."""
        soon = time.monotonic() + TYPING_SECONDS
        if self._ends is not None and self._ends < soon:
            self._end_at(soon)
        return self.pending.question

    def take(self, answer: Answer) -> None:
        """Apply an answer that was read from its row."""
        if not self.given.done():
            self.elsewhere = True
            self.given.set_result(answer)

    def fail(self, trouble: BaseException) -> None:
        """Fail: it cannot be asked."""
        if not self.given.done():
            self.given.set_exception(trouble)

    @property
    def over(self) -> bool:
        """Whether it has an answer, or nobody waits for one any more."""
        return self.late.done()

    def close(self) -> None:
        """Mark that nobody waits for an answer any more."""
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
        self._alarm = asyncio.get_running_loop().call_later(left, self._expire)
        # Rounded down: the time that a person reads is never later than the deadline.
        question = replace(self.pending.question, until=floor((time.time() + left) * 10) / 10)
        self.pending = replace(self.pending, question=question)

    def _expire(self) -> None:
        waited = (self._ends or self._began) - self._began
        if not self.given.done():
            self.given.set_result(silence(waited))


def no_conversation() -> str:
    """The conversation that is followed if none is open."""
    return ""


def as_asked(question: Question) -> Question:
    """The question as it was asked."""
    return question


class Audience(Struct, frozen=True):
    """Which questions of agents in other processes are shown here.

    Those of the conversation that is led here and of the one that `follows` names, and those of work in this
    folder that belongs to no conversation; `everywhere` means every folder. Background agents are included if
    the settings, or `background`, say so.
    """

    follows: Callable[[], str] = no_conversation
    background: bool | None = None
    everywhere: bool = False


EVERYBODY = Audience()


class QuestionDesk:
    """Asks people on behalf of all agents of a process; GenCode opens it with the store.

    A `person` at a screen is shown one question at a time, in order; without one, programs see all that are
    `waiting` and `answer` them. With `here=False` there is nobody here, and agents ask only people of other
    processes. Without an `audience` people here are the only ones asked, and are shown no questions of
    others.

    `seconds` is how long a question may stay unanswered once it is shown if it has no time limit of its own
    (None: without a limit), `always` saves a rule for all later sessions, `changed` is called when the open
    questions change, `late` with the reason why an answer given here does not apply. `shown_as` is the form
    of a question for people of other processes.
    """

    def __init__(
        self,
        person: Person | None = None,
        *,
        here: bool = True,
        audience: Audience | None = EVERYBODY,
        seconds: float | None = None,
        always: Callable[[str], None] | None = None,
        changed: Callable[[Sequence[PendingQuestion]], None] | None = None,
        late: Callable[[str], None] | None = None,
        shown_as: Callable[[Question], Question] = as_asked,
    ) -> None:
        self.parked = 0
        """How many agents wait for an answer, so that others may run in their place."""
        self._person = person
        self._here = here
        self._audience = audience if here else None
        self._shared = audience is not None
        self._seconds = seconds if here or seconds is not None else PATIENCE
        self._always = always
        self._changed = changed
        self._late = late
        self._shown_as = shown_as
        self._turn = asyncio.Lock()
        self._waiting: dict[int, _OpenQuestion] = {}
        self._asked: set[_OpenQuestion] = set()
        self._shown: dict[int, asyncio.Task[None]] = {}
        self._handed_over: set[int] = set()
        self._done: set[int] = set()
        self._chores: set[asyncio.Task[None]] = set()
        self._store: Store | None = None
        self._owner = ""
        self._presence: Callable[[], Presence] | None = None
        self._said_at = 0.0
        self._looking: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def open(self, store: Store, owner: str) -> AsyncGenerator[None]:
        """Ask on behalf of the tasks of `owner`, with questions as rows of this store."""
        self._store, self._owner = store, owner
        try:
            yield
        finally:
            while self._chores:  # no question may stay in the store after nobody waits for it
                await asyncio.wait(self._chores)
            if self._looking is not None:
                self._looking.cancel()
            self._store = None

    @asynccontextmanager
    async def attend(self, folder: str, *, background: bool) -> AsyncGenerator[None]:
        """Show questions of agents of other processes in this folder here, and announce that to others."""
        audience, store = self._audience, self._store
        if audience is None or store is None:
            yield
            return
        place = "" if audience.everywhere else folder
        wanted = background if audience.background is None else audience.background
        self._presence = lambda: Presence(self._owner, place, wanted, audience.follows())
        with suppress(TimeoutError, GenCodeError):
            async with asyncio.timeout(HERE_WAIT):  # other processes must know of a person before they ask
                await self._say_here(store, self._presence())
        self._look_on(store)
        try:
            yield
        finally:
            self._presence = None
            self._show(store, ())
            with suppress(GenCodeError):
                await asyncio.shield(store.questions.gone(self._owner))

    # People and programs that are here.

    def waiting(self) -> Sequence[PendingQuestion]:
        """The open questions, the oldest first."""
        return [each.pending for each in self._waiting.values()]

    def stay(self, question: Question) -> Question:
        """Keep a question open while somebody types an answer; the question with its deadline now."""
        asked = (question.task, question.call.id)
        for each in self._waiting.values():
            if (each.pending.question.task, each.pending.question.call.id) == asked:
                return each.stay()
        return question

    async def answer(self, number: int, answer: Answer) -> None:
        """Answer an open question; UserMistake if it is no longer open, or was already answered."""
        if number not in self._waiting or self._waiting[number].given.done():
            waits = ", ".join(map(str, self._waiting)) or "none"
            raise UserMistake(f"No question {number} is waiting; waiting are: {waits}.")
        late = self._waiting[number].late
        self._waiting[number].given.set_result(answer)
        await asyncio.wait([late])
        if why := GONE if late.cancelled() else late.result():
            raise UserMistake(why)

    # Agents that are here.

    async def ask(self, question: Question) -> Answer:
        """The first answer; if nobody answers in time, a refusal with the reason.

        NobodyAvailable if there is nobody who could answer.
        """
        if (store := self._store) is None:
            raise NobodyAvailable
        seconds = self._longest(question)
        each = _OpenQuestion(self._drawn(), question, self._seconds)
        self._asked.add(each)
        if self._shared:
            self._do(self._write_down(store, each, seconds))
        try:
            with self.parking(), self._listed(each) if self._here else nullcontext():
                answer = await self._given(each)
                return answer if each.elsewhere else await self._settle(store.questions, each, answer)
        finally:
            self._asked.discard(each)
            each.close()
            if each.row is not None and not each.elsewhere:
                self._do(_withdraw(store.questions, each.row))

    @contextmanager
    def parking(self) -> Generator[None]:
        """Marks that an agent waits for an answer."""
        self.parked += 1
        try:
            yield
        finally:
            self.parked -= 1

    def _longest(self, question: Question) -> float:
        """The longest time a question that is asked now may be open.

        A person is shown one at a time, and its time limit begins only then.
        """
        own = question.patience
        seconds = self._seconds if own.seconds is None else own.seconds
        if seconds is not None and self._person is not None:
            seconds *= len(self._waiting) + 1
        return min(each for each in (seconds, own.most, FOR_EVER) if each is not None)

    async def _write_down(self, store: Store, each: "_OpenQuestion", seconds: float) -> None:
        """Write the row of a question; retried while the store is unavailable and the question is open."""
        mark, pause = secrets.token_hex(8), SHORTEST_PAUSE
        while not each.over:
            try:
                path, background = await family(store, each.pending.question)
                told = self._shown_as(_bounded(replace(each.pending.question, path=path)))
                new = NewQuestion(told, self._owner, background, seconds, self._here, mark)
                each.row = await store.questions.put(new)
            except CannotAsk as why:
                log.info("a question is not asked elsewhere: %s", why)
                if self._here:
                    return
                if isinstance(why, NobodyAvailable):
                    each.fail(why)
                else:
                    each.take(unasked(why))
                return
            except GenCodeError as trouble:
                log.info("a question is not asked elsewhere for now: %s", trouble)
                await asyncio.wait([each.late], timeout=pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            else:
                self._look_on(store)
                if each.over:
                    await _withdraw(store.questions, each.row)
                return

    async def _settle(self, rows: QuestionStore, each: "_OpenQuestion", answer: Answer) -> Answer:
        """The answer that applies after somebody here has answered, or nobody; a late answer is reported."""
        applies, late = answer, ""
        if each.row is not None:  # otherwise nobody else can have seen it yet
            try:
                applies, late = await self._first(rows, each, each.row, answer)
                each.row = None
            except CannotAsk as lost:  # another process has its task by now
                applies, late = unasked(lost), GONE
                each.row = None
            except GenCodeError as trouble:
                log.info("an answer applies only here: %s", trouble)
        self._tell_late(each, late)
        if not late:
            self._keep(each.pending.question, answer)
        return applies

    async def _first(
        self, rows: QuestionStore, each: "_OpenQuestion", number: int, answer: Answer
    ) -> tuple[Answer, str]:
        """The first answer to a question, and what to report to whoever gave this one if it came later."""
        if answer.silent:
            earlier = await self._surely(lambda: rows.withdraw(number))
        else:
            earlier = await rows.settle(number, answer, who_answers())
        valid = None if earlier is None else self._checked(each, earlier)
        if valid is None:
            return answer, ""
        if answer.silent:
            return valid, ""
        by = ""
        with suppress(GenCodeError):
            by = await rows.who(each.pending.question.task, each.pending.question.call)
        return valid, LATE.format(by=by or "somebody elsewhere")

    async def _surely(self, do: Callable[[], Awaitable[T]]) -> T:
        """Do something with the store; if nobody is here, nothing else can decide, so it is retried."""
        pause = SHORTEST_PAUSE
        while True:
            try:
                return await do()
            except GenCodeError as trouble:
                if self._here:
                    raise
                log.warning("it is not known what was answered: %s", trouble)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _checked(self, each: "_OpenQuestion", said: Answer) -> Answer | None:
        """An answer from elsewhere as it applies; one that covers more than was asked is ignored here."""
        try:
            check_answer(each.pending.question, said)
        except UserMistake as mistake:
            log.warning("an answer from elsewhere is ignored: %s", mistake)
            return None if self._here else unasked(mistake)
        return kept_there(said)

    # People who are here, whoever asks.

    async def _given(self, each: "_OpenQuestion") -> Answer:
        """The first answer, from here or read from the row; silence after the time limit."""
        if self._person is None:
            each.begin()
            return await each.given
        shown = asyncio.ensure_future(self._shown_to(self._person, each))
        shown.add_done_callback(lambda done: _hand_over(done, each.given))
        try:
            return await each.given
        finally:
            shown.cancel()
            await asyncio.wait([shown])

    async def _shown_to(self, person: Person, each: "_OpenQuestion") -> Answer:
        """The answer of a person, once this question is first in the queue."""
        async with self._turn:
            return await person.answer(each.begin())

    @contextmanager
    def _listed(self, each: "_OpenQuestion") -> Generator[None]:
        """Lists a question while it waits for people here."""
        number = each.pending.number
        self._waiting[number] = each
        self._tell_changed()
        try:
            yield
        finally:
            each.close()
            del self._waiting[number]
            self._tell_changed()

    def _drawn(self) -> int:
        while (number := secrets.randbelow(NUMBERS)) in self._waiting:
            pass
        return number

    def _tell_changed(self) -> None:
        if self._changed is not None:
            self._changed(self.waiting())

    def _tell_late(self, each: "_OpenQuestion", why: str) -> None:
        """Report to whoever answered here whether the answer came too late."""
        each.late.set_result(why)
        if why and self._late is not None:
            self._late(why)

    def _keep(self, question: Question, answer: Answer) -> None:
        if answer.allow and answer.reach == "always" and self._always:
            for rule in question.rules_of(answer):
                self._always(rule)

    # What is new in the store: answers to what is asked here, and questions of others.

    def _look_on(self, store: Store) -> None:
        """Start reading the store, unless that has started."""
        if self._looking is None or self._looking.done():
            self._looking = asyncio.get_running_loop().create_task(self._keep_looking(store))
            self._looking.add_done_callback(_logged)

    async def _keep_looking(self, store: Store) -> None:
        """Read the store as long as there is something to look for."""
        pause = SPACING_SECONDS
        async for _ in store.changes.looks(LOOK_SECONDS):
            if self._presence is None and not self._unanswered():
                return
            try:
                await self._look(store)
                pause = SPACING_SECONDS
            except GenCodeError as trouble:
                if pause == SPACING_SECONDS:
                    log.warning("questions of other processes cannot be looked up: %s", trouble)
                pause = min(max(2 * pause, SHORTEST_PAUSE), LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _look(self, store: Store) -> None:
        rows = store.questions
        if asked := self._unanswered():
            said = await rows.answers(tuple(asked))
            for number, each in asked.items():
                self._hear(each, number in said, said.get(number))
        if self._presence is not None:
            presence = self._presence()
            await self._say_here(store, presence)
            found = await rows.news(presence)
            if self._presence is not None:
                self._show(store, found)

    def _unanswered(self) -> dict[int, "_OpenQuestion"]:
        """The questions of agents here that may be answered elsewhere."""
        waits = (each for each in self._asked if not (each.ignored or each.given.done()))
        return {each.row: each for each in waits if each.row is not None}

    def _hear(self, each: "_OpenQuestion", there: bool, said: Answer | None) -> None:
        """Apply what the row of a question says."""
        if there and said is None:
            return
        answer = self._checked(each, said) if said is not None else None
        if said is None and not self._here:
            answer = unasked(CannotAsk(LOST))
        each.ignored = answer is None
        if answer is not None:
            each.take(answer)

    async def _say_here(self, store: Store, presence: Presence) -> None:
        now = time.monotonic()
        if now - self._said_at > HERE_SECONDS / 3:
            await store.questions.here(presence, HERE_SECONDS)
            self._said_at = now

    def _show(self, store: Store, found: Sequence[QuestionRow]) -> None:
        """Show new questions, and withdraw those that were answered elsewhere or are no longer open.

        A question that was answered here stays until the answer has been written.
        """
        waiting = {each.number for each in found}
        gone = [number for number in self._shown if number not in waiting | self._handed_over]
        for number in gone:
            self._shown.pop(number).cancel()
        self._done &= waiting
        for each in found:
            if each.number not in self._shown and each.number not in self._done:
                self._shown[each.number] = self._do(self._ask_for_others(store, each))

    async def _ask_for_others(self, store: Store, row: QuestionRow) -> None:
        """Ask here what an agent of another process asks, and write the answer."""
        each = _OpenQuestion(self._drawn(), shown_from(row), self._seconds)
        number, late = row.number, ""
        self._done.add(number)
        try:
            with self._listed(each):
                answer = await self._given(each)
                if answer.silent:
                    return
                self._handed_over.add(number)
                try:
                    await store.questions.answer(number, answer, who_answers())
                except UserMistake as mistake:
                    log.warning("an answer could not be handed over: %s", mistake)
                    late = str(mistake)
                    if isinstance(mistake, StoreTrouble):
                        self._done.discard(number)  # so that it is asked again
                self._tell_late(each, late)
                if not late:
                    self._keep(row.question, answer)
        finally:
            self._handed_over.discard(number)
            if self._shown.get(number) is asyncio.current_task():
                del self._shown[number]

    def _do(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Run something beside; the desk is not closed before it is done."""
        task = asyncio.get_running_loop().create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)
        task.add_done_callback(_logged)
        return task


async def family(store: Store, question: Question) -> tuple[tuple[str, ...], bool]:
    """The agents from the first one down to the one that asks, and whether any is in the background."""
    names: list[str] = []
    background = False
    task: str | None = question.task
    while task and len(names) < DEEPEST:
        found = await store.task(task)
        if found is None:
            break
        names.append(found.agent)
        asks = task == question.task
        background = background or (found.terms.background and not (asks and question.waited))
        task = found.parent
    path = tuple(reversed(names))
    return path if len(path) > len(question.path) else question.path, background


def shown_from(row: QuestionRow) -> Question:
    """A question as it is shown away from where it was asked: with its place and times."""
    left = None if row.left is None else round(row.left, 1)
    now = time.time()
    until = None if left is None else round(now + left, 1)
    away = QuestionOrigin(row.folder, row.place, row.background, left, round(now - row.asked, 1))
    return replace(row.question, away=away, patience=AnswerTimeout(most=left), until=until)


def who_answers() -> str:
    """The name of whoever answers from here, for those who come too late."""
    try:
        return f"{getpass.getuser()} on {socket.gethostname()}"
    except (OSError, KeyError):
        return f"somebody on {socket.gethostname()}"


def unasked(why: UserMistake) -> Answer:
    """The answer that stands for a question that could not be asked."""
    return Answer(False, why=str(why).removesuffix("."), by=DecidedBy.NOBODY)


def _bounded(question: Question) -> Question:
    """The question with a long preview cut if nobody can read on; the call itself is never cut."""
    if len(question.preview) <= LONGEST_PREVIEW:
        return question
    rest = len(question.preview) - LONGEST_PREVIEW
    return replace(
        question,
        preview=f"{question.preview[:LONGEST_PREVIEW]}\n… {rest:,} more characters that are not shown",
    )


async def _withdraw(rows: QuestionStore, number: int) -> None:
    """Withdraw a question that nobody waits for; if that fails, it expires."""
    with suppress(GenCodeError):
        await rows.withdraw(number)


def _hand_over(shown: "asyncio.Future[Answer]", given: "asyncio.Future[Answer]") -> None:
    """Use the answer of the person at the screen, unless somebody else was faster."""
    if given.done():
        return
    if shown.cancelled():
        given.set_result(NOBODY)
    elif error := shown.exception():
        given.set_exception(error)
    else:
        given.set_result(shown.result())


def _logged(done: "asyncio.Task[None]") -> None:
    """Log a fault of work that runs beside."""
    if not done.cancelled() and (error := done.exception()) is not None:
        log.error("the question desk has a fault", exc_info=error)
