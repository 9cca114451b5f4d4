"""Questions in SQLite: they keep every promise of the port, and nobody is there whose process died."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from gencode.core.events import TaskEnded
from gencode.core.questions import NobodyAvailable
from gencode.core.status import EndReason, Status
from gencode.journal.owner import owner_state
from gencode.stores.sqlite import SqliteStore
from tests.contracts.questions import *  # noqa: F403  (the contract's tests run here)
from tests.contracts.questions import ME, about, name_of_one_that_died, post, running
from tests.stores.other_program import rows


async def test_nobody_is_there_whose_process_died(store: SqliteStore) -> None:
    dead = name_of_one_that_died()
    assert owner_state(dead) == "dead"
    await store.questions.here(replace(ME, name=dead), 60.0)
    task = await running(store)
    with pytest.raises(NobodyAvailable):
        await store.questions.put(post(about(task)))


async def test_questions_go_with_the_task_that_is_deleted(store: SqliteStore, path: Path) -> None:
    task = await running(store)
    await store.questions.here(ME, 60.0)
    await store.questions.put(post(about(task)))
    assert rows(path, "SELECT count(*) FROM gen_question") == [(1,)]
    lease = await store.take(task, "worker")
    await store.append(lease, [TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED)], last=True)
    await store.delete(task)
    assert rows(path, "SELECT count(*) FROM gen_question") == [(0,)]
