"""Whoever waits for an agent on a worker dies, or the worker does: what the agent comes to is heard once."""

import json
import signal
from pathlib import Path

import pytest

from gencode.core.budget import Budget
from gencode.core.events import TaskBackgrounded
from gencode.core.messages import ToolMessage, UserMessage
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.core.task import transcript_of
from gencode.testing import reported
from tests.fleet.driving import Fleet, runs
from tests.interfaces.cli.running import gen as command
from tests.interfaces.cli.running import start
from tests.waiting import until

pytestmark = pytest.mark.needs("postgres")

SLOW = {"text": "found it", "delay_ms": 4_000}


def script(folder: Path, agent: str) -> str:
    """Main sends one agent and waits for it."""
    send = {"name": "Task", "input": {"subagent_type": agent, "prompt": "look", "isolation": "process"}}
    main = [{"calls": [send]}, *({"text": f"word {number}"} for number in range(4))]
    path = folder / f"{agent}.json"
    path.write_text(json.dumps({"agents": {"main": main, agent: [SLOW]}}))
    return f"scripted:{path}"


async def child_of(fleet: Fleet, agent: str, *statuses: str) -> tuple[str, str]:
    """The conversation that sent an agent, and that one's task, once it is so far; nobody else looks."""

    def so_far() -> list[list[str]]:
        rows = fleet.rows("SELECT agent, status, parent, id FROM gen_task")
        return [row[2:] for row in rows if row[0] == agent and row[1] in statuses]

    await until(lambda: bool(so_far()), f"{agent} is {statuses}")
    [[parent, task]] = so_far()
    return parent, task


@pytest.mark.parametrize(("agent", "first"), [("Explore", "completed"), ("Plan", "running")])
async def test_what_its_agent_came_to_before_it_went_on_or_meanwhile_is_told_once(
    standing: Fleet, agent: str, first: str
) -> None:
    model, folder, where = script(standing.folder, agent), standing.folder, {"GEN_DATABASE_URL": standing.url}
    sender = start("-p", "go", "--model", model, cwd=folder, **where)
    await child_of(standing, agent, "running")
    sender.send_signal(signal.SIGKILL)
    sender.communicate()
    session, task = await child_of(standing, agent, first, "completed")
    for _ in range(2):
        again = command("-p", "go on", "--resume", session, "--model", model, cwd=folder, **where)
        assert again.code == 0, again.err
    async with standing.open() as gen:
        told = transcript_of(await gen.history.events(session))
        assert (await gen.find(task)).status is Status.COMPLETED
    (answers,) = [each for each in told if isinstance(each, ToolMessage)]
    assert f"Task {task} ({agent}) " in answers.results[0].text
    given = [each for each in told if isinstance(each, UserMessage) and each.delivers]
    assert [(reported(each.text), each.delivers) for each in given] == [
        (f"[The background task {task} of {agent} has finished]\nfound it", (task,))
    ]


async def test_who_waits_for_an_agent_goes_on_waiting_when_another_worker_takes_it_over(fleet: Fleet) -> None:
    send = {"name": "Task", "input": {"subagent_type": "Explore", "prompt": "x", "isolation": "process"}}
    look = {"text": "I look.", "calls": [{"name": "Read", "input": {"file_path": "note.txt"}}]}
    fleet.write({"main": [{"calls": [send]}, {"text": "all"}], "Explore": [look, SLOW]})
    fleet.start(2)
    async with fleet.open() as gen:
        turn = await gen.start_turn("go")
        _, task = await child_of(fleet, "Explore", "running")
        first, _ = await fleet.busy()
        first.send(signal.SIGKILL)
        outcome = await gen.outcome(turn)
        told = transcript_of(await gen.history.events(turn.id))
        events = await gen.history.events(task)
    (answers,) = [each for each in told if isinstance(each, ToolMessage)]
    assert (outcome.result, [reported(each.text) for each in answers.results]) == ("all", ["found it"])
    assert runs(events) == 2
    assert [each for each in events if isinstance(each.fact, TaskBackgrounded)] == []


async def test_who_speaks_to_a_task_without_budget_is_told_so(standing: Fleet) -> None:
    where = {"GEN_DATABASE_URL": standing.url}
    async with standing.open() as gen:
        budget = Budget(turns=1)
        task = (await gen.detach(TaskRequest("Bash", "look", budget=budget))).agent_id
        ended = await gen.history.ended(task, 60)
    assert ended.status is Status.LIMIT_REACHED
    said = command("task", "send", task, "and now?", cwd=standing.folder, **where)
    assert (said.code, said.out) == (1, "")
    assert (ended.end.error or "?") in said.err
    assert f"gen task resume {task}" in said.err
