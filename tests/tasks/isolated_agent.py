"""An agent in a process of its own."""

import asyncio
import json
from pathlib import Path
from typing import Any

from gencode import GenCode
from gencode.app import components
from gencode.testing import call, says

LOOK = says("I look around.", call("Glob", pattern="*"))
SLOW = says("never said", delay_ms=600_000)


def played(folder: Path, **agents: list[dict[str, Any]]) -> str:
    """A script in a file, so that another process can play it, too."""
    path = folder / "script.json"
    path.write_text(json.dumps({"agents": agents}))
    return f"scripted:{path}"


async def owner_of(gen: GenCode, task: str) -> int:
    """The process that has the lease of a task."""
    (owner,) = [held.owner for held in await components(gen).store.owned() if held.task == task]
    return int(owner.split("|")[2])


async def child_of(gen: GenCode, parent: str) -> str:
    """The first task that was sent, once it has looked around."""
    async with asyncio.timeout(60):
        while True:
            for child in await gen.tasks(parent=parent):
                if child.turns:
                    return child.agent_id
            await asyncio.sleep(0.02)
