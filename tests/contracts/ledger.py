"""Promises of the `Ledger` port: no limit is exceeded by more than one call, and nobody waits for nothing."""

import pytest

from gencode.budgets.ledger import BudgetSpent, Granted, Hold, Shortage, Wait
from gencode.budgets.limits import NANO
from gencode.core.budget import Budget
from gencode.core.errors import Fenced
from gencode.core.events import (
    BudgetSet,
    CostEstimated,
    MessageAdded,
    TaskCreated,
    TaskEnded,
    TaskQueued,
    TaskStarted,
)
from gencode.core.messages import AssistantMessage, Usage, UserMessage
from gencode.core.status import EndReason, Status
from gencode.journal.store import Lease, Store
from gencode.tasks.crash_recovery import close_task
from tests.contracts.store import OpenStore
from tests.ledger_world import ROUNDS, World

ENDED = TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED)


async def begun(
    store: Store, parent: str | None = None, budget: Budget | None = None, *, session: str = ""
) -> Lease:
    """A task at work."""
    fact = TaskCreated("worker", parent=parent, budget=budget or Budget())
    return await store.create(fact, "me", [TaskStarted()], session=session)


def hold(lease: Lease, tokens: int) -> Hold:
    """What a call of so many tokens needs."""
    return Hold(
        lease.task, lease.path, {"turns": 1, "tokens": tokens, "usd": tokens * NANO // 1000}, lease.owner
    )


def reply(tokens: int, usd: float | None = None) -> MessageAdded:
    """A reply that cost so much."""
    return MessageAdded(AssistantMessage("ok", usage=Usage(tokens, 0, usd=usd)))


async def spent(store: Store, account: str) -> dict[str, int]:
    """What an account has spent, without the kinds that cost nothing."""
    balance = await store.ledger.balance(account)
    assert balance is not None
    return {kind: amount for kind, amount in balance.account.spent.items() if amount}


async def test_a_call_that_nothing_limits_leaves_no_trace(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await begun(store)
    assert await store.ledger.left(lease.path) is None
    assert await store.ledger.hold(hold(lease, 10**9)) == Granted(bounded=False)
    await store.append(lease, [reply(5)])
    assert await store.ledger.balance(lease.task) is None


async def test_a_reply_settles_its_hold_in_every_account_above_it(open_store: OpenStore) -> None:
    store = await open_store()
    await store.ledger.limit("session-1", Budget(usd=5.0))
    top = await begun(store, None, Budget(tokens=1000), session="session-1")
    child = await begun(store, top.task)
    assert child.path == (child.task, top.task, "session-1")
    assert await store.ledger.left(child.path) == {"tokens": 1000, "usd": 5 * NANO}
    assert await store.ledger.hold(hold(child, 300)) == Granted(alone=True)
    held = await store.ledger.balance(top.task)
    assert held is not None and held.account.held["tokens"] == 300 and held.account.calls == 1
    await store.append(child, [reply(200, 0.5)])
    settled = await store.ledger.balance(top.task)
    assert settled is not None and settled.account.held["tokens"] == 0 and settled.account.calls == 0
    assert settled.left == {"tokens": 800, "usd": 5 * NANO - NANO // 2}
    assert await spent(store, top.task) == {"turns": 1, "tokens": 200, "usd": NANO // 2, "spawns": 1}
    assert await spent(store, "session-1") == {"turns": 1, "tokens": 200, "usd": NANO // 2, "spawns": 2}


async def test_a_call_waits_while_others_hold_what_it_needs_and_the_limit_is_reported_after_them(
    open_store: OpenStore,
) -> None:
    store = await open_store()
    top = await begun(store, None, Budget(tokens=100))
    one, other = await begun(store, top.task), await begun(store, top.task)
    assert await store.ledger.hold(hold(one, 80)) == Granted(alone=True)
    assert await store.ledger.hold(hold(other, 20)) == Granted()
    assert await store.ledger.hold(hold(top, 1)) == Wait(top.task, frozenset({one.task, other.task}))
    await store.append(one, [reply(80)])
    assert await store.ledger.hold(hold(one, 30)) == Wait(top.task, frozenset({other.task}))
    await store.append(other, [reply(15)])
    assert await store.ledger.hold(hold(one, 30)) == Granted(alone=True)
    await store.append(one, [reply(30)])
    short = Shortage(top.task, "tokens", 100, 125, 0, agent="worker")
    assert await store.ledger.hold(hold(other, 1)) == short
    assert str(short) == "The budget of 100 tokens of agent worker is spent."


async def test_a_hold_is_replaced_by_the_next_one_of_its_task_and_dropped_when_nothing_was_asked(
    open_store: OpenStore,
) -> None:
    store = await open_store()
    top = await begun(store, None, Budget(tokens=100))
    child = await begun(store, top.task)
    assert await store.ledger.hold(hold(child, 60)) == Granted(alone=True)
    assert await store.ledger.hold(hold(child, 90)) == Granted(alone=True)
    assert await store.ledger.hold(hold(top, 20)) == Wait(top.task, frozenset({child.task}))
    await store.ledger.release(hold(child, 90))
    await store.ledger.release(hold(child, 90))
    assert await store.ledger.hold(hold(top, 20)) == Granted(alone=True)
    assert await store.ledger.hold(hold(child, 90)) == Wait(top.task, frozenset({top.task}))
    await store.append(top, [MessageAdded(UserMessage("nothing that costs anything"))])
    assert await store.ledger.hold(hold(child, 90)) == Wait(top.task, frozenset({top.task}))
    await store.append(top, [ENDED], last=True)
    assert await store.ledger.hold(hold(child, 90)) == Granted(alone=True)


async def test_a_call_that_broke_off_costs_what_is_estimated_of_it(open_store: OpenStore) -> None:
    store = await open_store()
    lease = await begun(store, None, Budget(tokens=100, turns=5))
    await store.ledger.hold(hold(lease, 60))
    await store.append(lease, [CostEstimated(Usage(40))])
    assert await spent(store, lease.task) == {"tokens": 40}
    assert await store.ledger.hold(hold(lease, 60)) == Granted(alone=True)
    await store.append(lease, [reply(50)])
    assert await spent(store, lease.task) == {"turns": 1, "tokens": 90}


async def test_what_an_agent_may_spend_is_set_aside_for_it_and_there_for_others_once_it_has_ended(
    open_store: OpenStore,
) -> None:
    store = await open_store()
    top = await begun(store, None, Budget(tokens=100))
    child = await begun(store, top.task, Budget(tokens=70))
    balance = await store.ledger.balance(top.task)
    assert balance is not None and (balance.aside, balance.left) == ({"tokens": 70}, {"tokens": 30})
    with pytest.raises(
        BudgetSpent, match="has 30 of 100 tokens left; 40 were asked for. Ask for less."
    ) as more:
        await begun(store, top.task, Budget(tokens=40))
    assert more.value.shortage == Shortage(top.task, "tokens", 100, 0, 70, 40, agent="worker")
    assert await store.ledger.left(child.path) == {"tokens": 70}
    assert await store.ledger.hold(hold(child, 60)) == Granted(alone=True)
    assert await store.ledger.hold(hold(top, 30)) == Granted()
    await store.append(child, [reply(60)])
    await store.append(top, [reply(30)])
    nothing = Shortage(top.task, "tokens", 100, 90, 10, agent="worker")
    assert await store.ledger.hold(hold(top, 5)) == nothing
    assert str(nothing).endswith("is spent or set aside for agents at work.")
    await store.append(child, [ENDED], last=True)
    assert await store.ledger.hold(hold(top, 5)) == Granted(alone=True)


async def test_a_task_that_goes_on_needs_what_it_has_left_above_it(open_store: OpenStore) -> None:
    store = await open_store()
    top = await begun(store, None, Budget(tokens=100))
    child = await begun(store, top.task, Budget(tokens=70))
    await store.append(child, [reply(20), ENDED], last=True)
    await store.append(top, [reply(40)])
    child = await store.take(child.task, "me")
    with pytest.raises(BudgetSpent, match="has 40 of 100 tokens left; 50 were asked for"):
        await store.append(child, [TaskStarted()])
    assert child.state.status is Status.COMPLETED
    assert await store.ledger.left(top.path) == {"tokens": 40}
    await store.append(child, [TaskStarted(budget=Budget(tokens=60))])
    assert await store.ledger.left(top.path) == {"tokens": 0}
    await store.append(child, [reply(40), ENDED], last=True)
    child = await store.take(child.task, "me")
    with pytest.raises(BudgetSpent, match="The budget of 60 tokens of agent worker is spent."):
        await store.append(child, [TaskStarted()])


async def test_an_agent_that_is_sent_counts_in_all_above_it_and_no_limit_of_agents_is_exceeded(
    open_store: OpenStore,
) -> None:
    store = await open_store()
    top = await begun(store, None, Budget(spawns=3))
    child = await begun(store, top.task, Budget(spawns=1))
    with pytest.raises(BudgetSpent, match="1 was asked for, and the agent itself counts as one"):
        await begun(store, top.task, Budget(spawns=1))
    await begun(store, top.task)
    await begun(store, child.task)
    with pytest.raises(BudgetSpent, match="The budget of 1 agent of agent worker is spent"):
        await begun(store, child.task)
    with pytest.raises(BudgetSpent, match="The budget of 3 agents of agent worker is spent"):
        await begun(store, top.task)
    assert await store.ledger.hold(hold(top, 5)) == Granted(bounded=False)
    assert await spent(store, top.task) == {"spawns": 3}


async def test_a_limit_is_set_raised_lowered_and_lifted_at_any_time(open_store: OpenStore) -> None:
    store = await open_store()
    top = await begun(store)
    child = await begun(store, top.task)
    await store.append(child, [reply(50)])
    await store.ledger.limit(top.task, Budget(tokens=40, turns=9))
    assert await spent(store, top.task) == {"turns": 1, "tokens": 50, "spawns": 1}
    assert await store.ledger.hold(hold(child, 1)) == Shortage(top.task, "tokens", 40, 50, 0, agent="worker")
    with pytest.raises(BudgetSpent, match="The budget of 40 tokens of agent worker is spent"):
        await store.ledger.limit(child.task, Budget(tokens=60))
    await store.ledger.limit(top.task, Budget(tokens=55))
    await store.ledger.limit(child.task, Budget(tokens=55))
    assert await store.ledger.hold(hold(child, 3)) == Granted(alone=True)
    await store.append(child, [BudgetSet(Budget(tokens=1)), reply(3)])
    assert await store.ledger.left(child.path) == {"tokens": 2}
    await store.ledger.limit(child.task, Budget(tokens=10))
    assert await store.ledger.hold(hold(child, 1)) == Shortage(
        child.task, "tokens", 10, 53, 0, agent="worker"
    )
    await store.ledger.limit(child.task, Budget())
    assert await store.ledger.left(child.path) == {"tokens": 2}
    await store.ledger.limit(top.task, Budget())
    assert await store.ledger.left(child.path) is None


async def test_a_limit_below_what_is_spent_and_held_refuses_the_next_call_and_leaves_nothing_held(
    open_store: OpenStore,
) -> None:
    store = await open_store()
    top = await begun(store, None, Budget(tokens=100))
    child = await begun(store, top.task)
    await store.append(top, [reply(30)])
    assert isinstance(await store.ledger.hold(hold(child, 60)), Granted)
    await store.ledger.limit(top.task, Budget(tokens=10))
    assert isinstance(await store.ledger.hold(hold(top, 1)), Wait)
    await store.append(child, [reply(60)])
    assert await store.ledger.hold(hold(top, 1)) == Shortage(top.task, "tokens", 10, 90, 0, agent="worker")
    balance = await store.ledger.balance(top.task)
    assert balance is not None
    assert (balance.account.calls, balance.account.spent["tokens"]) == (0, 90)
    assert await store.ledger.recount() == []


async def test_of_two_processes_that_settle_one_call_only_the_owner_of_the_task_does(
    open_store: OpenStore,
) -> None:
    store = await open_store()
    lost = await begun(store, None, Budget(tokens=100))
    assert isinstance(await store.ledger.hold(hold(lost, 60)), Granted)
    lease = await store.take(lost.task, "other", "me")
    await store.append(lease, [CostEstimated(Usage(40))])
    with pytest.raises(Fenced):
        await store.append(lost, [reply(60)])
    balance = await store.ledger.balance(lost.task)
    assert balance is not None
    assert (balance.account.calls, balance.account.spent["tokens"]) == (0, 40)
    assert await store.ledger.recount() == []


async def test_a_run_that_ends_with_the_beginning_of_another_one_holds_nothing_any_more(
    open_store: OpenStore,
) -> None:
    """So it is where a worker takes the place of one that died, and waits for its turn before it asks."""
    store = await open_store()
    top = await begun(store, None, Budget(tokens=100))
    lost = await begun(store, top.task)
    await store.append(lost, [reply(10)])
    assert isinstance(await store.ledger.hold(hold(lost, 60)), Granted)
    lease = await store.take(lost.task, "other", "me")
    died = TaskEnded(Status.INTERRUPTED, reason=EndReason.PROCESS_DIED)
    await store.append(lease, [died, TaskQueued()])
    assert await store.ledger.hold(hold(top, 60)) == Granted(alone=True)


async def test_who_has_lost_a_task_takes_no_hold_for_it_and_drops_none(open_store: OpenStore) -> None:
    """It may have waited for its turn all the time, or break its call off only now."""
    store = await open_store()
    top = await begun(store, None, Budget(tokens=100))
    lost = await begun(store, top.task)
    assert await store.ledger.hold(hold(lost, 60)) == Granted(alone=True)
    lease = await store.take(lost.task, "other", "me")
    await store.append(lease, [CostEstimated(Usage(10)), ENDED], last=True)
    lease = await store.take(lost.task, "other")
    await store.append(lease, [TaskStarted()])
    assert await store.ledger.hold(hold(lease, 30)) == Granted(alone=True)
    await store.ledger.release(hold(lost, 60))
    with pytest.raises(Fenced):
        await store.ledger.hold(hold(lost, 60))
    assert await store.ledger.hold(hold(top, 70)) == Wait(top.task, frozenset({lost.task}))
    with pytest.raises(Fenced):
        await store.ledger.hold(hold(lost, 80))
    await store.append(lease, [reply(30), ENDED], last=True)
    with pytest.raises(Fenced):
        await store.ledger.hold(hold(lost, 60))
    assert await store.ledger.hold(hold(top, 70)) == Granted(alone=True)
    balance = await store.ledger.balance(top.task)
    assert balance is not None
    assert (balance.account.calls, balance.account.spent["tokens"]) == (1, 40)


async def test_an_owner_that_dies_between_hold_and_reply_keeps_nobody_waiting(open_store: OpenStore) -> None:
    store = await open_store()
    top = await begun(store, None, Budget(tokens=3_000))
    said = [TaskStarted("m"), MessageAdded(UserMessage("look"))]
    dead = await store.create(TaskCreated("worker", parent=top.task), "dead", said)
    assert isinstance(await store.ledger.hold(hold(dead, 2_900)), Granted)
    assert await store.ledger.hold(hold(top, 200)) == Wait(top.task, frozenset({dead.task}))
    assert (await store.ledger.holds(dead.task), await store.ledger.holds(top.task)) == (True, False)
    for _ in range(2):  # whoever finds it may do so, and more than one does
        await close_task(store, dead.task, "me", "dead")
    assert isinstance(await store.ledger.hold(hold(top, 200)), Granted)
    await store.ledger.release(hold(top, 200))
    found, balance = await store.task(dead.task), await store.ledger.balance(top.task)
    assert found is not None and balance is not None
    assert (found.status, balance.account.calls) == (Status.INTERRUPTED, 0)
    usage = found.totals.usage
    assert balance.account.spent["tokens"] == usage.input_tokens + usage.output_tokens > 0
    assert await store.ledger.recount() == []


async def test_an_owner_that_dies_while_it_waits_for_its_hold_has_cost_nothing(open_store: OpenStore) -> None:
    store = await open_store()
    top = await begun(store, None, Budget(tokens=3_000))
    said = [TaskStarted("m"), MessageAdded(UserMessage("look"))]
    dead = await store.create(TaskCreated("worker", parent=top.task), "dead", said)
    assert isinstance(await store.ledger.hold(hold(top, 2_900)), Granted)
    assert await store.ledger.hold(hold(dead, 200)) == Wait(top.task, frozenset({top.task}))
    await close_task(store, dead.task, "me", "dead")
    assert await spent(store, top.task) == {"spawns": 1}


async def test_a_limit_above_a_task_is_noticed_with_its_next_append(open_store: OpenStore) -> None:
    store = await open_store()
    top = await begun(store)
    child = await begun(store, top.task)
    assert not child.unlimited
    await store.append(child, [reply(50)])
    await store.ledger.limit(top.task, Budget(tokens=40))
    await store.append(child, [reply(50)])
    assert not child.unlimited


async def test_what_is_set_aside_is_first_come_first_served_where_a_limit_was_lowered(
    open_store: OpenStore,
) -> None:
    store = await open_store()
    top = await begun(store, None, Budget(tokens=200))
    one, other = (
        await begun(store, top.task, Budget(tokens=80)),
        await begun(store, top.task, Budget(tokens=80)),
    )
    await store.ledger.limit(top.task, Budget(tokens=100))
    assert await store.ledger.hold(hold(one, 70)) == Granted(alone=True)
    assert await store.ledger.hold(hold(other, 40)) == Wait(top.task, frozenset({one.task}))
    await store.append(one, [reply(70)])
    assert await store.ledger.hold(hold(other, 40)) == Granted(alone=True)
    await store.append(other, [reply(40)])
    assert await store.ledger.hold(hold(one, 5)) == Shortage(top.task, "tokens", 100, 110, 40, agent="worker")


async def test_a_tree_that_goes_on_in_another_session_counts_there_with_all_it_cost(
    open_store: OpenStore,
) -> None:
    store = await open_store()
    for session in ("session-1", "session-2"):
        await store.ledger.limit(session, Budget(tokens=1000))
    top = await begun(store, session="session-1")
    child = await begun(store, top.task, Budget(tokens=500))
    await store.append(child, [reply(60), ENDED], last=True)
    await store.append(top, [ENDED], last=True)
    child = await store.take(child.task, "other", session="session-2")
    assert child.path == (child.task, top.task, "session-2")
    await store.append(child, [TaskStarted()])
    await store.append(child, [reply(6)])
    assert await spent(store, "session-2") == {"turns": 2, "tokens": 66, "spawns": 2}
    balance = await store.ledger.balance("session-2")
    assert balance is not None and balance.aside == {"tokens": 434}
    assert (await store.take(top.task, "other")).path == (top.task, "session-2")


async def test_what_was_deleted_stays_spent(open_store: OpenStore) -> None:
    store = await open_store()
    top = await begun(store, None, Budget(tokens=100))
    child = await begun(store, top.task, Budget(tokens=50))
    await store.append(child, [reply(30), ENDED], last=True)
    await store.delete(child.task)
    assert await spent(store, top.task) == {"turns": 1, "tokens": 30, "spawns": 1}
    assert await store.ledger.balance(child.task) is None


async def test_an_imported_journal_counts_above_it_and_brings_its_budget(open_store: OpenStore) -> None:
    elsewhere, store = await open_store(), await open_store()
    top = await begun(elsewhere, None, Budget(tokens=100))
    child = await begun(elsewhere, top.task)
    await elsewhere.append(child, [reply(30), ENDED], last=True)
    await elsewhere.append(top, [reply(4), ENDED], last=True)
    await store.adopt(await elsewhere.events(top.task))
    assert (await store.take(top.task, "me")).path == (top.task,)
    assert await spent(store, top.task) == {"turns": 1, "tokens": 4}
    await store.adopt(await elsewhere.events(child.task))
    assert await spent(store, top.task) == {"turns": 2, "tokens": 34, "spawns": 1}


async def test_whoever_waits_is_woken_when_something_was_settled_or_limited(open_store: OpenStore) -> None:
    store = await open_store()
    top = await begun(store, None, Budget(tokens=100))
    await store.ledger.hold(hold(top, 60))
    first = seen = store.changes.count
    await store.ledger.release(hold(top, 60))
    seen = await store.changes.after(seen)
    await store.ledger.limit(top.task, Budget(tokens=50))
    seen = await store.changes.after(seen)
    await store.append(top, [reply(1)])
    assert await store.changes.after(seen) >= first + 3


@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_random_trees_keep_every_limit_but_for_one_call_and_are_never_stuck(
    open_store: OpenStore, seed: int
) -> None:
    store = await open_store()
    world = World([store], seed)
    await world.run(200)
    assert [agent for agent in world.agents.values() if agent.waits] == []
    assert await store.ledger.recount() == []
