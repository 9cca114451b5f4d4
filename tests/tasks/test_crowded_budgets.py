"""Many forks beside a conversation at work: the budget is for all of them, and nobody starves above it."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

from gencode.app import GenCode, components
from gencode.core.budget import Budget
from gencode.core.status import Status
from gencode.stores.memory import MemoryStore
from gencode.tasks.queries import spent_by
from gencode.testing import call, says, scripted
from tests.tasks.budget_tree import WAIT, Gate, so
from tests.tasks.forks import forks
from tests.waiting import until

COST = 4_000
USED = {"inputTokens": COST - 10, "outputTokens": 10}
LOOK = says("", call("LS", path="."), usage=USED, delay_ms=20)
SENT = [call("Task", subagent_type="Explore", prompt=f"look {number}") for number in range(2)]
SENDS = says("", *SENT, usage=USED)
LEADS = says(
    "", *(call("Task", subagent_type="Plan", prompt=f"plan {number}") for number in (1, 2)), usage=USED
)
DONE = says("done", usage=USED)
FORKS_EACH = 3


async def test_a_conversation_goes_on_beside_many_forks_while_there_is_something_to_spend(
    tmp_path: Path,
) -> None:
    store, budget = MemoryStore(), 100 * COST
    gate = Gate(main=[SENDS, DONE, LEADS, *[LOOK] * 200], Explore=[DONE, *[LOOK] * 200], Plan=[LOOK] * 200)
    async with AsyncExitStack() as stack:
        leader, *terminals = [
            await stack.enter_async_context(GenCode.open(tmp_path, model=gate, store=store)) for _ in range(6)
        ]
        await components(leader).tasks.service.set_session_budget(Budget(tokens=budget))
        session = (await leader.ask("go").outcome()).agent_id
        task = (await leader.tasks(session))[0].agent_id
        led = asyncio.ensure_future(leader.ask(WAIT, session=session).outcome())
        await so(store, session, lambda talk: not talk.status.ended)
        crowd = asyncio.gather(*(each.fork(task, WAIT) for each in terminals * FORKS_EACH))
        forks_begun = len(terminals) * FORKS_EACH
        await until(
            lambda: sum(len(components(each).supervisor) for each in terminals) == forks_begun,
            "all have begun",
        )
        gate.open.set()
        outcome = await led
        spent = (await spent_by(store, session)).tokens
        forked = await crowd
    assert (outcome.status, spent) == (Status.LIMIT_REACHED, budget)
    assert outcome.error == "The budget of 400,000 tokens of the session is spent."
    assert {each.status for each in forked} == {Status.LIMIT_REACHED}


async def test_forks_of_a_conversation_at_rest_begin_side_by_side(tmp_path: Path) -> None:
    store = MemoryStore()
    async with AsyncExitStack() as stack:
        leader = await stack.enter_async_context(
            scripted(tmp_path, store=store, main=[SENDS, DONE], Explore=[DONE])
        )
        await components(leader).tasks.service.set_session_budget(Budget(tokens=170_000))
        session = (await leader.ask("go").outcome()).agent_id
        task = (await leader.tasks(session))[0].agent_id
        gate = Gate(Explore=[DONE, DONE])
        others = [
            await stack.enter_async_context(GenCode.open(tmp_path, model=gate, store=store)) for _ in range(6)
        ]
        crowd = asyncio.gather(*(each.fork(task, WAIT) for each in others))
        await until(lambda: all(len(components(each).supervisor) for each in others), "all have begun")
        gate.open.set()
        ended = await crowd
    assert [each.status for each in ended] == [Status.COMPLETED] * 6


async def test_a_fork_is_refused_for_what_is_short_where_the_conversation_is_led(tmp_path: Path) -> None:
    """Agents are, by what was named there; more of them are only named here."""
    store = MemoryStore()
    gate = Gate(main=[SENDS, DONE, DONE], Explore=[DONE])
    async with (
        GenCode.open(
            tmp_path, model=gate, store=store, settings={"max_spawns": 2, "max_tokens_total": 2_000_000}
        ) as leader,
        scripted(tmp_path, store=store, settings={"max_spawns": 10}, Explore=[DONE, DONE]) as other,
    ):
        session = (await leader.ask("go").outcome()).agent_id
        task = (await leader.tasks(session))[0].agent_id
        led = asyncio.ensure_future(leader.ask(WAIT, session=session).outcome())
        await so(store, session, lambda talk: not talk.status.ended)
        refused = await forks(other, task)
        gate.open.set()
        await led
    assert refused == (
        f"The budget of 2 agents of the session is spent. To raise it: gen task budget {session} spawns N."
    )
