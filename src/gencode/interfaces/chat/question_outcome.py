"""What became of a question that was shown to a person and went away before they answered it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum

from msgspec import Struct

from gencode.core.errors import GenCodeError
from gencode.core.events import CallDecided, Event, MessageAdded, TaskEnded
from gencode.core.messages import ToolMessage
from gencode.core.questions import Question
from gencode.core.rules import Action, DecidedBy, Decision
from gencode.core.visible import visible_line
from gencode.journal.store import Store

LAST_FACTS = 20
"""So many facts of an agent are looked at for what became of its question."""
FAREWELL_SECONDS = 2.0
"""So long the next question waits for what became of the one before it."""
NOT_HERE = "This question is not asked here any more"
DROPPED = "what you typed for it is dropped."
WITHDRAWN = f"{NOT_HERE} (it was answered elsewhere, its agent has ended, or its time is over); {DROPPED}"


class QuestionEnd(StrEnum):
    """What can become of a question."""

    APPROVED = "approved"
    DECLINED = "declined"
    ANSWERED = "answered"
    """In words, or nobody here knows how."""
    UNANSWERED = "unanswered"
    COVERED = "covered"
    """An answer to another question allows the call as well."""
    REFUSED = "refused"
    """Without an answer, for the reason that the decision gives."""
    ENDED = "ended"
    """Its agent has ended."""


class EndedQuestion(Struct, frozen=True):
    """What became of a question; `by` says who answered it (empty: that is not known)."""

    end: QuestionEnd
    by: str = ""
    why: str = ""


def told(ended: EndedQuestion, question: Question) -> str:
    """What became of a question, in a sentence for a person."""
    by = f"by {visible_line(ended.by, 100)}" if ended.by else "elsewhere"
    match ended.end:
        case QuestionEnd.APPROVED:
            return f"Answered {by}: yes."
        case QuestionEnd.DECLINED:
            return f"Answered {by}: no."
        case QuestionEnd.ANSWERED:
            return f"It was answered {by}."
        case QuestionEnd.UNANSWERED:
            return unanswered(question)
        case QuestionEnd.COVERED:
            return "An answer to another question allows it by now."
        case QuestionEnd.REFUSED:
            return f"It was refused: {visible_line(ended.why, 200)}"
        case QuestionEnd.ENDED:
            return "It is not asked any more: its agent has ended."


def unanswered(question: Question) -> str:
    """What became of a question of an agent that nobody answered."""
    usual = any(each.default for each in question.inquiries)
    then = "the agent goes on with its default" if usual else "nothing was decided"
    return f"Nobody answered in time: {then}."


async def ended_question(store: Store, question: Question) -> EndedQuestion | None:
    """What became of a question; None as long as the journal does not say."""
    task = await store.task(question.task)
    facts = await store.events(question.task, max(task.seq - LAST_FACTS, 0)) if task else []
    by = await store.questions.who(question.task, question.call)
    if question.inquiries and by:
        return EndedQuestion(QuestionEnd.ANSWERED, by)
    if found := [end for event in facts if (end := _ended(event, question, by))]:
        return found[-1]
    over = bool(facts) and isinstance(facts[-1].fact, TaskEnded)
    return EndedQuestion(QuestionEnd.ENDED) if over else None


class Farewell:
    """Tells a person at a plain terminal, in one line, what became of a question that went away."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._store: Store | None = None
        self._saying: asyncio.Task[None] | None = None

    def open(self, store: Store) -> None:
        """From now on the journal can be asked."""
        self._store = store

    async def close(self) -> None:
        """Say at once what is not said yet: the journal is about to be closed."""
        if self._saying is not None:
            self._saying.cancel()
            await self.said()
        self._store = None

    def say(self, question: Question) -> None:
        """A question went away; what became of it is said as soon as the journal knows."""
        self._saying = asyncio.get_running_loop().create_task(self._say(question))

    async def said(self) -> None:
        """Wait until that was said, so that it does not stand below the next question."""
        if self._saying is not None:
            await asyncio.wait([self._saying])

    async def _say(self, question: Question) -> None:
        ended: EndedQuestion | None = None
        try:
            if self._store is not None:
                with suppress(GenCodeError):
                    ended = await _soon(self._store, question)
        finally:
            became = told(ended, question).rstrip(".") if ended else ""
            self._tell(f"{NOT_HERE}. {became}; {DROPPED}" if ended else WITHDRAWN)


async def _soon(store: Store, question: Question) -> EndedQuestion | None:
    """What became of a question, as far as it becomes known soon: at least who answered it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(FAREWELL_SECONDS):
            async for _ in store.changes.looks():
                if ended := await ended_question(store, question):
                    return ended
    by = await store.questions.who(question.task, question.call)
    return EndedQuestion(QuestionEnd.ANSWERED, by) if by else None


def _ended(event: Event, question: Question, by: str) -> EndedQuestion | None:
    match event.fact:
        case CallDecided(call=call, decision=decision) if call == question.call.id and not question.inquiries:
            return _decided(decision, by)
        case MessageAdded(ToolMessage(results=results)) if question.inquiries:
            mine = [each for each in results if each.call == question.call.id]
            if any(each.trace.unanswered for each in mine):
                return EndedQuestion(QuestionEnd.UNANSWERED)
            return EndedQuestion(QuestionEnd.ANSWERED, by) if mine else None
        case _:
            return None


def _decided(decision: Decision, by: str) -> EndedQuestion | None:
    by_person = decision.by is DecidedBy.USER
    match decision.action:
        case Action.ASK:
            return None
        case Action.ALLOW:
            return (
                EndedQuestion(QuestionEnd.APPROVED, by) if by_person else EndedQuestion(QuestionEnd.COVERED)
            )
        case Action.DENY:
            return (
                EndedQuestion(QuestionEnd.DECLINED, by)
                if by_person
                else EndedQuestion(QuestionEnd.REFUSED, why=decision.why)
            )
