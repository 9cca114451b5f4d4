"""Models of programs that do not heed a stop: nobody waits for them, and a late word does not count."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from gencode.agent import plugin_calls
from gencode.agent.ports import Request
from gencode.app import GenCode
from gencode.core.messages import (
    AssistantMessage,
    CallPart,
    EndPart,
    Message,
    Part,
    TextPart,
    ToolCall,
    UserMessage,
)
from gencode.core.outcome import Outcome
from gencode.core.status import Status
from gencode.stores.memory import MemoryStore
from tests.tasks.words import results, said
from tests.virtual_clock import virtual_time
from tests.waiting import until

PROMPT = UserMessage("go")
HALF = AssistantMessage("so far", model="Deaf", partial=True)
SILENT = r"it gave no sign of life for \d+ s; the limit is silence_seconds"
LATE = r"it took longer than 1 s; the limit is task_seconds"


@pytest.fixture
async def wake() -> asyncio.Event:
    """Lets the model of a test come to its end at last; by itself, where a test would hang for it."""
    wake = asyncio.Event()
    asyncio.get_running_loop().call_later(20, wake.set)
    return wake


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_calls, "HEED_SECONDS", 0.1)


class Deaf:
    """A model that leads well as main and answers as Plan, and as Explore hears nobody in its first reply."""

    def __init__(self, wake: asyncio.Event) -> None:
        self._wake = wake
        self.speaks = asyncio.Event()
        self.over = asyncio.Event()

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        if request.agent == "main" and len(request.messages) == 1:
            for number, agent in enumerate(("Explore", "Plan")):
                arguments = {"subagent_type": agent, "prompt": "go"}
                yield CallPart(ToolCall(f"c{number}", "Task", arguments))
        elif request.agent == "Explore" and len(request.messages) == 1:
            try:
                yield TextPart("so far")
                await self._stubbornly()
                yield TextPart(" and so late")
            finally:
                self.over.set()
        else:
            yield TextPart(f"{request.agent} is done")
        yield EndPart("deaf")

    async def _stubbornly(self) -> None:
        self.speaks.set()
        while not self._wake.is_set():
            try:
                await self._wake.wait()
            except asyncio.CancelledError:
                continue


def opened(folder: Path, model: Deaf, **settings: Any) -> AbstractAsyncContextManager[GenCode]:
    return GenCode.open(folder, model=model, settings=settings, store=MemoryStore())


async def by_agent(gen: GenCode) -> dict[str, Outcome]:
    return {task.agent: task for task in await gen.tasks()}


async def beside_it(gen: GenCode, model: Deaf) -> str:
    """The id of Explore, once it is deaf and Plan is done."""

    async def done() -> bool:
        return "Plan" in (found := await by_agent(gen)) and found["Plan"].status.ended

    await model.speaks.wait()
    await until(done, "Plan is done")
    return (await by_agent(gen))["Explore"].agent_id


async def waked(gen: GenCode, model: Deaf, wake: asyncio.Event, task: str) -> list[Message]:
    """The transcript of a task after its model came to its end, which is closed like any other."""
    assert not wake.is_set(), "somebody waited for it"
    wake.set()
    await model.over.wait()
    await asyncio.sleep(0)
    return await said(gen, task)


@pytest.mark.parametrize(
    ("settings", "why"),
    [({"stall_seconds": 0.2, "silence_seconds": 0.6}, SILENT), ({"task_seconds": 1}, LATE)],
)
@virtual_time
async def test_an_agent_whose_time_is_up_ends_and_its_sender_goes_on(
    tmp_path: Path, wake: asyncio.Event, settings: dict[str, float], why: str
) -> None:
    model = Deaf(wake)
    async with asyncio.timeout(30), opened(tmp_path, model, **settings) as gen:
        outcome = await gen.ask("go").outcome()
        found = await by_agent(gen)
        given = results(await said(gen, outcome.agent_id))
        late = await waked(gen, model, wake, found["Explore"].agent_id)
    assert (outcome.status, outcome.result) == (Status.COMPLETED, "main is done")
    assert (found["Explore"].status, found["Explore"].result) == (Status.TIMED_OUT, "so far")
    assert re.fullmatch(why, found["Explore"].error or "")
    assert ("so far" in given[0], given[1].startswith("Plan is done")) == (True, True)
    assert late == [PROMPT, HALF]


async def stop_it(gen: GenCode, task: str) -> Outcome:
    return await gen.stop(task)


async def stop_its_sender(gen: GenCode, task: str) -> Outcome:
    sender = (await gen.get(task)).parent_id
    await gen.stop(sender or "", tree=True)
    return await gen.get(task)


@pytest.mark.parametrize(("stop", "turn"), [(stop_it, Status.COMPLETED), (stop_its_sender, Status.CANCELLED)])
async def test_whoever_stops_it_or_its_sender_is_told_its_end_at_once(
    tmp_path: Path, wake: asyncio.Event, stop: Callable[[GenCode, str], Awaitable[Outcome]], turn: Status
) -> None:
    model = Deaf(wake)
    async with asyncio.timeout(30), opened(tmp_path, model) as gen:
        asked = asyncio.ensure_future(gen.ask("go").outcome())
        stopped = await stop(gen, task := await beside_it(gen, model))
        outcome = await asked
        late = await waked(gen, model, wake, task)
        after = await gen.get(task)
    assert (stopped.status, stopped.result, outcome.status) == (Status.CANCELLED, "so far", turn)
    assert (late, after.status, after.result) == ([PROMPT, HALF], Status.CANCELLED, "so far")


async def test_an_agent_that_is_interrupted_goes_on_from_what_it_had_said(
    tmp_path: Path, wake: asyncio.Event
) -> None:
    model = Deaf(wake)
    async with asyncio.timeout(30), opened(tmp_path, model) as gen:
        asked = asyncio.ensure_future(gen.ask("go").outcome())
        await gen.interrupt(task := await beside_it(gen, model), "be brief")
        await asked
        found = await gen.get(task)
        late = await waked(gen, model, wake, task)
    assert (found.status, found.result) == (Status.COMPLETED, "Explore is done")
    assert late[:2] == [PROMPT, HALF]
    assert late[-1] == AssistantMessage("Explore is done", model="deaf")


async def test_whoever_closes_gencode_does_not_wait_for_one(tmp_path: Path, wake: asyncio.Event) -> None:
    model, store = Deaf(wake), MemoryStore()
    async with asyncio.timeout(30):
        async with GenCode.open(tmp_path, model=model, store=store) as gen:
            handle = await gen.task("Explore", "go", background=True)
            await model.speaks.wait()
        task = await store.task(handle.id)
        assert not wake.is_set(), "somebody waited for it"
        wake.set()
        await model.over.wait()
    assert task is not None
    assert (task.status, task.result) == (Status.CANCELLED, "so far")


async def test_one_that_answers_a_stop_with_a_whole_reply_does_not_lift_it(tmp_path: Path) -> None:
    begun = asyncio.Event()

    class Hasty:
        async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
            try:
                begun.set()
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                yield TextPart("in a hurry")
            yield EndPart("hasty")

    async with asyncio.timeout(30), GenCode.open(tmp_path, model=Hasty(), store=MemoryStore()) as gen:
        handle = await gen.task("Explore", "go", background=True)
        await begun.wait()
        stopped = await gen.stop(handle.id)
    assert (stopped.status, stopped.result) == (Status.CANCELLED, "")


async def test_one_that_speaks_without_a_pause_keeps_nobody_from_stopping_it(tmp_path: Path) -> None:
    begun = asyncio.Event()

    class Endless:
        async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
            begun.set()
            for _ in range(200_000):
                yield TextPart("on ")

    async with asyncio.timeout(30), GenCode.open(tmp_path, model=Endless(), store=MemoryStore()) as gen:
        handle = await gen.task("Explore", "go", background=True)
        await begun.wait()
        stopped = await gen.stop(handle.id)
    assert stopped.status is Status.CANCELLED


async def test_one_that_heeds_has_the_time_to_put_its_things_in_order(tmp_path: Path) -> None:
    begun, order = asyncio.Event(), list[str]()

    class Tidy:
        async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
            try:
                yield TextPart("so far")
                begun.set()
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.02)
                order.append("closed")
            yield EndPart("tidy")

    async with asyncio.timeout(30), GenCode.open(tmp_path, model=Tidy(), store=MemoryStore()) as gen:
        handle = await gen.task("Explore", "go", background=True)
        await begun.wait()
        stopped = await gen.stop(handle.id)
        order.append("ended")
    assert (stopped.status, stopped.result, order) == (Status.CANCELLED, "so far", ["closed", "ended"])
