"""Questions to people, and the people who can answer, in memory."""

import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.messages import ToolCall
from gencode.core.questions import ALL, Answer, CannotAsk, NewQuestion, NobodyAvailable, Presence, QuestionRow
from gencode.journal.change_notifier import ChangeNotifier
from gencode.journal.owner import owner_state
from gencode.stores.question_rules import (
    DEEPEST,
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

if TYPE_CHECKING:
    from gencode.stores.memory import TaskNow


FORGET_SECONDS = 86_400.0


class _StoredQuestion(Struct):
    new: NewQuestion
    body: str
    epoch: int
    root: str
    folder: str
    asked_at: float
    until: float
    answer: str | None = None
    by: str = ""

    def told(self, now: float) -> tuple[str, float, float, bool, str, str]:
        times = (now - self.asked_at, self.until - now)
        return (self.body, *times, self.new.background, self.folder, self.new.owner)


class MemoryQuestions:
    """A `QuestionStore` in a dictionary; `task` tells whose a task is at this moment."""

    def __init__(self, task: "Callable[[str], TaskNow | None]", changes: ChangeNotifier) -> None:
        self._task = task
        self._changes = changes
        self._rows: dict[int, _StoredQuestion] = {}
        self._people: dict[str, tuple[Presence, float]] = {}
        self._numbers = count(1)

    async def put(self, new: NewQuestion) -> int:
        """Write a question down; NobodyAvailable when it is for none."""
        body = question_body(new.question)
        if sum(row.answer is None and row.until > time.time() for row in self._rows.values()) >= MOST_WAITING:
            raise CannotAsk(TOO_MANY)
        asks = self._task(new.question.task)
        if asks is None:
            raise CannotAsk(NOT_OURS)
        name, root = self._root(new.question.task, asks)
        if not new.home and not self._somebody_is_there(new, root):
            raise NobodyAvailable
        if asks.owner != new.owner or not asks.leased:
            raise CannotAsk(NOT_OURS)
        now, number = time.time(), next(self._numbers)
        self._rows = {each: row for each, row in self._rows.items() if row.until > now - FORGET_SECONDS}
        self._rows[number] = _StoredQuestion(new, body, asks.epoch, name, root.cwd, now, now + new.seconds)
        self._changes.note()
        return number

    async def answers(self, numbers: Sequence[int]) -> Mapping[int, Answer | None]:
        """The answers to questions, None where there is none yet; those that are gone are left out."""
        return {number: self._said(number) for number in numbers if number in self._rows}

    async def withdraw(self, number: int) -> Answer | None:
        """Take a question back; the answer, if one came before that."""
        said = self._said(number)
        if said is None and self._rows.pop(number, None) is not None:
            self._changes.note()
        return said

    async def settle(self, number: int, answer: Answer, by: str) -> Answer | None:
        """Answer a question where it was asked; what came before, if any. CannotAsk if its task is gone."""
        row = self._rows.get(number)
        if row is None:
            return None
        if not self._is_run(row):
            raise CannotAsk(NOT_OURS)
        said = self._said(number)
        if said is None:
            self._write(row, answer, by)
        return said

    async def who(self, task: str, call: ToolCall) -> str:
        """Who answered what was last asked about this very call."""
        rows = [row for row in self._rows.values() if row.new.question.task == task and row.answer]
        return answerer([(row.body, row.by) for row in reversed(rows)], call)

    async def here(self, presence: Presence, seconds: float) -> None:
        """Say that a person is there."""
        self._people[presence.name] = (presence, time.time() + seconds)

    async def gone(self, name: str) -> None:
        """Say that a person is there no more."""
        self._people.pop(name, None)

    async def news(self, presence: Presence) -> Sequence[QuestionRow]:
        """The questions for a person that wait."""
        return self._waiting(lambda row: row.new.owner != presence.name and self._is_for(row, presence))

    async def waiting(self, cwd: str) -> Sequence[QuestionRow]:
        """All questions that wait, of one folder or of every one."""
        return self._waiting(lambda row: cwd in ("", row.folder))

    async def answer(self, number: int, answer: Answer, by: str) -> None:
        """Answer a question; UserMistake when it was answered, or waits no more."""
        row = self._rows.get(number)
        if row is not None and row.answer is not None:
            raise UserMistake(answered_already(number, row.by))
        if row is None or not self._is_open(row) or owner_state(row.new.owner) == "dead":
            raise UserMistake(nobody_asks(number))
        self._write(row, answer, by)

    def _write(self, row: _StoredQuestion, answer: Answer, by: str) -> None:
        row.answer, row.by = answer_body(answer, by)
        self._changes.note()

    def _said(self, number: int) -> Answer | None:
        row = self._rows.get(number)
        return None if row is None or row.answer is None else answer_of(row.answer)

    def _root(self, name: str, task: "TaskNow") -> "tuple[str, TaskNow]":
        """The first task above one, which is that of its conversation."""
        for _ in range(DEEPEST):
            above = None if task.parent is None else self._task(task.parent)
            if task.parent is None or above is None:
                break
            name, task = task.parent, above
        return name, task

    def _somebody_is_there(self, new: NewQuestion, root: "TaskNow") -> bool:
        people = [person for person, until in self._people.values() if until > time.time()]
        others = [each for each in people if each.name != new.owner and owner_state(each.name) != "dead"]
        if new.background:
            return any(each.background and each.cwd in (root.cwd, "") for each in others)
        alone = root.owner == new.owner
        return any(each.name == root.owner or (alone and each.cwd in (root.cwd, "")) for each in others)

    def _is_for(self, row: _StoredQuestion, person: Presence) -> bool:
        """Whether a person may be shown a question: what is asked at home is for those who follow that."""
        near = person.cwd in (row.folder, "")
        followed = row.root == person.follows or (person.follows == ALL and near)
        if row.new.background:
            return person.background and near and (followed or not row.new.home)
        root = self._task(row.root)
        led_by = root.owner if root else ""
        alone = not row.new.home and led_by == row.new.owner
        return led_by == person.name or followed or (alone and near)

    def _is_run(self, row: _StoredQuestion) -> bool:
        """Whether the run that asked still has its task."""
        task = self._task(row.new.question.task)
        return task is not None and (task.owner, task.epoch) == (row.new.owner, row.epoch)

    def _is_open(self, row: _StoredQuestion) -> bool:
        task = self._task(row.new.question.task)
        leased = task is not None and task.leased
        return row.answer is None and row.until > time.time() and self._is_run(row) and leased

    def _waiting(self, wanted: Callable[[_StoredQuestion], bool]) -> Sequence[QuestionRow]:
        now = time.time()
        found = [(number, row) for number, row in self._rows.items() if self._is_open(row) and wanted(row)]
        return waiting_rows([(number, *row.told(now)) for number, row in found[:MOST_SHOWN]])
