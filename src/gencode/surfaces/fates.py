"""What became of a question that was shown to a person and went away before they answered it."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from gencode.core.errors import GenCodeError
from gencode.core.events import CallDecided, Event, MessageAdded, TaskEnded
from gencode.core.messages import ToolMessage
from gencode.core.rules import Action, DecidedBy, Decision
from gencode.core.visible import visible_line
from gencode.runtime.asking import Question
from gencode.runtime.ports import Store
from gencode.runtime.questions import Relaying

LAST_FACTS = 20
"""So many facts of an agent are looked at for what became of its question."""
LOOK_SECONDS = 0.1
FAREWELL_SECONDS = 2.0
"""So long the next question waits for what became of the one before it."""
ENDED = "It is not asked any more: its agent has ended."
ELSEWHERE = "elsewhere"
NOT_HERE = "This question is not asked here any more"
DROPPED = "what you typed for it is dropped."
WITHDRAWN = f"{NOT_HERE} (it was answered elsewhere, its agent has ended, or its time is over); {DROPPED}"


def unanswered(question: Question) -> str:
    """What became of a question of an agent that nobody answered."""
    usual = any(each.default for each in question.inquiries)
    then = "the agent goes on with its default" if usual else "nothing was decided"
    return f"Nobody answered in time: {then}."


async def fate(store: Store, question: Question) -> str:
    """What became of a question, or nothing as long as the journal does not say."""
    task = await store.task(question.task)
    facts = await store.events(question.task, max(task.seq - LAST_FACTS, 0)) if task else []
    by = await _who(store, question)
    if question.inquiries and by != ELSEWHERE:
        return _heard(by)
    told = [said for event in facts if (said := _told(event, question, by))]
    ended = bool(facts) and isinstance(facts[-1].fact, TaskEnded)
    return told[-1] if told else (ENDED if ended else "")


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
        became = ""
        try:
            if self._store is not None:
                with suppress(GenCodeError):
                    became = await _soon(self._store, question)
        finally:
            words = became.rstrip(".")
            self._tell(f"{NOT_HERE}. {words}; {DROPPED}" if words else WITHDRAWN)


async def _soon(store: Store, question: Question) -> str:
    """What became of a question, as far as it becomes known soon: at least who answered it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(FAREWELL_SECONDS):
            while True:
                if became := await fate(store, question):
                    return became
                await asyncio.sleep(LOOK_SECONDS)
    by = await _who(store, question)
    return "" if by == ELSEWHERE else _heard(by)


async def _who(store: Store, question: Question) -> str:
    """Who answered a question, as far as that is known."""
    if not isinstance(store, Relaying):
        return ELSEWHERE
    by = await store.questions.who(question.task, question.call)
    return f"by {visible_line(by, 100)}" if by else ELSEWHERE


def _heard(by: str) -> str:
    return f"It was answered {by}."


def _told(event: Event, question: Question, by: str) -> str:
    match event.fact:
        case CallDecided(call=call, decision=decision) if call == question.call.id and not question.inquiries:
            return _became(decision, by)
        case MessageAdded(ToolMessage(results=results)) if question.inquiries:
            mine = [each for each in results if each.call == question.call.id]
            silent = any(each.trace.unanswered for each in mine)
            return unanswered(question) if silent else (_heard(by) if mine else "")
        case _:
            return ""


def _became(decision: Decision, by: str) -> str:
    match decision.action:
        case Action.ASK:
            return ""
        case Action.ALLOW:
            by_person = decision.by is DecidedBy.USER
            return f"Answered {by}: yes." if by_person else "An answer to another question allows it by now."
        case Action.DENY:
            by_person = decision.by is DecidedBy.USER
            return (
                f"Answered {by}: no." if by_person else f"It was refused: {visible_line(decision.why, 200)}"
            )
