"""More promises of the `Store` port: letters to tasks, whoever runs them."""

import asyncio

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gencode.core.errors import UserMistake
from gencode.core.events import Event, MessageAdded, TaskCreated, TaskEnded, TaskStarted
from gencode.core.ids import moment
from gencode.core.messages import UserMessage
from gencode.core.status import EndReason, Status
from gencode.core.task import replay
from gencode.journal.store import PostedMessage
from tests.contracts.store import OpenStore


def took(number: int) -> MessageAdded:
    return MessageAdded(UserMessage("as it was written", "user", mail=number))


def told(letters: list[PostedMessage]) -> list[tuple[str, int, str, str]]:
    """The letters without the time, which is only checked to be one."""
    assert all(moment(letter.at).tzinfo is not None for letter in letters)
    return [(letter.task, letter.number, letter.text, letter.sender) for letter in letters]


async def test_letters_are_numbered_for_each_task_and_reach_its_owner_only(open_store: OpenStore) -> None:
    drawn = iter(["aaaaaaaa", "bbbbbbbb", "cccccccc"])
    store = await open_store(draw=lambda: next(drawn))
    for owner in ("me", "me", "you"):
        await store.create(TaskCreated(), owner)
    posted = [
        await store.post("bbbbbbbb", "one", "user"),
        await store.post("aaaaaaaa", "left\nright", "cccccccc"),
        await store.post("bbbbbbbb", "two", "aaaaaaaa"),
        await store.post("cccccccc", "yours", "user"),
    ]
    assert posted == [1, 1, 2, 1]
    assert told(await store.posted_messages("me")) == [
        ("aaaaaaaa", 1, "left\nright", "cccccccc"),
        ("bbbbbbbb", 1, "one", "user"),
        ("bbbbbbbb", 2, "two", "aaaaaaaa"),
    ]
    assert told(await store.posted_messages("you")) == [("cccccccc", 1, "yours", "user")]
    assert (await store.posted_messages("me"))[1:] == await store.unread_messages("bbbbbbbb")
    assert (await store.posted_messages("nobody"), await store.unread_messages("0badcafe")) == ([], [])


async def test_a_letter_waits_until_the_journal_says_that_it_was_taken(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(), "me", [TaskStarted()])
    for text in ("one", "two", "three"):
        await store.post(lease.task, text, "user")
    _, two, three = await store.posted_messages("me")
    await store.append(lease, [took(1)])
    assert await store.posted_messages("me") == await store.unread_messages(lease.task) == [two, three]
    await store.append(lease, [took(2), took(3)])
    assert await store.posted_messages("me") == await store.unread_messages(lease.task) == []
    assert await store.post(lease.task, "four", "user") == 4
    assert [letter.number for letter in await store.posted_messages("me")] == [4]
    assert lease.state.delivered.mailed == 3
    assert await store.task(lease.task) == replay(await store.events(lease.task)) == lease.state


async def test_a_task_that_has_ended_can_be_written_to_and_whoever_takes_it_finds_the_letter(
    open_store: OpenStore,
) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(), "me")
    await store.append(
        lease, [TaskStarted(), TaskEnded(Status.COMPLETED, "done", reason=EndReason.FINISHED)], last=True
    )
    assert await store.post(lease.task, "one more thing", "user") == 1
    [letter] = await store.unread_messages(lease.task)
    assert told([letter]) == [(lease.task, 1, "one more thing", "user")]
    assert await store.posted_messages("me") == await store.posted_messages("") == []
    again = await store.take(lease.task, "you")
    assert await store.posted_messages("you") == [letter]
    await store.append(again, [TaskStarted(), took(1)])
    assert await store.unread_messages(lease.task) == []


async def test_letters_stay_when_a_task_changes_hands(open_store: OpenStore) -> None:
    store = await open_store(lease_seconds=0)
    lease = await store.create(TaskCreated(), "old")
    await store.post(lease.task, "hello", "user")
    letters = await store.posted_messages("old")
    await store.take(lease.task, "new")
    assert (await store.posted_messages("old"), await store.posted_messages("new")) == ([], letters)


async def test_an_imported_task_gets_numbers_above_those_it_took_elsewhere(open_store: OpenStore) -> None:
    store = await open_store()
    at = "2026-01-01T00:00:00.000000Z"
    await store.adopt([Event("aaaaaaaa", 1, at, TaskCreated()), Event("aaaaaaaa", 2, at, took(7))])
    assert await store.unread_messages("aaaaaaaa") == []
    assert [await store.post("aaaaaaaa", text, "user") for text in ("x", "y")] == [8, 9]
    assert [letter.number for letter in await store.unread_messages("aaaaaaaa")] == [8, 9]


async def test_a_journal_with_more_letters_than_anybody_can_write_is_not_adopted(
    open_store: OpenStore,
) -> None:
    store = await open_store()
    at = "2026-01-01T00:00:00.000000Z"
    for number in (2**63, 10**30):
        with pytest.raises(UserMistake, match=f"{number:,} messages"):
            await store.adopt(
                [Event("aaaaaaaa", 1, at, TaskCreated()), Event("aaaaaaaa", 2, at, took(number))]
            )
    assert await store.task("aaaaaaaa") is None


async def test_there_is_nobody_to_write_to_where_there_is_no_task(open_store: OpenStore) -> None:
    store = await open_store()
    with pytest.raises(UserMistake, match="There is no task 0badcafe"):
        await store.post("0badcafe", "hello?", "user")


async def test_a_letter_has_some_words_and_not_too_many(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(), "me")
    for text, why in (
        (" \n", "The message is empty"),
        ("x" * 100_001, "100,001 characters"),
    ):
        with pytest.raises(UserMistake, match=why):
            await store.post(lease.task, text, "user")
    assert await store.posted_messages("me") == []
    assert await store.post(lease.task, "x" * 100_000, "user") == 1


async def test_a_letter_that_is_not_unicode_is_stored_with_marks(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await store.create(TaskCreated(), "me")
    await store.post(lease.task, "a\udc80b\0c", "caf\udce9")
    assert told(await store.posted_messages("me")) == [(lease.task, 1, "a?b\0c", "caf?")]


async def test_who_reads_nothing_is_not_written_to_for_ever(open_store: OpenStore) -> None:
    store = await open_store()
    lease, other = await store.create(TaskCreated(), "me"), await store.create(TaskCreated(), "me")
    for n in range(100):
        assert await store.post(lease.task, "well?", "user") == n + 1
    with pytest.raises(UserMistake, match=f"Task {lease.task} has 100 unread messages"):
        await store.post(lease.task, "well??", "user")
    assert await store.post(other.task, "and you?", "user") == 1
    assert len(await store.unread_messages(lease.task)) == 100
    await store.append(lease, [took(1)])
    assert await store.post(lease.task, "at last", "user") == 101


async def test_letters_go_with_their_task(open_store: OpenStore) -> None:
    drawn = iter(["aaaaaaaa", "bbbbbbbb", "aaaaaaaa"])
    store = await open_store(draw=lambda: next(drawn))
    gone, stays = await store.create(TaskCreated(), "me"), await store.create(TaskCreated(), "me")
    for lease in (gone, stays):
        await store.post(lease.task, "hello", "user")
    await store.release(gone)
    await store.delete(gone.task)
    anew = await store.create(TaskCreated(), "me")
    assert (anew.task, await store.unread_messages(anew.task)) == (gone.task, [])
    assert [letter.task for letter in await store.posted_messages("me")] == [stays.task]


async def test_letters_posted_at_once_and_beside_appends_all_get_a_number(open_store: OpenStore) -> None:
    store = await open_store()
    leases = [await store.create(TaskCreated(), "me") for _ in range(8)]
    posts = [store.post(lease.task, f"{n}", "user") for n in range(5) for lease in leases]
    writes = [store.append(lease, [MessageAdded(UserMessage("beside"))]) for lease in leases]
    posted, _ = await asyncio.gather(asyncio.gather(*posts), asyncio.gather(*writes))
    assert sorted(posted) == [number for number in range(1, 6) for _ in leases]
    for lease in leases:
        assert [letter.number for letter in await store.unread_messages(lease.task)] == [1, 2, 3, 4, 5]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.integers(0, 4), max_size=25))
async def test_every_letter_is_taken_once_and_in_order(open_store: OpenStore, steps: list[int]) -> None:
    """A step of 0 posts a letter, any other takes at most so many."""
    store = await open_store()
    lease = await store.create(TaskCreated(), "me")
    posted, heard = 0, list[int]()
    for step in steps:
        if not step:
            posted = await store.post(lease.task, "hello", "user")
        elif come := (await store.posted_messages("me"))[:step]:
            heard += [letter.number for letter in come]
            await store.append(lease, [took(letter.number) for letter in come])
        waiting = [letter.number for letter in await store.unread_messages(lease.task)]
        assert [*heard, *waiting] == list(range(1, posted + 1))
    await store.close()  # a database has few connections, and the next example opens its own
