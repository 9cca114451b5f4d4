"""Events as frames of an event stream: encoded once for everybody who listens (surfaces, server)."""

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Struct

from gencode.core.events import Event
from gencode.core.subsession_events import wire

SHORT = 240
"""So many characters of a text are told to who only wants to know what happens."""
ALIVE = b":\n"
"""A comment, without the empty line that ends an event: some readers take that for an event without data."""
FIRST = b"retry: 1000\n"
"""How soon to come back: a line of the first event, for the same reason."""
ORIGIN = "0"
"""The place before the first fact of all."""
_encode = msgspec.json.Encoder().encode


class Cursor(Struct, frozen=True):
    """A place in a stream: after fact `seq` of `task`; before all facts when there is no task."""

    task: str = ""
    seq: int = 0

    def __str__(self) -> str:
        return f"{self.task}:{self.seq}" if self.task else ORIGIN


class Framed(NamedTuple):
    """Some frames as they are, and as one chunk of an answer."""

    plain: bytes
    chunk: bytes


def framed(frames: bytes) -> Framed:
    """Frames that are sent to many."""
    return Framed(frames, b"%x\r\n%b\r\n" % (len(frames), frames))


def read_cursor(text: str) -> Cursor | None:
    """The place that an id speaks of; None when it is no id of ours."""
    if text == ORIGIN:
        return Cursor()
    task, _, seq = text.partition(":")
    if len(task) != 8 or not seq.isdecimal() or len(seq) > 15:
        return None
    return Cursor(task, int(seq))


def frame(event: Event, parent: str | None, *, brief: bool) -> bytes:
    """One event; a durable one has an id, so that a reader who comes back can say where it was."""
    told = wire(event, parent)
    if brief:
        told = cast("dict[str, Any]", shortened(told))
    kind = str(told["type"]).encode()
    head = b"" if event.seq is None else b"id: " + f"{event.task}:{event.seq}".encode() + b"\n"
    return b"".join((head, b"event: ", kind, b"\ndata: ", _encode(told), b"\n\n"))


def notice(kind: str, told: Mapping[str, object], cursor: Cursor | None = None) -> bytes:
    """A frame about the stream itself or the server, which is no fact of a task."""
    head = b"" if cursor is None else f"id: {cursor}\n".encode()
    return b"".join((head, b"event: ", kind.encode(), b"\ndata: ", _encode({"type": kind, **told}), b"\n\n"))


def shortened(value: object) -> object:
    """The same with long texts cut, and without pictures."""
    match value:
        case str() if len(value) > SHORT:
            return f"{value[:SHORT]}…"
        case dict():
            entries = cast("dict[str, object]", value)
            return {name: shortened(each) for name, each in entries.items() if name != "images"}
        case list() | tuple():
            return [shortened(each) for each in cast("list[object]", value)]
        case _:
            return value
