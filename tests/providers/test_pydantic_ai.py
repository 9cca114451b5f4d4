"""Other providers through pydantic-ai: its OpenAI class over real HTTP, its function model for the rest."""

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest

from gencode.agent.ports import Request
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
    Thinking,
    ThinkingPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from gencode.providers.endpoint import HttpTimeouts
from gencode.providers.pydantic_ai import PydanticAIProvider
from tests.contracts.provider import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.provider import KEY, LOOKUP, Play, Stage, Staged, parts_of, request
from tests.providers.dialects import begun, chat, chat_call, chat_chunk
from tests.providers.fake_server import (
    Act,
    events,
    fake_server,
    hang_up,
    in_json,
    reply,
    say_nothing,
    streamed,
)

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models.function import AgentInfo

pytestmark = pytest.mark.needs("pydantic-ai")

HISTORY: tuple[Message, ...] = (
    UserMessage("one"),
    UserMessage("two", sender="system"),
    AssistantMessage(
        "I look.", (ToolCall("c1", "lookup", {"key": "ü"}), ToolCall("c2", "lookup", {}, broken="{"))
    ),
    ToolMessage((ToolResult("c1", "lookup", "row"), ToolResult("c2", "lookup", "no", error=True))),
    AssistantMessage(""),
    AssistantMessage("half an ans", partial=True),
    UserMessage("go on"),
)


def openai_at(url: str, timeouts: HttpTimeouts | None = None) -> PydanticAIProvider:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    model = OpenAIChatModel("some-model", provider=OpenAIProvider(base_url=f"{url}/v1", api_key=KEY))
    return PydanticAIProvider(model, timeouts=timeouts or HttpTimeouts())


@pytest.fixture
async def staged() -> AsyncIterator[Staged]:
    async with AsyncExitStack() as servers:

        async def set_stage(play: Play) -> Stage:
            act = streamed(*chat(play))
            if play.breaks or play.waits:
                act = streamed(*begun("chat", play), then=hang_up if play.breaks else say_nothing)
            server = await servers.enter_async_context(fake_server(act))
            return Stage(openai_at(server.url), "pydantic-ai/openai:some-model", server.hung_up.wait)

        yield set_stage


class Played:
    """A function model that says prepared pieces, and keeps what it was asked."""

    def __init__(self, *said: Any) -> None:
        from pydantic_ai.models.function import FunctionModel

        self.said = said
        self.heard: list[ModelMessage] = []
        self.info: AgentInfo | None = None
        self.provider = PydanticAIProvider(FunctionModel(stream_function=self._play, model_name="played"))

    async def _play(self, messages: "list[ModelMessage]", info: "AgentInfo") -> AsyncIterator[Any]:
        self.heard, self.info = messages, info
        for piece in self.said:
            yield piece


async def failure(act: Act, timeouts: HttpTimeouts | None = None) -> tuple[ProviderError, int]:
    """The error an answer leads to, and how often was asked."""
    async with fake_server(act) as server:
        with pytest.raises(ProviderError) as raised:
            await parts_of(openai_at(server.url, timeouts))
        return raised.value, len(server.asked)


async def test_a_request_is_told_whole_and_the_reply_counted() -> None:
    async with fake_server(streamed(*chat(Play(("Hi.",))))) as server:
        asked = Request("m", "You help.", HISTORY, (LOOKUP,), temperature=0.5, max_tokens=99)
        parts = [part async for part in openai_at(server.url).stream(asked)]
    body = server.last.body
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": '{"key":"ü"}'}},
        {"id": "c2", "type": "function", "function": {"name": "lookup", "arguments": "{}"}},
    ]
    assert [(each["role"], each.get("content")) for each in body["messages"]] == [
        ("system", "You help."),
        ("user", "one"),
        ("user", "two"),
        ("assistant", "I look."),
        ("tool", "row"),
        ("tool", '{"error":"no"}'),
        ("assistant", "half an ans"),
        ("user", "go on"),
    ]
    assert body["messages"][3]["tool_calls"] == calls
    assert [each["tool_call_id"] for each in body["messages"][4:6]] == ["c1", "c2"]
    assert [each["function"]["name"] for each in body["tools"]] == ["lookup"]
    assert (body["temperature"], body["stream"]) == (0.5, True)
    assert 99 in (body.get("max_tokens"), body.get("max_completion_tokens"))
    assert server.last.headers["authorization"] == f"Bearer {KEY}"
    assert parts == [TextPart("Hi."), EndPart("pydantic-ai/openai:mock-1", "end_turn", Usage(10, 4, 3))]


async def test_a_reply_that_was_not_counted_has_no_usage() -> None:
    said = events(chat_chunk({"content": "Hi."}), chat_chunk({}, "stop"), b"[DONE]")
    async with fake_server(streamed(*said)) as server:
        parts = await parts_of(openai_at(server.url))
    assert parts[-1] == EndPart("pydantic-ai/openai:mock-1", "end_turn", None)


async def test_a_model_is_found_by_its_name_and_takes_key_and_address_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with fake_server(streamed(*chat(Play(("Hi.",))))) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        parts = await parts_of(PydanticAIProvider("openai-chat:some-model"))
    assert parts[-1] == EndPart("pydantic-ai/openai-chat:mock-1", "end_turn", Usage(10, 4, 3))
    assert server.last.body["model"] == "some-model"


async def test_arguments_that_are_no_json_are_kept_as_they_are() -> None:
    said = [chat_chunk(chat_call(0, '{"key": ', "c1", "lookup")), chat_chunk({}, "tool_calls"), b"[DONE]"]
    async with fake_server(streamed(*events(*said))) as server:
        parts = await parts_of(openai_at(server.url))
    assert parts[0] == CallPart(ToolCall("c1", "lookup", {}, broken='{"key": '))


async def test_tools_of_the_past_are_declared_but_may_not_be_called() -> None:
    async with fake_server(streamed(*chat(Play(("Hi.",))))) as server:
        async for _ in openai_at(server.url).stream(Request("m", "", HISTORY, ())):
            pass
    body = server.last.body
    assert [each["function"]["name"] for each in body["tools"]] == ["lookup"]
    assert body["tool_choice"] == "none"


async def test_thinking_goes_back_with_its_signature() -> None:
    from pydantic_ai import messages as said
    from pydantic_ai.models.function import DeltaThinkingPart

    played = Played(
        {0: DeltaThinkingPart(content="Let me ")},
        {0: DeltaThinkingPart(content="see.")},
        {0: DeltaThinkingPart(signature="signed")},
        "Done.",
    )
    parts = await parts_of(played.provider)
    assert parts[:2] == [ThinkingPart("Let me "), ThinkingPart("see.")]
    mark = parts[2]
    assert isinstance(mark, ThinkingPart)
    assert (mark.text, mark.signature != "") == ("", True)
    answer = AssistantMessage(
        "Done.", thinking=(Thinking("Let me see.", mark.signature),), model="pydantic-ai/function:played"
    )
    await replies(played, UserMessage("Go."), answer, UserMessage("Next."))
    heard = played.heard[1]
    assert isinstance(heard, said.ModelResponse)
    assert list(heard.parts) == [
        said.ThinkingPart("Let me see.", signature="signed", provider_name="function"),
        said.TextPart("Done."),
    ]


async def test_thinking_of_others_and_of_a_half_reply_is_left_out() -> None:
    from pydantic_ai import messages as said

    played = Played("Done.")
    thought = (Thinking("secret", "signed"),)
    others = AssistantMessage("a", thinking=thought, model="anthropic/claude")
    half = AssistantMessage("b", thinking=thought, model="pydantic-ai/x:y", partial=True)
    await replies(played, UserMessage("Go."), others, half, UserMessage("Next."))
    heard = played.heard[1]
    assert isinstance(heard, said.ModelResponse)
    assert list(heard.parts) == [said.TextPart("a"), said.TextPart("b")]


async def test_what_a_vendor_adds_to_a_call_goes_back_with_it() -> None:
    from pydantic_ai import messages as said

    played = Played("Done.")
    mark = 'pydantic-ai:{"provider":"function","details":{"thought_signature":"s"},"call":"c1"}'
    answer = AssistantMessage(
        "",
        (ToolCall("c1", "lookup", {"key": "a"}),),
        (Thinking("", mark),),
        model="pydantic-ai/function:played",
    )
    await replies(
        played, UserMessage("Go."), answer, ToolMessage((ToolResult("c1", "lookup", "", error=True),))
    )
    heard, results = played.heard[1:]
    assert list(heard.parts) == [
        said.ToolCallPart(
            "lookup",
            {"key": "a"},
            "c1",
            provider_name="function",
            provider_details={"thought_signature": "s"},
        )
    ]
    (result,) = results.parts
    assert isinstance(result, said.ToolReturnPart)
    told = (result.tool_name, result.content, result.tool_call_id, result.outcome)
    assert told == ("lookup", "(no output)", "c1", "failed")


async def test_a_picture_in_a_result_is_shown() -> None:
    from pydantic_ai import messages as said

    played = Played("Done.")
    seen = ToolResult("c1", "Read", "a picture", images=(Image("image/png", "aGVsbG8="),))
    await replies(played, AssistantMessage("", (ToolCall("c1", "Read", {}),)), ToolMessage((seen,)))
    (result,) = played.heard[-1].parts
    assert isinstance(result, said.ToolReturnPart)
    assert result.content == ["a picture", said.BinaryContent(b"hello", media_type="image/png")]


async def test_what_a_person_shows_goes_with_their_words() -> None:
    from pydantic_ai import messages as said

    played = Played("Done.")
    await replies(played, UserMessage("What is it?", images=(Image("image/png", "aGVsbG8="),)))
    (asked,) = played.heard[-1].parts
    assert isinstance(asked, said.UserPromptPart)
    assert asked.content == ["What is it?", said.BinaryContent(b"hello", media_type="image/png")]


@pytest.mark.parametrize("signature", ["pydantic-ai:", "pydantic-ai:[1]", 'pydantic-ai:{"details": 1}', "{"])
async def test_a_mark_that_was_tampered_with_is_left_out(signature: str) -> None:
    from pydantic_ai import messages as said

    played = Played("Done.")
    answer = AssistantMessage("a", thinking=(Thinking("t", signature),), model="pydantic-ai/function:played")
    await replies(played, UserMessage("Go."), answer, UserMessage("Next."))
    assert list(played.heard[1].parts) == [said.ThinkingPart("t"), said.TextPart("a")]


async def test_the_system_prompt_and_the_tools_are_told() -> None:
    played = Played("Done.")
    await parts_of(played.provider)
    assert played.info is not None
    assert played.info.instructions == "You help."
    tools = [
        (each.name, each.description, each.parameters_json_schema) for each in played.info.function_tools
    ]
    assert tools == [(LOOKUP.name, LOOKUP.description, LOOKUP.parameters)]


async def test_a_conversation_that_starts_or_ends_with_the_model_is_made_whole() -> None:
    from pydantic_ai import messages as said

    played = Played("Done.")
    await replies(played, AssistantMessage("Hello."))
    kinds = [type(each) for each in played.heard]
    assert kinds == [said.ModelRequest, said.ModelResponse, said.ModelRequest]
    await replies(played)
    assert [type(each) for each in played.heard] == [said.ModelRequest]


@pytest.mark.parametrize(
    ("status", "retryable", "limited"),
    [
        ("400 Bad Request", False, False),
        ("401 Unauthorized", False, False),
        ("404 Not Found", False, False),
        ("429 Too Many Requests", True, True),
        ("500 Internal Server Error", True, False),
        ("503 Service Unavailable", True, True),
    ],
)
async def test_a_refusal_says_whether_waiting_helps_and_is_asked_once(
    status: str, retryable: bool, limited: bool
) -> None:
    error, times = await failure(in_json({"error": {"message": "so it is", "code": "x"}}, status))
    assert (error.retryable, error.limited, times) == (retryable, limited, 1)
    assert str(error).startswith("pydantic-ai/openai:some-model ")
    assert "so it is" in str(error)


async def test_the_wait_a_provider_asks_for_is_known() -> None:
    error, _ = await failure(in_json({"error": {"message": "slow"}}, "429 Too Many", retry_after="7"))
    assert (error.retry_after, error.limited) == (7.0, True)


async def test_a_quota_that_is_used_up_is_not_asked_again() -> None:
    spent = {"error": {"message": "spent", "code": "insufficient_quota", "type": "insufficient_quota"}}
    error, _ = await failure(in_json(spent, "429 Too Many Requests"))
    assert (error.retryable, "spent" in str(error)) == (False, True)


@pytest.mark.parametrize(
    "act",
    [
        reply(b"<html>hello</html>", kind="text/html"),
        reply(b"{]", kind="application/json"),
        reply(b"", kind="text/event-stream"),
        streamed(*events(b"{not json")),
        streamed(*events({"error": {"message": "boom", "code": "server_error"}})),
        hang_up,
    ],
    ids=["page", "garbage", "nothing", "garbage event", "error event", "hung up"],
)
async def test_a_bad_answer_is_an_error_that_names_the_model(act: Act) -> None:
    error, times = await failure(act)
    assert str(error).startswith("pydantic-ai/openai:some-model ")
    assert times == 1


async def test_a_provider_that_never_answers_is_given_up() -> None:
    error, _ = await failure(say_nothing, HttpTimeouts(first_byte=0.2, between_bytes=0.2))
    assert error.retryable
    assert str(error).startswith("pydantic-ai/openai:some-model ")


async def test_a_server_that_is_not_there_is_an_error_that_may_pass() -> None:
    async with fake_server(hang_up) as server:
        url = server.url
    with pytest.raises(ProviderError) as raised:
        await parts_of(openai_at(url))
    assert raised.value.retryable


async def test_a_key_that_a_server_repeats_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_server(in_json({"error": {"message": f"bad {KEY}"}}, "401 Unauthorized")) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        with pytest.raises(ProviderError) as raised:
            await parts_of(PydanticAIProvider("openai-chat:some-model"))
    assert "bad [key]" in str(raised.value)


@pytest.mark.parametrize("name", ["nobody:model", "openai-chat:some-model"])
async def test_an_unknown_provider_or_a_missing_key_is_told_in_a_sentence(name: str) -> None:
    with pytest.raises(ProviderError) as raised:
        await parts_of(PydanticAIProvider(name))
    assert str(raised.value).startswith(f"pydantic-ai/{name} cannot be used: ")
    assert not raised.value.retryable


@pytest.mark.parametrize("name", ["", "mistral", "mistral:", ":large"])
def test_a_name_without_provider_and_model_is_the_users_mistake(name: str) -> None:
    with pytest.raises(UserMistake, match="write pydantic-ai/PROVIDER:MODEL"):
        PydanticAIProvider(name)


def test_a_missing_package_is_told_with_its_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    with pytest.raises(UserMistake, match=re.escape(installing("providers"))):
        PydanticAIProvider("mistral:mistral-large-latest")


def test_nothing_heavy_is_imported_before_the_first_request() -> None:
    code = (
        "import sys; from gencode.providers.pydantic_ai import PydanticAIProvider as P; P('mistral:x');"
        "print(sorted({'pydantic', 'pydantic_ai', 'httpx2', 'openai'} & set(sys.modules)))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


async def replies(played: Played, *messages: Message) -> list[Part]:
    """What a model says to a conversation."""
    asked = request()
    return [
        part
        async for part in played.provider.stream(Request(asked.model, asked.system, messages, asked.tools))
    ]
