"""Agents that hold a slot and agents that wait for one."""

import asyncio
from collections.abc import AsyncGenerator

from gencode.agent.ports import Request
from gencode.core.messages import EndPart, Part, TextPart, UserMessage
from gencode.testing import says

ONE = {"max_agents": 1}
HOLD = says("done", delay_ms=600_000)
STOPPED = (
    "[Your last run was stopped: {why}. Calls that did not finish are marked as interrupted. "
    "Continue from there.]"
)


class Patient:
    """Whoever is told to hold works until it is let go; everybody else says at once what it has heard."""

    def __init__(self) -> None:
        self.let_go = asyncio.Event()
        self.asked: list[str] = []

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        words = [each.text for each in request.messages if isinstance(each, UserMessage)]
        self.asked.append(words[-1])
        if words[-1] == "hold":
            await self.let_go.wait()
        yield TextPart(" / ".join(words))
        yield EndPart("patient")
