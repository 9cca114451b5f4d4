"""Processes that ask the same model: what one of them knows of its limit the others know."""

import asyncio
import fcntl
import json
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gencode.providers.rate_limit import STALL, RateLimit
from gencode.providers.request_queue import RequestQueue
from gencode.providers.retry import RetryingProvider
from gencode.providers.shared_limit_file import SharedLimitFile
from tests.contracts.provider import Play
from tests.providers.agent_crowd import Crowd, Model
from tests.providers.dialects import chat
from tests.providers.fake_server import Exchange, fake_server, in_json, streamed
from tests.providers.limits import AtOnce, Bucket, Limit, Outage, Window
from tests.providers.obedient_provider import Told, heard
from tests.virtual_clock import hurried

ASKED = ("openai", "http://127.0.0.1", "key", "some-model")


def board(folder: Path) -> SharedLimitFile:
    """That of one process."""
    return SharedLimitFile(folder, ASKED)


def file_in(folder: Path) -> Path:
    """The one in which it stands."""
    [file] = folder.iterdir()
    return file


def written(folder: Path) -> dict[str, Any]:
    """What stands there."""
    return json.loads(file_in(folder).read_text() or "{}")


async def state(
    folder: Path, limit: Limit, processes: int, agents: int, turns: int, within: float = 2.0
) -> float:
    """Requests for each one of a calm run, of processes with so many agents; everybody is answered."""
    await asyncio.sleep(random.uniform(0, 60))
    model = Model(limit, Crowd(rtt=0.1, thinks=1.0), tells=False)

    async def agent(provider: RetryingProvider) -> list[str]:
        await asyncio.sleep(random.uniform(0, within))
        return [await heard(provider) for _ in range(turns)]

    them = [RetryingProvider(model, RequestQueue(board(folder))) for _ in range(processes)]
    said = await asyncio.gather(*(agent(each) for each in them for _ in range(agents)))
    assert said == [["yes"] * turns] * processes * agents
    return model.requests / (processes * agents * turns)


@pytest.mark.parametrize(("processes", "agents", "turns"), [(40, 1, 1), (4, 16, 2)])
@pytest.mark.parametrize(
    "limit", [lambda: Window(10, 60.0), lambda: Bucket(1, 2.0), lambda: Outage(40.0), lambda: AtOnce(3)]
)
def test_processes_meet_a_limit_together_and_lose_nobody(
    tmp_path: Path, limit: Callable[[], Limit], processes: int, agents: int, turns: int
) -> None:
    before = random.getstate()
    try:
        random.seed(0)
        assert hurried(state(tmp_path, limit(), processes, agents, turns)) <= 2.0
    finally:
        random.setstate(before)


@pytest.mark.parametrize(("processes", "agents"), [(2, 20), (50, 1)])
def test_programs_that_begin_at_the_same_moment_still_learn_how_fast_they_may_ask(
    tmp_path: Path, processes: int, agents: int
) -> None:
    async def story() -> tuple[float, float]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        asked = await state(tmp_path, Bucket(1, 0.5), processes, agents, turns=1, within=0.05)
        return asked, loop.time() - began

    before = random.getstate()
    try:
        random.seed(0)
        asked, seconds = hurried(story())
    finally:
        random.setstate(before)
    assert (asked <= 2.1, seconds < 180) == (True, True)  # all are refused once before anything is known


class Crowded(SharedLimitFile):
    """One whose file another process is often writing, for a moment or longer than one waits for it."""

    def __enter__(self) -> RateLimit:
        if random.random() < 0.2:
            self._again_at = asyncio.get_running_loop().time() + random.choice([0.05, 2.0, 12.0])
        return super().__enter__()


@pytest.mark.parametrize("seed", range(5))
def test_where_the_file_can_often_not_be_had_nobody_is_lost(tmp_path: Path, seed: int) -> None:
    async def story() -> None:
        limit = random.choice([Window(5, 10.0), Bucket(1, 1.0), AtOnce(2), Outage(20.0)])
        model = Model(limit, Crowd(rtt=0.1, thinks=0.5), tells=False)
        lines = [RequestQueue(Crowded(tmp_path, ASKED)) for _ in range(3)]
        them = [RetryingProvider(model, each) for each in lines]
        agents = [asyncio.create_task(heard(random.choice(them))) for _ in range(40)]
        await asyncio.sleep(random.uniform(0, 5))
        for stopped in agents[::4]:
            stopped.cancel()
        said = await asyncio.gather(*agents, return_exceptions=True)
        assert [each for each in said if each != "yes" and not isinstance(each, asyncio.CancelledError)] == []

    before = random.getstate()
    try:
        random.seed(seed)
        hurried(story())
    finally:
        random.setstate(before)


def test_whoever_was_suspended_goes_on_when_the_storm_ended_meanwhile(tmp_path: Path) -> None:
    async def story() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        told = Told(lambda _: loop.time() > began + 1)
        here, there = (RetryingProvider(told, RequestQueue(Sleeping(tmp_path, ASKED))) for _ in range(2))
        first = asyncio.create_task(heard(here))
        await asyncio.sleep(0.5)
        agents = [asyncio.create_task(heard(here)) for _ in range(40)]
        await asyncio.sleep(0.1)
        file = file_in(tmp_path)
        file.write_text("")  # those elsewhere saw nobody wait, and forgot it
        assert await asyncio.gather(first, *agents, heard(there)) == ["yes"] * 42
        return loop.time() - began

    assert hurried(story()) < 30


class Sleeping(SharedLimitFile):
    """One that looks, but is never told that others have written."""

    def stirred(self) -> bool:
        return False


def test_one_that_comes_while_others_are_refused_waits_with_them(tmp_path: Path) -> None:
    async def story() -> tuple[float, int]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        told = Told(lambda _: loop.time() > began + 20)
        first = asyncio.create_task(heard(RetryingProvider(told, RequestQueue(board(tmp_path)))))
        await asyncio.sleep(5)
        asked = len(told.asked)
        second = asyncio.create_task(heard(RetryingProvider(told, RequestQueue(board(tmp_path)))))
        await asyncio.sleep(0.1)
        assert len(told.asked) == asked
        assert await asyncio.gather(first, second) == ["yes", "yes"]
        return loop.time() - began, len(told.asked)

    seconds, requests = hurried(story())
    assert 20 < seconds < 60
    assert requests < 12


def test_when_it_is_over_the_file_is_empty_and_nobody_looks_into_it(tmp_path: Path) -> None:
    async def story() -> None:
        refused = iter([False])
        here, there = RequestQueue(board(tmp_path)), RequestQueue(board(tmp_path))
        provider = RetryingProvider(Told(lambda _: next(refused, True)), here)
        assert await heard(provider) == "yes"
        assert there.holds()
        assert written(tmp_path)["active"]
        await asyncio.sleep(70)
        assert await heard(provider) == "yes"
        assert written(tmp_path) == {}
        assert not there.holds()

    hurried(story())


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"active": 7}', "\0" * 100, '{"active": true, "boot": "another"}']
)
def test_whatever_stands_in_the_file_everybody_is_answered(tmp_path: Path, text: str) -> None:
    async def story() -> None:
        refused = iter([False] * 5)
        told = Told(lambda _: next(refused, True))
        them = [RetryingProvider(told, RequestQueue(board(tmp_path))) for _ in range(3)]
        for number, each in enumerate(them):
            asking = asyncio.create_task(heard(each))
            await asyncio.sleep(0.1)
            file_in(tmp_path).write_text(text)
            assert (number, await asking) == (number, "yes")

    hurried(story())


def test_without_a_folder_each_goes_on_alone(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    refused = iter([False])
    provider = RetryingProvider(
        Told(lambda _: next(refused, True)), RequestQueue(board(tmp_path / "file" / "storms"))
    )
    assert hurried(heard(provider)) == "yes"


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    async def story() -> str:
        storms = tmp_path / "storms"
        await _refused_once(board(storms))
        file = file_in(storms)
        file.unlink()
        (tmp_path / "precious").write_text("precious")
        file.symlink_to(tmp_path / "precious")
        refused = iter([False])
        return await heard(
            RetryingProvider(Told(lambda _: next(refused, True)), RequestQueue(board(tmp_path / "storms")))
        )

    assert (hurried(story()), (tmp_path / "precious").read_text()) == ("yes", "precious")


def test_a_process_that_has_the_lock_and_hangs_keeps_nobody(tmp_path: Path) -> None:
    async def story() -> str:
        refused = iter([False] * 3)
        provider = RetryingProvider(Told(lambda _: next(refused, True)), RequestQueue(board(tmp_path)))
        await _refused_once(board(tmp_path))
        with file_in(tmp_path).open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            return await heard(provider)

    assert hurried(story()) == "yes"


def test_one_that_asked_in_a_process_that_died_keeps_nobody_for_long(tmp_path: Path) -> None:
    async def story() -> float:
        loop = asyncio.get_running_loop()
        refused = iter([False] * 2)
        asking = asyncio.create_task(
            heard(RetryingProvider(Told(lambda _: next(refused, True)), RequestQueue(board(tmp_path))))
        )
        await asyncio.sleep(0.2)
        with board(tmp_path) as state:
            assert state.take(state.next_at(), 1) == state.pauses  # and nothing is heard of it again
        began = loop.time()
        assert await asking == "yes"
        return loop.time() - began

    assert hurried(story()) < STALL + 5


def test_other_keys_and_models_have_other_files(tmp_path: Path) -> None:
    for asked in (ASKED, (*ASKED[:2], "other", ASKED[3]), (*ASKED[:3], "other")):
        assert not RequestQueue(SharedLimitFile(tmp_path, asked)).state.active
        hurried(_refused_once(SharedLimitFile(tmp_path, asked)))
    files = sorted(tmp_path.iterdir())
    assert len(files) == 3
    assert not any(b"key" in each.name.encode() + each.read_bytes() for each in files)
    assert {each.stat().st_mode & 0o777 for each in files} == {0o600}


async def _refused_once(there: SharedLimitFile) -> None:
    refused = iter([False])
    assert await heard(RetryingProvider(Told(lambda _: next(refused, True)), RequestQueue(there))) == "yes"


ONE = """
import asyncio, sys
from gencode import GenCode

async def main():
    async with GenCode.open(sys.argv[1], model="openai/some-model") as gen:
        print((await gen.task("Explore", "look")).result)

asyncio.run(main())
"""


async def test_a_dozen_real_processes_at_a_real_server_are_all_answered(tmp_path: Path, home: Path) -> None:
    limit, requests = Window(3, 2.0), 0

    async def act(exchange: Exchange) -> bool:
        nonlocal requests
        requests += 1
        if limit.wait(asyncio.get_running_loop().time()):
            return bool(await in_json({"error": {"message": "slow down"}}, "429 Too Many Requests")(exchange))
        return bool(await streamed(b"".join(chat(Play(("found",)))))(exchange))

    async with fake_server(act) as address:
        environ = {**os.environ, "OPENAI_API_KEY": "sk-none", "OPENAI_BASE_URL": address.url}
        them = [
            await asyncio.create_subprocess_exec(
                sys.executable, "-c", ONE, str(tmp_path), env=environ, stdout=asyncio.subprocess.PIPE
            )
            for _ in range(12)
        ]
        said = [(await each.communicate())[0].decode() for each in them]
    assert said == ["found\n"] * 12
    assert requests <= 36  # a crowd of less than 32 may be refused more often
