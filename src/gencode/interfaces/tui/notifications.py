"""The board: the last few lines for the person, each shown for a while."""

import time
from collections.abc import Sequence
from textwrap import wrap

from rich.text import Text

from gencode.core.visible import visible_line
from gencode.interfaces.chat.chat_session import Talk
from gencode.interfaces.chat.notices import Notice
from gencode.questions.question_desk import PendingQuestion

SECONDS = 15.0
MOST = 4
MOST_LINES = 4
STYLES = {"note": "faint", "result": "good", "warning": "warn", "error": "bad"}


class Board:
    """Keeps notices until they were in sight long enough."""

    def __init__(self) -> None:
        self._notices: list[tuple[float, Notice]] = []
        self._shown: set[str] = set()
        """The agents whose questions were brought here."""

    def put(self, notice: Notice) -> None:
        """One more line; the oldest gives way where there are too many."""
        self._notices = [*self._notices[1 - MOST :], (time.monotonic(), notice)]

    def clear(self, talk: Talk, waiting: Sequence[PendingQuestion]) -> None:
        """Take away what says that a question waits elsewhere: it is shown here, or waits no more."""
        self._shown |= {each.question.task for each in waiting}
        over = talk.asked_elsewhere.first is None
        self._notices = [
            (at, notice)
            for at, notice in self._notices
            if not notice.asks or not (over or notice.task in self._shown)
        ]

    def lines(self, width: int) -> list[Text]:
        """The lines that are still shown, broken where the screen ends."""
        since = time.monotonic() - SECONDS
        self._notices = [each for each in self._notices if each[0] >= since]
        return [
            Text(line, STYLES[notice.kind])
            for _, notice in self._notices
            for line in wrap(
                f"• {visible_line(notice.text, 600)}", max(width - 4, 20), subsequent_indent="  "
            )[:MOST_LINES]
        ]
