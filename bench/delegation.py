"""What delegation promises, in figures: many background tasks, stops, long sessions, one owner.

    python bench/delegation.py [--tasks 10000] [--turns 10000] [--races 1000]

Everything runs on the real journal on disk with a scripted model. The exit code is 1 when a limit is missed.
"""

import argparse
import asyncio
import gc
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

from gencode import GenCode, ToolContext, tool
from gencode.core.errors import UserMistake
from gencode.core.events import MessageAdded, TaskCreated, TaskStarted
from gencode.core.messages import AssistantMessage, UserMessage
from gencode.core.status import Status, stop_cause
from gencode.core.task import transcript_of
from gencode.journal.store import TaskQuery
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.sqlite import SqliteStore
from gencode.testing import Overhearing, call, says

AWAY = call("Task", subagent_type="general-purpose", prompt="short", run_in_background=True)
FREE = {"permission_mode": "dontAsk"}


class Row(NamedTuple):
    """One figure with its limit."""

    what: str
    figure: float
    limit: float
    unit: str

    def line(self) -> str:
        """As a line of Markdown."""
        verdict = "holds" if self.figure <= self.limit else "MISSED"
        return f"| {self.what} | {self.figure:,.1f} {self.unit} | {self.limit:,g} {self.unit} | {verdict} |"


@tool(effect="execute", name="dawdle", description="Take a long time.")
async def dawdle(ctx: ToolContext) -> str:
    """Never end by itself."""
    await asyncio.sleep(600)
    return ""


def resident() -> int:
    """Kilobytes of memory this process holds now."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


async def many(folder: Path, tasks: int) -> list[Row]:
    """So many short background tasks in one process, a hundred at a time; and all of it once more.

    Memory is compared after the first and after the second time: what a process has once needed, Python's
    allocator keeps, but the same work must not need more.
    """
    rounds = max(tasks // 100, 1)
    wrong, after = 0, list[int]()
    for _ in range(2):
        wrong += await _delivered_wrongly(folder, rounds)
        gc.collect()
        after.append(resident())
    return [
        Row(f"2 x {rounds * 100:,} background tasks not delivered exactly once", wrong, 0, "tasks"),
        Row("memory after the second time against the first", 100 * (after[1] / after[0] - 1), 10, "%"),
    ]


async def _delivered_wrongly(folder: Path, rounds: int) -> int:
    turns = [says(f"{n}", *[AWAY] * 100) for n in range(rounds)]
    script = ScriptedProvider.of({"main": [*turns, *[says("ok")] * rounds], "*": [says("done")]})
    async with GenCode.open(folder, model=script, settings=FREE) as gen:
        outcome = await gen.ask("go").outcome()
        said = transcript_of(await gen.history.events(outcome.agent_id))
        ended = await gen.history.tasks(TaskQuery(parent=outcome.agent_id, statuses=(Status.COMPLETED,)))
    shown = Counter(child for each in said if isinstance(each, UserMessage) for child in each.delivers)
    return sum(shown[task.id] != 1 for task in ended) + abs(rounds * 100 - len(ended))


async def stop_at(folder: Path, main: list[dict[str, object]], ready: Callable[[object], bool]) -> float:
    """Milliseconds from a stop to the state being saved, at a certain moment."""
    async with GenCode.open(
        folder, model=ScriptedProvider.of({"main": main}), tools=[dawdle], settings=FREE
    ) as gen:
        listener = gen.listen()
        job = await gen.start_turn("go")
        async for event in listener:
            if ready(event.fact):
                break
        listener.close()
        await asyncio.sleep(0.02)
        began = time.perf_counter()
        job.stop.stop(stop_cause("the benchmark stopped it"))
        task = await job.ended()
        took = (time.perf_counter() - began) * 1000
        assert task.status is Status.CANCELLED, task.status
        return took


async def stops(folder: Path) -> list[Row]:
    """Stops inside a model's stream and inside a tool, the slowest of several."""
    text = says("word " * 50, delay_ms=600_000)
    inside = says("", call("dawdle"))
    streams = [await stop_at(folder, [text], lambda fact: isinstance(fact, MessageAdded)) for _ in range(20)]
    tools = [await stop_at(folder, [inside], _calls) for _ in range(20)]
    return [
        Row("stop inside a model call, longest of 20", max(streams), 50, "ms"),
        Row("stop inside a tool, longest of 20", max(tools), 50, "ms"),
    ]


def _calls(fact: object) -> bool:
    return isinstance(fact, MessageAdded) and isinstance(fact.message, AssistantMessage)


async def long_session(folder: Path, turns: int) -> list[Row]:
    """From `resume` to the first request of a conversation of so many turns."""
    database = Path(os.environ["GEN_HOME"]) / "gencode.db"
    store = await SqliteStore.open(database)
    created = TaskCreated(prompt="long", agent="main", conversation=True, cwd=str(folder))
    lease = await store.create(created, "bench", [TaskStarted("scripted", "system", ())])
    for _ in range(turns // 100):
        pair = (MessageAdded(UserMessage("question " * 20)), MessageAdded(AssistantMessage("answer " * 40)))
        await store.append(lease, pair * 100)
    await store.release(lease)
    await store.close()
    heard = Overhearing(ScriptedProvider.of({"main": [says("still here")] * (turns + 1)}))
    began = time.perf_counter()
    async with GenCode.open(folder, model=heard, settings=FREE) as gen:
        listener = gen.listen()
        job = await gen.start_turn("go on", session=lease.task)
        while not heard.requests:
            await anext(listener)
        took = (time.perf_counter() - began) * 1000
        listener.close()
        await job.ended()
    return [Row(f"resume of {turns:,} turns until the first request", took, 1000, "ms")]


def _take(database: str, task: str, name: str, gate: object) -> None:
    async def attempt() -> int:
        store = await SqliteStore.open(Path(database))
        gate.wait()  # type: ignore[attr-defined]
        try:
            await store.take(task, name)
        except UserMistake:
            return 1
        finally:
            await store.close()
        return 0

    sys.exit(asyncio.run(attempt()))


async def owners(races: int) -> list[Row]:
    """Two processes that want one task at the same moment, again and again."""
    database = Path(os.environ["GEN_HOME"]) / "gencode.db"
    store = await SqliteStore.open(database)
    fork = get_context("fork")
    wrong = 0
    for _ in range(races):
        lease = await store.create(TaskCreated(), "bench")
        await store.release(lease)
        gate = fork.Barrier(2)
        rivals = [
            fork.Process(target=_take, args=(str(database), lease.task, f"rival {n}", gate)) for n in range(2)
        ]
        for rival in rivals:
            rival.start()
        for rival in rivals:
            rival.join()
        wrong += sorted(rival.exitcode or 0 for rival in rivals) != [0, 1]
    await store.close()
    return [Row(f"{races:,} races for one task without exactly one owner", wrong, 0, "races")]


async def measured(chosen: argparse.Namespace, folder: Path) -> list[Row]:
    """Every figure, one after the other."""
    rows: list[Row] = []
    rows += await many(folder, chosen.tasks)
    rows += await stops(folder)
    rows += await long_session(folder, chosen.turns)
    rows += await owners(chosen.races)
    return rows


def main() -> int:
    """Measure, print, and say whether every limit holds."""
    parser = argparse.ArgumentParser(description="Figures of delegation.")
    parser.add_argument("--tasks", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--races", type=int, default=1_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        os.environ["GEN_HOME"] = str(Path(name) / "home")
        folder = Path(name) / "ws"
        folder.mkdir()
        rows = asyncio.run(measured(chosen, folder))
    print("| measure | figure | at most | |\n|---|---|---|---|")
    print("\n".join(row.line() for row in rows))
    return 0 if all(row.figure <= row.limit for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
