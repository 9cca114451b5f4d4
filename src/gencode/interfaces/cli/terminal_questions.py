"""Asks questions in a plain terminal, one at a time, and reads the answers line by line."""

import asyncio
import os
import re
import sys
import termios
from collections.abc import Callable
from contextlib import suppress

from gencode.core.questions import NOBODY, Answer, Asker, Inquiry, Question
from gencode.core.text import exact, exact_line, visible, visible_line
from gencode.interfaces.chat.question_text import (
    WithdrawnQuestionNotice,
    answer_from_words,
    asker_path,
    call_text,
    choices,
    deadline_line,
    empty_answer_text,
    location_lines,
    preview_lines,
)
from gencode.interfaces.cli.foreground_run import RunRenderer
from gencode.interfaces.render.plain_text import note
from gencode.questions.question_desk import EVERYBODY, Audience, QuestionDesk
from gencode.settings import remember

PATIENCE = 600.0
"""Seconds after which an unanswered question is declined."""
_DECLINED = re.compile(r"(?:n|no)(?:[ \t,;:.]+(?P<why>.*))?", re.IGNORECASE | re.DOTALL)
"""A no, optionally followed by what to do instead."""
AGAIN = (
    "The previous question was withdrawn, so your line was ignored in case it was meant for that one. Answer "
    "the question above:"
)


def somebody_is_there() -> bool:
    """Whether a person can be asked here: both ends are a terminal, and it listens to us."""
    with suppress(OSError, ValueError, AttributeError):  # a stream may be closed, or not be there at all
        both = sys.stdin.isatty() and sys.stderr.isatty()
        return both and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    return False


def drop_typed() -> None:
    """Forget what was typed at the terminal and not read yet; nothing where there is none."""
    with suppress(termios.error, OSError, ValueError, AttributeError):
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


class Keyboard:
    """The lines typed at the terminal.

    A line typed before it is asked for is not an answer. `unasked` gets lines that are typed while no
    question waits; without it they are left to the shell.
    """

    def __init__(self, unasked: Callable[[str], None] | None = None) -> None:
        self.left = asyncio.Event()
        """Set once nothing more can be typed here."""
        self.doubt = StaleInput()
        self._unasked = unasked
        self._waits: asyncio.Future[str] | None = None

    def open(self) -> None:
        """Listen from now on."""
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._ready)

    async def line(self, prompt: str) -> str:
        """One line that is typed once `prompt` is shown; EOFError when there comes no more."""
        drop_typed()
        note(prompt)
        self._waits = asyncio.get_running_loop().create_future()
        self.open()
        try:
            return await self._waits
        finally:
            self._waits = None
            if self._unasked is None:
                self._close()

    def _ready(self) -> None:
        try:
            typed = os.read(sys.stdin.fileno(), 4096).decode("utf-8", "replace")
        except OSError:  # on Linux this means that the window was closed
            typed = ""
        waits = self._waits if self._waits is not None and not self._waits.done() else None
        if not typed:
            self._close()
            self.left.set()
            if waits is not None:
                waits.set_exception(EOFError())
        elif waits is not None:
            waits.set_result(typed)
        elif self._unasked is not None:
            self.doubt.about_this()
            self._unasked(typed)

    def _close(self) -> None:
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())


def asker_for(output: str, renderer: RunRenderer) -> Asker | None:
    """The person who answers questions here: at the terminal, or none."""
    if output != "text" or not somebody_is_there():
        return None
    return TerminalDesk(TerminalPrompt(renderer), seconds=PATIENCE)


class LinePrompt:
    """A person who answers with lines, and is shown questions by `say`.

    Who leaves (the end of the input, a closed window) answers nothing.
    """

    def __init__(self, say: Callable[[str], None], doubt: "StaleInput") -> None:
        self._say = say
        self._doubt = doubt
        self.farewell = WithdrawnQuestionNotice(say)

    async def line(self, prompt: str) -> str:
        """One line that is typed once `prompt` is shown; EOFError when there comes no more."""
        raise NotImplementedError

    async def answer(self, question: Question) -> Answer:
        """Show a question until a line is typed that answers it."""
        await self.farewell.wait_shown()
        try:
            return await (self._inquired(question) if question.inquiries else self._decided(question))
        except EOFError:
            return NOBODY
        except asyncio.CancelledError:
            self._doubt.gone()
            self.farewell.show(question)
            raise

    async def _decided(self, question: Question) -> Answer:
        self._say(shown(question))
        while True:
            answer = understood(await self.line(choices_line(question)), question)
            doubtful = self._doubt.about_this()
            if answer is None:
                self._say("  That is not one of the answers. Type one of the letters, then Enter.")
            elif doubtful:
                self._say(f"  {AGAIN}")
            else:
                return answer

    async def _inquired(self, question: Question) -> Answer:
        """What a person answers to everything that an agent wants to know."""
        words: list[str] = []
        for inquiry in question.inquiries:
            line = await self.line(inquiry_text(question, inquiry))
            while self._doubt.about_this():
                line = await self.line(f"  {AGAIN}")
            words.append(chosen(line, inquiry))
        return answer_from_words(words)


class TerminalPrompt(LinePrompt):
    """Asks on stderr and reads from stdin. The painter keeps still meanwhile."""

    def __init__(self, renderer: RunRenderer, keyboard: "Keyboard | None" = None) -> None:
        self._renderer = renderer
        self._keyboard = keyboard or Keyboard()
        self.line = self._keyboard.line
        super().__init__(note, self._keyboard.doubt)

    async def answer(self, question: Question) -> Answer:
        """Show a question, and nothing else until it is answered or gone."""
        self._renderer.hold(True)
        try:
            return await super().answer(question)
        finally:
            self._renderer.hold(False)


class TerminalDesk(QuestionDesk):
    """Asks the person at a plain terminal, and reports how a withdrawn question was resolved."""

    def __init__(
        self, person: TerminalPrompt, *, seconds: float | None = None, audience: Audience = EVERYBODY
    ) -> None:
        super().__init__(person, audience=audience, seconds=seconds, always=remember, late=note)
        self.farewell = person.farewell


class StaleInput:
    """Whether a line may have been meant for a question that went away, not for the one that came then."""

    def __init__(self) -> None:
        self._doubtful = False

    def gone(self) -> None:
        """A question went away before it was answered here."""
        self._doubtful = True

    def about_this(self) -> bool:
        """Whether the line that was just typed is the first one since then."""
        doubtful, self._doubtful = self._doubtful, False
        return doubtful


def inquiry_text(question: Question, inquiry: Inquiry) -> str:
    """Who wants to know what, and the answers to choose from."""
    lines = [
        f"{asker_path(question)} asks: {visible(inquiry.question)}",
        *(f"  {line}" for line in location_lines(question)),
    ]
    for number, option in enumerate(inquiry.options, start=1):
        more = f" – {visible_line(option.description)}" if option.description else ""
        lines.append(f"    {number}  {visible_line(option.label)}{more}")
    numbers = "numbers, separated by commas," if inquiry.many else "a number"
    choose = f"{numbers} or an answer of your own" if inquiry.options else "an answer"
    lines.append(f"  Type {choose}, then Enter; an empty line {empty_answer_text(inquiry)}.")
    end = deadline_line(question, inquiry)
    return "\n".join((*lines, f"  {end}") if end else lines)


def chosen(line: str, inquiry: Inquiry) -> str:
    """What a typed line answers: the options with these numbers, or its own words; empty for nothing."""
    typed = line.strip()
    parts = [part.strip() for part in typed.split(",")] if inquiry.many else [typed]
    labels = [option.label for option in inquiry.options]
    if parts and all(part.isdecimal() and 1 <= int(part) <= len(labels) for part in parts):
        return ", ".join(labels[int(part) - 1] for part in parts)
    return typed


def shown(question: Question) -> str:
    """Which agent wants to do what, and why it needs approval."""
    lines = [f"{asker_path(question)} needs approval to use {exact_line(question.call.name)}:"]
    lines += [f"    {line}" for line in call_text(question).splitlines()]
    lines += [f"  {line}" for line in location_lines(question)]
    lines += preview_lines(question)
    lines += [f"  {line}" for line in exact(question.decision.why).splitlines()]
    if question.away is None and (end := deadline_line(question)):
        lines.append(f"  {end}")
    return "\n".join(lines)


def choices_line(question: Question) -> str:
    """The keys that answer."""
    keys = [f"{each.key} {each.says}" for each in choices(question)]
    keys.append("n TEXT decline, do TEXT instead")
    rules = ", ".join(exact_line(rule) for rule in question.rules)
    lasting = f" (a, t, s and ! allow {rules})" if rules else ""
    return f"  {' · '.join(keys)}; then Enter{lasting}"


def understood(line: str, question: Question) -> Answer | None:
    """The answer in a typed line; None when it is empty."""
    typed = line.strip().casefold()
    if declined := _DECLINED.fullmatch(line.strip()):
        return Answer(False, why=(declined["why"] or "").strip())
    answers = {each.key: each.answer for each in choices(question)}
    return answers.get("y" if typed == "yes" else typed)
