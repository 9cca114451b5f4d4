"""Which tools of programs run in a task of their own."""

import asyncio
from pathlib import Path
from typing import Any

from gencode.agent.toolbox import ToolContext, tool
from gencode.app import GenCode
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says


async def test_one_that_awaits_nothing_costs_no_task_of_its_own(tmp_path: Path) -> None:
    ran: dict[str, str] = {}

    @tool(effect="read", name="Plain")
    async def plain(ctx: ToolContext) -> str:
        """Know it by heart."""
        ran["Plain"] = named(asyncio.current_task())
        return "4"

    @tool(effect="read", name="Waiting")
    async def waiting(ctx: ToolContext) -> str:
        """Look it up."""
        ran["Waiting"] = named(asyncio.current_task())
        await asyncio.sleep(0)
        return "5"

    def named(task: asyncio.Task[Any] | None) -> str:
        work = task.get_coro() if task is not None else None
        return getattr(work, "__qualname__", "")

    model = ScriptedProvider.of({"main": [says("", call("Plain")), says("", call("Waiting")), says("9")]})
    async with GenCode.open(tmp_path, model=model, store=MemoryStore(), tools=[plain, waiting]) as gen:
        outcome = await gen.ask("go").outcome()
    assert (outcome.result, ran) == ("9", {"Plain": "Supervisor._work", "Waiting": "Tool.run"})
