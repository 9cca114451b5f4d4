"""Base class of tables beside the journal in the SQLite file."""

import sqlite3
from typing import Any

from gencode.stores.group_commit import GroupCommit, patiently
from gencode.stores.sqlite_schema import PlainErrors


class SqliteTable:
    """What reads and writes such tables: with the pen of the journal, and a connection that only reads."""

    def __init__(
        self, pen: GroupCommit, writer: sqlite3.Connection, reader: sqlite3.Connection, errors: PlainErrors
    ) -> None:
        self._pen = pen
        self._writer = writer
        self._reader = reader
        self._errors = errors

    async def _read(self, statement: str, values: Any = ()) -> list[Any]:
        return await patiently(lambda: self._reader.execute(statement, values).fetchall(), self._errors)
