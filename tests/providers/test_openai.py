"""Chat Completions and the Responses API, over real HTTP against a fake server."""

import json
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    UserMessage,
)
from gencode.providers import openai
from gencode.providers.openai import OpenAIProvider
from tests.contracts.provider import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.provider import KEY, LOOKUP, Play, Staged, parts_of
from tests.counting import counting
from tests.providers.dialects import DIALECTS, chat_call, chat_chunk, provider_at, stage_of
from tests.providers.fake_server import events, fake_server, hang_up, in_json, reply, say_nothing, streamed

HISTORY = (
    UserMessage("one"),
    UserMessage("two", sender="system"),
    AssistantMessage(
        "I look.", (ToolCall("c1", "lookup", {"key": "ü"}), ToolCall("c2", "lookup", {}, broken="{"))
    ),
    ToolMessage((ToolResult("c1", "lookup", "row"), ToolResult("c2", "lookup", "not JSON", error=True))),
    AssistantMessage(""),
    AssistantMessage("half an ans", partial=True),
    UserMessage("go on"),
)


@pytest.fixture(params=["chat", "responses"])
async def staged(request: pytest.FixtureRequest) -> AsyncIterator[Staged]:
    async with stage_of(request.param) as set_stage:
        yield set_stage


async def heard(*said: dict[str, Any] | bytes, dialect: str = "chat", end: bytes = b"\n") -> list[Part]:
    """What the provider makes of these events."""
    async with fake_server(streamed(*events(*said, end=end))) as server:
        return await parts_of(provider_at(dialect, server.url))


async def calls_heard(*deltas: dict[str, Any]) -> list[ToolCall]:
    """The calls that the provider makes of these pieces."""
    parts = await heard(*(chat_chunk(delta) for delta in deltas), chat_chunk({}, "tool_calls"), b"[DONE]")
    assert isinstance(parts[-1], EndPart)
    return [part.call for part in parts if isinstance(part, CallPart)]


async def sent(
    dialect: str, history: Sequence[Message], *, model: str = "some-model", **more: Any
) -> dict[str, Any]:
    """What the server gets to see of a conversation."""
    tools: Sequence[ToolSchema] = more.pop("tools", ())
    async with fake_server(streamed(*DIALECTS[dialect](Play(("hi",))))) as server:
        api = "chat" if dialect == "chat" else "responses"
        provider = OpenAIProvider(model, key=KEY, base_url=server.url, api=api)
        request = Request("openai/m", more.pop("system", ""), list(history), tools, **more)
        assert [part async for part in provider.stream(request)][:-1] == [TextPart("hi")]
        assert server.last.headers["authorization"] == f"Bearer {KEY}"
        return server.last.body


async def test_a_chat_request_holds_system_tools_and_every_kind_of_message() -> None:
    function = {"name": "lookup", "description": LOOKUP.description, "parameters": LOOKUP.parameters}
    body = await sent("chat", HISTORY, system="Be brief.", tools=(LOOKUP,), temperature=0.0, max_tokens=9)
    assert body == {
        "model": "some-model",
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.0,
        "max_tokens": 9,
        "tools": [{"type": "function", "function": function}],
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "one\n\ntwo"},
            {
                "role": "assistant",
                "content": "I look.",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "lookup", "arguments": '{"key":"ü"}'},
                    },
                    {"id": "c2", "type": "function", "function": {"name": "lookup", "arguments": "{}"}},
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "row"},
            {"role": "tool", "tool_call_id": "c2", "content": "not JSON"},
            {"role": "assistant", "content": "half an ans"},
            {"role": "user", "content": "go on"},
        ],
    }


async def test_a_responses_request_holds_the_same() -> None:
    tool = {"type": "function", "name": "lookup", "description": LOOKUP.description}
    body = await sent(
        "responses", HISTORY, system="Be brief.", tools=(LOOKUP,), temperature=0.0, max_tokens=9
    )
    assert body == {
        "model": "some-model",
        "stream": True,
        "store": False,
        "instructions": "Be brief.",
        "temperature": 0.0,
        "max_output_tokens": 9,
        "tools": [{**tool, "parameters": LOOKUP.parameters, "strict": False}],
        "input": [
            {"role": "user", "content": "one\n\ntwo"},
            {"role": "assistant", "content": "I look."},
            {"type": "function_call", "call_id": "c1", "name": "lookup", "arguments": '{"key":"ü"}'},
            {"type": "function_call", "call_id": "c2", "name": "lookup", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "row"},
            {"type": "function_call_output", "call_id": "c2", "output": "not JSON"},
            {"role": "assistant", "content": "half an ans"},
            {"role": "user", "content": "go on"},
        ],
    }


@pytest.mark.parametrize(
    ("model", "name"),
    [("gpt-4o", "max_tokens"), ("o3", "max_completion_tokens"), ("gpt-5-mini", "max_completion_tokens")],
)
async def test_models_that_think_get_the_name_of_the_limit_that_they_know(model: str, name: str) -> None:
    body = await sent("chat", [UserMessage("Go.")], model=model, max_tokens=5)
    assert {key: body[key] for key in body if key.startswith("max")} == {name: 5}


@pytest.mark.parametrize(("dialect", "limit"), [("chat", "max_tokens"), ("responses", "max_output_tokens")])
@pytest.mark.parametrize(("model", "most"), [("gpt-4o", 16_384), ("gpt-4-turbo", 4_096), ("qwen3", 90_000)])
async def test_a_model_is_told_no_limit_that_is_beyond_its_own(
    dialect: str, limit: str, model: str, most: int
) -> None:
    body = await sent(dialect, [UserMessage("Go.")], model=model, max_tokens=90_000)
    assert body[limit] == most


async def test_a_server_without_a_key_is_asked_without_one() -> None:
    async with fake_server(streamed(*DIALECTS["chat"](Play(("hi",))))) as server:
        provider = OpenAIProvider("m", key="", base_url=server.url, name="ollama")
        assert (await parts_of(provider))[-1] == EndPart("ollama/mock-1", "end_turn", Usage(10, 4, 3))
        assert "authorization" not in server.last.headers


@pytest.mark.parametrize("dialect", ["chat", "responses"])
async def test_usage_and_the_model_that_answered_are_reported(dialect: str) -> None:
    async with fake_server(streamed(*DIALECTS[dialect](Play(("a", "b"), (("lookup", {}),))))) as server:
        assert await parts_of(provider_at(dialect, server.url)) == [
            TextPart("a"),
            TextPart("b"),
            CallPart(ToolCall("call_0", "lookup", {})),
            EndPart("openai/mock-1", "tool_use", Usage(10, 4, 3)),
        ]


async def test_usage_that_never_comes_is_unknown() -> None:
    parts = await heard(chat_chunk({"content": "hi"}), chat_chunk({}, "stop"), b"[DONE]")
    assert parts == [TextPart("hi"), EndPart("openai/mock-1", "end_turn", None)]


@pytest.mark.parametrize(
    ("finish", "stop"),
    [("stop", "end_turn"), ("length", "max_tokens"), ("content_filter", "refusal"), ("eos", "eos")],
)
async def test_reasons_to_stop_have_one_spelling(finish: str, stop: str) -> None:
    assert (await heard(chat_chunk({"content": "hi"}, finish)))[-1] == EndPart("openai/mock-1", stop, None)


async def test_a_stream_that_falls_silent_after_the_reason_to_stop_is_whole() -> None:
    said = events(chat_chunk({"content": "hi"}), chat_chunk({}, "stop"))
    for then in (hang_up, say_nothing):
        async with fake_server(streamed(*said, then=then)) as server:
            assert await parts_of(provider_at("chat", server.url)) == [
                TextPart("hi"),
                EndPart("openai/mock-1", "end_turn", None),
            ]


async def test_a_stop_with_calls_is_a_wish_to_use_tools() -> None:
    call = chat_chunk(chat_call(0, "{}", "c1", "lookup"), "stop")
    assert (await heard(call, b"[DONE]"))[-1] == EndPart("openai/mock-1", "tool_use", None)


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
async def test_reasoning_is_thinking_without_a_signature(field: str) -> None:
    parts = await heard(chat_chunk({field: "hm", "content": None}), chat_chunk({"content": "hi"}, "stop"))
    assert parts[:-1] == [ThinkingPart("hm"), TextPart("hi")]


async def test_chunks_with_odd_or_no_content_are_understood() -> None:
    parts = await heard(
        {"choices": []},
        {"choices": None, "model": None, "usage": None},
        {},
        {"choices": [{"delta": None}]},
        chat_chunk({"reasoning": {"effort": "none"}, "content": [None, 3]}),
        chat_chunk({"content": [{"type": "text", "text": "in "}, {"type": "text", "text": "parts"}]}),
        chat_chunk({"refusal": " No."}),
        chat_chunk({}, "stop", usage={"prompt_tokens": 7.0, "completion_tokens": None}),
    )
    assert parts == [
        TextPart("in parts"),
        TextPart(" No."),
        EndPart("openai/mock-1", "end_turn", Usage(7, 0)),
    ]


async def test_calls_without_ids_get_one_each() -> None:
    first, second = await calls_heard(
        chat_call(0, '{"a":', name="lookup"), chat_call(0, "1}"), chat_call(1, "{}", name="lookup")
    )
    assert (first.input, second.input) == ({"a": 1}, {})
    assert first.id
    assert second.id not in ("", first.id)


async def test_calls_with_the_same_id_get_different_ones() -> None:
    calls = await calls_heard(chat_call(0, "{}", "x", "lookup"), chat_call(1, "{}", "x", "lookup"))
    assert calls[0] == ToolCall("x", "lookup", {})
    assert calls[1].id not in ("", "x")


async def test_whole_calls_that_all_have_the_same_index_stay_apart() -> None:
    assert await calls_heard(
        chat_call(0, '{"a":1}', "x", "lookup"), chat_call(0, '{"a":2}', "y", "lookup"), chat_call(0, "", "y")
    ) == [ToolCall("x", "lookup", {"a": 1}), ToolCall("y", "lookup", {"a": 2})]


async def test_calls_without_index_and_id_stay_apart_by_their_names() -> None:
    calls = await calls_heard(
        chat_call(None, '{"a":', name="lookup"),
        chat_call(None, "1}"),
        chat_call(None, '{"a":2}', name="lookup"),
        chat_call(None, "{}", name="other"),
    )
    assert [(call.name, call.input) for call in calls] == [
        ("lookup", {"a": 1}),
        ("lookup", {"a": 2}),
        ("other", {}),
    ]


async def test_a_name_and_id_that_are_repeated_in_every_piece_are_one_call() -> None:
    pieces = [chat_call(0, piece, "x", "lookup") for piece in ('{"a', '":', "1}")]
    assert await calls_heard(*pieces) == [ToolCall("x", "lookup", {"a": 1})]


async def test_arguments_sent_as_an_object_are_taken() -> None:
    piece = {"tool_calls": [{"index": 0, "id": "x", "function": {"name": "lookup", "arguments": {"a": 1}}}]}
    assert await calls_heard(piece) == [ToolCall("x", "lookup", {"a": 1})]


@pytest.mark.parametrize("text", ['{"key": "a', "[1]", "key=a", "null"])
async def test_arguments_that_are_no_json_object_are_kept_as_they_are(text: str) -> None:
    assert await calls_heard(chat_call(0, text, "x", "lookup")) == [ToolCall("x", "lookup", {}, broken=text)]


async def test_a_signature_of_gemini_goes_back_with_its_call() -> None:
    extra = {"google": {"thought_signature": "sig=="}}
    call = {"index": 0, "id": "x", "function": {"name": "lookup", "arguments": "{}"}, "extra_content": extra}
    parts = await heard(chat_chunk({"tool_calls": [call]}, "tool_calls"))
    assert parts[:-1] == [ThinkingPart("", "google:x:sig=="), CallPart(ToolCall("x", "lookup", {}))]
    said = AssistantMessage("", (ToolCall("x", "lookup", {}),), (Thinking("", "google:x:sig=="),))
    history = [UserMessage("Go."), said, ToolMessage((ToolResult("x", "lookup", "row"),))]
    assert (await sent("chat", history))["messages"][1]["tool_calls"][0]["extra_content"] == extra


async def test_comments_blank_lines_and_windows_line_ends_are_passed_over() -> None:
    first, *others = events(chat_chunk({"content": "h"}), chat_chunk({"content": "i"}, "stop"), end=b"\r\n")
    noise = b": OPENROUTER PROCESSING\r\n\r\n\r\nid: 3\r\nretry: 10\r\n"
    async with fake_server(streamed(b"\r\n", noise, first, noise, *others, b"data:[DONE]\r\n\r\n")) as server:
        assert (await parts_of(provider_at("chat", server.url)))[:-1] == [TextPart("h"), TextPart("i")]


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_a_chat_answer_that_is_not_streamed_is_read_all_the_same(kind: str) -> None:
    call = {"id": "x", "type": "function", "function": {"name": "lookup", "arguments": '{"a":1}'}}
    message = {"role": "assistant", "content": "I look.", "reasoning": "hm", "tool_calls": [call]}
    whole = {
        "model": "mock-2",
        "choices": [{"message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2},
    }
    async with fake_server(reply(json.dumps(whole).encode(), kind=kind)) as server:
        assert await parts_of(provider_at("chat", server.url)) == [
            ThinkingPart("hm"),
            TextPart("I look."),
            CallPart(ToolCall("x", "lookup", {"a": 1})),
            EndPart("openai/mock-2", "tool_use", Usage(5, 2)),
        ]


async def test_a_response_that_is_not_streamed_is_read_all_the_same() -> None:
    output = [
        {"type": "reasoning", "summary": [{"text": "hm"}], "encrypted_content": "enc"},
        {"type": "message", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "x", "name": "lookup", "arguments": '{"a":1}'},
    ]
    whole = {"model": "mock-2", "status": "completed", "output": output, "error": None}
    async with fake_server(in_json(whole)) as server:
        assert await parts_of(provider_at("responses", server.url)) == [
            ThinkingPart("hm", "enc"),
            TextPart("I look."),
            CallPart(ToolCall("x", "lookup", {"a": 1})),
            EndPart("openai/mock-2", "tool_use", None),
        ]


async def test_items_that_come_only_with_the_end_of_a_response_are_heard() -> None:
    call = {"type": "function_call", "call_id": "x", "name": "lookup", "arguments": "{}"}
    parts = await heard({"type": "response.completed", "response": {"output": [call]}}, dialect="responses")
    assert parts == [CallPart(ToolCall("x", "lookup", {})), EndPart("openai/some-model", "tool_use")]


async def test_encrypted_reasoning_is_asked_for_heard_and_sent_back() -> None:
    item = {"type": "reasoning", "summary": [{"text": "hm"}], "encrypted_content": "enc"}
    parts = await heard(
        {"type": "response.reasoning_summary_text.delta", "delta": "hm"},
        {"type": "response.output_item.done", "item": item},
        {"type": "response.incomplete", "response": {"incomplete_details": {"reason": "max_output_tokens"}}},
        dialect="responses",
    )
    assert parts == [ThinkingPart("hm"), ThinkingPart("", "enc"), EndPart("openai/some-model", "max_tokens")]
    said = AssistantMessage("Hm.", thinking=(Thinking("hm", "enc"),), model="openai/gpt-5")
    body = await sent("responses", [UserMessage("Go."), said, UserMessage("And?")], model="gpt-5")
    assert body["include"] == ["reasoning.encrypted_content"]
    assert body["input"][1] == {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "enc",
    }


async def test_a_long_conversation_is_sent_the_same_as_a_fresh_one() -> None:
    """The beginning that is kept encoded never differs from what would be encoded now."""
    async with fake_server(streamed(*DIALECTS["chat"](Play(("hi",))))) as server:
        kept = provider_at("chat", server.url)
        history: list[Message] = []
        for message in (*HISTORY, *HISTORY):
            history.append(message)
            for provider, task in ((kept, "9f3a1c2e"), (provider_at("chat", server.url), "")):
                request = Request("m", "", history, (), task=task)
                assert [part async for part in provider.stream(request)][:-1] == [TextPart("hi")]
            assert server.asked[-1].body == server.asked[-2].body


@given(st.lists(st.integers(0, 40), max_size=6))
async def test_arguments_may_be_split_anywhere(cuts: list[int]) -> None:
    text = json.dumps({"key": 'a "quoted" ü 😀 \\ \n', "n": [1, 2.5, None]})
    places = sorted({0, *(min(cut, len(text)) for cut in cuts), len(text)})
    pieces = [text[start:end] for start, end in pairwise(places)]
    deltas = [chat_call(0, "", "x", "lookup"), *(chat_call(0, piece) for piece in pieces)]
    assert await calls_heard(*deltas) == [ToolCall("x", "lookup", json.loads(text))]


async def test_a_piece_of_a_call_costs_the_same_however_many_calls_came_before_it() -> None:
    async def cost_of_one(calls: int) -> float:
        pieces = [chat_call(place, "{}", f"c{place}", "lookup") for place in range(calls)]
        with counting(openai) as count:
            assert len(await calls_heard(*pieces)) == calls
        return count.calls / calls

    assert await cost_of_one(60) <= 1.2 * await cost_of_one(6)
