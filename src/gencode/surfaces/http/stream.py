"""One open event stream: first what was missed, then what happens, without a gap and nothing twice."""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gencode.surfaces.http.frames import FIRST, Cursor, frame, notice
from gencode.surfaces.http.guard import Refused
from gencode.surfaces.http.hub import MOST_CLIENTS, Client, Hub
from gencode.surfaces.http.journal import Journal, Place

log = logging.getLogger(__name__)

GOODBYE_SECONDS = 1.0
CHUNK = 500


class EventStream(Response):
    """The facts of one task, or of all, after one of them; then what is new, for ever."""

    media_type = "text/event-stream"

    def __init__(self, hub: Hub, journal: Journal, after: Cursor | None, task: str, *, brief: bool) -> None:
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._hub = hub
        self._journal = journal
        self._after = after
        self._task = task
        self._brief = brief

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the client is gone, does not keep up, or the server ends."""
        if len(self._hub) >= MOST_CLIENTS:
            await Refused(503, "Too many streams are open.").response()(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        client = self._hub.join(self._task, brief=self._brief)
        upto, here = self._hub.position, self._hub.cursor  # what comes after that waits for the client
        pump = asyncio.ensure_future(self._pump(client, send, upto, here))
        ends = [asyncio.ensure_future(_gone(receive)), asyncio.ensure_future(client.dropped.wait()), pump]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._hub.leave(client)
            for each in ends:
                each.cancel()
            await asyncio.wait(ends)
        if pump.done() and not pump.cancelled() and (trouble := pump.exception()):
            log.warning("an event stream broke off: %s", trouble)
        if not client.slow:  # one that is would keep us waiting here
            await _say_goodbye(client, send)

    async def _pump(self, client: Client, send: Send, upto: int, here: Cursor) -> None:
        await _body(send, FIRST)
        async for frames in self._missed(upto, here):
            await _body(send, frames)
        while True:
            await _body(send, await client.more())

    async def _missed(self, upto: int, here: Cursor) -> AsyncGenerator[bytes, None]:
        """What was written before the client joined and it has not seen, and where that leaves it."""
        if self._task:
            seq = self._after.seq if self._after and self._after.task == self._task else 0
            while found := await self._journal.of_task(self._task, seq, upto, CHUNK):
                seq = found[-1].event.seq or seq
                yield await self._framed(found)
            return
        place: int | None = upto
        if self._after is not None:
            place = await self._journal.place(self._after.task, self._after.seq) if self._after.task else 0
        if place is None or place > upto:
            yield notice("StreamReset", {"cursor": str(here)}, here)
            return
        while place < upto and (found := await self._journal.facts(place + 1, upto, CHUNK)):
            place = found[-1].place
            yield await self._framed(found)
        yield notice("StreamOpened", {"cursor": str(here)}, here)

    async def _framed(self, found: list[Place]) -> bytes:
        return b"".join(
            [frame(event, await self._journal.parent(event.task), brief=self._brief) for _, event in found]
        )


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _body(send: Send, frames: bytes) -> None:
    await send({"type": "http.response.body", "body": frames, "more_body": True})


async def _say_goodbye(client: Client, send: Send) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(GOODBYE_SECONDS):
            await _body(send, client.rest())
            await send({"type": "http.response.body", "body": b"", "more_body": False})
