"""Questions of agents: to the agent that sent them first, then to a person, and in the end to nobody.

The agent above may be at work in any process of the same database. It hears a question as a letter, and the
first letter that it writes after that is the answer. Who is not at work is not asked, and never woken for it.
Who has heard it, has nothing left to say and only waits for those that ask, leaves it.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import nullcontext
from math import inf

from msgspec import Struct

from gencode.core.errors import StoreTrouble, UserMistake
from gencode.core.events import MessageAdded
from gencode.core.messages import AssistantMessage, ToolCall, unanswered
from gencode.core.quoting import disarmed, quoted
from gencode.core.rules import Action, DecidedBy, Decision
from gencode.core.status import Status
from gencode.core.task import Task, transcript_of
from gencode.delegation.earlier import tools_of
from gencode.delegation.ends import end_of
from gencode.delegation.inbox import Arrivals
from gencode.delegation.live import Job, Live
from gencode.delegation.origin import Origin
from gencode.delegation.reach import Reach
from gencode.delegation.supervisor import Supervisor
from gencode.delegation.watch import Watch, facts_of
from gencode.runtime.asking import (
    LEFT_EMPTY,
    Answer,
    Asker,
    Inquiry,
    NobodyThere,
    Parking,
    Patience,
    Punctual,
    Question,
    Reply,
)
from gencode.runtime.broker import silence
from gencode.runtime.deaf import apart
from gencode.runtime.ports import Store, TaskQuery

log = logging.getLogger(__name__)

NOBODY = "Nobody can be asked here"
SILENCE = "Nobody answered in time"
UNDECIDED = "The user did not answer"
PERSON = "The user"
ASKING = Decision(Action.ASK, "An agent asks for a decision.")
ANSWERS_WITH = "SendMessage"
ASKS_WITH = "AskUserQuestion"
AT_WORK = (Status.PENDING, Status.RUNNING)
OF_REST_ABOVE = 0.5
OF_REST = 0.75
"""So much of the time that is left to an agent a question may take, so that it can go on with the default."""
LOOK_SECONDS = 0.5
"""So often is looked whether the agent that was asked may still answer."""


class Above(Struct, frozen=True):
    """The agent that is asked first; one that `waits` for who asks has to be let go to hear it."""

    task: str
    agent: str
    waits: bool


class Asked(Struct, frozen=True):
    """A question on its way: who asks, who is asked, the number of the letter, the last fact before it."""

    by: str
    above: str
    number: int
    before: int


class Inquiring:
    """Carries questions to whoever can answer them.

    `patience` is how many seconds an agent has for that, and how many a person.
    """

    def __init__(
        self, store: Store, supervisor: Supervisor, reach: Reach, watch: Watch, patience: tuple[float, float]
    ) -> None:
        self._store = store
        self._supervisor = supervisor
        self._reach = reach
        self._watch = watch
        self._agents, self._persons = patience

    async def ask(
        self, origin: Origin, inbox: Arrivals, inquiries: Sequence[Inquiry], call: ToolCall
    ) -> Reply:
        """The answers, from the agent above if it gives them in time, else from the person."""
        job = self._supervisor.find(origin.task or "")
        alone = isinstance(job, Job) and job.seat.gate.approvals.unattended
        waited = job is not None and not job.task.background
        above = await self._above(job) if isinstance(job, Job) else None
        if isinstance(job, Job) and above is not None:
            with origin.asker.parking() if isinstance(origin.asker, Parking) else nullcontext():
                if await self._answered_above(job, above, inbox, inquiries):
                    return Reply(by=f"The agent {above.agent}", later=True)
        nobody = Reply(by=SILENCE if above else NOBODY, silent=True)
        if origin.asker is None or alone:
            return nobody
        question = Question(
            *(origin.task or "", origin.lineage[-1], call, ASKING, origin.lineage),
            inquiries=tuple(inquiries),
            waited=waited,
            patience=Patience(self._persons, self._share(job, OF_REST)),
        )
        try:
            answer = await _asked(origin.asker, question)
        except NobodyThere:
            return nobody
        words = tuple(each.strip() for each in answer.words)
        if any(words):
            return Reply(by=PERSON, words=words)
        return Reply(
            by=answer.why or (LEFT_EMPTY if words else UNDECIDED), silent=answer.by is not DecidedBy.USER
        )

    def _share(self, asks: Live | None, share: float) -> float | None:
        """So much of the seconds until an agent ends; None where it has no limit."""
        end = end_of(asks, self._supervisor.find)
        return None if end is None else max(end - time.monotonic(), 0.0) * share

    async def _above(self, job: Job) -> Above | None:
        """The agent that sent this one, if it is at work, here or elsewhere, and can answer."""
        sender = job.task.parent
        if sender is None or job.task.imported:  # what a file says of its sender gives no rights
            return None
        here = self._supervisor.find(sender)
        if isinstance(here, Job):
            waits = job.sent_back is not None
            return Above(here.id, here.seat.agent, waits) if ANSWERS_WITH in here.seat.toolbox else None
        try:
            found = await self._at_work(sender)
            events, _ = await facts_of(self._store, sender)
        except StoreTrouble as trouble:
            log.warning("task %s cannot be asked: %s", sender, trouble)
            return None
        if found is None or ANSWERS_WITH not in tools_of(events):
            return None
        open_calls = {each.id for each in unanswered(transcript_of(events))}
        return Above(found.id, found.agent, not job.task.background and job.task.call in open_calls)

    async def _answered_above(
        self, job: Job, above: Above, inbox: Arrivals, inquiries: Sequence[Inquiry]
    ) -> bool:
        """Whether the agent above answers with a letter. Who waits for this one is let go, to hear it."""
        known = [each.number for each in await self._store.waiting(job.id)]
        after = max(known, default=job.task.mailed)
        share = self._share(job, OF_REST_ABOVE)
        seconds = self._agents if share is None else min(self._agents, share)
        try:
            found = await self._store.task(above.task)
            number = await self._reach.post(above.task, asked_words(job, inquiries, seconds), job.id)
        except UserMistake as mistake:
            log.info("task %s is not asked: %s", above.task, mistake)
            return False
        if above.waits:
            await self._supervisor.send_back(job)
        asked = Asked(job.id, above.task, number, found.seq if found else 0)
        until = time.monotonic() + seconds
        last = False
        while True:
            while (came := inbox.next_from(above.task, after)) is not None:
                after = came
                if await self._has_heard(above.task, number):
                    return True
            if last:
                return False
            if not await self._comes(inbox, asked, after, until):
                last = True
                for letter in await self._store.waiting(job.id):  # it may have said so just before its end
                    inbox.put(letter)

    async def _comes(self, inbox: Arrivals, asked: Asked, after: int, until: float) -> bool:
        """Wait for a letter of the one that was asked; False when it leaves it, or its time is up."""
        letter = asyncio.ensure_future(inbox.letter_from(asked.above, after))
        gone = asyncio.ensure_future(self._left(asked))
        try:
            left = max(until - time.monotonic(), 0)
            await asyncio.wait([letter, gone], timeout=left, return_when=asyncio.FIRST_COMPLETED)
            return letter.done()
        finally:
            letter.cancel()
            gone.cancel()
            await asyncio.gather(letter, gone, return_exceptions=True)

    async def _left(self, asked: Asked) -> None:
        """Wait until who was asked is not at work any more, or has nothing left to say to it.

        One whose process dies is not at work.
        """
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            try:
                found = await self._at_work(asked.above)
                if found is None or (found.mailed >= asked.number and await self._leaves(asked)):
                    return
            except StoreTrouble as trouble:
                log.warning("it is not known whether task %s is at work: %s", asked.above, trouble)

    async def _leaves(self, asked: Asked) -> bool:
        """Whether who has heard a question is done, and waits for nobody but those that ask."""
        events, _ = await facts_of(self._store, asked.above, asked.before)
        said = [each.fact.message for each in events if isinstance(each.fact, MessageAdded)]
        reply = said[-1] if said else None
        if not isinstance(reply, AssistantMessage) or reply.calls or reply.partial:
            return False
        for task in await self._store.tasks(TaskQuery(parent=asked.above, statuses=AT_WORK)):
            if task.id != asked.by and not await self._asks(task.id):
                return False
        return True

    async def _asks(self, task: str) -> bool:
        """Whether an agent waits for an answer itself."""
        events, _ = await facts_of(self._store, task)
        return any(each.name == ASKS_WITH for each in unanswered(transcript_of(events)))

    async def _at_work(self, task: str) -> Task | None:
        """A task that somebody is at."""
        try:
            found = await self._watch.task(task)
        except StoreTrouble:
            raise
        except UserMistake:  # it was deleted
            return None
        return found if found.status is Status.RUNNING else None

    async def _has_heard(self, task: str, number: int) -> bool:
        """Whether a task has taken a letter: what it wrote before is no answer to that."""
        found = await self._store.task(task)
        return found is None or found.mailed >= number


async def _asked(asker: Asker, question: Question) -> Answer:
    """What a person says; who does not look at the clock is not waited for much longer than a person is.

    Who does not even heed that it is over takes no more of what is left to the agent.
    """
    patience = question.patience
    seconds = patience.most if isinstance(asker, Punctual) else patience.in_all(inf)
    slack = None if seconds is None else min(1.0, seconds / 10)
    clock = asyncio.timeout(None if seconds is None or slack is None else seconds + slack)
    try:
        async with clock:
            return await apart(asker.ask(question), f"the asker {type(asker).__name__}", most=slack)
    except TimeoutError:
        if not clock.expired():
            raise
        return silence(seconds or 0.0)


def asked_words(job: Job, inquiries: Sequence[Inquiry], seconds: float) -> str:
    """The questions as the agent above reads them."""
    lines: list[str] = []
    for number, each in enumerate(inquiries, start=1):
        lines.append(f"{number}. {each.question}")
        lines += [f"   - {option.label}: {option.description}".rstrip(": ") for option in each.options]
        lines += [f"   Without an answer: {each.default}"] if each.default else []
    asked = quoted(disarmed("\n".join(lines)))
    return (
        f"[{job.seat.agent} (task {job.id}) asks]\n"
        f"{asked}\n"
        f'Answer with SendMessage(task_id="{job.id}", message="…") if you know it. Otherwise leave it: once '
        f"you only wait for it, or after {seconds:.0f} s, the user is asked, or it goes on without an answer."
    )
