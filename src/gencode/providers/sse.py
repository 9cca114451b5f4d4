"""Server-sent events and JSON: the two forms that everything on the wire has."""

import json
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from gencode.providers.provider_errors import ModelErrors

_T = TypeVar("_T")
_CR, _LF = b"\r\n"  # as numbers: looking for one is several times as quick as for a text of one byte
_encode = msgspec.json.Encoder().encode


class EventSplitter:
    """Cuts a stream of bytes, split anywhere, into the data of its server-sent events."""

    __slots__ = ("_cut", "_data", "_tail")

    def __init__(self) -> None:
        self._cut = False
        self._tail: list[bytes] = []
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of every event that is whole now."""
        if self._cut or _CR in piece:
            piece = self._with_plain_ends(piece)
        if _LF not in piece:
            self._tail.append(piece)
            return []
        if self._tail:
            piece = b"".join((*self._tail, piece))
        lines = piece.split(b"\n")
        last = lines.pop()
        self._tail = [last] if last else []
        events: list[bytes] = []
        data = self._data
        for line in lines:
            if not line:
                if data:
                    events.append(b"\n".join(data))
                    data.clear()
            elif line[:6] == b"data: ":
                data.append(line[6:])
            elif line[:5] == b"data:":
                data.append(line[5:])
        return events

    def _with_plain_ends(self, piece: bytes) -> bytes:
        """The bytes with one kind of line end out of the three there are; one may be cut in two."""
        if not piece:
            return piece
        if self._cut:
            piece = piece.removeprefix(b"\n")
        self._cut = piece.endswith(b"\r")
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def rest(self) -> list[bytes]:
        """A last event whose end was left out; one that was cut in its middle is nothing."""
        found = self.feed(b"\n\n") if self._tail or self._data else []
        return [event for event in found if event == b"[DONE]" or _is_json(event)]


def to_json(value: object) -> bytes:
    """JSON for the wire. Text that no encoding can hold (half a surrogate pair) loses those characters."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=False).encode(errors="replace")


def with_items(fields: dict[str, Any], name: str, items: Iterable[bytes | bytearray]) -> bytes:
    """JSON of an object whose last field is a list of items that are JSON already."""
    pieces = [*items] or [b""]
    pieces[0] = b'%b,"%b":[%b' % (to_json(fields)[:-1], name.encode(), pieces[0])
    pieces[-1] = pieces[-1] + b"]}"
    return b",".join(pieces)  # the only time that all of it is copied: it may be a long conversation


def decoded(decoder: msgspec.json.Decoder[_T], raw: bytes, errors: ModelErrors) -> _T:
    """What was sent, in the form it should have; ProviderError when it has another."""
    try:
        return decoder.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        try:
            return decoder.decode(_mended(raw))
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise errors.not_a_reply(raw) from None


def _mended(raw: bytes) -> bytes:
    """JSON without half characters: some servers cut a text between the two halves of an emoji."""
    if b"\\ud" not in raw.lower():
        return b""
    return json.dumps(json.loads(raw), ensure_ascii=False).encode(errors="replace")


def _is_json(raw: bytes) -> bool:
    try:
        msgspec.json.decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True
