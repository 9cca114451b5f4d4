"""An agent held in the middle of a call."""

import asyncio
from collections.abc import AsyncGenerator

from gencode.agent.ports import Request
from gencode.core.messages import EndPart, Part, TextPart

POINTS = ("before the model", "inside the stream", "inside a call")


class Held:
    """A model that reaches one of the three points and waits there; afterwards it answers."""

    def __init__(self, point: str) -> None:
        self.point = point
        self.there = asyncio.Event()
        self.free = asyncio.Event()
        self.turns = 0
        self.trouble: Exception | None = None
        """What it fails with when it is asked to report."""

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        from gencode.core.messages import CallPart, ToolCall

        self.turns += 1
        if self.turns == 1 and self.point == "inside the stream":
            yield TextPart("half a ")
            self.there.set()
            await self.free.wait()
        if self.turns == 1 and self.point == "inside a call":
            yield CallPart(ToolCall("c1", "hold", {}))
            yield EndPart("held")
            return
        if self.turns == 1 and self.point == "before the model":
            self.there.set()
            await self.free.wait()
        if not request.may_call and self.trouble is not None:
            raise self.trouble
        yield TextPart("this is what I have" if not request.may_call else "went on")
        yield EndPart("held")
