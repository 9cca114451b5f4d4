"""Trees of agents in many processes that spend from one budget: it is exceeded by one call at most.

    PYTHONPATH=. python bench/budgets.py [TREES] [--seed N] [--crowds N]

Each tree is one conversation with a budget. Its agents work in this process, in processes of their own and in
the background, some with budgets of their own; meanwhile other commands wake agents of it and fork them. When
all have ended, what everything below the conversation has cost is added up from the journal. The exit code is
1 if that is a call or more above the budget, or if anything did not end.

A crowd is a conversation that sends eight agents to processes of their own, which together want to spend more
than its budget. They have to spend at least 95 % of it before the limit is reported.
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

from msgspec import UNSET

from gencode.app import GenCode, Outcome
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
LOOK_SECONDS = 0.2
PROCESSES = 8
LEAST_SPENT = 0.95


class Tree(NamedTuple):
    """What one tree was allowed and cost, how many agents and forks it had, and how many never ended."""

    budget: int
    spent: int
    agents: int
    forks: int
    stuck: int

    @property
    def well(self) -> bool:
        """Whether the budget was kept and everything ended."""
        return self.spent < self.budget + CALL and not self.stuck


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

    def __init__(self, folder: Path, script: dict[str, list[Turn]], most: int) -> None:
        self.home, self.cwd = folder / "home", folder / "work"
        agents = self.home / "agents"
        agents.mkdir(parents=True)
        self.cwd.mkdir()
        (agents / "lead.md").write_text(LEAD)
        (self.cwd / "script.json").write_text(json.dumps({"agents": script}))
        self.model = f"scripted:{self.cwd / 'script.json'}"
        self.most = most

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

    async def family(self) -> tuple[int, list[Outcome]]:
        """What the conversation has cost with everything below it, and the agents."""
        before = os.environ.get("GEN_HOME")
        os.environ["GEN_HOME"] = str(self.home)
        try:
            async with GenCode.open(self.cwd, model=self.model) as gen:
                agents = await gen.tasks()
                known = {each.agent_id for each in agents}
                tops = {each.parent_id for each in agents if each.parent_id} - known
                usage = [(await gen.get(each)).usage.tree for each in tops]
                return sum(each.input_tokens + each.output_tokens for each in usage), agents
        finally:
            os.environ.pop("GEN_HOME")
            if before is not None:
                os.environ["GEN_HOME"] = before

    def ended(self, budget: int) -> Tree:
        """What it all came to, once everything has ended or has had the time to."""
        until = time.monotonic() + SECONDS
        while True:
            spent, agents = asyncio.run(self.family())
            stuck = sum(not each.status.ended for each in agents)
            if not stuck or time.monotonic() > until:
                forks = sum(each.forked_from is not UNSET for each in agents)
                return Tree(budget, spent, len(agents), forks, stuck)
            time.sleep(LOOK_SECONDS)


def tree(seed: int) -> Tree:
    """One conversation with a budget, and others who wake and fork its agents while it is at work."""
    dice = random.Random(seed)
    with tempfile.TemporaryDirectory() as name:
        place = _Place(Path(name), _script(dice), dice.choice(AT_ONCE))
        budget = dice.choice(BUDGETS) + dice.randrange(CALL)
        commands = [place.gen("-p", "go", "--max-tokens-total", str(budget))]
        for _ in range(dice.randint(1, 6)):
            time.sleep(dice.uniform(0.2, 0.9))
            _, agents = asyncio.run(place.family())
            if agents:
                task = dice.choice(agents).agent_id
                fork = ("fork", task, "again")
                ways = (("send", task, "more"), ("resume", task, "more"), fork, (*fork, "--background"))
                commands.append(place.gen("task", *dice.choice(ways)))
        for command in commands:
            command.communicate(timeout=SECONDS)
        return place.ended(budget)


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
        place.gen("-p", "go", "--max-tokens-total", str(budget)).communicate(timeout=SECONDS)
        return place.ended(budget)


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
    for seed in range(chosen.seed, chosen.seed + chosen.crowds):
        found = crowd(seed)
        part = found.spent / found.budget
        well = found.well and part >= LEAST_SPENT
        failed += not well
        verdict = "holds" if well else f"does NOT hold (--seed {seed})"
        print(f"a crowd of {found.agents} processes spent {part:.1%} of its budget: {verdict}", flush=True)
    print(f"{chosen.trees} trees and {chosen.crowds} crowds, {failed} did not hold")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
