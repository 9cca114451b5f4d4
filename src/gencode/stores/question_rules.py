"""Rules for stored questions, the same in every store: how they are encoded, and how many may wait."""

import logging
from collections.abc import Sequence
from typing import Any

import msgspec

from gencode.core.events import unicode_text
from gencode.core.messages import ToolCall
from gencode.core.questions import FOR_EVER, Answer, CannotAsk, Question, QuestionRow
from gencode.core.rules import DecidedBy
from gencode.journal.owner import machine_of, owner_state

log = logging.getLogger(__name__)

LONGEST = 300_000
"""So many characters a question has at most, with everything that would change."""
MOST_WAITING = 1_000
MOST_SHOWN = 100
MOST_ANSWERED = 20
"""So many of the last answers to a task are looked at for who gave one."""
DEEPEST = 20
TOO_LONG = "The question is too long"
TOO_MANY = "Too many questions are already pending"
NOT_OURS = "The task no longer runs here"

_answers = msgspec.json.Decoder(Answer)
_questions = msgspec.json.Decoder(Question)


def question_body(question: Question) -> str:
    """A question as it is stored; CannotAsk when that is not possible."""
    try:
        body = msgspec.json.encode(question).decode()
    except (TypeError, ValueError, RecursionError):  # what a model said may be no text at all
        raise CannotAsk("The question cannot be stored") from None
    if len(body) > LONGEST:
        raise CannotAsk(TOO_LONG)
    return body


def answer_body(answer: Answer, by: str) -> tuple[str, str]:
    """An answer as it is stored, and who gave it."""
    return msgspec.json.encode(answer).decode(), unicode_text(by).replace("\0", "\ufffd")


def answer_of(body: str) -> Answer:
    """A stored answer; one that cannot be read is a no."""
    try:
        return _answers.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        return Answer(False, why="The answer cannot be read", by=DecidedBy.NOBODY)


def answerer(rows: Sequence[Any], call: ToolCall) -> str:
    """Who answered the first of these questions that is about a call: its body, and who answered it."""
    for body, by in rows:
        try:
            about = _questions.decode(body).call
        except (msgspec.MsgspecError, RecursionError):
            continue
        if about == call:
            return by
    return ""


def waiting_rows(rows: Sequence[Any]) -> list[QuestionRow]:
    """Stored questions: number, body, seconds since it was asked, seconds that are left, background, folder,
    owner. Those of a process that is known to have died are not among them; its lease goes on for a while.
    """
    found: list[QuestionRow] = []
    for number, body, asked, left, background, folder, owner in rows:
        if owner_state(owner) == "dead":
            continue
        ends = asked + left < FOR_EVER - 1
        try:
            question = _questions.decode(body)
        except (msgspec.MsgspecError, RecursionError) as error:
            log.warning("question %s cannot be read and is left alone: %s", number, error)
            continue
        rest = (left if ends else None, bool(background), folder, machine_of(owner))
        found.append(QuestionRow(number, question, asked, *rest))
    return found


def nobody_asks(number: int) -> str:
    """What is told to whoever answers a question that does not wait."""
    return f"Question {number} is not pending any more."


def answered_already(number: int, by: str) -> str:
    """What is told to whoever comes too late."""
    return f"Question {number} was answered already, by {by}."
