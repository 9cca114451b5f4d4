"""The last agents of a budget: they may work in processes of their own as well, and then send nobody."""

from pathlib import Path

import pytest

from gencode.app import GenCode, components
from gencode.core.budget import Budget
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.journal.store import TaskQuery
from gencode.tasks.fork import Fork
from gencode.testing import call, says, scripted
from tests.interfaces.cli.running import gen as command
from tests.interfaces.cli.running import script
from tests.tasks.agent_file import write_agent
from tests.tasks.call_costs import sent
from tests.tasks.words import results, said

TOLD, FOUND = says("told"), says("found")


@pytest.mark.parametrize(("agents", "sent_off"), [(1, 1), (2, 2), (9, 2)])
async def test_as_many_agents_are_sent_to_processes_of_their_own_as_a_budget_has(
    tmp_path: Path, home: Path, agents: int, sent_off: int
) -> None:
    write_agent(home / ".gen" / "agents", "lead", "Task(Explore)")
    leads = [call("Task", subagent_type="lead", prompt="go", isolation="process") for _ in range(2)]
    model = script(tmp_path, main=[says("", *leads), TOLD], lead=[FOUND])
    bounds = {"max_spawns": agents, "max_depth": 2}
    async with GenCode.open(tmp_path, model=model, settings=bounds) as gen:
        talk = await gen.ask("go").outcome()
        tasks = await gen.history.tasks(TaskQuery(parent=talk.agent_id))
    assert [each.status for each in tasks] == [Status.COMPLETED] * sent_off


@pytest.mark.parametrize(("agents", "sends"), [(1, False), (2, True)])
async def test_one_in_a_process_of_its_own_sends_an_agent_where_the_session_has_one_left(
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
        [lead] = [each for each in await gen.history.tasks(TaskQuery()) if each.agent == "lead"]
        [heard] = results(await said(gen, lead.id))
    assert lead.status is Status.COMPLETED
    assert ("found" in heard) is sends
    assert ("The budget of 1 agent of the session is spent." in heard) is not sends


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
        first = await gen.history.ended(
            await components(gen).tasks.service.detach(TaskRequest("Explore", "look")), 60
        )
        fork, _ = await gen.detach_fork(first.id, Fork(), TaskRequest("", "again"))
        forked = await gen.history.ended(fork, 60)
    assert (forked.status, forked.result, forked.terms.budget) == (Status.COMPLETED, "more", Budget(spawns=0))
