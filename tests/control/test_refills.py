"""Agents in processes of their own that run out: they get what others who were sent with them left over."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from gencode.app import GenCode
from gencode.core.budget import Budget
from gencode.core.events import BudgetSet, TaskCreated
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.delegation.accounts import NO_BUDGET, bound, spent_by
from gencode.delegation.live import Live
from gencode.delegation.refills import Refills, refill
from gencode.delegation.remote import Remote
from gencode.delegation.sharing import Sharing
from gencode.delegation.slices import set_aside_below
from gencode.runtime.amounts import raised
from gencode.runtime.bus import Bus
from gencode.runtime.claims import Claim
from gencode.runtime.ports import TaskQuery
from gencode.runtime.purse import Purse, Spent
from gencode.runtime.recorder import Recorder
from gencode.runtime.stop import Stop
from gencode.stores.memory import MemoryStore
from gencode.stores.memory_claims import MemoryClaims
from gencode.testing import call, says
from tests.control.test_apart_budgets import CALL, COSTS, LOOK, over, sent
from tests.surfaces.running import script
from tests.waiting import Gate, until

FOUND = says("found", usage=COSTS)
PART = 8 * CALL
"""Of forty calls four agents and their sender get eight each."""


async def ended_beside(tmp_path: Path, calls: int, **words: object) -> tuple[Task, int]:
    """An agent that makes so many calls, the first when three others have ended; and what all cost."""
    gate = Gate(tmp_path)
    one = call("Task", subagent_type="Bash", prompt="much", isolation="process", **words)
    main = [says("", *sent(3, isolation="process"), one, usage=COSTS), says("told", usage=COSTS)]
    much = [says("", gate.call, usage=COSTS), *[LOOK] * (calls - 2), FOUND]
    model = script(tmp_path, main=main, Explore=[FOUND], Bash=much)
    async with GenCode.open(tmp_path, model=model, settings={"max_tokens_total": CALL * 41}) as opened:
        turn = asyncio.ensure_future(opened.ask("go").outcome())

        async def three_have_ended() -> bool:
            tasks = await opened.store.tasks(TaskQuery())
            return sum(each.agent == "Explore" and each.status.ended for each in tasks) == 3

        await until(three_have_ended, "the others have ended")
        await until(lambda: len([*opened.supervisor]) == 2, "what they left came back")
        await until(gate.opened, "the one that has much to do goes on")
        talk = await turn
        assert talk.result == "told"
        [busy] = [each for each in await opened.store.tasks(TaskQuery()) if each.agent == "Bash"]
        return busy, (await spent_by(opened.store, talk.agent_id)).tokens


async def test_what_others_left_over_goes_to_one_that_runs_out(tmp_path: Path) -> None:
    busy, spent = await ended_beside(tmp_path, 20)
    assert (busy.status, busy.turns) == (Status.COMPLETED, 20)
    assert (busy.budget.tokens or 0) > PART
    assert spent == 25 * CALL


async def test_its_sender_keeps_what_it_had(tmp_path: Path) -> None:
    busy, spent = await ended_beside(tmp_path, 40)
    assert busy.status is Status.LIMIT_REACHED
    # The others left 21 calls; it may exceed what it has by one.
    assert PART + 19 * CALL < spent - 5 * CALL <= PART + 22 * CALL
    assert spent <= 34 * CALL


async def test_a_budget_that_was_asked_for_one_is_all_it_gets(tmp_path: Path) -> None:
    busy, _ = await ended_beside(tmp_path, 20, budget={"tokens": 3 * CALL})
    assert (busy.status, busy.budget) == (Status.LIMIT_REACHED, Budget(tokens=3 * CALL))
    assert "The budget of agent Bash has 10,000 of 30,000 tokens left" in (busy.error or "")


def apart(above: Purse, agents: int, asked: Budget = NO_BUDGET) -> Purse:
    purse = bound(above, "Explore", asked, apart=agents)
    assert purse is not None
    return purse


@pytest.mark.parametrize(
    ("missing", "given"),
    [
        ({"tokens": 50}, {"tokens": 100}),  # two calls
        ({"tokens": 1}, {"tokens": 37}),  # an eighth of what is left over
        ({"tokens": 200}, {"tokens": 300}),  # all of it
        ({"tokens": 301}, {}),
        ({"tokens": 50, "turns": 1}, {}),  # turns were asked for it
        ({"tokens": 50, "usd": 1}, {}),
        ({"tokens": 0}, {}),
        ({"tokens": -50}, {}),
        ({"pennies": 50}, {}),
        ({}, {}),
    ],
)
def test_what_is_left_over_is_what_the_sender_has_more_than_each_took_along(
    missing: Mapping[str, int], given: dict[str, int]
) -> None:
    session = Purse("the session", Budget(tokens=900, turns=50))
    first, second = apart(session, 2), apart(session, 1, Budget(turns=5))
    assert [each.budget.tokens for each in (first, second)] == [300, 300]
    assert refill(second, {"tokens": 50}) == {}
    first.close()
    assert refill(second, missing) == given
    more = given.get("tokens", 0)
    assert (second.budget.tokens, session.left().tokens) == (300 + more, 600 - more)


async def test_what_calls_in_flight_may_cost_is_left_over_for_nobody() -> None:
    session = Purse("the session", Budget(tokens=900))
    first, second = apart(session, 2), apart(session, 1)
    first.close()
    flying = await session.reserve(280, 0.0)
    assert refill(second, {"tokens": 50}) == {}
    flying.settle(tokens=10, usd=0.0)
    assert refill(second, {"tokens": 50}) == {"tokens": 100}


async def sender(store: MemoryStore) -> tuple[Sharing, Purse, Claim]:
    """A session that sent two agents, of which the first has ended, and what the second one claims."""
    session, live = Purse("the session", Budget(tokens=900)), dict[str, Live]()
    top = await store.create(TaskCreated(agent="main", conversation=True), "here")
    first, second = apart(session, 2), apart(session, 1)
    first.close()
    created = TaskCreated(agent="Explore", parent=top.task, budget=second.budget)
    task = await store.create(created, "there")
    remote = Remote(task.state, Stop(), over, store, Bus(store.events))
    remote.spend_from(second)
    live[task.task] = remote
    sharing = Sharing(store, "here", live.get, lambda _: pytest.fail("nobody's lease is needed"))
    return sharing, session, Claim(task.task, top.task, "there", (task.task,), {"tokens": 50})


async def test_what_is_given_is_set_aside_and_left_with_the_claim() -> None:
    store = MemoryStore()
    sharing, session, claim = await sender(store)
    number = await store.claims.put(claim)
    await sharing.heed()
    assert (await store.claims.waits(number), session.left().tokens) == (False, 500)
    await sharing.heed()  # it is answered once
    assert (await store.claims.drop(number), session.left().tokens) == ({"tokens": 100}, 500)


async def test_what_an_agent_never_got_is_not_set_aside_for_it_for_ever() -> None:
    store = MemoryStore()
    sharing, session, claim = await sender(store)
    for _ in range(3):  # it is cut each time, before it writes down what it got
        number = await store.claims.put(claim)
        await sharing.heed()
        assert (await store.claims.drop(number), session.left().tokens) == ({"tokens": 100}, 500)


class Fleeting(MemoryClaims):
    """Claims that are made no more as soon as somebody has seen them."""

    async def at(self, owner: str) -> Sequence[tuple[int, Claim]]:
        """The claims of an owner, which are gone then."""
        found = await super().at(owner)
        for number, _ in found:
            await self.drop(number)
        return found


class Impatient(MemoryStore):
    """A journal in which nobody waits for an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.claims = Fleeting(self._owner_of)


async def test_for_who_does_not_wait_any_more_nothing_is_set_aside() -> None:
    store = Impatient()
    sharing, session, claim = await sender(store)
    number = await store.claims.put(claim)
    await sharing.heed()
    assert (await store.claims.drop(number), session.left().tokens) == ({}, 600)


async def test_a_bigger_budget_is_set_aside_for_everybody_who_looks_into_the_journal() -> None:
    store = MemoryStore()
    top = await store.create(TaskCreated(agent="main", conversation=True), "here")
    task = await store.create(TaskCreated(agent="Explore", parent=top.task, budget=Budget(tokens=300)), "it")
    await store.append(task, [BudgetSet(Budget(tokens=400))])
    assert (await set_aside_below(store, top.state))["tokens"] == 400


@pytest.mark.parametrize(("ends", "more"), [(False, 100), (True, 0)])
async def test_what_was_given_counts_only_while_its_sender_is_at_work(ends: bool, more: int) -> None:
    """Who leads it next, or takes a part of what it left, may have looked before it was written down."""
    store, budget = MemoryStore(), Budget(tokens=300)
    top = await store.create(TaskCreated(agent="main", conversation=True), "here")
    task = await store.create(TaskCreated(agent="Explore", parent=top.task, budget=budget), "there")
    purse = Purse("agent Explore", budget, None, Spent(tokens=300))
    asks = Refills(store, store.claims, Recorder(store, Bus(store.events), task), top.task)

    async def give() -> None:
        await until(lambda: store.claims.at("here"), "somebody asks")
        [(number, claim)] = await store.claims.at("here")
        assert (claim.needs, claim.widens) == ({"tokens": 50}, True)
        await store.claims.give(number, replace(claim, given={"tokens": 100}))
        if ends:
            await store.release(top)

    needs = {"turns": 1, "tokens": 50, "usd": 0}
    calls = (asks.more(purse, "tokens", needs, lambda _: None) for _ in range(1 if ends else 3))
    *got, _ = await asyncio.gather(*calls, give())
    state = await store.task(task.task)
    assert state is not None
    assert (state.budget, purse.budget, {*got}) == (
        raised(budget, {"tokens": more}),
        state.budget,
        {not ends},
    )
    assert await store.claims.at("here") == []
