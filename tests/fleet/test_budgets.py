"""One budget for a session whose agents work on several machines."""

import asyncio
import json
import os
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import to_builtins

from gencode import GenCode
from gencode.core.messages import Usage
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.journal.store import TaskQuery
from gencode.tasks.service import MessageKept
from tests.fleet.driving import Fleet
from tests.postgres import Postgres
from tests.waiting import Gate, until

pytestmark = pytest.mark.needs("postgres")

ENDED = {Status.COMPLETED, Status.LIMIT_REACHED}
LARGEST = 9_000


def write(folder: Path, agents: int, turns: int, tokens: int) -> str:
    """A conversation that sends agents side by side, each of which spends so many tokens in each turn."""
    usage = to_builtins(Usage(tokens - 10, 10))
    read = {"name": "Read", "input": {"file_path": "note.txt"}}
    asked = {"subagent_type": "general-purpose", "prompt": "look", "isolation": "process"}
    call = {"name": "Task", "input": {**asked, "run_in_background": True}}
    spends = [*({"calls": [read], "usage": usage} for _ in range(turns)), {"text": "done", "usage": usage}]
    main = [{"calls": [call] * agents, "usage": usage}, *({"text": "on", "usage": usage} for _ in range(30))]
    (folder / "note.txt").write_text("a note\n")
    path = folder / "script.json"
    path.write_text(json.dumps({"agents": {"main": main, "*": spends}}))
    return f"scripted:{path}"


async def machines(stack: AsyncExitStack, url: str, folder: Path, count: int) -> None:
    """So many workers, each with connections of its own."""
    from gencode.fleet.worker import Worker, WorkerOptions
    from gencode.stores.pg_fleet import FleetStore

    async def ended(worker: Worker, working: "asyncio.Task[None]") -> None:
        worker.drain()
        await working

    for _ in range(count):
        store = await FleetStore.open(url)
        stack.push_async_callback(store.close)
        worker = Worker(store, WorkerOptions(8, folder, folder / "home", agents=("general-purpose",)))
        stack.push_async_callback(ended, worker, asyncio.ensure_future(worker.work()))


@settings(
    max_examples=int(os.environ.get("GEN_EXAMPLES", "2")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    limit=st.integers(20_000, 120_000),
    agents=st.integers(1, 4),
    turns=st.integers(0, 3),
    tokens=st.integers(1_000, LARGEST),
)
def test_agents_on_several_machines_exceed_the_budget_by_one_call_at_most(
    postgres: Postgres, tmp_path_factory: pytest.TempPathFactory, limit: int, **spends: int
) -> None:
    folder = tmp_path_factory.mktemp("spending")
    asyncio.run(check_spending(postgres.new_schema(), folder, limit, spends))


async def check_spending(url: str, folder: Path, limit: int, spends: dict[str, int]) -> None:
    model = write(folder, **spends)
    named = {"database_url": url, "permission_mode": "dontAsk", "max_tokens_total": limit}
    async with AsyncExitStack() as stack:
        await machines(stack, url, folder, 2)
        gen = await stack.enter_async_context(GenCode.open(folder, model=model, settings=named))
        session = (await gen.ask("go").outcome()).agent_id

        async def all_ended() -> bool:
            children = await gen.history.tasks(TaskQuery(parent=session))
            return all(child.status.ended for child in children)

        await until(all_ended, "all agents have ended")
        children = await gen.history.tasks(TaskQuery(parent=session))
        assert {child.status for child in children} <= ENDED
        spent = await gen.history.spent(session)
        assert spent.tokens < limit + LARGEST


async def test_what_is_left_goes_along_with_a_task_that_outlives_its_sender(
    postgres: Postgres, tmp_path: Path
) -> None:
    model = write(tmp_path, 1, 9, 8_000)
    url = postgres.new_schema()
    named: dict[str, Any] = {"database_url": url, "permission_mode": "dontAsk", "max_tokens_total": 30_000}
    async with AsyncExitStack() as stack:
        await machines(stack, url, tmp_path, 1)
        gen = await stack.enter_async_context(GenCode.open(tmp_path, model=model, settings=named))
        tasks = [(await gen.detach(TaskRequest("general-purpose", "look"))).agent_id for _ in range(2)]
        found = [await gen.history.ended(task, 60) for task in tasks]
        assert [task.terms.budget.tokens for task in found] == [30_000, 30_000]
        assert [task.status for task in found] == [Status.LIMIT_REACHED] * 2
        spent = [(await gen.history.spent(task)).tokens for task in tasks]
        assert all(22_000 <= tokens <= 38_000 for tokens in spent)

        with pytest.raises(MessageKept, match=r"The budget of 30,000 tokens .* is spent"):
            await gen.send(tasks[0], "more")
        assert await gen.find(tasks[0]) == found[0]
        assert (await gen.history.spent(tasks[0])).tokens == spent[0]


async def test_what_an_agent_took_along_is_still_its_own_when_another_worker_goes_on_with_it(
    fleet: Fleet,
) -> None:
    usage = to_builtins(Usage(9_990, 10))
    read = {"name": "Read", "input": {"file_path": "note.txt"}}
    asked = {"subagent_type": "general-purpose", "prompt": "look", "isolation": "process"}
    one = {"name": "Task", "input": {**asked, "budget": {"tokens": 60_000}}}
    works = [
        {"calls": [read], "usage": usage},
        {"calls": [read], "usage": usage, "delay_ms": 4_000},
        {"text": "done", "usage": usage},
    ]
    main = [{"calls": [one], "usage": usage}, {"text": "told", "usage": usage}]
    path = fleet.folder / "took.json"
    path.write_text(json.dumps({"agents": {"main": main, "*": works}}))
    fleet.start(2, "--lease-seconds", "4", "--concurrency", "2")
    named = {"database_url": fleet.url, "max_tokens_total": 75_000}
    async with GenCode.open(fleet.folder, model=f"scripted:{path}", settings=named) as gen:
        turn = await gen.start_turn("go")

        async def sent() -> list[Task]:
            return [
                each
                for each in await gen.history.tasks(TaskQuery())
                if each.totals.turns and not each.conversation
            ]

        await until(sent, "the agent has taken its first turn")
        first, _ = await fleet.busy()
        first.send(signal.SIGKILL)
        outcome = await gen.outcome(turn)
        [agent] = await sent()
        spent = await gen.history.spent(turn.id)
    assert (agent.status, agent.end.error, agent.result) == (Status.COMPLETED, None, "done")
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "told")
    assert 40_000 <= spent.tokens <= 75_000


async def test_an_agent_on_a_worker_that_runs_out_gets_what_another_left_over(fleet: Fleet) -> None:
    usage, gate = to_builtins(Usage(9_990, 10)), Gate(fleet.folder)
    read = {"calls": [{"name": "Read", "input": {"file_path": "note.txt"}}], "usage": usage}
    sent = [
        {"name": "Task", "input": {"subagent_type": agent, "prompt": "look", "isolation": "process"}}
        for agent in ("Explore", "general-purpose")
    ]
    done = {"text": "done", "usage": usage}
    busy = [{"calls": [gate.call], "usage": usage}, *[read] * 4, done]
    agents = {"main": [{"calls": sent, "usage": usage}, done], "Explore": [done], "general-purpose": busy}
    path = fleet.folder / "left.json"
    path.write_text(json.dumps({"agents": agents}))
    fleet.start(2)
    named = {"database_url": fleet.url, "max_tokens_total": 130_000}
    async with GenCode.open(fleet.folder, model=f"scripted:{path}", settings=named) as gen:
        turn = await gen.start_turn("go")

        async def one_has_ended() -> bool:
            tasks = [each for each in await gen.history.tasks(TaskQuery()) if each.agent == "Explore"]
            return any(each.status.ended and gen.running.find(each.id) is None for each in tasks)

        await until(one_has_ended, "one has ended, and what it left came back")
        await until(gate.opened, "the other one goes on")
        outcome = await gen.outcome(turn)
        [agent] = [each for each in await gen.history.tasks(TaskQuery()) if each.agent == "general-purpose"]
        spent = await gen.history.spent(turn.id)
    assert (agent.status, agent.totals.turns, outcome.result) == (Status.COMPLETED, 6, "done")
    assert spent.tokens == 90_000
