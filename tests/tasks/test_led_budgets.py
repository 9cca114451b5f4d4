"""A budget that is being spent: agents are woken and forked elsewhere while their conversation is at work."""

import asyncio
import os
import signal
import subprocess
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
from gencode.journal.store import TaskQuery
from gencode.stores.memory import MemoryStore
from gencode.tasks.queries import spent_by
from gencode.testing import call, says, scripted
from tests.interfaces.cli.running import SECONDS, gen, script, start
from tests.stories.detached_agent import worker_of
from tests.suspending import suspend
from tests.tasks.budget_tree import (
    BEFORE,
    EXPLORE,
    MAIN,
    WAIT,
    Gate,
    begun,
    slowly,
    so,
    tokens,
    turns,
    woken,
)
from tests.tasks.first_call import CALL, COSTS, FIRST, FOUND
from tests.tasks.forks import forks as forked
from tests.waiting import Gate as Pipe
from tests.waiting import wait_until

EXAMPLES = int(os.environ.get("GEN_EXAMPLES", "8"))
AGENTS = 2
"""So many agents may be sent, or forked, beside the four that were sent before."""
LOOK = says("", call("LS", path="."), usage=COSTS)


async def test_an_agent_is_woken_elsewhere_while_its_conversation_is_at_work(tmp_path: Path) -> None:
    store = MemoryStore()
    session, tasks = await begun(store, tmp_path, Budget(turns=BEFORE + 9))
    gate = Gate(main=[*MAIN[:2], *[MAIN[-1]] * 30])
    async with (
        GenCode.open(tmp_path, model=gate, store=store) as leader,
        scripted(tmp_path, store=store, Explore=[EXPLORE[0], EXPLORE[1], says("found more")]) as other,
    ):
        led = asyncio.ensure_future(leader.ask(WAIT, session=session).outcome())
        await so(store, session, lambda task: not task.status.ended)
        ended = await woken(other, tasks[0])
        assert isinstance(ended, Outcome)
        assert (ended.status, ended.result) == (Status.COMPLETED, "found more")
        found = await store.task(session)
        assert found is not None
        assert not found.status.ended
        gate.open.set()
        assert (await led).status is Status.LIMIT_REACHED  # what was not spent is there for it
    assert await turns(store) == BEFORE + 9


async def test_an_agent_in_the_background_leaves_agents_to_others_while_there_are_any(tmp_path: Path) -> None:
    store = MemoryStore()
    session, tasks = await begun(store, tmp_path, Budget(turns=BEFORE + 12, spawns=6))
    behind = call("Task", subagent_type="Explore", prompt=WAIT, run_in_background=True)
    gate = Gate(main=[*MAIN[:2], says("", behind), says("out"), says("heard")], Explore=[says("done")])
    async with GenCode.open(tmp_path, model=gate, store=store) as leader:
        led = asyncio.ensure_future(leader.ask("send one", session=session).outcome())
        await so(store, session, lambda task: len(task.evidence.children) == 5)
        async with scripted(tmp_path, store=store, Explore=[EXPLORE[0], says("found more")]) as other:
            ended = await woken(other, tasks[0])
            assert isinstance(ended, Outcome)
            assert ended.result == "found more"
            forked = await other.fork(tasks[0], "again")  # it is the last agent that is left
            assert forked.status is Status.COMPLETED
            with pytest.raises(UserMistake, match="The budget of 6 agents of the session is spent"):
                await other.fork(tasks[0], "one too many")
        gate.open.set()
        assert (await led).status is Status.COMPLETED


@settings(max_examples=EXAMPLES)
@given(
    left=st.integers(1, 14),
    pauses=st.lists(st.integers(0, 40), min_size=1, max_size=4),
    together=st.lists(st.integers(0, 1), min_size=4, max_size=4),
    forks=st.lists(st.booleans(), min_size=4, max_size=4),
    pace=st.integers(0, 30),
    stop=st.none() | st.integers(20, 200),
)
def test_who_leads_and_who_is_woken_or_forked_meanwhile_never_spend_more_than_is_left(
    left: int, pauses: list[int], together: list[int], forks: list[bool], pace: int, stop: int | None
) -> None:
    async def scenario(folder: Path) -> None:
        store = MemoryStore()
        session, tasks = await begun(store, folder, Budget(turns=BEFORE + left, spawns=4 + AGENTS))
        main: list[Any] = [*MAIN[:2], *({**MAIN[-1], "delay_ms": pace} for _ in range(30))]
        async with AsyncExitStack() as stack:
            leader = await stack.enter_async_context(scripted(folder, store=store, main=main))
            scripts: dict[str, Any] = {"Explore": slowly(pace)}
            others = [
                await stack.enter_async_context(scripted(folder, store=store, **scripts)) for _ in range(2)
            ]

            async def later(task: str, pause: int, process: int, fork: bool) -> Outcome | str:
                await asyncio.sleep(pause / 1000)
                return await (forked if fork else woken)(others[process], task)

            led = asyncio.ensure_future(leader.ask("go on", session=session).outcome())
            await so(store, session, lambda task: task.totals.turns > 2 or task.status.ended)
            crowd = [later(*each) for each in zip(tasks, pauses, together, forks, strict=False)]
            if stop is not None:
                asyncio.get_running_loop().call_later(stop / 1000, led.cancel)
            await asyncio.gather(led, *crowd, return_exceptions=True)
            if stop is None:  # what nobody may spend any more is for whoever comes next
                while isinstance(await woken(others[0], tasks[0]), Outcome):
                    pass
                assert await turns(store) == BEFORE + left
        assert await turns(store) <= BEFORE + left
        everybody = await store.tasks(TaskQuery(parent=session))
        assert len(everybody) <= 4 + AGENTS
        assert all(each.run.started_at and each.status.ended for each in everybody)

    with TemporaryDirectory() as folder:
        asyncio.run(scenario(Path(folder)))


def led(folder: Path, home: Path, model: str, *bounds: str) -> "tuple[str, str, subprocess.Popen[str]]":
    """A conversation that waits at a gate after five calls: its id, an agent it has sent, and its process."""
    words = ("--model", model, "--json")
    most = ("--max-tokens-total", "300000", *bounds)
    session = gen("-p", "go", *most, *words, cwd=folder).json["sessionId"]
    task = gen("task", "list", "--json", cwd=folder).json["tasks"][0]["agentId"]
    leader = start("-p", "wait", "--session", session, *words, cwd=folder)
    wait_until(lambda: tokens(home, session) == 5 * CALL, "the conversation waits at its gate")
    return session, task, leader


def test_processes_share_a_budget_that_is_being_spent_and_a_killed_one_keeps_nothing(
    tmp_path: Path, home: Path
) -> None:
    pipe = Pipe(tmp_path)
    main = [*FIRST, says("", pipe.call, usage=COSTS), *[LOOK] * 30]
    slow = says("never", delay_ms=600_000)
    model = script(tmp_path, main=main, Explore=[FOUND, says("found more", usage=COSTS), slow])
    session, first, leader = led(tmp_path, home, model)

    # While it is at work, an agent of it is woken in another process, and comes to its end there.
    ended = gen("task", "resume", first, "more", "--model", model, "--json", cwd=tmp_path).json
    assert (ended["status"], ended["result"]) == ("completed", "found more")

    # One that was given a part and dies leaves it to the leader.
    assert gen("task", "send", first, "and more", "--json", cwd=tmp_path).json["woken"]
    os.kill(worker_of(home, first), signal.SIGKILL)
    pipe.open()
    said = leader.communicate(timeout=SECONDS)[1]
    assert "The budget of 300,000 tokens of the session is spent." in said
    assert 300_000 <= tokens(home, session) < 300_000 + CALL


def test_agents_are_forked_by_other_commands_while_their_conversation_is_at_work(
    tmp_path: Path, home: Path
) -> None:
    pipe = Pipe(tmp_path)
    main = [*FIRST, says("", pipe.call, usage=COSTS), *[LOOK] * 30]
    model = script(tmp_path, main=main, Explore=[FOUND, *[LOOK] * 3, FOUND])
    words = ("--model", model, "--json")
    session, first, leader = led(tmp_path, home, model, "--max-spawns", "4")

    here = gen("task", "fork", first, "another way", *words, cwd=tmp_path).json
    assert (here["status"], here["parentId"]) == ("completed", session)
    begun = gen("task", "fork", first, "and another", "--background", *words, cwd=tmp_path).json
    there = gen("task", "output", begun["agentId"], "--json", cwd=tmp_path).json
    assert (there["status"], there["parentId"]) == ("completed", session)

    # Both count as agents, so none is left for a third one.
    refused = gen("task", "fork", first, "one too many", cwd=tmp_path)
    assert (refused.code, "The budget of 4 agents of the session is spent." in refused.err) == (
        2,
        True,
    )
    pipe.open()
    said = leader.communicate(timeout=SECONDS)[1]
    assert "The budget of 300,000 tokens of the session is spent." in said
    assert 300_000 <= tokens(home, session) < 300_000 + CALL


def test_an_agent_is_woken_beside_a_conversation_whose_process_is_suspended(
    tmp_path: Path, home: Path
) -> None:
    pipe = Pipe(tmp_path)
    main = [*FIRST, says("", pipe.call, usage=COSTS), says("never")]
    model = script(tmp_path, main=main, Explore=[FOUND, says("found more", usage=COSTS)])
    session, task, leader = led(tmp_path, home, model)
    suspend(leader.pid)
    said = gen("task", "resume", task, "more", "--model", model, "--json", cwd=tmp_path)
    os.kill(leader.pid, signal.SIGKILL)
    leader.communicate(timeout=SECONDS)
    assert said.json["result"] == "found more"
    assert tokens(home, session) == 6 * CALL


@pytest.mark.needs("postgres")
async def test_a_budget_is_shared_in_the_same_way_through_a_database_of_many(
    tmp_path: Path, postgres: Any
) -> None:
    from gencode.stores.postgres import PostgresStore

    url = postgres.new_schema()
    stores = [await PostgresStore.open(url) for _ in range(2)]
    gate = Gate(main=[*MAIN[:2], says("led on")])
    try:
        async with (
            GenCode.open(tmp_path, model=gate, store=stores[0]) as leader,
            scripted(
                tmp_path, store=stores[1], main=MAIN, Explore=[*EXPLORE[:2], says("found more")]
            ) as other,
        ):
            await other.budgets.set_all(Budget(turns=BEFORE + 9))
            session = (await other.ask("go").outcome()).agent_id
            task = (await other.tasks(session))[0].agent_id
            led = asyncio.ensure_future(leader.ask(WAIT, session=session).outcome())
            await so(stores[0], session, lambda task: not task.status.ended)
            ended = await woken(other, task)
            assert isinstance(ended, Outcome)
            assert ended.status is Status.COMPLETED
            gate.open.set()
            assert (await led).result == "led on"
        spent = await spent_by(stores[0], session)
    finally:
        for store in stores:
            await store.close()
    assert BEFORE + 1 < spent.turns < BEFORE + 9
