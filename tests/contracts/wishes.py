"""More promises of the `Store` port: what can be asked of an owner, and what is deleted."""

import asyncio

import pytest

from gencode.core.errors import UserMistake
from gencode.core.events import Event, TaskCreated, TaskEnded, TaskStarted
from gencode.core.status import EndReason, Status
from gencode.journal.store import Ownership, Store, TaskQuery, TaskSignal
from tests.contracts.store import OpenStore, everything, said


async def test_a_stop_that_was_asked_for_reaches_the_owner_until_the_task_is_taken_anew(
    open_store: OpenStore,
) -> None:
    store = await open_store()
    mine, yours = await store.create(TaskCreated(), "me"), await store.create(TaskCreated(), "you")
    assert await store.send_signal(mine.task, TaskSignal.STOP) and await store.send_signal(
        mine.task, TaskSignal.STOP
    )
    assert (await store.signals("me"), await store.signals("you")) == ([(mine.task, TaskSignal.STOP)], [])
    again = await store.take(mine.task, "me")
    assert await store.signals("me") == []
    assert len(await store.append(again, [said("went on")])) == 1
    assert await store.send_signal(yours.task, TaskSignal.STOP)
    await store.release(yours)
    assert await store.signals("you") == []


async def test_the_last_wish_counts_but_a_stop_is_never_taken_back(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(), "me")
    for signal, heard in (
        (TaskSignal.BACKGROUND, TaskSignal.BACKGROUND),
        (TaskSignal.REPORT, TaskSignal.REPORT),
        (TaskSignal.BACKGROUND, TaskSignal.REPORT),
        (TaskSignal.INTERRUPT, TaskSignal.REPORT),
        (TaskSignal.STOP, TaskSignal.STOP),
        (TaskSignal.REPORT, TaskSignal.STOP),
        (TaskSignal.BACKGROUND, TaskSignal.STOP),
        (TaskSignal.INTERRUPT, TaskSignal.STOP),
    ):
        assert await store.send_signal(lease.task, signal)
        assert await store.signals("me") == [(lease.task, heard)]


async def test_an_interrupt_is_heard_once_for_each_time_it_was_asked_for(open_store: OpenStore) -> None:
    store = await open_store()
    mine, also = await store.create(TaskCreated(), "me"), await store.create(TaskCreated(), "me")
    yours = await store.create(TaskCreated(), "you")
    for _ in range(2):
        for lease in (mine, also, yours):
            assert await store.send_signal(lease.task, TaskSignal.INTERRUPT)
        heard = [sorted(await store.signals("me")), await store.signals("me")]
        assert heard == [sorted((lease.task, TaskSignal.INTERRUPT) for lease in (mine, also)), []]
    assert await store.signals("you") == [(yours.task, TaskSignal.INTERRUPT)]


async def test_a_budget_is_heard_once_and_takes_the_place_of_nothing(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(), "me")
    for wishes, heard in (
        ((TaskSignal.BUDGET,), TaskSignal.BUDGET),
        ((TaskSignal.BUDGET, TaskSignal.INTERRUPT), TaskSignal.INTERRUPT),
        ((TaskSignal.INTERRUPT, TaskSignal.BUDGET), TaskSignal.INTERRUPT),
        ((), None),
        ((TaskSignal.BACKGROUND, TaskSignal.BUDGET), TaskSignal.BACKGROUND),
        ((TaskSignal.REPORT, TaskSignal.BUDGET), TaskSignal.REPORT),
    ):
        for signal in wishes:
            assert await store.send_signal(lease.task, signal)
        assert await store.signals("me") == ([(lease.task, heard)] if heard else [])


async def test_an_interrupt_leaves_the_wishes_about_other_tasks_alone(open_store: OpenStore) -> None:
    store = await open_store()
    one, two = await store.create(TaskCreated(), "me"), await store.create(TaskCreated(), "me")
    await store.send_signal(one.task, TaskSignal.STOP)
    await store.send_signal(two.task, TaskSignal.INTERRUPT)
    assert await store.signals("me") == [(one.task, TaskSignal.STOP), (two.task, TaskSignal.INTERRUPT)]
    assert await store.signals("me") == [(one.task, TaskSignal.STOP)]


async def test_of_wishes_that_were_not_heard_yet_the_last_counts(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(), "me")
    for wishes, heard in (
        ((TaskSignal.INTERRUPT, TaskSignal.INTERRUPT), TaskSignal.INTERRUPT),
        ((TaskSignal.BACKGROUND, TaskSignal.INTERRUPT), TaskSignal.INTERRUPT),
        ((TaskSignal.INTERRUPT, TaskSignal.BACKGROUND), TaskSignal.BACKGROUND),
        ((TaskSignal.INTERRUPT, TaskSignal.REPORT), TaskSignal.REPORT),
        ((TaskSignal.INTERRUPT, TaskSignal.STOP), TaskSignal.STOP),
    ):
        for signal in wishes:
            assert await store.send_signal(lease.task, signal)
        assert await store.signals("me") == [(lease.task, heard)]


async def test_an_interrupt_that_nobody_heard_is_not_meant_for_the_next_owner(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(), "me")
    await store.send_signal(lease.task, TaskSignal.INTERRUPT)
    await store.release(lease)
    await store.take(lease.task, "you")
    assert await store.signals("you") == []


async def family(store: Store) -> dict[str, str]:
    """A conversation with two tasks, one of which has a task of its own, and a stranger: names and ids."""
    talk = await store.create(TaskCreated(conversation=True), "me")
    one = await store.create(TaskCreated(parent=talk.task), "me")
    two = await store.create(TaskCreated(parent=talk.task), "me")
    below = await store.create(TaskCreated(parent=one.task), "me")
    stranger = await store.create(TaskCreated(), "me")
    for lease in (talk, one, two, below, stranger):
        await store.append(
            lease, [TaskStarted(), TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED)], last=True
        )
    leases = {"talk": talk, "one": one, "two": two, "below": below, "stranger": stranger}
    return {name: lease.task for name, lease in leases.items()}


async def test_what_is_deleted_goes_with_everything_below_it_and_nothing_else(open_store: OpenStore) -> None:
    store = await open_store()
    ids = await family(store)
    assert await store.delete(ids["one"]) == [ids["one"], ids["below"]]
    assert [task.id for task in await store.tasks(TaskQuery())] == [ids["talk"], ids["two"], ids["stranger"]]
    assert await store.delete(ids["talk"]) == [ids["talk"], ids["two"]]
    assert [await everything(store, ids[name]) for name in ("talk", "one", "two", "below")] == [
        ([], None)
    ] * 4
    assert [task.id for task in await store.tasks(TaskQuery())] == [ids["stranger"]]
    with pytest.raises(UserMistake, match=f"There is no task {ids['talk']}"):
        await store.delete(ids["talk"])


async def test_nothing_is_deleted_while_anything_of_it_is_worked_on(open_store: OpenStore) -> None:
    store = await open_store()
    ids = await family(store)
    lease = await store.take(ids["below"], "me")
    with pytest.raises(UserMistake, match=rf"Nothing was deleted: .*{ids['below']}"):
        await store.delete(ids["talk"])
    assert len(await store.tasks(TaskQuery())) == 5
    await store.release(lease)
    assert len(await store.delete(ids["talk"])) == 4


async def test_a_circle_of_imported_tasks_can_be_deleted(open_store: OpenStore) -> None:
    store = await open_store()
    at = "2026-01-01T00:00:00.000000Z"
    for task, parent in (("aaaaaaaa", "bbbbbbbb"), ("bbbbbbbb", "aaaaaaaa")):
        await store.adopt([Event(task, 1, at, TaskCreated(parent=parent))])
    assert sorted(await store.delete("aaaaaaaa")) == ["aaaaaaaa", "bbbbbbbb"]
    assert await store.tasks(TaskQuery()) == []


async def test_nobody_can_be_asked_to_stop_what_nobody_runs(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(), "me")
    await store.release(lease)
    asked = [await store.send_signal(task, TaskSignal.STOP) for task in (lease.task, "0badcafe")]
    assert asked == [False, False]


async def test_who_owns_what_and_what_has_not_ended_though_nobody_owns_it(open_store: OpenStore) -> None:
    store = await open_store()
    mine, left = await store.create(TaskCreated(), "me"), await store.create(TaskCreated(), "me")
    ended = await store.create(
        TaskCreated(), "me", [TaskStarted(), TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED)]
    )
    await store.release(left)
    await store.release(ended)
    assert sorted(await store.owned(), key=lambda held: held.owner) == [
        Ownership(left.task, "", over=True),
        Ownership(mine.task, "me", over=False),
    ]


async def test_of_a_lease_that_has_run_out_it_is_known_for_how_long_nothing_was_heard(
    open_store: OpenStore,
) -> None:
    store = await open_store(lease_seconds=0.05)
    lease = await store.create(TaskCreated(), "me")
    await asyncio.sleep(0.1)
    (silent,) = await store.owned()
    await asyncio.sleep(0.1)
    (longer,) = await store.owned()
    assert (longer.task, longer.owner, longer.over) == (lease.task, "me", True)
    assert 0.09 < silent.silent < longer.silent - 0.09 < 60
    await store.release(lease)
    assert await store.owned() == [Ownership(lease.task, "", over=True)]
