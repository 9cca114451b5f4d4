"""The hub of all event streams: follows the journal, and encodes every event once for all clients.

Durable events are read from the journal, in the order of the commits, when the bus or the store says that
something was written, by whichever process. Passing events come from the bus, and from the watch over other
processes. A client that does not keep up is disconnected; it reconnects with the id of the last event it saw.
"""

import asyncio
import logging
import time
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Struct

from gencode.app import GenCode
from gencode.core.errors import CorruptFact, GenCodeError, StoreTrouble
from gencode.core.events import CommandEnded, Event, MessageAdded, TaskCreated, TaskEnded
from gencode.core.ids import stamp
from gencode.core.messages import AssistantMessage
from gencode.core.subsession_events import ALONE, Lineage, lineage_of, wire
from gencode.core.task import Task
from gencode.interfaces.http.listener import Framed, PeerConnection, framed
from gencode.interfaces.http.task_states import TaskState, TaskStates
from gencode.journal.global_log import LogEntry, LogPosition

SHORT = 240
"""The characters of a text in a brief stream."""
ALIVE = b":\n"
"""A comment, without the empty line that ends an event: some clients take that for an event without data."""
FIRST = b"retry: 1000\n"
"""How soon to reconnect: a line of the first event, for the same reason."""
ORIGIN = "0"
"""The id before the first event of all."""
_encode = msgspec.json.Encoder().encode


class Cursor(Struct, frozen=True):
    """A position in a stream: after event `seq` of `task`; before all events when there is no task."""

    task: str = ""
    seq: int = 0

    def __str__(self) -> str:
        return f"{self.task}:{self.seq}" if self.task else ORIGIN


def read_cursor(text: str) -> Cursor | None:
    """The position of an id; None when it is not an id of an event."""
    if text == ORIGIN:
        return Cursor()
    task, _, seq = text.partition(":")
    if len(task) != 8 or not seq.isdecimal() or len(seq) > 15:
        return None
    return Cursor(task, int(seq))


def frame(event: Event, of: Lineage, *, brief: bool) -> bytes:
    """An event as a frame; a durable one has an id, with which a client can reconnect."""
    told = wire(event, of)
    if brief:
        told = cast("dict[str, Any]", shortened(told))
    kind = str(told["type"]).encode()
    head = b"" if event.seq is None else b"id: " + f"{event.task}:{event.seq}".encode() + b"\n"
    return b"".join((head, b"event: ", kind, b"\ndata: ", _encode(told), b"\n\n"))


def notice(kind: str, told: Mapping[str, object], cursor: Cursor | None = None) -> bytes:
    """A frame about the stream or the server, not about a task."""
    head = b"" if cursor is None else f"id: {cursor}\n".encode()
    return b"".join((head, b"event: ", kind.encode(), b"\ndata: ", _encode({"type": kind, **told}), b"\n\n"))


def shortened(value: object) -> object:
    """The same value with long texts cut and without images."""
    match value:
        case str() if len(value) > SHORT:
            return f"{value[:SHORT]}…"
        case dict():
            entries = cast("dict[str, object]", value)
            return {name: shortened(each) for name, each in entries.items() if name != "images"}
        case list() | tuple():
            return [shortened(each) for each in cast("list[object]", value)]
        case _:
            return value


MOST_PLACES = 20_000


class TaskPlace(NamedTuple):
    """Where a task belongs. `here`: it, or an agent above it, is of the server's folder."""

    lineage: Lineage = ALONE
    here: bool = False


class TaskPlaces:
    """Knows where tasks belong, each looked up once."""

    def __init__(self, gen: GenCode) -> None:
        self._gen = gen
        self._cwd = str(gen.workspace.cwd)
        self._known: dict[str, TaskPlace] = {}

    async def of(self, event: Event) -> TaskPlace:
        """Where the task of an event belongs."""
        return await self._place(event.task, event.fact if isinstance(event.fact, TaskCreated) else None)

    async def is_here(self, task: str) -> bool:
        """Whether a task, or an agent above it, is of the server's folder."""
        return (await self._place(task)).here

    async def told(self, found: Iterable[LogEntry], *, everywhere: bool) -> list[tuple[Event, Lineage]]:
        """The readable ones of these events; without `everywhere`, those of the server's folder."""
        placed = [(event, await self.of(event)) for _, event in found if event is not None]
        return [(event, place.lineage) for event, place in placed if everywhere or place.here]

    async def _place(self, task: str, found: TaskCreated | Task | None = None) -> TaskPlace:
        if task in self._known:
            return self._known[task]
        if len(self._known) > MOST_PLACES:
            self._known.clear()
        with suppress(CorruptFact):
            found = found or await self._gen.history.task(task)
        if found is None:
            return TaskPlace()
        # An agent may work in a copy of the folder, so it is of the folder of the conversation above it.
        here = found.cwd == self._cwd or (found.parent is not None and await self.is_here(found.parent))
        self._known[task] = TaskPlace(lineage_of(found), here)
        return self._known[task]


log = logging.getLogger(__name__)

HELD_SECONDS = 0.1
"""How soon an event is read again that the bus has not announced yet."""
BATCH_SECONDS = 0.016
LONGEST_BATCH = 0.05
REST = 3
"""The pause after sending, as a multiple of the time it took: the more clients, the larger the batches."""
STATE_SECONDS = 0.1
"""The shortest time between two states of a task."""
ALIVE_SECONDS = 15.0
REACH_SECONDS = 5.0
REMEMBERED = 1000
MOST_HELD = 6
"""How often a read event may be held back until the bus has announced what came before it."""
MOST_KNOWN = 5000
MOST_WAITING = 2_000_000
"""The bytes that may wait for one client, plus one batch."""
MOST_CLIENTS = 500
ALIVE_FRAMED = framed(ALIVE)


class StreamItem:
    """Something to send, encoded at most once in each length: an event, or a whole frame."""

    __slots__ = ("_event", "_frames", "_of", "everybody", "here", "is_state", "task")

    def __init__(
        self,
        task: str,
        event: Event | None,
        of: Lineage = ALONE,
        *,
        made: bytes = b"",
        everybody: bool = False,
        is_state: bool = False,
        here: bool = True,
    ) -> None:
        self.task = task
        self.here = here
        """Whether it is also for clients that see the server's folder only."""
        self.is_state = is_state
        """Whether it is only for clients that want the states of tasks."""
        self.everybody = everybody
        """Whether it is also for the streams of single tasks."""
        self._event = event
        self._of = of
        self._frames = {True: made, False: made} if event is None else {}

    def frame(self, brief: bool) -> bytes:
        """The encoded event."""
        if brief not in self._frames and self._event is not None:
            self._frames[brief] = frame(self._event, self._of, brief=brief)
        return self._frames[brief]


class StreamClient:
    """One open stream: of one task, or of all; `brief` with long texts cut, `states` with those of tasks.

    Without `everywhere` only of the tasks of the server's folder.
    """

    def __init__(self, task: str, *, brief: bool, states: bool = False, everywhere: bool = True) -> None:
        self.task = task
        self.everywhere = everywhere
        self.brief = brief
        self.states = states
        self.dropped = asyncio.Event()
        """Set when the client is disconnected."""
        self.slow = False
        """Whether that was because it did not keep up."""
        self._wire: PeerConnection | None = None
        self._waiting: deque[bytes] = deque()
        self._size = 0
        self._news = asyncio.Event()

    def offer(self, news: Framed) -> None:
        """Send at once, or keep it for `more`; with too much waiting, the client is disconnected."""
        if self.slow:
            return  # it would go on after a gap
        if self._wire is not None:
            if self._wire.write(news):
                return
            self._wire = None  # what is new has to queue behind what waits
        if self._size > MOST_WAITING:
            self._waiting.clear()
            self.slow = True
            self.dropped.set()
            return
        self._waiting.append(news.plain)
        self._size += len(news.plain)
        self._news.set()

    async def more(self, wire: PeerConnection | None = None) -> bytes:
        """What waits for the client; when there is nothing, as soon as there is something that must wait.

        Until then what is new is written straight to the `wire`, for as long as its client reads it.
        """
        while not self._waiting:
            self._wire = wire
            self._news.clear()
            await self._news.wait()
        return self.rest()

    def rest(self) -> bytes:
        """What waits for the client at this moment."""
        self._wire = None
        found = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        return found


class Hub:
    """Follows the journal and sends events to all clients. `run` does so until it is cancelled."""

    def __init__(self, gen: GenCode) -> None:
        self._gen = gen
        self._held = 0
        self._cost = 0.0
        self._greeted = time.monotonic()
        self._global_log = gen.history.log
        self._changes = gen.history.changes
        self.places = TaskPlaces(gen)
        self.states = TaskStates(gen)
        self._clients: set[StreamClient] = set()
        self._pending: list[StreamItem] = []
        self._recent: deque[LogPosition] = deque(maxlen=REMEMBERED)
        self._told: dict[str, int] = {}
        self._announced: dict[str, int] = {}
        self._news = asyncio.Event()
        self._reading = asyncio.Lock()
        self.notable: asyncio.Queue[Event] = asyncio.Queue(1000)
        """Ends of tasks and commands, and final replies: what may continue a conversation."""
        self._missed = False

    @property
    def cursor(self) -> Cursor:
        """The id of the last event that was sent."""
        return cursor_of(self.mark)

    @property
    def mark(self) -> LogPosition | None:
        """The position of the last event that was sent."""
        return self._recent[-1] if self._recent else None

    @property
    def watched(self) -> bool:
        """Whether a stream of all tasks is open."""
        return any(not client.task for client in self._clients)

    def __len__(self) -> int:
        return len(self._clients)

    def note_missed(self) -> None:
        """Note that notable events may have been missed."""
        self._missed = True

    def take_missed(self) -> bool:
        """Whether notable events may have been missed since this was last asked."""
        missed, self._missed = self._missed, False
        return missed

    async def start(self) -> None:
        """Begin at the end of the journal."""
        last = await self._global_log.end()
        self._recent.clear()
        if last is not None:
            self._recent.append(last)

    async def run(self) -> None:
        """Send what is new until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._hear())
            group.create_task(self._watch())
            group.create_task(self._follow())
            group.create_task(self._tell_states())

    def join(
        self, task: str = "", *, brief: bool = False, states: bool = False, everywhere: bool = True
    ) -> StreamClient:
        """Add a client that gets everything after `mark`."""
        self._flush()
        client = StreamClient(task, brief=brief, states=states, everywhere=everywhere)
        self._clients.add(client)
        return client

    def leave(self, client: StreamClient) -> None:
        """Remove a client."""
        self._clients.discard(client)

    async def settle(self) -> None:
        """Send everything that is written by now."""
        while await self._read():
            pass
        self._flush()

    async def reach(self, place: int) -> bool:
        """Read up to a position that another server has already sent; whether that worked in time."""
        until = time.monotonic() + REACH_SECONDS
        while self.mark is None or self.mark.place < place:
            await self._read()
            if time.monotonic() > until:
                return False
            await asyncio.sleep(BATCH_SECONDS)
        return True

    def close(self) -> None:
        """Close all streams: the server shuts down."""
        self._flush()
        for client in self._clients:
            client.dropped.set()

    def say(self, kind: str, told: dict[str, object]) -> None:
        """Send a notice to the streams of all tasks."""
        self._pending.append(StreamItem("", None, made=notice(kind, told)))
        self._news.set()

    async def pass_on(self, event: Event) -> None:
        """Send a passing event of a task that another process runs."""
        await self._take(event)
        self._news.set()

    async def _hear(self) -> None:
        """Take in what happens in this process."""
        listener = self._gen.listen()
        try:
            async for event in listener:
                if event.seq is not None:
                    self._announced[event.task] = event.seq
                    self._news.set()
                # What was said before a message that is told already is part of that message.
                elif self._told.get(event.task, 0) <= self._announced.get(event.task, 0):
                    await self._take(event)
                    self._news.set()
                if isinstance(event.fact, CommandEnded):
                    self._note(event)
        finally:
            listener.close()

    async def _watch(self) -> None:
        """Notice what other processes write."""
        async for _ in self._changes.looks():
            self._news.set()

    async def _follow(self) -> None:
        """Read what was written, by whichever process, and send it in batches."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(HELD_SECONDS if self._held else ALIVE_SECONDS):
                    await self._news.wait()
            self._news.clear()
            self._cost = 0.0
            try:
                while await self._read():
                    self._flush()
            except GenCodeError as trouble:
                log.warning("the journal could not be followed: %s", trouble)
                await asyncio.sleep(1)
                self._news.set()
            self._flush()
            self._greet()
            await asyncio.sleep(min(max(BATCH_SECONDS, self._cost * REST), LONGEST_BATCH))

    def _greet(self) -> None:
        """Send a comment now and then, so that a broken connection is noticed."""
        now = time.monotonic()
        if now - self._greeted > ALIVE_SECONDS:
            self._greeted = now
            for client in self._clients:
                client.offer(ALIVE_FRAMED)

    async def _read(self) -> bool:
        """Read some events that were written since; whether there may be more."""
        async with self._reading:
            return await self._read_on()

    async def _read_on(self) -> bool:
        found = await self._global_log.after(self.mark)
        if found is None:
            await self._find_again()
            return True
        for _ in range(2 if found else 0):  # until what the bus told of them is heard
            await asyncio.sleep(0)
        for mark, event in found:
            if event is not None:
                if self._is_early(event):
                    return False
                await self._take(event)
                if self._gen.running.is_local(event.task):
                    self._told[event.task] = mark.seq
                self._note(event)
            self._recent.append(mark)
        self._forget()
        return len(found) > 1

    async def _take(self, event: Event) -> None:
        place = await self.places.of(event)
        self._pending.append(StreamItem(event.task, event, place.lineage, here=place.here))
        self.states.hear(event)

    async def _tell_states(self) -> None:
        """Send the states of tasks that have changed, to the clients that want them."""
        while True:
            await asyncio.sleep(STATE_SECONDS)
            if not any(client.states for client in self._clients):
                self.states.forget_changes()
                continue
            try:
                for state in await self.states.changed():
                    task, made = state.agent_id, state_frame(state)
                    here = await self.places.is_here(task)
                    self._pending.append(StreamItem(task, None, made=made, is_state=True, here=here))
                    self._news.set()
            except StoreTrouble as trouble:
                log.warning("the states of tasks could not be read: %s", trouble)

    def _is_early(self, event: Event) -> bool:
        """Whether an event of a task here was read before the bus has announced it."""
        here = self._gen.running.is_local(event.task)
        if not here or self._announced.get(event.task, 0) >= (event.seq or 0) or self._held >= MOST_HELD:
            self._held = 0
            return False
        self._held += 1
        return True

    def _forget(self) -> None:
        if len(self._announced) + len(self._told) > MOST_KNOWN:
            here = self._gen.running.is_local
            self._announced = {task: seq for task, seq in self._announced.items() if here(task)}
            self._told = {task: seq for task, seq in self._told.items() if here(task)}

    def _note(self, event: Event) -> None:
        match event.fact:
            case TaskEnded() | CommandEnded() | MessageAdded(AssistantMessage(calls=())):
                pass
            case _:
                return
        if self.notable.full():
            self.notable.get_nowait()
            self.note_missed()
        self.notable.put_nowait(event)

    async def _find_again(self) -> None:
        """Tasks were deleted, or the file rearranged: continue after the last sent event that is there."""
        while self._recent:
            mark = self._recent.pop()
            if (now := await self._global_log.mark(mark.task, mark.seq)) is not None:
                self._recent.append(now)
                return
        await self.start()
        made = notice("StreamReset", {"cursor": str(self.cursor)})
        self._pending.append(StreamItem("", None, made=made, everybody=True))

    def _flush(self) -> None:
        pieces, self._pending = self._pending, []
        if not pieces or not self._clients:
            return
        began = time.thread_time()
        for_all = [piece for piece in pieces if piece.everybody]
        by_task: defaultdict[str, list[StreamItem]] = defaultdict(list)
        for piece in pieces:
            if piece.task:
                by_task[piece.task].append(piece)
        made: dict[tuple[str, bool, bool, bool], Framed | None] = {}
        for client in self._clients:
            kind = (client.task, client.brief, client.states, client.everywhere)
            if kind not in made:
                own = [*by_task.get(client.task, ()), *for_all] if client.task else pieces
                wanted = [
                    each
                    for each in own
                    if (client.states or not each.is_state) and (client.everywhere or each.here)
                ]
                made[kind] = _together(wanted, client.brief)
            if (news := made[kind]) is not None:
                client.offer(news)
        self._cost += time.thread_time() - began


def state_frame(state: TaskState) -> bytes:
    """The state of a task as a frame of a stream."""
    return notice("TaskState", {"task": state.agent_id, "seq": None, "at": stamp(), "state": state})


def cursor_of(mark: LogPosition | None) -> Cursor:
    """A position as the id of an event."""
    return Cursor() if mark is None else Cursor(mark.task, mark.seq)


def _together(pieces: Sequence[StreamItem], brief: bool) -> Framed | None:
    return framed(b"".join([piece.frame(brief) for piece in pieces])) if pieces else None
