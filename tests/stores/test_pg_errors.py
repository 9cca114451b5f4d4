"""A shared database: what it says when it cannot be used, and what it outlives."""

import asyncio
import os
from collections.abc import AsyncGenerator
from typing import Any, cast

import pytest
from msgspec.structs import replace

from gencode.budgets.ledger import Granted, Hold
from gencode.channels.address import Address
from gencode.channels.outbox import OutgoingMessage
from gencode.core.budget import Budget
from gencode.core.errors import Fenced, GenCodeError, StoreTrouble, UserMistake
from gencode.core.events import MessageAdded, TaskCreated, TaskEnded, TaskStarted
from gencode.core.messages import AssistantMessage, Usage, UserMessage
from gencode.core.questions import Answer
from gencode.core.rules import Mode, Policy
from gencode.core.status import EndReason, Status
from gencode.core.task import replay
from gencode.journal.store import Lease, TaskSignal
from gencode.schedule.scheduled_jobs import ScheduledJob
from tests.contracts.questions import about, post
from tests.postgres import PASSWORD, WITH_PASSWORD, Postgres
from tests.stores.lost_connection import first_replies_lost
from tests.waiting import until

pytestmark = pytest.mark.needs("postgres")

AT = "2026-03-10T09:00:00.000000Z"
ROUNDS = int(os.environ.get("GEN_EXAMPLES", "50"))


@pytest.fixture
async def opened(postgres: Postgres) -> AsyncGenerator[Any]:
    """Opens stores on one schema."""
    from gencode.stores.postgres import PostgresStore

    url = postgres.new_schema()
    stores: list[PostgresStore] = []

    async def one(**words: Any) -> PostgresStore:
        stores.append(await PostgresStore.open(url, **words))
        return stores[-1]

    yield one
    for store in stores:
        await store.close()


async def refused(url: str) -> str:
    """What somebody hears who cannot open a database; no password is in it or in what caused it."""
    from gencode.stores.postgres import PostgresStore

    with pytest.raises(UserMistake) as caught:
        await PostgresStore.open(url)
    said: list[str] = []
    error: BaseException | None = caught.value
    while error is not None:
        said.append(str(error))
        error = error.__cause__ or error.__context__
    assert "pass word" not in "".join(said) and "s3cret" not in "".join(said)
    return said[0]


async def test_a_wrong_password_is_told_and_a_right_one_opens(postgres: Postgres) -> None:
    from gencode.stores.postgres import PostgresStore

    postgres.run(
        f"DROP ROLE IF EXISTS {WITH_PASSWORD}; CREATE ROLE {WITH_PASSWORD} LOGIN PASSWORD '{PASSWORD}'"
    )
    schema = postgres.new_schema().rpartition("=")[2]
    said = await refused(postgres.url(schema, user=WITH_PASSWORD, password="s3cret"))
    assert "refused the user or the password; look at the address where you gave it (--to, " in said
    store = await PostgresStore.open(postgres.url(schema, user=WITH_PASSWORD, password=PASSWORD))
    lease = await store.create(TaskCreated(), "me")
    assert await store.task(lease.task) == lease.state
    await store.close()


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("postgresql://me:s3cret@127.0.0.1:1/gen", "cannot be reached"),
        ("postgresql://me:s3cret@/gen?host=%2Fnowhere", "cannot be reached"),
        ("postgresql://me:s3/cret:s3cret@host/gen", "not one of Postgres"),
        ("postgresql://me:s3cret@host:port/gen", "not one of Postgres"),
        ("mysql://me:s3cret@host/gen", "not one of Postgres"),
        ("s3cret", "not one of Postgres"),
    ],
)
async def test_what_cannot_be_reached_is_told_without_a_password(url: str, sentence: str) -> None:
    assert sentence in await refused(url)


async def test_a_database_that_is_not_there_is_named(postgres: Postgres) -> None:
    url = postgres.url().replace("/postgres?", "/nothing?")
    assert "There is no database postgresql://postgres@" in await refused(url)


async def test_a_database_of_the_future_is_not_touched(postgres: Postgres, opened: Any) -> None:
    store = await opened()
    await store.link.fetch("UPDATE gen_version SET number = 99")
    with pytest.raises(StoreTrouble, match="has version 99, and this GenCode knows versions up to"):
        await opened()


async def test_a_database_that_only_reads_says_so(postgres: Postgres, opened: Any) -> None:
    store = await opened()
    await store.link.fetch("SELECT set_config('default_transaction_read_only', 'on', false)")
    with pytest.raises(StoreTrouble, match="can only be read at the moment"):
        await store.create(TaskCreated(), "me")


async def test_a_database_without_free_connections_says_so(postgres: Postgres, opened: Any) -> None:
    from gencode.stores.pg_pool import Pool

    postgres.run("DROP ROLE IF EXISTS narrow; CREATE ROLE narrow LOGIN CONNECTION LIMIT 1")
    held = await Pool.open(postgres.url(user="narrow"))
    assert "has no connection left" in await refused(postgres.url(user="narrow"))
    await held.close()


async def test_many_who_migrate_at_once_wait_for_each_other(postgres: Postgres) -> None:
    from gencode.stores.pg_schema import VERSION, migrate_url

    url = postgres.new_schema()
    versions = await asyncio.gather(*(migrate_url(url) for _ in range(4)))
    assert sorted({after for _, after in versions}) == [VERSION]
    assert await migrate_url(url) == (VERSION, VERSION)


async def test_one_of_two_stores_wins_every_take(opened: Any) -> None:
    one, two = await opened(), await opened()
    lease = await one.create(TaskCreated(), "me")
    await one.release(lease)
    for round_ in range(ROUNDS):
        takes = (one.take(lease.task, "one"), two.take(lease.task, "two"))
        outcomes = cast("list[object]", await asyncio.gather(*takes, return_exceptions=True))
        [won] = [each for each in outcomes if isinstance(each, Lease)]
        assert won.epoch == round_ + 2
        await one.release(won)


async def test_what_was_asked_of_another_process_reaches_it(opened: Any) -> None:
    here, there = await opened(), await opened()
    lease = await there.create(TaskCreated(), "there")
    assert (await there.signals("there"), await there.posted_messages("there")) == ([], [])
    assert await here.send_signal(lease.task, TaskSignal.STOP)
    await here.post(lease.task, "hello", "user")
    heard: list[Any] = []

    async def look() -> bool:
        heard.extend(await there.signals("there"))
        heard.extend(letter.text for letter in await there.posted_messages("there"))
        return len({*heard}) == 2

    await until(look, "both were heard of")
    assert {*heard} == {(lease.task, TaskSignal.STOP), "hello"}


async def test_a_reply_that_got_lost_is_neither_written_twice_nor_taken_for_a_lost_lease(opened: Any) -> None:
    store, other = await opened(), await opened()
    lease = await store.create(TaskCreated(), "me")
    losses = 0

    async def lose(connection: Any, again: bool, inner: Any) -> Any:
        nonlocal losses
        told = await inner(connection, again)
        if not again:
            losses += 1
            raise ConnectionResetError
        return told

    patiently = store.link.patiently

    async def unlucky(step: Any, patience: float | None = None) -> Any:
        async def losing(connection: Any, again: bool) -> Any:
            return await lose(connection, again, step)

        return await patiently(losing, patience)

    store.link.patiently = unlucky
    await store.append(lease, [TaskStarted(), MessageAdded(UserMessage("once"))])
    child = await store.create(TaskCreated(parent=lease.task), "me")
    assert await store.post(child.task, "hello", "user") == 1
    await store.append(lease, [TaskEnded(Status.COMPLETED, "done", reason=EndReason.FINISHED)], last=True)
    assert losses == 5  # one of them when it was looked up whether a budget is above the child
    events = await other.events(lease.task)
    assert [event.seq for event in events] == [1, 2, 3, 4]
    assert replay(events) == lease.state == await other.task(lease.task)
    assert [letter.number for letter in await other.unread_messages(child.task)] == [1]
    assert await other.ids("") == sorted([lease.task, child.task])


async def test_what_is_written_beside_the_journal_is_written_once_though_the_answer_was_lost(
    opened: Any,
) -> None:
    store, other = await opened(), await opened()
    task = (await store.create(TaskCreated(cwd="/a"), "me")).task
    gone = (await store.create(TaskCreated(), "me", [TaskStarted()])).task
    await store.release(await store.take(gone, "me"))
    draft = OutgoingMessage(Address("file", "notes"), "hello", "me")
    job = ScheduledJob("@daily", "look", "UTC", "/a", Policy(Mode.DEFAULT), AT, AT)
    with first_replies_lost(store):
        number = await store.questions.put(post(about(task), owner="me", home=True))
        assert await store.questions.settle(number, Answer(True), "me") is None
        planned = await store.schedule.add(job, 1)
        assert await store.schedule.replace(planned, replace(planned, due=None), draft)
        message = await store.outbox.add_message(draft)
        claimed = await store.outbox.claim(["file"], AT, AT)
        assert await store.outbox.remove(claimed[0])
        assert await store.delete(gone) == [gone]
    assert await other.questions.answers([number - 1, number, number + 1]) == {number: Answer(True)}
    assert [each.revision for each in await other.schedule.jobs()] == [1]
    assert [each.number for each in await other.outbox.pending()] == [message.number]


async def test_appends_outlive_a_restart_of_the_server(postgres: Postgres, opened: Any) -> None:
    store = await opened()
    leases = [await store.create(TaskCreated(), "me") for _ in range(10)]
    written: list[int] = []

    async def write(lease: Lease) -> None:
        for number in range(20):
            await store.append(lease, [MessageAdded(UserMessage(str(number)))])
            written.append(number)
            await asyncio.sleep(0.01)

    work = asyncio.gather(*(write(lease) for lease in leases))
    await until(lambda: len(written) >= 20, "they are at work")
    postgres.stop()
    postgres.start()
    await work
    for lease in leases:
        events = await store.events(lease.task)
        said = [MessageAdded(UserMessage(str(number))) for number in range(20)]
        assert [each.fact for each in events[1:]] == said
        assert replay(events) == lease.state


async def test_who_waits_for_a_change_outlives_a_restart_of_the_server(
    postgres: Postgres, opened: Any
) -> None:
    here, there = await opened(), await opened(patience=60.0)
    lease = await there.create(TaskCreated(), "you")
    seen = await here.changes.after(here.changes.count)
    postgres.stop()
    async with asyncio.timeout(60):
        for _ in range(3):  # a store that is away wakes those who wait, to find that out
            seen = await here.changes.after(seen)
        postgres.start()
        await there.append(lease, [TaskStarted()])
        while len(events := await here.events(lease.task)) < 2:
            seen = await here.changes.after(seen)
    assert events[-1].fact == TaskStarted()


async def test_an_owner_that_was_given_up_writes_nothing_more(opened: Any) -> None:
    store = await opened()
    lease = await store.create(TaskCreated(), "me")
    store.give_up("me")
    with pytest.raises(Fenced):
        await store.append(lease, [TaskStarted()])
    await store.release(lease)
    with pytest.raises(UserMistake, match="is running"):
        await store.take(lease.task, "you")


async def test_a_store_that_was_closed_says_so(opened: Any) -> None:
    store = await opened()
    await store.close()
    with pytest.raises(GenCodeError, match="was closed"):
        await store.events("0badcafe")


async def test_who_is_stopped_inside_a_transaction_does_not_hold_others_for_ever(opened: Any) -> None:
    from gencode.stores.pg_pool import alone

    stopped, other = await opened(), await opened()
    lease = await other.create(TaskCreated(), "me")
    await other.release(lease)
    inside = asyncio.Event()

    async def stop(connection: Any, _again: bool) -> None:
        async with alone(connection, 7):
            await connection.execute("UPDATE gen_task SET epoch = epoch + 1 WHERE id = $1", lease.task)
            inside.set()
            await asyncio.sleep(3600)

    async def enter(connection: Any, _again: bool) -> None:
        async with alone(connection, 7):
            pass

    asleep = asyncio.ensure_future(stopped.link.patiently(stop))
    await inside.wait()
    assert (await other.take(lease.task, "you")).epoch == 2
    await other.link.patiently(enter)
    asleep.cancel()
    await asyncio.wait([asleep])


async def test_a_hold_and_a_reply_count_once_though_the_answer_of_the_database_was_lost(opened: Any) -> None:
    store, other = await opened(), await opened()
    lease = await store.create(TaskCreated(budget=Budget(tokens=100)), "me", [TaskStarted()])
    call = Hold(lease.task, lease.path, {"turns": 1, "tokens": 60}, "me")
    with first_replies_lost(store):
        assert await store.ledger.hold(call) == Granted(alone=True)
    balance = await other.ledger.balance(lease.task)
    assert (balance.account.calls, balance.account.held["tokens"]) == (1, 60)
    with first_replies_lost(store):
        await store.append(lease, [MessageAdded(AssistantMessage("ok", usage=Usage(50)))])
    balance = await other.ledger.balance(lease.task)
    assert (balance.account.calls, balance.account.spent["tokens"]) == (0, 50)
    assert await other.ledger.recount() == []
