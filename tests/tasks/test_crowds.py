"""Crowds: a deep tree of agents under a small cap, and many writers on few files.

For more of them: GEN_SEEDS=200 GEN_CROWD=1000.
"""

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from gencode.agent.ports import Request
from gencode.app import GenCode
from gencode.core.messages import CallPart, EndPart, Part, TextPart, ToolCall, ToolMessage, UserMessage
from gencode.core.status import Status
from gencode.core.task import transcript_of
from gencode.stores.memory import MemoryStore
from gencode.tasks import watch
from gencode.testing import call, says, scripted
from tests.tasks.words import results
from tests.waiting import Gate, until

CHANGE = call("Edit", file_path="a.txt", old_string="one", new_string="two")
STALE = "a.txt changed since it was read (by the agent general-purpose, task {task}); Read it again first."
SEEDS = int(os.environ.get("GEN_SEEDS", "1"))
AGENTS = int(os.environ.get("GEN_CROWD", "120"))
CAP = 8


class Forest:
    """A model whose agents send others below them, some in the background, until there are enough."""

    def __init__(self, seed: int, most: int) -> None:
        self._random = random.Random(seed)
        self._left = most
        self.working = 0
        self.most_at_once = 0

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Send some agents in the first turn, and report in the one after."""
        self.working += request.agent != "main"
        self.most_at_once = max(self.most_at_once, self.working)
        try:
            await asyncio.sleep(self._random.uniform(0, 0.002))
            tools = {tool.name for tool in request.tools}
            if "Task" in tools and len(request.messages) == 1 and self._left > 0:
                sent = min(self._left, self._random.randint(6, 9))
                self._left -= sent  # before others get to speak
                for number in range(sent):
                    arguments = {
                        "subagent_type": "Walker",
                        "prompt": "go down",
                        "run_in_background": self._random.random() < 0.3,
                    }
                    yield CallPart(ToolCall(f"c{number}", "Task", arguments))
            else:
                yield TextPart("done")
            yield EndPart("forest")
        finally:
            self.working -= request.agent != "main"


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_a_deep_tree_under_a_small_cap_ends_without_waiting_for_itself(
    tmp_path: Path, home: Path, seed: int
) -> None:
    agents = home / ".gen" / "agents"
    agents.mkdir(parents=True)
    head = "name: Walker\ndescription: Goes down.\ntools: Task(Walker), LS\npermission-mode: plan"
    (agents / "Walker.md").write_text(f"---\n{head}\n---\nGo.\n")
    model = Forest(seed, AGENTS)
    settings = {"max_agents": CAP, "max_depth": 4, "permission_mode": "dontAsk"}
    async with (
        asyncio.timeout(300),
        GenCode.open(tmp_path, model=model, settings=settings, store=MemoryStore()) as gen,
    ):
        outcome = await gen.ask("go").outcome()
        tasks = await gen.tasks()
    assert outcome.status is Status.COMPLETED
    assert Counter(task.status for task in tasks) == Counter({Status.COMPLETED: len(tasks)})
    assert len(tasks) == AGENTS
    assert 1 < model.most_at_once <= CAP


class Writers:
    """A model whose agents read a file, add a line of their own and try again until that was accepted."""

    async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        first = request.messages[0]
        name, line = first.text.split() if isinstance(first, UserMessage) else ("", "")
        last = request.messages[-1]
        results = last.results if isinstance(last, ToolMessage) else ()
        if results and results[0].name == "Edit" and not results[0].error:
            yield TextPart("added")
        elif results and results[0].name == "Read":
            arguments = {"file_path": name, "old_string": "end\n", "new_string": f"{line}\nend\n"}
            yield CallPart(ToolCall("e", "Edit", arguments))
        else:
            yield CallPart(ToolCall("r", "Read", {"file_path": name}))
        yield EndPart("writers")


async def test_many_writers_on_few_files_lose_no_update(tmp_path: Path) -> None:
    writers = 100
    for number in range(10):
        (tmp_path / f"{number}.txt").write_text("end\n")
    settings = {"max_agents": 100, "permission_mode": "dontAsk"}
    async with (
        asyncio.timeout(300),
        GenCode.open(tmp_path, model=Writers(), settings=settings, store=MemoryStore()) as gen,
    ):
        handles = [
            await gen.task("general-purpose", f"{number % 10}.txt line{number}", background=True)
            for number in range(writers)
        ]
        outcomes = [await handle.result() for handle in handles]
        refusals = [
            result.text
            for handle in handles
            for event in await gen.history.events(handle.id)
            if isinstance(message := getattr(event.fact, "message", None), ToolMessage)
            for result in message.results
            if result.error
        ]
    texts = [(tmp_path / f"{number}.txt").read_text() for number in range(10)]
    added = sorted(line for text in texts for line in text.split() if line != "end")
    assert {each.status for each in outcomes} == {Status.COMPLETED}
    assert added == sorted(f"line{number}" for number in range(writers))
    assert refusals, "nobody was in anybody's way, so that nothing was shown"
    assert all("(by the agent general-purpose, task " in text or "changed" in text for text in refusals)


async def write_meanwhile(folder: Path, *, written_down: bool) -> tuple[str, str]:
    """What a slow writer is told when another process changed the file, and the id of the agent there.

    The other one has `written_down` its call by then, or is in the middle of one beside it.
    """
    (folder / "a.txt").write_text("one\n")
    (folder / "there").mkdir()
    here_waits, there_waits = Gate(folder), Gate(folder / "there")
    read = says("", call("Read", file_path="a.txt"))
    settings, store = {"permission_mode": "dontAsk"}, MemoryStore()
    slow = [read, says("", here_waits.call), says("", CHANGE), says("")]
    beside = () if written_down else (call("Bash", command="cat there/gate"),)
    quick = [read, says("", CHANGE, *beside), says("")]

    async def has_read(task: str) -> bool:
        return bool(results(transcript_of(await store.events(task))))

    async with (
        scripted(folder, settings=settings, store=store, general_purpose=slow) as here,
        scripted(folder, settings=settings, store=store, general_purpose=quick) as there,
    ):
        handle = await here.task("general-purpose", "change it", background=True)
        await until(lambda: has_read(handle.id), "the slow one has read it")
        other = await there.task("general-purpose", "change it", background=True)
        if written_down:
            await other.result()
        await until(lambda: (folder / "a.txt").read_text() == "two\n", "the other one has changed it")
        await until(here_waits.opened, "the slow one is about to write")
        if not written_down:
            await asyncio.wait([asyncio.ensure_future(handle.result())], timeout=0.3)
            await until(there_waits.opened, "the other one is about to write down what it did")
        await handle.result()
        await other.result()
        _, _, said, *_ = results(transcript_of(await store.events(handle.id)))
    return said, other.id


async def test_a_stale_write_names_the_agent_of_another_process(tmp_path: Path) -> None:
    said, other = await write_meanwhile(tmp_path, written_down=True)
    assert said == STALE.format(task=other)


async def test_a_stale_write_names_who_has_not_written_down_yet_what_it_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one's calls are written down together: what it ran after the change is not over yet."""
    monkeypatch.setattr(watch, "WRITTEN_LATER", 30.0)  # the machine may be busy
    said, other = await write_meanwhile(tmp_path, written_down=False)
    assert said == STALE.format(task=other)
