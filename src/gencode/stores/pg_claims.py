"""Claims on budgets in Postgres (stores rack)."""

from collections.abc import Mapping, Sequence

import msgspec

from gencode.runtime.claims import Claim
from gencode.stores.claims import given_in, waiting
from gencode.stores.pg_link import WAKE, Ear, Link

CLAIMS = """
CREATE TABLE gen_claim (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    via text COLLATE "C" NOT NULL,
    body text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp()
);
"""
_LOOK_SECONDS = 1.0
"""So often is looked where nothing was heard."""

_FORGET = "DELETE FROM gen_claim WHERE at < clock_timestamp() - interval '1 day'"
_PUT = "INSERT INTO gen_claim (via, body) VALUES ($1, $2) RETURNING number"
_WAKE = "SELECT owner, pg_notify($2, owner) FROM gen_task WHERE id = $1 AND owner IS NOT NULL"
_AT = """
SELECT c.number, c.body FROM gen_claim c JOIN gen_task t ON t.id = c.via WHERE t.owner = $1 ORDER BY 1
"""
_WAITS = "SELECT number, body FROM gen_claim WHERE number = $1"
_GIVE = "UPDATE gen_claim SET body = $2 WHERE number = $1 RETURNING number"
_DROP = "DELETE FROM gen_claim WHERE number = $1 RETURNING body"


class PostgresClaims:
    """`Claims` in a table beside the journal. One that was laid down twice is answered twice, no more."""

    def __init__(self, link: Link, ear: Ear) -> None:
        self._link = link
        self._ear = ear

    async def put(self, claim: Claim) -> int:
        """Lay a claim down, and wake up whoever may answer it; its number."""
        await self._link.fetch(_FORGET)
        rows = await self._link.fetch(_PUT, claim.via, msgspec.json.encode(claim).decode())
        for row in await self._link.fetch(_WAKE, claim.via, WAKE):
            self._ear.hear(row[0])
        return int(rows[0][0])

    async def at(self, owner: str) -> Sequence[tuple[int, Claim]]:
        """The claims on budgets that this owner spends from, in the order they came."""
        if await self._ear.quiet("claims", owner, _LOOK_SECONDS):
            return []
        found, lost = waiting((row[0], row[1]) for row in await self._link.fetch(_AT, owner))
        for number in lost:
            await self.drop(number)
        return found

    async def waits(self, number: int) -> bool:
        """Whether a claim lies there that has no answer."""
        found, lost = waiting((row[0], row[1]) for row in await self._link.fetch(_WAITS, number))
        return bool(found or lost)

    async def give(self, number: int, claim: Claim) -> bool:
        """Leave a claim with what is given in its place; False: it is gone."""
        return bool(await self._link.fetch(_GIVE, number, msgspec.json.encode(claim).decode()))

    async def drop(self, number: int) -> Mapping[str, int]:
        """Take a claim away; what was given with it. Where that is lost on the way, it counts as nothing."""
        return given_in(row[0] for row in await self._link.fetch(_DROP, number))
