"""The texts of a question to the user: who asks, for what, why, the answers, and how it was resolved."""

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
from gencode.interfaces.chat.notices import report_errors
from gencode.interfaces.render.number_format import seconds

if TYPE_CHECKING:
    from gencode.app import GenCode

MAX_PREVIEW_LINES = 240
RUNS_COMMANDS = frozenset({"Bash"})
WITH_NETWORK = "w"
WITH_NETWORK_SAYS = "approve once, with network access"
INSTEAD = "i"
INSTEAD_SAYS = "decline, and say what to do instead"
INSTEAD_ASKS = "What should it do instead?"
NOT_ANSWERED = "The user did not answer"
REACHES: dict[str, tuple[Reach, str]] = {
    "y": ("call", "approve once"),
    "a": ("agent", "approve for this agent"),
    "t": ("subtree", "approve for this agent and its subagents"),
    "s": ("session", "approve for all agents in this session"),
    "!": ("always", "always approve, in every folder"),
}
_TEXT_FIELDS = ("command", "url", "file_path", "path", "prompt")
_SHOWN_BY_PREVIEW = frozenset({"content", "old_string", "new_string", "edits"})
LAST_EVENTS = 20
"""How many events of an agent are searched for the outcome of its question."""
OUTCOME_SECONDS = 2.0
"""How long the next question waits for the outcome of the one before it."""
WITHDRAWN = "Question withdrawn"
DISCARDED = "Your input for it was discarded."
WITHDRAWN_UNKNOWN = f"{WITHDRAWN}: answered elsewhere, expired, or its agent has finished. {DISCARDED}"


class Choice(Struct, frozen=True):
    """One answer: the key that gives it, what it means, and what it then allows."""

    key: str
    says: str
    answer: Answer


def asker_path(question: Question) -> str:
    """The agents from the main one down to the one that asks."""
    return " › ".join(exact_line(agent) for agent in question.path) or exact_line(question.agent)


def location_lines(question: Question, here: str = "") -> list[str]:
    """The folder it would run in unless that is `here`; for other processes where, and how long it waits."""
    lines = [f"in {exact_line(question.cwd)}"] if question.cwd not in ("", here) else []
    if (away := question.away) is None:
        return lines
    asked = f"from another process on {exact_line(away.place)}"
    if away.folder and away.folder != question.cwd:
        asked += f", for {exact_line(away.folder)}"
    behind = ", in the background" if away.background else ""
    waits = "waits until answered" if away.left is None else f"expires in {seconds(away.left)}"
    return [*lines, f"{asked}{behind}; {waits}"]


def deadline_line(question: Question, inquiry: Inquiry | None = None) -> str:
    """What happens, and when, if nobody answers; empty where it waits until somebody does."""
    if question.until is None:
        return ""
    left = max(round(question.until - time.time()), 0)
    when = f"in {left // 60}:{left % 60:02}"
    if inquiry is None:
        return f"Will be declined {when} unless you answer"
    if not inquiry.default:
        return f"Expires {when} without a decision"
    return f"Default {when}: {_short(inquiry.default, 200, visible_line)}"


def headline(question: Question) -> str:
    """Who wants to do what."""
    return f"{asker_path(question)} needs approval to use {exact_line(question.call.name)}"


def call_text(question: Question) -> str:
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
    more = (
        [f"… {len(lines) - MAX_PREVIEW_LINES} more lines that are not shown"]
        if len(lines) > MAX_PREVIEW_LINES
        else []
    )
    return [*lines[:MAX_PREVIEW_LINES], *more]


def reason(question: Question) -> str:
    """Why a person is asked, and by which rule or policy."""
    decision = question.decision
    by = " · ".join(
        part
        for part in (
            f"rule {exact_line(decision.rule)}" if decision.rule else "",
            f"set by: {exact_line(decision.policy)} policy" if decision.policy else "",
        )
        if part
    )
    return exact(decision.why) + (f" ({by})" if by else "")


def choices(question: Question) -> list[Choice]:
    """The possible answers: those beyond this call only where a rule says what they would allow."""
    found = [
        Choice(key, says, Answer(True, reach))
        for key, (reach, says) in REACHES.items()
        if question.rules or key == "y"
    ]
    if asks_for_network(question):
        found[0] = Choice("y", WITH_NETWORK_SAYS, Answer(True, network=True))
    elif question.call.name in RUNS_COMMANDS:
        found.insert(1, Choice(WITH_NETWORK, WITH_NETWORK_SAYS, Answer(True, network=True)))
    if question.prefixes:
        rules = ", ".join(exact_line(rule) for rule in question.prefixes)
        found.append(
            Choice(
                "p",
                f"always approve, in every folder, with any arguments: {rules}",
                Answer(True, "always", prefix=True),
            )
        )
    return [*found, Choice("n", "decline", Answer(False))]


def asks_for_network(question: Question) -> bool:
    """Whether the call itself asks for the network, so that an approval of it gives that."""
    wish = question.call.input.get("network") if question.call.name in RUNS_COMMANDS else None
    return isinstance(wish, str) and bool(wish.strip())


def rules_text(question: Question) -> str:
    """The rules that an approval for more than this call would add."""
    return ", ".join(exact_line(rule) for rule in question.rules)


def inquiry_choices(inquiry: Inquiry) -> list[tuple[str, str]]:
    """The answers an agent offers, each with what it says about it."""
    return [(visible_line(each.label), visible_line(each.description)) for each in inquiry.options]


def answer_from_words(words: list[str]) -> Answer:
    """The answer to all inquiries of a question; empty ones get their default, if there is one."""
    said = tuple(word.strip() for word in words)
    return Answer(True, words=said) if any(said) else Answer(False, why=LEFT_EMPTY)


def empty_answer_text(inquiry: Inquiry) -> str:
    """What an empty answer means: the same as none."""
    default = _short(inquiry.default, 60, visible_line)
    return f"selects the default: {default}" if inquiry.default else "leaves it undecided"


def _short(text: str, most: int, shown: Callable[[str], str] = exact_line) -> str:
    """`text` on one line, and how much of it is not shown."""
    line = shown(text[:most])
    return line if len(text) <= most else f"{line}… ({len(text) - most:,} more characters)"


class QuestionEnd(StrEnum):
    """How a question can end."""

    APPROVED = "approved"
    DECLINED = "declined"
    ANSWERED = "answered"
    """In words, or in a way that is not known here."""
    UNANSWERED = "unanswered"
    COVERED = "covered"
    """An answer to another question allows the call as well."""
    REFUSED = "refused"
    """Without an answer, for the reason that the decision gives."""
    ENDED = "ended"
    """Its agent has ended."""


class QuestionOutcome(Struct, frozen=True):
    """The outcome of a question; `by` says who answered it (empty: not known)."""

    end: QuestionEnd
    by: str = ""
    why: str = ""


def outcome_text(ended: QuestionOutcome, question: Question) -> str:
    """The outcome of a question, as a sentence."""
    by = f"by {visible_line(ended.by, 100)}" if ended.by else "elsewhere"
    match ended.end:
        case QuestionEnd.APPROVED:
            return f"Approved {by}."
        case QuestionEnd.DECLINED:
            return f"Declined {by}."
        case QuestionEnd.ANSWERED:
            return f"Answered {by}."
        case QuestionEnd.UNANSWERED:
            return unanswered_text(question)
        case QuestionEnd.COVERED:
            return "Already allowed by another answer."
        case QuestionEnd.REFUSED:
            return f"Refused: {visible_line(ended.why, 200)}"
        case QuestionEnd.ENDED:
            return "Withdrawn: its agent has finished."


def unanswered_text(question: Question) -> str:
    """The outcome of an inquiry that nobody answered."""
    usual = any(each.default for each in question.inquiries)
    then = "The agent continues with its default." if usual else "Nothing was decided."
    return f"Nobody answered in time. {then}"


async def question_outcome(gen: "GenCode", question: Question) -> QuestionOutcome | None:
    """The outcome of a question; None as long as the journal does not have it."""
    task = await gen.history.task(question.task)
    facts = await gen.history.events(question.task, max(task.seq - LAST_EVENTS, 0)) if task else []
    by = await gen.questions.who(question.task, question.call)
    if question.inquiries and by:
        return QuestionOutcome(QuestionEnd.ANSWERED, by)
    if found := [end for event in facts if (end := _outcome_from_event(event, question, by))]:
        return found[-1]
    over = bool(facts) and isinstance(facts[-1].fact, TaskEnded)
    return QuestionOutcome(QuestionEnd.ENDED) if over else None


class WithdrawnQuestionNotice:
    """Tells a user at a plain terminal, in one line, how a withdrawn question was resolved."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._gen: GenCode | None = None
        self._notice: asyncio.Task[None] | None = None

    def open(self, gen: "GenCode") -> None:
        """The store is open from now on."""
        self._gen = gen

    async def close(self) -> None:
        """Show what is not shown yet: the store is about to be closed."""
        if self._notice is not None:
            self._notice.cancel()
            await self.wait_shown()
        self._gen = None

    def show(self, question: Question) -> None:
        """A question was withdrawn; show its outcome as soon as the journal has it."""
        showing = report_errors(self._show(question), lambda notice: self._tell(notice.text))
        self._notice = asyncio.get_running_loop().create_task(showing)

    async def wait_shown(self) -> None:
        """Wait until the notice was shown, so that it does not appear below the next question."""
        if self._notice is not None:
            await asyncio.wait([self._notice])

    async def _show(self, question: Question) -> None:
        ended: QuestionOutcome | None = None
        try:
            if self._gen is not None:
                with suppress(GenCodeError):
                    ended = await _outcome_soon(self._gen, question)
        finally:
            known = f"{WITHDRAWN}. {outcome_text(ended, question)} {DISCARDED}" if ended else ""
            self._tell(known or WITHDRAWN_UNKNOWN)


async def _outcome_soon(gen: "GenCode", question: Question) -> QuestionOutcome | None:
    """The outcome of a question, if it is known soon: at least who answered it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(OUTCOME_SECONDS):
            async for _ in gen.history.changes.looks():
                if ended := await question_outcome(gen, question):
                    return ended
    by = await gen.questions.who(question.task, question.call)
    return QuestionOutcome(QuestionEnd.ANSWERED, by) if by else None


def _outcome_from_event(event: Event, question: Question, by: str) -> QuestionOutcome | None:
    match event.fact:
        case CallDecided(call=call, decision=decision) if call == question.call.id and not question.inquiries:
            return _outcome_of_decision(decision, by)
        case MessageAdded(ToolMessage(results=results)) if question.inquiries:
            mine = [each for each in results if each.call == question.call.id]
            if any(each.trace.unanswered for each in mine):
                return QuestionOutcome(QuestionEnd.UNANSWERED)
            return QuestionOutcome(QuestionEnd.ANSWERED, by) if mine else None
        case _:
            return None


def _outcome_of_decision(decision: Decision, by: str) -> QuestionOutcome | None:
    by_person = decision.by is DecidedBy.USER
    match decision.action:
        case Action.ASK:
            return None
        case Action.ALLOW:
            return (
                QuestionOutcome(QuestionEnd.APPROVED, by)
                if by_person
                else QuestionOutcome(QuestionEnd.COVERED)
            )
        case Action.DENY:
            return (
                QuestionOutcome(QuestionEnd.DECLINED, by)
                if by_person
                else QuestionOutcome(QuestionEnd.REFUSED, why=decision.why)
            )
