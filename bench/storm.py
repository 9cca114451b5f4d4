"""A hundred agents at a model that has had enough: how many requests they make beside a calm run.

    PYTHONPATH=. python bench/storm.py [--agents 100]

GenCode runs as it is used, on HTTP: a main agent sends all agents in one reply and sums up, or a program
sends them. The server keeps to a limit and does not say how long to wait, unless the row says so. The exit
code is 1 if one row makes more than twice the requests of its calm run, or if anybody is not answered.
"""

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.contracts.provider import Play
from tests.providers.dialects import chat
from tests.providers.fake_server import Exchange, fake_server, in_json, streamed
from tests.providers.limits import Bucket, Limit, Outage, Sliding, Window

from gencode import GenCode
from gencode.core.status import Status
from gencode.settings import Settings
from gencode.stores.memory import MemoryStore

DEFAULT_CAP = Settings().max_agents
SENDS = "Send them all."
LOOKS = ("Glob", {"pattern": "*.nothing"})
RTT = 0.1
"""So many seconds a refusal is on its way; an answer takes as long."""


@dataclass
class Server:
    """The model: `turns` answers for each agent, if the limit allows it."""

    limit: Limit
    agents: int
    turns: int
    tells: bool
    requests: int = 0

    async def act(self, exchange: Exchange) -> bool:
        """One request."""
        self.requests += 1
        await asyncio.sleep(RTT / 2)
        wait = self.limit.wait(time.monotonic())
        await asyncio.sleep(RTT / 2)
        if wait:
            told = {"retry_after": f"{wait:.3f}"} if self.tells else {}
            return bool(
                await in_json({"error": {"message": "slow down"}}, "429 Too Many Requests", **told)(exchange)
            )
        try:
            return bool(await streamed(b"".join(chat(self._reply(exchange.asked.body))))(exchange))
        finally:
            self.limit.done()

    def _reply(self, body: dict[str, Any]) -> Play:
        said = str(body["messages"])
        results = said.count("'role': 'tool'")
        if SENDS in said:
            sent = [("Task", {"subagent_type": "Explore", "prompt": f"Look {n}"}) for n in range(self.agents)]
            return Play(("Done.",)) if results else Play((), tuple(sent))
        return Play(("Looked.",)) if results + 1 >= self.turns else Play((), (LOOKS,))


@dataclass
class Row:
    """One storm."""

    name: str
    limit: Callable[[], Limit]
    at_once: int
    turns: int
    tells: bool = False
    program: bool = False


async def sent(gen: GenCode, row: Row, agents: int) -> tuple[int, int]:
    """How many agents were answered, and how many requests a calm run would have made."""
    if row.program:
        looks = (gen.task("Explore", f"Look {n}") for n in range(agents))
        ended = await asyncio.gather(*looks)
        return sum(each.status is Status.COMPLETED for each in ended), agents * row.turns
    outcome = await gen.ask(SENDS).outcome()
    tasks = await gen.tasks(parent=outcome.agent_id)
    answered = sum(task.status is Status.COMPLETED for task in tasks)
    return answered if outcome.status is Status.COMPLETED else 0, agents * row.turns + 2


async def storm(row: Row, agents: int) -> tuple[float, float, int]:
    """Requests for each one of a calm run, seconds, and how many agents were answered."""
    server = Server(row.limit(), agents, row.turns, row.tells)
    settings: dict[str, Any] = {"max_agents": row.at_once}
    with tempfile.TemporaryDirectory() as folder:
        async with fake_server(server.act) as address:
            os.environ |= {"OPENAI_API_KEY": "sk-none", "OPENAI_BASE_URL": address.url}
            began = time.monotonic()
            async with GenCode.open(
                Path(folder), model="openai/some-model", settings=settings, store=MemoryStore()
            ) as gen:
                answered, calm = await sent(gen, row, agents)
            # Streams of the server are cut off now, and asyncio says so for each.
            asyncio.get_running_loop().set_exception_handler(lambda _loop, _trouble: None)
    return server.requests / calm, time.monotonic() - began, answered


def rows(agents: int) -> list[Row]:
    """Limits that let everybody through in some seconds."""
    limits: dict[str, Callable[[], Limit]] = {
        "a window of 25 in 5 s": lambda: Window(25, 5.0),
        "any 25 in 5 s": lambda: Sliding(25, 5.0),
        "one each 0.2 s": lambda: Bucket(1, 0.2),
    }
    caps = (DEFAULT_CAP, agents)
    return [
        Row("none", lambda: Bucket(100_000, 1.0), agents, 1),
        *(Row(name, limit, at_once, 1) for name, limit in limits.items() for at_once in caps),
        Row("one each 0.2 s, told when", lambda: Bucket(1, 0.2), DEFAULT_CAP, 1, tells=True),
        Row("a bucket of 50 in 10 s", lambda: Bucket(50, 10.0), agents, 3),
        Row("3 in 5 s", lambda: Window(3, 5.0), agents, 1),
        Row("nothing for 15 s", lambda: Outage(15.0), agents, 1),
        Row("none, of a program", lambda: Bucket(100_000, 1.0), agents, 1, program=True),
        Row("one each 0.2 s, of a program", lambda: Bucket(1, 0.2), agents, 1, program=True),
        Row("3 in 5 s, of a program", lambda: Window(3, 5.0), agents, 1, program=True),
        Row("nothing for 15 s, of a program", lambda: Outage(15.0), agents, 1, program=True),
    ]


def main() -> int:
    """Run all, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--agents", type=int, default=100)
    agents = parser.parse_args().agents
    print("| limit | at once | turns | requests of a calm run | seconds | answered | |")
    print("|---|---|---|---|---|---|---|")
    failed = False
    for row in rows(agents):
        requests, seconds, answered = asyncio.run(storm(row, agents))
        holds = requests <= 2 and answered == agents
        failed = failed or not holds
        mark = "holds" if holds else "MISSED"
        figures = f"{row.at_once} | {row.turns} | {requests:.2f}x | {seconds:.0f} | {answered}"
        print(f"| {row.name} | {figures} | {mark} |", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
