"""Questions to people, and the people who can answer, in Postgres.

A question lies there for the run that asked it: when its worker has died or somebody else has the task, it is
gone. Of all answers the first one counts, because it is the one that finds none.
"""

import secrets
from collections.abc import Mapping, Sequence
from typing import TypeVar

from gencode.core.errors import UserMistake
from gencode.core.messages import ToolCall
from gencode.core.questions import ALL, Answer, CannotAsk, NewQuestion, NobodyAvailable, Presence, QuestionRow
from gencode.journal.change_notifier import ChangeNotifier
from gencode.journal.owner import owner_state
from gencode.stores.pg_pool import Connection, Pool, Step
from gencode.stores.question_rules import (
    DEEPEST,
    MOST_ANSWERED,
    MOST_SHOWN,
    MOST_WAITING,
    NOT_OURS,
    TOO_MANY,
    answer_body,
    answer_of,
    answered_already,
    answerer,
    nobody_asks,
    question_body,
    waiting_rows,
)

T = TypeVar("T")

_FORGET = "DELETE FROM gen_question WHERE until < clock_timestamp() - interval '1 day'"
_ROOT = """
WITH RECURSIVE up (id, parent, cwd, depth) AS (
    SELECT id, parent, cwd, 0 FROM gen_task WHERE id = $1
    UNION ALL SELECT t.id, t.parent, t.cwd, up.depth + 1 FROM gen_task t JOIN up ON t.id = up.parent
    WHERE up.depth < $2
)
SELECT id, cwd FROM up ORDER BY depth DESC LIMIT 1
"""
# Who waits for an agent is asked where its conversation is led; work that belongs to none, in its folder.
_THERE = """
SELECT 1 FROM gen_person p JOIN gen_task r ON r.id = $1
WHERE p.until > clock_timestamp()
  AND CASE WHEN $3 THEN p.background AND p.cwd IN ($2, '')
           ELSE p.name = r.owner OR (r.dispatch IS NOT NULL AND p.cwd IN ($2, '')) END
LIMIT 1
"""
_PUT = """
INSERT INTO gen_question (task, epoch, owner, root, cwd, background, body, mark, until)
SELECT id, epoch, owner, $3, $4, $5, $6, $7, clock_timestamp() + make_interval(secs => $8)
FROM gen_task WHERE id = $1 AND owner = $2 AND lease_until > clock_timestamp()
RETURNING number
"""
_COUNT = "SELECT count(*) FROM gen_question WHERE answer IS NULL AND until > clock_timestamp()"
_MARKED = "SELECT number FROM gen_question WHERE mark = $1"
_ANSWER_OF = "SELECT answer FROM gen_question WHERE number = $1"
_ANSWERS = "SELECT number, answer FROM gen_question WHERE number = any($1::bigint[])"
_WITHDRAW = "DELETE FROM gen_question WHERE number = $1 AND answer IS NULL RETURNING root"
# What is asked at home, where the conversation is led, is for those who follow that conversation. The mark of
# a question says whether it is, so that databases made before need no new column.
_NEWS = """
SELECT number, body, asked, seconds, background, cwd, owner FROM (
    SELECT w.*, q.owner, $2 IN (w.cwd, '') AS near, starts_with(q.mark, 'home') AS home,
           q.root = $5 OR ($5 = $6 AND $2 IN (w.cwd, '')) AS followed
    FROM gen_waiting w JOIN gen_question q ON q.number = w.number WHERE q.owner <> $1
) AS waits
WHERE CASE WHEN background THEN $3 AND near AND (followed OR NOT home)
           ELSE led_by = $1 OR followed OR (alone AND near) END
ORDER BY number LIMIT $4
"""
_WAITING = """
SELECT w.number, w.body, w.asked, w.seconds, w.background, w.cwd, q.owner
FROM gen_waiting w JOIN gen_question q ON q.number = w.number
WHERE $1 = '' OR w.cwd = $1 ORDER BY w.number LIMIT $2
"""
_ANSWER = """
UPDATE gen_question SET answer = $2, answered_by = $3
WHERE number = $1 AND answer IS NULL AND EXISTS (SELECT FROM gen_waiting w WHERE w.number = $1)
RETURNING number
"""
_SAID = "SELECT answer, answered_by FROM gen_question WHERE number = $1"
_ASKER = "SELECT owner FROM gen_question WHERE number = $1"
_LOST = """
SELECT 1 FROM gen_question q LEFT JOIN gen_task t ON t.id = q.task AND t.owner = q.owner AND t.epoch = q.epoch
WHERE q.number = $1 AND t.id IS NULL
"""
_SETTLE = """
UPDATE gen_question SET answer = $2, answered_by = $3 WHERE number = $1 AND answer IS NULL RETURNING number
"""
_ANSWERERS = """
SELECT body, answered_by FROM gen_question
WHERE task = $1 AND answered_by IS NOT NULL ORDER BY number DESC LIMIT $2
"""
_HERE = """
INSERT INTO gen_person (name, cwd, background, until)
VALUES ($1, $2, $3, clock_timestamp() + make_interval(secs => $4))
ON CONFLICT (name) DO UPDATE SET until = excluded.until, background = excluded.background
"""
_GONE = "DELETE FROM gen_person WHERE name = $1 OR until < clock_timestamp() - interval '1 hour'"


class PostgresQuestions:
    """A `QuestionStore` in tables beside the journal."""

    def __init__(self, link: Pool, changes: ChangeNotifier) -> None:
        self._link = link
        self._changes = changes

    async def put(self, new: NewQuestion) -> int:
        """Write a question down; NobodyAvailable when it is for none."""
        body = question_body(new.question)
        mark = f"{'home' if new.home else 'away'} {new.mark or secrets.token_hex(8)}"

        async def step(connection: Connection, again: bool) -> int:
            async with connection.transaction():
                if (again or new.mark) and (known := await connection.fetchval(_MARKED, mark)) is not None:
                    return int(known)
                await connection.execute(_FORGET)
                if await connection.fetchval(_COUNT) >= MOST_WAITING:
                    raise CannotAsk(TOO_MANY)
                root = await connection.fetchrow(_ROOT, new.question.task, DEEPEST)
                if root is None:
                    raise CannotAsk(NOT_OURS)
                there = new.home or await connection.fetchval(_THERE, root[0], root[1], new.background)
                if not there:
                    raise NobodyAvailable
                row = (new.question.task, new.owner, root[0], root[1], new.background)
                number = await connection.fetchval(_PUT, *row, body, mark, new.seconds)
                if number is None:
                    raise CannotAsk(NOT_OURS)
                return int(number)

        return await self._written(step)

    async def answers(self, numbers: Sequence[int]) -> Mapping[int, Answer | None]:
        """The answers to questions, None where there is none yet; those that are gone are left out."""
        rows = await self._link.fetch(_ANSWERS, list(numbers))
        return {number: None if body is None else answer_of(body) for number, body in rows}

    async def withdraw(self, number: int) -> Answer | None:
        """Take a question back; the answer, if one came before that."""

        async def step(connection: Connection, _again: bool) -> Answer | None:
            async with connection.transaction():
                if await connection.fetchval(_WITHDRAW, number) is not None:
                    return None
                said = await connection.fetchval(_ANSWER_OF, number)
                return None if said is None else answer_of(said)

        return await self._written(step)

    async def settle(self, number: int, answer: Answer, by: str) -> Answer | None:
        """Answer a question where it was asked; what came before, if any. CannotAsk if its task is gone."""
        body, who = answer_body(answer, by)

        async def step(connection: Connection, again: bool) -> Answer | None:
            async with connection.transaction():
                if await connection.fetchval(_LOST, number) is not None:
                    raise CannotAsk(NOT_OURS)
                if await connection.fetchval(_SETTLE, number, body, who) is not None:
                    return None
                said = await connection.fetchrow(_SAID, number)
                same = again and said is not None and (said[0], said[1]) == (body, who)
                return None if said is None or same else answer_of(said[0])

        return await self._written(step)

    async def who(self, task: str, call: ToolCall) -> str:
        """Who answered what was last asked about this very call."""
        return answerer(await self._link.fetch(_ANSWERERS, task, MOST_ANSWERED), call)

    async def here(self, presence: Presence, seconds: float) -> None:
        """Say that a person is there."""
        await self._link.fetch(_HERE, presence.name, presence.cwd, presence.background, seconds)

    async def gone(self, name: str) -> None:
        """Say that a person is there no more."""
        await self._link.fetch(_GONE, name)

    async def news(self, presence: Presence) -> Sequence[QuestionRow]:
        """The questions for a person that wait."""
        row = (presence.name, presence.cwd, presence.background, MOST_SHOWN, presence.follows, ALL)
        return waiting_rows(await self._link.fetch(_NEWS, *row))

    async def waiting(self, cwd: str) -> Sequence[QuestionRow]:
        """All questions that wait, of one folder or of every one."""
        return waiting_rows(await self._link.fetch(_WAITING, cwd, MOST_SHOWN))

    async def answer(self, number: int, answer: Answer, by: str) -> None:
        """Answer a question; UserMistake when it was answered, or waits no more."""
        body, who = answer_body(answer, by)

        async def step(connection: Connection, again: bool) -> str | None:
            async with connection.transaction():
                owner = await connection.fetchval(_ASKER, number) or ""
                asks = owner_state(owner) != "dead"  # its lease goes on for a while
                if asks and await connection.fetchval(_ANSWER, number, body, who) is not None:
                    return None
                said = await connection.fetchrow(_SAID, number)
                if said is None or said[0] is None:
                    return nobody_asks(number)
                same = again and (said[0], said[1]) == (body, who)
                return None if same else answered_already(number, said[1])

        if wrong := await self._written(step):
            raise UserMistake(wrong)

    async def _written(self, step: Step[T]) -> T:
        done = await self._link.patiently(step)
        self._changes.note()
        return done
