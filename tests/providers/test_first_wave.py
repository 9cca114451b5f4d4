"""A crowd that a program sends to a model of which nobody knows yet how much it takes."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path

from gencode.agent.ports import Request
from gencode.app import GenCode
from gencode.core.errors import ProviderError
from gencode.core.messages import EndPart, Part, TextPart
from gencode.providers.request_queue import FIRST, LONGEST_HOLD, MORE, RequestQueue
from gencode.providers.retry import RetryingProvider
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.testing import Overhearing, call, says
from tests.providers.obedient_provider import Told, heard
from tests.providers.virtual_clock import hurried

AGENTS = 100


@dataclass
class Slow:
    """A model that answers after some seconds, the first so many `soon`; the first so many fail instead."""

    seconds: float = 10.0
    fails: int = 0
    soon: int = 0
    asked_at: list[float] = field(default_factory=list[float])

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        loop = asyncio.get_running_loop()
        self.asked_at.append(loop.time())
        fails, soon = len(self.asked_at) <= self.fails, len(self.asked_at) <= self.soon
        await asyncio.sleep(1.0 if soon else self.seconds)
        if fails:
            raise ProviderError("m failed", retryable=True)
        yield TextPart("yes")
        yield EndPart("m")

    def waves(self) -> list[tuple[float, int]]:
        """How many asked at the same time, and after how many seconds."""
        began = self.asked_at[0]
        return [(at - began, self.asked_at.count(at)) for at in sorted(set(self.asked_at))]


async def crowd(provider: RetryingProvider, agents: int = AGENTS, *, sent: bool = False) -> None:
    """So many ask at once, and all are answered."""
    said = await asyncio.gather(*(heard(provider, sent=sent) for _ in range(agents)))
    assert said == ["yes"] * agents


def test_a_crowd_of_a_program_waits_until_two_of_its_first_are_answered() -> None:
    model = Slow()
    hurried(crowd(RetryingProvider(model, RequestQueue())))
    assert model.waves() == [(0, FIRST), (10, AGENTS - FIRST)]


def test_nobody_waits_at_a_model_that_has_answered_in_the_last_minute() -> None:
    async def twice(rest: float) -> list[tuple[float, int]]:
        model = Slow()
        provider = RetryingProvider(model, RequestQueue())
        await crowd(provider, 2)
        await asyncio.sleep(rest)
        model.asked_at.clear()
        await crowd(provider)
        return model.waves()

    assert hurried(twice(50)) == [(0, AGENTS)]
    assert hurried(twice(70)) == [(0, FIRST), (10, AGENTS - FIRST)]


def test_nobody_waits_whom_an_agent_has_sent() -> None:
    model = Slow()
    hurried(crowd(RetryingProvider(model, RequestQueue()), sent=True))
    assert model.waves() == [(0, AGENTS)]


def test_those_who_wait_go_after_a_while_where_the_first_have_no_answer_yet() -> None:
    model = Slow(seconds=600)
    hurried(crowd(RetryingProvider(model, RequestQueue())))
    assert model.waves() == [(0, FIRST), (LONGEST_HOLD, AGENTS - FIRST)]


def test_for_each_one_that_is_answered_some_more_ask() -> None:
    model = Slow(seconds=600, soon=2)
    hurried(crowd(RetryingProvider(model, RequestQueue())))
    assert model.waves() == [(0, FIRST), (1, 2 * MORE), (LONGEST_HOLD, AGENTS - FIRST - 2 * MORE)]


def test_nobody_waits_for_those_whom_an_agent_has_sent() -> None:
    async def story() -> float:
        loop = asyncio.get_running_loop()
        provider = RetryingProvider(Slow(seconds=600), RequestQueue())
        sent = [asyncio.create_task(heard(provider, sent=True)) for _ in range(AGENTS)]
        await asyncio.sleep(5)
        asked = asyncio.create_task(heard(provider))
        await asyncio.gather(*sent, asked)
        return loop.time() - 1000

    assert hurried(story()) == 605


def test_whom_an_agent_has_sent_does_not_wait_after_a_storm_that_is_forgotten() -> None:
    async def story() -> list[tuple[float, int]]:
        refused = iter([False])
        queue, model = RequestQueue(), Slow()
        assert await heard(RetryingProvider(Told(lambda _: next(refused, True)), queue)) == "yes"
        await asyncio.sleep(600)
        await crowd(RetryingProvider(model, queue), sent=True)
        return model.waves()

    assert hurried(story()) == [(0, AGENTS)]


async def test_it_is_known_which_requests_come_from_those_whom_an_agent_has_sent(tmp_path: Path) -> None:
    send = call("Task", subagent_type="Explore", prompt="look")
    model = Overhearing(
        ScriptedProvider.of({"main": [says("", send), says("done")], "*": [says("found")] * 3})
    )

    async with GenCode.open(tmp_path, model=model, store=MemoryStore()) as gen:
        outcome = await gen.ask("go").outcome()
        [child] = await gen.tasks(parent=outcome.agent_id)
        await gen.resume(child.agent_id, "go on")
        await gen.fork(child.agent_id, "and this")
    asked = [(request.agent, request.sent) for request in model.requests]
    mine = [
        ("Explore", False),
        ("Explore", False),
    ]  # a person, and not the agent that sent it, waits for these
    assert asked == [("main", False), ("Explore", True), ("main", False), *mine]


def test_others_ask_in_the_place_of_those_who_fail() -> None:
    model = Slow(fails=FIRST)
    hurried(crowd(RetryingProvider(model, RequestQueue())))
    assert model.waves()[:2] == [(0, FIRST), (10, FIRST)]
    assert len(model.asked_at) == AGENTS + FIRST


def test_others_ask_in_the_place_of_those_who_are_stopped_and_nobody_for_whoever_was_stopped_in_line() -> (
    None
):
    async def story() -> list[tuple[float, int]]:
        model = Slow()
        provider = RetryingProvider(model, RequestQueue())
        agents = [asyncio.create_task(heard(provider)) for _ in range(AGENTS)]
        await asyncio.sleep(5)
        for stopped in agents[20:40]:
            stopped.cancel()
        left = agents[:20] + agents[40:]
        assert await asyncio.gather(*left) == ["yes"] * len(left)
        return model.waves()

    assert hurried(story()) == [(0, FIRST), (5, 4), (10, AGENTS - 40 - 4)]


def test_one_that_is_stopped_at_the_moment_of_its_turn_gives_it_to_another() -> None:
    async def story() -> list[tuple[float, int]]:
        model = Slow()
        provider = RetryingProvider(model, RequestQueue())
        agents = [asyncio.create_task(heard(provider)) for _ in range(FIRST + 2)]
        await asyncio.sleep(5)
        agents[0].cancel()
        await asyncio.sleep(0)  # the first that waits has its place now, and has not seen it yet
        agents[FIRST].cancel()
        await asyncio.gather(*agents[1:FIRST], agents[FIRST + 1])
        return model.waves()

    assert hurried(story()) == [(0, FIRST), (5, 1)]
