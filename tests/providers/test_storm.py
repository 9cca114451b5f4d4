"""A hundred agents at a model that has had enough: at most twice the requests, and everybody is answered."""

import asyncio
import random
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from selectors import DefaultSelector, SelectorKey

import pytest

from gencode.core.errors import ProviderError
from gencode.core.messages import UserMessage
from gencode.providers.cooldown import Cooldown
from gencode.providers.retry import Patience, Retrying
from gencode.runtime.ports import EndPart, Part, Request, TextPart, WaitPart
from gencode.settings import Settings
from tests.contracts.provider import Play
from tests.providers.dialects import chat, provider_at
from tests.providers.fake_server import Exchange, fake_server, in_json, streamed
from tests.providers.limits import AtOnce, Bucket, Limit, Sliding, StandsStill, Unsteady, Window

AGENTS = 100
TURNS = 3
DEFAULT_CAP = Settings().max_agents
SCALED = Patience(first=0.02, longest=0.5, whole=20)
"""The usual patience, some twenty times faster."""
ENDS = 60.0
"""Whatever takes longer hangs."""
ASKED = Request("some-model", "", (UserMessage("go"),), ())


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
        provider = Retrying(provider_at("chat", server.url), Cooldown(), SCALED)

        async def agent() -> list[str]:
            return [await heard(provider) for _ in range(TURNS)]

        told = await asyncio.gather(*(agent() for _ in range(AGENTS)))
    assert len(server.asked) == model.answered + model.refused
    return [text for texts in told for text in texts]


async def heard(provider: Retrying) -> str:
    return "".join([part.text async for part in provider.stream(ASKED) if isinstance(part, TextPart)])


async def test_a_calm_run_asks_once_for_every_turn() -> None:
    model = Model(Bucket(10_000, 1))
    assert await crowd(model) == ["yes"] * AGENTS * TURNS
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
async def test_a_storm_asks_at_most_twice_as_often_and_everybody_is_answered(
    limit: Callable[[], Limit], refusal: str, says_when: bool
) -> None:
    model = Model(limit(), refusal, says_when)
    assert await crowd(model) == ["yes"] * AGENTS * TURNS
    assert model.answered == AGENTS * TURNS
    assert 0 < model.refused <= AGENTS * TURNS


@dataclass
class Told:
    """A provider that does as `answers` says for each request: True answers it, False has had too many."""

    answers: Callable[[Request], bool]
    asked: list[str] = field(default_factory=list[str])

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        self.asked.append(request.agent)
        await asyncio.sleep(0.001)
        if not self.answers(request):
            raise ProviderError("m is busy", retryable=True, limited=True)
        yield TextPart("yes")
        yield EndPart("m")


async def outcome(provider: Retrying, agent: str) -> str:
    """What an agent hears: the answer or the error."""
    request = Request("m", "", (UserMessage("go"),), (), agent=agent)
    try:
        return "".join([part.text async for part in provider.stream(request) if isinstance(part, TextPart)])
    except ProviderError as error:
        return str(error)


async def together(told: Told, cooldown: Cooldown, patience: Patience, agents: int) -> list[str]:
    async with asyncio.timeout(ENDS):
        provider = Retrying(told, cooldown, patience)
        return await asyncio.gather(*(outcome(provider, f"{n}") for n in range(agents)))


async def test_refusals_of_what_was_on_its_way_do_not_lengthen_the_pause() -> None:
    cooldown = Cooldown()
    trouble = ProviderError("m is busy", retryable=True, limited=True)
    turns = [await cooldown.turn(ENDS).__aenter__() for _ in range(3)]
    turns[0].refused(0.01, trouble)
    for late in turns[1:]:
        late.refused(1000.0, trouble)
    async with asyncio.timeout(ENDS), cooldown.turn(ENDS) as turn:
        await turn.wait()
        turn.answered()
    assert (cooldown.pauses, cooldown.refusals) == (1, 0)


async def test_nobody_runs_out_of_tries_because_others_hit_the_limit() -> None:
    refused = iter([False] * 60)
    told = Told(lambda _: next(refused, True))
    patience = Patience(tries=2, first=0.001, longest=0.002, whole=20)
    assert await together(told, Cooldown(), patience, 40) == ["yes"] * 40


async def test_a_request_that_is_refused_whenever_others_are_answered_is_given_up_by_itself() -> None:
    told = Told(lambda request: request.agent != "7")
    patience = Patience(tries=3, first=0.001, longest=0.002, whole=20)
    answers = await together(told, Cooldown(), patience, 20)
    assert answers == ["m is busy (tried 3 times)" if n == 7 else "yes" for n in range(20)]


async def test_whoever_was_refused_in_its_turn_is_among_the_next_to_ask() -> None:
    refused = iter([*[False] * 8, True, False, False])
    told = Told(lambda _: next(refused, True))
    patience = Patience(first=0.001, longest=0.002, whole=20)
    assert await together(told, Cooldown(), patience, 8) == ["yes"] * 8
    assert told.asked[:8] == [f"{n}" for n in range(8)]
    assert told.asked[8:11] == ["0", "1", "2"]
    assert sorted(told.asked[11:14]) == ["1", "2", "3"]


async def waits(provider: Retrying) -> list[WaitPart]:
    return [part async for part in provider.stream(ASKED) if isinstance(part, WaitPart)]


def test_who_waits_for_a_model_says_so_and_a_person_hears_it_once_in_a_while() -> None:
    async def told() -> list[list[WaitPart]]:
        limit, loop = Window(2, 60.0), asyncio.get_running_loop()
        busy = Told(lambda _: not limit.wait(loop.time()))
        provider = Retrying(busy, Cooldown())
        return await asyncio.gather(*(waits(provider) for _ in range(6)))

    loop = Hurried()
    try:
        said = loop.run_until_complete(told())
    finally:
        loop.close()
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

    loop = Hurried()
    try:
        said = loop.run_until_complete(waits(Retrying(Broken(lambda _: True), Cooldown(), Patience(first=4))))
    finally:
        loop.close()
    assert [part.note for part in said] == [True] * len(said)
    assert said[-1].why.endswith(" s (no connection)")
    assert 3 <= len(said) <= 4


async def test_a_provider_that_answers_nobody_is_given_up_by_all_in_line() -> None:
    told = Told(lambda _: False)
    patience = Patience(tries=1000, first=0.05, longest=0.1, whole=0.3)
    answers = await together(told, Cooldown(), patience, 50)
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

    told, cooldown = Shut(lambda _: False), Cooldown()
    answers = await together(told, cooldown, SCALED, 20)
    assert answers == ["m is busy. The provider asks to wait 60 minutes; try again then."] * 20
    assert (len(told.asked), cooldown.cold) == (20, False)


async def test_whoever_is_stopped_in_line_or_while_asking_leaves_its_place_to_the_others() -> None:
    opened = asyncio.Event()
    told = Told(lambda _: opened.is_set())
    cooldown = Cooldown()
    provider = Retrying(told, cooldown, Patience(tries=1000, first=0.005, longest=0.01, whole=20))
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
    cooldown = Cooldown(calm=0.0)
    provider = Retrying(told, cooldown, Patience(first=0.001, longest=0.002))
    assert [await outcome(provider, "a"), cooldown.cold] == ["yes", True]
    await asyncio.sleep(0.01)
    assert [await outcome(provider, "a"), cooldown.cold] == ["yes", False]
    assert len(told.asked) == 3


class Hurry(DefaultSelector):
    """Never waits: the time that would pass is only counted."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        ready = super().select(0)
        if timeout and not ready:
            self.passed += timeout
        return ready


class Hurried(asyncio.SelectorEventLoop):
    """A loop in which an hour of waiting takes no time, and all happens in the same order each time."""

    def __init__(self) -> None:
        self._hurry = Hurry()
        super().__init__(self._hurry)

    def time(self) -> float:
        return 1000 + self._hurry.passed


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
            loop = Hurried()
            try:
                seen.append(loop.run_until_complete(storm(limit(), turns, at_once)))
            finally:
                loop.close()
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


@pytest.mark.parametrize(("agents", "soonest", "latest"), [(1, 0.25, 0.51), (AGENTS, 6.0, 13.0)])
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

    loop = Hurried()
    try:
        assert soonest <= loop.run_until_complete(waited()) <= latest
    finally:
        loop.close()
