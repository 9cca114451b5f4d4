"""The person at the screen: shown one question at a time, and never answering by what they were typing."""

import asyncio
from typing import TYPE_CHECKING

from gencode.runtime.asking import Answer, Question
from gencode.surfaces.tui.dialogs import NO, AskScreen, Dialog, InquiryScreen

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
        screen: Dialog[Answer]
        if question.inquiries:
            screen = InquiryScreen(question, app.paper)
        else:
            screen = AskScreen(question, waiting, app.paper)
        app.bell()
        try:
            return await app.ask(screen) or NO
        except asyncio.CancelledError:
            screen.withdraw()
            raise
