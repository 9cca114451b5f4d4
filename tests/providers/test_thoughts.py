"""Thinking that servers send as `reasoning_content`: heard, kept, and given back with the calls it led to."""

from pathlib import Path
from typing import Any

import pytest

from gencode import GenCode
from gencode.agent.ports import Request
from gencode.core.messages import (
    AssistantMessage,
    CallPart,
    Message,
    TextPart,
    Thinking,
    ThinkingPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from gencode.providers.openai import ALOUD
from tests.contracts.provider import Play, parts_of
from tests.providers.dialects import chat, chat_call, chat_chunk, provider_at, seen
from tests.providers.fake_server import events, fake_server, streamed

CALL = ToolCall("c1", "Read", {"file_path": "a"})
WISH = chat_chunk(chat_call(0, '{"file_path":"a"}', "c1", "Read"))
END = (chat_chunk({}, "tool_calls"), b"[DONE]")


def history(*thinking: Thinking, model: str = "openai/some-model", calls: bool = True) -> list[Message]:
    said = AssistantMessage("I look.", (CALL,) if calls else (), thinking, model=model)
    return [UserMessage("Go."), said, ToolMessage((ToolResult("c1", "Read", "row"),))]


async def said_before(messages: list[Message], dialect: str = "chat", **more: Any) -> dict[str, Any]:
    """The model's own turn as it goes back."""
    body = await seen(dialect, Request("m", "", messages, ()), **more)
    return body["messages" if dialect == "chat" else "input"][1]


async def test_thinking_aloud_before_calls_is_marked_where_the_calls_begin() -> None:
    thoughts = [chat_chunk({"reasoning_content": text, "content": None}) for text in ("so ", "then")]
    async with fake_server(
        streamed(*events(*thoughts, chat_chunk({"content": "I look."}), WISH, *END))
    ) as server:
        parts = await parts_of(provider_at("chat", server.url))
    assert parts[:-1] == [
        ThinkingPart("so "),
        ThinkingPart("then"),
        TextPart("I look."),
        ThinkingPart("", ALOUD),
        CallPart(CALL),
    ]


async def test_it_goes_back_with_its_calls_through_loop_and_journal(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("row")
    first = streamed(*events(chat_chunk({"reasoning_content": "so then"}), WISH, *END))
    async with fake_server(first, streamed(*chat(Play(("Done.",))))) as server:
        async with GenCode.open(cwd=tmp_path, model=provider_at("chat", server.url)) as gen:
            outcome = await gen.ask("Go.").outcome()
            await gen.ask("And?", session=outcome.agent_id).outcome()
        turns = [
            [each for each in asked.body["messages"] if each["role"] == "assistant"] for asked in server.asked
        ]
    function = {"name": "Read", "arguments": '{"file_path":"a"}'}
    wish = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        "reasoning_content": "so then",
    }
    assert turns == [[], [wish], [wish, {"role": "assistant", "content": "Done."}]]


async def test_an_empty_thought_goes_back_empty() -> None:
    async with fake_server(streamed(*events(chat_chunk({"reasoning_content": ""}), WISH, *END))) as server:
        assert (await parts_of(provider_at("chat", server.url)))[0] == ThinkingPart("", ALOUD)
    assert (await said_before(history(Thinking("", ALOUD))))["reasoning_content"] == ""


@pytest.mark.parametrize(
    "messages",
    [
        history(Thinking("so", ALOUD), calls=False),
        history(Thinking("so")),
        history(Thinking("so", ALOUD), model="deepseek/some-model"),
        history(),
    ],
    ids=["without calls", "under another name", "of another server", "none"],
)
async def test_other_thinking_stays_here(messages: list[Message]) -> None:
    assert "reasoning_content" not in await said_before(messages)


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
async def test_thinking_without_calls_or_under_another_name_is_not_marked(field: str) -> None:
    said = [chat_chunk({field: "so"})] + ([WISH] if field == "reasoning" else [chat_chunk({"content": "hi"})])
    async with fake_server(streamed(*events(*said, *END))) as server:
        parts = await parts_of(provider_at("chat", server.url))
    assert [part for part in parts if isinstance(part, ThinkingPart)] == [ThinkingPart("so")]


async def test_a_server_that_wants_thoughts_gets_an_empty_one_where_there_is_none() -> None:
    """DeepSeek refuses calls in the history that come without, even those of another model."""
    more: dict[str, Any] = {"name": "deepseek", "wants_thoughts": True}
    assert (await said_before(history(model="openai/gpt-4o"), **more))["reasoning_content"] == ""
    mine = history(Thinking("so", ALOUD), model="deepseek/some-model")
    assert (await said_before(mine, **more))["reasoning_content"] == "so"
    assert "reasoning_content" not in await said_before(history(calls=False), **more)


@pytest.mark.parametrize("signature", [ALOUD, "google:c1:sig=="])
async def test_the_responses_api_never_takes_a_mark_for_something_encrypted(signature: str) -> None:
    assert await said_before(history(Thinking("so", signature)), "responses") == {
        "role": "assistant",
        "content": "I look.",
    }
