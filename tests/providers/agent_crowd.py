"""Many agents at one model that refuses."""

import asyncio
import random
from collections.abc import AsyncGenerator
from dataclasses import dataclass

from gencode.agent.ports import Request
from gencode.core.errors import ProviderError
from gencode.core.messages import EndPart, Part, TextPart
from tests.providers.limits import Limit

AGENTS = 100


@dataclass
class Crowd:
    """So many agents with so many turns each, so many of them at once.

    A request and a refusal are on their way for `rtt` seconds together; an answer takes `thinks` more, and a
    refusal `minds`. Some fail for other reasons. An agent sends them and sums up, or a `program` does.
    """

    turns: int = 1
    at_once: int = AGENTS
    rtt: float = 0.001
    thinks: float = 0.0
    minds: float = 0.0
    fails: float = 0.0
    agents: int = AGENTS
    program: bool = False


@dataclass
class Model:
    """A server that keeps to a limit and tells how long to wait, or does not."""

    limit: Limit
    crowd: Crowd
    tells: bool
    requests: int = 0

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        self.requests += 1
        await asyncio.sleep(self.crowd.rtt * random.uniform(0.4, 0.6))
        if random.random() < self.crowd.fails:
            raise ProviderError("m failed", retryable=True)
        wait = self.limit.wait(asyncio.get_running_loop().time())
        await asyncio.sleep(self.crowd.rtt * random.uniform(0.4, 0.6))
        if wait:
            await asyncio.sleep(self.crowd.minds)
            told = wait if self.tells else None
            raise ProviderError("m is busy", retryable=True, limited=True, retry_after=told)
        await asyncio.sleep(self.crowd.thinks * random.uniform(0.5, 1.5))
        yield TextPart("yes")
        self.limit.done()
        yield EndPart("m")
