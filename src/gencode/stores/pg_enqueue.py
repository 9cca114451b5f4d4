"""Inserts a new task together with its place in the queue, in one statement.

Both must be written or neither. In a transaction that takes four ways to the server and back, and each takes
long where it is busy; one statement is a transaction by itself. So whoever puts a task into a queue gets this
instead of a connection: the first statement takes the rows of the task along.
"""

import re
from functools import lru_cache
from typing import Any

import asyncpg

from gencode.stores.pg_pool import Connection
from gencode.stores.pg_task_rows import NewTaskRow

_PARAMETER = re.compile(r"\$(\d+)")
_BEGINS = re.compile(r"\s*WITH\s(?!\s*RECURSIVE\b)", re.IGNORECASE)


class NotCombinable(Exception):
    """The statement cannot be combined with another; nothing was written."""


class EnqueueConnection:
    """A connection for one statement. `taken`: the task was not written, because another one has its id."""

    def __init__(self, connection: Connection, new: NewTaskRow) -> None:
        self._connection = connection
        self._new = new
        self.sent = False
        self.taken = False

    async def fetch(self, statement: str, *values: object) -> list[Any]:
        """The rows of a statement; before they are there, the task is."""
        if self.sent:
            return await self._connection.fetch(statement, *values)
        head, own = self._new.parts()
        whole = _joined(head, statement, len(own))
        if whole is None:
            raise NotCombinable
        self.sent = True
        try:
            return await self._connection.fetch(whole, *own, *values)
        except asyncpg.UniqueViolationError as twice:
            if getattr(twice, "table_name", "") != "gen_task":
                raise
            self.taken = True
            return []


@lru_cache(maxsize=16)
def _joined(head: str, statement: str, count: int) -> str | None:
    """One statement that does both; the values of the second come after those of the first."""
    begins = _BEGINS.match(statement)
    if begins is None:
        return None
    rest = _PARAMETER.sub(lambda found: f"${int(found[1]) + count}", statement[begins.end() :])
    return f"{head}, {rest}"
