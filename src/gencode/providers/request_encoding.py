"""Encodes transcripts and tools as JSON for model APIs: alternating turns, each encoded once."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from gencode.agent.ports import ToolSchema
from gencode.core.messages import AssistantMessage, Image, Message, ToolCall, ToolMessage, UserMessage

MOST_KEPT = 16 * 1024 * 1024
"""How many bytes of encoded conversations are kept; what falls out is encoded again when it is needed."""
TOOL_SETS_KEPT = 8
GO_ON = "(Go on.)"
NO_OUTPUT = "(no output)"

_encode_json = msgspec.json.Encoder().encode
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")


class ApiTurn(NamedTuple):
    """Consecutive messages of one role; `start` is the place of the first."""

    role: str
    messages: list[Message]
    start: int


RoleOf = Callable[[Message], str]
"""The role of a message on the wire; an empty string for one without content."""


class _SettledTurns(Struct):
    """Turns that do not change any more, as bytes.

    `messages` goes one beyond them: that one starts a turn of its own.
    """

    messages: list[Message]
    encoded: bytearray
    tail: tuple[ApiTurn, bytes] | None = None

    @property
    def end(self) -> int:
        """The place of the first message that is not encoded."""
        return max(0, len(self.messages) - 1)


class TranscriptEncoder:
    """Encodes transcripts. The turns at the beginning, which do not change any more, are encoded once."""

    def __init__(self, role_of: RoleOf, encode: Callable[[ApiTurn], bytes], open_turns: int) -> None:
        self._role_of = role_of
        self._encode = encode
        self._open_turns = open_turns
        self._beginnings: dict[str, _SettledTurns] = {}
        self._size = 0

    def settled_and_last(self, task: str, messages: Sequence[Message]) -> tuple[bytearray, list[ApiTurn]]:
        """The encoded turns that are settled, divided by commas, and the last few turns."""
        known = self._take(task, messages)
        turns = self._turns(messages, known.end)
        settled = turns[: -self._open_turns]
        if settled and turns[len(settled)].start > 0:
            for turn in settled:
                known.encoded += b"," * bool(known.encoded)
                known.encoded += self._encoded_once(known, turn)
            del turns[: len(settled)]
            known.messages = list(messages[: turns[0].start + 1])
        self._keep(task, known)
        if not turns or turns[-1].role == "assistant":
            turns.append(ApiTurn("user", [UserMessage(GO_ON)], len(messages)))
        return known.encoded, turns

    def encode(self, task: str, messages: Sequence[Message]) -> list[bytes | bytearray]:
        """All turns, encoded."""
        settled, last = self.settled_and_last(task, messages)
        turns = [self._encode(turn) for turn in last]
        if (known := self._beginnings.get(task)) is not None:
            known.tail = last[0], turns[0]
        return [settled, *turns] if settled else [*turns]

    def _encoded_once(self, known: "_SettledTurns", turn: ApiTurn) -> bytes:
        """A turn that is settled now; it was the last one of the request before, so it is encoded already."""
        return known.tail[1] if known.tail is not None and known.tail[0] == turn else self._encode(turn)

    def _turns(self, messages: Sequence[Message], start: int) -> list[ApiTurn]:
        turns: list[ApiTurn] = []
        for place in range(start, len(messages)):
            message = messages[place]
            role = self._role_of(message)
            if not role:
                continue
            if turns and turns[-1].role == role:
                turns[-1].messages.append(message)
            else:
                turns.append(ApiTurn(role, [message], place))
        if start == 0 and turns and turns[0].role == "assistant":
            turns.insert(0, ApiTurn("user", [UserMessage(GO_ON)], 0))
        return turns

    def _take(self, task: str, messages: Sequence[Message]) -> _SettledTurns:
        known = self._beginnings.pop(task, None)
        if known is None:
            return _SettledTurns([], bytearray())
        self._size -= len(known.encoded)
        if list(messages[: len(known.messages)]) == known.messages:
            return known
        return _SettledTurns([], bytearray())

    def _keep(self, task: str, known: _SettledTurns) -> None:
        if not task or not known.encoded:
            return
        self._beginnings[task] = known
        self._size += len(known.encoded)
        while self._size > MOST_KEPT:
            oldest = next(iter(self._beginnings))
            self._size -= len(self._beginnings.pop(oldest).encoded)


class ToolEncoder:
    """Encodes sets of tools; the ones used last are cached, since most agents share one."""

    def __init__(self, encode: Callable[[Sequence[ToolSchema]], bytes]) -> None:
        self._encode = encode
        self._recent: list[tuple[Sequence[ToolSchema], bytes]] = []

    def encode(self, tools: Sequence[ToolSchema]) -> bytes:
        """The encoded tools."""
        for known, encoded in self._recent:
            if known == tools:
                return encoded
        encoded = self._encode(tools)
        self._recent = [(tools, encoded), *self._recent[: TOOL_SETS_KEPT - 1]]
        return encoded


def api_name(text: str, most: int = 64) -> str:
    """A tool's name or a call's id as every API takes it, whatever a model made of it."""
    if len(text) <= most and text.isascii() and text.isidentifier():
        return text
    return _NOT_IN_NAMES.sub("_", text)[:most] or "_"


def data_url(image: Image) -> str:
    """A picture as an address that holds all of it."""
    return f"data:{image.media_type};base64,{image.base64}"


def joined_text(messages: Sequence[Message]) -> str:
    """The texts of a turn as one."""
    texts = [each.text for each in messages if not isinstance(each, ToolMessage)]
    return "\n\n".join([text for text in texts if text.strip()])


def calls_in(messages: Sequence[Message]) -> list[ToolCall]:
    """The calls of a turn, in order."""
    return [call for each in messages if isinstance(each, AssistantMessage) for call in each.calls]


def to_json(value: object) -> bytes:
    """JSON for the wire. Text that no encoding can hold (half a surrogate pair) loses those characters."""
    try:
        return _encode_json(value)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), ensure_ascii=False).encode(errors="replace")


def with_items(fields: dict[str, Any], name: str, items: Iterable[bytes | bytearray]) -> bytes:
    """JSON of an object whose last field is a list of items that are JSON already."""
    pieces = [*items] or [b""]
    pieces[0] = b'%b,"%b":[%b' % (to_json(fields)[:-1], name.encode(), pieces[0])
    pieces[-1] = pieces[-1] + b"]}"
    return b",".join(pieces)  # the only time that all of it is copied: it may be a long conversation
