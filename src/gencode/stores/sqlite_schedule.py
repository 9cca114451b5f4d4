"""The schedule and the outbox of messages in the SQLite file."""

import logging
import sqlite3
from collections.abc import Callable, Sequence

import msgspec
from msgspec.structs import replace

from gencode.channels.address import Address
from gencode.channels.outbox import MOST_TOGETHER, MOST_WAITING, OutboxMessage, OutgoingMessage
from gencode.core.errors import StoreTrouble
from gencode.core.events import unicode_text
from gencode.core.ids import stamp
from gencode.core.old_events import translated_policy
from gencode.schedule.scheduled_jobs import ScheduledJob
from gencode.stores.group_commit import FunctionStep, GroupCommit, SqliteTable, WriteStep
from gencode.stores.journal_rules import DRAWS, outbox_full, schedule_full
from gencode.stores.sqlite_schema import PlainErrors

log = logging.getLogger(__name__)

_PLAN = """
INSERT INTO Appointments (Id, Due, Owner, Revision, Body, CreatedAt)
SELECT ?, ?, '', 0, ?, ? WHERE (SELECT count(*) FROM Appointments) < ?
ON CONFLICT (Id) DO NOTHING
"""
_COUNT = "SELECT count(*) FROM Appointments"
_ALL = "SELECT Body FROM Appointments ORDER BY CreatedAt, rowid"
PRESSING = "SELECT Body FROM Appointments WHERE Due <= ? OR Owner <> '' ORDER BY Due, rowid"
_MOVE = "UPDATE Appointments SET Due = ?, Owner = ?, Revision = ?, Body = ? WHERE Id = ? AND Revision = ?"
_REMOVE = "DELETE FROM Appointments WHERE Id = ? AND Revision = ?"

_PUT_OUT = """
INSERT INTO Outbox (Channel, Chat, Text, Sender, At)
SELECT ?, ?, ?, ?, ? WHERE (SELECT count(*) FROM Outbox) < ? RETURNING Number
"""
_PICK_UP = """
UPDATE Outbox SET Tries = Tries + 1, NotBefore = :until
WHERE Number IN (
    SELECT Number FROM Outbox
    WHERE NotBefore <= :now AND (:number IS NULL OR Number = :number)
      AND Channel IN (SELECT value FROM json_each(:channels))
    ORDER BY Number LIMIT :most
)
RETURNING Number, Channel, Chat, Text, Sender, At, Tries
"""
_CROSS_OUT = "DELETE FROM Outbox WHERE Number = ? AND Tries = ?"
_PUT_BACK = "UPDATE Outbox SET NotBefore = ? WHERE Number = ? AND Tries = ?"
_OUTGOING = "SELECT Number, Channel, Chat, Text, Sender, At, Tries FROM Outbox ORDER BY Number"

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ScheduledJob)


class SqliteSchedule(SqliteTable):
    """The schedule in a table beside the journal (implements `JobStore`)."""

    def __init__(
        self,
        commits: GroupCommit,
        writer: sqlite3.Connection,
        reader: sqlite3.Connection,
        errors: PlainErrors,
        draw: Callable[[], str],
    ) -> None:
        super().__init__(commits, writer, reader, errors)
        self._draw = draw

    async def add(self, appointment: ScheduledJob, most: int) -> ScheduledJob:
        """Write a new one under a free id; UserMistake when there are so many already."""
        for _ in range(DRAWS):
            named = replace(appointment, id=self._draw(), revision=0)
            if await self._commits.write(_PlanStep(self._writer, named, most), together=False):
                return named
        raise StoreTrouble(f"No free id was found in {DRAWS} draws.")

    async def jobs(self) -> list[ScheduledJob]:
        """All of them, oldest first."""
        return _legible(await self._read(_ALL))

    async def due_or_running(self, now: str) -> list[ScheduledJob]:
        """Those that are due, or that some process is at."""
        return _legible(await self._read(PRESSING, (now,)))

    async def replace(
        self, before: ScheduledJob, after: ScheduledJob | None, draft: OutgoingMessage | None = None
    ) -> bool:
        """Put `after` in the place of `before` and put a message out, all or nothing."""
        return await self._commits.write(_MoveStep(self._writer, before, after, draft), together=False)


class SqliteOutbox(SqliteTable):
    """The outbox in a table beside the journal (implements `OutboxStore`)."""

    async def add_message(self, draft: OutgoingMessage) -> OutboxMessage:
        """Write a message down; UserMistake when too many wait already."""
        return await self._commits.write(_PutOutStep(self._writer, draft), together=False)

    async def claim(
        self, channels: Sequence[str], now: str, until: str, number: int | None = None
    ) -> list[OutboxMessage]:
        """Take messages for these channels that nobody holds, and hold them until a moment."""
        named = msgspec.json.encode(channels).decode()
        wanted = {"channels": named, "now": now, "until": until, "number": number, "most": MOST_TOGETHER}
        rows = await self._commits.write(
            FunctionStep(lambda: self._writer.execute(_PICK_UP, wanted).fetchall()), together=False
        )
        return sorted((_outgoing(row) for row in rows), key=lambda each: each.number)

    async def remove(self, message: OutboxMessage) -> bool:
        """Forget a message that was delivered; False when somebody else has taken it since."""
        row = (message.number, message.tries)
        gone = await self._commits.write(
            FunctionStep(lambda: self._writer.execute(_CROSS_OUT, row).rowcount), together=False
        )
        return gone > 0

    async def retry_later(self, message: OutboxMessage, until: str) -> None:
        """Leave a message for later, unless somebody else has taken it since."""
        row = (until, message.number, message.tries)
        await self._commits.write(
            FunctionStep(lambda: self._writer.execute(_PUT_BACK, row).rowcount), together=False
        )

    async def pending(self) -> list[OutboxMessage]:
        """Everything that is not delivered, oldest first."""
        return [_outgoing(row) for row in await self._read(_OUTGOING)]


class _PlanStep(WriteStep[bool]):
    """A new appointment, if there is room; False when its id is taken."""

    __slots__ = ("_appointment", "_connection", "_most")

    def __init__(self, connection: sqlite3.Connection, appointment: ScheduledJob, most: int) -> None:
        self._connection = connection
        self._appointment = appointment
        self._most = most

    def write(self) -> bool:
        """Write the row."""
        new = self._appointment
        row = (new.id, new.due, _body(new), new.created_at, self._most)
        if self._connection.execute(_PLAN, row).rowcount:
            return True
        if self._connection.execute(_COUNT).fetchone()[0] >= self._most:
            raise schedule_full(self._most)
        return False


class _MoveStep(WriteStep[bool]):
    """A change of an appointment, with the message that tells of it; False when it was changed before."""

    __slots__ = ("_after", "_before", "_connection", "_draft")

    def __init__(
        self,
        connection: sqlite3.Connection,
        before: ScheduledJob,
        after: ScheduledJob | None,
        draft: OutgoingMessage | None,
    ) -> None:
        self._connection = connection
        self._before = before
        self._after = after
        self._draft = draft

    def write(self) -> bool:
        """Change or remove the row if it is still as it was, then write the message."""
        before, known = self._before, (self._before.id, self._before.revision)
        if self._after is None:
            moved = self._connection.execute(_REMOVE, known).rowcount
        else:
            after = replace(self._after, id=before.id, revision=before.revision + 1)
            row = (after.due, after.owner, after.revision, _body(after), *known)
            moved = self._connection.execute(_MOVE, row).rowcount
        if moved and self._draft is not None:
            self._connection.execute(_PUT_OUT, _out_row(self._draft, stamp())).fetchall()
        return bool(moved)


class _PutOutStep(WriteStep[OutboxMessage]):
    """A message to be delivered."""

    __slots__ = ("_connection", "_draft")

    def __init__(self, connection: sqlite3.Connection, draft: OutgoingMessage) -> None:
        self._connection = connection
        self._draft = draft

    def write(self) -> OutboxMessage:
        """Write the row."""
        channel, chat, text, sender, at, most = _out_row(self._draft, stamp())
        numbered = self._connection.execute(_PUT_OUT, (channel, chat, text, sender, at, most)).fetchall()
        if not numbered:
            raise outbox_full()
        return OutboxMessage(numbered[0][0], Address(channel, chat), text, sender, at)


def _legible(rows: Sequence[tuple[str]]) -> list[ScheduledJob]:
    found: list[ScheduledJob] = []
    for (body,) in rows:
        try:
            job = _decoder.decode(body)
            found.append(replace(job, policy=translated_policy(job.policy)))
        except msgspec.MsgspecError as error:
            log.warning("a scheduled job cannot be read and is left alone: %s", error)
    return found


def _body(appointment: ScheduledJob) -> str:
    clean = replace(
        appointment, prompt=unicode_text(appointment.prompt), label=unicode_text(appointment.label)
    )
    return _encoder.encode(clean).decode()


def _out_row(draft: OutgoingMessage, at: str) -> tuple[str, str, str, str, str, int]:
    return (
        draft.to.channel,
        unicode_text(draft.to.chat),
        unicode_text(draft.text),
        draft.sender,
        at,
        MOST_WAITING,
    )


def _outgoing(row: tuple[int, str, str, str, str, str, int]) -> OutboxMessage:
    number, channel, chat, text, sender, at, tries = row
    return OutboxMessage(number, Address(channel, chat), text, sender, at, tries)
