"""Budgets of several processes: random trees on shared databases, and kills of real processes."""

import asyncio
import os
import random
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from gencode.core.budget import Budget
from gencode.core.events import CostEstimated, TaskCreated, TaskEnded, TaskStarted
from gencode.core.messages import Usage
from gencode.core.status import DIED, Status
from gencode.stores.sqlite import SqliteStore
from tests.ledger_world import ROUNDS, World
from tests.postgres import Postgres
from tests.stores.ledger_process import DEAREST

ROOT = Path(__file__).parents[2]
TREES = int(os.environ.get("GEN_EXAMPLES", "2"))


@pytest.fixture
async def fleet(postgres: Postgres) -> AsyncGenerator[list[Any]]:
    from gencode.stores.pg_fleet import FleetStore

    url = postgres.new_schema()
    opened = [await FleetStore.open(url) for _ in range(3)]
    yield opened
    for each in opened:
        await each.close()


@pytest.mark.parametrize("seed", range(1000, 1000 + ROUNDS))
async def test_random_trees_of_several_processes_keep_every_limit(path: Path, seed: int) -> None:
    stores = [await SqliteStore.open(path) for _ in range(3)]
    await World(stores, seed).run(200)
    assert await stores[0].ledger.recount() == []
    for store in stores:
        await store.close()


@pytest.mark.needs("postgres")
@pytest.mark.parametrize("seed", range(2000, 2000 + TREES))
async def test_random_trees_of_several_machines_keep_every_limit(fleet: list[Any], seed: int) -> None:
    await World(fleet, seed).run(200)
    assert await fleet[0].ledger.recount() == []


async def spender(path: Path, parent: str, seed: int) -> Process:
    """A process that is ready to spend."""
    program = [sys.executable, "-m", "tests.stores.ledger_process", str(path), parent, str(seed)]
    process = await asyncio.create_subprocess_exec(*program, cwd=ROOT, stdin=PIPE, stdout=PIPE)
    assert process.stdout is not None
    assert await process.stdout.readline() == b"ready\n"
    return process


async def close_dead(store: SqliteStore, owner: str) -> None:
    """End what a process that was killed left behind; its call costs about what it was to cost at most."""
    for left in [each.task for each in await store.owned() if each.owner == owner]:
        lease = await store.take(left, "other", owner)
        estimate = CostEstimated(Usage(DEAREST))
        died = TaskEnded(Status.INTERRUPTED, reason=DIED.reason)
        await store.append(lease, [estimate, died], last=True)


@pytest.mark.parametrize("seed", range(TREES))
async def test_processes_spend_all_of_a_budget_and_exceed_it_by_one_call_though_one_is_killed(
    store: SqliteStore, path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    await store.ledger.limit("session-1", Budget(tokens=6000))
    top = await store.create(TaskCreated(), "me", [TaskStarted()], session="session-1")
    await store.ledger.limit(top.task, Budget(tokens=3000))
    processes = [await spender(path, top.task, number) for number in range(4)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
    victim = processes[0]
    assert victim.stdout is not None
    for _ in range(chance.randint(1, 12)):
        await victim.stdout.readline()
    with suppress(ProcessLookupError):
        victim.kill()
    await victim.wait()
    await store.ledger.limit(top.task, Budget(tokens=3500))
    await close_dead(store, "spender 0")
    late = await spender(path, top.task, 4)  # the others may have ended before the limit was raised
    told = await asyncio.gather(*(process.communicate(b"go\n") for process in (late, *processes[1:])))
    assert [out.splitlines()[-1].decode() for out, _ in told] == [f"spent {top.task}"] * 4
    for account in (top.task, "session-1"):
        balance = await store.ledger.balance(account)
        assert balance is not None
        assert 3500 <= balance.account.spent["tokens"] <= 3500 + 2 * DEAREST
        assert (balance.account.calls, balance.account.held["tokens"]) == (0, 0)
        assert balance.aside == {"tokens": 0} if account == top.task else {"tokens": 0}
    assert await store.ledger.recount() == []
