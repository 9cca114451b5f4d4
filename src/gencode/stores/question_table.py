"""Questions to people, and the people who can answer, in tables beside the journal.

A question lies there for the run that asked it: when its process has died or somebody else has the task, it
is gone. Of all answers the first one counts, because it is the one that finds none.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from gencode.core.errors import UserMistake
from gencode.core.events import unicode_text
from gencode.core.messages import ToolCall
from gencode.core.questions import (
    ALL,
    FOR_EVER,
    Answer,
    CannotAsk,
    NewQuestion,
    NobodyAvailable,
    Presence,
    Question,
    QuestionRow,
)
from gencode.core.rules import DecidedBy
from gencode.journal.owner import machine_of, owner_state
from gencode.stores.sql_dialect import SqlDatabase, Statements, first

log = logging.getLogger(__name__)

_LONGEST = 300_000
"""Most characters of a question, including the changes it shows."""
_MOST_WAITING = 1_000
_MOST_SHOWN = 100
_MOST_ANSWERED = 20
"""Only so many of the last answers to a task are searched for who gave one."""
_DEEPEST = 20
TOO_LONG = "The question is too long"
_TOO_MANY = "Too many questions are already pending"
NOT_OURS = "The task no longer runs here"

_answers = msgspec.json.Decoder(Answer)
_questions = msgspec.json.Decoder(Question)

_FORGET = "DELETE FROM gen_question WHERE until < {later:-86400}"
_COUNT = "SELECT count(*) FROM gen_question WHERE answer IS NULL AND until > {now}"
_MARKED = "SELECT number FROM gen_question WHERE mark = $1"
_ROOT = """
WITH RECURSIVE up (id, parent, cwd, depth) AS (
    SELECT id, parent, cwd, 0 FROM gen_task WHERE id = $1
    UNION ALL SELECT t.id, t.parent, t.cwd, up.depth + 1 FROM gen_task t JOIN up ON t.id = up.parent
    WHERE up.depth < $2
)
SELECT id, cwd FROM up ORDER BY depth DESC LIMIT 1
"""
_PUT = """
INSERT INTO gen_question (task, epoch, owner, root, cwd, background, home, body, mark, asked_at, until)
SELECT id, epoch, owner, $3, $4, $5, $6, $7, $8, {now}, {later:$9}
FROM gen_task WHERE id = $1 AND owner = $2 AND lease_until > {now}
RETURNING number
"""
# Who waits for an agent is asked where its conversation is led; work that belongs to none, in its folder.
_THERE = """
SELECT p.name FROM gen_open_question q JOIN gen_presence p ON p.until > {now} AND p.name <> q.owner
WHERE q.number = $1
  AND CASE WHEN q.background THEN p.background AND p.cwd IN (q.cwd, '')
           ELSE p.name = q.led_by OR (q.alone AND p.cwd IN (q.cwd, '')) END
"""
_ANSWERS = "SELECT number, answer FROM gen_question WHERE number IN {numbers:$1}"
_WITHDRAW = "DELETE FROM gen_question WHERE number = $1 AND answer IS NULL RETURNING number"
_SHOWN = "SELECT number, body, age, remaining, background, cwd, owner FROM gen_open_question"
# What is asked at home, where the conversation is led, is for those who follow that conversation.
_NEWS = f"""
{_SHOWN}
WHERE owner <> $1
  AND CASE WHEN background
           THEN $3 AND $2 IN (cwd, '') AND (NOT home OR root = $5 OR ($5 = $6 AND $2 IN (cwd, '')))
           ELSE led_by = $1 OR root = $5 OR (($5 = $6 OR alone) AND $2 IN (cwd, '')) END
ORDER BY number LIMIT $4
"""
_WAITING = f"{_SHOWN} WHERE $1 IN ('', cwd) ORDER BY number LIMIT $2"
_LOST = """
SELECT 1 FROM gen_question q LEFT JOIN gen_task t ON t.id = q.task AND t.owner = q.owner AND t.epoch = q.epoch
WHERE q.number = $1 AND t.id IS NULL
"""
_SETTLE = """
UPDATE gen_question SET answer = $2, answered_by = $3 WHERE number = $1 AND answer IS NULL RETURNING number
"""
_ANSWER = _SETTLE.replace("RETURNING", "AND number IN (SELECT number FROM gen_open_question) RETURNING")
_SAID = "SELECT answer, answered_by, owner FROM gen_question WHERE number = $1"
_ANSWERERS = """
SELECT body, answered_by FROM gen_question
WHERE task = $1 AND answered_by IS NOT NULL ORDER BY number DESC LIMIT $2
"""
_HERE = """
INSERT INTO gen_presence (name, cwd, background, until) VALUES ($1, $2, $3, {later:$4})
ON CONFLICT (name) DO UPDATE SET until = excluded.until, background = excluded.background
"""
_GONE = "DELETE FROM gen_presence WHERE name = $1 OR until < {later:-3600}"


class QuestionTable:
    """A `QuestionStore` in tables beside the journal."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database

    async def put(self, new: NewQuestion) -> int:
        """Store a question; NobodyAvailable when there is nobody to answer it."""
        body = _question_body(new.question)

        async def write(statements: Statements) -> int:
            if new.mark and (known := await first(statements.fetch(_MARKED, new.mark))) is not None:
                return known
            await statements.fetch(_FORGET)
            if await first(statements.fetch(_COUNT)) >= _MOST_WAITING:
                raise CannotAsk(_TOO_MANY)
            roots = await statements.fetch(_ROOT, new.question.task, _DEEPEST)
            if not roots:
                raise CannotAsk(NOT_OURS)
            row = (*roots[0], new.background, new.home, body, new.mark, new.seconds)
            number = await first(statements.fetch(_PUT, new.question.task, new.owner, *row))
            if number is None:
                raise CannotAsk(NOT_OURS)
            there = () if new.home else await statements.fetch(_THERE, number)
            if not new.home and all(owner_state(name) == "dead" for (name,) in there):
                raise NobodyAvailable  # which rolls the transaction back
            return number

        return await self._database.transaction(write)

    async def answers(self, numbers: Sequence[int]) -> Mapping[int, Answer | None]:
        """The answers to questions that still exist, None where there is none yet."""
        rows = await self._database.fetch(_ANSWERS, json.dumps(list(numbers)))
        return {number: None if body is None else _answer_of(body) for number, body in rows}

    async def withdraw(self, number: int) -> Answer | None:
        """Withdraw a question; returns the answer if one came before that."""

        async def write(statements: Statements) -> Answer | None:
            if await statements.fetch(_WITHDRAW, number):
                return None
            return await _answer(statements, number)

        return await self._database.transaction(write)

    async def settle(self, number: int, answer: Answer, by: str) -> Answer | None:
        """Answer a question where it was asked; returns an earlier answer. CannotAsk if its task is gone."""
        body, who = _answer_body(answer, by)

        async def write(statements: Statements) -> Answer | None:
            if await statements.fetch(_LOST, number):
                raise CannotAsk(NOT_OURS)
            if await statements.fetch(_SETTLE, number, body, who):
                return None
            return await _answer(statements, number)

        return await self._database.transaction(write)

    async def who(self, task: str, call: ToolCall) -> str:
        """Who answered the last question about this call."""
        return _answerer(await self._database.fetch(_ANSWERERS, task, _MOST_ANSWERED), call)

    async def here(self, presence: Presence, seconds: float) -> None:
        """Record that a person is present."""
        row = (presence.name, unicode_text(presence.cwd), presence.background, float(seconds))
        await self._database.write(_HERE, *row)

    async def gone(self, name: str) -> None:
        """Record that a person has left."""
        await self._database.write(_GONE, name)

    async def news(self, presence: Presence) -> Sequence[QuestionRow]:
        """The open questions for a person."""
        person = (presence.name, unicode_text(presence.cwd), presence.background)
        return _waiting_rows(await self._database.fetch(_NEWS, *person, _MOST_SHOWN, presence.follows, ALL))

    async def waiting(self, cwd: str) -> Sequence[QuestionRow]:
        """All open questions, of one folder or of every folder."""
        return _waiting_rows(await self._database.fetch(_WAITING, unicode_text(cwd), _MOST_SHOWN))

    async def answer(self, number: int, answer: Answer, by: str) -> None:
        """Answer a question; UserMistake when it was answered or is not open any more."""
        body, who = _answer_body(answer, by)

        async def write(statements: Statements) -> None:
            asked = await statements.fetch(_SAID, number)
            asks = asked and owner_state(asked[0][2]) != "dead"  # its lease runs for a while yet
            if asks and await statements.fetch(_ANSWER, number, body, who):
                return
            for said, by_whom, _ in await statements.fetch(_SAID, number):
                if said is not None:
                    raise UserMistake(_answered_already(number, by_whom))
            raise UserMistake(_nobody_asks(number))

        await self._database.transaction(write)


async def _answer(statements: Statements, number: int) -> Answer | None:
    """The answer that a question has."""
    body = await first(statements.fetch(_SAID, number))
    return None if body is None else _answer_of(body)


def _question_body(question: Question) -> str:
    """The JSON of a question; CannotAsk when it cannot be stored."""
    try:
        body = msgspec.json.encode(question).decode()
    except (TypeError, ValueError, RecursionError):  # a model's text may not be valid Unicode
        raise CannotAsk("The question cannot be stored") from None
    if len(body) > _LONGEST:
        raise CannotAsk(TOO_LONG)
    return body


def _answer_body(answer: Answer, by: str) -> tuple[str, str]:
    """The JSON of an answer, and who gave it."""
    return msgspec.json.encode(answer).decode(), unicode_text(by).replace("\0", "\ufffd")


def _answer_of(body: str) -> Answer:
    """A stored answer; one that cannot be read declines."""
    try:
        return _answers.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        return Answer(False, why="The answer cannot be read", by=DecidedBy.NOBODY)


def _answerer(rows: Sequence[Any], call: ToolCall) -> str:
    """Who answered the first of these questions that is about a call: its body, and who answered it."""
    for body, by in rows:
        try:
            about = _questions.decode(body).call
        except (msgspec.MsgspecError, RecursionError):
            continue
        if about == call:
            return by
    return ""


def _waiting_rows(rows: Sequence[Any]) -> list[QuestionRow]:
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


def _nobody_asks(number: int) -> str:
    """The error for an answer to a question that is not open."""
    return f"Question {number} is not pending any more."


def _answered_already(number: int, by: str) -> str:
    """The error for a second answer."""
    return f"Question {number} was answered already, by {by}."
