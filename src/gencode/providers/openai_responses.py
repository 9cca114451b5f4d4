"""OpenAI's Responses API, the second dialect of the `openai` provider."""

import os
from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from gencode.agent.ports import Request, ToolSchema
from gencode.core.messages import (
    AssistantMessage,
    CallPart,
    EndPart,
    Message,
    Part,
    TextPart,
    Thinking,
    ThinkingPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    pictures_in,
)
from gencode.core.structs import replace
from gencode.providers.model_catalog import within_longest_reply
from gencode.providers.provider_errors import ModelErrors
from gencode.providers.reply_stream import decoded, usage_of, whole_call
from gencode.providers.request_encoding import (
    NO_OUTPUT,
    ApiTurn,
    ToolEncoder,
    TranscriptEncoder,
    api_name,
    data_url,
    joined_text,
    to_json,
)


class _ResponsesText(Struct):
    text: str | None = None
    refusal: str | None = None


class _ResponsesItem(Struct):
    type: str = ""
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None
    content: list[_ResponsesText] | None = None
    summary: list[_ResponsesText] | None = None
    encrypted_content: str | None = None


class _ResponsesCachedTokens(Struct):
    cached_tokens: int | None = None


class _ResponsesUsage(Struct):
    input_tokens: int = 0
    output_tokens: int = 0
    input_tokens_details: _ResponsesCachedTokens | None = None


class _Incomplete(Struct):
    reason: str | None = None


class _Response(Struct):
    model: str | None = None
    status: str | None = None
    output: list[_ResponsesItem] | None = None
    usage: _ResponsesUsage | None = None
    incomplete_details: _Incomplete | None = None
    error: Any = None


class _ResponsesEvent(Struct):
    type: str = ""
    delta: Any = None
    item: _ResponsesItem | None = None
    response: _Response | None = None
    error: Any = None
    code: Any = None
    message: Any = None


_events = msgspec.json.Decoder(_ResponsesEvent)
_wholes = msgspec.json.Decoder(_Response)

TEXT = {"response.output_text.delta", "response.refusal.delta"}
THINKING = {"response.reasoning_summary_text.delta", "response.reasoning_text.delta"}
ENDS = {"response.completed", "response.incomplete"}
STOPS = {"max_output_tokens": "max_tokens", "content_filter": "refusal"}


class ResponsesParser:
    """Parses one reply of the Responses API."""

    def __init__(self, name: str, model: str, errors: ModelErrors) -> None:
        self.over = False
        self._name = name
        self._model = model
        self._errors = errors
        self._stop = ""
        self._usage: Usage | None = None
        self._ids: set[str] = set()
        self._spoke = self._thought = self._items = False
        self._rest: list[Part] = []

    def take(self, raw: bytes, parts: list[Part]) -> None:
        """Parse one event and add the parts it brings."""
        if raw[:6] == b"[DONE]":
            return
        event = decoded(_events, raw, self._errors)
        if event.type in TEXT and isinstance(event.delta, str):
            self._spoke = True
            parts.append(TextPart(event.delta))
        elif event.type in THINKING and isinstance(event.delta, str):
            self._thought = True
            parts.append(ThinkingPart(event.delta))
        elif event.type == "response.output_item.done" and event.item is not None:
            self._add(event.item, parts)
        elif event.type == "error" or event.error is not None:
            raise self._errors.stream_error(event.error or {"code": event.code, "message": event.message})
        elif event.response is not None:
            self._model = event.response.model or self._model
            if event.type == "response.failed":
                raise self._errors.stream_error(event.response.error)
            if event.type in ENDS:
                for item in () if self._items else event.response.output or ():
                    self._add(item, parts)
                self._finish(event.response)

    def is_whole(self) -> bool:
        """A stream without its last event is never whole: only that tells how the reply ended."""
        return self.over

    def read(self, whole: bytes) -> None:
        """Understand an answer that was not streamed."""
        response = decoded(_wholes, whole, self._errors)
        if response.error is not None:
            raise self._errors.stream_error(response.error)
        if response.output is None:
            raise self._errors.not_a_reply(whole)
        for item in response.output:
            self._add(item, self._rest)
        self._finish(response)

    def rest(self) -> list[Part]:
        """Everything of an answer that was not streamed."""
        return self._rest

    def end(self) -> EndPart:
        """How the reply ended and what it cost."""
        return EndPart(f"{self._name}/{self._model}", self._stop, self._usage)

    def _add(self, item: _ResponsesItem, parts: list[Part]) -> None:
        self._items = True
        if item.type == "function_call":
            parts.append(CallPart(self._call(item)))
        elif item.type == "message":
            text = "".join(each.text or each.refusal or "" for each in item.content or ())
            if text and not self._spoke:
                parts.append(TextPart(text))
            self._spoke = False
        elif item.type == "reasoning":
            text = "\n\n".join(each.text or "" for each in item.summary or ())
            told = "" if self._thought else text
            if told or item.encrypted_content:
                parts.append(ThinkingPart(told, item.encrypted_content or ""))
            self._thought = False

    def _call(self, item: _ResponsesItem) -> ToolCall:
        call = whole_call(item.call_id or "", item.name or "", item.arguments or "")
        if not call.id or call.id in self._ids:
            call = replace(call, id=f"call_{os.urandom(8).hex()}")
        self._ids.add(call.id)
        return call

    def _finish(self, response: _Response) -> None:
        self.over = True
        self._model = response.model or self._model
        why = response.incomplete_details.reason if response.incomplete_details else None
        self._stop = STOPS.get(why, why) if why else "tool_use" if self._ids else "end_turn"
        if (tokens := response.usage) is not None:
            details = tokens.input_tokens_details
            cached = (details and details.cached_tokens) or 0
            self._usage = usage_of(tokens.input_tokens, tokens.output_tokens, cached)


def responses_encoders(name: str) -> tuple[TranscriptEncoder, ToolEncoder]:
    """The encoders of this dialect for messages and tools."""
    return TranscriptEncoder(_role_of, lambda turn: _encoded(turn, name), open_turns=1), ToolEncoder(
        _encoded_tools
    )


def responses_fields(
    model: str, request: Request, tool_encoder: ToolEncoder, *, reasons: bool
) -> dict[str, Any]:
    """The request but for its input; nothing is kept by the server, so thinking comes and goes encrypted."""
    body: dict[str, Any] = {"model": model, "stream": True, "store": False}
    if request.system.strip():
        body["instructions"] = request.system
    if request.tools:
        body["tools"] = Raw(tool_encoder.encode(request.tools))
        if not request.may_call:
            body["tool_choice"] = "none"
    if request.effort is not None:
        body["reasoning"] = {"effort": request.effort}
    if reasons or request.effort is not None:
        body["include"] = ["reasoning.encrypted_content"]
    if request.temperature is not None and not (reasons and request.effort):
        body["temperature"] = request.temperature
    if request.max_tokens is not None:
        body["max_output_tokens"] = within_longest_reply(request.max_tokens, model)
    return body


def _role_of(message: Message) -> str:
    if isinstance(message, ToolMessage):
        return "tool" if message.results else ""
    if isinstance(message, AssistantMessage):
        return "assistant" if message.text.strip() or message.calls else ""
    return "user" if message.text.strip() else ""


def _encoded(turn: ApiTurn, name: str) -> bytes:
    if turn.role == "user":
        return to_json({"role": "user", "content": _with_pictures(joined_text(turn.messages), turn.messages)})
    items: list[dict[str, Any]] = []
    for message in turn.messages:
        if isinstance(message, AssistantMessage):
            items += _said(message, name)
        elif isinstance(message, ToolMessage):
            items += [
                {"type": "function_call_output", "call_id": api_name(each.call), "output": _output(each)}
                for each in message.results
            ]
    return b",".join(to_json(item) for item in items)


def _output(result: ToolResult) -> object:
    return _with_pictures(result.for_model or NO_OUTPUT, [ToolMessage((result,))])


def _with_pictures(text: str, messages: Sequence[Message]) -> object:
    shown = [{"type": "input_image", "image_url": data_url(image)} for image in pictures_in(messages)]
    return [{"type": "input_text", "text": text}, *shown] if shown else text


def _said(message: AssistantMessage, name: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    if message.model.startswith(f"{name}/") and not message.partial:
        # What chat left in place of a signature has a colon, and nothing that is encrypted does.
        encrypted = [each for each in message.thinking if each.signature and ":" not in each.signature]
        items += [_thought(each) for each in encrypted]
    if message.text.strip():
        items.append({"role": "assistant", "content": message.text})
    for call in message.calls:
        named = {"call_id": api_name(call.id), "name": api_name(call.name)}
        items.append({"type": "function_call", **named, "arguments": to_json(call.input).decode()})
    return items


def _thought(thinking: Thinking) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": thinking.text}] if thinking.text else []
    return {"type": "reasoning", "summary": summary, "encrypted_content": thinking.signature}


def _encoded_tools(tools: Sequence[ToolSchema]) -> bytes:
    return to_json(
        [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
                "strict": False,
            }
            for tool in tools
        ]
    )
