"""Exports and imports one task as JSONL: a header, then one event per line; other systems' lines as well."""

import hashlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
from msgspec import Struct

from gencode.core.errors import CorruptFact, UserMistake
from gencode.core.events import (
    DURABLE_KINDS,
    DurableFact,
    Event,
    ObsoleteFact,
    StoredFact,
    TaskCreated,
    TaskEnded,
    TaskImported,
)
from gencode.core.ids import ID_LENGTH, clean_id, moment, stamp
from gencode.core.old_events import OBSOLETE, translated
from gencode.core.status import EndReason, Status
from gencode.core.task import Task, fold

FORMAT = "gencode-task"
VERSION = 1

_EPOCH = "1970-01-01T00:00:00.000000Z"
_BAD_LINE = (
    CorruptFact,
    UserMistake,
    msgspec.MsgspecError,
    ValueError,
    OverflowError,
    OSError,  # a time outside of the platform's range
    RecursionError,
)


class Imported(Struct, frozen=True):
    """The facts of a file, numbered without gaps, and what was left out."""

    events: list[Event]
    warnings: list[str]

    def imported(self, cwd: str) -> list[Event]:
        """The facts, followed by the one that records the import: the task belongs to this folder now."""
        last = self.events[-1]
        return [*self.events, Event(last.task, (last.seq or 0) + 1, stamp(), TaskImported(cwd))]


class _ForeignTask(Struct, frozen=True, rename="camel"):
    """The fields of other systems' lines that we read."""

    input_text: str | None = None
    prompt: str | None = None
    task_type: str | None = None
    agent: str | None = None
    result: Any = None
    error: Any = None


def export_task(lines: Iterable[Mapping[str, Any]]) -> str:
    """The lines of a task's journal as JSONL text, ready to be imported anywhere."""
    whole = [{"format": FORMAT, "version": VERSION}, *lines]
    return "".join(f"{msgspec.json.encode(line).decode()}\n" for line in whole)


def import_task(text: str) -> Imported:
    """The journal in a JSONL text; UserMistake names the line that cannot be read.

    Besides our own lines it reads objects with a `type` such as TASK_CREATED and their fields in `data` or
    `payload`. Kinds that nobody knows are left out with a warning; the rest is numbered anew.
    """
    reading = _JsonlReader(text)
    # Not splitlines(): a JSON string may hold U+2028 and its like as they are.
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), start=1):
        if line.strip():
            try:
                reading.add(number, _object(line))
            except _BAD_LINE as error:
                raise UserMistake(f"Line {number} cannot be imported: {error}") from None
    if not reading.events:
        raise UserMistake("This file holds no task: none of its lines creates one.")
    return Imported(reading.events, reading.warnings)


def _object(line: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(line, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise UserMistake(f"it is not a JSON object ({error})") from None


class _JsonlReader:
    """What has been read of one file so far."""

    def __init__(self, text: str) -> None:
        self.events: list[Event] = []
        self.warnings: list[str] = []
        self._text = text
        self._state: Task | None = None
        self._told_id: object = None
        self._last_seq = 0

    def add(self, number: int, line: dict[str, Any]) -> None:
        """Take in one line."""
        if "format" in line and "kind" not in line:
            _check_header(line)
            return
        self._check_order(line)
        fact = _ours(line) if "kind" in line else _foreign(line)
        if fact is None:
            kind = str(line.get("kind", line.get("type")))[:60]
            self.warnings.append(f"Line {number} was left out: nothing here knows the kind {kind!r}.")
            return
        seq = self._state.seq + 1 if self._state else 1
        event = Event(self._id(line), seq, self._time(line), fact)
        self._state = fold(self._state, event)
        self.events.append(event)

    def _check_order(self, line: dict[str, Any]) -> None:
        """Check that our own lines are numbered without gaps; a gap means that a fact was lost."""
        told = line.get("seq")
        if told is None or "kind" not in line:
            return
        if told != self._last_seq + 1:
            raise UserMistake(f"event {self._last_seq + 1} was expected, not {told!r}")
        self._last_seq += 1

    def _id(self, line: dict[str, Any]) -> str:
        """The task's id; an id of another system always maps to the same one of ours."""
        told = line.get("task", line.get("taskId", line.get("task_id", self._told_id)))
        if self._state is None:
            self._told_id = told
            if isinstance(told, str) and len(told) == ID_LENGTH and clean_id(told) == told:
                return told
            source = self._text if told is None else str(told)
            return hashlib.sha256(source.encode("utf-8", "replace")).hexdigest()[:ID_LENGTH]
        if told != self._told_id:
            raise UserMistake(f"it belongs to another task ({told}); a file holds one task")
        return self._state.id

    def _time(self, line: dict[str, Any]) -> str:
        told = line.get("at", line.get("timestamp"))
        if told is None:
            return self.events[-1].at if self.events else _EPOCH
        # A number is milliseconds, as JavaScript counts them.
        at = datetime.fromtimestamp(told / 1000, UTC) if isinstance(told, int | float) else moment(str(told))
        if at.tzinfo is None:
            raise UserMistake(f"the time {told!r} has no time zone")
        return stamp(at)


def _check_header(line: dict[str, Any]) -> None:
    name, version = line["format"], line.get("version")
    if name != FORMAT or not isinstance(version, int):
        raise UserMistake(f"{name!r} is not a format that GenCode reads")
    if version > VERSION:
        raise UserMistake(
            f"the file has version {version} of its format, and this GenCode reads versions up to {VERSION}; "
            "upgrade GenCode"
        )


def _ours(line: dict[str, Any]) -> DurableFact | None:
    kind = str(line["kind"])
    if kind in OBSOLETE:
        return ObsoleteFact(kind)
    if kind not in DURABLE_KINDS:
        return None
    fields = {name: each for name, each in line.items() if name not in ("task", "seq", "at")}
    return translated(msgspec.convert(fields, type=StoredFact))


def _foreign(line: dict[str, Any]) -> DurableFact | None:
    kind = line.get("type")
    if not isinstance(kind, str):
        raise UserMistake("it is not an event: it has neither a kind nor a type")
    if kind.upper() not in ("TASK_CREATED", "TASK_COMPLETED", "TASK_FAILED"):
        return None
    nested = next((line[name] for name in ("data", "payload") if name in line), line)
    told = msgspec.convert(nested, type=_ForeignTask)
    match kind.upper():
        case "TASK_CREATED":
            agent = told.task_type or told.agent or TaskCreated().agent
            return TaskCreated(agent=agent, prompt=told.input_text or told.prompt or "")
        case "TASK_COMPLETED":
            return TaskEnded(Status.COMPLETED, result=_words(told.result), reason=EndReason.FINISHED)
        case "TASK_FAILED":
            error = _words(told.error) or "The file does not say why it failed."
            return TaskEnded(Status.FAILED, error=error, reason=EndReason.FAILED)
        case _:
            return None


def _words(told: Any) -> str:
    """A result of another system as text; it may be any JSON."""
    if told is None:
        return ""
    return told if isinstance(told, str) else msgspec.json.encode(told).decode()
