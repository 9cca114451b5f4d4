"""How hard a model is asked to think: each dialect's words for it, and what is said when they are refused."""

from typing import Any, get_args

import pytest

from gencode.agent.models import ModelRegistry
from gencode.agent.ports import Request
from gencode.core.errors import ProviderError
from gencode.core.messages import UserMessage
from gencode.core.spec import AgentSpec, Effort
from gencode.providers.anthropic import AnthropicProvider
from gencode.providers.pydantic_ai import PydanticAIProvider
from gencode.providers.request_queue import RequestQueue
from gencode.providers.retry import RetryingProvider
from gencode.providers.scripted import ScriptedProvider
from tests.contracts.provider import KEY, LOOKUP, Play
from tests.providers.dialects import DIALECTS, name_of, provider_at, seen
from tests.providers.fake_server import fake_server, in_json, reply, streamed


@pytest.fixture(params=list(DIALECTS))
def dialect(request: pytest.FixtureRequest) -> str:
    return request.param


def agent(effort: Effort | None) -> AgentSpec:
    return AgentSpec("a", "An agent.", effort=effort)


def asked(effort: Effort | None, **more: Any) -> Request:
    return Request("m", "", [UserMessage("Go.")], (LOOKUP,), effort=effort, **more)


def test_a_child_thinks_as_hard_as_its_sender_as_long_as_it_has_its_model() -> None:
    models = ModelRegistry({"acme": lambda _: ScriptedProvider.of({})}, {})
    parent = models.resolve("acme/large").for_agent(agent("high"))
    assert [models.resolve(asked, parent).effort for asked in ("", "inherit", "acme/small")] == [
        "high",
        "high",
        None,
    ]
    assert models.resolve("unknown", parent, from_file=True).effort == "high"
    assert (parent.for_agent(agent("low")).effort, parent.for_agent(agent(None)).effort) == ("low", "high")


WORDS = ("thinking", "output_config", "reasoning", "reasoning_effort", "include", "temperature", "max_tokens")


async def told(dialect: str, request: Request, model: str) -> dict[str, Any]:
    """The part of a request that is about thinking."""
    body = await seen(dialect, request, model)
    return {name: body[name] for name in WORDS if name in body}


@pytest.mark.parametrize("effort", get_args(Effort))
async def test_chat_and_responses_are_told_the_effort(effort: Effort) -> None:
    assert await told("chat", asked(effort), "some-model") == {"reasoning_effort": effort}
    assert await told("responses", asked(effort), "some-model") == {
        "reasoning": {"effort": effort},
        "include": ["reasoning.encrypted_content"],
    }


async def test_nothing_is_said_of_thinking_when_nobody_asked_for_it(dialect: str) -> None:
    limit = {"max_tokens": 32000} if dialect == "anthropic" else {}
    assert await told(dialect, asked(None), "some-model") == limit


@pytest.mark.parametrize(
    "model",
    ["claude-opus-4-6", "claude-sonnet-4-6-20260101", "claude-sonnet-5", "claude-next"],
)
async def test_models_that_decide_how_much_to_think_are_told_how_hard(model: str) -> None:
    assert await told("anthropic", asked("low", temperature=0.5), model) == {
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "low"},
        "max_tokens": 32000,
    }


@pytest.mark.parametrize(
    "model",
    [
        "claude-3-7-sonnet-latest",
        "claude-sonnet-4-20250514",
        "claude-opus-4-1",
        "claude-haiku-4-5",
        "claude-opus-4-5-20251101",
        "glm-5",
    ],
)
@pytest.mark.parametrize(("effort", "budget"), [("low", 4096), ("medium", 8192), ("high", 16384)])
async def test_other_models_get_a_budget_and_no_temperature(model: str, effort: Effort, budget: int) -> None:
    body = await told("anthropic", asked(effort, temperature=0.5), model)
    assert body.pop("max_tokens") > budget
    assert body == {"thinking": {"type": "enabled", "budget_tokens": budget}}


@pytest.mark.parametrize(("max_tokens", "budget"), [(32_000, 16384), (5000, 3976), (2048, 1024)])
async def test_a_budget_leaves_room_for_the_answer(max_tokens: int, budget: int) -> None:
    body = await told("anthropic", asked("high", max_tokens=max_tokens), "claude-haiku-4-5")
    assert body == {"thinking": {"type": "enabled", "budget_tokens": budget}, "max_tokens": max_tokens}


async def test_a_limit_too_small_to_think_in_is_told_before_anybody_is_asked() -> None:
    provider = AnthropicProvider("claude-haiku-4-5", key=KEY)
    with pytest.raises(ProviderError) as raised:
        await anext(provider.stream(asked("low", max_tokens=2047)))
    assert str(raised.value) == (
        "anthropic/claude-haiku-4-5 cannot think within 2047 tokens, it needs 2048; "
        "raise the limit or leave effort out of the agent's file."
    )


@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_a_temperature_is_kept_from_models_that_refuse_it_while_they_think(api: str) -> None:
    assert "temperature" not in await told(api, asked("low", temperature=0.5), "gpt-5.4")
    assert (await told(api, asked("low", temperature=0.5), "qwen3"))["temperature"] == 0.5


@pytest.mark.needs("pydantic-ai")
async def test_pydantic_ai_is_told_the_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    async with fake_server(streamed(*DIALECTS["chat"](Play(("hi",))))) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v1")
        provider = PydanticAIProvider("openai-chat:o3")
        assert len([part async for part in provider.stream(asked("low"))]) == 2
        assert server.last.body["reasoning_effort"] == "low"


PARAMETERS = {
    "anthropic": "thinking: enabled and budget_tokens",
    "chat": "reasoning_effort: high",
    "responses": "reasoning.effort: high",
}
UNKNOWN = [
    {"error": {"message": "Unrecognized request argument supplied: reasoning_effort", "code": None}},
    {
        "error": {
            "type": "invalid_request_error",
            "message": "This model does not support effort.",
        }
    },
    {"detail": [{"loc": ["body", "thinking"], "msg": "Extra inputs are not permitted", "type": "extra"}]},
]


@pytest.mark.parametrize("complaint", UNKNOWN)
@pytest.mark.parametrize("status", ["400 Bad Request", "422 Unprocessable"])
async def test_a_model_that_does_not_know_it_leads_to_a_way_out_and_is_not_asked_again(
    dialect: str, complaint: dict[str, Any], status: str
) -> None:
    async with fake_server(in_json(complaint, status)) as server:
        provider = RetryingProvider(provider_at(dialect, server.url), RequestQueue())
        with pytest.raises(ProviderError) as raised:
            await anext(provider.stream(asked("high")))
        assert len(server.asked) == 1
    assert str(raised.value).startswith(f"{name_of(dialect)} refused the request (HTTP {status[:3]}: ")
    assert str(raised.value).endswith(
        f"Thinking was requested with {PARAMETERS[dialect]}; if the model does not support that, "
        "remove effort from the agent's file."
    )


async def test_a_refusal_without_words_leads_to_it_too() -> None:
    async with fake_server(reply(b"", "400 Bad Request")) as server:
        with pytest.raises(ProviderError, match="with reasoning_effort: low;"):
            await anext(provider_at("chat", server.url).stream(asked("low")))


@pytest.mark.parametrize(
    ("effort", "words"),
    [
        (None, "reasoning_effort is not known"),
        ("low", "the prompt is too long"),
        ("low", "The reasoning_content in the history must be passed back"),
    ],
)
async def test_a_refusal_of_something_else_is_told_as_it_is(effort: Effort | None, words: str) -> None:
    async with fake_server(in_json({"error": {"message": words}}, "400 Bad Request")) as server:
        with pytest.raises(ProviderError) as raised:
            await anext(provider_at("chat", server.url).stream(asked(effort)))
    assert str(raised.value) == f"openai/some-model refused the request (HTTP 400: {words})."
