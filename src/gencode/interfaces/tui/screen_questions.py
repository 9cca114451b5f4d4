"""The person at the screen: shown one question at a time, and never answering by what they were typing."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from gencode.core.errors import GenCodeError
from gencode.core.questions import Answer, Question
from gencode.interfaces.chat.notices import Notice
from gencode.interfaces.chat.question_outcome import ended_question, told
from gencode.interfaces.tui import question_dialogs
from gencode.interfaces.tui.question_dialogs import NO, AskScreen, InquiryScreen

if TYPE_CHECKING:
    from gencode.interfaces.tui.app import TerminalApp

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
            async with asyncio.timeout(2 * question_dialogs.PARTING_SECONDS):
                await self._parted.wait()
        shown = InquiryScreen if question.inquiries else AskScreen
        screen = shown(question, app.paper, lambda: len(app.desk.waiting()))
        if isinstance(screen, InquiryScreen):
            screen.stay = app.desk.stay
        app.bell()
        try:
            answer = await app.ask(screen) or NO
        except asyncio.CancelledError:
            self._part(screen)
            raise
        if answer.silent:
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
        telling = asyncio.create_task(self._tell_end(screen))
        try:
            await screen.left.wait()
        finally:
            telling.cancel()
            self._parted.set()
        await asyncio.wait([telling])

    async def _tell_end(self, screen: AskScreen | InquiryScreen) -> None:
        if (talk := self._app.talk) is None:
            return
        async for _ in talk.gen.store.changes.looks():
            with suppress(GenCodeError):  # then it is not known yet
                if ended := await ended_question(talk.gen.store, screen.question):
                    screen.tell(told(ended, screen.question))
                    return
