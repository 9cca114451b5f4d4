"""Trees of agents in many processes that spend from one budget: it is exceeded by one call at most.

    PYTHONPATH=. python bench/budgets.py [TREES] [--seed N]

Each tree is one conversation with a budget. Its agents work in this process, in processes of their own and in
the background, some with budgets of their own; meanwhile other commands wake agents of it and fork them. When
all have ended, what everything below the conversation has cost is added up from the journal. The exit code is
1 if that is a call or more above the budget, if anything did not end, or if somebody who asked for a part of
the budget got no answer.
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
from pathlib import Path
from typing import Any, NamedTuple

from gencode.core.task import Task
from gencode.delegation.accounts import spent_by
from gencode.runtime.ports import TaskQuery
from gencode.stores.sqlite import SqliteStore
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
UNHEARD = "did not answer within"
SECONDS = 120.0
LOOK_SECONDS = 0.2


class Tree(NamedTuple):
    """What one tree was allowed, what it cost, how many agents and forks of these were in it, how many never
    ended, and how many commands got no answer.
    """

    budget: int
    spent: int
    agents: int
    forks: int
    stuck: int
    unheard: int

    @property
    def well(self) -> bool:
        """Whether the budget was kept, everything ended, and nobody waited for an answer in vain."""
        return self.spent < self.budget + CALL and not self.stuck and not self.unheard


def _look(dice: random.Random) -> Turn:
    return says("", call("Glob", pattern="*"), usage=COSTS, delay_ms=dice.choice((0, 0, 5, 30, 80)))


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


class _Place:
    """A folder with a home of its own, in which commands are given."""

    def __init__(self, folder: Path, dice: random.Random) -> None:
        self.home, self.cwd = folder / "home", folder / "work"
        agents = self.home / "agents"
        agents.mkdir(parents=True)
        self.cwd.mkdir()
        (agents / "lead.md").write_text(LEAD)
        (self.cwd / "script.json").write_text(json.dumps({"agents": _script(dice)}))
        self.model = f"scripted:{self.cwd / 'script.json'}"
        self.most = dice.choice(AT_ONCE)

    def gen(self, *words: str) -> "subprocess.Popen[str]":
        environment = {
            **os.environ,
            "GEN_HOME": str(self.home),
            "GEN_MAX_DEPTH": "3",
            "GEN_MAX_AGENTS": str(self.most),
            "GEN_MODEL": self.model,
        }
        whole = (sys.executable, "-m", "gencode", *words)
        return subprocess.Popen(
            whole,
            cwd=self.cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    async def family(self) -> tuple[int, list[Task]]:
        """What the conversation has cost with everything below it, and the agents."""
        if not (self.home / "gencode.db").exists():
            return 0, []
        store = await SqliteStore.open(self.home / "gencode.db")
        try:
            tasks = await store.tasks(TaskQuery())
            [session] = [each.id for each in tasks if each.conversation] or [""]
            spent = (await spent_by(store, session)).tokens
            return spent, [each for each in tasks if not each.conversation]
        finally:
            await store.close()


def tree(seed: int) -> Tree:
    """One conversation with a budget, and others who wake and fork its agents while it is at work."""
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        place = _Place(Path(name), dice)
        budget = dice.choice(BUDGETS) + dice.randrange(CALL)
        commands = [place.gen("-p", "go", "--max-tokens-total", str(budget))]
        for _ in range(dice.randint(1, 6)):
            time.sleep(dice.uniform(0.2, 0.9))
            _, agents = asyncio.run(place.family())
            if agents:
                task = dice.choice(agents).id
                fork = ("fork", task, "again")
                ways = (("send", task, "more"), ("resume", task, "more"), fork, (*fork, "--background"))
                commands.append(place.gen("task", *dice.choice(ways)))
        said = [each.communicate(timeout=SECONDS)[1] for each in commands]
        until = time.monotonic() + SECONDS
        while True:
            spent, agents = asyncio.run(place.family())
            stuck = sum(not each.status.ended for each in agents)
            if not stuck or time.monotonic() > until:
                forks = sum(bool(each.forked) for each in agents)
                return Tree(budget, spent, len(agents), forks, stuck, sum(UNHEARD in each for each in said))
            time.sleep(LOOK_SECONDS)


def main() -> int:
    """Let so many trees spend, and say what each came to."""
    parser = argparse.ArgumentParser(description="Trees of agents in many processes, each with one budget.")
    parser.add_argument("trees", nargs="?", type=int, default=40)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    chosen = parser.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    failed = 0
    for seed in range(chosen.seed, chosen.seed + chosen.trees):
        found = tree(seed)
        failed += not found.well
        verdict = "holds" if found.well else f"does NOT hold (--seed {seed})"
        troubles = f", {found.stuck} did not end" if found.stuck else ""
        troubles += f", {found.unheard} got no answer" if found.unheard else ""
        family = f"{found.agents} agents ({found.forks} of them forks)"
        print(f"{family} spent {found.spent:,} of {found.budget:,} tokens{troubles}: {verdict}", flush=True)
    print(f"{chosen.trees} trees, {failed} over their budget by a call or more, or stuck")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
