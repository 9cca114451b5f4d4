"""Questions to people, and the people who can answer, in the SQLite file.

A question lies there for the run that asked it: when its process has died or somebody else has the task, it
is gone. Of all answers the first one counts, because it is the one that finds none.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from gencode.core.errors import UserMistake
from gencode.core.events import unicode_text
from gencode.core.messages import ToolCall
from gencode.core.questions import ALL, Answer, CannotAsk, NewQuestion, NobodyAvailable, Presence, QuestionRow
from gencode.journal.owner import owner_state
from gencode.stores.group_commit import FunctionStep, SqliteTable
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

_FORGET = "DELETE FROM Questions WHERE Until < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 day')"
_COUNT = """
SELECT count(*) FROM Questions WHERE Answer IS NULL AND Until > strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
"""
_ROOT = """
WITH RECURSIVE Up (Id, Parent, Cwd, Owner, Depth) AS (
    SELECT Id, Parent, Cwd, Owner, 0 FROM Sessions WHERE Id = ?
    UNION ALL SELECT s.Id, s.Parent, s.Cwd, s.Owner, Up.Depth + 1 FROM Sessions s JOIN Up ON s.Id = Up.Parent
    WHERE Up.Depth < ?
)
SELECT Id, Cwd, Owner FROM Up ORDER BY Depth DESC LIMIT 1
"""
# Who waits for an agent is asked where its conversation is led; work that belongs to none, in its folder.
_THERE = """
SELECT Name FROM Persons
WHERE Until > strftime('%Y-%m-%dT%H:%M:%fZ', 'now') AND Name <> :owner
  AND CASE WHEN :background THEN Background AND Cwd IN (:cwd, '')
           ELSE Name = :led_by OR (:led_by = :owner AND Cwd IN (:cwd, '')) END
"""
_PUT = """
INSERT INTO Questions (Task, Epoch, Owner, Root, Cwd, Background, Home, Body, AskedAt, Until)
SELECT Id, Epoch, Owner, :root, :cwd, :background, :home, :body, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
       strftime('%Y-%m-%dT%H:%M:%fZ', 'now', :seconds)
FROM Sessions
WHERE Id = :task AND Owner = :owner AND LeaseUntil > strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
RETURNING Number
"""
_ANSWER_OF = "SELECT Answer FROM Questions WHERE Number = ?"
_ANSWERS = "SELECT Number, Answer FROM Questions WHERE Number IN (SELECT value FROM json_each(?))"
_WITHDRAW = "DELETE FROM Questions WHERE Number = ? AND Answer IS NULL"
# What is asked at home, where the conversation is led, is for those who follow that conversation.
_NEWS = """
SELECT Number, Body, Asked, Left, Background, Cwd, Owner FROM (
    SELECT *, :cwd IN (Cwd, '') AS Near,
           Root = :follows OR (:follows = :all AND :cwd IN (Cwd, '')) AS Followed
    FROM OpenQuestions WHERE Owner <> :name
)
WHERE CASE WHEN Background THEN :background AND Near AND (Followed OR NOT Home)
           ELSE LedBy = :name OR Followed OR (Alone AND Near) END
ORDER BY Number LIMIT :most
"""
_WAITING = """
SELECT Number, Body, Asked, Left, Background, Cwd, Owner FROM OpenQuestions
WHERE :cwd = '' OR Cwd = :cwd ORDER BY Number LIMIT :most
"""
_ONE = "SELECT Number, Body, Asked, Left, Background, Cwd, Owner FROM OpenQuestions WHERE Number = ?"
_ANSWER = "UPDATE Questions SET Answer = ?, AnsweredBy = ? WHERE Number = ? AND Answer IS NULL"
_LOST = """
SELECT 1 FROM Questions q LEFT JOIN Sessions t ON t.Id = q.Task AND t.Owner = q.Owner AND t.Epoch = q.Epoch
WHERE q.Number = ? AND t.Id IS NULL
"""
_SAID = "SELECT Answer, AnsweredBy FROM Questions WHERE Number = ?"
_ANSWERERS = """
SELECT Body, AnsweredBy FROM Questions WHERE Task = ? AND AnsweredBy IS NOT NULL ORDER BY Number DESC LIMIT ?
"""
_HERE = """
INSERT INTO Persons (Name, Cwd, Background, Until)
VALUES (?, ?, ?, strftime('%Y-%m-%dT%H:%M:%fZ', 'now', ?))
ON CONFLICT (Name) DO UPDATE SET Until = excluded.Until, Background = excluded.Background
"""
_GONE = "DELETE FROM Persons WHERE Name = ? OR Until < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 hour')"


class SqliteQuestions(SqliteTable):
    """A `QuestionStore` in tables beside the journal."""

    async def put(self, new: NewQuestion) -> int:
        """Write a question down; NobodyAvailable when it is for none."""
        body = question_body(new.question)

        def write() -> int:
            self._writer.execute(_FORGET)
            if self._writer.execute(_COUNT).fetchone()[0] >= MOST_WAITING:
                raise CannotAsk(TOO_MANY)
            root = self._writer.execute(_ROOT, (new.question.task, DEEPEST)).fetchone()
            if root is None:
                raise CannotAsk(NOT_OURS)
            if not new.home and not self._somebody_is_there(new, root[1], root[2]):
                raise NobodyAvailable
            row = {
                **{"task": new.question.task, "owner": new.owner, "root": root[0], "cwd": root[1]},
                **{"background": new.background, "home": new.home, "body": body},
                "seconds": _after(new.seconds),
            }
            numbered = self._writer.execute(_PUT, row).fetchall()
            if not numbered:
                raise CannotAsk(NOT_OURS)
            return int(numbered[0][0])

        return await self._written(write)

    async def answers(self, numbers: Sequence[int]) -> Mapping[int, Answer | None]:
        """The answers to questions, None where there is none yet; those that are gone are left out."""
        rows = await self._read(_ANSWERS, (json.dumps(list(numbers)),))
        return {number: None if body is None else answer_of(body) for number, body in rows}

    async def withdraw(self, number: int) -> Answer | None:
        """Take a question back; the answer, if one came before that."""

        def write() -> Answer | None:
            if self._writer.execute(_WITHDRAW, (number,)).rowcount:
                return None
            said = self._writer.execute(_ANSWER_OF, (number,)).fetchone()
            return None if said is None else answer_of(said[0])

        return await self._written(write)

    async def settle(self, number: int, answer: Answer, by: str) -> Answer | None:
        """Answer a question where it was asked; what came before, if any. CannotAsk if its task is gone."""
        body, who = answer_body(answer, by)

        def write() -> Answer | None:
            if self._writer.execute(_LOST, (number,)).fetchone():
                raise CannotAsk(NOT_OURS)
            if self._writer.execute(_ANSWER, (body, who, number)).rowcount:
                return None
            said = self._writer.execute(_ANSWER_OF, (number,)).fetchone()
            return None if said is None else answer_of(said[0])

        return await self._written(write)

    async def who(self, task: str, call: ToolCall) -> str:
        """Who answered what was last asked about this very call."""
        return answerer(await self._read(_ANSWERERS, (task, MOST_ANSWERED)), call)

    async def here(self, presence: Presence, seconds: float) -> None:
        """Say that a person is there."""
        row = (presence.name, unicode_text(presence.cwd), presence.background, _after(seconds))
        await self._written(lambda: self._writer.execute(_HERE, row).rowcount)

    async def gone(self, name: str) -> None:
        """Say that a person is there no more."""
        await self._written(lambda: self._writer.execute(_GONE, (name,)).rowcount)

    async def news(self, presence: Presence) -> Sequence[QuestionRow]:
        """The questions for a person that wait."""
        wanted = {
            **{"name": presence.name, "cwd": unicode_text(presence.cwd), "background": presence.background},
            **{"follows": presence.follows, "all": ALL, "most": MOST_SHOWN},
        }
        return waiting_rows(await self._read(_NEWS, wanted))

    async def waiting(self, cwd: str) -> Sequence[QuestionRow]:
        """All questions that wait, of one folder or of every one."""
        return waiting_rows(await self._read(_WAITING, {"cwd": unicode_text(cwd), "most": MOST_SHOWN}))

    async def answer(self, number: int, answer: Answer, by: str) -> None:
        """Answer a question; UserMistake when it was answered, or waits no more."""
        body, who = answer_body(answer, by)

        def write() -> None:
            said = self._writer.execute(_SAID, (number,)).fetchone()
            if said is not None and said[0] is not None:
                raise UserMistake(answered_already(number, said[1]))
            if not waiting_rows(self._writer.execute(_ONE, (number,)).fetchall()):
                raise UserMistake(nobody_asks(number))
            self._writer.execute(_ANSWER, (body, who, number))

        await self._written(write)

    def _somebody_is_there(self, new: NewQuestion, cwd: str, led_by: str | None) -> bool:
        wanted = {"owner": new.owner, "background": new.background, "cwd": cwd, "led_by": led_by}
        return any(owner_state(name) != "dead" for (name,) in self._writer.execute(_THERE, wanted).fetchall())

    async def _written(self, do: Callable[[], T]) -> T:
        return await self._commits.write(FunctionStep(do), together=False)


def _after(seconds: float) -> str:
    return f"{seconds:+.3f} seconds"
