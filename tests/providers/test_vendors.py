"""Who can be asked, with which key, and what it costs."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gencode.agent.ports import Request
from gencode.core.budget import Price
from gencode.core.errors import UserMistake
from gencode.core.messages import (
    AssistantMessage,
    EndPart,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from gencode.providers.model_catalog import PRICES, PricedProvider, price_of
from gencode.providers.ollama import tool_model
from gencode.providers.openai import reasons
from gencode.providers.scripted import ScriptedProvider
from gencode.providers.vendors import VENDORS, ProviderFactory
from tests.contracts.provider import Play, parts_of, told
from tests.providers.dialects import DIALECTS
from tests.providers.fake_server import fake_server, streamed

BY_NAME = {vendor.name: vendor for vendor in VENDORS}


@pytest.mark.parametrize(
    ("environ", "usual"),
    [
        ({"ANTHROPIC_API_KEY": "k"}, ("anthropic/claude-sonnet-5", "ANTHROPIC_API_KEY is set")),
        ({"OPENAI_API_KEY": "k"}, ("openai/gpt-5.4-mini", "OPENAI_API_KEY is set")),
        (
            {"OPENAI_API_KEY": "k", "ANTHROPIC_API_KEY": "k"},
            ("anthropic/claude-sonnet-5", "ANTHROPIC_API_KEY is set"),
        ),
        ({"GEMINI_API_KEY": "k"}, ("offline", "GEMINI_API_KEY is set, but no model is named")),
        ({"ANTHROPIC_API_KEY": "  "}, ("offline", "")),
    ],
)
async def test_the_usual_model_follows_the_keys(environ: dict[str, str], usual: tuple[str, str]) -> None:
    assert await ProviderFactory({}, environ).usual() == usual


@pytest.mark.parametrize("name", ["anthropic", "openai", "gemini", "openrouter", "deepseek"])
def test_a_missing_key_is_named(name: str) -> None:
    vendor = BY_NAME[name]
    with pytest.raises(UserMistake, match=f"{name} needs a key: set {vendor.key}"):
        ProviderFactory({}, {}).makers()[name]("m")


@pytest.mark.parametrize(
    ("name", "environ"),
    [
        ("ollama", {}),
        ("lmstudio", {}),
        ("openai", {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}),
        ("anthropic", {"ANTHROPIC_API_KEY": "k"}),
    ],
)
def test_local_servers_and_own_addresses_need_no_key(name: str, environ: dict[str, str]) -> None:
    assert isinstance(ProviderFactory({}, environ).makers()[name]("m"), PricedProvider)


@pytest.mark.parametrize(
    ("vendor", "address", "thinks", "api"),
    [
        ("openai", "https://api.openai.com/v1", True, "responses"),
        ("openai", "https://api.openai.com/v1", False, "chat"),
        ("openai", "http://127.0.0.1:9/v1", True, "chat"),
        ("openai", "http://127.0.0.1:9/v1/responses/", False, "responses"),
        ("vllm", "http://127.0.0.1:9/v1/responses?a=1", False, "responses"),
        ("vllm", "http://127.0.0.1:8000/v1", True, "chat"),
    ],
)
def test_the_responses_api_is_for_models_that_think_at_openai_and_for_whoever_names_it(
    vendor: str, address: str, thinks: bool, api: str
) -> None:
    assert BY_NAME[vendor].api(address, thinks=thinks) == api


async def test_an_address_that_ends_in_an_api_is_asked_through_it() -> None:
    async with fake_server(streamed(*DIALECTS["responses"](Play(("hi",))))) as server:
        environ = {"OPENAI_BASE_URL": f"{server.url}/v1/responses"}
        assert told(await parts_of(ProviderFactory({}, environ).makers()["openai"]("m"))) == "hi"
        assert server.last.path == "/v1/responses"


async def test_deepseek_gets_its_thoughts_back() -> None:
    call = AssistantMessage("", (ToolCall("c1", "lookup", {}),), model="openai/gpt-4o")
    history = [UserMessage("Go."), call, ToolMessage((ToolResult("c1", "lookup", "row"),))]
    async with fake_server(streamed(*DIALECTS["chat"](Play(("hi",))))) as server:
        environ = {"DEEPSEEK_BASE_URL": server.url}
        provider = ProviderFactory({}, environ).makers()["deepseek"]("m")
        parts = [part async for part in provider.stream(Request("m", "", history, ()))]
        assert parts[0] == TextPart("hi")
        assert server.last.body["messages"][1]["reasoning_content"] == ""


@pytest.mark.parametrize(
    ("model", "thinks"),
    [
        ("o3-mini", True),
        ("gpt-5.4", True),
        ("openai/gpt-5", True),
        ("codex-mini-latest", True),
        ("gpt-4o", False),
        ("gpt-5-chat-latest", False),
        ("qwen3", False),
        ("olmo-2", False),
    ],
)
def test_models_of_openai_that_think_are_known_by_their_names(model: str, thinks: bool) -> None:
    assert reasons(model) is thinks


def test_every_word_before_a_model_is_explained() -> None:
    board = ProviderFactory({}, {"OPENAI_API_KEY": "k"})
    told = {name: board.about(name) for name in board.makers()}
    assert told["openai"] == "at https://api.openai.com/v1; OPENAI_API_KEY is set"
    assert told["ollama"] == "at http://127.0.0.1:11434/v1, without a key"
    assert "`local`" in told["local"] and "`providers`" in told["pydantic-ai"]


def test_a_dated_name_costs_what_its_model_costs_and_the_users_price_wins() -> None:
    assert price_of("anthropic/claude-haiku-4-5-20251001", {}) == PRICES["anthropic/claude-haiku-4-5"]
    assert price_of("openai/gpt-5-mini", {"openai/gpt-5-mini": Price(1, 2)}) == Price(1, 2)
    assert price_of("openai/of-tomorrow", {}) == Price()


@pytest.mark.parametrize(
    ("model", "reply"),
    [
        ("anthropic/claude-3-haiku-20240307", 4_096),
        ("anthropic/claude-3-5-haiku-latest", 8_192),
        ("anthropic/claude-opus-5", 32_000),
        ("openrouter/anthropic/claude-3-opus:beta", 4_096),
        ("pydantic-ai/bedrock:us.anthropic.claude-3-7-sonnet", 64_000),
        ("pydantic-ai/openai:gpt-4o-mini", 16_384),
        ("openai/gpt-4-turbo", 4_096),
        ("openai/gpt-5.4-mini", 128_000),
        ("ollama/qwen3:8b", None),
        ("vllm/o1ive", None),
        ("vllm/mine", 2_048),
    ],
)
def test_how_long_a_reply_can_be_is_known_by_the_name_of_the_model_or_said(
    model: str, reply: int | None
) -> None:
    assert ProviderFactory({"vllm/mine": Price(reply=2_048)}, {}).price(model).reply == reply


def test_cached_input_is_cheaper_and_an_unknown_price_is_unknown() -> None:
    usage = Usage(1_000_000, 100_000, 400_000)
    assert Price(2.0, 10.0, 0.2).of(usage) == pytest.approx(0.6 * 2 + 0.4 * 0.2 + 0.1 * 10)
    assert Price(input=2.0).of(usage) is None
    assert Price().of(usage) is None


@pytest.mark.parametrize(("price", "usd"), [(Price(2.0, 10.0), 12.0), (Price(), None)])
async def test_a_reply_carries_what_it_cost(price: Price, usd: float | None) -> None:
    turn = {"text": "hi", "usage": {"inputTokens": 1_000_000, "outputTokens": 1_000_000}}
    provider = PricedProvider(ScriptedProvider.of({"*": [turn]}), price)
    parts = [part async for part in provider.stream(Request("m", "", (), ()))]
    assert parts[-1] == EndPart("scripted", "end_turn", Usage(1_000_000, 1_000_000, 0, usd))


@asynccontextmanager
async def ollama(models: dict[str, list[str]], wait: bool = False) -> AsyncGenerator[int, None]:
    """A server that answers as Ollama does: its models, and what each can do."""

    hung_up = asyncio.Event()
    writers: list[asyncio.StreamWriter] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = int(head.partition("Content-Length: ")[2].partition("\r\n")[0])
        body = await reader.readexactly(length)
        if wait:
            await hung_up.wait()
        said: dict[str, Any] = {"models": [{"name": name} for name in models]}
        if "/api/show" in head:
            said = {"capabilities": models[json.loads(body)["model"]]}
        writer.write(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + json.dumps(said).encode())
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]
        hung_up.set()
        await asyncio.sleep(0)
        for writer in writers:
            writer.close()
            await writer.wait_closed()


async def test_the_first_local_model_that_can_call_tools_is_found() -> None:
    async with ollama({"embed:latest": ["embedding"], "qwen3:8b": ["completion", "tools"]}) as port:
        assert await tool_model(port) == "qwen3:8b"


async def test_a_local_server_without_such_a_model_or_that_is_slow_or_absent_is_passed_over() -> None:
    async with ollama({"embed:latest": ["embedding"]}) as port:
        assert await tool_model(port) is None
    async with ollama({"qwen3:8b": ["tools"]}, wait=True) as port:
        assert await tool_model(port) is None
    assert await tool_model(port) is None
