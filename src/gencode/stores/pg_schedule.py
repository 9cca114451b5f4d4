"""The schedule and the outbox of messages in Postgres."""

import logging
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from gencode.channels.address import Address
from gencode.channels.outbox import MOST_TOGETHER, MOST_WAITING, OutboxMessage, OutgoingMessage
from gencode.core.errors import StoreTrouble
from gencode.core.events import unicode_text
from gencode.core.ids import stamp
from gencode.core.old_events import translated_policy
from gencode.journal.change_notifier import ChangeNotifier
from gencode.schedule.scheduled_jobs import ScheduledJob
from gencode.stores.journal_rules import DRAWS, outbox_full, schedule_full
from gencode.stores.pg_pool import Connection, Pool

log = logging.getLogger(__name__)

_PLAN = """
INSERT INTO gen_appointment (id, due, owner, revision, body, created_at)
SELECT $1, $2, '', 0, $3, $4 WHERE (SELECT count(*) FROM gen_appointment) < $5
ON CONFLICT (id) DO NOTHING RETURNING id
"""
_COUNT = "SELECT count(*) FROM gen_appointment"
_ALL = "SELECT body FROM gen_appointment ORDER BY created_at, number"
_PRESSING = "SELECT body FROM gen_appointment WHERE due <= $1 OR owner <> '' ORDER BY due, number"
_MOVE = """
UPDATE gen_appointment SET due = $3, owner = $4, revision = $5, body = $6 WHERE id = $1 AND revision = $2
RETURNING id
"""
_REMOVE = "DELETE FROM gen_appointment WHERE id = $1 AND revision = $2 RETURNING id"
_BODY = "SELECT body FROM gen_appointment WHERE id = $1"

_PUT_OUT = """
INSERT INTO gen_outbox (channel, chat, text, sender, at, mark)
SELECT $1, $2, $3, $4, $5, $6 WHERE (SELECT count(*) FROM gen_outbox) < $7 RETURNING number
"""
_KNOWN = "SELECT number FROM gen_outbox WHERE mark = $1"
_PICK_UP = """
UPDATE gen_outbox SET tries = tries + 1, not_before = $3
WHERE number IN (
    SELECT number FROM gen_outbox
    WHERE not_before <= $2 AND ($4::bigint IS NULL OR number = $4) AND channel = ANY($1::text[])
    ORDER BY number LIMIT $5 FOR UPDATE SKIP LOCKED
)
RETURNING number, channel, chat, text, sender, at, tries
"""
_CROSS_OUT = "DELETE FROM gen_outbox WHERE number = $1 AND tries = $2 RETURNING number"
_PUT_BACK = "UPDATE gen_outbox SET not_before = $1 WHERE number = $2 AND tries = $3"
_OUTGOING = "SELECT number, channel, chat, text, sender, at, tries FROM gen_outbox ORDER BY number"

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ScheduledJob)


class PostgresSchedule:
    """An `JobStore` in tables beside the journal."""

    def __init__(self, link: Pool, draw: Callable[[], str], changes: ChangeNotifier) -> None:
        self._link = link
        self._draw = draw
        self._changes = changes

    async def add(self, appointment: ScheduledJob, most: int) -> ScheduledJob:
        """Write a new one under a free id; UserMistake when there are so many already."""
        for _ in range(DRAWS):
            named = _clean(replace(appointment, id=self._draw(), revision=0))
            if await self._planned(named, most):
                self._changes.note()
                return named
        raise StoreTrouble(f"No free id was found in {DRAWS} attempts.")

    async def jobs(self) -> list[ScheduledJob]:
        """All of them, oldest first."""
        return _read(await self._link.fetch(_ALL))

    async def due_or_running(self, now: str) -> list[ScheduledJob]:
        """Those that are due, or that some process is at."""
        return _read(await self._link.fetch(_PRESSING, now))

    async def replace(
        self, before: ScheduledJob, after: ScheduledJob | None, draft: OutgoingMessage | None = None
    ) -> bool:
        """Put `after` in the place of `before` and put a message out, all or nothing."""
        mark = secrets.token_hex(8)
        new = after and _clean(replace(after, id=before.id, revision=before.revision + 1))

        async def step(connection: Connection, again: bool) -> bool:
            async with connection.transaction():
                if new is None:
                    moved = await connection.fetchval(_REMOVE, before.id, before.revision)
                else:
                    row = (new.due, new.owner, new.revision, _body(new))
                    moved = await connection.fetchval(_MOVE, before.id, before.revision, *row)
                if moved is None:
                    told = await connection.fetchval(_BODY, before.id) if again else None
                    return again and told == (new and _body(new))
                if draft is not None:
                    await connection.fetchval(_PUT_OUT, *_out_row(draft), stamp(), mark, MOST_WAITING)
                return True

        moved = await self._link.patiently(step)
        self._changes.note()
        return moved

    async def _planned(self, new: ScheduledJob, most: int) -> bool:
        async def step(connection: Connection, again: bool) -> bool:
            row = (new.id, new.due, _body(new), new.created_at, most)
            if await connection.fetchval(_PLAN, *row) is not None:
                return True
            if again and await connection.fetchval(_BODY, new.id) == _body(new):
                return True
            if await connection.fetchval(_COUNT) >= most:
                raise schedule_full(most)
            return False

        return await self._link.patiently(step)


class PostgresOutbox:
    """A `OutboxStore` in a table beside the journal."""

    def __init__(self, link: Pool, changes: ChangeNotifier) -> None:
        self._link = link
        self._changes = changes

    async def add_message(self, draft: OutgoingMessage) -> OutboxMessage:
        """Write a message down; UserMistake when too many wait already."""
        mark, at = secrets.token_hex(8), stamp()

        async def step(connection: Connection, again: bool) -> int:
            known = await connection.fetchval(_KNOWN, mark) if again else None
            number: int | None = known or await connection.fetchval(
                _PUT_OUT, *_out_row(draft), at, mark, MOST_WAITING
            )
            if number is None:
                raise outbox_full()
            return number

        number = await self._link.patiently(step)
        self._changes.note()
        to = Address(draft.to.channel, unicode_text(draft.to.chat))
        return OutboxMessage(number, to, unicode_text(draft.text), draft.sender, at)

    async def claim(
        self, channels: Sequence[str], now: str, until: str, number: int | None = None
    ) -> list[OutboxMessage]:
        """Take messages for these channels that nobody holds, and hold them until a moment."""
        rows = await self._link.fetch(_PICK_UP, list(channels), now, until, number, MOST_TOGETHER)
        return sorted((_outgoing(row) for row in rows), key=lambda each: each.number)

    async def remove(self, message: OutboxMessage) -> bool:
        """Forget a message that was delivered; False when somebody else has taken it since."""
        return bool(await self._link.fetch(_CROSS_OUT, message.number, message.tries))

    async def retry_later(self, message: OutboxMessage, until: str) -> None:
        """Leave a message for later, unless somebody else has taken it since."""
        await self._link.fetch(_PUT_BACK, until, message.number, message.tries)
        self._changes.note()

    async def pending(self) -> list[OutboxMessage]:
        """Everything that is not delivered, oldest first."""
        return [_outgoing(row) for row in await self._link.fetch(_OUTGOING)]


def _read(rows: Sequence[Any]) -> list[ScheduledJob]:
    found: list[ScheduledJob] = []
    for row in rows:
        try:
            job = _decoder.decode(row[0])
            found.append(replace(job, policy=translated_policy(job.policy)))
        except msgspec.MsgspecError as error:
            log.warning("a scheduled job cannot be read and is left alone: %s", error)
    return found


def _clean(appointment: ScheduledJob) -> ScheduledJob:
    return replace(
        appointment, prompt=unicode_text(appointment.prompt), label=unicode_text(appointment.label)
    )


def _body(appointment: ScheduledJob) -> str:
    return _encoder.encode(appointment).decode()


def _out_row(draft: OutgoingMessage) -> tuple[str, bytes, bytes, str]:
    chat, text = unicode_text(draft.to.chat), unicode_text(draft.text)
    return draft.to.channel, chat.encode(), text.encode(), draft.sender


def _outgoing(row: Any) -> OutboxMessage:
    number, channel, chat, text, sender, at, tries = row
    return OutboxMessage(number, Address(channel, chat.decode()), text.decode(), sender, at, tries)
