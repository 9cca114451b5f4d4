"""The last part of a budget: however many processes spend from it, it is exceeded by one call at most."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.outcome import Outcome
from gencode.core.status import Status
from gencode.journal.store import TaskQuery
from gencode.stores.memory import MemoryStore
from gencode.tasks.queries import spent_by
from gencode.testing import call, says, scripted
from tests.tasks.budget_tree import woken
from tests.tasks.forks import forks

EXAMPLES = int(os.environ.get("GEN_EXAMPLES", "12"))
DEAREST = 2_000
FREE = {"prices": {"ScriptedProvider": {"input": 0.0, "output": 0.0}}}
"""A price that is wrong: the script says what its calls cost."""
AGENTS = 5
SENT = [call("Task", subagent_type="Explore", prompt=f"look {number}") for number in range(AGENTS)]


def costs(thousandths: int) -> dict[str, float]:
    """So many thousandths of the dearest call."""
    tokens = DEAREST * thousandths // 1000
    return {
        "inputTokens": tokens // 2,
        "outputTokens": tokens - tokens // 2,
        "usd": 0.01 * thousandths / 1000,
    }


MAIN = [says("", *SENT, usage=costs(1000)), says("told", usage=costs(1000))]
FOUND = says("found", usage=costs(1000))
BEFORE = AGENTS + 2
"""So many of the dearest calls the conversation and its agents make at first."""


async def begun(store: MemoryStore, folder: Path, budget: Budget) -> tuple[str, list[str]]:
    """A conversation at rest that has sent its agents, and these."""
    async with scripted(folder, store=store, settings=FREE, main=MAIN, Explore=[FOUND]) as gen:
        await gen.budgets.set_all(budget)
        outcome = await gen.ask("go").outcome()
        return outcome.agent_id, [each.agent_id for each in await gen.tasks(outcome.agent_id)]


def working(amounts: Sequence[int], pauses: Sequence[int]) -> list[dict[str, object]]:
    """What an agent says when it is woken: calls that cost so much, after such pauses."""
    look = call("LS", path=".")
    turns = ({**says("", look, usage=costs(amounts[each % len(amounts)]))} for each in range(30))
    return [FOUND, *({**turn, "delay_ms": pauses[at % len(pauses)]} for at, turn in enumerate(turns))]


@settings(max_examples=EXAMPLES)
@given(
    calls=st.integers(1, 40),
    bounded=st.sampled_from(["tokens", "usd", "both"]),
    amounts=st.lists(st.integers(100, 1000), min_size=1, max_size=5),
    pauses=st.lists(st.integers(0, 3), min_size=1, max_size=4),
    starts=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3)), min_size=2, max_size=AGENTS),
    stop=st.none() | st.tuples(st.integers(0, 3), st.integers(0, 12)),
)
def test_whoever_spends_wherever_a_budget_is_exceeded_by_one_call_at_most(
    calls: int,
    bounded: str,
    amounts: list[int],
    pauses: list[int],
    starts: list[tuple[int, int]],
    stop: tuple[int, int] | None,
) -> None:
    tokens, usd = DEAREST * (BEFORE + calls), round(0.01 * (BEFORE + calls), 2)
    budget = Budget(tokens=tokens if bounded != "usd" else None, usd=usd if bounded != "tokens" else None)

    async def scenario(folder: Path) -> None:
        store = MemoryStore()
        session, tasks = await begun(store, folder, budget)
        async with AsyncExitStack() as stack:
            script = working(amounts, pauses)
            opened = [scripted(folder, store=store, settings=FREE, Explore=script) for _ in range(4)]
            processes = [await stack.enter_async_context(each) for each in opened]

            async def later(task: str, pause: int, process: int) -> Outcome | str:
                await asyncio.sleep(pause / 1000)
                return await woken(processes[process], task)

            async def stopped(number: int, pause: int) -> None:
                await asyncio.sleep(pause / 1000)
                with suppress(UserMistake):
                    await processes[0].stop(tasks[number])

            crowd = [later(task, *start) for task, start in zip(tasks, starts, strict=False)]
            await asyncio.gather(*crowd, *([stopped(*stop)] if stop else ()))
        spent = await spent_by(store, session)
        assert budget.tokens is None or spent.tokens < budget.tokens + DEAREST
        assert budget.usd is None or spent.usd < budget.usd + 0.01

    with TemporaryDirectory() as folder:
        asyncio.run(scenario(Path(folder)))


async def test_forks_in_several_processes_at_once_are_no_more_than_agents_are_left(tmp_path: Path) -> None:
    store = MemoryStore()
    session, tasks = await begun(store, tmp_path, Budget(spawns=AGENTS + 2))
    async with AsyncExitStack() as stack:
        processes = [
            await stack.enter_async_context(scripted(tmp_path, store=store, Explore=[FOUND] * 3))
            for _ in range(3)
        ]
        made = await asyncio.gather(*(forks(gen, tasks[0]) for gen in processes * 2))
    begun_ones = [each for each in made if isinstance(each, Outcome)]
    assert [each.status for each in begun_ones] == [Status.COMPLETED] * 2
    assert {each for each in made if isinstance(each, str)} == {
        f"The budget of 7 agents of the session is spent. To raise it: gen task budget {session} spawns N."
    }
    assert len(await store.tasks(TaskQuery())) == 1 + AGENTS + 2
