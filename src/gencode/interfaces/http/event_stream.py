"""An open event stream: first what the client missed, then what happens, without gaps or repetition."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable
from contextlib import suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gencode.core.errors import GenCodeError
from gencode.interfaces.http.guard import HttpRefusal, refusal
from gencode.interfaces.http.hub import (
    FIRST,
    MOST_CLIENTS,
    Cursor,
    Hub,
    StreamClient,
    cursor_of,
    frame,
    notice,
    state_frame,
)
from gencode.interfaces.http.listener import MOST_AT_ONCE, WIRE, PeerConnection
from gencode.journal.global_log import GlobalLog, LogEntry, LogPosition

log = logging.getLogger(__name__)

GOODBYE_SECONDS = 1.0
CHUNK = 500


class EventStream(Response):
    """The events of one task, or of all, after a position; then new ones until the client disconnects."""

    media_type = "text/event-stream"

    def __init__(
        self,
        hub: Hub,
        global_log: GlobalLog,
        after: Cursor | None,
        task: str,
        *,
        brief: bool,
        states: bool,
        everywhere: bool,
    ) -> None:
        """With `states` the state of a task follows its events.

        Without `everywhere` those of tasks of other folders are left out.
        """
        super().__init__(headers={"X-Accel-Buffering": "no"})
        del self.headers["content-length"]
        self._hub = hub
        self._global_log = global_log
        self._after = after
        self._task = task
        self._brief = brief
        self._states = states
        self._everywhere = everywhere

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the client disconnects, does not keep up, or the server shuts down."""
        if len(self._hub) >= MOST_CLIENTS:
            await HttpRefusal(503, "Too many streams are open.").response()(scope, receive, send)
            return
        try:
            await self._check_known()
        except GenCodeError as trouble:
            await refusal(trouble).response()(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        client = self._hub.join(
            self._task, brief=self._brief, states=self._states, everywhere=self._everywhere
        )
        upto = self._hub.mark  # what comes after that waits for the client
        wire: PeerConnection | None = scope.get("state", {}).get(WIRE)
        if wire is not None:
            wire.use_chunks(scope["http_version"] == "1.1")
        pump = asyncio.ensure_future(self._pump(client, send, upto, wire))
        ends = [asyncio.ensure_future(_gone(receive)), asyncio.ensure_future(client.dropped.wait()), pump]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._hub.leave(client)
            for each in ends:
                each.cancel()
            await asyncio.wait(ends)
        if pump.done() and not pump.cancelled() and (trouble := pump.exception()):
            log.warning("an event stream failed: %s", trouble)
        if not client.slow:
            await _say_goodbye(client, send)
        elif wire is not None:  # what waits for it would otherwise be kept until it reads or is gone
            wire.cut()
            await _gone(receive)

    async def _pump(
        self, client: StreamClient, send: Send, upto: LogPosition | None, wire: PeerConnection | None
    ) -> None:
        await _body(send, FIRST)
        async for frames in self._missed(upto):
            await _body(send, frames)
        while True:
            await _body(send, await client.more(wire))

    async def _missed(self, upto: LogPosition | None) -> AsyncGenerator[bytes, None]:
        """What the client has missed, and the id where that ends."""
        last = upto.place if upto else 0
        if self._task:
            seq = self._after.seq if self._after and self._after.task == self._task else 0
            while found := await self._global_log.of_task(self._task, seq, last, CHUNK):
                seq = found[-1].mark.seq
                yield await self._framed(found)
            yield await self._framed_states([self._task])
            return
        here = cursor_of(upto)
        mark = upto if self._after is None else await self._place(self._after)
        known = self._after is None or not self._after.task or mark is not None
        changed: dict[str, None] = {}
        while known and last and (mark is None or mark.place < last):
            found = await self._global_log.after(mark, last, CHUNK)
            if not found:
                known = found is not None
                break
            mark = found[-1].mark
            yield await self._framed(found)
            changed |= dict.fromkeys(each.mark.task for each in found)
        yield await self._framed_states(changed)
        yield notice("StreamOpened" if known else "StreamReset", {"cursor": str(here)}, here)

    async def _place(self, cursor: Cursor) -> LogPosition | None:
        return await self._global_log.mark(cursor.task, cursor.seq) if cursor.task else None

    async def _check_known(self) -> None:
        """Read at least as far as the client; another server may have been quicker."""
        mark = await self._place(self._after) if self._after else None
        if mark is not None and not await self._hub.reach(mark.place):
            raise HttpRefusal(503, "This server has not read that far yet. Try again.")

    async def _framed(self, found: list[LogEntry]) -> bytes:
        told = await self._hub.places.told(found, everywhere=self._everywhere)
        return b"".join([frame(event, of, brief=self._brief) for event, of in told])

    async def _framed_states(self, tasks: Iterable[str]) -> bytes:
        """The states of these tasks, if the client wants them."""
        if not self._everywhere:
            tasks = [each for each in tasks if await self._hub.places.is_here(each)]
        states = await self._hub.states.named(tasks) if self._states else ()
        return b"".join([state_frame(each) for each in states])


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _body(send: Send, frames: bytes) -> None:
    for at in range(0, len(frames), MOST_AT_ONCE):
        part = frames[at : at + MOST_AT_ONCE]
        await send({"type": "http.response.body", "body": part, "more_body": True})


async def _say_goodbye(client: StreamClient, send: Send) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(GOODBYE_SECONDS):
            await _body(send, client.rest())
            await send({"type": "http.response.body", "body": b"", "more_body": False})
