"""The event bus."""

import asyncio

from gencode.core.events import CallStarted, Event, MessageAdded, PassingFact, TextArrived
from gencode.core.messages import UserMessage
from gencode.journal.event_bus import EventBus, EventListener


def fact(number: int) -> Event:
    return Event("aaaa0000", number, "2026-01-01T00:00:00.000000Z", MessageAdded(UserMessage(str(number))))


async def nothing(task: str, after: int) -> list[Event]:
    raise AssertionError(f"nothing should be read, but {task} after {after} was")


async def hear(listener: EventListener, count: int) -> list[Event]:
    return [await asyncio.wait_for(anext(listener), 60) for _ in range(count)]


def passing(events: list[Event]) -> list[PassingFact]:
    return [event.fact for event in events if isinstance(event.fact, PassingFact)]


async def test_every_listener_hears_every_durable_event_in_order() -> None:
    bus = EventBus(nothing)
    listeners = [bus.listen(), bus.listen()]
    bus.publish([fact(1), fact(2)])
    assert [await hear(each, 2) for each in listeners] == [[fact(1), fact(2)]] * 2


async def test_text_is_joined_and_comes_before_the_durable_event_that_followed_it() -> None:
    bus = EventBus(nothing)
    listener = bus.listen()
    for piece in ("Hel", "lo"):
        bus.tell("aaaa0000", TextArrived(piece))
    bus.tell("aaaa0000", CallStarted("c1", "Read"))
    bus.publish([fact(1)])
    heard = await hear(listener, 3)
    assert passing(heard) == [TextArrived("Hello"), CallStarted("c1", "Read")]
    assert heard[2] == fact(1)


async def test_passing_facts_arrive_without_a_durable_one() -> None:
    bus = EventBus(nothing)
    listener = bus.listen()
    bus.tell("aaaa0000", TextArrived("soon"))
    assert passing(await hear(listener, 1)) == [TextArrived("soon")]


async def test_a_slow_listener_misses_no_durable_event_and_hears_none_twice() -> None:
    journal = [fact(number) for number in range(1, 101)]

    async def read(task: str, after: int) -> list[Event]:
        return [event for event in journal if event.task == task and (event.seq or 0) > after]

    bus = EventBus(read)
    listener = bus.listen(room=4)
    for event in journal:
        bus.tell("aaaa0000", TextArrived("x"))
        bus.publish([event])
    durable: list[Event] = []
    while len(durable) < 100:
        durable += [event for event in await hear(listener, 1) if event.seq is not None]
    assert durable == journal


async def test_a_closed_listener_hears_what_was_queued_and_then_ends() -> None:
    bus = EventBus(nothing)
    listener = bus.listen()
    bus.publish([fact(1)])
    listener.close()
    bus.publish([fact(2)])
    assert [event async for event in listener] == [fact(1)]
