"""Routes the questions of an agent: to its parent first, then to a person.

The parent may run in any process of the same store. It reads the question as a message, and the first message
that it sends back after that is the answer. A parent that is not running is neither asked nor resumed. A
parent that has read the question, makes no more calls and only waits for the agents that ask has ignored it.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from contextlib import nullcontext
from math import inf

from msgspec import Struct

from gencode.agent.plugin_calls import run_detached
from gencode.core.errors import StoreTrouble, UserMistake
from gencode.core.events import MessageAdded
from gencode.core.messages import AssistantMessage, ToolCall, unanswered
from gencode.core.questions import (
    LEFT_EMPTY,
    Answer,
    AnswerTimeout,
    Asker,
    Inquiry,
    InquiryResult,
    NobodyAvailable,
    Question,
    TimedAsker,
    silence,
)
from gencode.core.rules import Action, DecidedBy, Decision
from gencode.core.status import Status
from gencode.core.task import Task, last_start, transcript_of
from gencode.core.text import disarmed, quoted
from gencode.journal.store import Store, TaskQuery
from gencode.sessions.session import Caller
from gencode.tasks.control import TaskControl
from gencode.tasks.deadline import remaining
from gencode.tasks.delivery import AgentInbox, as_delivered, undelivered
from gencode.tasks.queries import readable_events
from gencode.tasks.running_task import LocalTask, RunningTask
from gencode.tasks.supervisor import Supervisor
from gencode.tasks.watch import TaskWatcher

log = logging.getLogger(__name__)

NOBODY = "Nobody is available to answer"
SILENCE = "Nobody answered in time"
UNDECIDED = "The user did not answer"
PERSON = "The user"
ASKING = Decision(Action.ASK, "An agent asks for a decision.")
ANSWERS_WITH = "SendMessage"
ASKS_WITH = "AskUserQuestion"
AT_WORK = (Status.PENDING, Status.RUNNING)
SHARE_OF_PARENT = 0.5
SHARE_OF_PERSON = 0.75
"""A question may take this part of the agent's remaining time, so that it can continue with the default."""
LOOK_SECONDS = 0.5
"""The interval at which it is checked whether the parent may still answer."""


class ParentAgent(Struct, frozen=True):
    """The parent that is asked first; it `waits` if it has to stop waiting to read the question."""

    task: str
    agent: str
    waits: bool


class ParentQuestion(Struct, frozen=True):
    """A question to a parent: the task that asks, the number of the message, the last event before it."""

    child: str
    parent: str
    number: int
    before: int


class QuestionRouter:
    """Brings the questions of an agent to whoever can answer.

    A parent has `parent_seconds` to answer, and then a person `person_seconds`.
    """

    def __init__(
        self,
        store: Store,
        supervisor: Supervisor,
        watch: TaskWatcher,
        control: TaskControl,
        parent_seconds: float,
        person_seconds: float,
    ) -> None:
        self._store = store
        self._supervisor = supervisor
        self._watch = watch
        self._control = control
        self._parent_seconds = parent_seconds
        self._person_seconds = person_seconds

    async def ask(
        self, caller: Caller, inbox: AgentInbox, inquiries: Sequence[Inquiry], call: ToolCall
    ) -> InquiryResult:
        """The answers, from the parent if it gives them in time, else from a person."""
        job = self._supervisor.local(caller.task or "")
        alone = job is not None and job.setup.gate.approvals.unattended
        waited = job is not None and not job.task.terms.background
        parent = await self._parent(job) if job is not None else None
        if job is not None and parent is not None:
            with (
                caller.session.asker.parking()
                if isinstance(caller.session.asker, TimedAsker)
                else nullcontext()
            ):
                if await self._answered_by(job, parent, inbox, inquiries):
                    return InquiryResult(by=f"The agent {parent.agent}", later=True)
        nobody = InquiryResult(by=SILENCE if parent else NOBODY, silent=True)
        if caller.session.asker is None or alone:
            return nobody
        question = Question(
            task=caller.task or "",
            agent=caller.lineage[-1],
            call=call,
            decision=ASKING,
            path=caller.lineage,
            inquiries=tuple(inquiries),
            waited=waited,
            patience=AnswerTimeout(self._person_seconds, self._share(job, SHARE_OF_PERSON)),
        )
        try:
            answer = await _asked(caller.session.asker, question)
        except NobodyAvailable:
            return nobody
        words = tuple(each.strip() for each in answer.words)
        if any(words):
            return InquiryResult(by=PERSON, words=words)
        return InquiryResult(
            by=answer.why or (LEFT_EMPTY if words else UNDECIDED), silent=answer.by is not DecidedBy.USER
        )

    def _share(self, asks: RunningTask | None, share: float) -> float | None:
        """This part of the seconds until an agent ends; None without a limit."""
        left = remaining(asks, self._supervisor.find)
        return None if left is None else left * share

    async def _parent(self, job: LocalTask) -> ParentAgent | None:
        """The running parent of a task, here or in another process, if it can answer."""
        parent_id = job.task.parent
        if parent_id is None or job.task.imported:  # the parent that a file names gives no rights
            return None
        here = self._supervisor.local(parent_id)
        if here is not None:
            waits = job.sent_back is not None
            return (
                ParentAgent(here.id, here.setup.agent, waits) if ANSWERS_WITH in here.setup.toolbox else None
            )
        try:
            found = await self._at_work(parent_id)
            events, _ = await readable_events(self._store, parent_id)
        except StoreTrouble as trouble:
            log.warning("task %s cannot be asked: %s", parent_id, trouble)
            return None
        begun = last_start(events)
        if found is None or begun is None or ANSWERS_WITH not in begun.tools:
            return None
        open_calls = {each.id for each in unanswered(transcript_of(events))}
        return ParentAgent(
            found.id, found.agent, not job.task.terms.background and job.task.created.call in open_calls
        )

    async def _answered_by(
        self, job: LocalTask, parent: ParentAgent, inbox: AgentInbox, inquiries: Sequence[Inquiry]
    ) -> bool:
        """Whether the parent answers with a message; a wait for this agent ends, so that it reads the
        question.
        """
        known = [each.number for each in await self._store.unread_messages(job.id)]
        after = max(known, default=job.task.delivered.mailed)
        share = self._share(job, SHARE_OF_PARENT)
        seconds = self._parent_seconds if share is None else min(self._parent_seconds, share)
        try:
            found = await self._store.task(parent.task)
            number = await self._control.post(parent.task, question_message(job, inquiries, seconds), job.id)
        except UserMistake as mistake:
            log.info("task %s is not asked: %s", parent.task, mistake)
            return False
        if parent.waits:
            await self._supervisor.move_to_background(job, attended=True)
        asked = ParentQuestion(job.id, parent.task, number, found.seq if found else 0)
        until = time.monotonic() + seconds
        last = False
        while True:
            while (came := inbox.next_from(parent.task, after)) is not None:
                after = came
                if await self._has_heard(parent.task, number):
                    return True
            if last:
                return False
            if not await self._comes(inbox, asked, after, until):
                last = True
                for posted in await self._store.unread_messages(
                    job.id
                ):  # it may have answered just before its end
                    inbox.put(posted)

    async def _comes(self, inbox: AgentInbox, asked: ParentQuestion, after: int, until: float) -> bool:
        """Wait for a message of the parent; False if it ignores the question, or the time is up."""
        posted = asyncio.ensure_future(inbox.wait_for_message(asked.parent, after))
        gone = asyncio.ensure_future(self._left(asked))
        try:
            left = max(until - time.monotonic(), 0)
            await asyncio.wait([posted, gone], timeout=left, return_when=asyncio.FIRST_COMPLETED)
            return posted.done()
        finally:
            posted.cancel()
            gone.cancel()
            await asyncio.gather(posted, gone, return_exceptions=True)

    async def _left(self, asked: ParentQuestion) -> None:
        """Wait until the parent no longer runs, or makes no more calls.

        A parent whose process died does not run.
        """
        async for _ in self._store.changes.looks(LOOK_SECONDS):
            try:
                found = await self._at_work(asked.parent)
                if found is None or (
                    found.delivered.mailed >= asked.number and await self._leaves(found, asked)
                ):
                    return
            except StoreTrouble as trouble:
                log.warning("whether task %s is running is not known: %s", asked.parent, trouble)

    async def _leaves(self, parent: Task, asked: ParentQuestion) -> bool:
        """Whether a parent that has read the question is done, and only waits for the agents that ask."""
        events, _ = await readable_events(self._store, asked.parent, asked.before)
        said = [each.fact.message for each in events if isinstance(each.fact, MessageAdded)]
        reply = said[-1] if said else None
        if not isinstance(reply, AssistantMessage) or reply.calls or reply.partial:
            return False
        for task in await self._store.tasks(TaskQuery(parent=asked.parent, statuses=AT_WORK)):
            if task.id != asked.child and not await self._asks(task.id):
                return False
        children = await self._store.tasks(TaskQuery(parent=asked.parent))
        return not any(undelivered(parent, each) for each in as_delivered(parent, children))

    async def _asks(self, task: str) -> bool:
        """Whether an agent itself waits for an answer."""
        events, _ = await readable_events(self._store, task)
        return any(each.name == ASKS_WITH for each in unanswered(transcript_of(events)))

    async def _at_work(self, task: str) -> Task | None:
        """A task that some process runs."""
        try:
            found = await self._watch.task(task)
        except StoreTrouble:
            raise
        except UserMistake:  # it was deleted
            return None
        return found if found.status is Status.RUNNING else None

    async def _has_heard(self, task: str, number: int) -> bool:
        """Whether a task has read a message: a reply from before is no answer to it."""
        found = await self._store.task(task)
        return found is None or found.delivered.mailed >= number


async def _asked(asker: Asker, question: Question) -> Answer:
    """The answer of a person; an asker without a clock of its own gets little more time than a person has.

    An asker that ignores its cancellation takes no more of the agent's time.
    """
    patience = question.patience
    seconds = patience.most if isinstance(asker, TimedAsker) else patience.in_all(inf)
    slack = None if seconds is None else min(1.0, seconds / 10)
    clock = asyncio.timeout(None if seconds is None or slack is None else seconds + slack)
    try:
        async with clock:
            return await run_detached(asker.ask(question), f"the asker {type(asker).__name__}", most=slack)
    except TimeoutError:
        if not clock.expired():
            raise
        return silence(seconds or 0.0)


def question_message(job: LocalTask, inquiries: Sequence[Inquiry], seconds: float) -> str:
    """The questions as the parent reads them."""
    lines: list[str] = []
    for number, each in enumerate(inquiries, start=1):
        lines.append(f"{number}. {each.question}")
        lines += [f"   - {option.label}: {option.description}".rstrip(": ") for option in each.options]
        lines += [f"   Without an answer: {each.default}"] if each.default else []
    asked = quoted(disarmed("\n".join(lines)))
    return (
        f"[{job.setup.agent} (task {job.id}) asks]\n"
        f"{asked}\n"
        f'[If you know the answer, send it: SendMessage(task_id="{job.id}", message="…"). Otherwise ignore '
        f"the question: after {seconds:.0f} s at most it goes to the user, if there is one.]"
    )
