"""The queue of a fleet: one transaction with the journal, order, caps, and what is missing from it."""

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gencode.core.errors import UserMistake
from gencode.core.events import TaskCreated, TaskEnded, TaskStarted
from gencode.core.rules import Action, Policy, parse_rule
from gencode.core.status import EndReason, Status
from gencode.fleet.fleet_engine import TAKEN_BACK
from gencode.journal.dispatch import Handover
from gencode.journal.store import TaskQuery
from tests.postgres import Postgres
from tests.waiting import until

pytestmark = pytest.mark.needs("postgres")


@pytest.fixture
async def store(postgres: Postgres) -> AsyncGenerator[Any]:
    from gencode.stores.pg_fleet import FleetStore

    opened = await FleetStore.open(postgres.new_schema(), lease_seconds=1.0)
    yield opened
    await opened.close()


def engine(store: Any, tmp_path: Path, **flags: Any) -> Any:
    from gencode.fleet.fleet_engine import FleetEngine

    return FleetEngine(store, tmp_path, flags, tmp_path)


def handover(agent: str = "Explore", **words: Any) -> Handover:
    return Handover(model="offline", created=TaskCreated(agent=agent, prompt="look", cwd="/a"), **words)


async def queued(store: Any) -> list[tuple[str, str, int]]:
    rows = await store.link.fetch("SELECT entrypoint, payload, priority FROM pgqueuer ORDER BY id")
    return [(row[0], row[1].decode(), row[2]) for row in rows]


class Hands:
    """Runs tasks, each for a moment, and remembers in which order and how many at once."""

    def __init__(self) -> None:
        self.order: list[str] = []
        self.highest = 0
        self._at_once = 0

    async def run(self, task: str) -> None:
        self.order.append(task)
        self._at_once += 1
        self.highest = max(self.highest, self._at_once)
        await asyncio.sleep(0.1)
        self._at_once -= 1


async def served(store: Any, count: int, *, most: int, workers: int = 1, **caps: int) -> Hands:
    """What became of so many tasks that workers took."""
    from gencode.fleet.queue import QueueConsumer, TaskSelection

    hands = Hands()
    share = TaskSelection(lambda: ["Explore", "Plan"], most, caps)
    serving = [QueueConsumer(store, share, hands.run) for _ in range(workers)]
    work = asyncio.gather(*(each.serve() for each in serving))
    await until(lambda: len(hands.order) >= count, "all tasks were taken")
    for each in serving:
        each.stop()
    await work
    return hands


async def test_a_task_its_first_fact_and_its_place_in_the_queue_are_one(store: Any, tmp_path: Path) -> None:
    away = await engine(store, tmp_path).start(handover())
    assert [task.id for task in await store.tasks(TaskQuery())] == [away.task]
    assert await queued(store) == [("gencode.agent.explore", away.task, 0)]

    async def fail(_connection: Any, _task: str) -> None:
        raise UserMistake("no")

    with pytest.raises(UserMistake):
        await store.submit(TaskCreated(), b"{}", fail)
    assert [task.id for task in await store.tasks(TaskQuery())] == [away.task]
    assert len(await queued(store)) == 1


async def test_what_only_the_user_sets_does_not_travel(store: Any, tmp_path: Path) -> None:
    flags = {"database_url": "postgresql://me:s3cret@host/gen", "sandbox": "off", "max_turns": 3}
    away = await engine(store, tmp_path, **flags).start(handover())
    order = (await store.dispatched(away.task)).order
    assert b"max_turns" in order and b"s3cret" not in order and b"sandbox" not in order


async def test_what_somebody_waits_for_goes_first_and_what_is_delayed_last(
    store: Any, tmp_path: Path
) -> None:
    hands = engine(store, tmp_path)
    late = await hands.queue(handover(), delay=timedelta(seconds=1.5))
    plain = await hands.start(handover())
    waited = await hands.start(handover(bound=True))
    done = await served(store, 3, most=2)
    assert done.order == [waited.task, plain.task, late.task]


async def test_a_cap_counts_over_all_workers(store: Any, tmp_path: Path) -> None:
    hands = engine(store, tmp_path)
    tasks = {(await hands.start(handover())).task for _ in range(6)}
    done = await served(store, 6, most=8, workers=2, explore=2)
    assert sorted(done.order) == sorted(tasks)
    assert done.highest == 2


async def test_a_task_that_is_missing_from_the_queue_comes_back_once(store: Any, tmp_path: Path) -> None:
    from gencode.fleet.queue import reconcile

    away = await engine(store, tmp_path).start(handover())
    await store.link.fetch("DELETE FROM pgqueuer")
    assert await reconcile(store) == []
    await store.link.fetch("UPDATE gen_task SET dispatched_at = now() - interval '1 hour'")
    assert await reconcile(store) == [away.task]
    assert await reconcile(store) == []
    assert await queued(store) == [("gencode.agent.explore", away.task, 0)]


async def test_an_earlier_task_goes_to_the_workers_unless_somebody_is_at_it(
    store: Any, tmp_path: Path
) -> None:
    lease = await store.create(TaskCreated(agent="Plan"), "me", [TaskStarted()])
    again = Handover(model="offline", task=lease.task, prompt="more")
    with pytest.raises(UserMistake, match="is running"):
        await engine(store, tmp_path).start(again)
    await store.append(lease, [TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED)], last=True)
    away = await engine(store, tmp_path).queue(again, delay=timedelta(0))
    assert away.task == lease.task
    assert await queued(store) == [("gencode.agent.plan", lease.task, 0)]
    with pytest.raises(UserMistake, match="is running"):
        await engine(store, tmp_path).start(again)


async def test_an_earlier_task_is_queued_although_the_queue_has_not_heard_of_its_end(
    store: Any, tmp_path: Path
) -> None:
    away = await engine(store, tmp_path).start(handover())
    lease = await store.take(away.task, "worker")
    await store.append(
        lease, [TaskStarted(), TaskEnded(Status.COMPLETED, "done", reason=EndReason.FINISHED)], last=True
    )
    again = Handover(model="offline", task=away.task, prompt="more")
    await engine(store, tmp_path).queue(again, delay=timedelta(0))
    assert await queued(store) == [("gencode.agent.explore", away.task, 0)] * 2


async def test_a_bound_task_is_gone_when_it_has_ended(store: Any, tmp_path: Path) -> None:
    away = await engine(store, tmp_path).start(handover(bound=True))
    lease = await store.take(away.task, "worker")
    assert not away.gone
    await store.append(
        lease, [TaskStarted(), TaskEnded(Status.COMPLETED, "done", reason=EndReason.FINISHED)], last=True
    )
    await until(lambda: away.gone, "it is gone")
    assert (await store.dispatched(away.task)).order is None


@pytest.mark.parametrize("written_before", [False, True])
async def test_a_sender_that_is_stopped_while_it_gives_a_task_away_takes_it_back(
    store: Any, tmp_path: Path, written_before: bool
) -> None:
    sender = engine(store, tmp_path)
    given = handover()
    if written_before:
        lease = await store.create(given.created, "me")
        given = replace(given, task=lease.task, keeper="me")
    await sender.start(handover("Plan"))  # the queue is there from now on
    cancelled: list[asyncio.Task[Any]] = []

    async def hold(connection: Any, _: bool) -> None:
        async with connection.transaction():
            await connection.execute("LOCK TABLE pgqueuer IN EXCLUSIVE MODE")
            giving = asyncio.create_task(sender.start(given))
            await until(lambda: _waits_for_a_lock(connection), "it is being given away")
            giving.cancel()
            cancelled.append(giving)

    await store.link.patiently(hold)
    with pytest.raises(asyncio.CancelledError):
        await cancelled[0]
    found = {task.agent: task for task in await store.tasks(TaskQuery())}
    assert (found["Explore"].status, found["Explore"].end.reason) == (Status.CANCELLED, TAKEN_BACK.reason)
    assert (await store.dispatched(found["Explore"].id)).order is None


async def _waits_for_a_lock(connection: Any) -> bool:
    return await connection.fetchval("SELECT count(*) > 0 FROM pg_locks WHERE NOT granted")


async def test_a_task_that_goes_on_is_sent_all_rules_of_its_sender_also_for_where_links_lead(
    store: Any, tmp_path: Path
) -> None:
    from gencode.fleet.fleet_engine import FleetEngine
    from gencode.fleet.workspace_transfer import read_order

    (tmp_path / "secret").mkdir()
    (tmp_path / "way").symlink_to("secret")
    created = TaskCreated(agent="Explore", prompt="look", cwd=str(tmp_path))
    texts = [(Action.DENY, "Read(way/**)"), (Action.ASK, "Write(kept/**)"), (Action.ALLOW, "Read(way/**)")]
    policy = Policy(rules=tuple(parse_rule(text, action) for action, text in texts))
    sent: list[dict[str, Any]] = []
    for flags in ({"deny": ["Read(way/**)"]}, {}):
        lease = await store.create(created, "an owner")
        await store.append(lease, [TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED)], last=True)
        again = Handover(model="offline", task=lease.task, background=True)
        away = FleetEngine(store, tmp_path, flags, tmp_path, policy)
        await away.queue(again, delay=timedelta(hours=1))
        sent.append(read_order((await store.dispatched(lease.task)).order).flags)
    deny = ["Read(way/**)", f"Read({tmp_path}/secret/**)"]
    named = {"model": "offline", "deny": deny, "ask": ["Write(kept/**)"]}
    assert sent == [named, {"model": "offline"}]
