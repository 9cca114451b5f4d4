"""Claims on budgets in the SQLite file (stores rack)."""

import sqlite3
from collections.abc import Sequence
from typing import Any

import msgspec

from gencode.runtime.claims import Claim
from gencode.stores.schema import PlainErrors
from gencode.stores.together import Doing, Pen, patiently

_FORGET = "DELETE FROM Claims WHERE At < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 day')"
_PUT = """
INSERT INTO Claims (Via, Body, At) VALUES (?, ?, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) RETURNING Number
"""
# Looked at ten times a second where a budget is spent, and nearly always empty: so that one comes first.
_AT = """
SELECT c.Number, CAST(c.Body AS BLOB) FROM Claims c CROSS JOIN Sessions s ON s.Id = c.Via
WHERE s.Owner = ? ORDER BY 1
"""
_WAITS = "SELECT 1 FROM Claims WHERE Number = ?"
_DROP = "DELETE FROM Claims WHERE Number = ?"


class SqliteClaims:
    """`Claims` in a table beside the journal."""

    def __init__(
        self, pen: Pen, writer: sqlite3.Connection, reader: sqlite3.Connection, errors: PlainErrors
    ) -> None:
        self._pen = pen
        self._writer = writer
        self._reader = reader
        self._errors = errors

    async def put(self, claim: Claim) -> int:
        """Lay a claim down; its number."""
        body = msgspec.json.encode(claim).decode()

        def write() -> int:
            self._writer.execute(_FORGET)
            return int(self._writer.execute(_PUT, (claim.via, body)).fetchall()[0][0])

        return await self._pen.write(Doing(write), together=False)

    async def at(self, owner: str) -> Sequence[tuple[int, Claim]]:
        """The claims on budgets that this owner spends from, in the order they came."""
        return [(number, claim_of(body)) for number, body in await self._read(_AT, owner)]

    async def waits(self, number: int) -> bool:
        """Whether a claim lies there."""
        return bool(await self._read(_WAITS, number))

    async def drop(self, number: int) -> None:
        """Take a claim away."""

        def write() -> int:
            return self._writer.execute(_DROP, (number,)).rowcount

        await self._pen.write(Doing(write), together=False)

    async def _read(self, statement: str, value: object) -> list[Any]:
        return await patiently(lambda: self._reader.execute(statement, (value,)).fetchall(), self._errors)


def claim_of(body: bytes | str) -> Claim:
    """A claim as it is stored."""
    return msgspec.json.decode(body, type=Claim)
