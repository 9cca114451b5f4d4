"""A tree of agents that share one budget, in one process or several."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from pathlib import Path

from gencode.agent.ports import Request
from gencode.app import GenCode
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.messages import Part, UserMessage
from gencode.core.outcome import Outcome
from gencode.core.task import Task
from gencode.journal.store import Store, TaskQuery
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.stores.sqlite import SqliteStore
from gencode.tasks.queries import spent_by
from gencode.testing import Turns, call, says, scripted
from tests.interfaces.cli.running import SECONDS

COSTS = {"inputTokens": 90, "outputTokens": 10}
LOOK = says("", call("LS", path="."), usage=COSTS)
SENT = [call("Task", subagent_type="Explore", prompt=f"look {number}") for number in range(4)]
MAIN = [says("", *SENT, usage=COSTS), says("told", usage=COSTS), *[LOOK] * 30]
EXPLORE = [says("found", usage=COSTS), *[LOOK] * 30]
WAIT = "wait for it"
BEFORE = 6
"""So many turns the conversation and its four agents take at first."""


async def begun(store: MemoryStore, folder: Path, budget: Budget) -> tuple[str, list[str]]:
    """A conversation at rest that has sent four agents, and these."""
    async with scripted(folder, store=store, main=MAIN, Explore=EXPLORE) as gen:
        await gen.budgets.set_all(budget)
        outcome = await gen.ask("go").outcome()
        return outcome.agent_id, [each.agent_id for each in await gen.tasks(outcome.agent_id)]


def slowly(pause: int) -> list[dict[str, object]]:
    """What an agent says who never comes to an end."""
    return [EXPLORE[0], *({**LOOK, "delay_ms": pause} for _ in range(30))]


def tokens(home: Path, session: str) -> int:
    """What a session in the database of this home has cost."""

    async def read() -> int:
        store = await SqliteStore.open(home / ".gen" / "gencode.db")
        try:
            return (await spent_by(store, session)).tokens
        finally:
            await store.close()

    return asyncio.run(read())


async def turns(store: MemoryStore) -> int:
    """How many turns everything in the journal has taken."""
    return sum(each.totals.turns for each in await store.tasks(TaskQuery()))


async def so(store: Store, task: str, how: Callable[[Task], bool]) -> None:
    """Wait until a task is like this."""
    async with asyncio.timeout(SECONDS):
        while True:
            found = await store.task(task)
            if found is not None and how(found):
                return
            await asyncio.sleep(0.005)


class Gate:
    """A model that plays a script; who was told to wait gets no answer before the gate is open."""

    def __init__(self, **agents: Turns) -> None:
        self._script = ScriptedProvider.of(agents)
        self.open = asyncio.Event()

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Answer, at once or later."""
        if any(isinstance(each, UserMessage) and WAIT in each.text for each in request.messages):
            await self.open.wait()
        async with aclosing(self._script.stream(request)) as parts:
            async for part in parts:
                yield part


async def woken(gen: GenCode, task: str, prompt: str = "more") -> Outcome | str:
    """What becomes of an agent that is woken, or why it is not."""
    try:
        return await gen.resume(task, prompt)
    except UserMistake as refusal:
        return str(refusal)
