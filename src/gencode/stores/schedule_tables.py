"""The schedule and the outbox of messages in tables beside the journal."""

import json
import logging
from collections.abc import Callable, Sequence

import msgspec

from gencode.channels.address import Address
from gencode.channels.outbox import MOST_TOGETHER, MOST_WAITING, OutboxMessage, OutgoingMessage
from gencode.core.errors import StoreTrouble
from gencode.core.events import unicode_text
from gencode.core.ids import stamp
from gencode.core.old_events import translated_policy
from gencode.core.structs import replace
from gencode.schedule.scheduled_jobs import ScheduledJob
from gencode.stores.journal_rules import DRAWS, outbox_full, schedule_full
from gencode.stores.sql_dialect import Row, SqlDatabase, Statements, first

log = logging.getLogger(__name__)

_ADD_JOB = """
INSERT INTO gen_job (id, due, owner, revision, body, created_at) VALUES ($1, $2, $3, 0, $4, $5)
ON CONFLICT (id) DO NOTHING RETURNING id
"""
_COUNT_JOBS = "SELECT count(*) FROM gen_job"
_JOBS = "SELECT body FROM gen_job ORDER BY created_at, number"
_DUE_OR_RUNNING = "SELECT body FROM gen_job WHERE due <= $1 OR owner <> '' ORDER BY due, number"
_REPLACE_JOB = """
UPDATE gen_job SET due = $3, owner = $4, revision = $5, body = $6 WHERE id = $1 AND revision = $2 RETURNING id
"""
_REMOVE_JOB = "DELETE FROM gen_job WHERE id = $1 AND revision = $2 RETURNING id"

_ADD_MESSAGE = """
INSERT INTO gen_outbox (channel, chat, text, sender, at)
SELECT $1, $2, $3, $4, $5 WHERE (SELECT count(*) FROM gen_outbox) < $6 RETURNING number
"""
_CLAIM = """
UPDATE gen_outbox SET tries = tries + 1, not_before = $3
WHERE number IN (
    SELECT number FROM gen_outbox
    WHERE not_before <= $2 AND channel IN {texts:$1} AND ({number:$4} IS NULL OR number = $4)
    ORDER BY number LIMIT $5 {skip_locked}
)
RETURNING number, channel, chat, text, sender, at, tries
"""
_REMOVE_MESSAGE = "DELETE FROM gen_outbox WHERE number = $1 AND tries = $2 RETURNING number"
_RETRY_LATER = "UPDATE gen_outbox SET not_before = $3 WHERE number = $1 AND tries = $2"
_PENDING = "SELECT number, channel, chat, text, sender, at, tries FROM gen_outbox ORDER BY number"

_decoder = msgspec.json.Decoder(ScheduledJob)


class JobTable:
    """A `JobStore` in a table beside the journal."""

    def __init__(self, database: SqlDatabase, draw: Callable[[], str]) -> None:
        self._database = database
        self._draw = draw

    async def add(self, job: ScheduledJob, most: int) -> ScheduledJob:
        """Store a new job under a free id; UserMistake when there are too many."""

        async def write(statements: Statements) -> ScheduledJob:
            if await first(statements.fetch(_COUNT_JOBS)) >= most:
                raise schedule_full(most)
            for _ in range(DRAWS):
                new = _clean(replace(job, id=self._draw(), revision=0))
                row = (new.id, new.due, new.owner, _body(new), new.created_at)
                if await statements.fetch(_ADD_JOB, *row):
                    return new
            raise StoreTrouble(f"No free id was found in {DRAWS} draws.")

        return await self._database.transaction(write)

    async def jobs(self) -> list[ScheduledJob]:
        """All of them, oldest first."""
        return _readable(await self._database.fetch(_JOBS))

    async def due_or_running(self, now: str) -> list[ScheduledJob]:
        """The jobs that are due or running."""
        return _readable(await self._database.fetch(_DUE_OR_RUNNING, now))

    async def replace(
        self, before: ScheduledJob, after: ScheduledJob | None, draft: OutgoingMessage | None = None
    ) -> bool:
        """Replace `before` with `after` and add a message to the outbox, in one transaction."""
        new = after and _clean(replace(after, id=before.id, revision=before.revision + 1))

        async def write(statements: Statements) -> bool:
            if new is None:
                replaced = await statements.fetch(_REMOVE_JOB, before.id, before.revision)
            else:
                row = (new.due, new.owner, new.revision, _body(new))
                replaced = await statements.fetch(_REPLACE_JOB, before.id, before.revision, *row)
            if replaced and draft is not None:
                await _add_message(statements, draft)
            return bool(replaced)

        return await self._database.transaction(write)


class OutboxTable:
    """An `OutboxStore` in a table beside the journal."""

    def __init__(self, database: SqlDatabase) -> None:
        self._database = database

    async def add_message(self, draft: OutgoingMessage) -> OutboxMessage:
        """Store a message; UserMistake when too many are waiting."""
        message = await self._database.transaction(lambda statements: _add_message(statements, draft))
        if message is None:
            raise outbox_full()
        return message

    async def claim(
        self, channels: Sequence[str], now: str, until: str, number: int | None = None
    ) -> list[OutboxMessage]:
        """Claim unclaimed messages for these channels until a given time."""
        wanted = (json.dumps(list(channels)), now, until, number, MOST_TOGETHER)
        rows = await self._database.transaction(lambda statements: statements.fetch(_CLAIM, *wanted))
        return sorted((_message(row) for row in rows), key=lambda each: each.number)

    async def remove(self, message: OutboxMessage) -> bool:
        """Delete a delivered message; False when it was claimed by another process since."""
        row = (message.number, message.tries)
        return bool(await self._database.transaction(lambda each: each.fetch(_REMOVE_MESSAGE, *row)))

    async def retry_later(self, message: OutboxMessage, until: str) -> None:
        """Release a message for a later attempt, unless it was claimed by another process since."""
        row = (message.number, message.tries, until)
        await self._database.transaction(lambda each: each.fetch(_RETRY_LATER, *row))

    async def pending(self) -> list[OutboxMessage]:
        """All undelivered messages, oldest first."""
        return [_message(row) for row in await self._database.fetch(_PENDING)]


async def _add_message(statements: Statements, draft: OutgoingMessage) -> OutboxMessage | None:
    """Store a message in the open transaction; None when there is no room for it."""
    chat, text, at = unicode_text(draft.to.chat), unicode_text(draft.text), stamp()
    # As bytes, because a text of Postgres has no zero characters.
    row = (draft.to.channel, chat.encode(), text.encode(), draft.sender, at)
    number = await first(statements.fetch(_ADD_MESSAGE, *row, MOST_WAITING))
    return number and OutboxMessage(number, Address(draft.to.channel, chat), text, draft.sender, at)


def _message(row: Row) -> OutboxMessage:
    number, channel, chat, text, sender, at, tries = row
    return OutboxMessage(number, Address(channel, chat.decode()), text.decode(), sender, at, tries)


def _readable(rows: Sequence[Row]) -> list[ScheduledJob]:
    found: list[ScheduledJob] = []
    for (body,) in rows:
        try:
            job = _decoder.decode(body)
            found.append(replace(job, policy=translated_policy(job.policy)))
        except msgspec.MsgspecError as error:
            log.warning("a scheduled job cannot be read and is left alone: %s", error)
    return found


def _clean(job: ScheduledJob) -> ScheduledJob:
    return replace(job, prompt=unicode_text(job.prompt), label=unicode_text(job.label))


def _body(job: ScheduledJob) -> str:
    return msgspec.json.encode(job).decode()
