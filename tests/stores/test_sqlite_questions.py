"""Questions in SQLite: they keep every promise of the port, and are gone at once with a process that died."""

import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from gencode.core.errors import UserMistake
from gencode.core.events import TaskEnded
from gencode.core.status import Status
from gencode.runtime.asking import Answer, NobodyThere
from gencode.runtime.owner import fate
from gencode.stores.sqlite import SqliteStore
from tests.contracts.questions import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.questions import ME, about, numbers, post, running
from tests.stores.looking import rows


def name_of_one_that_died() -> str:
    code = "from gencode.runtime.owner import new_owner; print(new_owner())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout[
        :-1
    ]


async def test_nobody_waits_for_a_process_that_died_and_it_waits_for_nobody(store: SqliteStore) -> None:
    dead = name_of_one_that_died()
    assert fate(dead) == "dead"
    await store.questions.here(replace(ME, name=dead), 60.0)
    task = await running(store)
    with pytest.raises(NobodyThere):
        await store.questions.put(post(about(task)))
    theirs = await running(store, dead)
    await store.questions.here(ME, 60.0)
    number = await store.questions.put(post(about(theirs), owner=dead))
    assert (await numbers(store, ME), list(await store.questions.waiting(""))) == ([], [])
    with pytest.raises(UserMistake, match="nobody asks it any more"):
        await store.questions.answer(number, Answer(True), "me")


async def test_who_looks_again_is_told_nothing_until_something_was_written(
    store: SqliteStore, path: Path
) -> None:
    task = await running(store)
    await store.questions.here(ME, 60.0)
    looking = store.questions
    assert await looking.news(ME) == []
    other = await SqliteStore.open(path)
    number = await other.questions.put(post(about(task)))
    found = await looking.news(ME)
    assert [each.number for each in found or ()] == [number]
    assert [each.number for each in await looking.news(replace(ME, follows=task)) or ()] == [number]
    await other.close()


async def test_questions_go_with_the_task_that_is_deleted(store: SqliteStore, path: Path) -> None:
    task = await running(store)
    await store.questions.here(ME, 60.0)
    await store.questions.put(post(about(task)))
    assert rows(path, "SELECT count(*) FROM Questions") == [(1,)]
    lease = await store.take(task, "worker")
    await store.append(lease, [TaskEnded(Status.COMPLETED)], last=True)
    await store.delete(task)
    assert rows(path, "SELECT count(*) FROM Questions") == [(0,)]
