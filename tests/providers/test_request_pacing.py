"""How a limit is met that nobody tells, on a clock that does not wait: with few refusals, and soon."""

import asyncio
import os
import random
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from itertools import product

import pytest

from gencode.agent.ports import Request
from gencode.core.errors import ProviderError
from gencode.core.messages import EndPart, Part, TextPart
from gencode.providers.request_queue import RequestQueue
from gencode.providers.retry import RetryingProvider
from gencode.settings import Settings
from tests.providers.agent_crowd import AGENTS, Crowd, Model
from tests.providers.limits import AtOnce, Bucket, Limit, Outage, Sliding, Unsteady, Window
from tests.providers.obedient_provider import Told, heard, outcome
from tests.virtual_clock import hurried

TURNS = 3
DEFAULT_CAP = Settings().max_agents
FEW_STORMS = 20
STORMS = int(os.environ.get("GEN_STORMS", FEW_STORMS))


@dataclass
class RefusalRun:
    """How many requests there were for each one of a calm run, and how many seconds it took."""

    requests: float
    seconds: float


async def state(limit: Limit, crowd: Crowd, tells: bool) -> RefusalRun:
    """All ask with the usual patience; everybody is answered."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(random.uniform(0, 60))
    model = Model(limit, crowd, tells)
    provider = RetryingProvider(model, RequestQueue())
    slots = asyncio.Semaphore(crowd.at_once)

    async def agent() -> list[str]:
        async with slots:
            return [await heard(provider) for _ in range(crowd.turns)]

    began = loop.time()
    said = [] if crowd.program else [await heard(provider)]
    for words in await asyncio.gather(*(agent() for _ in range(crowd.agents))):
        said += words
    if not crowd.program:
        said.append(await heard(provider))
    assert said == ["yes"] * (crowd.agents * crowd.turns + 2 * (not crowd.program))
    return RefusalRun(model.requests / len(said), loop.time() - began)


def stormy(seed: int, limit: Limit, crowd: Crowd, *, tells: bool = False) -> RefusalRun:
    """One of them, on a clock that does not wait."""
    before = random.getstate()
    try:
        random.seed(seed)
        return hurried(state(limit, crowd, tells))
    finally:
        random.setstate(before)


LIMITS: dict[str, tuple[Callable[[], Limit], float]] = {
    "one a minute": (lambda: Window(1, 60.0), 1),
    "one in any minute": (lambda: Sliding(1, 60.0), 1),
    "slowest window": (lambda: Window(2, 60.0), 2),
    "slow window": (lambda: Window(5, 60.0), 5),
    "window": (lambda: Window(20, 60.0), 20),
    "bucket": (lambda: Bucket(10, 60.0), 10),
    "slow bucket": (lambda: Bucket(3, 60.0), 3),
    "slow sliding": (lambda: Sliding(5, 60.0), 5),
    "sliding": (lambda: Sliding(20, 60.0), 20),
    "slowly one by one": (lambda: Bucket(1, 30.0), 2),
    "one by one": (lambda: Bucket(1, 2.0), 30),
}
"""Limits, and how many requests a minute they let through."""


CROWDS: dict[str, tuple[Crowd, bool, float, float]] = {
    "one turn": (Crowd(1, DEFAULT_CAP), False, 1.5, 1.75),
    "more turns": (Crowd(TURNS, DEFAULT_CAP), False, 1.5, 1.75),
    "more turns, told when": (Crowd(TURNS, DEFAULT_CAP), True, 1.5, 1.75),
    "all at once": (Crowd(TURNS, AGENTS), False, 1.5, 1.75),
    # Of those that ask at once some are refused before anything is known.
    "all at once, one turn": (Crowd(1, AGENTS), False, 2.0, 2.5),
    "all at once, one turn, told when": (Crowd(1, AGENTS), True, 2.0, 2.5),
    "all at once, one slow turn": (Crowd(1, AGENTS, rtt=0.1, thinks=2.0), False, 2.0, 2.5),
    "of a program": (Crowd(1, AGENTS, program=True), False, 2.0, 2.5),
    "of a program, more turns": (Crowd(TURNS, AGENTS, program=True), False, 1.5, 1.75),
}
"""Who asks, whether a refusal tells how long to wait, and how many requests and how much time it may take."""


PAIRS = list(product(LIMITS, CROWDS))
"""Every limit with every crowd. The suite takes each fourth, in which each limit and each crowd is met."""


@pytest.mark.parametrize(("limited", "crowded"), PAIRS if STORMS > FEW_STORMS else PAIRS[::4])
def test_a_limit_by_the_minute_is_met_with_few_refusals_and_soon(limited: str, crowded: str) -> None:
    limit, a_minute = LIMITS[limited]
    crowd, tells, requests, times = CROWDS[crowded]
    ideal = (AGENTS * crowd.turns + 2) * 60 / a_minute
    seen = stormy(0, limit(), crowd, tells=tells)
    assert seen.requests <= requests
    assert seen.seconds <= times * ideal


@pytest.mark.parametrize("seed", range(STORMS))
def test_whatever_the_limit_a_hundred_agents_make_at_most_twice_the_requests(seed: int) -> None:
    dice = random.Random(seed)
    size, seconds = dice.choice([1, 2, 3, 5, 8, 15, 30, 50]), dice.choice([60.0, 60.0, 30.0, 10.0, 5.0])
    outage = Outage(dice.uniform(3, 150))
    limits = [Window(size, seconds), Bucket(size, seconds), Sliding(size, seconds), AtOnce(size), outage]
    at_once = dice.choice([DEFAULT_CAP, 32, 64, AGENTS, AGENTS])
    crowd = Crowd(dice.choice([1, 1, 2, 3]), at_once, dice.choice([0.001, 0.1]), dice.choice([0.0, 0.5, 5.0]))
    crowd.program = dice.random() < 0.5
    assert stormy(seed, dice.choice(limits), crowd, tells=dice.random() < 0.3).requests <= 2.0


@pytest.mark.parametrize("seconds", [9.0, 25.0, 55.0, 100.0, 150.0])
def test_after_an_outage_a_hundred_are_soon_answered_with_one_refusal_each_and_few_more(
    seconds: float,
) -> None:
    seen = stormy(0, Outage(seconds), Crowd(thinks=0.5))
    assert seen.requests <= 2.0
    assert seen.seconds <= 2 * seconds + 150


@pytest.mark.parametrize(("late", "outage"), [(10.0, 70.0), (30.0, 60.0), (60.0, 130.0)])
def test_refusals_that_come_late_make_nobody_wait_for_each_of_them(late: float, outage: float) -> None:
    seen = stormy(0, Outage(outage), Crowd(minds=late))
    assert seen.requests <= 2.0
    assert seen.seconds <= 500


@pytest.mark.parametrize("late", [0.0, 2.0, 10.0])
@pytest.mark.parametrize("limit", [lambda: Window(2, 60.0), lambda: Bucket(2, 60.0), lambda: Window(5, 60.0)])
def test_refusals_that_come_later_than_answers_are_not_too_many(
    limit: Callable[[], Limit], late: float
) -> None:
    for program in (False, True):
        crowd = Crowd(rtt=0.1, minds=late, program=program)
        assert stormy(0, limit(), crowd).requests <= 2.0
        assert stormy(0, limit(), crowd, tells=True).requests <= 2.0


def test_a_server_that_tells_a_wait_that_is_wrong_is_not_believed_again_and_again() -> None:
    class Tells(Window):
        def wait(self, now: float) -> float:
            return 10.0 if super().wait(now) else 0.0

    for seed in range(4):
        assert stormy(seed, Tells(1, 60.0), Crowd(rtt=0.1, thinks=0.5), tells=True).requests <= 2.0


@pytest.mark.parametrize("agents", [33, 40, 48])
@pytest.mark.parametrize("outage", [45.0, 58.0])
def test_a_smaller_crowd_is_soon_answered_after_an_outage(agents: int, outage: float) -> None:
    for seed in range(4):
        assert stormy(seed, Outage(outage), Crowd(agents=agents, thinks=0.5)).seconds <= 300


@pytest.mark.parametrize(("told", "times"), [(0.1, 4.0), (1.0, 5.0), (5.0, 4.0), (30.0, 12.0)])
def test_a_server_that_tells_the_same_wait_to_everybody_is_believed_only_as_far_as_it_is_true(
    told: float, times: float
) -> None:
    class Tells(Bucket):
        def wait(self, now: float) -> float:
            return told if super().wait(now) else 0.0

    seen = stormy(0, Tells(1, 2.0), Crowd(), tells=True)
    assert seen.requests <= 2.0
    assert seen.seconds <= times * 2.0 * (AGENTS + 2)


@pytest.mark.parametrize("limit", [lambda: Window(1, 60.0), lambda: Bucket(1, 30.0)])
def test_requests_that_fail_at_a_slow_limit_lose_nobody(limit: Callable[[], Limit]) -> None:
    for seed in range(3):
        assert stormy(seed, limit(), Crowd(fails=0.05)).requests <= 2.3  # nobody is lost in a `stormy`


@pytest.mark.parametrize("odd", [float("nan"), -5.0])
def test_a_wait_that_is_none_is_not_told(odd: float) -> None:
    assert ProviderError("m is busy", retry_after=odd).retry_after is None


@pytest.mark.parametrize(("every", "seconds"), [(6, 200), (3, 200), (2, 400)])
def test_a_server_that_refuses_however_slowly_one_asks_is_not_asked_more_and_more_slowly(
    every: int, seconds: float
) -> None:
    for seed in range(3):
        seen = stormy(seed, Unsteady(every), Crowd(1, DEFAULT_CAP))
        assert seen.requests <= 2.0
        assert seen.seconds <= seconds


def test_a_server_that_refuses_most_requests_however_slowly_one_asks_answers_everybody_in_the_end() -> None:
    class Mostly(Unsteady):
        def wait(self, now: float) -> float:
            return 0.0 if super().wait(now) else 0.02

    for every in (3, 6):
        assert stormy(0, Mostly(every), Crowd()).requests == pytest.approx(every, rel=0.02)


def test_one_alone_does_not_give_up_before_a_limit_by_the_minute_opens_again() -> None:
    async def asked() -> str:
        limit = Window(1, 60.0)
        loop = asyncio.get_running_loop()
        provider = RetryingProvider(Told(lambda _: not limit.wait(loop.time())), RequestQueue())
        await asyncio.sleep(60.0 - loop.time() % 60.0)
        return await heard(provider) + await heard(provider)

    before = random.getstate()
    try:
        for seed in range(20):
            random.seed(seed)
            assert hurried(asked()) == "yesyes"
    finally:
        random.setstate(before)


def test_a_probe_that_is_stopped_leaves_its_place_to_the_next() -> None:
    async def waited() -> float:
        loop = asyncio.get_running_loop()
        probing: asyncio.Future[str] = loop.create_future()

        class Hangs(Told):
            async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
                if len(self.asked) == 2 and not probing.done():
                    probing.set_result(request.agent)
                    await asyncio.sleep(1000)
                async for part in super().stream(request):
                    yield part

        refused = iter([False, False])
        provider = RetryingProvider(Hangs(lambda _: next(refused, True)), RequestQueue())
        agents = {name: asyncio.create_task(outcome(provider, name)) for name in ("a", "b")}
        began = loop.time()
        agents.pop(await probing).cancel()
        [left] = agents.values()
        assert await left == "yes"
        return loop.time() - began

    assert hurried(waited()) < 2


@pytest.mark.parametrize("overloaded", [True, False])
def test_what_passes_is_not_taken_for_a_limit_by_the_minute(overloaded: bool) -> None:
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

        provider = RetryingProvider(Down(lambda _: True), RequestQueue())

        async def agent() -> list[str]:
            return [await heard(provider) for _ in range(5)]

        assert await asyncio.gather(*(agent() for _ in range(10))) == [["yes"] * 5] * 10
        return loop.time() - began

    assert hurried(took()) <= 60
