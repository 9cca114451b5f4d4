"""Agents that a person or a program sends are agents of the session: they count where their tokens do."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gencode.app import GenCode, components
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.events import TaskCreated
from gencode.core.spec import Isolation, TaskRequest
from gencode.core.status import Status
from gencode.journal.dispatch import Handover
from gencode.journal.store import TaskQuery
from gencode.stores.memory import MemoryStore
from gencode.tasks.fork import Fork
from gencode.testing import call, says, scripted
from tests.interfaces.cli.running import gen as command
from tests.interfaces.cli.running import script
from tests.interfaces.http.serving import served
from tests.interfaces.mcp_server.offices import office, report
from tests.tasks.agent_file import write_agent
from tests.tasks.words import results, said
from tests.waiting import Gate, until

FOUND, TOLD = says("found"), says("told")
EXPLORE = [FOUND] * 9
SPENT = "The budget of 2 agents of the session is spent."
TWO = {"max_spawns": 2}
SENT = call("Task", subagent_type="Explore", prompt="look")


@pytest.mark.parametrize("isolation", ["", "process"])
async def test_a_program_sends_no_more_agents_than_its_session_may(
    tmp_path: Path, isolation: Isolation
) -> None:
    model = script(tmp_path, Explore=EXPLORE)
    async with GenCode.open(tmp_path, model=model, settings=TWO) as gen:
        for _ in range(2):
            assert (await gen.task("Explore", "look", isolation=isolation)).status is Status.COMPLETED
        with pytest.raises(UserMistake, match=SPENT):
            await gen.task("Explore", "look", isolation=isolation)
        assert len(await gen.tasks()) == 2


async def test_those_in_processes_of_their_own_work_side_by_side_up_to_the_last(tmp_path: Path) -> None:
    model = script(tmp_path, Explore=EXPLORE)
    async with GenCode.open(tmp_path, model=model, settings={"max_spawns": 3}) as gen:
        sent = [gen.task("Explore", "look", isolation="process") for _ in range(3)]
        assert {each.status for each in await asyncio.gather(*sent)} == {Status.COMPLETED}


async def test_what_an_agent_sends_counts_beside_itself(tmp_path: Path, home: Path) -> None:
    write_agent(home / ".gen" / "agents", "lead", "Task(Explore)")
    settings = {**TWO, "max_depth": 2}
    async with scripted(
        tmp_path, settings=settings, lead=[says("", SENT, SENT), TOLD], Explore=EXPLORE
    ) as gen:
        led = await gen.task("lead", "go")
        assert results(await said(gen, led.agent_id)) == ["found", SPENT]
        with pytest.raises(UserMistake, match=SPENT):
            await gen.task("Explore", "look")


async def test_a_client_of_the_mcp_server_sends_no_more_agents_than_its_session_may(tmp_path: Path) -> None:
    request: dict[str, Any] = {"subagent_type": "Explore", "prompt": "look"}
    async with office(tmp_path, {"Explore": EXPLORE}, TWO) as here, here.client() as client:
        answers = [report(await client.call_tool("Task", request)) for _ in range(3)]
    assert answers == ["found", "found", SPENT]


async def test_a_server_sends_no_more_agents_than_its_session_may(tmp_path: Path) -> None:
    async with served(tmp_path, settings=TWO, Explore=EXPLORE) as site:
        request = {"agent": "Explore", "prompt": "look"}
        answers = [await site.client.post("/api/tasks", request) for _ in range(3)]
    assert [each.status for each in answers[:2]] == [201, 201]
    assert answers[2].status >= 400 and SPENT in str(answers[2].json)


def test_the_agent_of_a_command_is_one_of_those_it_may_send(tmp_path: Path) -> None:
    words = ("task", "run", "Explore", "look", "--model", script(tmp_path, Explore=EXPLORE), "--max-spawns")
    assert command(*words, "1", cwd=tmp_path).code == 0
    for more in ((), ("--isolation", "process"), ("--background",)):
        refused = command(*words, "0", *more, cwd=tmp_path)
        assert (refused.code, refused.out) == (2, "")
        assert "The budget of 0 agents of the session is spent." in refused.err


async def test_one_that_outlives_its_session_takes_the_others_along_and_counts_only_there(
    tmp_path: Path,
) -> None:
    model = script(tmp_path, Explore=EXPLORE)
    async with GenCode.open(tmp_path, model=model, settings=TWO) as gen:
        begun = [await components(gen).tasks.service.detach(TaskRequest("Explore", "look")) for _ in range(3)]
        ended = [await gen.history.ended(each, 60) for each in begun]
    assert [(each.status, each.terms.budget) for each in ended] == [(Status.COMPLETED, Budget(spawns=1))] * 3


async def test_a_task_of_an_earlier_process_joins_as_an_agent_and_goes_on_as_none(tmp_path: Path) -> None:
    store = MemoryStore()
    async with scripted(tmp_path, store=store, Explore=EXPLORE) as gen:
        first = await gen.task("Explore", "look")
    async with scripted(tmp_path, store=store, settings=TWO, Explore=EXPLORE) as gen:
        for _ in range(2):
            assert (await gen.resume(first.agent_id, "more")).status is Status.COMPLETED
        second = await gen.task("Explore", "look too")
        with pytest.raises(UserMistake, match=SPENT):
            await gen.task("Explore", "one too many")
        assert (await gen.resume(second.agent_id, "more")).status is Status.COMPLETED


async def test_a_fork_that_goes_on_has_not_cost_its_session_twice(tmp_path: Path) -> None:
    used = [says("found", usage={"inputTokens": 90, "outputTokens": 10})] * 9
    async with scripted(tmp_path, settings={"max_tokens_total": 350, "max_spawns": 3}, Explore=used) as gen:
        first = await gen.task("Explore", "look")
        fork = await gen.start_fork(first.agent_id, Fork(), TaskRequest("", "another way"))
        await fork.ended()
        assert (await gen.resume(fork.id, "more")).status is Status.COMPLETED
        assert (await gen.task("Explore", "the last of three")).status is Status.COMPLETED


async def test_a_task_that_was_handed_over_and_goes_on_has_not_cost_its_session_twice(tmp_path: Path) -> None:
    used = [says("found", usage={"inputTokens": 90, "outputTokens": 10})] * 9
    created = TaskCreated(agent="Explore", prompt="look", cwd=str(tmp_path), background=True)
    async with scripted(tmp_path, settings={"max_tokens_total": 350}, Explore=used) as gen:
        first = await gen.take_on(Handover("", created, background=True))
        await first.ended()
        for _ in range(3):
            more = await gen.take_on(Handover("", task=first.id, prompt="more", background=True))
            assert (await more.ended()).status is Status.COMPLETED
        with pytest.raises(UserMistake, match="The budget of 350 tokens of the session is spent"):
            await gen.resume(first.id, "more")


async def test_one_that_can_send_nobody_keeps_no_agents_from_those_sent_beside_it(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    lasting = call("Task", subagent_type="Bash", prompt="l", isolation="process", run_in_background=True)
    model = script(tmp_path, main=[*[says("", lasting)] * 5, *[TOLD] * 6], Bash=[says("", gate.call), FOUND])
    async with GenCode.open(tmp_path, model=model, settings={"max_spawns": 5}) as gen:
        asking = asyncio.ensure_future(gen.ask("go").outcome())

        async def it_has_asked_for_all() -> bool:
            return any(each.totals.turns > 5 for each in await gen.history.tasks(TaskQuery(roots=True)))

        await until(it_has_asked_for_all, "it has asked for all agents that it may send")
        sent = await gen.history.tasks(TaskQuery(agent="Bash"))
        assert [each.status.ended for each in sent] == [False] * 5

        def all_have_passed() -> bool:
            gate.opened()
            return asking.done()

        await until(all_have_passed, "all have passed the gate")
        assert (await asking).status is Status.COMPLETED
