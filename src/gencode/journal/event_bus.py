"""The event bus: one bounded queue per listener, and a slow listener never slows the loop.

Durable events reach every listener: those that do not fit into a full queue are read from the journal later,
by number. Passing events are batched for 16 ms, text is joined, and they are dropped if a queue is full.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

from gencode.core.events import Event, PassingFact, TextArrived, ThinkingArrived
from gencode.core.ids import stamp

BATCH_SECONDS = 0.016
QUEUE_ROOM = 1024

ReadEvents = Callable[[str, int], Awaitable[list[Event]]]
"""How a listener reads a task's durable events after a number: `JournalReader.events`."""


class EventBus:
    """Publishes events to listeners; never waits for any of them."""

    def __init__(self, read: ReadEvents) -> None:
        self._read = read
        self._listeners: set[EventListener] = set()
        self._waiting: dict[str, list[PassingFact]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def listen(self, room: int = QUEUE_ROOM) -> "EventListener":
        """A new listener; it receives every event from now on until it is closed."""
        listener = EventListener(room, self._read, self._listeners.discard)
        self._listeners.add(listener)
        return listener

    @property
    def heard(self) -> bool:
        """Whether anybody listens."""
        return bool(self._listeners)

    def publish(self, events: Iterable[Event]) -> None:
        """Publish durable events, after earlier passing ones of the same task."""
        if not self._listeners:
            self._waiting.clear()
            return
        for event in events:
            self._flush(event.task)
            self._offer(event)

    def tell(self, task: str, fact: PassingFact) -> None:
        """Publish a passing event within 16 ms."""
        if not self._listeners:
            return
        facts = self._waiting.setdefault(task, [])
        match facts[-1] if facts else None, fact:
            case TextArrived(earlier), TextArrived(more):
                facts[-1] = TextArrived(earlier + more)
            case ThinkingArrived(earlier), ThinkingArrived(more):
                facts[-1] = ThinkingArrived(earlier + more)
            case _:
                facts.append(fact)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(BATCH_SECONDS, self._flush_all)

    def _flush_all(self) -> None:
        self._timer = None
        for task in tuple(self._waiting):
            self._flush(task)

    def _flush(self, task: str) -> None:
        at = ""
        for fact in self._waiting.pop(task, ()):
            at = at or stamp()
            self._offer(Event(task, None, at, fact))

    def _offer(self, event: Event) -> None:
        for listener in self._listeners:
            listener.offer(event)


class EventListener:
    """An async iterator over events with a bounded queue. Close it, or leave its `with`, to unsubscribe."""

    def __init__(self, room: int, read: ReadEvents, leave: Callable[["EventListener"], None]) -> None:
        self._room = room
        self._read = read
        self._leave = leave
        self._queue: deque[Event] = deque()
        self._wake = asyncio.Event()
        self._closed = False
        self._unheard: dict[str, int] = {}
        self._known: dict[str, int] = {}

    def offer(self, event: Event) -> None:
        """Queue an event, or remember that it must be read from the journal."""
        if self._closed:
            return
        if len(self._queue) >= self._room:
            if event.seq is not None:
                self._unheard.setdefault(event.task, event.seq)
        else:
            self._queue.append(event)
        self._wake.set()

    def close(self) -> None:
        """Deliver what is queued, then no more."""
        self._closed = True
        self._leave(self)
        self._wake.set()

    def __enter__(self) -> "EventListener":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> "EventListener":
        return self

    async def __anext__(self) -> Event:
        while True:
            event = self._queue.popleft() if self._queue else await self._catch_up()
            if event is not None:
                if event.seq is None:
                    return event
                if event.seq > self._known.get(event.task, 0):
                    self._known[event.task] = event.seq
                    return event
            elif self._closed and not self._queue:
                raise StopAsyncIteration
            elif not self._queue:
                self._wake.clear()
                await self._wake.wait()

    async def _catch_up(self) -> Event | None:
        """With the queue empty, read the events that did not fit into it; the first of them, or None."""
        if not self._unheard:
            return None
        task, first = self._unheard.popitem()
        missed = await self._read(task, first - 1)
        self._queue.extendleft(reversed(missed))
        return self._queue.popleft() if self._queue else None
