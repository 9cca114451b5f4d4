"""Anthropic's Messages API: tool use, signed thinking, and prompt caching."""

import re
from collections.abc import AsyncGenerator, Sequence
from typing import Any, cast

import msgspec
from msgspec import Raw, Struct

from gencode.agent.ports import Request, ToolSchema
from gencode.core.messages import (
    AssistantMessage,
    CallPart,
    EndPart,
    Image,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    pictures_in,
)
from gencode.core.spec import Effort
from gencode.core.structs import replace
from gencode.providers.endpoint import DEFAULT_TIMEOUTS, HttpTimeouts, ModelEndpoint, api_url
from gencode.providers.model_catalog import longest_reply
from gencode.providers.provider_errors import ModelErrors
from gencode.providers.reply_stream import TOO_DEEP, decoded, is_deep, stream_reply, usage_of, whole_call
from gencode.providers.request_encoding import (
    NO_OUTPUT,
    ApiTurn,
    ToolEncoder,
    TranscriptEncoder,
    api_name,
    calls_in,
    to_json,
    with_items,
)

NAME = "anthropic"
VERSION = "2023-06-01"
REDACTED = "redacted:"
"""Marks the signature of a block of thinking that came encrypted; no signature of theirs has a colon."""
CACHE: dict[str, Any] = {"type": "ephemeral"}
OPEN_TURNS = 3
"""The turns that carry a cache point: the last one, and the one the last request ended with."""

_USUAL_LIMIT = 32000

BUDGETS = {"low": 4096, "medium": 8192, "high": 16384}
SMALLEST_BUDGET = 1024
"""The fewest tokens that the API takes for thinking; as many are left for the answer."""
_ADAPTS = re.compile(r"claude(?!-[123]|-instant|-(?:opus|sonnet|haiku)-4(?![-.][6-9]))")
"""Models that decide by themselves how much to think, given an effort; all others take a token budget."""


class _MessagesUsage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _MessagesBlock(Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None


class _MessagesDelta(Struct):
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    partial_json: str | None = None
    stop_reason: str | None = None


class _MessagesReply(Struct):
    model: str | None = None
    content: list[_MessagesBlock] = []
    stop_reason: str | None = None
    usage: _MessagesUsage | None = None
    error: Any = None


class _MessagesEvent(Struct):
    type: str = ""
    index: int = 0
    message: _MessagesReply | None = None
    content_block: _MessagesBlock | None = None
    delta: _MessagesDelta | None = None
    usage: _MessagesUsage | None = None
    error: Any = None


_events = msgspec.json.Decoder(_MessagesEvent)
_wholes = msgspec.json.Decoder(_MessagesReply)


class AnthropicProvider:
    """A provider for one model of the Messages API."""

    def __init__(
        self,
        model: str,
        *,
        key: str,
        base_url: str = "https://api.anthropic.com",
        timeouts: HttpTimeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        key = key.strip()
        headers = {"anthropic-version": VERSION, **({"x-api-key": key} if key else {})}
        url = api_url(base_url, "/messages")
        self._model = model
        self._endpoint = ModelEndpoint(f"{NAME}/{model}", url, headers, secret=key, timeouts=timeouts)
        self._transcripts = TranscriptEncoder(_role_of, _encoded, OPEN_TURNS)
        self._tool_encoder = ToolEncoder(_encoded_tools)

    def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Ask, and give the parts of the reply as they come."""
        body, thinking = self._body(request), _thinking_words(self._model, request)
        return stream_reply(
            self._endpoint, body, _MessagesParser(self._model, self._endpoint.errors), thinking
        )

    def _body(self, request: Request) -> bytes:
        settled, last = self._transcripts.settled_and_last(request.task, request.messages)
        marked = {len(last) - 1, len(last) - 3}
        turns = [_encoded(turn, mark=place in marked) for place, turn in enumerate(last)]
        most = longest_reply(self._model) or _USUAL_LIMIT
        body: dict[str, Any] = {
            "model": self._model,
            "max_tokens": min(request.max_tokens or most, most),
            "stream": True,
        }
        if request.effort is not None:
            body |= self._thinking(request.effort, body["max_tokens"])
        elif request.temperature is not None:  # with thinking the API takes none
            body["temperature"] = request.temperature
        if request.system.strip():
            body["system"] = [{"type": "text", "text": request.system, "cache_control": CACHE}]
        if request.tools:  # no `tool_choice` if it may not call: another one would void the cached messages
            body["tools"] = Raw(self._tool_encoder.encode(request.tools))
        elif used := _names_used(request.messages):
            # The API wants every tool that the history speaks of; none of them may be called now.
            body["tools"] = [{"name": name, "input_schema": {"type": "object"}} for name in used]
            body["tool_choice"] = {"type": "none"}
        return with_items(body, "messages", [settled, *turns] if settled else turns)

    def _thinking(self, effort: Effort, max_tokens: int) -> dict[str, Any]:
        if _ADAPTS.match(self._model):
            return {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}
        budget = min(BUDGETS[effort], max_tokens - SMALLEST_BUDGET)
        if budget < SMALLEST_BUDGET:
            raise self._endpoint.errors.error(
                f"cannot think within {max_tokens} tokens, it needs {2 * SMALLEST_BUDGET}; "
                "raise the limit or leave effort out of the agent's file."
            )
        return {"thinking": {"type": "enabled", "budget_tokens": budget}}


class _MessagesParser:
    """Parses one reply of the Messages API."""

    def __init__(self, model: str, errors: ModelErrors) -> None:
        self.over = False
        self._model = model
        self._errors = errors
        self._stop = ""
        self._tokens: _MessagesUsage | None = None
        self._blocks: dict[int, tuple[_MessagesBlock, list[str]]] = {}
        self._rest: list[Part] = []

    def take(self, raw: bytes, parts: list[Part]) -> None:
        """Parse one event and add the parts it brings."""
        event = decoded(_events, raw, self._errors)
        delta = event.delta
        if event.error is not None:
            raise self._errors.stream_error(event.error)
        if event.type == "content_block_delta" and delta is not None:
            if delta.text:
                parts.append(TextPart(delta.text))
            elif delta.partial_json and event.index in self._blocks:
                self._blocks[event.index][1].append(delta.partial_json)
            elif delta.thinking or delta.signature:
                parts.append(ThinkingPart(delta.thinking or "", delta.signature or ""))
        elif event.type == "content_block_start" and event.content_block is not None:
            self._open(event.index, event.content_block, parts)
        elif event.type == "content_block_stop":
            self._close(event.index, parts)
        elif event.type == "message_start" and event.message is not None:
            self._head(event.message)
        elif event.type == "message_delta":
            self._stop = (delta and delta.stop_reason) or self._stop
            self._count(event.usage)
        elif event.type == "message_stop":
            self.over = True

    def is_whole(self) -> bool:
        """Whether the reply is complete: it is once the stop reason came, even without the last event."""
        return bool(self._stop)

    def rest(self) -> list[Part]:
        """Calls whose end was not reported, and all parts of a reply that was not streamed."""
        parts = self._rest
        for index in sorted(self._blocks):
            self._close(index, parts)
        return parts

    def read(self, whole: bytes) -> None:
        """Understand an answer that was not streamed."""
        message = decoded(_wholes, whole, self._errors)
        if message.error is not None:
            raise self._errors.stream_error(message.error)
        if not message.content and message.stop_reason is None:
            raise self._errors.not_a_reply(whole)
        self._head(message)
        self._stop = message.stop_reason or ""
        for index, block in enumerate(message.content):
            self._open(index, block, self._rest)
            self._close(index, self._rest)

    def end(self) -> EndPart:
        """How the reply ended and what it cost."""
        return EndPart(f"{NAME}/{self._model}", self._stop or "end_turn", _usage(self._tokens))

    def _head(self, message: _MessagesReply) -> None:
        self._model = message.model or self._model
        self._count(message.usage)

    def _count(self, tokens: _MessagesUsage | None) -> None:
        if tokens is None:
            return
        if self._tokens is None:
            self._tokens = tokens
            return
        for field in _MessagesUsage.__struct_fields__:
            if (count := getattr(tokens, field)) is not None:
                setattr(self._tokens, field, count)

    def _open(self, index: int, block: _MessagesBlock, parts: list[Part]) -> None:
        if block.type == "tool_use":
            self._blocks[index] = block, []
        elif block.type == "text" and block.text:
            parts.append(TextPart(block.text))
        elif block.type == "thinking" and (block.thinking or block.signature):
            parts.append(ThinkingPart(block.thinking or "", block.signature or ""))
        elif block.type == "redacted_thinking" and block.data:
            parts.append(ThinkingPart("", REDACTED + block.data))

    def _close(self, index: int, parts: list[Part]) -> None:
        if index in self._blocks:
            block, pieces = self._blocks.pop(index)
            parts.append(CallPart(_call(block, "".join(pieces))))


def _call(block: _MessagesBlock, text: str) -> ToolCall:
    call = whole_call(block.id or "", block.name or "", text)
    # Some servers send the input with the block's start and nothing after it.
    early: object = block.input
    if isinstance(early, dict) and not text.strip():
        given = cast("dict[str, Any]", early)
        return replace(call, broken=TOO_DEEP) if is_deep(given) else replace(call, input=given)
    return call


def _usage(tokens: _MessagesUsage | None) -> Usage | None:
    if tokens is None:
        return None
    read, written = tokens.cache_read_input_tokens or 0, tokens.cache_creation_input_tokens or 0
    return usage_of((tokens.input_tokens or 0) + read + written, tokens.output_tokens or 0, read)


def _thinking_words(model: str, request: Request) -> str | None:
    """The parameters that ask for thinking, for a person."""
    if request.effort is None:
        return None
    if _ADAPTS.match(model):
        return f"thinking: adaptive and output_config.effort: {request.effort}"
    return "thinking: enabled and budget_tokens"


def _role_of(message: Message) -> str:
    if isinstance(message, ToolMessage):
        return "user" if message.results else ""
    if isinstance(message, AssistantMessage):
        return "assistant" if message.text.strip() or message.calls else ""
    return "user" if message.text.strip() else ""


def _encoded(turn: ApiTurn, mark: bool = False) -> bytes:
    blocks = _said(turn) if turn.role == "assistant" else _heard(turn)
    if mark and blocks[-1]["type"] in ("text", "tool_result", "tool_use"):
        blocks[-1]["cache_control"] = CACHE
    return to_json({"role": turn.role, "content": blocks})


def _heard(turn: ApiTurn) -> list[dict[str, Any]]:
    """A user's turn; results come first, as the API wants them."""
    results: list[dict[str, Any]] = []
    texts: list[dict[str, Any]] = []
    for message in turn.messages:
        if isinstance(message, ToolMessage):
            results += [_result(each) for each in message.results]
        else:
            texts += map(_picture, pictures_in([message]))
            texts.append({"type": "text", "text": message.text})
    return results + texts


def _result(result: ToolResult) -> dict[str, Any]:
    text = result.for_model if result.for_model.strip() else NO_OUTPUT
    content: object = (
        [{"type": "text", "text": text}, *map(_picture, result.images)] if result.images else text
    )
    block: dict[str, Any] = {"type": "tool_result", "tool_use_id": api_name(result.call), "content": content}
    return {**block, "is_error": True} if result.error else block


def _picture(image: Image) -> dict[str, Any]:
    source = {"type": "base64", "media_type": image.media_type, "data": image.base64}
    return {"type": "image", "source": source}


def _said(turn: ApiTurn) -> list[dict[str, Any]]:
    """A model's turn. Thinking goes back only to who signed it, and never as the whole of a turn."""
    blocks: list[dict[str, Any]] = []
    for message in turn.messages:
        if not isinstance(message, AssistantMessage):
            continue
        if message.model.startswith(f"{NAME}/") and not message.partial:
            blocks += [_thought(each.text, each.signature) for each in message.thinking if each.signature]
        if message.text.strip():
            blocks.append({"type": "text", "text": message.text})
    for call in calls_in(turn.messages):
        named = {"id": api_name(call.id), "name": api_name(call.name)}
        blocks.append({"type": "tool_use", **named, "input": call.input})
    return blocks


def _thought(text: str, signature: str) -> dict[str, Any]:
    if signature.startswith(REDACTED):
        return {"type": "redacted_thinking", "data": signature.removeprefix(REDACTED)}
    return {"type": "thinking", "thinking": text, "signature": signature}


def _names_used(messages: Sequence[Message]) -> list[str]:
    return sorted({api_name(call.name) for call in calls_in(messages)})


def _encoded_tools(tools: Sequence[ToolSchema]) -> bytes:
    told: list[dict[str, Any]] = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
        for tool in tools
    ]
    told[-1]["cache_control"] = CACHE
    return to_json(told)
