"""All other vendors through pydantic-ai's model classes (the extra `providers`).

A model is named as pydantic-ai names it, `pydantic-ai/PROVIDER:MODEL`; keys and addresses come from the
environment variables that pydantic-ai documents for the provider. Nothing of it is imported before the first
request, and then in a thread: it takes seconds.
"""

import asyncio
import os
import re
import sys
import warnings
from base64 import b64decode
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from gencode.agent.ports import Request, ToolSchema
from gencode.core.errors import ProviderError, UserMistake
from gencode.core.extras import installing
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
    Usage,
    UserMessage,
)
from gencode.core.structs import replace
from gencode.providers.endpoint import DEFAULT_TIMEOUTS, HttpTimeouts
from gencode.providers.provider_errors import ModelErrors
from gencode.providers.reply_stream import TOO_DEEP, is_deep, usage_of, whole_call
from gencode.providers.request_encoding import GO_ON, NO_OUTPUT, api_name, calls_in

if TYPE_CHECKING:
    from pydantic_ai import messages as said
    from pydantic_ai.models import Model, StreamedResponse
    from pydantic_ai.settings import ModelSettings
    from pydantic_ai.usage import RequestUsage

NAME = "pydantic-ai"
STOPS = {"stop": "end_turn", "tool_call": "tool_use", "length": "max_tokens", "content_filter": "refusal"}
MARK = f"{NAME}:"
"""Starts what is kept in place of a signature: whatever the provider wants back with one part of a reply."""

_BREAKS = (
    ("pydantic_ai.exceptions", "AgentRunError"),
    ("pydantic_ai.exceptions", "UserError"),
    ("httpx2", "HTTPError"),
    ("httpx", "HTTPError"),
    ("openai", "OpenAIError"),
    ("anthropic", "AnthropicError"),
    ("groq", "GroqError"),
    ("mistralai.client.errors", "MistralError"),
    ("botocore.exceptions", "BotoCoreError"),
    ("google.genai.errors", "APIError"),
    ("google.auth.exceptions", "GoogleAuthError"),
    ("grpc", "RpcError"),
)
"""The roots of what the vendors' packages raise; only those that are loaded can be raised."""
_SECRET_NAMES = re.compile(r"key|token|secret|password|credential", re.IGNORECASE)


class _PartMark(Struct, omit_defaults=True):
    """Provider data that must go back with a part of a reply; `call` or `text` says with which."""

    provider: str | None = None
    id: str | None = None
    signature: str | None = None
    details: dict[str, Any] | None = None
    call: str = ""
    text: bool = False


_marks = msgspec.json.Decoder(_PartMark)


class PydanticAIProvider:
    """A provider for one model of any vendor that pydantic-ai supports."""

    def __init__(self, model: "str | Model", *, timeouts: HttpTimeouts = DEFAULT_TIMEOUTS) -> None:
        if find_spec("pydantic_ai") is None:
            raise UserMistake(f"The models of {NAME} need a missing package: {installing('providers')}")
        if isinstance(model, str) and not all(model.partition(":")):
            raise UserMistake(f"{NAME}/{model} names no model: write {NAME}/PROVIDER:MODEL.")
        self._asked = model
        self._vendor = model.partition(":")[0] if isinstance(model, str) else model.system
        label = model if isinstance(model, str) else f"{model.system}:{model.model_name}"
        self._errors = ModelErrors(f"{NAME}/{label}", "its provider", *_keys())
        self._model: Model | None = None if isinstance(model, str) else model
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening = asyncio.Lock()
        self._timeouts = timeouts

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Ask, and give the parts of the reply as they come."""
        try:
            model = await self._opened()
            async with self._ask(model, request) as stream:
                async for event in stream:
                    if (part := _part_of(event)) is not None:
                        yield part
            response = stream.get()
        except _breaks() as error:
            raise self._trouble(error) from None
        if response.finish_reason == "error":
            raise self._errors.error("broke off with an error.", retryable=True)
        for part in _rest(response):
            yield part
        yield self._end(response, model)

    async def _opened(self) -> "Model":
        loop = asyncio.get_running_loop()
        async with self._opening:
            if self._model is None:
                self._model = await asyncio.to_thread(_made, str(self._asked))
            if self._loop is not loop:
                _hush()
                await anext(_held(self._model))
                self._loop = loop
        return self._model

    def _ask(self, model: "Model", request: Request) -> "AbstractAsyncContextManager[StreamedResponse]":
        from pydantic_ai.direct import model_request_stream
        from pydantic_ai.messages import InstructionPart
        from pydantic_ai.models import ModelRequestParameters

        used = [] if request.tools else _tools_used(request.messages)
        return model_request_stream(
            model,
            _told(request.messages),
            model_settings=self._settings(request, silent=bool(used) or not request.may_call),
            model_request_parameters=ModelRequestParameters(
                function_tools=[_tool(each) for each in request.tools or used],
                instruction_parts=[InstructionPart(request.system)] if request.system.strip() else None,
            ),
            instrument=False,
        )

    def _settings(self, request: Request, silent: bool) -> "ModelSettings":
        first, between = self._timeouts.first_byte, self._timeouts.between_bytes
        # Asking again is a matter of our own wrapper, which all agents share.
        settings: ModelSettings = {
            "max_retries": 0,
            "cache": True,
            "first_event_timeout": first,
            "timeout": max(first, between),
        }
        if request.temperature is not None:
            settings["temperature"] = request.temperature
        if request.max_tokens is not None:
            settings["max_tokens"] = request.max_tokens
        if request.effort is not None:
            settings["thinking"] = request.effort
        if silent:
            settings["tool_choice"] = "none"
        return settings

    def _end(self, response: "said.ModelResponse", model: "Model") -> EndPart:
        from pydantic_ai.messages import ToolCallPart

        stop = response.finish_reason or "stop"
        if stop == "stop" and any(isinstance(part, ToolCallPart) for part in response.parts):
            stop = "tool_call"
        name = f"{NAME}/{self._vendor}:{response.model_name or model.model_name}"
        return EndPart(name, STOPS.get(stop, stop), _usage(response.usage))

    def _trouble(self, error: BaseException) -> ProviderError:
        """What went wrong, as a sentence, and whether waiting helps."""
        say, words = self._errors.error, self._errors.shown(str(error))
        if isinstance(error, ImportError):
            return say(f"cannot be used: {words}")
        from pydantic_ai import exceptions as known

        if isinstance(error, known.ModelHTTPError):
            refusal = self._errors.http_error(error.status_code, error.headers or {}, _body(error.body))
            refusal.retry_after = error.retry_after
            refusal.limited = refusal.limited or isinstance(error, known.ModelRateLimitError)
            if isinstance(error, known.ModelQuotaExceededError):
                refusal.retryable = False
            return refusal
        if isinstance(error, known.ModelConnectionError | known.ModelRequestTimeout):
            return say(f"cannot be reached, or broke off ({words}).", retryable=True)
        if isinstance(
            error, known.ModelRateLimitError | known.ModelUnavailableError | known.ModelServerError
        ):
            limited = isinstance(error, known.ModelRateLimitError)
            wait = error.retry_after
            return say(
                f"is temporarily unavailable ({words}).", retryable=True, retry_after=wait, limited=limited
            )
        if isinstance(error, known.ModelAPIError):
            return say(f"refused the request ({words}).", unfit=True)
        if isinstance(error, known.UserError):
            return say(f"cannot be used: {words}", unfit=True)
        if isinstance(error, OSError):
            return say(f"cannot be reached, or broke off ({words or type(error).__name__}).", retryable=True)
        if isinstance(error, known.UnexpectedModelBehavior | ValueError):
            return say(f"answered with something that is not a reply ({words}).")
        return say(f"could not answer ({words or type(error).__name__}).")


def _made(name: str) -> "Model":
    from pydantic_ai.models import infer_model

    return infer_model(name)


def _hush() -> None:
    """Limits on time are asked for wherever they exist; that some model has none is no news for the user."""
    from pydantic_ai.exceptions import UnsupportedSettingWarning

    warnings.filterwarnings("ignore", category=UnsupportedSettingWarning)


_open: "dict[object, AsyncGenerator[None, None]]" = {}


def _held(model: "Model") -> "AsyncGenerator[None, None]":
    """Keeps a model's client open until its loop ends: asyncio closes every generator before the loop."""

    async def until_closed() -> AsyncGenerator[None, None]:
        try:
            async with model:
                yield
        finally:
            _open.pop(key, None)

    key = object()
    _open[key] = until_closed()
    return _open[key]


def _breaks() -> tuple[type[BaseException], ...]:
    """What talking to a model may raise; asked for only when something was raised."""
    loaded = (getattr(sys.modules.get(module), name, None) for module, name in _BREAKS)
    return (ImportError, OSError, ValueError, *(each for each in loaded if isinstance(each, type)))


def _keys() -> list[str]:
    """Every key in our environment: which of them are used is known to pydantic-ai alone."""
    return [value for name, value in os.environ.items() if _SECRET_NAMES.search(name)]


def _body(body: object) -> bytes:
    if isinstance(body, str):
        return body.encode(errors="replace")
    return b"" if body is None else msgspec.json.encode(body, enc_hook=str)


def _part_of(event: object) -> Part | None:
    """The part that an event of the stream adds to the reply; calls are given at the end."""
    from pydantic_ai import messages as said

    match event:
        case (
            said.PartStartEvent(part=said.TextPart(content=text))
            | said.PartDeltaEvent(delta=said.TextPartDelta(content_delta=text))
        ):
            return TextPart(text) if text else None
        case (
            said.PartStartEvent(part=said.ThinkingPart(content=text))
            | said.PartDeltaEvent(delta=said.ThinkingPartDelta(content_delta=text))
        ):
            return ThinkingPart(text) if text else None
        case said.PartEndEvent(part=said.ThinkingPart() as part):
            return _marked(_PartMark(part.provider_name, part.id, part.signature, part.provider_details))
        case _:
            return None


def _rest(response: "said.ModelResponse") -> list[Part]:
    """The calls, each whole and with an id of its own, and what must go back with them and with the text."""
    from pydantic_ai import messages as said

    parts: list[Part | None] = []
    texts = [part for part in response.parts if isinstance(part, said.TextPart)]
    # Several texts become one, so that they could not be told apart later.
    for part in texts if len(texts) == 1 else ():
        parts.append(_marked(_PartMark(part.provider_name, part.id, None, part.provider_details, text=True)))
    seen: set[str] = set()
    for part in response.parts:
        if not isinstance(part, said.ToolCallPart):
            continue
        call = _call(part)
        if not call.id or call.id in seen:
            call = replace(call, id=f"call_{os.urandom(8).hex()}")
        seen.add(call.id)
        parts.append(
            _marked(_PartMark(part.provider_name, part.id, None, part.provider_details, call=call.id))
        )
        parts.append(CallPart(call))
    return [part for part in parts if part is not None]


def _call(part: "said.ToolCallPart[Any]") -> ToolCall:
    if isinstance(part.args, dict) and is_deep(part.args):
        return ToolCall(part.tool_call_id, part.tool_name, {}, broken=TOO_DEEP)
    if isinstance(part.args, dict):
        return ToolCall(part.tool_call_id, part.tool_name, part.args)
    return whole_call(part.tool_call_id, part.tool_name, part.args or "")


def _marked(mark: _PartMark) -> ThinkingPart | None:
    if mark.id is None and mark.signature is None and not mark.details:
        return None
    return ThinkingPart("", MARK + msgspec.json.encode(mark, enc_hook=str).decode())


def _unmarked(signature: str) -> _PartMark:
    """What a signature of ours holds; of any other there is nothing to send back."""
    if not signature.startswith(MARK):
        return _PartMark()
    try:
        return _marks.decode(signature.removeprefix(MARK))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _PartMark()


def _usage(usage: "RequestUsage") -> Usage | None:
    counts = usage_of(usage.input_tokens, usage.output_tokens, usage.cache_read_tokens)
    return counts if usage.has_values() else None


def _tool(tool: ToolSchema) -> Any:
    from pydantic_ai.tools import ToolDefinition

    return ToolDefinition(
        name=tool.name, description=tool.description, parameters_json_schema=tool.parameters, strict=False
    )


def _tools_used(messages: Sequence[Message]) -> list[ToolSchema]:
    """The tools that a history speaks of: some APIs want them even where none may be called any more."""
    names = sorted({api_name(call.name) for call in calls_in(messages)})
    return [ToolSchema(name, "", {"type": "object", "properties": {}}) for name in names]


def _told(messages: Sequence[Message]) -> "list[said.ModelMessage]":
    """The transcript as alternating turns, oldest first."""
    from pydantic_ai.messages import ModelRequest, ModelResponse, UserPromptPart

    turns: list[tuple[bool, list[Any]]] = []
    for message in messages:
        from_model = isinstance(message, AssistantMessage)
        parts = _replied(message) if from_model else _heard(message)
        if parts and turns and turns[-1][0] == from_model:
            turns[-1][1].extend(parts)
        elif parts:
            turns.append((from_model, parts))
    if turns and turns[0][0]:
        turns.insert(0, (False, [UserPromptPart(GO_ON)]))
    if not turns or turns[-1][0]:
        turns.append((False, [UserPromptPart(GO_ON)]))
    return [ModelResponse(parts) if from_model else ModelRequest(parts) for from_model, parts in turns]


def _heard(message: UserMessage | ToolMessage) -> list[Any]:
    from pydantic_ai.messages import ToolReturnPart, UserPromptPart

    if isinstance(message, UserMessage):
        return [UserPromptPart(_shown(message.text, message.images))] if message.text.strip() else []
    return [
        ToolReturnPart(
            api_name(result.name),
            _shown(result.for_model if result.for_model.strip() else NO_OUTPUT, result.images),
            api_name(result.call),
            outcome="failed" if result.error else "success",
        )
        for result in message.results
    ]


def _shown(text: str, pictures: Sequence[Image]) -> Any:
    from pydantic_ai.messages import BinaryContent

    shown = [BinaryContent(b64decode(each.base64), media_type=each.media_type) for each in pictures]
    return [text, *shown] if shown else text


def _replied(message: AssistantMessage) -> list[Any]:
    from pydantic_ai import messages as said

    ours = message.model.startswith(f"{NAME}/") and not message.partial
    marks = [(each.text, _unmarked(each.signature)) for each in message.thinking] if ours else []
    about_text = next((mark for _, mark in marks if mark.text), _PartMark())
    about_calls = {mark.call: mark for _, mark in marks if mark.call}
    thoughts = [(text, mark) for text, mark in marks if not mark.call and not mark.text]
    parts: list[Any] = [
        said.ThinkingPart(text, signature=mark.signature, **_extras(mark)) for text, mark in thoughts
    ]
    if message.text.strip():
        parts.append(said.TextPart(message.text, **_extras(about_text)))
    for call in message.calls:
        extras = _extras(about_calls.get(call.id, _PartMark()))
        parts.append(said.ToolCallPart(api_name(call.name), call.input, api_name(call.id), **extras))
    # Thinking alone is no turn.
    return parts if message.text.strip() or message.calls else []


def _extras(mark: _PartMark) -> Mapping[str, Any]:
    return {"id": mark.id, "provider_name": mark.provider, "provider_details": mark.details}
