"""Rate limits of model requests, shared by all machines in Postgres.

One row for each model is a pause and a bucket. After a refusal nobody asks until the pause is over; then
requests leave one by one, one a second at first and twice as many every ten seconds, half as many after
another refusal. When nothing was refused for a minute this is forgotten, and until something is refused it
costs a look every two seconds. Only the clock of the database counts.
"""

import asyncio
import logging

from gencode.core.errors import GenCodeError
from gencode.stores.pg_pool import WAKE, Connection, NotifyListener, Pool, storable

log = logging.getLogger(__name__)

LOOK_SECONDS = 2.0
"""Between two looks without a notification."""
CALM = 60.0
"""Seconds after which a refusal is forgotten; most limits count by the minute."""
FIRST = 1.0
"""Requests per second right after a first pause."""
SLOWEST = 0.1
TWICE = 10.0
"""Seconds after which the rate doubles."""
LONGEST_PAUSE = 30.0
LONGEST_WAIT = 10.0
"""A request that would wait longer gets no place and asks again."""
BURST = 10.0
"""What was not asked in so many seconds may be asked at once, where only a limit is set."""

_MAKE = """
INSERT INTO gen_pace VALUES ($1, 0, to_timestamp(0), to_timestamp(0), $2, to_timestamp(0))
ON CONFLICT DO NOTHING
"""
# The row is locked before it is read, so that two requests never get the same place.
_TAKE = """
WITH held AS (
    SELECT g.*, clock_timestamp() AS at FROM gen_pace g WHERE g.model = $1 FOR UPDATE
), seen AS (
    SELECT h.*, h.calm_at > h.at AS cold,
           h.rate * 2 ^ least(extract(epoch FROM h.at - h.paused_until)::float8 / $3, 40) AS grown FROM held h
), measured AS (
    SELECT s.*, CASE WHEN s.cold THEN least(s.grown, coalesce($2, s.grown)) ELSE $2 END AS speed FROM seen s
), placed AS (
    SELECT m.*, greatest(m.next_at, m.at) AS last,
           greatest(m.at, m.paused_until,
                    m.next_at - make_interval(secs => CASE WHEN m.cold THEN 0 ELSE $4 END)) AS goes
    FROM measured m
)
UPDATE gen_pace g SET next_at = CASE WHEN p.speed IS NULL OR p.goes > p.at + make_interval(secs => $5)
    THEN g.next_at ELSE greatest(p.last, p.goes) + make_interval(secs => 1 / p.speed) END
FROM placed p WHERE g.model = p.model
RETURNING extract(epoch FROM p.goes - p.at)::float8, p.goes <= p.at + make_interval(secs => $5)
"""
_REFUSE = """
WITH held AS (
    SELECT g.*, clock_timestamp() AS at FROM gen_pace g WHERE g.model = $1 FOR UPDATE
), seen AS (
    SELECT h.*, h.calm_at > h.at AS cold, h.paused_until > h.at AS known,
           h.rate * 2 ^ least(extract(epoch FROM h.at - h.paused_until)::float8 / $3, 40) AS grown FROM held h
), counted AS (
    SELECT s.*, CASE WHEN NOT s.cold THEN 1 WHEN s.known THEN s.refusals ELSE s.refusals + 1 END AS times
    FROM seen s
), paused AS (
    SELECT c.*, greatest(c.paused_until, c.at + make_interval(
        secs => CASE WHEN $2 > 0 THEN $2 WHEN c.known THEN 0 ELSE least($4, 2 ^ (c.times - 1)) END)) AS until
    FROM counted c
)
UPDATE gen_pace g SET refusals = p.times, paused_until = p.until, next_at = p.until,
    calm_at = p.until + make_interval(secs => $5),
    rate = CASE WHEN NOT p.cold THEN $6 WHEN p.known THEN g.rate ELSE greatest(p.grown / 2, $7) END
FROM paused p WHERE g.model = p.model
"""
_COLD = "SELECT calm_at > clock_timestamp() FROM gen_pace WHERE model = $1"


class PostgresRequestPacing:
    """A `Pace` in a table beside the journal."""

    def __init__(self, link: Pool, ear: NotifyListener) -> None:
        self._link = link
        self._ear = ear
        self._cold: dict[str, bool] = {}

    async def turn(self, model: str, rate: float | None) -> None:
        """Wait until a model may be asked; does not wait when the database is unreachable."""
        model = storable(model)
        try:
            while rate is not None or await self._is_cold(model):
                wait, mine = await self.take(model, rate)
                await asyncio.sleep(wait if mine else LONGEST_WAIT)
                if mine:
                    return
        except GenCodeError as trouble:
            log.warning("it is not known how fast %s may be asked: %s", model, trouble)

    async def refuse(self, model: str, pause: float) -> None:
        """Record that a model refused a request, and tell all processes."""
        model = storable(model)

        async def step(connection: Connection, _again: bool) -> None:
            async with connection.transaction():
                await connection.execute(_MAKE, model, FIRST)
                await connection.execute(_REFUSE, model, pause, TWICE, LONGEST_PAUSE, CALM, FIRST, SLOWEST)
                await connection.execute("SELECT pg_notify($1, $2)", WAKE, _listener(model))

        try:
            await self._link.patiently(step)
        except GenCodeError as trouble:
            log.warning("others could not be told that %s was asked too much: %s", model, trouble)
        self._ear.hear(_listener(model))

    async def take(self, model: str, rate: float | None = None) -> tuple[float, bool]:
        """The seconds until a model may be asked, and whether a place was reserved."""
        limit = (rate, TWICE, BURST, LONGEST_WAIT)
        rows = await self._link.fetch(_TAKE, model, *limit)
        if not rows:
            await self._link.fetch(_MAKE, model, FIRST)
            rows = await self._link.fetch(_TAKE, model, *limit)
        return (rows[0][0], rows[0][1]) if rows else (0.0, True)

    async def _is_cold(self, model: str) -> bool:
        if not await self._ear.quiet("pace", _listener(model), LOOK_SECONDS):
            rows = await self._link.fetch(_COLD, model)
            self._cold[model] = bool(rows and rows[0][0])
        return self._cold.get(model, False)


def _listener(model: str) -> str:
    """The name of a model in notifications."""
    return f"pace {model}"
