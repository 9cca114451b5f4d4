"""Pictures of tools and of people, as each of OpenAI's APIs can be shown them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gencode import GenCode
from gencode.agent.ports import Request
from gencode.core.errors import ProviderError
from gencode.core.messages import (
    AssistantMessage,
    Image,
    Message,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
)
from gencode.interfaces.chat.chat_session import ChatSession
from gencode.providers.request_queue import RequestQueue
from gencode.providers.retry import RetryingProvider
from gencode.stores.memory import MemoryStore
from tests.contracts.provider import Play, request
from tests.pictures import PNG as DOT
from tests.providers.dialects import DIALECTS, chat, provider_at, seen
from tests.providers.fake_server import Exchange, events, fake_server, in_json, streamed

PNG, JPEG = Image("image/png", "aGVsbG8="), Image("image/jpeg", "d29ybGQ=")
HISTORY: list[Message] = [
    UserMessage("Go."),
    AssistantMessage("", tuple(ToolCall(each, "Read", {}) for each in ("c1", "c2", "c3"))),
    ToolMessage(
        (
            ToolResult("c1", "Read", "two pictures", images=(PNG, JPEG)),
            ToolResult("c2", "Read", "no picture"),
            ToolResult("c3", "Read", "", images=(PNG,)),
        )
    ),
    AssistantMessage("I see."),
    UserMessage("And?"),
]


async def sent(dialect: str) -> list[dict[str, Any]]:
    body = await seen(dialect, Request("m", "", HISTORY, ()))
    return body["messages" if dialect == "chat" else "input"]


def chat_picture(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


async def test_chat_is_shown_them_after_all_results_with_the_call_they_belong_to() -> None:
    """A tool's message may hold text only, and all results must follow their calls at once."""
    assert (await sent("chat"))[2:] == [
        {"role": "tool", "tool_call_id": "c1", "content": "two pictures"},
        {"role": "tool", "tool_call_id": "c2", "content": "no picture"},
        {"role": "tool", "tool_call_id": "c3", "content": "(no output)"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Shown by Read, call c1:"},
                chat_picture("data:image/png;base64,aGVsbG8="),
                chat_picture("data:image/jpeg;base64,d29ybGQ="),
                {"type": "text", "text": "Shown by Read, call c3:"},
                chat_picture("data:image/png;base64,aGVsbG8="),
            ],
        },
        {"role": "assistant", "content": "I see."},
        {"role": "user", "content": "And?"},
    ]


async def test_responses_are_shown_them_inside_the_result() -> None:
    png = {"type": "input_image", "image_url": "data:image/png;base64,aGVsbG8="}
    jpeg = {"type": "input_image", "image_url": "data:image/jpeg;base64,d29ybGQ="}
    assert [each["output"] for each in (await sent("responses")) if "output" in each] == [
        [{"type": "input_text", "text": "two pictures"}, png, jpeg],
        "no picture",
        [{"type": "input_text", "text": "(no output)"}, png],
    ]


SHOWS = [UserMessage("Look."), UserMessage("Here.", images=(PNG, JPEG))]


async def test_what_a_person_shows_goes_with_the_words_in_each_dialect() -> None:
    """One message of two, since both come from the same side."""
    urls = ("data:image/png;base64,aGVsbG8=", "data:image/jpeg;base64,d29ybGQ=")
    bodies = {each: await seen(each, Request("m", "", SHOWS, ())) for each in ("chat", "responses")}
    assert bodies["chat"]["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "Look.\n\nHere."}, *map(chat_picture, urls)]}
    ]
    shown = [{"type": "input_image", "image_url": url} for url in urls]
    assert bodies["responses"]["input"] == [
        {"role": "user", "content": [{"type": "input_text", "text": "Look.\n\nHere."}, *shown]}
    ]


NOT_TAKEN = {"error": {"message": "Could not process image", "type": "invalid_request_error"}}


@pytest.mark.parametrize("dialect", list(DIALECTS))
@pytest.mark.parametrize(
    ("status", "unfit"), [("400 Bad", True), ("404 None", True), ("422 Odd", True), ("401 No", False)]
)
async def test_a_refusal_of_the_request_itself_is_known(dialect: str, status: str, unfit: bool) -> None:
    async with fake_server(in_json(NOT_TAKEN, status)) as server:
        with pytest.raises(ProviderError) as raised:
            async for _ in RetryingProvider(provider_at(dialect, server.url), RequestQueue()).stream(
                request()
            ):
                pass
    assert (raised.value.unfit, raised.value.retryable) == (unfit, False)


async def test_a_refusal_inside_of_a_stream_is_known_too() -> None:
    async with fake_server(streamed(*events(NOT_TAKEN))) as server:
        with pytest.raises(ProviderError) as raised:
            async for _ in provider_at("chat", server.url).stream(request()):
                pass
    assert raised.value.unfit


async def test_a_server_that_cannot_read_a_picture_is_told_without_it_in_every_later_request(
    tmp_path: Path,
) -> None:
    """As one that reads no pictures at all, whatever they are."""
    refuse, answer = in_json(NOT_TAKEN, "400 Bad Request"), streamed(*chat(Play(("Hello.",))))

    async def act(exchange: Exchange) -> bool | None:
        return await (refuse if pictures_of(exchange.asked.body) else answer)(exchange)

    async with fake_server(act) as server:
        model = provider_at("chat", server.url)
        async with GenCode.open(tmp_path, model=model, store=MemoryStore()) as gen:
            session = ChatSession(gen)
            for text, images in (("look", (DOT,)), ("hello", ())):
                await session.send(text, images)
                await session.wait_until_idle()
            ended = (await gen.find(session.session or "")).status
            await session.close()
    assert ended == "completed"
    assert [len(pictures_of(each.body)) for each in server.asked] == [1, 0, 0]


async def test_a_model_that_takes_text_only_is_told_of_pictures_that_another_one_was_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fake_server(streamed(*chat(Play(("Hello.",))))) as server:
        monkeypatch.setenv("DEEPSEEK_BASE_URL", server.url)
        model = provider_at("chat", server.url)
        async with GenCode.open(tmp_path, model=model, store=MemoryStore()) as gen:
            session = ChatSession(gen)
            await session.send("look", (DOT,))
            await session.wait_until_idle()
            gen.models.use("deepseek/chat")
            await session.send("hello")
            await session.wait_until_idle()
            await session.close()
    assert [len(pictures_of(each.body)) for each in server.asked] == [1, 0]
    told = [each["content"] for each in server.last.body["messages"]]
    assert "look\n[1 image left out here: this model takes text only]" in told


def pictures_of(body: dict[str, Any]) -> Sequence[object]:
    said = [each["content"] for each in body["messages"] if isinstance(each["content"], list)]
    return [piece for pieces in said for piece in pieces if piece["type"] == "image_url"]
