"""Who hears of what over HTTP: the facts of all tasks, whichever process writes them (surfaces, server).

Durable facts are read from the journal, in the order of the commits: at once when the bus says that there is
something new, and ten times a second for those of other processes. Passing facts come from the bus alone.
What is new is encoded once and handed to everybody in one piece. Who does not keep up is let go of; it comes
back with the id of the last fact it saw and is told the rest.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from gencode.core.errors import GenCodeError
from gencode.core.events import Event, MessageAdded, TaskEnded
from gencode.core.messages import AssistantMessage
from gencode.runtime.bus import Bus
from gencode.surfaces.http.frames import ALIVE, Cursor, frame, notice
from gencode.surfaces.http.journal import Journal, Place

log = logging.getLogger(__name__)

LOOK_SECONDS = 0.1
BATCH_SECONDS = 0.016
SEND_SECONDS = 0.00015
"""What it takes to send something to one client: the more there are, the more is sent together."""
ALIVE_SECONDS = 15.0
REMEMBERED = 1000
MOST_HELD = 6
"""So many looks at the journal a fact may be held back for the bus to tell what came before it."""
MOST_KNOWN = 5000
MOST_WAITING = 2_000_000
"""So many bytes may wait for one client."""
MOST_CLIENTS = 500


class Piece(NamedTuple):
    """Something new: an event and the task that asked for its task, or a whole frame."""

    task: str
    event: Event | None
    parent: str | None = None
    made: bytes = b""


class Client:
    """One open stream: of one task, or of all; `brief` with long texts cut."""

    def __init__(self, task: str, *, brief: bool) -> None:
        self.task = task
        self.brief = brief
        self.dropped = asyncio.Event()
        """Set when the client is let go of."""
        self.slow = False
        """Whether that was because it did not keep up."""
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._news = asyncio.Event()

    def offer(self, frames: bytes) -> None:
        """Take something new in; too much of it, and the client is let go of."""
        self._waiting.append(frames)
        self._size += len(frames)
        if self._size > MOST_WAITING:
            self._waiting.clear()
            self.slow = True
            self.dropped.set()
        self._news.set()

    async def more(self) -> bytes:
        """Everything that waits; when there is nothing, as soon as there is something."""
        while not self._waiting:
            self._news.clear()
            await self._news.wait()
        return self.rest()

    def rest(self) -> bytes:
        """Everything that waits at this moment."""
        found = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        return found


class Hub:
    """Follows the journal and tells everybody. `run` does so until it is cancelled."""

    def __init__(self, bus: Bus, journal: Journal, is_here: Callable[[str], bool]) -> None:
        """`is_here` tells whether this process runs a task."""
        self._bus = bus
        self._is_here = is_here
        self._held = 0
        self._greeted = time.monotonic()
        self._journal = journal
        self._clients: set[Client] = set()
        self._pending: list[Piece] = []
        self._recent: deque[Cursor] = deque(maxlen=REMEMBERED)
        self._told: dict[str, int] = {}
        self._announced: dict[str, int] = {}
        self._news = asyncio.Event()
        self._reading = asyncio.Lock()
        self.position = 0
        """The place of the last fact that everybody was told of."""
        self.notable: asyncio.Queue[Event] = asyncio.Queue(1000)
        """The ends of tasks and what was said without calls, for whoever looks after conversations."""
        self.missed = False
        """Whether more of those came than could be kept."""

    @property
    def cursor(self) -> Cursor:
        """The place that everybody was told of, as an id."""
        return self._recent[-1] if self._recent else Cursor()

    @property
    def watched(self) -> bool:
        """Whether anybody hears of all tasks."""
        return any(not client.task for client in self._clients)

    def __len__(self) -> int:
        return len(self._clients)

    async def start(self) -> None:
        """Begin at the end of the journal."""
        last = await self._journal.last()
        self._recent.clear()
        if last is not None:
            self.position = last.place
            self._recent.append(Cursor(last.task, last.seq))

    async def run(self) -> None:
        """Tell everybody what is new."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._hear())
            group.create_task(self._follow())

    def join(self, task: str = "", *, brief: bool = False) -> Client:
        """A client that hears everything after `position`; it has to leave."""
        self._flush()
        client = Client(task, brief=brief)
        self._clients.add(client)
        return client

    def leave(self, client: Client) -> None:
        """Nobody listens there any more."""
        self._clients.discard(client)

    async def settle(self) -> None:
        """Tell everybody what is written by now."""
        while await self._read():
            pass
        self._flush()

    def close(self) -> None:
        """Let go of everybody: the server ends."""
        self._flush()
        for client in self._clients:
            client.dropped.set()

    def say(self, kind: str, told: dict[str, object]) -> None:
        """Tell everybody who hears of all tasks something that is no fact of a task."""
        self._pending.append(Piece("", None, made=notice(kind, told)))
        self._news.set()

    async def _hear(self) -> None:
        """Take in what happens in this process."""
        listener = self._bus.listen()
        try:
            async for event in listener:
                if event.seq is not None:
                    self._announced[event.task] = event.seq
                    self._news.set()
                # What was said before a message that is told already is part of that message.
                elif self._told.get(event.task, 0) <= self._announced.get(event.task, 0):
                    parent = await self._journal.parent(event.task)
                    self._pending.append(Piece(event.task, event, parent))
                    self._news.set()
        finally:
            listener.close()

    async def _follow(self) -> None:
        """Read what was written, by whichever process, and tell it together with the rest."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._news.wait()
            self._news.clear()
            try:
                while await self._read():
                    self._flush()
            except GenCodeError as trouble:
                log.warning("the journal could not be followed: %s", trouble)
                await asyncio.sleep(1)
            self._flush()
            self._greet()
            await asyncio.sleep(BATCH_SECONDS + len(self._clients) * SEND_SECONDS)

    def _greet(self) -> None:
        """Say something to everybody now and then, so that a connection that is gone is noticed."""
        now = time.monotonic()
        if now - self._greeted > ALIVE_SECONDS:
            self._greeted = now
            for client in self._clients:
                client.offer(ALIVE)

    async def _read(self) -> bool:
        """Take in some facts that were written since; whether there may be more."""
        async with self._reading:
            return await self._read_on()

    async def _read_on(self) -> bool:
        found = await self._journal.facts(self.position)
        if self._recent and (not found or _cursor(found[0]) != self.cursor):
            await self._find_again()
            return True
        fresh = found[1:] if self._recent else found
        for _ in range(2 if fresh else 0):  # until what the bus told of them is heard
            await asyncio.sleep(0)
        for place, event in fresh:
            if self._is_early(event):
                return False
            parent = await self._journal.parent(event.task)
            self._pending.append(Piece(event.task, event, parent))
            if self._is_here(event.task):
                self._told[event.task] = event.seq or 0
            self._note(event)
            self.position = place
            self._recent.append(Cursor(event.task, event.seq or 0))
        self._forget()
        return len(fresh) > 1

    def _is_early(self, event: Event) -> bool:
        """Whether a fact of a task here was read before the bus told of it, and of what came before it."""
        here = self._is_here(event.task)
        if not here or self._announced.get(event.task, 0) >= (event.seq or 0) or self._held >= MOST_HELD:
            self._held = 0
            return False
        self._held += 1
        return True

    def _forget(self) -> None:
        if len(self._announced) + len(self._told) > MOST_KNOWN:
            self._announced = {task: seq for task, seq in self._announced.items() if self._is_here(task)}
            self._told = {task: seq for task, seq in self._told.items() if self._is_here(task)}

    def _note(self, event: Event) -> None:
        match event.fact:
            case TaskEnded() | MessageAdded(AssistantMessage(calls=())):
                pass
            case _:
                return
        if self.notable.full():
            self.notable.get_nowait()
            self.missed = True
        self.notable.put_nowait(event)

    async def _find_again(self) -> None:
        """Tasks were deleted, or the file was rearranged: go on after the last told fact that is there."""
        while self._recent:
            cursor = self._recent[-1]
            place = await self._journal.place(cursor.task, cursor.seq)
            if place is not None:
                self.position = place
                return
            self._recent.pop()
        await self.start()
        self._pending.append(Piece("", None, made=notice("StreamReset", {"cursor": str(self.cursor)})))

    def _flush(self) -> None:
        pieces, self._pending = self._pending, []
        if not pieces or not self._clients:
            return
        made: dict[tuple[str, bool], bytes] = {}
        for client in self._clients:
            kind = (client.task, client.brief)
            if kind not in made:
                made[kind] = b"".join(_frames(pieces, *kind))
            if made[kind]:
                client.offer(made[kind])


def _cursor(place: Place) -> Cursor:
    return Cursor(place.event.task, place.event.seq or 0)


def _frames(pieces: Sequence[Piece], task: str, brief: bool) -> Iterable[bytes]:
    for piece in pieces:
        if piece.event is None:
            if not task or piece.made.startswith(b"event: StreamReset"):
                yield piece.made
        elif not task or piece.task == task:
            yield frame(piece.event, piece.parent, brief=brief)
