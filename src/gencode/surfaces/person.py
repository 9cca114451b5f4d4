"""A person at a plain terminal: shows one question at a time and reads one key's answer."""

import asyncio
import os
import sys
import termios
from contextlib import suppress

from gencode.runtime.asking import Answer, Asker, Inquiry, Question
from gencode.runtime.broker import Broker
from gencode.settings import remember
from gencode.surfaces.follow import Painter
from gencode.surfaces.plain import note
from gencode.surfaces.questions import REACHES, RUNS_COMMANDS, WITH_NETWORK, exactly, preview_lines, who
from gencode.surfaces.visible import exact, exact_line

PATIENCE = 600.0
"""Seconds after which a question that nobody answers is a no."""


def somebody_is_there() -> bool:
    """Whether a person can be asked here: both ends are a terminal, and it listens to us."""
    with suppress(OSError, ValueError, AttributeError):  # a stream may be closed, or not be there at all
        both = sys.stdin.isatty() and sys.stderr.isatty()
        return both and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    return False


def asker_for(output: str, painter: Painter) -> Asker | None:
    """Who answers questions here: the person at the terminal, or nobody."""
    if output != "text" or not somebody_is_there():
        return None
    return Broker(TerminalPerson(painter), seconds=PATIENCE, always=remember)


class TerminalPerson:
    """Asks on stderr and reads from stdin. The painter keeps still meanwhile."""

    def __init__(self, painter: Painter) -> None:
        self._painter = painter

    async def answer(self, question: Question) -> Answer:
        """Show a question until a key is pressed that answers it."""
        self._painter.hold(True)
        try:
            if question.inquiries:
                return await _inquired(question)
            note(shown(question))
            while True:
                note(choices(question))
                if (answer := understood(await _line(), question)) is not None:
                    return answer
                note("  That is none of the answers; type one of the letters, then Enter.")
        finally:
            self._painter.hold(False)


async def _inquired(question: Question) -> Answer:
    """What a person answers to everything that an agent wants to know."""
    words: list[str] = []
    for inquiry in question.inquiries:
        note(inquiry_text(question, inquiry))
        words.append(chosen(await _line(), inquiry))
    answered = any(words)
    return Answer(answered, why="" if answered else "The user did not answer", words=tuple(words))


def inquiry_text(question: Question, inquiry: Inquiry) -> str:
    """Who wants to know what, and the answers to choose from."""
    lines = [f"{who(question)} asks: {exact(inquiry.question)}"]
    for number, option in enumerate(inquiry.options, start=1):
        more = f" – {exact_line(option.description)}" if option.description else ""
        lines.append(f"    {number}  {exact_line(option.label)}{more}")
    numbers = "numbers, separated by commas," if inquiry.many else "a number"
    choose = f"{numbers} or an answer of your own" if inquiry.options else "an answer"
    return "\n".join((*lines, f"  Type {choose}, then Enter; an empty line leaves it to the agent."))


def chosen(line: str, inquiry: Inquiry) -> str:
    """What a typed line answers: the options with these numbers, or its own words; empty for nothing."""
    typed = line.strip().strip("\x04")
    parts = [part.strip() for part in typed.split(",")] if inquiry.many else [typed]
    labels = [option.label for option in inquiry.options]
    if parts and all(part.isdecimal() and 1 <= int(part) <= len(labels) for part in parts):
        return ", ".join(labels[int(part) - 1] for part in parts)
    return typed


def shown(question: Question) -> str:
    """Who wants to do exactly what, and why a person is asked."""
    lines = [f"{who(question)} wants to use {exact_line(question.call.name)}:"]
    lines += [f"    {line}" for line in exactly(question).splitlines()]
    lines += preview_lines(question)
    lines += [f"  {line}" for line in exact(question.decision.why).splitlines()]
    return "\n".join(lines)


def choices(question: Question) -> str:
    """The keys that answer."""
    keys = [f"{key} {said}" for key, (_, said) in REACHES.items() if question.rules or key == "y"]
    if question.call.name in RUNS_COMMANDS:
        keys.insert(1, f"{WITH_NETWORK} yes, with the network")
    rules = ", ".join(exact_line(rule) for rule in question.rules)
    return f"  {' · '.join(keys)} · n no, then Enter{f' (a, t, s and ! allow {rules})' if rules else ''}"


def understood(line: str, question: Question) -> Answer | None:
    """What a typed line says; None when it says nothing."""
    typed = line.strip().casefold()
    if typed in ("n", "no", "\x04"):
        return Answer(False, why="A person said no")
    if typed == "yes":
        typed = "y"
    if typed == WITH_NETWORK and question.call.name in RUNS_COMMANDS:
        return Answer(True, network=True)
    if typed in REACHES and (question.rules or typed == "y"):
        return Answer(True, REACHES[typed][0])
    return None


async def _line() -> str:
    """One typed line. What was typed before the question was shown does not answer it."""
    loop = asyncio.get_running_loop()
    terminal = sys.stdin.fileno()
    termios.tcflush(terminal, termios.TCIFLUSH)
    typed: asyncio.Future[str] = loop.create_future()

    def ready() -> None:
        with suppress(OSError):
            if not typed.done():
                typed.set_result(os.read(terminal, 4096).decode("utf-8", "replace") or "\x04")

    loop.add_reader(terminal, ready)
    try:
        return await typed
    finally:
        loop.remove_reader(terminal)
