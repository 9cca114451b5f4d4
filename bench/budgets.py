"""Trees of agents in many processes that spend from one budget: it is exceeded by one call at most.

    PYTHONPATH=. python bench/budgets.py [TREES] [--seed N] [--crowds N]

Each tree is one conversation with a budget. Its agents work in its process, in processes of their own and in
the background, some with budgets of their own; meanwhile other commands, and this program, wake agents of it
and fork them, and processes are killed. When
all have ended, what everything below the conversation has cost is added up from the journal. The exit code is
1 if that is a call or more above the budget, or if anything did not end. Of a tree that does not hold, its
seed is printed with what every command said, every account and hold, and every event in the order of time; a
copy of its folder is kept.

A crowd is a conversation that sends eight agents to processes of their own, which together want to spend more
than its budget. They have to spend at least 95 % of it before the limit is reported.
"""

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from msgspec import UNSET

from gencode.app import GenCode, Outcome, SentMessage, components
from gencode.core.status import Status
from gencode.journal.owner import process_of
from gencode.testing import call, says

CALL = 10_000
"""What every call costs, in tokens; it is taken to cost more before."""
COSTS = {"inputTokens": CALL - 10, "outputTokens": 10}
BUDGETS = (20_000, 35_000, 60_000, 100_000, 150_000, 250_000, 400_000)
Turn = dict[str, Any]
AGENTS = ("Explore", "lead")
LEAD = "---\nname: lead\ndescription: Leads.\ntools: Task(Explore, lead), Glob\n---\nLead others.\n"
AT_ONCE = (1, 2, 16)
"""So many agents may be at work at once."""
SECONDS = 120.0
"""So long nothing may happen before what has not ended is stuck."""
LOOK_SECONDS = 0.2
SHORT_SECONDS = 0.02
PROCESSES = 8
LEAST_SPENT = 0.95
MOST_OF_EVENT = 400
TABLES = ("SELECT * FROM gen_task", "SELECT * FROM gen_account", "SELECT * FROM gen_hold")


class Tree(NamedTuple):
    """What one tree was allowed and cost, how many agents and forks it had, and how many never ended.

    `evidence` is everything that is known of one that does not hold.
    """

    budget: int
    spent: int
    agents: int
    forks: int
    stuck: int
    evidence: str = ""

    @property
    def well(self) -> bool:
        """Whether the budget was kept and everything ended."""
        return self.spent < self.budget + CALL and not self.stuck


def _look(dice: random.Random) -> Turn:
    return says("", call("Glob", pattern="*"), usage=COSTS, delay_ms=dice.choice((0, 0, 30, 80, 300)))


def _sends(dice: random.Random) -> Turn:
    """A reply that sends some agents out in all ways there are."""
    sent: list[dict[str, Any]] = []
    for number in range(dice.randint(1, 3)):
        apart = {"isolation": "process"} if dice.random() < 0.6 else {}
        behind = {"run_in_background": True} if dice.random() < 0.4 else {}
        own = {"budget": {"tokens": dice.choice((15_000, 30_000, 60_000))}} if dice.random() < 0.3 else {}
        agent = dice.choice(AGENTS)
        sent.append(call("Task", subagent_type=agent, prompt=f"{number}", **apart, **behind, **own))
    return says("", *sent, usage=COSTS)


def _leads(dice: random.Random, most: int) -> list[Turn]:
    turns = [_sends(dice) if dice.random() < 0.35 else _look(dice) for _ in range(dice.randint(1, most))]
    return [*turns, *[says("done", usage=COSTS)] * 30]


def _script(dice: random.Random) -> dict[str, list[Turn]]:
    explores = [_look(dice) for _ in range(dice.randint(1, 6))]
    again = [_look(dice) for _ in range(20)]
    return {
        "main": [_sends(dice), *_leads(dice, 6)],
        "lead": _leads(dice, 5),
        "Explore": [*explores, says("found", usage=COSTS), *again],
    }


class Command(NamedTuple):
    """A command that was given `at` so many seconds, and the file with all that it says."""

    words: tuple[str, ...]
    process: "subprocess.Popen[bytes]"
    output: IO[bytes]
    at: float


class _Place:
    """A folder with a home of its own, in which commands are given."""

    def __init__(self, folder: Path, script: dict[str, list[Turn]], most: int) -> None:
        self.home, self.cwd = folder / "home", folder / "work"
        agents = self.home / "agents"
        agents.mkdir(parents=True)
        self.cwd.mkdir()
        (agents / "lead.md").write_text(LEAD)
        (self.cwd / "script.json").write_text(json.dumps({"agents": script}))
        self.model = f"scripted:{self.cwd / 'script.json'}"
        self.most = most
        self.began = time.time()
        self.commands: list[Command] = []
        self.killed: list[tuple[float, int]] = []
        self.deeds: list[tuple[str, asyncio.Future[Outcome | SentMessage]]] = []

    def gen(self, *words: str) -> None:
        """Give a command; it goes on while others are given."""
        environment = {
            **os.environ,
            "GEN_HOME": str(self.home),
            "GEN_MAX_DEPTH": "3",
            "GEN_MAX_AGENTS": str(self.most),
            "GEN_MODEL": self.model,
        }
        whole = (sys.executable, "-m", "gencode", *words)
        output = (self.home / f"{len(self.commands)}.txt").open("wb+")
        process = subprocess.Popen(
            whole, cwd=self.cwd, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        self.commands.append(Command(words, process, output, time.time() - self.began))

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[GenCode]:
        """The same folder in this process, which is one more that may work in it."""
        os.environ["GEN_HOME"] = str(self.home)
        try:
            async with GenCode.open(self.cwd, model=self.model) as gen:
                yield gen
        finally:
            os.environ.pop("GEN_HOME")

    def do(self, what: str, deed: Coroutine[Any, Any, Outcome | SentMessage]) -> None:
        """Do something in this process, beside all else."""
        self.deeds.append((f"{time.time() - self.began:7.2f} {what}", asyncio.ensure_future(deed)))

    async def kill(self, gen: GenCode, dice: random.Random) -> None:
        """Kill one of the other processes that work on a task."""
        owners = {held.owner for held in await components(gen).store.owned()}
        others = sorted({process_of(owner) for owner in owners} - {0, os.getpid()})
        if others:
            self.killed.append((time.time() - self.began, process := dice.choice(others)))
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    @property
    def busy(self) -> int:
        """How many commands and deeds have not ended."""
        alive = [each for each in self.commands if each.process.poll() is None]
        return len(alive) + sum(not deed.done() for _, deed in self.deeds)

    async def moved(self, gen: GenCode, times: int) -> list[Outcome]:
        """The agents, once their number or what they have done has changed so often or nothing is done."""
        before: list[tuple[Status, int]] | None = None
        while True:
            busy, agents = self.busy, await gen.tasks()
            now = [(each.status, each.turns) for each in agents]
            times -= now != before
            if times < 0 or not busy:
                return agents
            before = now
            await asyncio.sleep(SHORT_SECONDS)

    async def ended(self, gen: GenCode, budget: int) -> Tree:
        """What it all came to, once everything has ended or nothing has happened for a long time."""
        before, until = None, 0.0
        while True:
            busy, agents = self.busy, await gen.tasks()
            known = {each.agent_id for each in agents}
            tops = {each.parent_id for each in agents if each.parent_id} - known
            usage = [(await gen.get(each)).usage.tree for each in tops]
            spent = sum(each.input_tokens + each.output_tokens for each in usage)
            stuck = sum(not each.status.ended for each in agents) + busy
            if stuck and not busy:  # whoever comes next ends what processes left behind that were killed
                async with GenCode.open(self.cwd, model=self.model):
                    pass
            if (now := (spent, busy, [each.status for each in agents])) != before:
                before, until = now, time.monotonic() + SECONDS
            if not stuck or time.monotonic() > until:
                forks = sum(each.forked_from is not UNSET for each in agents)
                found = Tree(budget, spent, len(agents), forks, stuck)
                return found if found.well else found._replace(evidence=await self.evidence())
            await asyncio.sleep(LOOK_SECONDS)

    async def evidence(self) -> str:
        """What the commands said, the accounts and holds, and every event in the order of time."""
        lines: list[str] = []
        for each in self.commands:
            each.output.seek(0)
            said = each.output.read().decode(errors="replace").strip().replace("\n", "\n    ")
            lines.append(
                f"{each.at:7.2f} gen {' '.join(each.words)}: exit code {each.process.poll()}\n    {said}"
            )
        lines += [f"{what}: {_result(deed)}" for what, deed in self.deeds]
        lines += [f"{at:7.2f} kill -9 {process}" for at, process in self.killed]
        kept = Path(tempfile.gettempdir()) / f"budgets-{int(self.began)}-{os.getpid()}"
        shutil.copytree(self.home.parent, kept)
        with closing(sqlite3.connect(kept / "home" / "gencode.db")) as connection:
            connection.row_factory = sqlite3.Row
            for rows in map(connection.execute, TABLES):
                lines += [json.dumps(dict(row)) for row in rows]
            events = connection.execute(
                "SELECT at, task, seq, epoch, body FROM gen_journal ORDER BY at, task, seq"
            )
            lines += [" ".join(str(part) for part in (*row[:4], row[4][:MOST_OF_EVENT])) for row in events]
        return "\n".join([*lines, f"A copy of its folder is {kept}"])

    def close(self) -> None:
        """End every command and deed that goes on."""
        for _, deed in self.deeds:
            deed.cancel()
        for each in self.commands:
            each.process.kill()
            each.process.wait()
            each.output.close()


def _result(deed: "asyncio.Future[Outcome | SentMessage]") -> str:
    """What became of a deed."""
    if not deed.done():
        return "did not end"
    return str(deed.exception() or deed.result())


def tree(seed: int) -> Tree:
    """One conversation with a budget, and others who wake and fork its agents while it is at work."""
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        place = _Place(Path(name), _script(dice), dice.choice(AT_ONCE))
        budget = dice.choice(BUDGETS) + dice.randrange(CALL)
        with closing(place):
            return asyncio.run(_spend(place, dice, budget))


async def _spend(place: _Place, dice: random.Random, budget: int) -> Tree:
    async with place.open() as gen:
        place.gen("-p", "go", "--max-tokens-total", str(budget))
        for _ in range(dice.randint(2, 8)):
            if not (agents := await place.moved(gen, dice.randint(1, 4))):
                break
            task = dice.choice(agents).agent_id
            fork = ("fork", task, "again")
            match dice.randrange(6):
                case 0:
                    place.do(f"send {task}", gen.send(task, "more"))
                case 1:
                    place.do(f"resume {task}", gen.resume(task, "more"))
                case 2 | 3:
                    place.do(f"fork {task}", gen.fork(task, "again"))
                case 4:
                    await place.kill(gen, dice)
                case _:
                    ways = (("send", task, "more"), ("resume", task, "more"), fork, (*fork, "--background"))
                    place.gen("task", *dice.choice(ways))
        return await place.ended(gen, budget)


def crowd(seed: int) -> Tree:
    """A conversation whose agents in processes of their own have more work than its budget pays for."""
    dice = random.Random(seed)
    sent = [
        call("Task", subagent_type="Explore", prompt=f"{number}", isolation="process")
        for number in range(PROCESSES)
    ]
    script = {
        "main": [says("", *sent, usage=COSTS), says("told", usage=COSTS)],
        "Explore": [_look(dice) for _ in range(60)],
    }
    with tempfile.TemporaryDirectory() as name:
        place = _Place(Path(name), script, 2 * PROCESSES)
        budget = 60 * CALL + dice.randrange(CALL)
        with closing(place):
            return asyncio.run(_crowd(place, budget))


async def _crowd(place: _Place, budget: int) -> Tree:
    async with place.open() as gen:
        place.gen("-p", "go", "--max-tokens-total", str(budget))
        return await place.ended(gen, budget)


def main() -> int:
    """Let so many trees spend, and say what each came to."""
    parser = argparse.ArgumentParser(description="Trees of agents in many processes, each with one budget.")
    parser.add_argument("trees", nargs="?", type=int, default=40)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--crowds", type=int, default=1)
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    failed = 0
    for seed in range(chosen.seed, chosen.seed + chosen.trees):
        found = tree(seed)
        failed += not found.well
        verdict = "holds" if found.well else f"does NOT hold (--seed {seed})"
        troubles = f", {found.stuck} did not end" if found.stuck else ""
        family = f"{found.agents} agents ({found.forks} of them forks)"
        print(f"{family} spent {found.spent:,} of {found.budget:,} tokens{troubles}: {verdict}", flush=True)
        if found.evidence:
            print(found.evidence, flush=True)
    for seed in range(chosen.seed, chosen.seed + chosen.crowds):
        found = crowd(seed)
        part = found.spent / found.budget
        well = found.well and part >= LEAST_SPENT
        failed += not well
        verdict = "holds" if well else f"does NOT hold (--seed {seed})"
        print(f"a crowd of {found.agents} processes spent {part:.1%} of its budget: {verdict}", flush=True)
        if found.evidence:
            print(found.evidence, flush=True)
    print(f"{chosen.trees} trees and {chosen.crowds} crowds, {failed} did not hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
