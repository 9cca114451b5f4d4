"""One budget, several processes: agents that are woken at the same moment together stay within it."""

import asyncio
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gencode.app import GenCode
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.outcome import Outcome
from gencode.core.status import Status
from gencode.stores.memory import MemoryStore
from gencode.testing import says, scripted
from tests.interfaces.cli.running import SECONDS, gen, script, start
from tests.stories.detached_agent import worker_of
from tests.tasks.agent_file import write_agent
from tests.tasks.budget_tree import (
    BEFORE,
    COSTS,
    EXPLORE,
    MAIN,
    SENT,
    WAIT,
    Gate,
    begun,
    slowly,
    so,
    tokens,
    turns,
    woken,
)

EXAMPLES = int(os.environ.get("GEN_EXAMPLES", "12"))


@settings(max_examples=EXAMPLES)
@given(
    left=st.integers(1, 12),
    pauses=st.lists(st.integers(0, 4), min_size=1, max_size=4),
    together=st.lists(st.integers(0, 2), min_size=4, max_size=4),
    leads=st.none() | st.tuples(st.integers(0, 6), st.integers(0, 2)),
)
def test_agents_and_who_leads_them_anywhere_together_spend_what_is_left_and_no_more(
    left: int, pauses: list[int], together: list[int], leads: tuple[int, int] | None
) -> None:
    async def scenario(folder: Path) -> None:
        store = MemoryStore()
        session, tasks = await begun(store, folder, Budget(turns=BEFORE + left))
        async with AsyncExitStack() as stack:
            scripts: dict[str, Any] = {"main": MAIN, "Explore": slowly(pauses[0])}
            processes = [
                await stack.enter_async_context(scripted(folder, store=store, **scripts)) for _ in range(3)
            ]
            crowd = zip(tasks[: len(pauses)], pauses, together, strict=False)

            async def later(task: str, pause: int, process: int) -> Outcome | str:
                await asyncio.sleep(pause / 1000)
                return await woken(processes[process], task)

            async def led(pause: int, process: int) -> Outcome | str:
                await asyncio.sleep(pause / 1000)
                try:
                    return await processes[process].ask("go on", session=session).outcome()
                except UserMistake as refusal:
                    return str(refusal)

            await asyncio.gather(*(later(*each) for each in crowd), *([led(*leads)] if leads else ()))
            assert await turns(store) - BEFORE == left

    with TemporaryDirectory() as folder:
        asyncio.run(scenario(Path(folder)))


async def test_siblings_that_are_woken_below_an_ended_agent_share_what_its_budget_leaves(
    tmp_path: Path, home: Path
) -> None:
    write_agent(home / ".gen" / "agents", "lead", "Task(Explore), LS")
    lead = [says("", *SENT), says("led")]
    store = MemoryStore()
    deep = {"max_depth": 2}
    async with scripted(tmp_path, store=store, settings=deep, lead=lead, Explore=EXPLORE) as gen:
        led = await gen.task("lead", "go", budget=Budget(turns=BEFORE + 7))
        first, second, *_ = [each.agent_id for each in await gen.tasks(led.agent_id)]
        async with scripted(tmp_path, store=store, settings=deep, Explore=slowly(1)) as other:
            ended = await asyncio.gather(woken(gen, first), woken(gen, second), woken(other, first))
        with pytest.raises(UserMistake, match="The budget of 13 turns of agent lead is spent"):
            await gen.resume(second, "more")
    assert await turns(store) == BEFORE + 7
    assert sum(isinstance(each, Outcome) for each in ended) >= 2


async def test_an_agent_that_is_woken_alone_gets_all_that_is_left(tmp_path: Path) -> None:
    store = MemoryStore()
    _, tasks = await begun(store, tmp_path, Budget(turns=BEFORE + 9))
    async with scripted(tmp_path, store=store, Explore=slowly(0)) as gen:
        outcome = await gen.resume(tasks[0], "more")
    assert (outcome.status, outcome.turns) == (Status.LIMIT_REACHED, 10)
    assert outcome.error == "The budget of 15 turns of the session is spent."
    assert await turns(store) == BEFORE + 9


async def test_a_conversation_waits_for_a_call_elsewhere_before_it_says_that_the_budget_is_spent(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    session, tasks = await begun(store, tmp_path, Budget(turns=BEFORE + 8))
    gate = Gate(Explore=EXPLORE)
    async with (
        scripted(tmp_path, store=store, main=MAIN) as leader,
        GenCode.open(tmp_path, model=gate, store=store) as other,
    ):
        work = asyncio.ensure_future(woken(other, tasks[0], WAIT))
        await so(store, tasks[0], lambda task: not task.status.ended)
        turn = asyncio.ensure_future(leader.ask("go on", session=session).outcome())
        await so(store, session, lambda task: task.totals.turns == 2 + 7)
        assert not turn.done()
        gate.open.set()
        led, _ = await asyncio.gather(turn, work)
    assert (led.status, led.error) == (
        Status.LIMIT_REACHED,
        "The budget of 14 turns of the session is spent.",
    )
    assert await turns(store) == BEFORE + 8


def test_agents_that_are_woken_by_two_commands_at_once_stay_within_the_budget_of_their_session(
    tmp_path: Path, home: Path
) -> None:
    main = [says("", *SENT, usage=COSTS), says("told", usage=COSTS)]
    model = script(tmp_path, main=main, Explore=slowly(100))
    words = ("-p", "go", "--model", model, "--max-tokens-total", "1700", "--json")
    session = gen(*words, cwd=tmp_path).json["sessionId"]
    tasks = [each["agentId"] for each in gen("task", "list", "--json", cwd=tmp_path).json["tasks"]]
    sends = [start("task", "send", task, "more", cwd=tmp_path) for task in tasks[:2]]
    said = [send.communicate(timeout=SECONDS)[1] for send in sends]
    begun = [task for task, send in zip(tasks, sends, strict=False) if send.returncode == 0]
    refused = [words for words, send in zip(said, sends, strict=True) if send.returncode != 0]
    ended = [gen("task", "output", task, "--json", cwd=tmp_path).json["status"] for task in begun]
    assert ended == ["limit_reached"] * len(begun) != []
    assert all("The budget of 1,700 tokens of the session is spent" in words for words in refused)
    # Only one process may end with a call that is more than is left; who comes too late is refused.
    assert 1700 <= tokens(home, session) <= 1800


def test_what_a_process_had_that_was_killed_is_left_for_others(tmp_path: Path, home: Path) -> None:
    main = [says("", *SENT, usage=COSTS), says("told", usage=COSTS)]
    model = script(tmp_path, main=main, Explore=[EXPLORE[0], says("never", delay_ms=600_000)])
    words = ("-p", "go", "--model", model, "--max-tokens-total", "1000", "--json")
    session = gen(*words, cwd=tmp_path).json["sessionId"]
    tasks = [each["agentId"] for each in gen("task", "list", "--json", cwd=tmp_path).json["tasks"]]
    assert gen("task", "send", tasks[0], "more", cwd=tmp_path).code == 0
    os.kill(worker_of(home, tasks[0]), signal.SIGKILL)
    model = script(tmp_path, main=main, Explore=EXPLORE)
    woken = gen("task", "resume", tasks[1], "more", "--model", model, "--json", cwd=tmp_path).json
    assert (woken["status"], woken["error"]) == (
        "limit_reached",
        "The budget of 1,000 tokens of the session is spent.",
    )
    assert 1000 <= tokens(home, session) <= 1100
