"""Why no worker is at a task, and the way out of it."""

import json
import subprocess
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple

import pytest

from gencode.core.errors import UnknownName
from gencode.core.events import TaskCreated
from gencode.journal.dispatch import NOT_HERE, MissingPart, WorkerInfo, lacking
from tests.postgres import Postgres

pytestmark = pytest.mark.needs("postgres")

NO_GIT = {"cwd": "/a b", "alone": "/a b is not in a git repository"}
USUAL = 3_600.0
BY_ITSELF = ", and it continues by itself within about a minute"
LACKS = f"fix what the worker reported{BY_ITSELF}"
WAY = "gen worker --workspace '/a b', on a machine that has this folder"


class Said(NamedTuple):
    """An outlook as a person is told of it."""

    why: str = ""
    way: str = ""
    most: float | None = None
    unclear: bool = False


@pytest.fixture
async def store(postgres: Postgres) -> AsyncGenerator[Any]:
    from gencode.stores.pg_fleet import FleetStore

    opened = await FleetStore.open(postgres.new_schema())
    yield opened
    await opened.close()


async def seen(store: Any, task: str) -> Said | None:
    found = await store.missing_worker(task)
    return Said(found.why, found.way, found.most, found.unclear) if found else None


async def sent(store: Any, **order: Any) -> str:
    async def nowhere(_connection: object, _task: str) -> None:
        """No queue is needed."""

    return await store.submit(TaskCreated(agent="Explore"), json.dumps(order).encode(), nowhere)


def card(name: str, agents: str = "all", workspace: str = "/w", running: int = 0) -> WorkerInfo:
    return WorkerInfo(name, agents, workspace, 4, running)


async def test_a_task_waits_for_a_worker_that_is_there_takes_its_agent_and_has_room(store: Any) -> None:
    task = await sent(store, cwd="/a")
    assert await seen(store, task) == Said("no worker is running", "gen worker", USUAL)
    await store.report(card("one", "Plan, tester"))
    told = "no running worker accepts tasks of Explore"
    assert await seen(store, task) == Said(told, "gen worker --agents Explore", USUAL)
    await store.report(card("two", running=4))
    assert await seen(store, task) == Said("all workers are busy", "gen worker")
    await store.report(card("three", "Plan, explore"))
    assert await seen(store, task) == Said()
    await store.snapshots.report_problem(task, "three", "its disk is full.", MissingPart.OTHER)
    told = "three: its disk is full"
    assert await seen(store, task) == Said(told, LACKS)
    await store.snapshots.report_problem(task, "two", "no key", MissingPart.OTHER)
    assert await seen(store, task) == Said("three: its disk is full; two: no key", LACKS, USUAL)


async def test_a_worker_that_put_a_task_back_long_ago_is_not_the_last_word_while_another_has_room(
    store: Any,
) -> None:
    task = await sent(store, cwd="/a")
    await store.report(card("one", running=4))
    await store.report(card("two"))
    await store.snapshots.report_problem(task, "one", "no key", MissingPart.OTHER)
    assert await seen(store, task) == Said("one: no key", LACKS, USUAL)
    await store.link.fetch("UPDATE gen_task SET dispatched_at = now() - interval '1 hour'")
    await store.link.fetch("UPDATE gen_worker_problem SET at = now() - interval '10 minutes'")
    assert await seen(store, task) == Said("one: no key", LACKS)


async def test_a_full_worker_that_put_a_task_back_long_ago_may_take_it_yet_and_one_with_room_may_not(
    store: Any,
) -> None:
    task = await sent(store, cwd="/a")
    await store.link.fetch("UPDATE gen_task SET dispatched_at = now() - interval '1 hour'")
    await store.snapshots.report_problem(task, "one", "no key", MissingPart.OTHER)
    told: list[Said | None] = []
    for age in (0, 10):
        await store.link.fetch(f"UPDATE gen_worker_problem SET at = now() - interval '{age} minutes'")  # noqa: S608
        for running in (0, 4):
            await store.report(card("one", running=running))
            told.append(await seen(store, task))
    vain = Said("one: no key", LACKS, USUAL)
    assert told == [vain, vain, vain, Said("one: no key", LACKS, USUAL, unclear=True)]


async def test_what_was_said_of_a_task_before_it_was_sent_again_counts_no_more(store: Any) -> None:
    task = await sent(store, cwd="/a")
    await store.report(card("one"))
    await store.snapshots.report_problem(task, "one", "no key", MissingPart.OTHER)
    await store.link.fetch("UPDATE gen_task SET dispatched_at = clock_timestamp()")
    assert await seen(store, task) == Said()


async def test_a_task_is_waited_for_as_long_as_it_may_take(store: Any) -> None:
    task = await sent(store, cwd="/a", handover={"seconds": 7.5})
    found = await seen(store, task)
    assert found == Said("no worker is running", "gen worker", 7.5)
    told = "no worker took it within 7.5 s: no worker is running (to fix this: gen worker)"
    assert (await store.missing_worker(task)).end == told


async def test_what_a_task_waits_for_is_surveyed_at_once_unless_it_goes_away_by_itself(store: Any) -> None:
    from gencode.stores.pg_fleet_status import fleet_status

    task = await sent(store, cwd="/a")
    told: list[list[tuple[str, str, str]]] = []
    for worker in (None, card("one", "Plan"), card("two", running=4), card("three")):
        if worker is not None:
            await store.report(worker)
        stuck = (await fleet_status(store.link.url)).stuck
        told.append([(each.task, each.missing_worker.why, each.missing_worker.way) for each in stuck])
    assert told == [
        [(task, "no worker is running", "gen worker")],
        [(task, "no running worker accepts tasks of Explore", "gen worker --agents Explore")],
        [],
        [],
    ]


async def test_an_agent_that_no_worker_has_is_named_at_once_with_the_way_to_it(store: Any) -> None:
    from gencode.stores.pg_fleet_status import fleet_status

    task = await sent(store, cwd="/a")
    await sent(store, cwd="/b")
    for name in ("one", "two"):
        await store.report(card(name))
        why = lacking("Explore", UnknownName("agent", "Explore", ["Plan", "Bash"]))
        await store.snapshots.report_problem(task, name, *why)
    put = "put Explore.md into ~/.gen/agents on a worker"
    way = f"{put}{BY_ITSELF}"
    found = await seen(store, task)
    assert found == Said("no worker has the agent Explore", way, USUAL)
    end = (await store.missing_worker(task)).end
    assert end.endswith(f"no worker has the agent Explore (to fix this: {put})")
    [stuck] = (await fleet_status(store.link.url)).stuck
    assert (stuck.task, stuck.missing_worker.why, stuck.missing_worker.way) == (
        task,
        "no worker has the agent Explore",
        way,
    )
    await store.report(card("busy", running=4))
    assert await seen(store, task) == Said("no worker that is free has the agent Explore", way)


async def test_a_task_without_git_waits_for_a_worker_that_works_in_its_folder(store: Any) -> None:
    from gencode.stores.pg_fleet_status import fleet_status

    task = await sent(store, **NO_GIT)
    assert await seen(store, task) == Said("no worker is running", WAY, USUAL)
    await store.report(card("far"))
    alone = "only a worker that shares its folder can run it, because /a b is not in a git repository"
    none = f"{alone}, and no running worker has it"
    assert await seen(store, task) == Said(none, WAY)
    await store.snapshots.report_problem(task, "far", NOT_HERE, MissingPart.FOLDER)
    assert await seen(store, task) == Said(none, WAY, USUAL)
    await store.report(card("near", workspace="/a b", running=4))
    assert await seen(store, task) == Said("all workers are busy", WAY)
    await store.snapshots.report_problem(task, "near", NOT_HERE, MissingPart.FOLDER)
    assert await seen(store, task) == Said(alone, WAY, USUAL)
    await store.link.fetch("UPDATE gen_task SET dispatched_at = now() - interval '1 hour'")
    [stuck] = (await fleet_status(store.link.url)).stuck
    assert (stuck.missing_worker.why, stuck.missing_worker.way) == (alone, WAY)


async def test_a_task_that_somebody_is_at_waits_for_nobody(store: Any) -> None:
    task = await sent(store, cwd="/a")
    await store.take(task, "worker")
    assert await seen(store, task) is None
    assert await seen(store, "unknown") is None


@pytest.mark.parametrize(
    ("cwd", "typed"),
    [
        ("/a b", "'/a b'"),
        ("/a\nb", r"$'/a\x0ab'"),
        ("/a  b's \\", r"$'/a\x20\x20b\'s\x20\\'"),
        ("/ä\u200b", r"$'/ä\xe2\x80\x8b'"),
    ],
)
async def test_the_way_out_names_a_folder_as_a_shell_takes_it(store: Any, cwd: str, typed: str) -> None:
    task = await sent(store, cwd=cwd, alone="it is not in a git repository")
    way = f"gen worker --workspace {typed}, on a machine that has this folder"
    assert await seen(store, task) == Said("no worker is running", way, USUAL)
    assert echoed(typed) == cwd


def echoed(typed: str) -> str:
    """A word as a shell takes it."""
    return subprocess.run(
        ["bash", "-c", f"printf %s {typed}"], capture_output=True, check=True
    ).stdout.decode()
