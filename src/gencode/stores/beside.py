"""Tables of the SQLite file beside the journal (stores rack)."""

import sqlite3
from typing import Any

from gencode.stores.schema import PlainErrors
from gencode.stores.together import Pen, patiently


class Beside:
    """What reads and writes such tables: with the pen of the journal, and a connection that only reads."""

    def __init__(
        self, pen: Pen, writer: sqlite3.Connection, reader: sqlite3.Connection, errors: PlainErrors
    ) -> None:
        self._pen = pen
        self._writer = writer
        self._reader = reader
        self._errors = errors

    async def _read(self, statement: str, values: Any = ()) -> list[Any]:
        return await patiently(lambda: self._reader.execute(statement, values).fetchall(), self._errors)
