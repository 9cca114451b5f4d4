"""A conversation that a model cannot hold is known as such, in the words of those who say so."""

from typing import Any

import pytest

from gencode.core.errors import ProviderError
from gencode.providers.request_queue import RequestQueue
from gencode.providers.retry import RetryingProvider
from tests.contracts.provider import request
from tests.providers.dialects import DIALECTS, provider_at
from tests.providers.fake_server import fake_server, in_json

TOO_LONG: dict[str, dict[str, Any]] = {
    "openai": {
        "message": "This model's maximum context length is 128000 tokens. However, your messages resulted in "
        "130172 tokens. Please reduce the length of the messages.",
        "code": "context_length_exceeded",
    },
    "anthropic": {
        "type": "invalid_request_error",
        "message": "prompt is too long: 215301 tokens > 200000 maximum",
    },
    "gemini": {
        "status": "INVALID_ARGUMENT",
        "message": "The input token count (1048579) exceeds the maximum number of tokens allowed (1048576).",
    },
    "llama.cpp": {
        "type": "exceed_context_size_error",
        "message": "the request exceeds the available context size, try increasing it",
    },
}
OTHERS: dict[str, dict[str, Any]] = {
    "a parameter": {"message": "Unsupported parameter: 'max_tokens'.", "code": "unsupported_parameter"},
    "a picture": {"message": "Image is too large.", "code": "invalid_image"},
}


async def refused(dialect: str, error: dict[str, Any], status: str) -> ProviderError:
    async with fake_server(in_json({"error": error}, status)) as server:
        with pytest.raises(ProviderError) as raised:
            async for _ in RetryingProvider(provider_at(dialect, server.url), RequestQueue()).stream(
                request()
            ):
                pass
    return raised.value


@pytest.mark.parametrize("dialect", list(DIALECTS))
@pytest.mark.parametrize("whose", list(TOO_LONG))
async def test_a_refusal_of_what_is_too_long_says_so_through_all_wrappers(dialect: str, whose: str) -> None:
    error = await refused(dialect, TOO_LONG[whose], "400 Bad Request")
    assert (error.too_long, error.retryable) == (True, False)


@pytest.mark.parametrize("dialect", list(DIALECTS))
@pytest.mark.parametrize("what", list(OTHERS))
async def test_other_refusals_are_not_taken_for_it(dialect: str, what: str) -> None:
    error = await refused(dialect, OTHERS[what], "400 Bad Request")
    assert (error.too_long, error.retryable) == (False, False)


@pytest.mark.parametrize("dialect", list(DIALECTS))
async def test_a_refused_key_is_never_about_length(dialect: str) -> None:
    error = await refused(dialect, TOO_LONG["openai"], "401 Unauthorized")
    assert not error.too_long
