"""A crowd at a model of which nobody knows yet how much it takes."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from gencode.agent.ports import Request
from gencode.core.errors import ProviderError
from gencode.core.messages import EndPart, Part, TextPart
from gencode.providers.request_queue import FIRST, LONGEST_HOLD, MORE, REFUSAL_SECONDS, RequestQueue
from gencode.providers.retry import RetryingProvider
from tests.providers.obedient_provider import heard
from tests.virtual_clock import hurried

AGENTS = 100


@dataclass
class Slow:
    """A model that answers after some seconds, the first so many `soon`; the first so many fail instead."""

    seconds: float = 0.1
    fails: int = 0
    soon: int = 0
    asked_at: list[float] = field(default_factory=list[float])

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        loop = asyncio.get_running_loop()
        self.asked_at.append(loop.time())
        fails, soon = len(self.asked_at) <= self.fails, len(self.asked_at) <= self.soon
        await asyncio.sleep(0.05 if soon else self.seconds)
        if fails:
            raise ProviderError("m failed", retryable=True)
        yield TextPart("yes")
        yield EndPart("m")

    def waves(self) -> list[tuple[float, int]]:
        """How many asked at the same time, and after how many seconds."""
        began = self.asked_at[0]
        return [(round(at - began, 2), self.asked_at.count(at)) for at in sorted(set(self.asked_at))]


async def crowd(provider: RetryingProvider, agents: int = AGENTS) -> None:
    """So many ask at once, and all are answered."""
    said = await asyncio.gather(*(heard(provider) for _ in range(agents)))
    assert said == ["yes"] * agents


def test_a_crowd_waits_until_its_first_are_answered() -> None:
    model = Slow()
    hurried(crowd(RetryingProvider(model, RequestQueue())))
    assert model.waves() == [(0, FIRST), (0.1, MORE * FIRST), (0.2, AGENTS - (1 + MORE) * FIRST)]


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
    assert hurried(twice(70)) == [(0, FIRST), (0.1, MORE * FIRST), (0.2, AGENTS - (1 + MORE) * FIRST)]


def test_those_who_wait_go_where_nothing_was_answered_or_refused_in_the_time_of_a_refusal() -> None:
    model = Slow(seconds=600)
    hurried(crowd(RetryingProvider(model, RequestQueue())))
    assert model.waves() == [(0, FIRST), (REFUSAL_SECONDS, AGENTS - FIRST)]


def test_for_each_one_that_is_answered_some_more_ask() -> None:
    model = Slow(seconds=600, soon=2)
    hurried(crowd(RetryingProvider(model, RequestQueue())))
    assert model.waves() == [(0, FIRST), (0.05, 2 * MORE), (LONGEST_HOLD, AGENTS - FIRST - 2 * MORE)]


def test_others_ask_in_the_place_of_those_who_fail() -> None:
    model = Slow(fails=FIRST)
    hurried(crowd(RetryingProvider(model, RequestQueue())))
    assert model.waves()[:2] == [(0, FIRST), (0.1, FIRST)]
    assert len(model.asked_at) == AGENTS + FIRST


def test_others_ask_in_the_place_of_those_who_are_stopped_and_nobody_for_whoever_was_stopped_in_line() -> (
    None
):
    async def story() -> list[tuple[float, int]]:
        model = Slow()
        provider = RetryingProvider(model, RequestQueue())
        agents = [asyncio.create_task(heard(provider)) for _ in range(AGENTS)]
        await asyncio.sleep(0.05)
        for stopped in agents[20:40]:
            stopped.cancel()
        left = agents[:20] + agents[40:]
        assert await asyncio.gather(*left) == ["yes"] * len(left)
        return model.waves()

    assert hurried(story()) == [(0, FIRST), (0.05, 4), (0.1, 40), (0.15, 8), (0.2, 8)]


def test_one_that_is_stopped_at_the_moment_of_its_turn_gives_it_to_another() -> None:
    async def story() -> list[tuple[float, int]]:
        model = Slow()
        provider = RetryingProvider(model, RequestQueue())
        agents = [asyncio.create_task(heard(provider)) for _ in range(FIRST + 2)]
        await asyncio.sleep(0.05)
        agents[0].cancel()
        await asyncio.sleep(0)  # the first that waits has its place now, and has not seen it yet
        agents[FIRST].cancel()
        await asyncio.gather(*agents[1:FIRST], agents[FIRST + 1])
        return model.waves()

    assert hurried(story()) == [(0, FIRST), (0.05, 1)]
