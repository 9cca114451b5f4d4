"""How a limit is met that nobody tells, on a clock that does not wait: with few refusals, and soon."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

import pytest

from gencode.core.errors import ProviderError
from gencode.providers.cooldown import Cooldown
from gencode.providers.retry import Patience, Retrying
from gencode.runtime.ports import EndPart, Part, Request, TextPart
from gencode.settings import Settings
from tests.providers.hurried import hurried
from tests.providers.limits import Bucket, Limit, Sliding, Unsteady, Window
from tests.providers.told import Told, heard, together

AGENTS = 100
TURNS = 3
DEFAULT_CAP = Settings().max_agents


@dataclass
class Storm:
    """How many requests there were for each one of a calm run, and how many seconds it took."""

    requests: float
    seconds: float


async def storm(limit: Limit, turns: int, at_once: int) -> Storm:
    """One sends a hundred and sums up in the end, with the usual patience; everybody is answered."""
    loop = asyncio.get_running_loop()
    told = Told(lambda _: not limit.wait(loop.time()))
    provider = Retrying(told, Cooldown())
    slots = asyncio.Semaphore(at_once)

    async def agent() -> list[str]:
        async with slots:
            return [await heard(provider) for _ in range(turns)]

    began = loop.time()
    first = await heard(provider)
    answers = await asyncio.gather(*(agent() for _ in range(AGENTS)))
    last = await heard(provider)
    assert [first, *answers, last] == ["yes", *[["yes"] * turns] * AGENTS, "yes"]
    return Storm(len(told.asked) / (AGENTS * turns + 2), loop.time() - began)


def storms(limit: Callable[[], Limit], turns: int, at_once: int) -> list[Storm]:
    """Some of them, on a clock that does not wait."""
    before = random.getstate()
    seen: list[Storm] = []
    try:
        for seed in range(3):
            random.seed(seed)
            seen.append(hurried(storm(limit(), turns, at_once)))
    finally:
        random.setstate(before)
    return seen


@pytest.mark.parametrize(
    ("turns", "at_once", "most"),
    [
        (1, DEFAULT_CAP, 1.5),
        (TURNS, DEFAULT_CAP, 1.5),
        (TURNS, AGENTS, 1.5),
        (1, AGENTS, 2.1),  # all are refused once before anything is known: nobody could do with less than 1.9
    ],
    ids=["one turn", "more turns", "all at once", "all at once, one turn"],
)
@pytest.mark.parametrize(
    ("limit", "a_minute"),
    [
        (lambda: Window(2, 60.0), 2),
        (lambda: Window(5, 60.0), 5),
        (lambda: Window(20, 60.0), 20),
        (lambda: Bucket(10, 60.0), 10),
        (lambda: Sliding(5, 60.0), 5),
        (lambda: Sliding(20, 60.0), 20),
        (lambda: Bucket(1, 30.0), 2),
        (lambda: Bucket(1, 2.0), 30),
    ],
    ids=[
        "slowest window",
        "slow window",
        "window",
        "bucket",
        "slow sliding",
        "sliding",
        "slowly one by one",
        "one by one",
    ],
)
def test_a_limit_by_the_minute_is_met_soon_although_the_server_does_not_say_when(
    limit: Callable[[], Limit], a_minute: int, turns: int, at_once: int, most: float
) -> None:
    ideal = (AGENTS * turns + 2) * 60 / a_minute
    for seen in storms(limit, turns, at_once):
        assert seen.requests <= most
        assert seen.seconds <= 2 * ideal


@pytest.mark.parametrize(
    "limit", [lambda: Bucket(20, 60.0), lambda: Bucket(50, 60.0), lambda: Window(50, 60.0)]
)
def test_a_hundred_that_ask_at_once_and_only_once_make_no_second_wave(limit: Callable[[], Limit]) -> None:
    for seen in storms(limit, 1, AGENTS):
        assert seen.requests <= 2.0


@pytest.mark.parametrize(("every", "seconds"), [(6, 200), (3, 200), (2, 400)])
def test_a_server_that_refuses_however_slowly_one_asks_is_not_asked_more_and_more_slowly(
    every: int, seconds: float
) -> None:
    for seen in storms(lambda: Unsteady(every), 1, DEFAULT_CAP):
        assert seen.requests <= 2.0
        assert seen.seconds <= seconds


@pytest.mark.parametrize(("agents", "soonest", "latest"), [(1, 0.37, 0.51), (AGENTS, 9.0, 14.0)])
def test_the_more_wait_the_longer_they_wait_before_one_tries_again(
    agents: int, soonest: float, latest: float
) -> None:
    async def waited() -> float:
        refused = iter([False] * agents)
        told = Told(lambda _: next(refused, True))
        began = asyncio.get_running_loop().time()
        assert await together(told, Cooldown(), Patience(), agents) == ["yes"] * agents
        assert len(told.asked) == 2 * agents
        return asyncio.get_running_loop().time() - began

    assert soonest <= hurried(waited()) <= latest


def test_one_alone_does_not_give_up_before_a_limit_by_the_minute_opens_again() -> None:
    async def asked() -> str:
        limit = Window(1, 60.0)
        loop = asyncio.get_running_loop()
        provider = Retrying(Told(lambda _: not limit.wait(loop.time())), Cooldown())
        await asyncio.sleep(60.0 - loop.time() % 60.0)
        return await heard(provider) + await heard(provider)

    before = random.getstate()
    try:
        for seed in range(20):
            random.seed(seed)
            assert hurried(asked()) == "yesyes"
    finally:
        random.setstate(before)


@pytest.mark.parametrize("stopped", [0, 98])
def test_whoever_was_stopped_in_line_makes_nobody_wait_longer(stopped: int) -> None:
    async def waited() -> float:
        refused = iter([False] * AGENTS)
        provider = Retrying(Told(lambda _: next(refused, True)), Cooldown(), Patience())
        loop = asyncio.get_running_loop()
        began = loop.time()
        agents = [asyncio.create_task(heard(provider)) for _ in range(AGENTS)]
        await asyncio.sleep(0.1)
        for agent in agents[:stopped]:
            agent.cancel()
        assert await asyncio.gather(*agents[stopped:]) == ["yes"] * (AGENTS - stopped)
        return loop.time() - began

    took = hurried(waited())
    assert took < 1 if stopped else took > 5


@pytest.mark.parametrize(("overloaded", "soonest", "latest"), [(True, 0, 60), (False, 60, 400)])
def test_an_overload_that_passes_is_not_taken_for_a_limit_by_the_minute(
    overloaded: bool, soonest: float, latest: float
) -> None:
    async def took() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()

        class Down(Told):
            async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
                await asyncio.sleep(1.0)
                if 1.5 < loop.time() - began < 10:
                    raise ProviderError("m is busy", retryable=True, limited=True, overloaded=overloaded)
                yield TextPart("yes")
                yield EndPart("m")

        provider = Retrying(Down(lambda _: True), Cooldown())

        async def agent() -> list[str]:
            return [await heard(provider) for _ in range(5)]

        assert await asyncio.gather(*(agent() for _ in range(10))) == [["yes"] * 5] * 10
        return loop.time() - began

    assert soonest <= hurried(took()) <= latest
