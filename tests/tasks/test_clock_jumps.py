"""Clocks that jump: leases look over, or endless, and no call in flight is taken from who makes it."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path

import pytest

from gencode.agent.ports import Request
from gencode.app import GenCode, components
from gencode.core.budget import Budget
from gencode.core.errors import Conflict
from gencode.core.messages import EndPart, Part, TextPart, Usage
from gencode.core.status import Status
from gencode.places import database


class Waits:
    """A model whose reply waits until it may come."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.may_come = asyncio.Event()

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Say something when that is wanted."""
        self.asked.set()
        await self.may_come.wait()
        yield TextPart("found")
        yield EndPart("m", usage=Usage(900, 100))


@pytest.mark.parametrize("ends", ["2020-01-01T00:00:00.000Z", "2999-01-01T00:00:00.000Z"])
async def test_a_clock_that_jumps_while_a_call_is_in_flight_takes_nothing_from_its_owner(
    tmp_path: Path, ends: str
) -> None:
    model = Waits()
    async with GenCode.open(tmp_path, model=model) as gen:
        ledger = components(gen).store.ledger
        handle = await gen.task("Explore", "look", background=True, budget=Budget(tokens=30_000))
        await asyncio.wait_for(model.asked.wait(), 60)
        with closing(sqlite3.connect(database())) as clock, clock:
            clock.execute("UPDATE gen_task SET lease_until = ? WHERE owner IS NOT NULL", (ends,))
        async with GenCode.open(tmp_path, model=model) as other:
            with pytest.raises(Conflict, match="is running in another process"):
                await other.resume(handle.id, "go on")
            seen, held = await other.get(handle.id), await ledger.balance(handle.id)
        model.may_come.set()
        outcome = await asyncio.wait_for(handle.result(), 60)
        settled = await ledger.balance(handle.id)
        wrong = await ledger.recount()
    assert held is not None and settled is not None
    assert (seen.status, held.account.calls) == (Status.RUNNING, 1)
    assert (outcome.status, outcome.result, wrong) == (Status.COMPLETED, "found", [])
    assert (settled.account.calls, settled.account.spent["tokens"]) == (0, 1_000)
