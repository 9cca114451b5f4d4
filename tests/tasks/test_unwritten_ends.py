"""Tasks whose end cannot be written, because the store is away: they hold up nobody once it is back."""

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import closing
from pathlib import Path

import pytest

from gencode.agent.ports import Request
from gencode.app import GenCode
from gencode.core.budget import Budget
from gencode.core.messages import EndPart, Part, TextPart, Usage
from gencode.core.status import EndReason, Status
from gencode.places import database
from gencode.stores import group_commit
from tests.waiting import until


class Waits:
    """A model whose first reply waits until it may come."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_come = asyncio.Event()

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Say something, at once but for the first time."""
        self.asked += 1
        if self.asked == 1:
            await self.may_come.wait()
        yield TextPart("found")
        yield EndPart("m", usage=Usage(900, 100))


async def test_a_call_whose_reply_could_not_be_written_keeps_nobody_waiting_once_the_store_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Waits()
    async with GenCode.open(tmp_path, model=model) as gen:
        await gen.budgets.set_all(Budget(tokens=15_000))
        first = await gen.task("Explore", "look", background=True)
        await until(lambda: model.asked == 1, "the first is asking its model")
        with (
            closing(sqlite3.connect(database(), isolation_level=None)) as other,
            monkeypatch.context() as short,
        ):
            short.setattr(group_commit, "PATIENCE", 0.05)
            other.execute("BEGIN IMMEDIATE")
            model.may_come.set()
            await until(lambda: gen.running.find(first.id) is None, "it was given up")
            other.execute("ROLLBACK")
        second = await asyncio.wait_for(gen.task("Explore", "look"), 60)
        lost = await gen.history.ended(first.id, 60)
        with closing(sqlite3.connect(database())) as other:
            [(holds,)] = other.execute("SELECT count(*) FROM gen_hold")
        again = await gen.resume(first.id, "once more")
    assert (second.status, second.result) == (Status.COMPLETED, "found")
    assert (lost.status, lost.end.reason) == (Status.INTERRUPTED, EndReason.PROCESS_LOST)
    assert (holds, again.status) == (0, Status.COMPLETED)
