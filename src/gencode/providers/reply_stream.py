"""Reads a streamed reply: what the parsers of all API dialects share."""

import json
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any, Protocol, TypeVar, cast

import msgspec

from gencode.core.errors import ProviderError
from gencode.core.messages import EndPart, Part, ToolCall, Usage
from gencode.providers.endpoint import HttpResponse, ModelEndpoint
from gencode.providers.provider_errors import ModelErrors

_T = TypeVar("_T")

MOST_TOKENS = 10**12
DEEPEST = 100
"""The greatest nesting of arguments: other readers and writers may allow less than this one."""
TOO_DEEP = "(nested too deeply)"

_inputs = msgspec.json.Decoder(dict[str, Any])


class ReplyParser(Protocol):
    """Parses one reply, in one API dialect, while it arrives."""

    over: bool
    """Whether the last event of the reply has arrived."""

    def take(self, raw: bytes, parts: list[Part]) -> None:
        """Parse one event and add the parts it brings."""
        ...

    def is_whole(self) -> bool:
        """Whether nothing is missing if the stream ends here, though its last event may be."""
        ...

    def rest(self) -> Sequence[Part]:
        """The parts that are only known when the reply is whole."""
        ...

    def read(self, whole: bytes) -> None:
        """Understand an answer that was not streamed; `rest` gives its parts."""
        ...

    def end(self) -> EndPart:
        """How the reply ended and what it cost."""
        ...


async def stream_reply(
    endpoint: ModelEndpoint, body: bytes, reply: ReplyParser, thinking: str | None = None
) -> AsyncGenerator[Part, None]:
    """Send the request, and give the parts of the reply as they come; those before an error are given first.

    `thinking` is the parameter of the request that asks for reasoning, for the case that it is refused.
    """
    answer = await endpoint.ask(body, thinking)
    try:
        if answer.whole is not None:
            reply.read(answer.whole)
        else:
            while not reply.over:
                parts: list[Part] = []
                trouble = await _listen(answer, reply, parts, endpoint.errors)
                for part in parts:
                    yield part
                if trouble is not None:
                    raise trouble
        for part in reply.rest():
            yield part
        if answer.whole is None:
            await answer.finish()
        yield reply.end()
    finally:
        answer.close()


async def _listen(
    answer: HttpResponse, reply: ReplyParser, parts: list[Part], errors: ModelErrors
) -> ProviderError | None:
    """Add the parts of the next events, up to the end or to what went wrong."""
    try:
        events = await answer.events()
    except ProviderError as trouble:
        reply.over = reply.is_whole()
        return None if reply.over else trouble
    try:
        for raw in events:
            reply.take(raw, parts)
            if reply.over:
                return None
    except ProviderError as trouble:
        return trouble
    if reply.is_whole():
        answer.hurry()
        reply.over = not events
        return None
    return None if events else errors.cut_off()


def whole_call(call_id: str, name: str, arguments: str) -> ToolCall:
    """A call from the text of its arguments; no text at all means no arguments."""
    if not arguments.strip():
        return ToolCall(call_id, name, {})
    try:
        given = _inputs.decode(arguments)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return ToolCall(call_id, name, {}, broken=arguments)
    if arguments.count("[") + arguments.count("{") > DEEPEST and is_deep(given):
        return ToolCall(call_id, name, {}, broken=arguments)
    return ToolCall(call_id, name, given)


def usage_of(read: float, written: float, cached: float) -> Usage | None:
    """Tokens as a server counts them; None for impossible numbers."""
    if not (0 <= read <= MOST_TOKENS and 0 <= written <= MOST_TOKENS and 0 <= cached <= MOST_TOKENS):
        return None
    return Usage(int(read), int(written), int(min(cached, read)))


def is_deep(given: dict[str, Any]) -> bool:
    """Whether arguments are nested so deeply that they may not be written down again."""
    level: list[Any] = [given]
    for _ in range(DEEPEST):
        level = [inner for each in level for inner in _inside(each)]
    return bool(level)


def _inside(value: Any) -> list[Any]:
    inner = cast("Iterable[Any]", value.values() if isinstance(value, dict) else value)
    return [each for each in inner if isinstance(each, dict | list)]


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
    """JSON without lone surrogates: some servers split a text between the two halves of an emoji."""
    if b"\\ud" not in raw.lower():
        return b""
    return json.dumps(json.loads(raw), ensure_ascii=False).encode(errors="replace")
