"""Folds a stored task: its snapshot and the events after it; one that cannot be read has failed."""

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gencode.core.errors import CorruptFact
from gencode.core.events import Event, plain, unknown_kind
from gencode.core.old_events import stored_fact
from gencode.core.status import EndReason, Status
from gencode.core.structs import replace
from gencode.core.task import RECORDS, Task, fold
from gencode.stores.journal_rules import is_moment

StoredFact = Sequence[Any]
"""Number, time and JSON of a fact."""
SNAPSHOT_EVERY = 64
"""A snapshot is written after so many facts, so that reading a task folds at most as many."""

_FOLD_REVISION = 5  # raise it when `fold` gives another task for the same facts
FOLD = zlib.crc32(repr((_FOLD_REVISION, *(record.__struct_fields__ for record in RECORDS))).encode())
"""The version of the fold that made a snapshot; snapshots of another version are ignored."""

_decoder = msgspec.json.Decoder(Task)


def event_of(task: str, row: StoredFact, expected: int) -> Event:
    """One stored fact; CorruptFact says which one cannot be read and why."""
    seq, at, body = row
    if seq != expected:
        raise gap(task, expected)
    if not is_moment(at):
        raise CorruptFact(f"Fact {seq} of task {task} cannot be read: {at!r} is not a moment.")
    try:
        return Event(task, seq, at, stored_fact(body))
    except CorruptFact as error:
        raise CorruptFact(f"Fact {seq} of task {task} {error}") from None


def events_of(task: str, rows: Iterable[StoredFact], after: int, last: int) -> list[Event]:
    """The facts from one number to the last; CorruptFact carries those before the one that is wrong."""
    events: list[Event] = []
    for expected, row in enumerate(rows, start=after + 1):
        try:
            events.append(event_of(task, row, expected))
        except CorruptFact as corrupt:
            raise CorruptFact(str(corrupt), events) from None
    if after + len(events) < last:
        raise CorruptFact(str(gap(task, after + len(events) + 1)), events)
    return events


def lines_of(task: str, rows: Iterable[StoredFact], last: int) -> list[dict[str, Any]]:
    """All facts as objects for an export, also those of kinds that are not known here, as they are stored."""
    lines: list[dict[str, Any]] = []
    for expected, row in enumerate(rows, start=1):
        try:
            lines.append(plain(event_of(task, row, expected)))
        except CorruptFact:
            seq, at, body = row
            if seq != expected or not is_moment(at) or unknown_kind(body) is None:
                raise
            place = {"task": task, "seq": seq, "at": at}
            lines.append({**place, **msgspec.json.decode(body, type=dict[str, Any]), **place})
    if len(lines) < last:
        raise gap(task, len(lines) + 1)
    return lines


def folded(
    task: str, state: Task | None, rows: Iterable[StoredFact], last: int
) -> tuple[Task | None, CorruptFact | None]:
    """A task from its snapshot and the facts after it, as far as they can be read, and the error."""
    known = state.seq if state else 0
    try:
        for expected, row in enumerate(rows, start=known + 1):
            state = fold(state, event_of(task, row, expected))
    except CorruptFact as trouble:
        return unreadable(state, trouble), trouble
    if state is None or state.seq != last:
        trouble = gap(task, state.seq + 1 if state else 1)
        return unreadable(state, trouble), trouble
    return state, None


def unreadable(state: Task | None, why: CorruptFact) -> Task | None:
    """A task with a fact that cannot be read: it has failed, since nobody can resume or end it."""
    if state is None or state.status.ended:
        return state
    end = replace(
        state.end, at=state.touched_at or state.created_at, reason=EndReason.UNREADABLE, error=str(why)
    )
    return replace(state, status=Status.FAILED, end=end, run=replace(state.run, since=None))


def snapshot(state: Task) -> str:
    """The JSON of a snapshot."""
    return msgspec.json.encode(state).decode()


def snapshot_of(body: str | bytes | None) -> Task | None:
    """The stored snapshot; None when it is missing or cannot be read, so that all facts are folded."""
    try:
        return None if body is None else _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def gap(task: str, number: int) -> CorruptFact:
    """The error for a missing fact."""
    return CorruptFact(f"Fact {number} of task {task} is missing from the journal.")
