"""OpenAI's Chat Completions API and the many servers that follow it; also selects the Responses API."""

import os
import re
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any, Literal, cast

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
    ToolMessage,
    ToolResult,
    Usage,
    pictures_in,
)
from gencode.core.structs import replace
from gencode.providers.endpoint import DEFAULT_TIMEOUTS, HttpTimeouts, ModelEndpoint, api_url
from gencode.providers.model_catalog import within_longest_reply
from gencode.providers.openai_responses import ResponsesParser, responses_encoders, responses_fields
from gencode.providers.provider_errors import ModelErrors
from gencode.providers.reply_stream import TOO_DEEP, decoded, is_deep, stream_reply, usage_of, whole_call
from gencode.providers.request_encoding import (
    NO_OUTPUT,
    ApiTurn,
    ToolEncoder,
    TranscriptEncoder,
    api_name,
    calls_in,
    data_url,
    joined_text,
    to_json,
    with_items,
)

SIGNED = "google:"
"""Marks a signature of Gemini's; it belongs to a call and goes back with it: `google:CALL:SIGNATURE`."""
ALOUD = "aloud:reasoning_content"
"""Marks thinking that came under this name: who sends it so wants it back with the calls it led to."""


def chat_encoders(name: str, *, wants_thoughts: bool) -> tuple[TranscriptEncoder, ToolEncoder]:
    """The encoders of this dialect for messages and tools."""
    encode = partial(_encoded, name=name, wants_thoughts=wants_thoughts)
    return TranscriptEncoder(_role_of, encode, open_turns=1), ToolEncoder(_encoded_tools)


def _role_of(message: Message) -> str:
    if isinstance(message, ToolMessage):
        return "tool" if message.results else ""
    if isinstance(message, AssistantMessage):
        return "assistant" if message.text.strip() or message.calls else ""
    return "user" if message.text.strip() else ""


def _encoded(turn: ApiTurn, name: str, wants_thoughts: bool) -> bytes:
    if turn.role == "user":
        return to_json({"role": "user", "content": _heard(turn.messages)})
    if turn.role == "assistant":
        message = _said(turn)
        if "tool_calls" in message and ((thoughts := _thoughts(turn.messages, name)) or wants_thoughts):
            message["reasoning_content"] = "".join(thoughts)
        return to_json(message)
    results = [
        each for message in turn.messages if isinstance(message, ToolMessage) for each in message.results
    ]
    told: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": api_name(each.call), "content": each.for_model or NO_OUTPUT}
        for each in results
    ]
    if shown := [piece for each in results if each.images for piece in _shown(each)]:
        told.append({"role": "user", "content": shown})
    return to_json(told)[1:-1]


def _shown(result: ToolResult) -> list[dict[str, Any]]:
    """The pictures of a result; its own message may hold only text."""
    whose = f"Shown by {api_name(result.name)}, call {api_name(result.call)}:"
    return [{"type": "text", "text": whose}, *map(_picture, result.images)]


def _heard(messages: Sequence[Message]) -> object:
    """A message for the model, with its pictures."""
    pictures = [*map(_picture, pictures_in(messages))]
    return [{"type": "text", "text": joined_text(messages)}, *pictures] if pictures else joined_text(messages)


def _picture(image: Image) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_url(image)}}


def _thoughts(messages: Sequence[Message], name: str) -> list[str]:
    """The thinking that goes back to who sent it."""
    return [
        thought.text
        for message in messages
        if isinstance(message, AssistantMessage) and message.model.startswith(f"{name}/")
        for thought in message.thinking
        if thought.signature == ALOUD
    ]


def _said(turn: ApiTurn) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": joined_text(turn.messages) or None}
    signatures = _signatures(turn.messages)
    calls: list[dict[str, Any]] = []
    for call in calls_in(turn.messages):
        function = {"name": api_name(call.name), "arguments": to_json(call.input).decode()}
        told: dict[str, Any] = {"id": api_name(call.id), "type": "function", "function": function}
        if call.id in signatures:
            told["extra_content"] = {"google": {"thought_signature": signatures[call.id]}}
        calls.append(told)
    return {**message, "tool_calls": calls} if calls else message


def _signatures(messages: Sequence[Message]) -> dict[str, str]:
    signed = [
        thought.signature.removeprefix(SIGNED).rpartition(":")
        for message in messages
        if isinstance(message, AssistantMessage)
        for thought in message.thinking
        if thought.signature.startswith(SIGNED)
    ]
    return {call: signature for call, _, signature in signed}


def _encoded_tools(tools: Sequence[ToolSchema]) -> bytes:
    return to_json(
        [
            {
                "type": "function",
                "function": {
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                },
            }
            for tool in tools
        ]
    )


STOPS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
MOST_CALLS = 4096

_REASONS = re.compile(r"(?:.*/)?(?:o\d|gpt-[5-9](?!.*-chat)|codex)")


_ChatText = str | list[Any] | dict[str, Any] | None
"""Text, or pieces of it, or something that only some server knows."""


class _ChatFunction(Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _ChatCallPiece(Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: _ChatFunction | None = None
    extra_content: Any = None


class _ChatMessage(Struct, gc=False):
    content: _ChatText = None
    refusal: _ChatText = None
    reasoning: _ChatText = None
    reasoning_content: _ChatText = None
    tool_calls: list[_ChatCallPiece] | None = None


class _ChatChoice(Struct, gc=False):
    delta: _ChatMessage | None = None
    message: _ChatMessage | None = None
    finish_reason: str | None = None


class _ChatCachedTokens(Struct, gc=False):
    cached_tokens: int | float | None = None


class _ChatUsage(Struct, gc=False):
    prompt_tokens: int | float | None = None
    completion_tokens: int | float | None = None
    prompt_tokens_details: _ChatCachedTokens | None = None


class _ChatChunk(Struct, gc=False):
    model: str | None = None
    choices: list[_ChatChoice] | None = None
    usage: _ChatUsage | None = None
    error: Any = None


_chunks = msgspec.json.Decoder(_ChatChunk)


class OpenAIProvider:
    """A provider for one model of a server that follows OpenAI; `name` is how that server is called here.

    One that `wants_thoughts` refuses calls in the history without the thinking before them, be it empty.
    """

    def __init__(
        self,
        model: str,
        *,
        key: str,
        base_url: str,
        name: str = "openai",
        api: Literal["chat", "responses"] = "chat",
        wants_thoughts: bool = False,
        timeouts: HttpTimeouts = DEFAULT_TIMEOUTS,
    ) -> None:
        key = key.strip()
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        url = api_url(base_url, "/chat/completions" if api == "chat" else "/responses")
        self._model = model
        self._name = name
        self._endpoint = ModelEndpoint(f"{name}/{model}", url, headers, secret=key, timeouts=timeouts)
        self._chat = api == "chat"
        if self._chat:
            self._transcripts, self._tool_encoder = chat_encoders(name, wants_thoughts=wants_thoughts)
        else:
            self._transcripts, self._tool_encoder = responses_encoders(name)

    def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Ask, and give the parts of the reply as they come."""
        errors, effort = self._endpoint.errors, request.effort
        if self._chat:
            reply = _ChatParser(self._name, self._model, errors)
            return stream_reply(
                self._endpoint, self._body(request), reply, effort and f"reasoning_effort: {effort}"
            )
        said = self._transcripts.encode(request.task, request.messages)
        body = responses_fields(self._model, request, self._tool_encoder, reasons=reasons(self._model))
        reply = ResponsesParser(self._name, self._model, errors)
        whole = with_items(body, "input", said)
        return stream_reply(self._endpoint, whole, reply, effort and f"reasoning.effort: {effort}")

    def _body(self, request: Request) -> bytes:
        said = self._transcripts.encode(request.task, request.messages)
        if request.system.strip():
            said.insert(0, to_json({"role": "system", "content": request.system}))
        body: dict[str, Any] = {
            "model": self._model,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        if request.tools:
            body["tools"] = Raw(self._tool_encoder.encode(request.tools))
            if not request.may_call:
                body["tool_choice"] = "none"
        if request.effort is not None:
            body["reasoning_effort"] = request.effort
        if request.temperature is not None and not (request.effort and reasons(self._model)):
            body["temperature"] = request.temperature
        if request.max_tokens is not None:
            # OpenAI's own thinking models refuse the name that every other server knows.
            limit = "max_completion_tokens" if reasons(self._model) else "max_tokens"
            body[limit] = within_longest_reply(request.max_tokens, self._model)
        return with_items(body, "messages", said)


class _OpenCall:
    """A tool call of which not all may have arrived."""

    __slots__ = ("call_id", "index", "name", "pieces", "signature")

    def __init__(self, piece: _ChatCallPiece) -> None:
        self.index = piece.index
        self.call_id = piece.id or ""
        self.name = ""
        self.pieces: list[str] = []
        self.signature = ""

    def add(self, piece: _ChatCallPiece) -> None:
        """Some more of this call."""
        self.call_id = self.call_id or piece.id or ""
        if piece.extra_content is not None:
            self.signature = _signature(piece.extra_content) or self.signature
        if (function := piece.function) is None:
            return
        self.name = self.name or function.name or ""
        given = function.arguments
        if isinstance(given, dict):
            self.pieces.append(TOO_DEEP if is_deep(given) else to_json(given).decode())
        elif given:
            self.pieces.append(given)

    def goes_on_with(self, piece: _ChatCallPiece) -> bool:
        """Whether a piece belongs here rather than to a new call, whatever of index, id and name it has."""
        if piece.index != self.index and None not in (piece.index, self.index):
            return False
        if piece.id and self.call_id and piece.id != self.call_id:
            return False
        named = piece.function.name if piece.function is not None else None
        if not named or not self.name:
            return True
        # A name once more: some servers repeat it in every piece, others start the next call so.
        return named == self.name and not self._is_whole()

    def _is_whole(self) -> bool:
        return bool(self.pieces) and not whole_call("", "", "".join(self.pieces)).broken


class _ChatParser:
    """Parses one reply of Chat Completions."""

    def __init__(self, name: str, model: str, errors: ModelErrors) -> None:
        self.over = False
        self._name = name
        self._model = model
        self._errors = errors
        self._stop = ""
        self._tokens: _ChatUsage | None = None
        self._calls: list[_OpenCall] = []
        self._by_index: dict[int | None, list[_OpenCall]] = {}
        self._aloud = False
        self._rest: list[Part] = []

    def take(self, raw: bytes, parts: list[Part]) -> None:
        """Parse one event and add the parts it brings."""
        if raw[:6] == b"[DONE]":
            self.over = True
            return
        chunk = decoded(_chunks, raw, self._errors)
        if chunk.error is not None:
            raise self._errors.stream_error(chunk.error)
        if chunk.usage is not None:
            self._tokens = chunk.usage
        if chunk.model:
            self._model = chunk.model
        for choice in chunk.choices or ():
            self._add(choice, parts)

    def is_whole(self) -> bool:
        """Whether the reply is complete: it is once the stop reason came, even without the last event."""
        return bool(self._stop)

    def read(self, whole: bytes) -> None:
        """Understand an answer that was not streamed."""
        self.take(whole, self._rest)
        if not self._stop and not self._rest and not self._calls:
            raise self._errors.not_a_reply(whole)

    def rest(self) -> list[Part]:
        """The calls, each whole and with an id of its own."""
        seen: set[str] = set()
        if self._aloud and self._calls:
            self._rest.append(ThinkingPart("", ALOUD))
        for open_call in self._calls:
            call = whole_call(open_call.call_id, open_call.name, "".join(open_call.pieces))
            if not call.id or call.id in seen:
                call = replace(call, id=f"call_{os.urandom(8).hex()}")
            seen.add(call.id)
            if open_call.signature:
                self._rest.append(ThinkingPart("", f"{SIGNED}{call.id}:{open_call.signature}"))
            self._rest.append(CallPart(call))
        return self._rest

    def end(self) -> EndPart:
        """How the reply ended and what it cost."""
        stop = "tool_use" if self._calls and self._stop in ("stop", "") else self._stop or "stop"
        return EndPart(f"{self._name}/{self._model}", STOPS.get(stop, stop), _usage(self._tokens))

    def _add(self, choice: _ChatChoice, parts: list[Part]) -> None:
        said = choice.delta or choice.message
        if said is not None:
            if said.reasoning_content is not None:
                self._aloud = True
            if (words := said.reasoning_content or said.reasoning) and (thought := _text(words)):
                parts.append(ThinkingPart(thought))
            if (said.content or said.refusal) and (text := _text(said.content) or _text(said.refusal)):
                parts.append(TextPart(text))
            for piece in said.tool_calls or ():
                self._call_for(piece).add(piece)
        if choice.finish_reason == "error":
            raise self._errors.stream_error({"code": "server_error", "message": "no reason given"})
        self._stop = choice.finish_reason or self._stop

    def _call_for(self, piece: _ChatCallPiece) -> _OpenCall:
        same = self._by_index.setdefault(piece.index, [])
        # Without an index it may be any of them. With one, a look at all would add up where there are many.
        for known in reversed(self._calls if None in self._by_index else same):
            if known.goes_on_with(piece):
                return known
        if len(self._calls) >= MOST_CALLS:
            raise self._errors.error(f"requested more than {MOST_CALLS} tool calls in one reply.")
        begun = _OpenCall(piece)
        self._calls.append(begun)
        same.append(begun)
        return begun


def reasons(model: str) -> bool:
    """Whether this is one of OpenAI's own models that think before they answer."""
    return _REASONS.match(model) is not None


def _text(words: Any) -> str:
    match words:
        case str():
            return words
        case list():
            return "".join(_text(piece) for piece in cast("list[Any]", words))
        case {"text": str(text)}:
            return text
        case _:
            return ""


def _signature(extra: object) -> str:
    match extra:
        case {"google": {"thought_signature": str(signature)}}:
            return signature
        case _:
            return ""


def _usage(tokens: _ChatUsage | None) -> Usage | None:
    if tokens is None or tokens.prompt_tokens is None:
        return None
    details = tokens.prompt_tokens_details
    cached = (details and details.cached_tokens) or 0
    return usage_of(tokens.prompt_tokens, tokens.completion_tokens or 0, cached)
