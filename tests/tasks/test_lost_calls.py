"""Calls that come to nothing cost something: it is written down, and counts wherever the task goes on."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any

import pytest

from gencode.agent.ports import Request
from gencode.app import GenCode, Outcome, components
from gencode.budgets.ledger import Hold
from gencode.core.budget import Budget
from gencode.core.errors import ProviderError
from gencode.core.events import CostEstimated, MessageAdded, TaskCreated, TaskStarted
from gencode.core.messages import (
    AgainPart,
    AssistantMessage,
    CallPart,
    EndPart,
    Part,
    TextPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from gencode.core.status import Status
from gencode.stores.memory import MemoryStore
from gencode.tasks.crash_recovery import close_task
from gencode.testing import call, says, scripted
from tests.waiting import until

SLOW = says("never", delay_ms=600_000)


class Breaks:
    """A model whose replies break off so many times, each after this text."""

    def __init__(self, times: int, text: str = "half " * 400) -> None:
        self.times = times
        self.text = text
        self.asked = 0

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Begin again and again."""
        for _ in range(self.times):
            self.asked += 1
            yield TextPart(self.text)
            yield AgainPart("the line broke")
        self.asked += 1
        yield TextPart("found")
        yield EndPart("m", usage=Usage(90, 10))


async def costs(gen: GenCode, task: str) -> list[Usage]:
    """What calls of a task cost that came to nothing."""
    facts = [event.fact for event in await gen.history.events(task)]
    return [fact.usage for fact in facts if isinstance(fact, CostEstimated)]


async def test_a_reply_that_broke_off_is_paid_each_time_and_not_asked_for_when_nothing_is_left(
    tmp_path: Path,
) -> None:
    model = Breaks(100)
    async with GenCode.open(tmp_path, model=model, store=MemoryStore()) as gen:
        ended = await gen.task("Explore", "look", budget=Budget(tokens=12_000))
        lost = await costs(gen, ended.agent_id)
    spent = sum(each.input_tokens + each.output_tokens for each in lost)
    assert (ended.status, ended.error) == (
        Status.LIMIT_REACHED,
        "The budget of 12,000 tokens of agent Explore is spent.",
    )
    assert 1 < len(lost) == model.asked < 100
    assert 12_000 <= spent < 12_000 + spent // len(lost) + 1
    assert ended.usage.input_tokens + ended.usage.output_tokens == spent


async def test_without_a_budget_the_cost_of_replies_that_broke_off_is_told_all_the_same(
    tmp_path: Path,
) -> None:
    async with GenCode.open(tmp_path, model=Breaks(2), store=MemoryStore()) as gen:
        ended = await gen.task("Explore", "look")
        lost = await costs(gen, ended.agent_id)
    assert (ended.result, len(lost)) == ("found", 2)
    assert ended.usage.tree == Usage(90, 10) + lost[0] + lost[1]
    assert lost[0].output_tokens == 500


async def test_a_call_that_is_cut_counts_in_the_next_process_too(tmp_path: Path) -> None:
    store = MemoryStore()
    sent = call("Task", subagent_type="Explore", prompt="look")
    async with scripted(
        tmp_path, store=store, main=[says("", sent), says("told")], Explore=[SLOW, says("found")]
    ) as gen:
        await gen.budgets.set_all(Budget(tokens=200_000))
        turn = await gen.start_turn("go")
        await until(lambda: any(live.task.agent == "Explore" for live in gen.running), "it is at work")
        [task] = [live.id for live in gen.running if live.task.agent == "Explore"]
        await until(lambda: asked(gen, task), "the model was asked")
        await gen.stop(task)
        await asyncio.wait_for(gen.outcome(turn), 60)
        [lost, *_] = await costs(gen, task)
        found = await store.task(task)
        assert found is not None
    assert lost.input_tokens > 100
    assert found.totals.usage.input_tokens >= lost.input_tokens


async def asked(gen: GenCode, task: str) -> bool:
    live = gen.running.find(task)
    balance = await components(gen).store.ledger.balance((live.task.parent if live else "") or "")
    return balance is not None and balance.account.calls > 0


async def test_what_a_provider_refuses_at_once_costs_nothing(tmp_path: Path) -> None:
    async with scripted(tmp_path, store=MemoryStore(), Explore=[says(error="no such model")]) as gen:
        ended = await gen.task("Explore", "look", budget=Budget(tokens=100_000))
        assert await costs(gen, ended.agent_id) == []
    assert (ended.status, ended.usage.tree) == (Status.FAILED, Usage())


class NeverCloses:
    """A model that has said all, and what it cost, and does not end its reply."""

    def __init__(self) -> None:
        self.told = False

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Call a tool, and then nothing more comes."""
        yield CallPart(ToolCall("c1", "LS", {"path": "."}))
        self.told = True
        yield EndPart("m", usage=Usage(900, 100))
        await asyncio.sleep(600)


async def test_what_a_call_is_known_to_have_cost_counts_also_when_it_is_cut_then(tmp_path: Path) -> None:
    model = NeverCloses()
    async with GenCode.open(tmp_path, model=model, store=MemoryStore()) as gen:
        ended = await stopped(gen, lambda: model.told)
        assert await costs(gen, ended.agent_id) == [Usage(900, 100)]
    assert (ended.status, ended.usage.tree) == (Status.CANCELLED, Usage(900, 100))


class Refuses:
    """A model that refuses so many requests and has nothing to say to the next."""

    def __init__(self, times: int, **trouble: Any) -> None:
        self.times = times
        self.trouble = trouble
        self.asked = 0

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        self.asked += 1
        if self.asked <= self.times:
            raise ProviderError("m is busy", retryable=True, **self.trouble)
        await asyncio.sleep(600)
        yield EndPart("m")


@pytest.mark.parametrize(
    "trouble", [{"limited": True}, {"limited": True, "retry_after": 30.0}, {"retry_after": 30.0}]
)
async def test_who_is_stopped_while_it_waits_to_ask_has_cost_nothing(
    tmp_path: Path, trouble: dict[str, Any]
) -> None:
    model = Refuses(1_000, **trouble)
    async with GenCode.open(tmp_path, model=model, store=MemoryStore()) as gen:
        ended = await stopped(gen, lambda: model.asked > 0)
        assert await costs(gen, ended.agent_id) == []
    assert (ended.status, ended.usage.tree) == (Status.CANCELLED, Usage())


@pytest.mark.parametrize("trouble", [{"limited": True}, {}])
async def test_who_is_stopped_when_it_has_asked_again_has_cost_one_request(
    tmp_path: Path, trouble: dict[str, Any]
) -> None:
    model = Refuses(1, **trouble)
    async with GenCode.open(tmp_path, model=model, store=MemoryStore()) as gen:
        ended = await stopped(gen, lambda: model.asked > 1)
        [lost] = await costs(gen, ended.agent_id)
    assert lost.input_tokens > 100
    assert ended.usage.tree == lost


async def stopped(gen: GenCode, when: Callable[[], bool]) -> Outcome:
    """How an agent ends that is stopped as soon as this is so."""
    sent = asyncio.create_task(gen.task("Explore", "look", budget=Budget(tokens=100_000)))
    await until(when, "the model was asked")
    [task] = [live.id for live in gen.running]
    await asyncio.sleep(0.05)
    await gen.stop(task)
    return await asyncio.wait_for(sent, 60)


async def test_a_call_in_flight_counts_when_its_process_died_where_there_is_a_budget() -> None:
    costs: list[Usage] = []
    for budget, asks in ((Budget(tokens=100_000), True), (Budget(tokens=100_000), False), (Budget(), True)):
        store = MemoryStore()
        dead = await store.create(TaskCreated(agent="Explore", prompt="look", budget=budget), "dead")
        said = AssistantMessage("", (ToolCall("c1", "LS", {}),), usage=Usage(900, 100, usd=0.5))
        heard = ToolMessage((ToolResult("c1", "LS", "x" * 4_000),))
        messages = [UserMessage("look"), said, heard]
        await store.append(dead, [TaskStarted("m"), *map(MessageAdded, messages)])
        if asks:  # the other one waits for its turn to ask
            await store.ledger.hold(Hold(dead.task, dead.path, {"turns": 1, "tokens": 20_000}, "dead"))
        await close_task(store, dead.task, "here", "dead")
        found = await store.task(dead.task)
        assert found is not None
        assert found.status is Status.INTERRUPTED
        costs.append(found.totals.usage)
    nothing = Usage(900, 100, usd=0.5)
    assert costs == [Usage(900 + 2_008, 100, usd=0.5 + 1.004), nothing, nothing]
