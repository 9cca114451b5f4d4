"""The promises of the `Store` port. A test file of a store imports all of it and gives `open_store`."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gencode.core.errors import CorruptFact, Fenced, StoreTrouble, UserMistake
from gencode.core.events import (
    DurableFact,
    Event,
    MessageAdded,
    TaskCreated,
    TaskEnded,
    TaskQueued,
    TaskStarted,
    TextArrived,
)
from gencode.core.ids import clean_id, new_id
from gencode.core.messages import AssistantMessage, ToolCall, UserMessage
from gencode.core.status import EndReason, Status
from gencode.core.task import Task, replay
from gencode.journal.store import Lease, Store, TaskQuery
from tests.contracts.facts import chunks, lives


class OpenStore(Protocol):
    """Opens a new, empty store that is closed after the test."""

    def __call__(self, *, lease_seconds: float = 15.0, draw: Callable[[], str] = new_id) -> Awaitable[Store]:
        """The store."""
        ...


def said(text: str) -> MessageAdded:
    """A fact about something that was said."""
    return MessageAdded(UserMessage(text))


async def everything(store: Store, task: str) -> tuple[list[Event], Task | None]:
    """All that a store tells of a task."""
    return await store.events(task), await store.task(task)


async def test_a_new_task_has_a_proper_id_and_one_fact(open_store: OpenStore) -> None:
    store = await open_store()
    fact = TaskCreated(agent="Explore", prompt="find it", cwd="/work", parent="0a0a0a0a", call="call-1")
    lease = await store.create(fact, "me")
    events = await store.events(lease.task)
    assert clean_id(lease.task) == lease.task and len(lease.task) == 8
    assert [(event.task, event.seq, event.fact) for event in events] == [(lease.task, 1, fact)]
    assert (lease.owner, lease.state) == ("me", replay(events))
    assert await store.task(lease.task) == lease.state


async def test_an_id_that_is_taken_is_drawn_again(open_store: OpenStore) -> None:
    drawn = iter(["aaaaaaaa", "aaaaaaaa", "aaaaaaaa", "bbbbbbbb"])
    store = await open_store(draw=lambda: next(drawn))
    leases = [await store.create(TaskCreated(prompt=prompt), "me") for prompt in ("first", "second")]
    assert [(lease.task, lease.state.created.prompt) for lease in leases] == [
        ("aaaaaaaa", "first"),
        ("bbbbbbbb", "second"),
    ]


async def test_a_task_gets_the_id_it_is_named_by_if_that_is_free(open_store: OpenStore) -> None:
    store = await open_store(draw=lambda: "bbbbbbbb")
    leases = [await store.create(TaskCreated(prompt=each), "me", named="aaaaaaaa") for each in "12"]
    assert [(lease.task, lease.state.created.prompt) for lease in leases] == [
        ("aaaaaaaa", "1"),
        ("bbbbbbbb", "2"),
    ]


async def test_a_store_without_free_ids_says_so_and_does_not_hang(open_store: OpenStore) -> None:
    store = await open_store(draw=lambda: "aaaaaaaa")
    lease = await store.create(TaskCreated(), "me")
    with pytest.raises(StoreTrouble, match="No free task id"):
        await store.create(TaskCreated(), "me")
    assert await store.tasks(TaskQuery()) == [lease.state]


async def test_numbers_have_no_gaps_and_the_lease_follows(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(), "me")
    facts: list[DurableFact] = [TaskStarted(model="m"), said("one"), said("two"), said("three")]
    appended = [*await store.append(lease, facts[:1]), *await store.append(lease, facts[1:])]
    events = await store.events(lease.task)
    assert [event.seq for event in events] == [1, 2, 3, 4, 5]
    assert events[1:] == appended
    assert [event.fact for event in appended] == facts
    assert replay(events) == await store.task(lease.task) == lease.state


async def test_an_append_of_nothing_writes_nothing(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(), "me")
    assert await store.append(lease, []) == []
    assert len(await store.events(lease.task)) == 1


async def test_appends_at_once_with_one_lease_are_all_written(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(), "me")
    await asyncio.gather(*(store.append(lease, [said(f"{n}"), said(f"{n}")]) for n in range(20)))
    events, task = await everything(store, lease.task)
    assert [event.seq for event in events] == list(range(1, 42))
    assert [event.fact for event in events[1::2]] == [event.fact for event in events[2::2]]
    assert replay(events) == task == lease.state


async def test_facts_are_read_from_any_number_on(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(), "me")
    appended = await store.append(lease, [said("one"), said("two")])
    assert await store.events(lease.task, after=1) == appended
    assert await store.events(lease.task, after=2) == appended[1:]
    assert await store.events(lease.task, after=3) == []
    assert await store.events(lease.task, after=99) == []


async def test_a_task_that_is_not_there_has_no_facts(open_store: OpenStore) -> None:
    store = await open_store()
    assert await everything(store, "0badcafe") == ([], None)
    with pytest.raises(UserMistake, match="There is no task 0badcafe"):
        await store.take("0badcafe", "me")


@pytest.mark.parametrize(
    "facts",
    [
        [said("fine"), TaskCreated()],
        [TaskStarted(), TaskStarted()],
        [
            TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED),
            TaskEnded(Status.FAILED, reason=EndReason.FAILED),
        ],
        [said("fine"), TextArrived("passing")],
        [MessageAdded(AssistantMessage("", (ToolCall("1", "t", {"no": object()}),)))],
    ],
)
async def test_facts_that_cannot_stand_there_are_refused_as_a_whole(
    open_store: OpenStore, facts: list[Any]
) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(), "me")
    before = lease.state
    with pytest.raises(CorruptFact):
        await store.append(lease, facts)
    assert lease.state == before == await store.task(lease.task)
    assert len(await store.events(lease.task)) == 1


async def test_text_that_is_not_unicode_is_stored_with_marks(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(prompt="a\udc80b", cwd="/caf\udce9"), "me")
    [event] = await store.append(lease, [MessageAdded(AssistantMessage("\ud83d", stop="end\0"))])
    events, task = await everything(store, lease.task)
    assert event.fact == MessageAdded(AssistantMessage("?", stop="end\0"))
    assert events[1:] == [event]
    assert replay(events) == task == lease.state
    assert (lease.state.created.prompt, lease.state.cwd) == ("a?b", "/caf?")
    assert await store.tasks(TaskQuery(cwd="/caf\udce9")) == [task]


async def test_a_task_is_refused_while_another_owner_has_it(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(), "me")
    with pytest.raises(UserMistake, match=f"Task {lease.task} is running"):
        await store.take(lease.task, "you")
    assert len(await store.append(lease, [said("still mine")])) == 1


async def test_a_lease_that_ran_out_goes_to_the_next_and_the_old_one_is_fenced(open_store: OpenStore) -> None:
    store = await open_store(lease_seconds=0)
    old = await store.create(TaskCreated(), "old")
    await store.append(old, [said("before")])
    new = await store.take(old.task, "new")
    assert (new.owner, new.state, new.epoch > old.epoch) == ("new", old.state, True)
    with pytest.raises(Fenced):
        await store.append(old, [said("too late")])
    assert old.state == new.state == await store.task(old.task)
    await store.append(new, [said("after")])
    with pytest.raises(Fenced):
        await store.append(old, [said("too late"), said("again")])
    facts = [event.fact for event in await store.events(old.task)]
    assert facts == [TaskCreated(), said("before"), said("after")]


async def test_a_lease_that_ran_out_still_writes_while_nobody_took_the_task(open_store: OpenStore) -> None:
    store = await open_store(lease_seconds=0)
    lease = await store.create(TaskCreated(), "me")
    await store.append(lease, [said("slow")])
    assert await store.task(lease.task) == lease.state


async def test_renewing_keeps_the_leases_of_that_owner_only_and_tells_which_these_are(
    open_store: OpenStore,
) -> None:
    store = await open_store()
    mine = await store.create(TaskCreated(), "me")
    yours = await store.create(TaskCreated(), "you")
    await store.release(yours)
    assert [await store.renew(owner) for owner in ("me", "you")] == [{mine.task}, set()]
    with pytest.raises(UserMistake):
        await store.take(mine.task, "third")
    assert (await store.take(yours.task, "third")).owner == "third"


async def test_release_frees_at_once_and_ends_the_right_to_write(open_store: OpenStore) -> None:
    store = await open_store()
    old = await store.create(TaskCreated(), "old")
    await store.release(old)
    with pytest.raises(Fenced):
        await store.append(old, [said("released")])
    new = await store.take(old.task, "new")
    await store.release(old)
    await store.append(new, [said("mine now")])
    assert [event.fact for event in await store.events(old.task)] == [TaskCreated(), said("mine now")]


async def test_the_same_owner_may_take_again_and_the_first_lease_is_fenced(open_store: OpenStore) -> None:
    store = await open_store()
    first = await store.create(TaskCreated(), "me")
    second = await store.take(first.task, "me")
    with pytest.raises(Fenced):
        await store.append(first, [said("first")])
    await store.append(second, [said("second")])
    assert [event.fact for event in await store.events(first.task)] == [TaskCreated(), said("second")]


async def test_an_ended_task_can_be_taken_and_started_again(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(), "me")
    await store.append(
        lease, [TaskStarted(model="m"), TaskEnded(Status.FAILED, error="no", reason=EndReason.FAILED)]
    )
    await store.release(lease)
    again = await store.take(lease.task, "you")
    await store.append(
        again, [TaskStarted(), TaskEnded(Status.COMPLETED, result="yes", reason=EndReason.FINISHED)]
    )
    task = await store.task(lease.task)
    assert task == replay(await store.events(lease.task))
    assert task and (task.status, task.result, task.end.error) == (Status.COMPLETED, "yes", None)


async def test_a_task_that_waits_to_go_on_is_listed_as_pending(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await store.create(
        TaskCreated(), "me", [TaskStarted(), TaskEnded(Status.COMPLETED, "a", reason=EndReason.FINISHED)]
    )
    await store.append(lease, [TaskQueued("n"), said("more")])
    waits = await store.tasks(TaskQuery(statuses=(Status.PENDING,)))
    assert waits == [await store.task(lease.task)] == [replay(await store.events(lease.task))]
    assert (waits[0].status, waits[0].end.at, waits[0].result) == (Status.PENDING, None, "a")
    assert await store.tasks(TaskQuery(statuses=(Status.COMPLETED,))) == []


async def test_one_of_many_takers_at_once_wins(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(), "me")
    await store.release(lease)
    takes = (store.take(lease.task, f"owner {n}") for n in range(10))
    outcomes = await asyncio.gather(*takes, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes].count(Lease) == 1
    assert [isinstance(outcome, UserMistake) for outcome in outcomes].count(True) == 9


async def test_ids_are_found_by_their_beginning(open_store: OpenStore) -> None:
    drawn = iter(["9f3a1c2e", "9f000000", "9effffff", "a0000000"])
    store = await open_store(draw=lambda: next(drawn))
    for _ in range(4):
        await store.create(TaskCreated(), "me")
    assert await store.ids("9f") == ["9f000000", "9f3a1c2e"]
    assert await store.ids("9f3a1c2e") == ["9f3a1c2e"]
    assert await store.ids("9f3a1c2e0") == []
    assert await store.ids("") == ["9effffff", "9f000000", "9f3a1c2e", "a0000000"]
    assert await store.ids("%") == await store.ids("9F") == await store.ids("\udc80") == []


async def test_at_most_twenty_ids_are_offered(open_store: OpenStore) -> None:
    numbers = iter(range(25))
    store = await open_store(draw=lambda: f"{next(numbers):08x}")
    for _ in range(25):
        await store.create(TaskCreated(), "me")
    assert await store.ids("0") == [f"{n:08x}" for n in range(20)]


async def test_every_field_of_a_query_narrows_the_list(open_store: OpenStore) -> None:
    store = await open_store()
    talk = await store.create(TaskCreated(conversation=True, cwd="/a"), "me")
    done = await store.create(TaskCreated(parent=talk.task, cwd="/a"), "me")
    running = await store.create(TaskCreated(parent=talk.task, cwd="/b"), "me")
    lost = await store.create(TaskCreated(parent="0badcafe", cwd="/b"), "me")
    await store.append(done, [TaskStarted(), TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED)])
    await store.append(running, [TaskStarted()])
    await store.append(lost, [TaskEnded(Status.CANCELLED, reason=EndReason.STOPPED)])
    ended_at = done.state.end.at

    async def found(**wanted: Any) -> list[str]:
        tasks = await store.tasks(TaskQuery(**wanted))
        assert tasks == [await store.task(task.id) for task in tasks]
        return [task.id for task in tasks]

    assert await found() == [talk.task, done.task, running.task, lost.task]
    assert await found(parent=talk.task) == [done.task, running.task]
    assert await found(parent="0badcafe") == [lost.task]
    assert await found(cwd="/a") == [talk.task, done.task]
    assert await found(statuses=(Status.COMPLETED, Status.CANCELLED)) == [done.task, lost.task]
    assert await found(ended_after=ended_at) == [talk.task, running.task, lost.task]
    assert await found(ended_after=ended_at, statuses=(Status.CANCELLED,)) == [lost.task]
    assert await found(conversations=True) == [talk.task]
    assert await found(conversations=False, cwd="/b") == [running.task, lost.task]
    assert await found(limit=2) == [running.task, lost.task]
    assert await found(limit=1, cwd="/a") == [done.task]
    assert await found(limit=0) == await found(parent="ffffffff") == []


async def test_an_adopted_journal_folds_to_the_same_task_and_goes_on(open_store: OpenStore) -> None:
    here, there = await open_store(), await open_store()
    lease = await there.create(TaskCreated(prompt="travel", parent="0badcafe"), "there")
    await there.append(
        lease,
        [
            TaskStarted(model="m"),
            said("hello"),
            TaskEnded(Status.COMPLETED, "done", reason=EndReason.FINISHED),
        ],
    )
    await here.adopt(await there.events(lease.task))
    assert await everything(here, lease.task) == await everything(there, lease.task)
    assert await here.tasks(TaskQuery(parent="0badcafe")) == [lease.state]
    again = await here.take(lease.task, "here")
    await here.append(again, [TaskStarted()])
    events = await here.events(lease.task)
    assert [event.seq for event in events] == [1, 2, 3, 4, 5]
    assert await here.task(lease.task) == replay(events)


async def test_a_journal_whose_id_is_taken_is_not_adopted(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(prompt="mine"), "me")
    foreign = [Event(lease.task, 1, "2026-01-01T00:00:00.000000Z", TaskCreated(prompt="foreign"))]
    with pytest.raises(UserMistake, match=f"already a task {lease.task}"):
        await store.adopt(foreign)
    assert await store.tasks(TaskQuery()) == [lease.state]


@pytest.mark.parametrize(
    ("events", "error"),
    [
        ([], UserMistake),
        ([Event("not an id", 1, "2026-01-01T00:00:00.000000Z", TaskCreated())], UserMistake),
        ([Event("aaaaaaaa", 2, "2026-01-01T00:00:00.000000Z", TaskCreated())], CorruptFact),
        ([Event("aaaaaaaa", 1, "2026-01-01T00:00:00.000000Z", TaskStarted())], CorruptFact),
        ([Event("aaaaaaaa", 1, "2026-01-01T00:00:00.000000Z", TextArrived("x"))], UserMistake),
        ([Event("aaaaaaaa", 1, "yesterday", TaskCreated())], UserMistake),
        ([Event("aaaaaaaa", 1, "2026-01-01T00:00:00", TaskCreated())], UserMistake),
        (
            [
                Event("aaaaaaaa", 1, "2026-01-01T00:00:00.000000Z", TaskCreated()),
                Event("aaaaaaaa", 3, "2026-01-01T00:00:00.000000Z", TaskStarted()),
            ],
            CorruptFact,
        ),
    ],
)
async def test_a_journal_that_cannot_have_happened_is_not_adopted(
    open_store: OpenStore, events: list[Event], error: type[Exception]
) -> None:
    store = await open_store()
    with pytest.raises(error):
        await store.adopt(events)
    assert await store.tasks(TaskQuery()) == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), life=lives())
async def test_any_life_in_any_appends_is_the_replay_of_its_facts(
    open_store: OpenStore, data: st.DataObject, life: list[DurableFact]
) -> None:
    store = await open_store()
    first, *rest = life
    assert isinstance(first, TaskCreated)
    lease = await store.create(first, "me")
    for piece in data.draw(chunks(rest)):
        await store.append(lease, piece)
        assert await store.task(lease.task) == lease.state
    events = await store.events(lease.task)
    assert [event.fact for event in events] == life
    assert replay(events) == lease.state
    assert await store.tasks(TaskQuery()) == [lease.state]
    await store.close()  # a database has few connections, and the next example opens its own


async def test_a_parent_with_a_zero_character_is_stored(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(prompt="go", parent="\0"), "me")
    assert await store.task(lease.task) == lease.state
    assert (await store.take(lease.task, "me")).state.parent == "\0"


async def test_a_long_life_is_told_exactly(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(prompt="long"), "me")
    await store.append(lease, [TaskStarted(model="m", system="s")])
    for n in range(100):
        await store.append(lease, [MessageAdded(AssistantMessage(f"reply {n}")), said("go on")])
        assert await store.task(lease.task) == lease.state
    assert await store.task(lease.task) == replay(await store.events(lease.task))


async def test_the_last_facts_give_the_lease_back_in_the_same_breath(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(prompt="go"), "me")
    await store.append(
        lease, [TaskStarted(), TaskEnded(Status.COMPLETED, "done", reason=EndReason.FINISHED)], last=True
    )
    assert await store.owned() == []
    with pytest.raises(Fenced):
        await store.append(lease, [TaskStarted()])
    assert (await store.take(lease.task, "you")).state.status is Status.COMPLETED
