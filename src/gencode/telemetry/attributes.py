"""The words of spans (telemetry rack): OpenTelemetry's conventions for generative AI, and a few of our own.

No prompt, reply, path, command or result is among them unless a person switched content on.
"""

import json
from typing import Any, Protocol

from gencode.core.events import TaskEnded
from gencode.core.messages import AssistantMessage, ToolResult, Usage
from gencode.runtime.prompt import one_line

LONGEST_WORD = 128
LONGEST_CONTENT = 8_000
OURS = "gencode"
_FINISHED = {"": "stop", "end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length"}

Words = dict[str, Any]


class Agent(Protocol):
    """A task, as far as words need it."""

    id: str
    agent: str
    root: str
    prompt: str


class Call(Protocol):
    """A call, as far as words need it."""

    name: str
    input: dict[str, Any]


class Run(Protocol):
    """A run of a task, as far as words need it."""

    model: str
    turns: int
    usage: Usage


class Content:
    """What was said, where that may be told at all: cut, and as JSON."""

    def __init__(self, told: bool) -> None:
        self._told = told

    def words(self, **texts: Any) -> Words:
        """`name=text` as attributes; `__` stands for a dot. Nothing when content is off."""
        if not self._told:
            return {}
        return {name.replace("__", "."): _cut(value) for name, value in texts.items()}

    def said(self, name: str, role: str, text: str) -> Words:
        """A message as the conventions spell it."""
        if not self._told:
            return {}
        parts = [{"type": "text", "content": text[:LONGEST_CONTENT]}]
        return {name: json.dumps([{"role": role, "parts": parts}])}


def model_named(name: str) -> str:
    """A model as it may be told: a script's file is nobody's business."""
    return "scripted" if name.startswith("scripted:") else one_line(name, LONGEST_WORD) or "unknown"


def provider_of(model: str) -> str:
    """Who answers: what stands before the slash."""
    maker, slash, _ = model_named(model).partition("/")
    return maker if slash else OURS


def chat_words(known: Agent, asked: str, reply: AssistantMessage, content: Content) -> Words:
    """A model call."""
    answered = model_named(reply.model or asked)
    words = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": provider_of(asked),
        "gen_ai.request.model": model_named(asked),
        "gen_ai.response.model": answered,
        "gen_ai.response.finish_reasons": (_finished(reply),),
        **_whose(known),
    }
    return {**words, **_used(reply.usage), **content.said("gen_ai.output.messages", "assistant", reply.text)}


def tool_words(known: Agent, call: Call, result: ToolResult, content: Content) -> Words:
    """A call of a tool."""
    return {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": one_line(call.name, LONGEST_WORD),
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": one_line(result.call, LONGEST_WORD),
        **_whose(known),
        **content.words(gen_ai__tool__call__arguments=call.input, gen_ai__tool__call__result=result.text),
    }


def agent_words(known: Agent, run: Run, end: TaskEnded, content: Content) -> Words:
    """A run of an agent."""
    return {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": provider_of(run.model),
        "gen_ai.request.model": model_named(run.model),
        "gencode.task.status": end.status.value,
        "gencode.task.turns": run.turns,
        **_whose(known),
        **_used(run.usage),
        **content.said("gen_ai.input.messages", "user", known.prompt),
        **content.said("gen_ai.output.messages", "assistant", end.result),
    }


def _whose(known: Agent) -> Words:
    return {
        "gen_ai.agent.id": known.id,
        "gen_ai.agent.name": one_line(known.agent, LONGEST_WORD),
        "gen_ai.conversation.id": known.root,
    }


def _used(usage: Usage | None) -> Words:
    if usage is None:
        return {}
    words: Words = {
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
