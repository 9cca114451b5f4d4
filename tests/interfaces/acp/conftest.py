"""One `gen acp` for most tests: starting it costs more than most sessions."""

from collections.abc import AsyncGenerator

import pytest
import pytest_asyncio

from tests.interfaces.acp.driving import WAIT, Wired, wired

LEADER = """---
name: leader
description: Sends others.
tools: Task(Bash), Bash
---
You send others.
"""


ROOM = {"GEN_MAX_DEPTH": "2", "GEN_CONTEXT_TOKENS": "100000"}


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def shared_wire(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Wired, None]:
    """A process with a home of its own, in which an agent may send another."""
    home = tmp_path_factory.mktemp("acp-home")
    (home / "agents").mkdir()
    (home / "agents" / "leader.md").write_text(LEADER)
    words = ("--model", "offline", "--allow", f"Bash({WAIT})")
    async with wired(home, *words, GEN_HOME=str(home), **ROOM) as wire:
        yield wire


@pytest_asyncio.fixture(loop_scope="package")
async def wire(shared_wire: Wired) -> Wired:
    """The same with an editor that has just introduced itself, and says yes once to everything."""
    shared_wire.editor.forget()
    await shared_wire.introduce()
    return shared_wire
