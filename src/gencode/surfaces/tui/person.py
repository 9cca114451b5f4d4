"""The person at the screen: shown one question at a time, and never answering by what they were typing."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from gencode.core.events import CallDecided, Event, MessageAdded, TaskEnded
from gencode.core.messages import ToolMessage
from gencode.core.rules import Action, Decision
from gencode.runtime.asking import Answer, Question
from gencode.runtime.broker import NOBODY
from gencode.runtime.questions import Relaying
from gencode.surfaces.notices import Notice
from gencode.surfaces.questions import SAID_NO
from gencode.surfaces.talk import Talk
from gencode.surfaces.tui import asking
from gencode.surfaces.tui.asking import LOOK_SECONDS, NO, AskScreen, InquiryScreen
from gencode.surfaces.visible import visible_line

if TYPE_CHECKING:
    from gencode.surfaces.tui.app import TerminalApp

LAST_FACTS = 20
"""So many facts of an agent are looked at for what became of its question."""
SAID_YES = "A person said yes"
ENDED = "It is not asked any more: its agent has ended."
LEFT_OPEN = "The question stays open for others: gen task questions shows it."


class ScreenPerson:
    """Shows questions as dialogs of the app."""

    def __init__(self, app: "TerminalApp") -> None:
        self._app = app
        self._parted = asyncio.Event()
        self._parted.set()

    async def answer(self, question: Question) -> Answer:
        """Show one question and wait; it goes away when somebody else answers it."""
        app = self._app
        with suppress(TimeoutError):  # what lies on the last one may be read for long
            async with asyncio.timeout(2 * asking.PARTING_SECONDS):
                await self._parted.wait()
        shown = InquiryScreen if question.inquiries else AskScreen
        screen = shown(question, app.paper, lambda: len(app.broker.waiting()))
        app.bell()
        try:
            answer = await app.ask(screen) or NO
        except asyncio.CancelledError:
            self._part(screen)
            raise
        if answer == NOBODY:
            app.tell(Notice(LEFT_OPEN, task=question.task))
        return answer

    def _part(self, screen: AskScreen | InquiryScreen) -> None:
        """Somebody else has answered: that is said before the next question comes; typed words are kept."""
        if words := screen.unsent:
            composer = self._app.top.composer
            composer.put(f"{composer.text.rstrip()} {words}".strip())
        if screen.part():
            self._parted.clear()
            self._app.do(self._see_off(screen))

    async def _see_off(self, screen: AskScreen | InquiryScreen) -> None:
        """Say what became of a question as soon as the journal knows, until it has gone."""
        app, became = self._app, ""
        try:
            while app.is_running and screen in app.screen_stack:
                if not became and app.talk and (became := await _fate(app.talk, screen.question)):
                    screen.tell(became)
                await asyncio.sleep(LOOK_SECONDS)
        finally:
            self._parted.set()


async def _fate(talk: Talk, question: Question) -> str:
    """What became of a question, or nothing as long as the journal does not say."""
    task = await talk.gen.store.task(question.task)
    facts = await talk.gen.store.events(question.task, max(task.seq - LAST_FACTS, 0)) if task else []
    by = await _who(talk, question)
    told = [said for event in facts if (said := _told(event, question, by))]
    ended = bool(facts) and isinstance(facts[-1].fact, TaskEnded)
    return told[-1] if told else (ENDED if ended else "")


async def _who(talk: Talk, question: Question) -> str:
    """Who answered a question, as far as that is known."""
    store = talk.gen.store
    if not isinstance(store, Relaying):
        return "elsewhere"
    by = await store.questions.who(question.task, question.call)
    return f"by {visible_line(by, 100)}" if by else "elsewhere"


def _told(event: Event, question: Question, by: str) -> str:
    match event.fact:
        case CallDecided(call=call, decision=decision) if call == question.call.id:
            return _became(decision, by)
        case MessageAdded(ToolMessage(results=results)):
            mine = [each for each in results if each.call == question.call.id]
            return f"It was answered {by}." if mine and question.inquiries else ""
        case _:
            return ""


def _became(decision: Decision, by: str) -> str:
    match decision.action:
        case Action.ASK:
            return ""
        case Action.ALLOW:
            by_person = decision.why.startswith(SAID_YES)
            return f"Answered {by}: yes." if by_person else "An answer to another question allows it by now."
        case Action.DENY:
            by_person = decision.why.startswith(SAID_NO)
            return (
                f"Answered {by}: no." if by_person else f"It was refused: {visible_line(decision.why, 200)}"
            )
