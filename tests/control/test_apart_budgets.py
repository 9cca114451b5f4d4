"""Agents in processes of their own: what they and those they send spend counts, and one may exceed it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gencode.app import GenCode
from gencode.core.budget import Budget, Part
from gencode.core.errors import UserMistake
from gencode.core.events import BudgetShared, MessageAdded, TaskCreated, TaskEnded, TaskStarted
from gencode.core.messages import AssistantMessage, Usage
from gencode.core.reasons import EndReason
from gencode.core.status import Status
from gencode.delegation.family import Rejoined
from gencode.delegation.live import Live
from gencode.delegation.remote import Remote
from gencode.delegation.slices import Slices
from gencode.runtime.bus import Bus
from gencode.runtime.ports import Elsewhere, TaskQuery
from gencode.runtime.purse import Purse, Spent
from gencode.runtime.stop import Stop
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says, scripted
from tests.control.test_queue_story import write_agent
from tests.control.test_shared_budgets import tokens
from tests.surfaces.running import gen, script

CALL = 10_000
"""What every call costs."""
COSTS = {"inputTokens": CALL - 10, "outputTokens": 10}
LOOK = says("", call("Glob", pattern="*"), usage=COSTS)


def sent(agents: int, **words: object) -> list[dict[str, Any]]:
    return [call("Task", subagent_type="Explore", prompt=f"{n}", **words) for n in range(agents)]


@pytest.mark.parametrize(("left", "spends"), [(1, 1), (25_000, 3), (200_000, 11)])
def test_several_of_them_at_once_exceed_the_budget_of_their_session_by_one_call_together(
    tmp_path: Path, home: Path, left: int, spends: int
) -> None:
    main = [says("", *sent(4, isolation="process"), usage=COSTS), says("told", usage=COSTS)]
    model = script(tmp_path, main=main, Explore=[LOOK] * 30)
    budget = CALL + left
    ended = gen("-p", "go", "--model", model, "--max-tokens-total", str(budget), "--json", cwd=tmp_path)
    spent = tokens(home, ended.json["sessionId"])
    assert CALL * (spends + 1) <= spent < budget + CALL


async def test_several_of_them_that_are_sent_at_once_take_equal_parts_along(tmp_path: Path) -> None:
    main = [says("", *sent(4, isolation="process"), usage=COSTS), says("told", usage=COSTS)]
    model = script(tmp_path, main=main, Explore=[LOOK] * 6 + [says("found", usage=COSTS)])
    async with GenCode.open(tmp_path, model=model, settings={"max_tokens_total": CALL * 41}) as opened:
        talk = await opened.ask("go").outcome()
        tasks = await opened.store.tasks(TaskQuery(parent=talk.agent_id))
    assert [(each.budget, each.status) for each in tasks] == [(Budget(tokens=CALL * 8), Status.COMPLETED)] * 4


def test_one_that_is_alone_spends_all_it_took_along(tmp_path: Path, home: Path) -> None:
    main = [says("", *sent(1, isolation="process"), usage=COSTS), says("told", usage=COSTS)]
    model = script(tmp_path, main=main, Explore=[LOOK] * 30)
    said = gen("-p", "go", "--max-tokens-total", "215000", "--model", model, "--json", cwd=tmp_path).json
    [task] = gen("task", "list", "--json", cwd=tmp_path).json["tasks"]
    assert said["result"] == "told"
    assert tokens(home, task["agentId"]) == 110_000
    assert (task["status"], task["error"]) == (
        "limit_reached",
        "The budget of 102,500 tokens of agent Explore is spent.",
    )


def test_what_those_spend_whom_one_of_them_sends_counts_for_the_session(tmp_path: Path, home: Path) -> None:
    write_agent(home / ".gen" / "agents", "lead", "Task(Explore), Glob")
    lead = [says("", *sent(4), usage=COSTS), says("led", usage=COSTS)]
    one = call("Task", subagent_type="lead", prompt="go", isolation="process")
    main = [says("", one, usage=COSTS), *[LOOK] * 60]
    model = script(tmp_path, main=main, lead=lead, Explore=[says("found", usage=COSTS)])
    words = ("-p", "go", "--model", model, "--max-tokens-total", "250000", "--json")
    ended = gen(*words, cwd=tmp_path, GEN_MAX_DEPTH="2").json
    assert ended["error"] == "The budget of 250,000 tokens of the session is spent."
    assert tokens(home, ended["sessionId"]) == 250_000


def test_what_one_takes_along_that_a_woken_agent_sends_is_of_the_part_of_that_one(
    tmp_path: Path, home: Path
) -> None:
    write_agent(home / ".gen" / "agents", "lead", "Task(Explore), Glob")
    again = [says("", *sent(3, isolation="process"), usage=COSTS), *[LOOK] * 60]
    main = [says("", call("Task", subagent_type="lead", prompt="go"), usage=COSTS), says("told", usage=COSTS)]
    model = script(tmp_path, main=main, lead=[says("led", usage=COSTS), *again], Explore=[LOOK] * 30)
    words = ("-p", "go", "--model", model, "--max-tokens-total", "230000", "--json")
    session = gen(*words, cwd=tmp_path, GEN_MAX_DEPTH="2").json["sessionId"]
    [task] = gen("task", "list", "--json", cwd=tmp_path).json["tasks"]
    more = ("task", "resume", task["agentId"], "more", "--model", model, "--json")
    woken = gen(*more, cwd=tmp_path, GEN_MAX_DEPTH="2").json
    assert woken["error"] == "The budget of 230,000 tokens of the session is spent."
    assert 230_000 <= tokens(home, session) < 230_000 + CALL


def test_one_that_waits_for_its_turn_keeps_nobody_waiting(tmp_path: Path, home: Path) -> None:
    """Whoever has the only place goes on, or is told that the rest is set aside."""
    here = call("Task", subagent_type="Explore", prompt="a", run_in_background=True)
    apart = call("Task", subagent_type="Plan", prompt="b", isolation="process")
    main = [says("", here, usage=COSTS), says("", apart, usage=COSTS), *[says("told", usage=COSTS)] * 4]
    slow = says("", call("Glob", pattern="*"), usage=COSTS, delay_ms=500)
    found = says("found", usage=COSTS)
    model = script(tmp_path, main=main, Explore=[*[slow] * 3, found], Plan=[found])
    words = ("-p", "go", "--model", model, "--max-tokens-total", "85000", "--json")
    ended = gen(*words, cwd=tmp_path, GEN_MAX_AGENTS="1").json
    assert tokens(home, ended["sessionId"]) < 85_000 + CALL
    assert all(each["status"] in ("completed", "limit_reached") for each in ended["tasks"])


async def test_those_without_a_conversation_exceed_the_budget_of_their_process_by_one_call_together(
    tmp_path: Path,
) -> None:
    model = script(tmp_path, Explore=[LOOK] * 9)
    bounds, own = {"max_tokens_total": 46_000}, Budget(tokens=11_000)
    async with GenCode.open(tmp_path, model=model, settings=bounds) as opened:
        sent = [opened.task("Explore", f"{n}", isolation="process", budget=own) for n in range(4)]
        ended = await asyncio.gather(*sent)
    assert {each.status for each in ended} == {Status.LIMIT_REACHED}
    assert sum(each.turns for each in ended) * CALL < 46_000 + CALL


async def test_a_fork_that_cannot_begin_gives_back_what_was_set_aside_for_it(tmp_path: Path) -> None:
    bounds = {"max_tokens_total": 100_000, "max_spawns": 3}
    async with scripted(tmp_path, settings=bounds, main=[says("told")], Explore=[says("found")]) as opened:
        first = await opened.task("Explore", "look")
        purse = opened.work.origin().purse
        assert purse is not None
        before = (purse.left(), purse.spent)
        for _ in range(3):
            with pytest.raises(UserMistake, match="is not in a git repository"):
                await opened.fork(first.agent_id, "x", isolation="worktree", budget=Budget(tokens=40_000))
        assert (purse.left(), purse.spent) == before


async def test_what_its_agents_cost_is_counted_once_also_where_somebody_looked_meanwhile() -> None:
    store, live = MemoryStore(), dict[str, Live]()
    top = await store.create(TaskCreated(agent="main", conversation=True), "here")
    lead = await store.create(TaskCreated(agent="lead", parent=top.task), "there")
    below = await store.create(TaskCreated(agent="Explore", parent=lead.task), "there")
    said = MessageAdded(AssistantMessage("found", usage=Usage(90, 10)))
    await store.append(lead, [TaskStarted("m"), said])
    await store.append(below, [TaskStarted("m"), said])
    session = Purse("the session", Budget(tokens=1_000))
    remote = Remote(lead.state, Stop(), over, store, Bus(store.events))
    remote.spend_from(session.below("agent lead", Budget(tokens=500)))
    live[lead.task] = remote
    for _ in range(2):
        state = await store.task(top.task)
        assert state is not None
        await Slices(store, "here", live.get).learn(state, session)
        await store.append(below, [said])
    await remote.begin()
    await remote.follow("here")
    assert session.spent == Spent(turns=4, tokens=400, spawns=2)


async def test_one_that_is_only_followed_here_keeps_what_it_took_along_from_a_sender_that_died() -> None:
    store, budget = MemoryStore(), Budget(tokens=1_000)
    top = await store.create(TaskCreated(agent="main", conversation=True, budget=budget), "here")
    own = TaskCreated(agent="Explore", parent=top.task, budget=Budget(tokens=500))
    sent = await store.create(own, "there", [TaskStarted("m")])
    followed = Rejoined(sent.state, Stop(), store, Bus(store.events))
    lives: tuple[dict[str, Live], ...] = ({}, {sent.task: followed})
    for live in lives:
        abroad = await Slices(store, "here", live.get).look(top.state, Purse("the session", budget))
        assert (abroad.kept["tokens"], abroad.holders) == (500, (sent.task,))


async def test_one_that_goes_on_later_no_longer_has_to_fit_and_others_know_that() -> None:
    store, budget = MemoryStore(), Budget(tokens=100_000)
    top = await store.create(TaskCreated(agent="main", conversation=True, budget=budget), "here")
    await store.append(
        top, [TaskStarted("m"), TaskEnded(Status.CANCELLED, reason=EndReason.STOPPED)], last=True
    )
    own = TaskCreated(agent="Explore", parent=top.task, budget=Budget(tokens=20_000), fits=True)
    first = await store.create(own, "there")
    lasts: list[bool] = []
    for ends in (True, False):
        lease = first if ends else await store.take(first.task, "here")
        await store.append(lease, [TaskStarted("m")])
        state = await store.task(top.task)
        assert state is not None
        elsewhere = Slices(store, "elsewhere", lambda _: None)
        lasts.append((await elsewhere.look(state, Purse("the session", budget))).last)
        if ends:
            await store.append(lease, [TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED)], last=True)
    assert lasts == [False, True]


async def test_what_a_quick_one_has_spent_before_its_sender_looks_counts_as_well() -> None:
    store, usage = MemoryStore(), Usage(90, 10)
    lease = await store.create(TaskCreated(agent="Explore"), "there")
    await store.append(lease, [TaskStarted("m"), MessageAdded(AssistantMessage("found", usage=usage))])
    state = await store.task(lease.task)
    assert state is not None
    remote = Remote(state, Stop(), over, store, Bus(store.events))
    purse = Purse("the session", Budget(tokens=1_000))
    remote.spend_from(purse)
    assert purse.spent == Spent(turns=1, tokens=100)


class Gone:
    """A process that has ended."""

    task = ""
    gone = True

    def kill(self) -> None:
        """It is gone already."""


async def over() -> Elsewhere:
    return Gone()


async def test_a_fork_counts_in_a_budget_from_the_moment_it_has_a_part_of_it() -> None:
    store, budget = MemoryStore(), Budget(tokens=100_000, spawns=3)
    top = await store.create(TaskCreated(agent="main", conversation=True, budget=budget), "nobody")
    lead = await store.create(TaskCreated(agent="lead", parent=top.task), "there")
    await store.append(lead, [TaskStarted("m", woken=True)])
    first = Part("there", Budget(tokens=30_000, spawns=1), {lead.task: Budget(spawns=0)})
    await store.append(top, [BudgetShared((first,))])
    await store.release(top)
    born = TaskCreated(agent="Explore", parent=lead.task, forked="earlier", woken=True)
    fork = await store.create(born, "elsewhere")

    async def look() -> tuple[int, int | None, int | None, tuple[str, ...], str]:
        session = await store.task(top.task)
        assert session is not None
        abroad = await Slices(store, "here", lambda _: None).look(session, Purse("the session", budget))
        kept = abroad.kept
        return abroad.spent.spawns, kept["tokens"], kept["spawns"], abroad.holders, abroad.giver

    assert await look() == (1, 30_000, 1, (lead.task,), "")
    second = Part("elsewhere", Budget(tokens=20_000, spawns=0), {fork.task: Budget(spawns=0)})
    await store.append(again := await store.take(top.task, "nobody"), [BudgetShared((first, second))])
    await store.release(again)
    assert await look() == (2, 50_000, 1, (lead.task, fork.task), "")


async def test_an_agent_that_was_sent_is_no_longer_set_aside_for_who_sent_it() -> None:
    store, budget = MemoryStore(), Budget(spawns=5)
    top = await store.create(TaskCreated(agent="main", conversation=True, budget=budget), "nobody")
    lead = await store.create(TaskCreated(agent="lead", parent=top.task), "there")
    await store.append(lead, [TaskStarted("m", woken=True)])
    part = Part("there", Budget(spawns=3), {lead.task: Budget(spawns=0)})
    await store.append(
        top,
        [BudgetShared((part,)), TaskStarted("m"), TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED)],
        last=True,
    )
    await store.create(TaskCreated(agent="Explore", parent=lead.task), "there")
    session = await store.task(top.task)
    assert session is not None
    abroad = await Slices(store, "here", lambda _: None).look(session, Purse("the session", budget))
    assert (abroad.spent.spawns, abroad.kept["spawns"]) == (2, 2)
