"""What every driver shares: the work to do and how it is measured.

A driver is a class with these methods, and ends with `main(Driver)`:

    async open(url, streamed)       make the client and the agents
    async one(script) -> str        run one agent to its last words
    async spawn(script) -> str      run a main agent that sends subagents
"""

import argparse
import asyncio
import contextlib
import gc
import json
import os
import resource
import time
from pathlib import Path
from typing import Any, Protocol

OBSERVATION = ("BENCH-OBS " + "row: alpha=1 beta=2 gamma=3 delta=4 epsilon=5 zeta=6 eta=7 theta=8 " * 4)[:200]
SYSTEM = "You are a careful worker. Use the lookup tool until the work is done, then answer."
MAIN_SYSTEM = "You are the main agent. Delegate every part of the work to subagents, then answer."
LOOKUP = "Look a key up and return its row."
SEND = "Start a subagent."


class Driver(Protocol):
    """One way of running agents."""

    task_tool: str
    """The tool that starts a subagent, with the argument that takes its prompt: `Task childarg=prompt`."""

    async def open(self, url: str, streamed: bool) -> None:
        """Make the client and the agents; `url` has no path."""
        ...

    async def one(self, script: str) -> str:
        """Run one agent to its last words."""
        ...

    async def spawn(self, script: str) -> str:
        """Run a main agent that sends subagents."""
        ...


def cpu() -> float:
    """Seconds of processor time of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def memory(field: str) -> int:
    """VmRSS (now) or VmHWM (the peak) of this process in KiB; the peak where there is no /proc."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def forget_peak() -> None:
    """Let the peak start anew, where the system can."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def checked(answer: str) -> None:
    """The last words must be those of the script."""
    if "BENCH-FINAL" not in answer:
        raise SystemExit(f"the work did not end as scripted: {answer[:400]!r}")


def script(name: str, turns: int) -> str:
    """What one agent is told."""
    return f"[[BENCH id={name} turns={turns} tool=lookup]] Please do the work."


async def work(driver: Driver, chosen: argparse.Namespace, number: int) -> None:
    """One round of the workload."""
    if chosen.workload == "w1":
        checked(await driver.one(script(f"w1.{number}", chosen.turns)))
    elif chosen.workload == "w2":
        words = f"spawn={chosen.agents} tool={driver.task_tool} cturns={chosen.turns}"
        checked(await driver.spawn(f"[[BENCH id=w2.{number} {words}]] Please do the work."))
    else:
        scripts = [script(f"w3.{number}.{each}", chosen.turns) for each in range(chosen.agents)]
        for answer in await asyncio.gather(*map(driver.one, scripts)):
            checked(answer)


async def measure(driver: Driver, chosen: argparse.Namespace) -> dict[str, Any]:
    """Open, answer once to warm up, then every round by itself."""
    await driver.open(chosen.url, chosen.stream)
    checked(await driver.one(script("warm", 2)))
    first = cpu()
    rounds: list[dict[str, float]] = []
    for number in range(chosen.rounds):
        gc.collect()
        forget_peak()
        before, wall, used = memory("VmRSS"), time.perf_counter(), cpu()
        await work(driver, chosen, number)
        took = {"wall": time.perf_counter() - wall, "cpu": cpu() - used}
        rounds.append({**took, "kib": memory("VmHWM") - before})
    return {"first_cpu": first, "rounds": rounds}


def main(driver: Driver) -> None:
    """Read the arguments, do the work, print the figures as one line of JSON."""
    parser = argparse.ArgumentParser(description="Run one workload.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--workload", default="w1", choices=["w1", "w2", "w3"])
    parser.add_argument("--agents", type=int, default=100)
    parser.add_argument("--turns", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--stream", action="store_true")
    chosen = parser.parse_args()
    if not chosen.url.startswith("http://127.0.0.1:"):
        raise SystemExit("the benchmark only talks to 127.0.0.1")
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 65536), most))
    print(json.dumps(asyncio.run(measure(driver, chosen))), flush=True)
    os._exit(0)  # some peers leave threads behind that would keep the process
