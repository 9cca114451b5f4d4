"""Applies the rate limits of a shared database: a wrapper around a provider.

It is used inside `RetryingProvider`, which paces this process; a refusal is passed on to all other processes.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from gencode.agent.ports import Provider, Request
from gencode.core.errors import ProviderError
from gencode.core.messages import Part
from gencode.journal.store import SharedRateLimit

LONGEST = 180.0
"""A provider that asks for a longer pause is not waited for by anybody."""


class PacedProvider:
    """A provider whose requests are paced together with those of all machines that share a database."""

    def __init__(self, inner: Provider, pace: SharedRateLimit, model: str, rate: float | None = None) -> None:
        self._inner = inner
        self._pace = pace
        self._model = model
        self._rate = rate

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """The inner provider's reply."""
        await self._pace.turn(self._model, self._rate)
        try:
            async with aclosing(self._inner.stream(request)) as parts:
                async for part in parts:
                    yield part
        except ProviderError as error:
            pause = error.retry_after or 0.0
            if error.limited and error.retryable and pause <= LONGEST:
                await self._pace.refuse(self._model, pause)
            raise
