"""Claims on budgets in the SQLite file (stores rack)."""

import logging
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from gencode.runtime.claims import Claim
from gencode.stores.beside import Beside
from gencode.stores.together import Doing

log = logging.getLogger(__name__)

_FORGET = "DELETE FROM Claims WHERE At < strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 day')"
_PUT = """
INSERT INTO Claims (Via, Body, At)
SELECT Id, ?, strftime('%Y-%m-%dT%H:%M:%fZ', 'now') FROM Sessions WHERE Id = ? RETURNING Number
"""
_NONE = 0
"""The number of a claim on a task that is gone: nobody answers it."""
# Looked at ten times a second where a budget is spent, and nearly always empty: so that one comes first.
_AT = """
SELECT c.Number, CAST(c.Body AS BLOB) FROM Claims c CROSS JOIN Sessions s ON s.Id = c.Via
WHERE s.Owner = ? ORDER BY 1
"""
_WAITS = "SELECT Number, Body FROM Claims WHERE Number = ?"
_GIVE = "UPDATE Claims SET Body = ? WHERE Number = ?"
_DROP = "DELETE FROM Claims WHERE Number = ? RETURNING Body"


class SqliteClaims(Beside):
    """`Claims` in a table beside the journal."""

    async def put(self, claim: Claim) -> int:
        """Lay a claim down; its number."""
        body = msgspec.json.encode(claim).decode()

        def write() -> int:
            self._writer.execute(_FORGET)
            rows = self._writer.execute(_PUT, (body, claim.via)).fetchall()
            return int(rows[0][0]) if rows else _NONE

        return await self._pen.write(Doing(write), together=False)

    async def at(self, owner: str) -> Sequence[tuple[int, Claim]]:
        """The claims on budgets that this owner spends from, in the order they came."""
        found, lost = waiting(await self._read(_AT, (owner,)))
        for number in lost:
            await self.drop(number)
        return found

    async def waits(self, number: int) -> bool:
        """Whether a claim lies there that has no answer."""
        found, lost = waiting(await self._read(_WAITS, (number,)))
        return bool(found or lost)

    async def give(self, number: int, claim: Claim) -> bool:
        """Leave a claim with what is given in its place; False: it is gone."""
        body = msgspec.json.encode(claim).decode()

        def write() -> int:
            return self._writer.execute(_GIVE, (body, number)).rowcount

        return bool(await self._pen.write(Doing(write), together=False))

    async def drop(self, number: int) -> Mapping[str, int]:
        """Take a claim away; what was given with it."""

        def write() -> list[tuple[str]]:
            return self._writer.execute(_DROP, (number,)).fetchall()

        return given_in(body for (body,) in await self._pen.write(Doing(write), together=False))


def waiting(rows: Iterable[tuple[int, bytes | str]]) -> tuple[list[tuple[int, Claim]], list[int]]:
    """Claims without an answer as they are stored, and the numbers of those that say nothing to us.

    Nobody can answer these.
    """
    found: list[tuple[int, Claim]] = []
    lost: list[int] = []
    for number, body in rows:
        claim = _read(body)
        if claim is None:
            lost.append(number)
        elif not claim.given:
            found.append((number, claim))
    return found, lost


def given_in(bodies: Iterable[bytes | str]) -> Mapping[str, int]:
    """What was given with the claim that is stored in one of these, if any is."""
    claims = [claim for body in bodies if (claim := _read(body)) is not None]
    return claims[0].given if claims else {}


def _read(body: bytes | str) -> Claim | None:
    try:
        return msgspec.json.decode(body, type=Claim)
    except (msgspec.MsgspecError, RecursionError) as error:
        log.warning("a claim on a budget cannot be read and is dropped: %s", error)
        return None
