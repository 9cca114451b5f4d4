"""The last agents of a budget: they may work in processes of their own as well, and then send nobody."""

from pathlib import Path

import pytest

from gencode.app import GenCode
from gencode.core.budget import Budget
from gencode.core.events import TaskCreated, TaskEnded, TaskStarted
from gencode.core.reasons import EndReason
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.delegation.forks import Fork
from gencode.delegation.slices import Slices
from gencode.runtime.ports import TaskQuery
from gencode.runtime.purse import Purse
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says, scripted
from tests.control.test_apart_budgets import sent
from tests.control.test_queue_story import write_agent
from tests.control.words import results, said
from tests.surfaces.running import gen as command
from tests.surfaces.running import script

TOLD, FOUND = says("told"), says("found")


@pytest.mark.parametrize(
    ("agents", "depth", "spawns"),
    [(1, 2, [0]), (2, 2, [0, 0]), (3, 2, [0, 0]), (9, 2, [2, 2]), (9, 1, [0, 0])],
)
async def test_as_many_agents_are_sent_to_processes_of_their_own_as_a_budget_has(
    tmp_path: Path, home: Path, agents: int, depth: int, spawns: list[int]
) -> None:
    write_agent(home / ".gen" / "agents", "lead", "Task(Explore)")
    leads = [call("Task", subagent_type="lead", prompt="go", isolation="process") for _ in spawns]
    model = script(tmp_path, main=[says("", *leads), TOLD], lead=[FOUND])
    bounds = {"max_spawns": agents, "max_depth": depth}
    async with GenCode.open(tmp_path, model=model, settings=bounds) as gen:
        talk = await gen.ask("go").outcome()
        tasks = await gen.store.tasks(TaskQuery(parent=talk.agent_id))
    assert [(each.status, each.budget.spawns) for each in tasks] == [
        (Status.COMPLETED, each) for each in spawns
    ]


@pytest.mark.parametrize(("agents", "sends"), [(1, False), (2, True)])
async def test_one_that_took_none_along_gets_an_agent_where_its_sender_has_one(
    tmp_path: Path, home: Path, agents: int, sends: bool
) -> None:
    write_agent(home / ".gen" / "agents", "lead", "Task(Explore)")
    one = call("Task", subagent_type="lead", prompt="go", isolation="process")
    below = call("Task", subagent_type="Explore", prompt="look")
    model = script(tmp_path, main=[says("", one), TOLD], lead=[says("", below), TOLD], Explore=[FOUND])
    bounds = {"max_spawns": agents, "max_depth": 2}
    # The process of its own reads the depth from its surroundings.
    (home / ".gen" / "settings.toml").write_text("max_depth = 2\n")
    async with GenCode.open(tmp_path, model=model, settings=bounds) as gen:
        await gen.ask("go").outcome()
        [lead] = [each for each in await gen.store.tasks(TaskQuery()) if each.agent == "lead"]
        [heard] = results(await said(gen, lead.id))
    assert lead.status is Status.COMPLETED
    assert ("found" in heard) is sends
    assert ("The budget of 0 agents of agent lead is spent." in heard) is not sends


async def test_a_budget_may_let_nobody_be_sent(tmp_path: Path) -> None:
    main = [says("", *sent(1)), TOLD]
    async with scripted(tmp_path, settings={"max_spawns": 0}, main=main, Explore=[FOUND]) as gen:
        talk = await gen.ask("go").outcome()
        assert results(await said(gen, talk.agent_id)) == ["The budget of 0 agents of the session is spent."]
        assert (talk.result, await gen.tasks(talk.agent_id)) == ("told", [])


def test_no_agent_at_all_can_be_said_on_the_command_line(tmp_path: Path) -> None:
    model = script(tmp_path, main=[says("", *sent(1)), TOLD], Explore=[FOUND])
    ended = command("-p", "go", "--max-spawns", "0", "--model", model, "--json", cwd=tmp_path).json
    assert (ended["result"], ended["tasks"]) == ("told", [])


async def test_the_last_agent_may_be_a_fork_elsewhere_which_sends_nobody(tmp_path: Path) -> None:
    model = script(tmp_path, Explore=[FOUND, says("more")])
    async with GenCode.open(tmp_path, model=model, settings={"max_spawns": 1}) as gen:
        first = await gen.watch.ended(await gen.work.detach(TaskRequest("Explore", "look")), 60)
        fork, _ = await gen.work.fork_apart(first.id, Fork(), TaskRequest("", "again"))
        forked = await gen.watch.ended(fork, 60)
    assert (forked.status, forked.result, forked.budget) == (Status.COMPLETED, "more", Budget(spawns=0))


async def test_one_that_may_send_nobody_has_nothing_to_give_to_others() -> None:
    store, budget = MemoryStore(), Budget(tokens=100_000, spawns=1)
    top = await store.create(TaskCreated(agent="main", conversation=True, budget=budget), "here")
    await store.append(
        top, [TaskStarted("m"), TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED)], last=True
    )
    own = Budget(tokens=20_000, spawns=0)
    await store.create(TaskCreated(agent="Explore", parent=top.task, budget=own), "there", [TaskStarted("m")])
    session = await store.task(top.task)
    assert session is not None
    abroad = await Slices(store, "here", lambda _: None).look(session, Purse("the session", budget))
    assert (abroad.giver, abroad.kept["tokens"], abroad.kept["spawns"]) == ("", 20_000, 0)
