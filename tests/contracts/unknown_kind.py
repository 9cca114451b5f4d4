"""A fact of a kind that nobody here knows. The file of a store imports it and gives `write_fact`, too.

A newer version wrote it, or a hand. Only stores that keep JSON can hold one.
"""

from typing import Protocol

import pytest

from gencode.core.errors import CorruptFact
from gencode.core.events import TaskCreated, TaskEnded, TaskStarted, plain
from gencode.core.status import EndReason, Status
from gencode.core.task import Task, replay
from gencode.journal.store import Lease, Store, TaskQuery
from tests.contracts.store import OpenStore, everything, said

UNKNOWN = '{"kind":"TaskPraised","stars":5,"words":["très bien"]}'
WHY = "is of the kind 'TaskPraised', which this GenCode does not know; a newer one may read it."


class WriteFact(Protocol):
    """Puts other JSON in the place of a fact that is there, past the store."""

    async def __call__(self, store: Store, task: str, seq: int, body: str) -> None: ...


async def open_task(store: Store) -> Lease:
    lease = await store.create(TaskCreated(prompt="p"), "me")
    await store.append(lease, [TaskStarted(model="m"), said("a"), said("b")])
    await store.release(lease)
    return lease


async def test_a_task_is_shown_up_to_a_fact_of_an_unknown_kind(
    open_store: OpenStore, write_fact: WriteFact
) -> None:
    store = await open_store()
    other, lease = await open_task(store), await open_task(store)
    known = replay((await store.events(lease.task))[:2])
    await write_fact(store, lease.task, 3, UNKNOWN)
    shown = await store.task(lease.task)
    assert known and shown
    why = f"Fact 3 of task {lease.task} {WHY}"
    assert (shown.status, shown.end.reason, shown.end.error) == (Status.FAILED, EndReason.UNREADABLE, why)
    assert (shown.seq, shown.created.prompt, shown.run.model) == (
        known.seq,
        known.created.prompt,
        known.run.model,
    )
    assert await store.tasks(TaskQuery()) == [other.state, shown]


async def test_facts_before_one_of_an_unknown_kind_are_told_with_what_is_wrong(
    open_store: OpenStore, write_fact: WriteFact
) -> None:
    store = await open_store()
    lease = await open_task(store)
    events = await store.events(lease.task)
    await write_fact(store, lease.task, 3, UNKNOWN)
    with pytest.raises(CorruptFact) as corrupt:
        await store.events(lease.task)
    assert (str(corrupt.value), [*corrupt.value.before]) == (f"Fact 3 of task {lease.task} {WHY}", events[:2])
    assert await store.events(lease.task, 3) == events[3:]


async def test_a_task_with_a_fact_of_an_unknown_kind_is_not_taken_and_can_be_deleted(
    open_store: OpenStore, write_fact: WriteFact
) -> None:
    store = await open_store()
    lease = await open_task(store)
    await write_fact(store, lease.task, 3, UNKNOWN)
    for owner in ("me", "you"):
        with pytest.raises(CorruptFact, match="which this GenCode does not know"):
            await store.take(lease.task, owner)
    assert [each.owner for each in await store.owned()] == [""]
    assert await store.delete(lease.task) == [lease.task]
    assert await store.tasks(TaskQuery()) == []


async def test_an_export_has_facts_of_unknown_kinds_as_they_are(
    open_store: OpenStore, write_fact: WriteFact
) -> None:
    store = await open_store()
    lease = await open_task(store)
    lines = [plain(event) for event in await store.events(lease.task)]
    assert await store.lines(lease.task) == lines
    await write_fact(store, lease.task, 3, UNKNOWN)
    place = {"task": lease.task, "seq": 3, "at": lines[2]["at"]}
    unknown = {**place, "kind": "TaskPraised", "stars": 5, "words": ["très bien"]}
    assert await store.lines(lease.task) == [*lines[:2], unknown, *lines[3:]]


async def test_an_export_is_refused_where_a_fact_is_damaged(
    open_store: OpenStore, write_fact: WriteFact
) -> None:
    store = await open_store()
    lease = await open_task(store)
    for body in ("{", '{"kind":5}', '{"kind":"MessageAdded"}', "[]"):
        await write_fact(store, lease.task, 3, body)
        with pytest.raises(CorruptFact, match=f"Fact 3 of task {lease.task} cannot be read: "):
            await store.lines(lease.task)


async def test_a_task_that_had_ended_keeps_its_end_before_an_unknown_kind(
    open_store: OpenStore, write_fact: WriteFact
) -> None:
    store = await open_store()
    lease = await open_task(store)
    again = await store.take(lease.task, "me")
    ended = TaskEnded(Status.COMPLETED, "done", reason=EndReason.FINISHED)
    await store.append(again, [ended, TaskStarted(model="m")])
    await store.release(again)
    end: Task | None = replay((await store.events(lease.task))[:5])
    await write_fact(store, lease.task, 6, UNKNOWN)
    assert await store.task(lease.task) == end


async def test_one_unknown_kind_hides_nothing_from_who_follows_all_tasks(
    open_store: OpenStore, write_fact: WriteFact
) -> None:
    store = await open_store()
    lease, other = await open_task(store), await open_task(store)
    await write_fact(store, lease.task, 3, UNKNOWN)
    found = await store.global_log.after(None) or []
    places = [(each.mark.task, each.mark.seq, each.event is not None) for each in found]
    assert places == [
        *((lease.task, seq, seq != 3) for seq in range(1, 5)),
        *((other.task, seq, True) for seq in range(1, 5)),
    ]
    assert sum(usage.input_tokens for _, usage in await store.global_log.spent("", None)) == 0
    assert sum((await store.global_log.counts(None)).values()) == 2
    assert await everything(store, other.task) == (await store.events(other.task), other.state)
