"""A question to a person in its parts: who asks, exactly what, which rule asked, and the answers by scope."""

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct

from gencode.core.errors import GenCodeError
from gencode.core.events import CallDecided, Event, MessageAdded, TaskEnded
from gencode.core.messages import ToolMessage
from gencode.core.questions import LEFT_EMPTY, Answer, Inquiry, Question, Reach
from gencode.core.rules import Action, DecidedBy, Decision
from gencode.core.text import exact, exact_line, visible_line
from gencode.interfaces.render.number_format import seconds

if TYPE_CHECKING:
    from gencode.app import GenCode

MOST_LINES = 240
RUNS_COMMANDS = frozenset({"Bash"})
WITH_NETWORK = "w"
NOT_ANSWERED = "The user did not answer"
REACHES: dict[str, tuple[Reach, str]] = {
    "y": ("call", "yes, this once"),
    "a": ("agent", "yes, for this agent"),
    "t": ("subtree", "yes, for this agent and those below it"),
    "s": ("session", "yes, for this session"),
    "!": ("always", "yes, always"),
}
_TEXT_FIELDS = ("command", "url", "file_path", "path", "prompt")
_SHOWN_BY_PREVIEW = frozenset({"content", "old_string", "new_string", "edits"})
LAST_FACTS = 20
"""So many facts of an agent are looked at for what became of its question."""
FAREWELL_SECONDS = 2.0
"""So long the next question waits for what became of the one before it."""
NOT_HERE = "This question is not asked here any more"
DROPPED = "what you typed for it is dropped."
WITHDRAWN = f"{NOT_HERE} (it was answered elsewhere, its agent has ended, or its time is over); {DROPPED}"


class Choice(Struct, frozen=True):
    """One answer: the key that gives it, what it means, and what it then allows."""

    key: str
    says: str
    answer: Answer


def who(question: Question) -> str:
    """The agents from the main one down to the one that asks."""
    return " › ".join(exact_line(agent) for agent in question.path) or exact_line(question.agent)


def where(question: Question) -> list[str]:
    """The folder in which it would run and, of another process, where it was asked and how long it waits."""
    lines = [f"in {exact_line(question.cwd)}"] if question.cwd else []
    if (away := question.away) is None:
        return lines
    asked = f"asked by another process on {exact_line(away.place)}"
    if away.folder and away.folder != question.cwd:
        asked += f", for {exact_line(away.folder)}"
    behind = ", in the background" if away.background else ""
    waits = "until it is answered" if away.left is None else f"at most {seconds(away.left)} more"
    return [*lines, f"{asked}{behind}; it waits {waits}"]


def due(question: Question, inquiry: Inquiry | None = None) -> str:
    """What counts, and when, if nobody answers; empty where it waits until somebody does."""
    if question.until is None:
        return ""
    left = max(round(question.until - time.time()), 0)
    at = time.strftime("%H:%M:%S", time.localtime(question.until))
    when = f"at {at}, in {left // 60}:{left % 60:02}"
    if inquiry is None:
        return f"Without an answer it is a no {when}."
    if not inquiry.default:
        return f"Without an answer nothing is decided {when}."
    return f"Without an answer this counts {when}: {_short(inquiry.default, 200, visible_line)}"


def headline(question: Question) -> str:
    """Who wants to do what."""
    return f"{who(question)} wants to use {exact_line(question.call.name)}"


def exactly(question: Question) -> str:
    """The text that would be run, fetched or written to, then everything else the call says."""
    arguments = dict(question.call.input)
    main = next((name for name in _TEXT_FIELDS if isinstance(arguments.get(name), str)), "")
    lines = [exact(str(arguments.pop(main)))] if main else []
    for name, value in arguments.items():
        if not (question.preview and name in _SHOWN_BY_PREVIEW):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            lines.append(f"{_short(name, 40)}: {_short(text, 300)}")
    return "\n".join(lines)


def preview_lines(question: Question) -> list[str]:
    """What would change, as lines of a diff; the first of them, and how many are not shown."""
    if not question.preview:
        return []
    lines = exact(question.preview.replace("\r\n", "\n")).splitlines()
    more = [f"… {len(lines) - MOST_LINES} more lines that are not shown"] if len(lines) > MOST_LINES else []
    return [*lines[:MOST_LINES], *more]


def reason(question: Question) -> str:
    """Why a person is asked, and by which rule or policy."""
    decision = question.decision
    by = " · ".join(
        part
        for part in (
            f"rule {exact_line(decision.rule)}" if decision.rule else "",
            f"policy of {exact_line(decision.policy)}" if decision.policy else "",
        )
        if part
    )
    return exact(decision.why) + (f"\n({by})" if by else "")


def choices(question: Question) -> list[Choice]:
    """The answers there are: those beyond this call only where a rule says what they would allow."""
    found = [
        Choice(key, says, Answer(True, reach))
        for key, (reach, says) in REACHES.items()
        if question.rules or key == "y"
    ]
    if question.call.name in RUNS_COMMANDS:
        found.insert(1, Choice(WITH_NETWORK, "yes, with the network", Answer(True, network=True)))
    return [*found, Choice("n", "no", Answer(False))]


def allows(question: Question) -> str:
    """What a yes for more than this call would let through from then on."""
    return ", ".join(exact_line(rule) for rule in question.rules)


def inquiry_choices(inquiry: Inquiry) -> list[tuple[str, str]]:
    """The answers an agent offers, each with what it says about it."""
    return [(visible_line(each.label), visible_line(each.description)) for each in inquiry.options]


def answered(words: list[str]) -> Answer:
    """The answer to all inquiries of a question; for those left empty a default counts where there is one."""
    said = tuple(word.strip() for word in words)
    return Answer(True, words=said) if any(said) else Answer(False, why=LEFT_EMPTY)


def when_empty(inquiry: Inquiry) -> str:
    """What an empty answer means: the same as none."""
    default = _short(inquiry.default, 60, visible_line)
    return f"counts as: {default}" if inquiry.default else "leaves it undecided"


def _short(text: str, most: int, shown: Callable[[str], str] = exact_line) -> str:
    """`text` on one line, and how much of it is not shown."""
    line = shown(text[:most])
    return line if len(text) <= most else f"{line}… ({len(text) - most:,} more characters)"


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


async def ended_question(gen: "GenCode", question: Question) -> EndedQuestion | None:
    """What became of a question; None as long as the journal does not say."""
    task = await gen.history.task(question.task)
    facts = await gen.history.events(question.task, max(task.seq - LAST_FACTS, 0)) if task else []
    by = await gen.questions.who(question.task, question.call)
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
        self._gen: GenCode | None = None
        self._saying: asyncio.Task[None] | None = None

    def open(self, gen: "GenCode") -> None:
        """From now on the journal can be asked."""
        self._gen = gen

    async def close(self) -> None:
        """Say at once what is not said yet: the journal is about to be closed."""
        if self._saying is not None:
            self._saying.cancel()
            await self.said()
        self._gen = None

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
            if self._gen is not None:
                with suppress(GenCodeError):
                    ended = await _soon(self._gen, question)
        finally:
            became = told(ended, question).rstrip(".") if ended else ""
            self._tell(f"{NOT_HERE}. {became}; {DROPPED}" if ended else WITHDRAWN)


async def _soon(gen: "GenCode", question: Question) -> EndedQuestion | None:
    """What became of a question, as far as it becomes known soon: at least who answered it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(FAREWELL_SECONDS):
            async for _ in gen.history.changes.looks():
                if ended := await ended_question(gen, question):
                    return ended
    by = await gen.questions.who(question.task, question.call)
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
