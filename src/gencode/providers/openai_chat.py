"""Chat Completions: how what was said, and the tools there are, go out."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from gencode.core.messages import AssistantMessage, Image, Message, ToolMessage, ToolResult, pictures_in
from gencode.providers.request_encoding import (
    NO_OUTPUT,
    ApiTurn,
    ToolEncoder,
    TranscriptEncoder,
    api_name,
    calls_in,
    data_url,
    joined_text,
)
from gencode.providers.sse import to_json
from gencode.runtime.ports import ToolSchema

SIGNED = "google:"
"""Marks a signature of Gemini's; it belongs to a call and goes back with it: `google:CALL:SIGNATURE`."""
ALOUD = "aloud:reasoning_content"
"""Marks thinking that came under this name: who sends it so wants it back with the calls it led to."""


def chat_encoders(name: str, *, wants_thoughts: bool) -> tuple[TranscriptEncoder, ToolEncoder]:
    """How this dialect encodes what was said and the tools there are."""
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
        {"role": "tool", "tool_call_id": api_name(each.call), "content": each.text or NO_OUTPUT}
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
    """What was said to the model, with the pictures that were shown with it."""
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
