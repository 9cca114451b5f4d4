"""Anthropic's Messages API, over real HTTP against a fake server."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from gencode.agent.ports import Request, ToolSchema
from gencode.core.messages import (
    AssistantMessage,
    CallPart,
    EndPart,
    Image,
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
from gencode.providers.anthropic import AnthropicProvider
from tests.contracts.provider import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.provider import KEY, LOOKUP, Play, Staged, parts_of
from tests.providers.dialects import (
    block,
    call_block,
    closing,
    messages,
    opening,
    provider_at,
    stage_of,
    text_block,
)
from tests.providers.fake_server import Asked, events, fake_server, in_json, streamed

CACHE = {"type": "ephemeral"}
HI = streamed(*messages(Play(("hi",))))


@pytest.fixture
async def staged() -> AsyncIterator[Staged]:
    async with stage_of("anthropic") as set_stage:
        yield set_stage


async def heard(*said: dict[str, Any] | bytes) -> list[Part]:
    """What the provider makes of these events."""
    async with fake_server(streamed(*events(*said, named=True))) as server:
        return await parts_of(provider_at("anthropic", server.url))


async def sent(
    *history: Message, tools: Sequence[ToolSchema] = (), system: str = "", **more: Any
) -> dict[str, Any]:
    """What the server gets to see of a conversation."""
    async with fake_server(HI) as server:
        provider = provider_at("anthropic", server.url)
        request = Request("anthropic/some-model", system, list(history), tools, **more)
        assert [part async for part in provider.stream(request)][:-1] == [TextPart("hi")]
        return server.last.body


async def test_a_reply_is_reported_with_who_answered_and_all_its_tokens() -> None:
    async with fake_server(streamed(*messages(Play(("a", "b"), (("lookup", {"key": "x"}),))))) as server:
        assert await parts_of(provider_at("anthropic", server.url)) == [
            TextPart("a"),
            TextPart("b"),
            CallPart(ToolCall("call_1", "lookup", {"key": "x"})),
            EndPart("anthropic/mock-1", "tool_use", Usage(15, 4, 3)),
        ]


async def test_the_request_carries_key_version_tools_and_limits() -> None:
    async with fake_server(HI) as server:
        provider = provider_at("anthropic", server.url)
        request = Request("m", "Be brief.", [UserMessage("Go.")], (LOOKUP,), temperature=0.5, max_tokens=77)
        assert len([part async for part in provider.stream(request)]) == 2
        asked = server.last
    kept = {name: asked.headers[name] for name in ("x-api-key", "anthropic-version", "content-type")}
    text = {"type": "text", "text": "Go.", "cache_control": CACHE}
    assert Asked(asked.path, kept, asked.body) == Asked(
        "/v1/messages",
        {"x-api-key": KEY, "anthropic-version": "2023-06-01", "content-type": "application/json"},
        {
            "model": "some-model",
            "max_tokens": 77,
            "stream": True,
            "temperature": 0.5,
            "system": [{"type": "text", "text": "Be brief.", "cache_control": CACHE}],
            "tools": [
                {
                    "name": "lookup",
                    "description": LOOKUP.description,
                    "input_schema": LOOKUP.parameters,
                    "cache_control": CACHE,
                }
            ],
            "messages": [{"role": "user", "content": [text]}],
        },
    )


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ("claude-3-haiku-20240307", 4096),
        ("claude-3-5-haiku-latest", 8192),
        ("claude-3-7-sonnet-latest", 64000),
        ("claude-sonnet-4-5", 32000),
    ],
)
async def test_a_model_is_never_asked_for_more_tokens_than_it_has(model: str, limit: int) -> None:
    async with fake_server(HI, HI) as server:
        provider = AnthropicProvider(model, key=KEY, base_url=server.url)
        assert await parts_of(provider)
        assert server.last.body["max_tokens"] == limit
        more = Request("m", "", [UserMessage("Go.")], (), max_tokens=100_000)
        assert [part async for part in provider.stream(more)]
        assert server.last.body["max_tokens"] == limit


async def test_calls_and_results_go_back_with_cache_points_on_the_last_two_user_turns() -> None:
    history = (
        UserMessage("Go."),
        AssistantMessage("I look.", (ToolCall("c1", "lookup", {"key": "a"}), ToolCall("c2", "lookup", {}))),
        ToolMessage(
            (ToolResult("c1", "lookup", "one"), ToolResult("c2", "lookup", "no such key", error=True))
        ),
        UserMessage("mail for you", sender="9f3a1c2e"),
        AssistantMessage("Once more.", (ToolCall("c3", "lookup", {"key": "b"}),)),
        ToolMessage((ToolResult("c3", "lookup", ""),)),
    )
    assert (await sent(*history, tools=(LOOKUP,)))["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Go."}]},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c1", "name": "lookup", "input": {"key": "a"}},
                {"type": "tool_use", "id": "c2", "name": "lookup", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "one"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "no such key", "is_error": True},
                {"type": "text", "text": "mail for you", "cache_control": CACHE},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Once more."},
                {"type": "tool_use", "id": "c3", "name": "lookup", "input": {"key": "b"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c3", "content": "(no output)", "cache_control": CACHE}
            ],
        },
    ]


async def test_thinking_is_heard_with_its_signature_and_sent_back_with_it() -> None:
    thought = [{"type": "thinking_delta", "thinking": "so "}, {"type": "thinking_delta", "thinking": "then"}]
    parts = await heard(
        opening(),
        *block(
            0,
            {"type": "thinking", "thinking": ""},
            [*thought, {"type": "signature_delta", "signature": "s="}],
        ),
        *block(1, {"type": "redacted_thinking", "data": "xyz"}, []),
        *call_block(2, "c1", "lookup", ["{}"]),
        *closing("tool_use"),
    )
    assert parts[:-1] == [
        ThinkingPart("so "),
        ThinkingPart("then"),
        ThinkingPart("", "s="),
        ThinkingPart("", "redacted:xyz"),
        CallPart(ToolCall("c1", "lookup", {})),
    ]
    thinking = (Thinking("so then", "s="), Thinking("", "redacted:xyz"), Thinking("unsigned"))
    said = AssistantMessage("", (ToolCall("c1", "lookup", {}),), thinking, model="anthropic/mock-1")
    body = await sent(
        UserMessage("Go."), said, ToolMessage((ToolResult("c1", "lookup", "one"),)), tools=(LOOKUP,)
    )
    assert body["messages"][1]["content"] == [
        {"type": "thinking", "thinking": "so then", "signature": "s="},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "tool_use", "id": "c1", "name": "lookup", "input": {}},
    ]


async def test_thinking_that_another_model_signed_stays_here() -> None:
    said = AssistantMessage("Hm.", thinking=(Thinking("so", "theirs"),), model="openai/gpt-5")
    body = await sent(UserMessage("Go."), said, UserMessage("And?"))
    assert body["messages"][1]["content"] == [{"type": "text", "text": "Hm."}]


async def test_turns_alternate_whatever_the_transcript_holds() -> None:
    body = await sent(
        AssistantMessage("I was first."),
        UserMessage("one"),
        UserMessage("two", sender="system"),
        UserMessage("  "),
        AssistantMessage("", thinking=(Thinking("only thought"),)),
        UserMessage("three"),
        AssistantMessage("half an ans", partial=True),
    )
    plain = [(turn["role"], [each["text"] for each in turn["content"]]) for turn in body["messages"]]
    assert plain == [
        ("user", ["(Go on.)"]),
        ("assistant", ["I was first."]),
        ("user", ["one", "two", "three"]),
        ("assistant", ["half an ans"]),
        ("user", ["(Go on.)"]),
    ]


async def test_results_stand_before_text_that_came_between() -> None:
    body = await sent(
        UserMessage("Go."),
        AssistantMessage("", (ToolCall("c1", "lookup", {}),)),
        UserMessage("quick word"),
        ToolMessage((ToolResult("c1", "lookup", "one"),)),
        tools=(LOOKUP,),
    )
    assert [each["type"] for each in body["messages"][-1]["content"]] == ["tool_result", "text"]


async def test_a_picture_in_a_result_is_shown() -> None:
    picture = Image("image/png", "aGVsbG8=")
    body = await sent(
        UserMessage("Go."),
        AssistantMessage("", (ToolCall("c1", "lookup", {}),)),
        ToolMessage((ToolResult("c1", "lookup", "a picture", images=(picture,)),)),
        tools=(LOOKUP,),
    )
    assert body["messages"][-1]["content"][0]["content"] == [
        {"type": "text", "text": "a picture"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}},
    ]


async def test_what_a_person_shows_comes_before_their_words() -> None:
    body = await sent(UserMessage("What is it?", images=(Image("image/png", "aGVsbG8="),)))
    shown, said = body["messages"][-1]["content"]
    source = {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}
    assert (shown, said["text"]) == ({"type": "image", "source": source}, "What is it?")


async def test_a_turn_without_tools_still_declares_those_of_the_history() -> None:
    """The API refuses a history with calls and no tools."""
    body = await sent(
        UserMessage("Go."),
        AssistantMessage("", (ToolCall("c1", "lookup", {}),)),
        ToolMessage((ToolResult("c1", "lookup", "one"),)),
        UserMessage("Answer now."),
    )
    assert (body["tools"], body["tool_choice"]) == (
        [{"name": "lookup", "input_schema": {"type": "object"}}],
        {"type": "none"},
    )


async def test_names_and_ids_that_the_api_would_refuse_are_made_good() -> None:
    body = await sent(
        UserMessage("Go."),
        AssistantMessage("", (ToolCall("functions.Read:0", "Read file!", {}, broken="{"),)),
        ToolMessage((ToolResult("functions.Read:0", "Read file!", "there is no such tool", error=True),)),
        tools=(LOOKUP,),
    )
    [call], [result] = body["messages"][1]["content"], body["messages"][2]["content"]
    assert (call["id"], call["name"], call["input"]) == ("functions_Read_0", "Read_file_", {})
    assert result["tool_use_id"] == call["id"]


async def test_text_that_no_encoding_holds_is_sent_without_those_characters() -> None:
    body = await sent(UserMessage("a\ud800b"))
    assert body["messages"][0]["content"][0]["text"] == "a?b"


@pytest.mark.parametrize(
    "text", ['{"key": "a', "[1]", '"text"', "{'key': 1}", '{"key": "\\ud83d"}', "[" * 5000]
)
async def test_arguments_that_are_no_json_object_are_kept_as_they_are(text: str) -> None:
    parts = await heard(opening(), *call_block(0, "c1", "lookup", [text]), *closing("tool_use"))
    assert parts[0] == CallPart(ToolCall("c1", "lookup", {}, broken=text))


async def test_events_nobody_knows_are_passed_over() -> None:
    parts = await heard(
        {"type": "brand_new", "content_block": {"type": "x"}},
        opening(),
        *block(0, {"type": "server_tool_use", "id": "s", "name": "web"}, [{"type": "new_delta"}]),
        *text_block(1, ["hi"]),
        *closing("pause_turn"),
    )
    assert parts == [TextPart("hi"), EndPart("anthropic/mock-1", "pause_turn", Usage(10, 4))]


async def test_a_stream_without_its_last_events_is_whole_when_it_said_why_it_stopped() -> None:
    parts = await heard(opening(), *call_block(0, "c1", "lookup", ['{"a":1}'])[:-1], closing("tool_use")[0])
    assert parts == [
        CallPart(ToolCall("c1", "lookup", {"a": 1})),
        EndPart("anthropic/mock-1", "tool_use", Usage(10, 4)),
    ]


async def test_an_answer_that_is_not_streamed_is_read_all_the_same() -> None:
    content = [
        {"type": "thinking", "thinking": "so", "signature": "s="},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c1", "name": "lookup", "input": {"key": "a"}},
    ]
    usage = {"input_tokens": 5, "output_tokens": 2}
    whole = {
        "type": "message",
        "model": "mock-2",
        "content": content,
        "stop_reason": "tool_use",
        "usage": usage,
    }
    async with fake_server(in_json(whole)) as server:
        assert await parts_of(provider_at("anthropic", server.url)) == [
            ThinkingPart("so", "s="),
            TextPart("I look."),
            CallPart(ToolCall("c1", "lookup", {"key": "a"})),
            EndPart("anthropic/mock-2", "tool_use", Usage(5, 2)),
        ]
