"""Attributes of spans: OpenTelemetry's conventions for generative AI, and a few of our own.

Prompts, replies, paths, commands and results are not included unless content capture is switched on.
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
"""Characters of the input messages; of a longer history only the last ones are exported."""
OWN_PROVIDER = "gencode"
LOCAL = "local/"
_FINISHED = {"": "stop", "end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"}
_IN_MESSAGES = {"tool_calls": "tool_call"}
"""Finish reasons that the schema of messages spells differently from the attribute."""
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


class ContentAttributes:
    """Message content as attributes, as JSON of limited length; none if content capture is off."""

    def __init__(self, on: bool) -> None:
        self._on = on

    def text_attributes(self, **texts: Any) -> Attributes:
        """`name=text` as attributes; `__` stands for a dot."""
        if not self._on:
            return {}
        return {name.replace("__", "."): _cut(value) for name, value in texts.items()}

    def input_messages(self, messages: Sequence[Message]) -> Attributes:
        """The messages that a model or an agent got; only the last ones if there are many."""
        if not self._on:
            return {}
        found: list[str] = []
        room = LONGEST_HISTORY
        for message in reversed(messages):
            encoded = json.dumps(_as_json(message))
            room -= len(encoded)
            if found and room < 0:
                break
            found.append(encoded)
        return {"gen_ai.input.messages": f"[{', '.join(reversed(found))}]"}

    def output_messages(self, reply: AssistantMessage, why: str) -> Attributes:
        """The reply of a model or an agent, with its finish reason."""
        if not self._on:
            return {}
        message = {**_as_json(reply), "finish_reason": _IN_MESSAGES.get(why, why)}
        return {"gen_ai.output.messages": json.dumps([message])}


def _as_json(message: Message) -> Attributes:
    """A message in the schema of the conventions; pictures and thinking are left out."""
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
                {"type": "tool_call_response", "id": each.call, "response": each.for_model[:LONGEST_CONTENT]}
                for each in message.results
            ]
            return {"role": "tool", "parts": parts}


def _text(text: str) -> list[Attributes]:
    return [{"type": "text", "content": text[:LONGEST_CONTENT]}] if text else []


def _bounded(value: dict[str, Any]) -> Any:
    """Arguments, or their JSON cut to the limit if they are too long."""
    text = _cut(value)
    return value if len(text) < LONGEST_CONTENT else text


def model_name(name: str, provider: str = "") -> str:
    """The name of a model without its provider.

    The file of a script and the folder of a local model are private, so they are left out.
    """
    if name.startswith("scripted:"):
        return "scripted"
    if name.startswith(LOCAL):
        name = name.replace("\\", "/").rpartition("/")[2]
    named = one_line(name, LONGEST_WORD) or "unknown"
    return named.removeprefix(f"{provider or provider_name(name)}/") or named


def provider_name(model: str) -> str:
    """The provider of a model: the part before the slash."""
    maker, slash, _ = model.partition("/")
    return one_line(maker, LONGEST_WORD) if slash and not model.startswith("scripted:") else OWN_PROVIDER


def chat_attributes(
    known: TaskFields,
    asked: str,
    told: Sequence[Message],
    reply: AssistantMessage,
    content: ContentAttributes,
) -> Attributes:
    """A model call: the messages before it, and the reply."""
    why = _finish_reason(reply)
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider_name(asked),
        "gen_ai.request.model": model_name(asked),
        "gen_ai.response.model": model_name(reply.model or asked, provider_name(asked)),
        "gen_ai.response.finish_reasons": (why,),
        **_task_attributes(known),
        **_usage_attributes(reply.usage),
        **content.input_messages(told),
        **content.output_messages(reply, why),
    }


def tool_attributes(
    known: TaskFields, call: CallFields, result: ToolResult, content: ContentAttributes
) -> Attributes:
    """A call of a tool."""
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": one_line(call.name, LONGEST_WORD),
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": one_line(result.call, LONGEST_WORD),
        **_task_attributes(known),
        **content.text_attributes(
            gen_ai__tool__call__arguments=call.input, gen_ai__tool__call__result=result.for_model
        ),
    }


def agent_attributes(
    known: TaskFields, run: RunFields, end: TaskEnded, content: ContentAttributes
) -> Attributes:
    """A run of an agent."""
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": provider_name(run.model),
        "gen_ai.request.model": model_name(run.model),
        "gencode.task.status": end.status.value,
        "gencode.task.turns": run.turns,
        **_task_attributes(known),
        **_usage_attributes(run.usage),
        **content.input_messages([UserMessage(known.prompt)]),
        **content.output_messages(AssistantMessage(end.full_text), _ENDED.get(end.status, "error")),
    }


def _task_attributes(known: TaskFields) -> Attributes:
    return {
        "gen_ai.agent.id": known.id,
        "gen_ai.agent.name": one_line(known.agent, LONGEST_WORD),
        "gen_ai.conversation.id": known.root,
    }


def _usage_attributes(usage: Usage | None) -> Attributes:
    if usage is None:
        return {}
    found: Attributes = {
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
    }
    if usage.cached_tokens:
        found["gen_ai.usage.cache_read.input_tokens"] = usage.cached_tokens
    return found if usage.usd is None else {**found, "gencode.cost.usd": usage.usd}


def _finish_reason(reply: AssistantMessage) -> str:
    if reply.partial:
        return "error"
    if reply.calls:
        return "tool_calls"
    return _FINISHED.get(reply.stop, one_line(reply.stop, LONGEST_WORD))


def _cut(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text[:LONGEST_CONTENT]
