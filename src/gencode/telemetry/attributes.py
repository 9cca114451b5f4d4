"""Attributes of spans: OpenTelemetry's conventions for generative AI, and a few of our own.

No prompt, reply, path, command or result is among them unless a person switched content on.
"""

import json
from collections.abc import Sequence
from typing import Any, Protocol

from gencode.core.events import TaskEnded
from gencode.core.messages import AssistantMessage, Message, ToolMessage, ToolResult, Usage, UserMessage
from gencode.core.status import Status
from gencode.core.text import one_line

LONGEST_WORD = 128
LONGEST_CONTENT = 8_000
LONGEST_HISTORY = 32_000
"""Characters of what a model was told: of a longer history only the last messages are told."""
OURS = "gencode"
LOCAL = "local/"
_FINISHED = {"": "stop", "end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"}
_IN_MESSAGES = {"tool_calls": "tool_call"}
"""Why a reply ended, where the schema of messages has another word for it than the attribute."""
_ENDED = {Status.COMPLETED: "stop", Status.EMPTY: "stop", Status.LIMIT_REACHED: "length"}

Attributes = dict[str, Any]


class TaskFields(Protocol):
    """The fields of a task that attributes need."""

    id: str
    agent: str
    root: str
    prompt: str


class CallFields(Protocol):
    """The fields of a tool call that attributes need."""

    name: str
    input: dict[str, Any]


class RunFields(Protocol):
    """The fields of a run that attributes need."""

    model: str
    turns: int
    usage: Usage


class Content:
    """Message content as attributes, cut and as JSON; nothing when content capture is off."""

    def __init__(self, told: bool) -> None:
        self._told = told

    def words(self, **texts: Any) -> Attributes:
        """`name=text` as attributes; `__` stands for a dot. Nothing when content is off."""
        if not self._told:
            return {}
        return {name.replace("__", "."): _cut(value) for name, value in texts.items()}

    def heard(self, messages: Sequence[Message]) -> Attributes:
        """What a model or an agent was told, as the conventions spell it; the last ones, if it is much."""
        if not self._told:
            return {}
        found: list[str] = []
        room = LONGEST_HISTORY
        for message in reversed(messages):
            spelled = json.dumps(_spelled(message))
            room -= len(spelled)
            if found and room < 0:
                break
            found.append(spelled)
        return {"gen_ai.input.messages": f"[{', '.join(reversed(found))}]"}

    def said(self, reply: AssistantMessage, why: str) -> Attributes:
        """What a model or an agent said, and why it ended there, as the conventions spell it."""
        if not self._told:
            return {}
        message = {**_spelled(reply), "finish_reason": _IN_MESSAGES.get(why, why)}
        return {"gen_ai.output.messages": json.dumps([message])}


def _spelled(message: Message) -> Attributes:
    """A message as the schema of the conventions has it; pictures and thinking are left out."""
    match message:
        case UserMessage():
            return {"role": "user", "parts": _text(message.text)}
        case AssistantMessage():
            calls = [
                {"type": "tool_call", "id": each.id, "name": each.name, "arguments": _bounded(each.input)}
                for each in message.calls
            ]
            return {"role": "assistant", "parts": [*_text(message.text), *calls]}
        case ToolMessage():
            parts = [
                {"type": "tool_call_response", "id": each.call, "response": each.text[:LONGEST_CONTENT]}
                for each in message.results
            ]
            return {"role": "tool", "parts": parts}


def _text(text: str) -> list[Attributes]:
    return [{"type": "text", "content": text[:LONGEST_CONTENT]}] if text else []


def _bounded(value: dict[str, Any]) -> Any:
    """Arguments as they are, or as a text that is cut where they are too long."""
    text = _cut(value)
    return value if len(text) < LONGEST_CONTENT else text


def model_named(name: str, provider: str = "") -> str:
    """A model as it may be told: with the name that its provider knows, without that of the provider.

    The file of a script, and the folder of a local model, are nobody's business.
    """
    if name.startswith("scripted:"):
        return "scripted"
    if name.startswith(LOCAL):
        name = name.replace("\\", "/").rpartition("/")[2]
    named = one_line(name, LONGEST_WORD) or "unknown"
    return named.removeprefix(f"{provider or provider_of(name)}/") or named


def provider_of(model: str) -> str:
    """Who answers: what stands before the slash."""
    maker, slash, _ = model.partition("/")
    return one_line(maker, LONGEST_WORD) if slash and not model.startswith("scripted:") else OURS


def chat_attributes(
    known: TaskFields, asked: str, told: Sequence[Message], reply: AssistantMessage, content: Content
) -> Attributes:
    """A model call: what the model was told before, and what it said."""
    why = _finished(reply)
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider_of(asked),
        "gen_ai.request.model": model_named(asked),
        "gen_ai.response.model": model_named(reply.model or asked, provider_of(asked)),
        "gen_ai.response.finish_reasons": (why,),
        **_whose(known),
        **_used(reply.usage),
        **content.heard(told),
        **content.said(reply, why),
    }


def tool_attributes(known: TaskFields, call: CallFields, result: ToolResult, content: Content) -> Attributes:
    """A call of a tool."""
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": one_line(call.name, LONGEST_WORD),
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": one_line(result.call, LONGEST_WORD),
        **_whose(known),
        **content.words(gen_ai__tool__call__arguments=call.input, gen_ai__tool__call__result=result.text),
    }


def agent_attributes(known: TaskFields, run: RunFields, end: TaskEnded, content: Content) -> Attributes:
    """A run of an agent."""
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": provider_of(run.model),
        "gen_ai.request.model": model_named(run.model),
        "gencode.task.status": end.status.value,
        "gencode.task.turns": run.turns,
        **_whose(known),
        **_used(run.usage),
        **content.heard([UserMessage(known.prompt)]),
        **content.said(AssistantMessage(end.told), _ENDED.get(end.status, "error")),
    }


def _whose(known: TaskFields) -> Attributes:
    return {
        "gen_ai.agent.id": known.id,
        "gen_ai.agent.name": one_line(known.agent, LONGEST_WORD),
        "gen_ai.conversation.id": known.root,
    }


def _used(usage: Usage | None) -> Attributes:
    if usage is None:
        return {}
    words: Attributes = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
    }
    if usage.cached_tokens:
        words["gen_ai.usage.cache_read.input_tokens"] = usage.cached_tokens
    return words if usage.usd is None else {**words, "gencode.cost.usd": usage.usd}


def _finished(reply: AssistantMessage) -> str:
    if reply.partial:
        return "error"
    if reply.calls:
        return "tool_calls"
    return _FINISHED.get(reply.stop, one_line(reply.stop, LONGEST_WORD))


def _cut(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text[:LONGEST_CONTENT]
