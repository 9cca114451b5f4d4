"""The person at the screen: shown one question at a time, and never answering by what they were typing."""

import asyncio
from typing import TYPE_CHECKING

from textual.screen import Screen

from gencode.runtime.asking import Answer, Question
from gencode.surfaces.tui.dialogs import NO, AskScreen, InquiryScreen

if TYPE_CHECKING:
    from gencode.surfaces.tui.app import TerminalApp


class ScreenPerson:
    """Shows questions as dialogs of the app."""

    def __init__(self, app: "TerminalApp") -> None:
        self._app = app

    async def answer(self, question: Question) -> Answer:
        """Show one question and wait; it goes away when somebody else answers it."""
        app = self._app
        waiting = len(app.broker.waiting())
        screen: Screen[Answer]
        if question.inquiries:
            screen = InquiryScreen(question, app.paper)
        else:
            screen = AskScreen(question, waiting, app.paper)
        app.bell()
        try:
            return await app.ask(screen) or NO
        except asyncio.CancelledError:
            _take_away(screen)
            raise


def _take_away(screen: "Screen[Answer]") -> None:
    """A question that is no longer asked disappears; what lies on it stays until it is closed."""
    if screen.is_current:
        screen.dismiss(NO)
    elif screen.is_mounted:
        screen.styles.display = "none"
