"""Why no worker is at a task, and the way out of it."""

import json
import subprocess
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from gencode.core.errors import UnknownName
from gencode.core.events import TaskCreated
from gencode.runtime.fleet import BY_ITSELF, NOT_HERE, Outlook, WorkerCard, lacking
from tests.postgres import Postgres

pytestmark = pytest.mark.needs("postgres")

NO_GIT = {"cwd": "/a b", "alone": "/a b is not in a git repository"}
USUAL = 3_600.0
LACKS = f"put right what a worker lacks{BY_ITSELF}"
WAY = "gen worker --workspace '/a b', on a machine that has this folder"


@pytest.fixture
async def store(postgres: Postgres) -> AsyncGenerator[Any]:
    from gencode.stores.pg_fleet import FleetStore

    opened = await FleetStore.open(postgres.new_schema())
    yield opened
    await opened.close()


async def seen(store: Any, task: str) -> Outlook | None:
    return await store.outlook(task)


async def sent(store: Any, **order: Any) -> str:
    async def nowhere(_connection: object, _task: str) -> None:
        """No queue is needed."""

    return await store.submit(TaskCreated(agent="Explore"), json.dumps(order).encode(), nowhere)


def card(name: str, agents: str = "all", workspace: str = "/w", running: int = 0) -> WorkerCard:
    return WorkerCard(name, agents, workspace, 4, running)


async def test_a_task_waits_for_a_worker_that_is_there_takes_its_agent_and_has_room(store: Any) -> None:
    task = await sent(store, cwd="/a")
    assert await seen(store, task) == Outlook("no worker is there", "gen worker", USUAL)
    await store.report(card("one", "Plan, tester"))
    told = "no worker that is there takes tasks of Explore"
    assert await seen(store, task) == Outlook(told, "gen worker --agents Explore", USUAL)
    await store.report(card("two", running=4))
    assert await seen(store, task) == Outlook("all workers have enough to do", "gen worker")
    await store.report(card("three", "Plan, explore"))
    assert await seen(store, task) == Outlook()
    await store.parcels.hinder(task, "three", "its disk is full.")
    told = "three: its disk is full"
    assert await seen(store, task) == Outlook(told, LACKS)
    await store.parcels.hinder(task, "two", "no key")
    assert await seen(store, task) == Outlook("three: its disk is full; two: no key", LACKS, USUAL)


async def test_a_worker_that_put_a_task_back_long_ago_is_not_the_last_word_while_another_has_room(
    store: Any,
) -> None:
    task = await sent(store, cwd="/a")
    await store.report(card("one", running=4))
    await store.report(card("two"))
    await store.parcels.hinder(task, "one", "no key")
    assert await seen(store, task) == Outlook("one: no key", LACKS, USUAL)
    await store.link.fetch("UPDATE gen_task SET dispatched_at = now() - interval '1 hour'")
    await store.link.fetch("UPDATE gen_hindrance SET at = now() - interval '10 minutes'")
    assert await seen(store, task) == Outlook("one: no key", LACKS)


async def test_a_full_worker_that_put_a_task_back_long_ago_may_take_it_yet_and_one_with_room_may_not(
    store: Any,
) -> None:
    task = await sent(store, cwd="/a")
    await store.link.fetch("UPDATE gen_task SET dispatched_at = now() - interval '1 hour'")
    await store.parcels.hinder(task, "one", "no key")
    told: list[Outlook | None] = []
    for age in (0, 10):
        await store.link.fetch(f"UPDATE gen_hindrance SET at = now() - interval '{age} minutes'")  # noqa: S608
        for running in (0, 4):
            await store.report(card("one", running=running))
            told.append(await seen(store, task))
    vain = Outlook("one: no key", LACKS, USUAL)
    assert told == [vain, vain, vain, Outlook("one: no key", LACKS, USUAL, unclear=True)]


async def test_what_was_said_of_a_task_before_it_was_sent_again_counts_no_more(store: Any) -> None:
    task = await sent(store, cwd="/a")
    await store.report(card("one"))
    await store.parcels.hinder(task, "one", "no key")
    await store.link.fetch("UPDATE gen_task SET dispatched_at = clock_timestamp()")
    assert await seen(store, task) == Outlook()


async def test_a_task_is_waited_for_as_long_as_it_may_take(store: Any) -> None:
    task = await sent(store, cwd="/a", handover={"seconds": 7.5})
    found = await seen(store, task)
    assert found == Outlook("no worker is there", "gen worker", 7.5)
    told = "no worker took it within 7.5 s: no worker is there (what helps: gen worker)"
    assert found and found.end == told


async def test_what_a_task_waits_for_is_surveyed_at_once_unless_it_goes_away_by_itself(store: Any) -> None:
    from gencode.stores.pg_survey import survey

    task = await sent(store, cwd="/a")
    told: list[list[tuple[str, str, str]]] = []
    for worker in (None, card("one", "Plan"), card("two", running=4), card("three")):
        if worker is not None:
            await store.report(worker)
        told.append([(each.task, each.why, each.way) for each in (await survey(store.link.url)).stuck])
    assert told == [
        [(task, "no worker is there", "gen worker")],
        [(task, "no worker that is there takes tasks of Explore", "gen worker --agents Explore")],
        [],
        [],
    ]


async def test_an_agent_that_no_worker_has_is_named_at_once_with_the_way_to_it(store: Any) -> None:
    from gencode.stores.pg_survey import survey

    task = await sent(store, cwd="/a")
    await sent(store, cwd="/b")
    for name in ("one", "two"):
        await store.report(card(name))
        why = lacking("Explore", UnknownName("agent", "Explore", ["Plan", "Bash"]))
        await store.parcels.hinder(task, name, why)
    put = "put Explore.md into ~/.gen/agents on a worker"
    way = f"{put}{BY_ITSELF}"
    found = await seen(store, task)
    assert found == Outlook("no worker has the agent Explore", way, USUAL)
    assert found and found.end.endswith(f"no worker has the agent Explore (what helps: {put})")
    [stuck] = (await survey(store.link.url)).stuck
    assert (stuck.task, stuck.why, stuck.way) == (task, "no worker has the agent Explore", way)
    await store.report(card("busy", running=4))
    assert await seen(store, task) == Outlook("no worker that is free has the agent Explore", way)


async def test_a_task_without_git_waits_for_a_worker_that_works_in_its_folder(store: Any) -> None:
    from gencode.stores.pg_survey import survey

    task = await sent(store, **NO_GIT)
    assert await seen(store, task) == Outlook("no worker is there", WAY, USUAL)
    await store.report(card("far"))
    alone = "only a worker that shares its folder can run it, because /a b is not in a git repository"
    none = f"{alone}, and none says that it works there"
    assert await seen(store, task) == Outlook(none, WAY)
    await store.parcels.hinder(task, "far", NOT_HERE)
    assert await seen(store, task) == Outlook(none, WAY, USUAL)
    await store.report(card("near", workspace="/a b", running=4))
    assert await seen(store, task) == Outlook("all workers have enough to do", WAY)
    await store.parcels.hinder(task, "near", NOT_HERE)
    assert await seen(store, task) == Outlook(alone, WAY, USUAL)
    await store.link.fetch("UPDATE gen_task SET dispatched_at = now() - interval '1 hour'")
    [stuck] = (await survey(store.link.url)).stuck
    assert (stuck.why, stuck.way) == (alone, WAY)


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
    assert await seen(store, task) == Outlook("no worker is there", way, USUAL)
    assert echoed(typed) == cwd


def echoed(typed: str) -> str:
    """A word as a shell takes it."""
    return subprocess.run(
        ["bash", "-c", f"printf %s {typed}"], capture_output=True, check=True
    ).stdout.decode()
