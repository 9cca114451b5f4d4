"""More promises of the `Store` port: the facts of all tasks in one order, and lists a page at a time."""

import asyncio
from itertools import pairwise
from typing import Any

from gencode.core.events import MessageAdded, TaskCreated, TaskEnded, TaskStarted
from gencode.core.messages import AssistantMessage, Usage, UserMessage
from gencode.core.status import EndReason, Status
from gencode.journal.global_log import LogEntry, LogPosition
from gencode.journal.store import Store, TaskQuery
from tests.contracts.store import OpenStore, said


def ids(facts: list[LogEntry] | None) -> list[tuple[str, int]]:
    """Which facts these are; each can be read."""
    assert facts is not None and all(fact.event is not None for fact in facts)
    return [(fact.mark.task, fact.mark.seq) for fact in facts]


async def mark_of(store: Store, task: str, seq: int) -> LogPosition:
    mark = await store.global_log.mark(task, seq)
    assert mark is not None
    return mark


async def whole(store: Store) -> list[LogEntry]:
    facts = await store.global_log.after(None)
    assert facts is not None
    return facts


async def test_the_facts_of_all_tasks_stand_in_the_order_of_the_commits(open_store: OpenStore) -> None:
    store = await open_store()
    one = await store.create(TaskCreated(), "me", [TaskStarted()])
    other = await store.create(TaskCreated(), "you")
    await store.append(one, [said("a"), said("b")])
    await store.append(other, [said("c")])
    facts = await whole(store)
    assert ids(facts) == [
        *((one.task, 1), (one.task, 2), (other.task, 1), (one.task, 3), (one.task, 4), (other.task, 2))
    ]
    assert all(a.mark.place < b.mark.place for a, b in pairwise(facts))
    assert [fact.event for fact in facts if fact.mark.task == one.task] == await store.events(one.task)
    assert await store.global_log.end() == facts[-1].mark
    assert [await store.global_log.mark(*fact.mark[1:]) for fact in facts] == [fact.mark for fact in facts]


async def test_a_reader_goes_on_after_any_fact_up_to_any_place(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(), "me")
    for number in range(6):
        await store.append(lease, [said(f"{number}")])
    facts = await whole(store)
    for at, fact in enumerate(facts):
        assert await store.global_log.after(fact.mark) == facts[at + 1 :]
        assert await store.global_log.after(fact.mark, most=2) == facts[at + 1 : at + 3]
        assert await store.global_log.after(fact.mark, facts[4].mark.place) == facts[at + 1 : 5]
    assert await store.global_log.of_task(lease.task, 2, facts[4].mark.place) == facts[2:5]
    assert await store.global_log.of_task(lease.task, 2, most=2) == facts[2:4]
    assert await store.global_log.of_task("0badcafe", 0) == []
    assert await store.global_log.before(lease.task, 4, 2) == facts[1:3]
    assert await store.global_log.before(lease.task, 1, 2) == []


async def test_an_empty_store_has_no_end(open_store: OpenStore) -> None:
    store = await open_store()
    assert (await store.global_log.end(), await store.global_log.after(None)) == (None, [])
    assert await store.global_log.mark("0badcafe", 1) is None


async def test_many_writers_at_once_are_followed_without_a_gap(open_store: OpenStore) -> None:
    store = await open_store()
    leases = [await store.create(TaskCreated(), "me") for _ in range(8)]
    done = asyncio.Event()
    heard: list[LogEntry] = []

    async def write(number: int) -> None:
        for _ in range(10):
            await store.append(leases[number], [said("x"), said("y")])

    async def follow() -> None:
        mark: LogPosition | None = None
        last = False
        while not last:
            last = done.is_set()
            facts = await store.global_log.after(mark, most=7)
            assert facts is not None
            heard.extend(facts)
            mark, last = (facts[-1].mark, False) if facts else (mark, last)
            await asyncio.sleep(0)

    following = asyncio.create_task(follow())
    await asyncio.gather(*(write(number) for number in range(8)))
    done.set()
    await following
    assert heard == await whole(store)
    for lease in leases:
        assert [fact.mark.seq for fact in heard if fact.mark.task == lease.task] == list(range(1, 22))


async def test_what_is_deleted_leaves_the_others_in_their_order(open_store: OpenStore) -> None:
    store = await open_store()
    kept = await store.create(TaskCreated(), "me")
    gone = await store.create(TaskCreated(), "me")
    await store.append(kept, [said("kept")])
    await store.append(gone, [said("gone")])
    mark = await mark_of(store, gone.task, 2)
    for lease in (kept, gone):
        await store.release(lease)
    await store.delete(gone.task)
    assert ids(await whole(store)) == [(kept.task, 1), (kept.task, 2)]
    assert await store.global_log.mark(gone.task, 2) is None
    again = await store.take(kept.task, "me")
    await store.append(again, [said("new")])
    assert ids(await store.global_log.after(await mark_of(store, kept.task, 2))) == [(kept.task, 3)]
    facts = await store.global_log.after(mark)
    assert facts is None or ids(facts) == [(kept.task, 3)]


async def test_tasks_are_listed_a_page_at_a_time(open_store: OpenStore) -> None:
    store = await open_store()
    talk = await store.create(TaskCreated(agent="main", conversation=True), "me")
    leases = [await store.create(TaskCreated(agent="Explore", parent=talk.task), "me") for _ in range(5)]

    async def found(**wanted: Any) -> list[str]:
        return [task.id for task in await store.tasks(TaskQuery(**wanted))]

    every = [talk.task, *(lease.task for lease in leases)]
    assert await found(before=every[3], limit=2) == every[1:3]
    assert await found(before=every[0]) == await found(before="0badcafe") == []
    assert await found(roots=True) == [talk.task]
    below = await store.create(TaskCreated(parent=every[2]), "me")
    assert await found(parents=(every[2], talk.task, "0badcafe")) == [*every[1:], below.task]
    assert await found(parents=(every[3],)) == []
    assert await found(agent="explore", limit=1) == every[-1:]
    assert await found(agent="Plan") == []


async def test_who_was_written_to_and_is_at_rest_is_found(open_store: OpenStore) -> None:
    store = await open_store()
    rests, works, knows = [await store.create(TaskCreated(conversation=True), "me") for _ in range(3)]
    for lease in (rests, works, knows):
        await store.post(lease.task, "news", "user")
    await store.append(knows, [MessageAdded(UserMessage("news", mail=1))])
    for lease in (rests, knows):
        await store.release(lease)
    found = await store.tasks(TaskQuery(unheard=True, conversations=True))
    assert [task.id for task in found] == [rests.task]


async def test_what_was_spent_is_told_by_minutes_and_tasks_are_counted(open_store: OpenStore) -> None:
    store = await open_store()
    for cwd, usd in (("/a", 0.5), ("/a", None), ("/b", None)):
        lease = await store.create(TaskCreated(cwd=cwd), "me", [TaskStarted()])
        text = "a zero \0 and \\u0000, and \\\0"
        used = Usage(10, 2, 1, usd)
        await store.append(
            lease,
            [
                said("x"),
                MessageAdded(AssistantMessage(text, usage=used)),
                TaskEnded(Status.FAILED, reason=EndReason.FAILED),
            ],
        )

    async def total(cwd: str | None, since: str = "2000") -> Usage:
        minutes = await store.global_log.spent(since, cwd)
        assert [len(minute) for minute, _ in minutes] == [16] * len(minutes)
        return sum((usage for _, usage in minutes), start=Usage())

    assert await total(None) == Usage(30, 6, 3, 0.5)
    assert await total("/a") == Usage(20, 4, 2, 0.5)
    assert await total("/b") == Usage(10, 2, 1, None)
    assert await total(None, "2999") == await total("/nowhere") == Usage()
    assert dict(await store.global_log.counts("/a")) == {Status.FAILED: 2}
    assert dict(await store.global_log.counts(None)) == {Status.FAILED: 3}
