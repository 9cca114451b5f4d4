"""GenCode as it is used: agents from files, the gate, the journal (`BENCH_JOURNAL=memory`: not on disk)."""

import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Annotated

from bench.workload import LOOKUP, OBSERVATION, SYSTEM, main

from gencode import GenCode, ToolContext, tool
from gencode.app import forgetful

MOST_AT_ONCE = 1_000
"""The largest number of agents that a workload lets work side by side."""

WORKER = f"""---
name: worker
description: Looks keys up.
model: inherit
tools:
  mode: allowlist
  allow: [lookup]
max-turns: 1000
---

{SYSTEM}
"""


@tool(effect="read", name="lookup", description=LOOKUP)
async def lookup(ctx: ToolContext, key: Annotated[str, "The key"]) -> str:
    """Look a key up."""
    return OBSERVATION


def write_agent(folder: Path) -> None:
    """The one agent of the benchmark, as a user would write it."""
    folder.mkdir(parents=True, exist_ok=True)
    Path(folder, "worker.md").write_text(WORKER)


class Ours:
    """GenCode through its Python door."""

    task_tool = "Task childarg=prompt arg.subagent_type=worker"

    async def open(self, url: str, streamed: bool) -> None:
        """Open a workspace with one agent; whether answers are streamed is up to the server."""
        os.environ["OPENAI_BASE_URL"] = f"{url}/v1"
        write_agent(Path(os.environ["GEN_HOME"], "agents"))
        store = forgetful() if os.environ.get("BENCH_JOURNAL") == "memory" else None
        told = {"allow": ["lookup", "Task"], "max_agents": MOST_AT_ONCE}
        opened = GenCode.open(model="openai/fake-model", tools=[lookup], settings=told, store=store)
        self._open = AsyncExitStack()
        self._gen = await self._open.enter_async_context(opened)

    async def one(self, script: str) -> str:
        """Run one subagent."""
        ended = await self._gen.task("worker", script)
        return ended.result or str(ended.error)

    async def spawn(self, script: str) -> str:
        """Run the main conversation."""
        ended = await self._gen.ask(script).outcome()
        return ended.result or str(ended.error)


if __name__ == "__main__":
    main(Ours())
