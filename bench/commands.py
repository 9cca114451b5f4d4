"""What running commands costs, and whether a stop leaves anybody, with the limits that must hold.

    python bench/commands.py [--full]

`--full` stops 500 hostile trees and reads 10 GB of each flood; without it a fifth and a tenth of that. The
environment decides too: GEN_KILLS trees, GEN_GIGABYTES of a flood. The exit code is 1 when a limit is missed.
"""

import argparse
import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple
from uuid import uuid4

from gencode.sandbox.processes.command import Command
from gencode.sandbox.processes.command_runner import CommandRunner
from gencode.sandbox.processes.running_command import RunningCommand

ORDINARY = "sleep 300 & (sleep 300 | cat) & echo ready; sleep 300; : WORD"
HOSTILE = """
trap '' TERM
setsid bash -c "trap '' TERM; (trap '' TERM; sleep 300; : WORD) & sleep 300; : WORD" &
( setsid bash -c "trap '' TERM; sleep 300; : WORD" & )
setsid setsid bash -c "( ( sleep 300; : WORD ) & ) & sleep 300; : WORD" > /dev/null &
echo ready
while :; do sleep 300; done; : WORD
"""
FLOODS = {
    "lines on stdout": ("yes 'some words that make a line' | head -c BYTES", False),
    "one line on stdout": ("head -c BYTES /dev/zero", False),
    "stdout and stderr at once": ("head -c HALF /dev/zero >&2 & head -c HALF /dev/zero; wait", False),
    "stdout and stderr apart": ("head -c HALF /dev/zero >&2 & head -c HALF /dev/zero; wait", True),
}
LATE = "yes & yes >&2 & yes"
HOLDER = "setsid bash -c \"trap '' TERM; sleep 300; : WORD\" & exit 0"
CRASH = """
import asyncio, sys
from pathlib import Path
sys.path.insert(0, sys.argv[3])
from commands import HOSTILE, Command, Commands, ready

async def main():
    async with Commands(Path(sys.argv[1])) as commands:
        running = await commands.start(Command(HOSTILE.replace("WORD", sys.argv[2]), Path("/")))
        await ready(running)
        print("ready", flush=True)
        await running.wait()

asyncio.run(main())
"""


class Row(NamedTuple):
    """One line of the table."""

    what: str
    figure: float
    limit: float | None
    unit: str
    at_least: bool = False

    @property
    def holds(self) -> bool:
        """Whether the limit holds."""
        if self.limit is None:
            return True
        return self.figure >= self.limit if self.at_least else self.figure <= self.limit

    def line(self) -> str:
        """As a line of Markdown."""
        sort = "at least" if self.at_least else "at most"
        limit = "" if self.limit is None else f"{sort} {self.limit:,g} {self.unit}"
        verdict = "" if self.limit is None else "holds" if self.holds else "MISSED"
        return f"| {self.what} | {self.figure:,.1f} {self.unit} | {limit} | {verdict} |"


def share(values: Sequence[float], part: float) -> float:
    """The value below which this part of them lies, in milliseconds."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] * 1000


def alive(word: str) -> int:
    """How many processes carry a word on their command line."""
    count = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                count += word.encode() in (folder / "cmdline").read_bytes()
            except OSError:
                continue
    return count


async def ready(running: RunningCommand) -> None:
    """Return when a command has said that all its processes run."""
    while True:
        if b"ready" in running.output().head:
            return
        await asyncio.sleep(0.002)


async def stops(commands: CommandRunner, text: str, times: int) -> tuple[list[float], int]:
    """How long each stop took, and how many processes were left after one."""
    took: list[float] = []
    left = 0
    for _ in range(times):
        word = f"w{uuid4().hex}"
        running = await commands.start(Command(text.replace("WORD", word), Path("/")))
        await ready(running)
        began = time.perf_counter()
        await running.stop()
        took.append(time.perf_counter() - began)
        left += alive(word)
    return took, left


async def stop_rows(commands: CommandRunner, times: int) -> list[Row]:
    """Ordinary and hostile trees."""
    ordinary, first = await stops(commands, ORDINARY, max(20, times // 5))
    hostile, second = await stops(commands, HOSTILE, times)
    return [
        Row(f"stop of {len(ordinary)} ordinary trees, p50", share(ordinary, 0.5), 50, "ms"),
        Row(f"stop of {len(hostile)} hostile trees, p50", share(hostile, 0.5), 300, "ms"),
        Row("… p99", share(hostile, 0.99), 700, "ms"),
        Row("… longest", max(hostile) * 1000, 3000, "ms"),
        Row("processes left after all of them", first + second, 0, ""),
    ]


async def longest_hold(until: asyncio.Event) -> tuple[float, float]:
    """The longest time for which the event loop did not come round: by the clock, and of its own work."""
    clock, work = time.perf_counter(), time.thread_time()
    longest = (0.0, 0.0)
    while not until.is_set():
        await asyncio.sleep(0.001)
        now, worked = time.perf_counter(), time.thread_time()
        longest = (max(longest[0], now - clock - 0.001), max(longest[1], worked - work))
        clock, work = now, worked
    return longest


async def flood_rows(commands: CommandRunner, folder: Path, size: int) -> list[Row]:
    """Every flood: memory, speed, and whether the event loop came round."""
    rows: list[Row] = []
    for number, (what, (text, separate)) in enumerate(FLOODS.items()):
        filled = text.replace("BYTES", str(size)).replace("HALF", str(size // 2))
        done = asyncio.Event()
        watching = asyncio.create_task(longest_hold(done))
        before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
        command = Command(filled, Path("/"), separate=separate, file=folder / f"flood{number}")
        ended = await commands.run(command)
        took = time.perf_counter() - began
        done.set()
        clock, work = await watching
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        read = ended.output.total + ended.errors.total
        rows += [
            Row(f"{read / 1e9:.1f} GB, {what}: memory grown", grown / 1024, 32, "MiB"),
            Row("… bytes lost", size - read, 0, ""),
            Row("… speed", read / took / 1e6, 300, "MB/s", at_least=True),
            Row("… event loop held by our work", work * 1000, 50, "ms"),
            Row("… event loop held, with the neighbours' work", clock * 1000, None, "ms"),
        ]
    return rows


async def promptness_rows(commands: CommandRunner, times: int) -> list[Row]:
    """Time-outs under a flood, pipes that are held, and what a command costs at all."""
    late = [(await commands.run(Command(LATE, Path("/"), seconds=0.5))).seconds - 0.5 for _ in range(times)]
    held = [(await commands.run(Command(HOLDER, Path("/")))).seconds for _ in range(times)]
    plain = [(await commands.run(Command("true", Path("/")))).seconds for _ in range(50)]
    return [
        Row(f"{times} time-outs under a flood, latest", max(late) * 1000, 250, "ms"),
        Row(f"{times} commands with a held pipe, longest", max(held) * 1000, 2000, "ms"),
        Row("a command that does nothing, p50", share(plain, 0.5), None, "ms"),
    ]


def crash_rows(state: Path, times: int) -> list[Row]:
    """`kill -9` of the process that runs commands, with a hostile tree below it."""
    took: list[float] = []
    left = 0
    for _ in range(times):
        word = f"w{uuid4().hex}"
        here = str(Path(__file__).resolve().parent)
        arguments = [sys.executable, "-c", CRASH, str(state), word, here]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            process.send_signal(signal.SIGKILL)
        began = time.perf_counter()
        while alive(word) and time.perf_counter() < began + 5:
            time.sleep(0.002)
        took.append(time.perf_counter() - began)
        left += alive(word)
    return [
        Row(
            f"{times} times kill -9 of our process: longest until nobody was left",
            max(took) * 1000,
            3000,
            "ms",
        ),
        Row("… processes left", left, 0, ""),
    ]


async def measured(folder: Path, kills: int, size: int) -> list[Row]:
    """Everything that needs commands of our own."""
    async with CommandRunner(folder / "state") as commands:
        await commands.run(Command("echo warm", Path("/"), file=folder / "warm", growing=True))
        return [
            *await stop_rows(commands, kills),
            *await flood_rows(commands, folder, size),
            *await promptness_rows(commands, max(5, kills // 20)),
        ]


def main() -> int:
    """Measure, print the table, and say whether every limit holds."""
    parser = argparse.ArgumentParser(
        description="What running commands costs, and whether a stop leaves anybody."
    )
    parser.add_argument("--full", action="store_true", help="500 hostile trees and 10 GB of each flood")
    full = parser.parse_args().full
    kills = int(os.environ.get("GEN_KILLS", "500" if full else "100"))
    size = int(float(os.environ.get("GEN_GIGABYTES", "10" if full else "1")) * 1e9)
    busy = os.getloadavg()[0]
    with TemporaryDirectory() as folder:
        table = asyncio.run(measured(Path(folder), kills, size))
        table += crash_rows(Path(folder) / "state", max(5, kills // 20))
    print(f"Python {sys.version.split()[0]}, load {busy:.1f} at the start\n")
    print("| measure | figure | limit | |\n|---|---|---|---|")
    print("\n".join(row.line() for row in table))
    return 0 if all(row.holds for row in table) else 1


if __name__ == "__main__":
    sys.exit(main())
