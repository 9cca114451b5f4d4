"""A copy of a SQLite database in Postgres loses nothing and can be repeated."""

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gencode.channels.address import Address
from gencode.channels.outbox import OutgoingMessage
from gencode.core.events import MessageAdded, TaskCreated, TaskEnded, TaskStarted
from gencode.core.messages import UserMessage
from gencode.core.rules import Policy
from gencode.core.status import EndReason, Status
from gencode.journal.owner import new_owner
from gencode.journal.store import Store, TaskQuery
from gencode.schedule.scheduled_jobs import ScheduledJob
from gencode.stores.sqlite import SqliteStore
from tests.postgres import Postgres

pytestmark = pytest.mark.needs("postgres")


@pytest.fixture
async def there(postgres: Postgres) -> AsyncGenerator[Any]:
    from gencode.stores.postgres import PostgresStore

    store = await PostgresStore.open(postgres.new_schema())
    yield store
    await store.close()


async def everything(store: Store) -> dict[str, Any]:
    """All that a store tells."""
    tasks = await store.tasks(TaskQuery())
    return {
        "tasks": tasks,
        "events": [await store.events(task.id) for task in tasks],
        "letters": [await store.unread_messages(task.id) for task in tasks],
        "plans": await store.schedule.jobs(),
        "messages": [(each.to, each.text, each.at, each.tries) for each in await store.outbox.pending()],
    }


async def lived(store: SqliteStore) -> list[str]:
    """A database with some life in it; the ids of its tasks."""
    talk = await store.create(TaskCreated(conversation=True, cwd="/a", prompt="hi"), "me", [TaskStarted("m")])
    child = await store.create(TaskCreated(parent=talk.task, prompt="\0 \udc80", cwd="/a"), "me")
    many = [MessageAdded(UserMessage(f"{n} \0 é")) for n in range(150)]
    await store.append(
        child,
        [TaskStarted("m"), *many, TaskEnded(Status.COMPLETED, "done", reason=EndReason.FINISHED)],
        last=True,
    )
    for text in ("one", "two \0", "three"):
        await store.post(talk.task, text, "user")
    await store.append(
        talk,
        [MessageAdded(UserMessage("one", mail=1)), TaskEnded(Status.FAILED, reason=EndReason.FAILED)],
        last=True,
    )
    await store.schedule.add(
        ScheduledJob("@daily", "look", "UTC", "/a", Policy(), talk.state.created_at, None), 10
    )
    await store.outbox.add_message(OutgoingMessage(Address("file", "notes"), "hello", "user"))
    return [talk.task, child.task]


async def test_everything_arrives_and_a_second_copy_changes_nothing(there: Any, path: Path) -> None:
    from gencode.stores.pg_copy import copy_database

    here = await SqliteStore.open(path)
    await lived(here)
    first = await copy_database(path, there)
    assert (first.tasks, first.facts, first.new, first.busy, first.problems) == (2, 157, 157, (), ())
    assert await everything(there) == await everything(here)
    second = await copy_database(path, there)
    assert (second.tasks, second.facts, second.new, second.problems) == (2, 157, 0, ())
    assert await everything(there) == await everything(here)
    await here.close()


async def test_what_went_on_or_was_taken_there_stays_as_it_is(there: Any, path: Path) -> None:
    from gencode.stores.pg_copy import copy_database

    here = await SqliteStore.open(path)
    talk, child = await lived(here)
    await here.close()
    await copy_database(path, there)
    lease = await there.take(talk, "me")
    await there.append(lease, [TaskStarted(), MessageAdded(UserMessage("two", mail=2))])
    await there.delete(child)
    [plan] = await there.schedule.jobs()
    await there.schedule.replace(plan, None)
    for message in await there.outbox.pending():
        await there.outbox.remove(message)
    before = await everything(there)
    again = await copy_database(path, there)
    assert (again.new, again.problems) == (0, ())
    assert await everything(there) == before


async def test_what_was_written_here_since_is_added(there: Any, path: Path) -> None:
    from gencode.stores.pg_copy import copy_database

    here = await SqliteStore.open(path)
    _, child = await lived(here)
    await copy_database(path, there)
    lease = await here.take(child, "me")
    await here.append(
        lease, [TaskStarted("m"), TaskEnded(Status.COMPLETED, "more", reason=EndReason.FINISHED)], last=True
    )
    again = await copy_database(path, there)
    assert (again.facts, again.new, again.problems) == (159, 2, ())
    assert await everything(there) == await everything(here)
    await here.close()


async def test_a_task_that_is_another_one_there_is_reported_and_left_alone(there: Any, path: Path) -> None:
    from gencode.stores.pg_copy import copy_database

    here = await SqliteStore.open(path, draw=lambda: "aaaaaaaa")
    lease = await here.create(TaskCreated(prompt="mine"), "me")
    await here.release(lease)
    there.draw = lambda: "aaaaaaaa"
    theirs = await there.create(TaskCreated(prompt="theirs"), "them")
    copy = await copy_database(path, there)
    assert copy.problems == ("Task aaaaaaaa is another one there, with other facts; it was left alone.",)
    assert await there.task("aaaaaaaa") == theirs.state
    await here.close()


async def test_a_task_that_somebody_is_at_waits_for_the_next_copy(there: Any, path: Path) -> None:
    from gencode.stores.pg_copy import copy_database

    here = await SqliteStore.open(path)
    lease = await here.create(TaskCreated(), new_owner(), [TaskStarted()])
    assert (await copy_database(path, there)).busy == (lease.task,)
    assert await there.task(lease.task) is None
    await here.append(lease, [TaskEnded(Status.COMPLETED, "done", reason=EndReason.FINISHED)], last=True)
    assert (await copy_database(path, there)).busy == ()
    assert await there.task(lease.task) == lease.state
    await here.close()


async def test_a_damaged_fact_travels_as_it_is(there: Any, path: Path) -> None:
    from gencode.stores.pg_copy import copy_database

    here = await SqliteStore.open(path)
    _, child = await lived(here)
    await here.close()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE gen_journal SET body = '{' WHERE task = ? AND seq = 7", (child,))
    copy = await copy_database(path, there)
    assert (copy.facts, copy.problems) == (157, ())
    [row] = await there.link.fetch("SELECT body FROM gen_journal WHERE task = $1 AND seq = 7", child)
    assert row[0] == "{"
