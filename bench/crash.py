"""`kill -9` at random moments of a busy tree of agents: nothing a person saw is lost or shown twice.

    python bench/crash.py [KILLS] [--seed N]

A victim process runs a conversation whose agents work in the foreground and in the background, call tools and
hand results over; it tells every event it hears. It is killed at a random moment, mostly after it has begun
to work (a busy machine takes long to start it), and the conversation goes on in a new victim until it has
ended. Then the history is judged: everything that was told must be in the journal, every journal must replay
to its stored state, every result must have been handed over exactly once, and no call may have run twice. The
exit code is 1 if anything was lost, shown twice, repeated, or stuck.
"""

import argparse
import asyncio
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from gencode import GenCode, ToolContext, tool
from gencode.core.events import MessageAdded
from gencode.core.messages import ToolMessage, UserMessage
from gencode.core.task import replay
from gencode.journal.store import TaskQuery
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.sqlite import SqliteStore
from gencode.testing import call, says

SECONDS = 60.0
ROUNDS = 15
LIFE = (0.1, 1.0)
EARLY = 0.2
"""This part of the kills counts from the start of a process."""


@tool(effect="execute", name="mark", description="Leave a mark.")
async def mark(ctx: ToolContext, text: str) -> str:
    """Write down that this call of this task ran, then take a moment."""
    _leave_mark(f"{ctx.task} {ctx.call.id}\n")
    await asyncio.sleep(0.01)
    return f"marked {text}"


def _leave_mark(line: str) -> None:
    with Path(os.environ["MARKS"]).open("a") as marks:
        marks.write(line)


def script() -> ScriptedProvider:
    """A main agent with work of every kind in each round, and workers that call tools."""
    away = call("Task", subagent_type="general-purpose", prompt="slowly", run_in_background=True)
    here = call("Task", subagent_type="general-purpose", prompt="at once")
    main = [
        says(f"round {n}", away, here, here, call("mark", text=f"{n}"), delay_ms=5) for n in range(ROUNDS)
    ]
    worker = [says("working", call("mark", text="w"), delay_ms=15), says("worked", delay_ms=25)]
    endless = [says("That is all.", delay_ms=5) for _ in range(200)]
    return ScriptedProvider.of({"main": [*main, *endless], "general-purpose": worker * 20})


async def victim(folder: Path, session: str | None) -> None:
    """Run the conversation to its end and tell every durable event as soon as it is heard."""
    settings = {"permission_mode": "dontAsk"}
    async with GenCode.open(folder, model=script(), tools=[mark], settings=settings) as gen:
        asking = gen.ask("go on" if session else "go", session=session)
        job = await asking.start()
        _tell({"session": job.id})
        async for event in asking:
            if event.seq is not None:
                _tell({"task": event.task, "seq": event.seq})
        _tell({"ended": (await asking.outcome()).status})


def _tell(record: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(record) + "\n")
    sys.stdout.flush()


class Trial(NamedTuple):
    """What came of one conversation that was killed again and again."""

    kills: int
    lost: list[str]

    @property
    def well(self) -> bool:
        """Whether nothing went wrong."""
        return not self.lost


def trial(dice: random.Random, most_kills: int) -> Trial:
    """Kill a conversation at random moments until it has ended, then judge what is left of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "ws").mkdir()
        told: set[tuple[str, int]] = set()
        session: str | None = None
        kills, ended = 0, False
        while not ended and kills <= most_kills:
            seconds = dice.uniform(*LIFE) if kills < most_kills else SECONDS
            early = kills < most_kills and dice.random() < EARLY
            session, ended = _life(folder, session, seconds, told, early=early)
            kills += not ended
        if not ended:
            return Trial(kills, [f"the conversation {session} did not end"])
        return Trial(kills, asyncio.run(_judge(folder, session or "", told)))


def _life(
    folder: Path, session: str | None, seconds: float, told: set[tuple[str, int]], *, early: bool
) -> tuple[str | None, bool]:
    """One victim, killed some seconds after it has said something, or after its start: the session, and
    whether it came to its end.
    """
    words = [sys.executable, __file__, "--victim", str(folder), *([session] if session else [])]
    environment = {**os.environ, "GEN_HOME": str(folder / "home"), "MARKS": str(folder / "marks")}
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, cwd=folder / "ws")
    assert process.stdout is not None
    until = time.monotonic() + seconds
    ended = False
    os.set_blocking(process.stdout.fileno(), False)
    heard = b""
    while (time.monotonic() < until or not (heard or early)) and process.poll() is None:
        until = until if heard or early else time.monotonic() + seconds
        heard += process.stdout.read() or b""
        time.sleep(0.002)
    process.kill()
    process.wait()
    os.set_blocking(process.stdout.fileno(), True)
    heard += process.stdout.read()
    process.stdout.close()
    for line in heard.split(b"\n")[:-1]:  # the last one may be torn
        record = json.loads(line)
        session = record.get("session", session)
        ended = ended or "ended" in record
        if "seq" in record:
            told.add((record["task"], record["seq"]))
    return session, ended


async def _judge(folder: Path, session: str, told: set[tuple[str, int]]) -> list[str]:
    store = await SqliteStore.open(folder / "home" / "gencode.db")
    try:
        wrong: list[str] = []
        tasks = await store.tasks(TaskQuery())
        journals = {task.id: await store.events(task.id) for task in tasks}
        for task in tasks:
            if replay(journals[task.id]) != task:
                wrong.append(f"task {task.id} does not replay to its state")
            if not task.status.ended:
                wrong.append(f"task {task.id} is still {task.status}")
        written = {(task, event.seq or 0) for task, events in journals.items() for event in events}
        wrong += [f"fact {seq} of {task} was told and is lost" for task, seq in sorted(told - written)]
        wrong += _calls(folder, journals)
        facts = [event.fact for event in journals[session]]
        said = [fact.message for fact in facts if isinstance(fact, MessageAdded)]
        shown = Counter(child for each in said if isinstance(each, UserMessage) for child in each.delivers)
        away = {task.id for task in tasks if task.parent == session and task.terms.background}
        wrong += [
            f"the result of {child} was shown {shown[child]} times" for child in away if shown[child] != 1
        ]
        return wrong
    finally:
        await store.close()


def _calls(folder: Path, journals: dict[str, Any]) -> list[str]:
    """No call ran twice, and every call has exactly one answer."""
    left = folder / "marks"
    marks = Counter[str](left.read_text().splitlines() if left.exists() else ())
    wrong = [f"the call {each} ran {times} times" for each, times in marks.items() if times > 1]
    for task, events in journals.items():
        messages = [event.fact.message for event in events if isinstance(event.fact, MessageAdded)]
        asked = [each.id for message in messages for each in getattr(message, "calls", ())]
        got = [r.call for message in messages if isinstance(message, ToolMessage) for r in message.results]
        if asked != got:
            wrong.append(f"task {task} asked {len(asked)} calls and has {len(got)} answers")
    return wrong


def main() -> int:
    """Kill as often as was asked for, and say what was found."""
    parser = argparse.ArgumentParser(description="Kill a busy tree of agents again and again.")
    parser.add_argument("kills", nargs="?", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--victim", nargs="+", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.victim:
        asyncio.run(victim(Path(chosen.victim[0]) / "ws", chosen.victim[1] if chosen.victim[1:] else None))
        return 0
    print(f"seed {chosen.seed}", flush=True)
    dice, kills, trials, wrong = random.Random(chosen.seed), 0, 0, list[str]()
    while kills < chosen.kills:
        found = trial(dice, min(8, chosen.kills - kills))
        kills, trials = kills + max(found.kills, 1), trials + 1
        wrong += found.lost
        print(f"{kills} kills, {trials} conversations, {len(wrong)} things wrong", flush=True)
    print("\n".join(wrong) or "nothing was lost, nothing shown twice, nothing repeated, everything went on")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
