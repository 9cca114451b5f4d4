"""Asking again, and the pause that all agents share."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from gencode.agent.ports import Request
from gencode.app import GenCode
from gencode.core.errors import ProviderError
from gencode.core.messages import (
    AgainPart,
    CallPart,
    EndPart,
    Part,
    TextPart,
    ToolCall,
    UserMessage,
    WaitPart,
)
from gencode.providers.request_queue import RequestQueue
from gencode.providers.retry import RetryingProvider, RetryPolicy
from gencode.stores.memory import MemoryStore

QUICK = RetryPolicy(tries=4, first=0.001, longest=0.01, whole=5)
ASKED = Request("m", "", (UserMessage("go"),), ())
GOOD: Sequence[Part] = (TextPart("yes"), EndPart("m"))


def busy(**more: float) -> ProviderError:
    return ProviderError("m is busy", retryable=True, limited=True, retry_after=more.get("retry_after"))


class Moody:
    """Answers each request with the next of its moods: parts, then an error if there is one."""

    def __init__(self, *moods: tuple[Sequence[Part], ProviderError | None]) -> None:
        self.moods = list(moods)
        self.asked = 0

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        mood = self.moods[min(self.asked, len(self.moods) - 1)]
        self.asked += 1
        for part in mood[0]:
            yield part
        if mood[1] is not None:
            raise mood[1]


async def heard(provider: RetryingProvider) -> list[Part]:
    """The parts of a reply, without those that tell of waits."""
    parts = [part async for part in provider.stream(ASKED)]
    return [part for part in parts if not isinstance(part, WaitPart)]


async def test_trouble_that_passes_is_waited_out() -> None:
    moody = Moody(((), busy()), ((), busy()), (GOOD, None))
    assert await heard(RetryingProvider(moody, RequestQueue(), QUICK)) == list(GOOD)
    assert moody.asked == 3


@pytest.mark.parametrize(("passes", "asked"), [(True, 2), (False, 1)])
async def test_a_provider_of_ones_own_is_asked_again_where_its_errors_say_that_this_helps(
    tmp_path: Path, passes: bool, asked: int
) -> None:
    moody = Moody(((), ProviderError("m is away", retryable=passes)), (GOOD, None))
    async with GenCode.open(tmp_path, model=moody, store=MemoryStore()) as gen:
        outcome = await gen.task("Explore", "look")
    expected = ("completed", "yes", None) if passes else ("failed", "", "m is away")
    assert ((outcome.status, outcome.result, outcome.error), moody.asked) == (expected, asked)


async def test_a_reply_that_broke_off_is_void_and_asked_for_anew() -> None:
    half = (TextPart("ye"), CallPart(ToolCall("c", "Read", {})))
    moody = Moody((half, ProviderError("m broke off", retryable=True)), (GOOD, None))
    assert await heard(RetryingProvider(moody, RequestQueue(), QUICK)) == [
        *half,
        AgainPart("m broke off"),
        *GOOD,
    ]


async def test_trouble_that_does_not_pass_is_raised_at_once() -> None:
    moody = Moody(((), ProviderError("wrong key")))
    with pytest.raises(ProviderError, match=r"^wrong key$"):
        await heard(RetryingProvider(moody, RequestQueue(), QUICK))
    assert moody.asked == 1


async def test_the_number_of_tries_is_bounded_and_said() -> None:
    moody = Moody(((), busy()))
    with pytest.raises(ProviderError, match=r"^m is busy \(tried 4 times\)$"):
        await heard(RetryingProvider(moody, RequestQueue(), QUICK))
    assert moody.asked == 4


async def test_the_number_of_tries_stands_inside_the_sentence() -> None:
    moody = Moody(((), ProviderError("m is busy (HTTP 503).", retryable=True)))
    with pytest.raises(ProviderError, match=r"^m is busy \(HTTP 503\) \(tried 4 times\)\.$"):
        await heard(RetryingProvider(moody, RequestQueue(), QUICK))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (90, "90 seconds"),
        (600.5, "11 minutes"),
        (3600, "60 minutes"),
        (7200, "2 hours"),
        (864_000, "10 days"),
        (1e300, "more than a year"),
    ],
)
async def test_how_long_the_provider_asks_to_wait_is_said_when_that_is_too_long(
    seconds: float, words: str
) -> None:
    moody = Moody(((), busy(retry_after=seconds)))
    with pytest.raises(ProviderError) as caught:
        await heard(RetryingProvider(moody, RequestQueue(), QUICK))
    assert str(caught.value) == f"m is busy. The provider asks to wait {words}; try again then."


async def test_a_pause_longer_than_the_whole_patience_is_not_begun() -> None:
    moody = Moody(((), busy(retry_after=3600)))
    with pytest.raises(ProviderError, match="m is busy"):
        await heard(RetryingProvider(moody, RequestQueue(), QUICK))
    assert moody.asked == 1


async def test_what_the_provider_asks_for_is_waited_at_least() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    await heard(RetryingProvider(Moody(((), busy(retry_after=0.05)), (GOOD, None)), RequestQueue(), QUICK))
    assert loop.time() - began >= 0.05


async def test_a_hundred_agents_that_hit_a_limit_together_do_not_storm() -> None:
    """The server allows nothing for a while; with one shared pause each agent asks little more than once."""

    class Closed:
        def __init__(self) -> None:
            self.asked = 0
            self.opens = asyncio.get_running_loop().time() + 0.3

        async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
            self.asked += 1
            await asyncio.sleep(0.005)
            if asyncio.get_running_loop().time() < self.opens:
                raise ProviderError("m is busy", retryable=True, limited=True, retry_after=0.02)
            for part in GOOD:
                yield part

    server, queue = Closed(), RequestQueue()
    policy = RetryPolicy(tries=100, first=0.01, longest=0.05, whole=10)
    answers = await asyncio.gather(*(heard(RetryingProvider(server, queue, policy)) for _ in range(100)))
    assert [[part for part in parts if part in GOOD] for parts in answers] == [list(GOOD)] * 100
    assert server.asked <= 2 * 100 + 2
