"""A crowd that a program sends to a model of which nobody knows yet how much it takes."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from gencode.core.errors import ProviderError
from gencode.providers.cooldown import FIRST, Cooldown
from gencode.providers.retry import Retrying
from gencode.runtime.ports import EndPart, Part, Request, TextPart
from tests.providers.hurried import hurried
from tests.providers.told import heard

AGENTS = 100


@dataclass
class Slow:
    """A model that answers after so many seconds; the first so many requests fail instead."""

    seconds: float = 10.0
    fails: int = 0
    asked_at: list[float] = field(default_factory=list[float])

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        loop = asyncio.get_running_loop()
        self.asked_at.append(loop.time())
        fails = len(self.asked_at) <= self.fails
        await asyncio.sleep(self.seconds)
        if fails:
            raise ProviderError("m failed", retryable=True)
        yield TextPart("yes")
        yield EndPart("m")

    def waves(self) -> list[tuple[float, int]]:
        """How many asked at the same time, and after how many seconds."""
        began = self.asked_at[0]
        return [(at - began, self.asked_at.count(at)) for at in sorted(set(self.asked_at))]


async def crowd(provider: Retrying, agents: int = AGENTS, *, sent: bool = False) -> None:
    """So many ask at once, and all are answered."""
    said = await asyncio.gather(*(heard(provider, sent=sent) for _ in range(agents)))
    assert said == ["yes"] * agents


def test_a_crowd_of_a_program_waits_until_two_of_its_first_are_answered() -> None:
    model = Slow()
    hurried(crowd(Retrying(model, Cooldown())))
    assert model.waves() == [(0, FIRST), (10, AGENTS - FIRST)]


def test_nobody_waits_at_a_model_that_has_answered_in_the_last_minute() -> None:
    async def twice(rest: float) -> list[tuple[float, int]]:
        model = Slow()
        provider = Retrying(model, Cooldown())
        await crowd(provider, 2)
        await asyncio.sleep(rest)
        model.asked_at.clear()
        await crowd(provider)
        return model.waves()

    assert hurried(twice(50)) == [(0, AGENTS)]
    assert hurried(twice(70)) == [(0, FIRST), (10, AGENTS - FIRST)]


def test_nobody_waits_whom_an_agent_has_sent() -> None:
    model = Slow()
    hurried(crowd(Retrying(model, Cooldown()), sent=True))
    assert model.waves() == [(0, AGENTS)]


def test_those_who_wait_do_not_give_up_while_the_first_have_no_answer_yet() -> None:
    model = Slow(seconds=600)
    hurried(crowd(Retrying(model, Cooldown())))
    assert model.waves() == [(0, FIRST), (600, AGENTS - FIRST)]


def test_others_ask_in_the_place_of_those_who_fail() -> None:
    model = Slow(fails=FIRST)
    hurried(crowd(Retrying(model, Cooldown())))
    assert model.waves()[:2] == [(0, FIRST), (10, FIRST)]
    assert len(model.asked_at) == AGENTS + FIRST


def test_others_ask_in_the_place_of_those_who_are_stopped_and_nobody_for_whoever_was_stopped_in_line() -> (
    None
):
    async def story() -> list[tuple[float, int]]:
        model = Slow()
        provider = Retrying(model, Cooldown())
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
        provider = Retrying(model, Cooldown())
        agents = [asyncio.create_task(heard(provider)) for _ in range(FIRST + 2)]
        await asyncio.sleep(5)
        agents[0].cancel()
        await asyncio.sleep(0)  # the first that waits has its place now, and has not seen it yet
        agents[FIRST].cancel()
        await asyncio.gather(*agents[1:FIRST], agents[FIRST + 1])
        return model.waves()

    assert hurried(story()) == [(0, FIRST), (5, 1)]
