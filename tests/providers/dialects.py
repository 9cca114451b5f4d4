"""How the three dialects say the same reply, for the provider contract and for tests of trouble."""

import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from gencode.agent.ports import Provider, Request
from gencode.core.messages import TextPart
from gencode.providers.anthropic import AnthropicProvider
from gencode.providers.endpoint import DEFAULT_TIMEOUTS, HttpTimeouts
from gencode.providers.openai import OpenAIProvider
from tests.contracts.provider import KEY, Play, Stage, Staged
from tests.providers.fake_server import events, fake_server, hang_up, say_nothing, streamed

Event = dict[str, Any]
CUT = 5
"""Arguments are sent in pieces of so many characters, split anywhere."""


def pieces(text: str) -> list[str]:
    """A text in small pieces."""
    return [text[start : start + CUT] for start in range(0, len(text), CUT)]


def chat_chunk(delta: Event, finish: str | None = None, **more: Any) -> Event:
    """One event of Chat Completions."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "model": "mock-1", "choices": [choice], **more}


def chat_call(
    index: int | None, arguments: str, call_id: str | None = None, name: str | None = None
) -> Event:
    """One piece of a call of Chat Completions."""
    function: Event = {"arguments": arguments, **({"name": name} if name else {})}
    place = {} if index is None else {"index": index}
    return {
        "tool_calls": [
            {**place, **({"id": call_id, "type": "function"} if call_id else {}), "function": function}
        ]
    }


def chat(play: Play) -> list[bytes]:
    """A reply in Chat Completions."""
    said: list[Event | bytes] = [chat_chunk({"role": "assistant", "content": ""})]
    said += [chat_chunk({"content": text}) for text in play.texts]
    for index, (name, given) in enumerate(play.calls):
        said.append(chat_chunk(chat_call(index, "", f"call_{index}", name)))
        said += [chat_chunk(chat_call(index, piece)) for piece in pieces(json.dumps(given))]
    said.append(chat_chunk({}, "tool_calls" if play.calls else "stop"))
    usage = {"prompt_tokens": 10, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 3}}
    said += [{"model": "mock-1", "choices": [], "usage": usage}, b"[DONE]"]
    return events(*said)


def block(index: int, start: Event, deltas: Sequence[Event]) -> list[Event]:
    """The events of one content block of the Messages API."""
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def opening(**usage: int) -> Event:
    """The first event of the Messages API."""
    message: Event = {
        "model": "mock-1",
        "content": [],
        "usage": {"input_tokens": 10, "output_tokens": 1, **usage},
    }
    return {"type": "message_start", "message": message}


def closing(stop: str) -> list[Event]:
    """The last events of the Messages API."""
    delta = {"stop_reason": stop, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    ]


def text_block(index: int, texts: Sequence[str]) -> list[Event]:
    """A block of text."""
    return block(
        index, {"type": "text", "text": ""}, [{"type": "text_delta", "text": text} for text in texts]
    )


def call_block(index: int, call_id: str, name: str, arguments: Sequence[str]) -> list[Event]:
    """A block that is a call."""
    start: Event = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return block(index, start, [{"type": "input_json_delta", "partial_json": each} for each in arguments])


def messages(play: Play) -> list[bytes]:
    """A reply in the Messages API."""
    said: list[Event] = [opening(cache_read_input_tokens=3, cache_creation_input_tokens=2)]
    said += [*text_block(0, play.texts), {"type": "ping"}]
    for index, (name, given) in enumerate(play.calls, start=1):
        said += call_block(index, f"call_{index}", name, pieces(json.dumps(given)))
    return events(*said, *closing("tool_use" if play.calls else "end_turn"), named=True)


def responses(play: Play) -> list[bytes]:
    """A reply in the Responses API."""
    said: list[Event] = [
        {"type": "response.created", "response": {"model": "mock-1", "status": "in_progress"}}
    ]
    said += [{"type": "response.output_text.delta", "delta": text} for text in play.texts]
    if play.texts:
        content = [{"type": "output_text", "text": "".join(play.texts)}]
        said.append({"type": "response.output_item.done", "item": {"type": "message", "content": content}})
    for index, (name, given) in enumerate(play.calls):
        item = {
            "type": "function_call",
            "call_id": f"call_{index}",
            "name": name,
            "arguments": json.dumps(given),
        }
        said += [
            {"type": "response.function_call_arguments.delta", "delta": each}
            for each in pieces(json.dumps(given))
        ]
        said.append({"type": "response.output_item.done", "item": item})
    usage = {"input_tokens": 10, "output_tokens": 4, "input_tokens_details": {"cached_tokens": 3}}
    said.append(
        {"type": "response.completed", "response": {"model": "mock-1", "status": "completed", "usage": usage}}
    )
    return events(*said, named=True)


DIALECTS = {"anthropic": messages, "chat": chat, "responses": responses}


def begun(dialect: str, play: Play) -> list[bytes]:
    """The beginning of a reply: its text and nothing after it."""
    whole = DIALECTS[dialect](play)
    last = max(
        place for place, event in enumerate(whole) if play.texts[-1].encode() in event and b"delta" in event
    )
    return whole[: last + 1]


def provider_at(dialect: str, url: str, timeouts: HttpTimeouts = DEFAULT_TIMEOUTS) -> Provider:
    """The provider that speaks a dialect, for the model `some-model`."""
    if dialect == "anthropic":
        return AnthropicProvider("some-model", key=KEY, base_url=url, timeouts=timeouts)
    api = "chat" if dialect == "chat" else "responses"
    return OpenAIProvider("some-model", key=KEY, base_url=url, api=api, timeouts=timeouts)


async def seen(dialect: str, request: Request, model: str = "some-model", **more: Any) -> dict[str, Any]:
    """What a server gets to see of a request."""
    async with fake_server(streamed(*DIALECTS[dialect](Play(("hi",))))) as server:
        if dialect == "anthropic":
            provider: Provider = AnthropicProvider(model, key=KEY, base_url=server.url, **more)
        else:
            api = "chat" if dialect == "chat" else "responses"
            provider = OpenAIProvider(model, key=KEY, base_url=server.url, api=api, **more)
        assert [part async for part in provider.stream(request)][:-1] == [TextPart("hi")]
        return server.last.body


def name_of(dialect: str) -> str:
    """How that provider's model is called in errors."""
    return "anthropic/some-model" if dialect == "anthropic" else "openai/some-model"


@asynccontextmanager
async def stage_of(dialect: str) -> AsyncGenerator[Staged, None]:
    """Plays for the contract, each on a server of its own."""
    async with AsyncExitStack() as servers:

        async def staged(play: Play) -> Stage:
            act = streamed(*DIALECTS[dialect](play))
            if play.breaks or play.waits:
                act = streamed(*begun(dialect, play), then=hang_up if play.breaks else say_nothing)
            server = await servers.enter_async_context(fake_server(act))
            return Stage(provider_at(dialect, server.url), name_of(dialect), server.hung_up.wait)

        yield staged
