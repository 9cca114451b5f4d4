"""Group commit for SQLite: writes that wait in one turn of the event loop share a transaction.

With few tasks at work every step is its own transaction, made at once. With many, the steps of one turn of
the loop are taken one after the other inside one transaction, because beginning and committing cost as much
as the writing itself. A step that is refused (a lost lease) fails alone, and so does one that the disk or
SQLite refuses: then nothing is kept of the shared transaction and every step is taken again in its own.
"""

import asyncio
import secrets
import sqlite3
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Generic, TypeVar

from gencode.core.errors import GenCodeError, StoreTrouble
from gencode.journal.change_notifier import ChangeNotifier
from gencode.stores.sql_dialect import SQLITE, Row, Statements, without_waiting
from gencode.stores.sqlite_schema import PATIENCE, PlainErrors, Transaction, is_busy

T = TypeVar("T")

_SHORT_PAUSE = 0.001
_LONG_PAUSE = 0.05
_MOST_TOGETHER = 128
"""So that the first of a thousand agents asks its model while the last is still being written down."""


async def patiently(
    step: Callable[[], T], errors: PlainErrors, thread: ThreadPoolExecutor | None = None
) -> T:
    """Run a step; while another process holds the lock, sleep (a little longer each time) and retry."""
    until = 0.0
    pause = _SHORT_PAUSE
    while True:
        try:
            if thread is None:
                return step()
            return await asyncio.get_running_loop().run_in_executor(thread, step)
        except (sqlite3.Error, OSError) as error:
            until = until or time.monotonic() + PATIENCE
            if not isinstance(error, sqlite3.Error) or not is_busy(error) or time.monotonic() > until:
                with errors:
                    raise
        await asyncio.sleep(_jittered(pause))
        pause = min(pause * 2, _LONG_PAUSE)


class WriteStep(Generic[T]):
    """A write. It may run again after `undo`, which reverts what it changed in memory."""

    __slots__ = ()

    def write(self) -> T:
        """Write inside the transaction that is open; a GenCodeError means that nothing was written."""
        raise NotImplementedError

    def undo(self) -> None:
        """The transaction was rolled back."""


class FunctionStep(WriteStep[T]):
    """A write that changes nothing in memory."""

    __slots__ = ("_do",)

    def __init__(self, do: Callable[[], T]) -> None:
        self._do = do

    def write(self) -> T:
        """Call the function."""
        return self._do()


class _WaitingStep(Generic[T]):
    __slots__ = ("future", "step")

    def __init__(self, step: WriteStep[T]) -> None:
        self.step = step
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()


class GroupCommit:
    """The one connection that writes."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        errors: PlainErrors,
        thread: ThreadPoolExecutor | None,
        changes: ChangeNotifier,
    ) -> None:
        self._connection = connection
        self._transaction = Transaction(connection)
        self._changes = changes
        self._rows = connection.total_changes
        self._thread = thread
        self._plain_errors = errors
        self._waiting: list[_WaitingStep[Any]] = []
        self._timer: asyncio.Handle | None = None
        self._pause = _SHORT_PAUSE
        self._until = 0.0

    @property
    def has_thread(self) -> bool:
        """Whether commits happen in a thread of their own."""
        return self._thread is not None

    async def write(self, step: WriteStep[T], *, together: bool) -> T:
        """Run a step in a transaction: at once, or `together` with the others of this turn of the loop."""
        if not together or self._thread is not None:
            result = await patiently(lambda: self._alone(step), self._plain_errors, self._thread)
            self._note()
            return result
        waiting = _WaitingStep(step)
        self._waiting.append(waiting)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_soon(self._commit)
        try:
            return await waiting.future
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if waiting.future.cancelled() or task is None:
                raise  # withdrawn before anything was written
            task.uncancel()
            task.cancel()  # committed, so the result is returned; the cancel comes with the next await
            return waiting.future.result()

    async def change(self, do: Callable[[], T]) -> T:
        """Run a single statement, which is a transaction by itself."""
        result = await patiently(do, self._plain_errors, self._thread)
        self._note()
        return result

    def _note(self) -> None:
        """Announce a change if the last step wrote anything."""
        before, self._rows = self._rows, self._connection.total_changes
        if self._rows != before:
            self._changes.note()

    def _alone(self, step: WriteStep[T]) -> T:
        try:
            with self._transaction:
                return step.write()
        except sqlite3.Error:
            step.undo()
            raise

    def _commit(self) -> None:
        self._timer = None
        steps = [each for each in self._waiting[:_MOST_TOGETHER] if not each.future.done()]
        self._waiting = self._waiting[_MOST_TOGETHER:]
        try:
            if steps:
                self._written(steps)
            self._pause, self._until = _SHORT_PAUSE, 0.0
        except sqlite3.Error as error:
            if is_busy(error) and not self._too_late():
                self._waiting = [*steps, *self._waiting]
                self._timer = asyncio.get_running_loop().call_later(_jittered(self._pause), self._commit)
                self._pause = min(self._pause * 2, _LONG_PAUSE)
                return
            self._pause, self._until = _SHORT_PAUSE, 0.0
            for each in steps:
                self._settle(each)
        finally:
            if self._timer is None:
                _give_up(steps)
        if self._waiting:  # after those whose steps were written have continued
            self._timer = asyncio.get_running_loop().call_soon(self._commit)

    def _written(self, steps: Sequence[_WaitingStep[Any]]) -> None:
        """Run all steps in one transaction; their results are known only after the commit."""
        outcomes: list[tuple[_WaitingStep[Any], Any, GenCodeError | None]] = []
        try:
            with self._transaction:
                for waiting in steps:
                    try:
                        outcomes.append((waiting, waiting.step.write(), None))
                    except GenCodeError as trouble:
                        outcomes.append((waiting, None, trouble))
        except sqlite3.Error:
            for waiting, _, trouble in reversed(outcomes):
                if trouble is None:
                    waiting.step.undo()
            raise
        self._note()
        for waiting, result, trouble in outcomes:
            if trouble is None:
                waiting.future.set_result(result)
            else:
                waiting.future.set_exception(trouble)

    def _settle(self, waiting: _WaitingStep[Any]) -> None:
        """Run one step in a transaction of its own, after the shared one failed."""
        try:
            with self._plain_errors:
                waiting.future.set_result(self._alone(waiting.step))
            self._note()
        except (GenCodeError, sqlite3.Error) as trouble:
            waiting.future.set_exception(trouble)

    def _too_late(self) -> bool:
        now = time.monotonic()
        self._until = self._until or now + PATIENCE
        return now > self._until


def _give_up(steps: Sequence[_WaitingStep[Any]]) -> None:
    """Fail every step that is still waiting, so that no caller waits for ever."""
    for waiting in steps:
        if not waiting.future.done():
            waiting.future.set_exception(StoreTrouble("A fault in GenCode kept this from being written."))


def _jittered(pause: float) -> float:
    return pause * (0.5 + secrets.randbelow(1000) / 1000)


class SqliteDatabase:
    """The `SqlDatabase` of one file: what is written goes through its group commit, what is read does not."""

    def __init__(
        self,
        commits: GroupCommit,
        writer: sqlite3.Connection,
        reader: sqlite3.Connection,
        errors: PlainErrors,
        batches: Callable[[], bool],
    ) -> None:
        """`batches` says whether so much is written that commits are better shared."""
        self._commits = commits
        self.statements = SqliteStatements(writer.cursor())
        """Those of the transaction that is open; outside of one they may be used to read."""
        self._reader = reader
        self._errors = errors
        self._batches = batches
        # Each commit invalidates the page cache of the other connection. But where a thread commits, the
        # writing one cannot be used here.
        self._reads = SqliteStatements(reader.cursor()) if commits.has_thread else self.statements

    async def fetch(self, statement: str, *values: object) -> Sequence[Row]:
        """The rows of a statement that only reads."""
        translated = SQLITE.translated(statement)
        return await patiently(lambda: self._reader.execute(translated, values).fetchall(), self._errors)

    async def read(self, do: Callable[[Statements], Coroutine[Any, Any, T]]) -> T:
        """Run several statements that only read."""
        return await patiently(lambda: without_waiting(do(self._reads)), self._errors)

    async def write(self, statement: str, *values: object) -> None:
        """Run one statement in its own transaction."""
        await self.transaction(lambda statements: statements.fetch(statement, *values))

    async def transaction(
        self, do: Callable[[Statements], Coroutine[Any, Any, T]], *, batched: bool = False
    ) -> T:
        """Run a transaction; announces a change when it wrote anything."""
        step = FunctionStep(lambda: without_waiting(do(self.statements)))
        return await self._commits.write(step, together=batched and self._batches())


class SqliteStatements:
    """The `Statements` of the transaction that is open on the connection that writes."""

    __slots__ = ("_cursor",)

    def __init__(self, cursor: sqlite3.Cursor) -> None:
        self._cursor = cursor

    async def fetch(self, statement: str, *values: object) -> Sequence[Row]:
        """The rows that a statement returns."""
        return self._cursor.execute(SQLITE.translated(statement), values).fetchall()

    async def run_many(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        """Run a statement for each of some rows of values."""
        self._cursor.executemany(SQLITE.translated(statement), rows)

    async def announce(self, news: str) -> None:
        """Do nothing: other processes see the commit by its number."""
