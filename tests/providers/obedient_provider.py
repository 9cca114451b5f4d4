"""A provider that does as it is told, and agents that ask it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

from gencode.agent.ports import Request
from gencode.core.errors import ProviderError
from gencode.core.messages import EndPart, Part, TextPart, UserMessage
from gencode.providers.request_queue import RequestQueue
from gencode.providers.retry import RetryingProvider, RetryPolicy

ENDS = 60.0
"""Whatever takes longer hangs."""
ASKED = Request("some-model", "", (UserMessage("go"),), ())


async def heard(provider: RetryingProvider) -> str:
    return "".join([part.text async for part in provider.stream(ASKED) if isinstance(part, TextPart)])


@dataclass
class Told:
    """A provider that does as `answers` says for each request: True answers it, False has had too many."""

    answers: Callable[[Request], bool]
    asked: list[str] = field(default_factory=list[str])

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        self.asked.append(request.agent)
        await asyncio.sleep(0.001)
        if not self.answers(request):
            raise ProviderError("m is busy", retryable=True, limited=True)
        yield TextPart("yes")
        yield EndPart("m")


async def outcome(provider: RetryingProvider, agent: str) -> str:
    """What an agent hears: the answer or the error."""
    request = Request("m", "", (UserMessage("go"),), (), agent=agent)
    try:
        return "".join([part.text async for part in provider.stream(request) if isinstance(part, TextPart)])
    except ProviderError as error:
        return str(error)


async def together(told: Told, queue: RequestQueue, policy: RetryPolicy, agents: int) -> list[str]:
    async with asyncio.timeout(ENDS):
        provider = RetryingProvider(told, queue, policy)
        return await asyncio.gather(*(outcome(provider, f"{n}") for n in range(agents)))
