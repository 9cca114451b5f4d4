"""A hundred agents at a model that has had enough: at most twice the requests, and everybody is answered."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass

import pytest

from gencode.agent.ports import Request
from gencode.core.errors import ProviderError
from gencode.core.messages import EndPart, Part, TextPart, WaitPart
from gencode.providers.rate_limit import RateLimit
from gencode.providers.request_queue import RequestQueue
from gencode.providers.retry import RetryingProvider, RetryPolicy
from gencode.providers.shared_limit_file import LimitStorage
from tests.contracts.provider import Play
from tests.providers.dialects import chat, provider_at
from tests.providers.fake_server import Exchange, fake_server, in_json, streamed
from tests.providers.limits import AtOnce, Bucket, Limit, StandsStill, Unsteady, Window
from tests.providers.obedient_provider import ASKED, ENDS, Told, heard, outcome, together
from tests.virtual_clock import hurried

AGENTS = 100
TURNS = 3
SCALED = RetryPolicy(first=0.02, longest=0.5, whole=20)
"""The usual patience, some twenty times faster."""


@dataclass
class Model:
    """A server with a limit; `says_when` is whether a refusal tells how long to wait."""

    limit: Limit
    refusal: str = "429 Too Many Requests"
    says_when: bool = True
    answered: int = 0
    refused: int = 0

    async def act(self, exchange: Exchange) -> bool:
        wait = self.limit.wait(asyncio.get_running_loop().time())
        if wait:
            self.refused += 1
            headers = {"retry_after": f"{wait:.4f}"} if self.says_when else {}
            return bool(await in_json({"error": {"message": "slow down"}}, self.refusal, **headers)(exchange))
        try:
            await asyncio.sleep(0.005)
            return bool(await streamed(b"".join(chat(Play(("yes",)))))(exchange))
        finally:
            self.answered += 1
            self.limit.done()


async def crowd(model: Model) -> list[str]:
    """What all agents heard in all their turns."""
    async with asyncio.timeout(ENDS), fake_server(model.act) as server:
        provider = RetryingProvider(provider_at("chat", server.url), RequestQueue(), SCALED)

        async def agent() -> list[str]:
            return [await heard(provider) for _ in range(TURNS)]

        told = await asyncio.gather(*(agent() for _ in range(AGENTS)))
    assert len(server.asked) == model.answered + model.refused
    return [text for texts in told for text in texts]


def test_a_calm_run_asks_once_for_every_turn() -> None:
    model = Model(Bucket(10_000, 1))
    assert hurried(crowd(model)) == ["yes"] * AGENTS * TURNS
    assert (model.answered, model.refused) == (AGENTS * TURNS, 0)


@pytest.mark.parametrize("says_when", [True, False], ids=["told when", "not told when"])
@pytest.mark.parametrize(
    ("limit", "refusal"),
    [
        (lambda: Bucket(20, 0.2), "429 Too Many Requests"),
        (lambda: Bucket(1, 0.01), "429 Too Many Requests"),
        (lambda: StandsStill(0.01, 3.0), "429 Too Many Requests"),
        (lambda: Bucket(10_000, 1, opens=0.5), "429 Too Many Requests"),
        (lambda: Bucket(20, 0.2, opens=0.5), "503 Service Unavailable"),
        (lambda: Window(20, 0.2), "429 Too Many Requests"),
        (lambda: AtOnce(3), "429 Too Many Requests"),
        (lambda: AtOnce(10), "529 Overloaded"),
        (lambda: Unsteady(6), "529 Overloaded"),
    ],
    ids=[
        "bucket",
        "one by one",
        "standing still",
        "outage",
        "outage, then bucket",
        "window",
        "three at once",
        "ten at once",
        "unsteady",
    ],
)
def test_a_storm_asks_at_most_twice_as_often_and_everybody_is_answered(
    limit: Callable[[], Limit], refusal: str, says_when: bool
) -> None:
    model = Model(limit(), refusal, says_when)
    assert hurried(crowd(model)) == ["yes"] * AGENTS * TURNS
    assert model.answered == AGENTS * TURNS
    assert 0 < model.refused <= AGENTS * TURNS


async def test_refusals_of_what_was_on_its_way_do_not_lengthen_the_pause() -> None:
    queue = RequestQueue()
    trouble = ProviderError("m is busy", retryable=True, limited=True)
    turns = [await queue.turn(ENDS).__aenter__() for _ in range(3)]
    turns[0].refused(0.01, trouble)
    for late in turns[1:]:
        late.refused(1000.0, trouble)
    async with asyncio.timeout(ENDS), queue.turn(ENDS) as turn:
        await turn.wait()
        turn.answered()
    assert (queue.state.pauses, queue.state.refusals) == (1, 0)


async def test_nobody_runs_out_of_tries_because_others_hit_the_limit() -> None:
    refused = iter([False] * 60)
    told = Told(lambda _: next(refused, True))
    policy = RetryPolicy(tries=2, first=0.001, longest=0.002, whole=20)
    assert await together(told, RequestQueue(), policy, 40) == ["yes"] * 40


async def test_a_request_that_is_refused_whenever_others_are_answered_is_given_up_by_itself() -> None:
    told = Told(lambda request: request.agent != "7")
    policy = RetryPolicy(tries=3, first=0.001, longest=0.002, whole=20)
    answers = await together(told, RequestQueue(), policy, 20)
    assert answers == ["m is busy (tried 3 times)" if n == 7 else "yes" for n in range(20)]


async def test_whoever_was_refused_in_its_turn_is_among_the_next_to_ask() -> None:
    refused = iter([*[False] * 8, True, False, False])
    told = Told(lambda _: next(refused, True))
    policy = RetryPolicy(first=0.001, longest=0.002, whole=20)
    assert await together(told, RequestQueue(), policy, 8) == ["yes"] * 8
    assert told.asked[:8] == [f"{n}" for n in range(8)]
    assert told.asked[8:11] == ["0", "1", "2"]
    assert sorted(told.asked[11:14]) == ["1", "2", "3"]


async def waits(provider: RetryingProvider) -> list[WaitPart]:
    return [part async for part in provider.stream(ASKED) if isinstance(part, WaitPart) and part.why]


def test_who_waits_for_a_model_says_so_and_a_person_hears_it_once_in_a_while() -> None:
    async def told() -> list[list[WaitPart]]:
        limit, loop = Window(2, 60.0), asyncio.get_running_loop()
        busy = Told(lambda _: not limit.wait(loop.time()))
        provider = RetryingProvider(busy, RequestQueue())
        return await asyncio.gather(*(waits(provider) for _ in range(6)))

    said = hurried(told())
    parts = [part for parts in said for part in parts]
    assert sum(not each for each in said) >= 2  # so many were answered at once
    assert parts and all(part.why.startswith("waits for the model (m is busy): ") for part in parts)
    assert 1 <= sum(part.note for part in parts) <= 4


def test_who_asks_again_after_a_long_pause_says_so() -> None:
    failing = iter([True] * 4)

    class Broken(Told):
        async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
            if next(failing, False):
                raise ProviderError("no connection", retryable=True)
            yield EndPart("m")

    said = hurried(waits(RetryingProvider(Broken(lambda _: True), RequestQueue(), RetryPolicy(first=4))))
    assert [part.note for part in said] == [True] * len(said)
    assert said[-1].why.endswith(" s (no connection)")
    assert 3 <= len(said) <= 4


def test_a_provider_that_answers_nobody_is_given_up_by_all_in_line() -> None:
    told = Told(lambda _: False)
    policy = RetryPolicy(tries=1000, first=0.05, longest=0.1, whole=0.3)
    answers = hurried(together(told, RequestQueue(), policy, 50))
    assert {answer.partition(" (")[0] for answer in answers} == {"m is busy"}
    assert len(told.asked) <= 2 * 50


async def test_a_wait_that_is_too_long_is_told_to_each_and_keeps_nobody_in_line() -> None:
    too_long = ProviderError("m is busy", retryable=True, limited=True, retry_after=3600)

    class Shut(Told):
        async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
            self.asked.append(request.agent)
            for never in ():
                yield never
            raise too_long

    told, queue = Shut(lambda _: False), RequestQueue()
    answers = await together(told, queue, SCALED, 20)
    assert answers == ["m is busy. The provider asks to wait 60 minutes; try again then."] * 20
    assert (len(told.asked), queue.state.active) == (20, False)


async def test_whoever_is_stopped_in_line_or_while_asking_leaves_its_place_to_the_others() -> None:
    opened = asyncio.Event()
    told = Told(lambda _: opened.is_set())
    queue = RequestQueue()
    provider = RetryingProvider(told, queue, RetryPolicy(tries=1000, first=0.005, longest=0.01, whole=20))
    agents = [asyncio.create_task(outcome(provider, f"{n}")) for n in range(20)]
    for n, agent in enumerate(agents[:-1]):
        await asyncio.sleep(0.001 * n)
        agent.cancel()
    opened.set()
    async with asyncio.timeout(ENDS):
        assert await agents[-1] == "yes"
        assert await outcome(provider, "later") == "yes"


async def test_a_refusal_is_forgotten_when_it_has_been_calm_for_a_while() -> None:
    refused = iter([False])
    told = Told(lambda _: next(refused, True))
    queue = RequestQueue(LimitStorage(RateLimit(calm=0.0)))
    provider = RetryingProvider(told, queue, RetryPolicy(first=0.001, longest=0.002))
    assert [await outcome(provider, "a"), queue.state.active] == ["yes", True]
    await asyncio.sleep(0.01)
    assert [await outcome(provider, "a"), queue.state.active] == ["yes", False]
    assert len(told.asked) == 3


def test_a_reply_that_broke_off_is_void_only_when_it_is_asked_for_again() -> None:
    class Torn(Told):
        async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
            self.asked.append(request.agent)
            yield TextPart("half")
            if len(self.asked) < 2:
                raise ProviderError("no connection", retryable=True)
            yield EndPart("m")

    async def heard_in_order() -> list[str]:
        provider = RetryingProvider(Torn(lambda _: True), RequestQueue(), RetryPolicy(first=8))
        return [type(part).__name__ async for part in provider.stream(ASKED)]

    # Whoever is stopped in the pause has made one request, and the half that was said counts.
    assert hurried(heard_in_order()) == [
        "TextPart",
        "WaitPart",
        "AgainPart",
        "WaitPart",
        "TextPart",
        "EndPart",
    ]
