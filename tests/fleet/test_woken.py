"""A task that was woken and waits for a worker: nobody takes what it said before for the new answer."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from gencode import GenCode
from gencode.app import components
from gencode.core.budget import Budget
from gencode.core.errors import StoreUnavailable, UserMistake
from gencode.core.events import MessageAdded, PassingFact, ProgressMade, TaskEnded, TaskQueued, TaskStarted
from gencode.core.ids import stamp
from gencode.core.messages import AssistantMessage, UserMessage
from gencode.core.spec import TaskRequest
from gencode.core.status import EndReason, Status, WaitFor, stop_cause
from gencode.core.task import Task, transcript_of
from gencode.fleet.worker import MOST_TAKES, Worker, WorkerOptions
from gencode.fleet.workspace_transfer import read_order
from gencode.journal.store import TaskQuery
from gencode.stores.pg_fleet import FleetStore
from gencode.tasks.crash_recovery import close_unclaimed
from gencode.tasks.watch import TaskWatcher
from tests.fleet.driving import Fleet, ended, submit
from tests.interfaces.cli.running import start
from tests.postgres import Postgres
from tests.waiting import PATIENCE

pytestmark = pytest.mark.needs("postgres")

NOBODY = "a worker: no worker is running"


@pytest.fixture(scope="module")
def empty(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet without workers."""
    made = Fleet(postgres, tmp_path_factory.mktemp("empty"))
    yield made
    made.close()


@pytest.fixture
async def gen(empty: Fleet) -> AsyncIterator[GenCode]:
    async with empty.open() as opened:
        yield opened


async def answered(gen: GenCode, task: str, text: str) -> None:
    """What a worker writes that begins with a task and comes to its end."""
    lease = await components(gen).store.take(task, "a worker")
    facts = (
        TaskStarted(),
        MessageAdded(AssistantMessage(text)),
        TaskEnded(Status.COMPLETED, text, reason=EndReason.FINISHED),
    )
    await components(gen).store.append(lease, facts, last=True)


async def woken(gen: GenCode) -> str:
    """A task that has said something and is asked for more."""
    [task] = await submit(gen, 1, "Explore")
    await answered(gen, task, "old")
    await gen.detach(TaskRequest("", "again", resume=task, background=True))
    return task


async def heard(gen: GenCode, task: str) -> list[str]:
    said = transcript_of(await gen.history.events(task))
    return [each.text for each in said if isinstance(each, UserMessage) and each.sender == "user"]


async def test_what_a_task_is_told_is_heard_once_also_when_no_worker_came_in_time(fleet: Fleet) -> None:
    fleet.write({"*": [{"text": "done"}]})
    async with fleet.open() as gen:
        [task] = await submit(gen, 1, "Explore")
        assert await close_unclaimed(components(gen).store, task, "nobody came")
        for words in ("again", "thrice"):
            await gen.detach(TaskRequest("", words, resume=task, background=True))
            assert await close_unclaimed(components(gen).store, task, "nobody came")
        await gen.detach(TaskRequest("", "at last", resume=task, background=True))
        fleet.start(1)
        [found] = await ended(gen, [task])
        assert (found.status, found.result) == (Status.COMPLETED, "done")
        assert await heard(gen, task) == ["task 0", "again", "thrice", "at last"]


async def left_in_line(gen: GenCode) -> str:
    """A task that was woken, and whose worker died while others were at work there."""
    task = await woken(gen)
    lease = await components(gen).store.take(task, "a worker")
    await components(gen).store.append(lease, [TaskQueued(), MessageAdded(UserMessage("again"))])
    await components(gen).store.release(lease)
    return task


async def test_what_a_task_was_told_is_heard_once_also_when_its_worker_died_in_line(fleet: Fleet) -> None:
    fleet.write({"*": [{"text": "done"}]})
    async with fleet.open() as gen:
        task = await left_in_line(gen)
        seen = await gen.get(task)
        fleet.start(1)
        [found] = await ended(gen, [task])
        assert (seen.status, seen.result) == (Status.PENDING, "")
        assert (found.status, found.totals.turns, await heard(gen, task)) == (Status.COMPLETED, 2, ["again"])


async def test_a_task_whose_worker_died_in_line_is_called_off_and_keeps_what_it_said(gen: GenCode) -> None:
    task = await left_in_line(gen)
    stopped = await gen.stop(task)
    assert (stopped.status, stopped.result, await heard(gen, task)) == (Status.CANCELLED, "old", ["again"])


async def test_a_task_that_was_woken_waits_like_a_new_one_wherever_one_looks(
    empty: Fleet, gen: GenCode
) -> None:
    task = await woken(gen)
    seen = [
        await gen.get(task),
        *(
            each
            for each in await gen.history.outcomes(await gen.history.tasks(TaskQuery()))
            if each.agent_id == task
        ),
        await gen.history.outcome(await gen.history.current(task)),
        await gen.history.outcome(await gen.history.ended(task, 0.0)),
    ]
    assert len(seen) == 4
    assert {(each.status, each.result, each.error) for each in seen} == {(Status.PENDING, "", None)}

    def command(*words: str) -> "asyncio.Future[tuple[str, str]]":
        begun = start("task", *words, cwd=empty.folder, GEN_DATABASE_URL=empty.url)
        return asyncio.ensure_future(asyncio.to_thread(begun.communicate, None, PATIENCE))

    empty.rows("UPDATE gen_task SET ended_at = '2001-01-01T00:00:00.000000Z' WHERE ended_at IS NOT NULL")
    query = TaskQuery(ended_after=stamp(datetime.now(UTC)))
    assert task in [each.id for each in await gen.history.tasks(query)]
    assert await gen.history.tasks(replace(query, statuses=(Status.COMPLETED,))) == []
    for words in (("list",), ("show", task), ("output", task, "--no-block")):
        out, err = await command(*words)
        assert NOBODY in out + err and ("old" in out) == (words[0] == "show"), (words, out, err)
    out, err = await command("send", task, "one more thing")
    assert (err, out.endswith("reads your message before its next reply.\n")) == (
        f"Sending to task {task} of Explore, which is pending.\n",
        True,
    )
    waiting = command("output", task, "--json", "--timeout", "600000")
    following = command("events", task, "--follow", "--json")
    done, _ = await asyncio.wait([waiting, following], timeout=2.0)
    assert not done
    await answered(gen, task, "new")
    (told, _), (facts, _) = await waiting, await following
    assert (json.loads(told)["status"], json.loads(told)["result"]) == ("completed", "new")
    assert json.loads(facts.splitlines()[-1])["result"] == "new"


async def test_a_task_that_was_woken_can_be_stopped_before_a_worker_begins_and_keeps_what_it_was_told(
    gen: GenCode,
) -> None:
    task = await woken(gen)
    stops = await components(gen).tasks.control.stop(task, stop_cause("a person stopped it"))
    assert [each.id for each in stops.affected] == [task]
    assert (stops.task.status, stops.task.result) == (Status.CANCELLED, "old")
    assert (await heard(gen, task))[-1] == "again"
    found = await gen.history.task(task)
    assert (await gen.history.current(task), await gen.history.ended(task)) == (found, found)


async def test_a_worker_that_refuses_a_task_keeps_what_it_was_told(
    empty: Fleet, gen: GenCode, tmp_path: Path
) -> None:
    task = await woken(gen)
    store = await FleetStore.open(empty.url)
    found = await store.dispatched(task)
    assert found is not None and found.order is not None
    order = {**json.loads(found.order), "flags": {"sandbox": "off"}}
    await store.link.fetch(
        "UPDATE gen_task SET dispatch = $2 WHERE id = $1", task, json.dumps(order).encode()
    )
    await Worker(store, WorkerOptions(1, tmp_path, tmp_path / "home", agents=("Explore",))).run(task)
    await store.close()
    assert (await gen.history.current(task)).status is Status.FAILED
    assert (await heard(gen, task))[-1] == "again"


async def test_a_task_that_was_woken_is_not_taken_from_the_workers_with_other_words(gen: GenCode) -> None:
    task = await woken(gen)
    more = TaskRequest("", "something else", resume=task, background=True)
    for go_on in (gen.detach(more), gen.start_resume(task, more)):
        with pytest.raises(UserMistake, match="was resumed and waits for a worker"):
            await go_on


class Shaky(FleetStore):
    """A database that is away when it is asked for a task, for so many times."""

    away = 3

    async def task(self, task: str) -> Task | None:
        self.away -= 1
        if self.away >= 0:
            raise StoreUnavailable("it is away")
        return await super().task(task)


async def test_who_waits_for_a_task_goes_on_to_wait_while_the_database_is_away_and_no_longer_than_asked(
    empty: Fleet, gen: GenCode
) -> None:
    [task] = await submit(gen, 1, "Explore")
    await answered(gen, task, "done")
    store = await Shaky.open(empty.url)
    told: list[PassingFact] = []
    watch = TaskWatcher(store, "somebody")
    assert (await watch.ended(task, PATIENCE, told.append)).result == "done"
    store.away = 3
    assert [event.seq async for event in watch.events(task, 0, told.append)] == [1, 2, 3, 4]
    assert [fact.waits_for for fact in told if isinstance(fact, ProgressMade)] == [WaitFor.DATABASE] * 2
    store.away = 1_000
    with pytest.raises(StoreUnavailable):
        await watch.ended(task, 0.1)
    await store.close()


async def test_the_budget_of_a_session_goes_along_with_a_task_that_a_worker_goes_on_with(
    gen: GenCode, empty: Fleet
) -> None:
    [task] = await submit(gen, 1, "Explore")
    await answered(gen, task, "old")
    async with empty.open(max_tokens_total=8000) as bounded:
        await bounded.detach(TaskRequest("", "again", resume=task, background=True))
        assert (await gen.history.current(task)).status is Status.PENDING
        shared = components(gen).store
        assert isinstance(shared, FleetStore)
        sent = await shared.dispatched(task)
        assert sent is not None and sent.order is not None
        balance = await components(gen).store.ledger.balance(read_order(sent.order).handover.account)
    assert balance is not None and balance.budget == Budget(tokens=8000)


async def test_an_agent_may_be_woken_as_often_as_one_likes(gen: GenCode) -> None:
    store = components(gen).store
    assert isinstance(store, FleetStore)
    task = await woken(gen)
    for _ in range(MOST_TAKES):
        await answered(gen, task, "more")
    await gen.detach(TaskRequest("", "once more", resume=task, background=True))
    found = await store.dispatched(task)
    assert found is not None and found.order is not None and found.takes > MOST_TAKES
    assert found.takes - read_order(found.order).takes == 0
    with pytest.raises(UserMistake, match="was resumed and waits for a worker"):
        await components(gen).tasks.watcher.check_not_woken(await gen.find(task))
