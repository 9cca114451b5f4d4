"""GenCode beside the floor (a bare aiohttp and orjson loop), with the limits that must hold.

    python bench/run.py [--quick] [--json FILE]

Floor and GenCode take turns in one run, so that other work on the machine hits both. Processor time is the
median of all rounds (`best rounds`: from the quickest of each), wall time the best. The exit code is 1
when a limit is missed. It needs, beside GenCode itself: pip install aiohttp orjson uvloop
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from compileall import compile_dir
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from processes import SECONDS, Work, clean_environment, driven, fake_server

W1 = ("--workload", "w1", "--turns", "50", "--rounds", "5")
LONG = ("--workload", "w1", "--turns", "200", "--rounds", "2")
W2 = Work(("--workload", "w2", "--agents", "100", "--turns", "5"), latency_ms=200)
W3 = Work(("--workload", "w3", "--agents", "1000", "--turns", "2"), latency_ms=500)
W2_IDEAL = 8 * 0.2
W3_IDEAL = 3 * 0.5
W3_AGENTS = 1000
MEMORY = {"BENCH_JOURNAL": "memory"}
BOUNDED = {"GEN_MAX_TOKENS_TOTAL": "1000000000000"}
"""A budget that is never spent, so that every call is checked."""
PROMPT_TOKENS = 4000

RUNS: dict[str, tuple[str, Work, dict[str, str]]] = {
    "floor": ("floor", Work(W1), {}),
    "disk": ("gencode_", Work(W1), {}),
    "disk bounded": ("gencode_", Work(W1), BOUNDED),
    "memory": ("gencode_", Work(W1), MEMORY),
    "floor whole": ("floor", Work(W1, streamed=False), {}),
    "disk whole": ("gencode_", Work(W1, streamed=False), {}),
    "memory whole": ("gencode_", Work(W1, streamed=False), MEMORY),
    "floor long": ("floor", Work(LONG), {}),
    "disk long": ("gencode_", Work(LONG), {}),
    "floor w2": ("floor", W2, {}),
    "disk w2": ("gencode_", W2, {}),
    "floor w3": ("floor", W3, {}),
    "disk w3": ("gencode_", W3, {}),
}


class Row(NamedTuple):
    """One line of the table; a row without a limit is only told."""

    what: str
    floor: str
    ours: str
    ratio: float
    limit: float | None
    unit: str = "x"
    best: float | None = None

    @property
    def holds(self) -> bool:
        """Whether the limit holds."""
        return self.limit is None or self.ratio <= self.limit

    def line(self) -> str:
        """As a line of Markdown."""
        most = "" if self.limit is None else f"{self.limit:,g}{self.unit}"
        verdict = "" if self.limit is None else "holds" if self.holds else "MISSED"
        figure = f"{self.ratio:,.2f}{self.unit}"
        best = "" if self.best is None else f"{self.best:,.2f}{self.unit}"
        return f"| {' | '.join((self.what, self.floor, self.ours, figure, best, most, verdict))} |"


class Results:
    """The figures of every run."""

    def __init__(self) -> None:
        self.runs: dict[str, list[dict[str, Any]]] = {}

    def take(self, times: int) -> None:
        """Run everything, again and again, floor and ours in turn."""
        for number in range(times):
            for name, (driver, work, extra) in RUNS.items():
                print(f"round {number + 1} of {times}: {name}", file=sys.stderr, flush=True)
                self.runs.setdefault(name, []).append(driven(driver, work, extra=extra))

    def rounds(self, name: str, field: str) -> list[float]:
        """One figure of every round."""
        return [each[field] for run in self.runs[name] for each in run["rounds"]]

    def cpu(self, name: str, of: Callable[[list[float]], float] = median) -> float:
        """Processor seconds of a round."""
        return of(self.rounds(name, "cpu"))

    def turn(self, name: str, of: Callable[[list[float]], float] = median) -> float:
        """Processor milliseconds of a turn of W1."""
        turns = RUNS[name][1].arguments[3]
        return self.cpu(name, of) * 1000 / (int(turns) + 1)

    def wall(self, name: str) -> float:
        """Seconds of the best round."""
        return min(self.rounds(name, "wall"))

    def first(self, name: str) -> float:
        """Processor milliseconds of a process until the end of its first answer."""
        return median(run["first_cpu"] for run in self.runs[name]) * 1000

    def server(self, name: str, field: str) -> Any:
        """What the server counted in the last run."""
        return self.runs[name][-1]["server"][field]


def per_turn(results: Results, what: str, floor: str, ours: str, limit: float | None) -> Row:
    """A row of processor time per turn."""
    bare, own = results.turn(floor), results.turn(ours)
    best = results.turn(ours, min) / results.turn(floor, min)
    return Row(what, f"{bare:.3f} ms", f"{own:.3f} ms", own / bare, limit, best=best)


def turn_rows(of: Results) -> list[Row]:
    """What a turn of W1 costs."""
    return [
        per_turn(of, "W1 CPU per turn, streamed, journal on disk", "floor", "disk", 2.0),
        per_turn(of, "W1 CPU per turn, streamed, journal in memory", "floor", "memory", 1.5),
        per_turn(of, "W1 CPU per turn, not streamed, journal on disk", "floor whole", "disk whole", 2.0),
        per_turn(of, "W1 CPU per turn, not streamed, journal in memory", "floor whole", "memory whole", 1.5),
        per_turn(of, "streamed against not streamed (ours / ours)", "disk whole", "disk", 1.5),
        per_turn(of, "with a budget against without (ours / ours)", "disk", "disk bounded", 1.3),
        per_turn(of, "a turn of 200 against one of 50 (ours / ours)", "disk", "disk long", 1.3),
        per_turn(of, "a turn of 200, streamed (floor / ours)", "floor long", "disk long", None),
    ]


def walled(of: Results, what: str, work: str, ideal: float, limit: float) -> Row:
    """A row of wall time against what the latency alone takes."""
    bare, own = of.wall(f"floor {work}"), of.wall(f"disk {work}")
    return Row(what, f"{bare:.2f} s", f"{own:.2f} s", own / ideal, limit)


def many_rows(of: Results) -> list[Row]:
    """What many agents at once cost, and a new process."""
    used = [of.cpu(name) for name in ("floor w3", "disk w3")]
    kib = [median(of.rounds(name, "kib")) / W3_AGENTS for name in ("floor w3", "disk w3")]
    opened = [of.server(name, "connections") for name in ("floor w3", "disk w3")]
    alone = [of.server(name, "connections") for name in ("floor", "disk")]
    first = [of.first(name) for name in ("floor", "disk")]
    return [
        walled(of, "W2 wall, 100 subagents, against ideal", "w2", W2_IDEAL, 1.15),
        walled(of, "W3 wall, 1,000 agents, against ideal", "w3", W3_IDEAL, 1.8),
        Row("W3 CPU", f"{used[0]:.2f} s", f"{used[1]:.2f} s", used[1] / used[0], 2.0),
        Row("W3 memory per agent", f"{kib[0]:.0f} KiB", f"{kib[1]:.0f} KiB", kib[1], 50, " KiB"),
        Row("W3 connections opened per agent", f"{opened[0]}", f"{opened[1]}", opened[1] / W3_AGENTS, 1.01),
        Row("W1 connections of one agent after another", f"{alone[0]}", f"{alone[1]}", alone[1], 1, ""),
        Row(
            "first answer of a new process, CPU",
            f"{first[0]:.0f} ms",
            f"{first[1]:.0f} ms",
            first[1] / first[0],
            1.5,
        ),
    ]


def until_first_request(command: Sequence[str], home: Path | None = None) -> tuple[float, int]:
    """Seconds from the start of a process to its first request, and the bytes of that request.

    Without a `home` it is a new one, in which `gen` first tries what the sandbox of this machine holds.
    """
    with tempfile.TemporaryDirectory() as folder, fake_server() as server:
        environment = clean_environment(home or Path(folder))
        environment["OPENAI_BASE_URL"] = f"{server.url}/v1"
        words = [word.replace("URL", server.url) for word in command]
        began = time.time()
        subprocess.run(words, env=environment, cwd=folder, capture_output=True, timeout=SECONDS, check=True)
        told = server.told()
        return told["first_at"] - began, told["first_prompt"]


def command_line(times: int) -> list[Row]:
    """`gen -p` until its first request, beside a floor process, and how much it says in it."""
    gen = [sys.executable, "-m", "gencode", "-p", "hi", "--model", "openai/fake-model"]
    floor = [sys.executable, "-m", "bench.drivers.floor", "--url", "URL", "--turns", "0", "--stream"]
    pairs = [(until_first_request(floor), until_first_request(gen)) for _ in range(times)]
    with tempfile.TemporaryDirectory() as home:
        again = min(until_first_request(gen, Path(home))[0] for _ in range(times + 1)) * 1000
    bare = min(first[0] for first, _ in pairs) * 1000
    own = min(second[0] for _, second in pairs) * 1000
    tokens = pairs[0][1][1] // 4
    return [
        Row("gen -p until its first model request, wall", f"{bare:.0f} ms", f"{own:.0f} ms", own / bare, 1.5),
        Row("the same in a home that was used", f"{bare:.0f} ms", f"{again:.0f} ms", again / bare, None),
        Row(
            "prompt before the user said anything",
            f"{pairs[0][0][1] // 4}",
            f"{tokens}",
            tokens,
            PROMPT_TOKENS,
            " tokens",
        ),
    ]


def main() -> int:
    """Measure, print the table, and say whether every limit holds."""
    parser = argparse.ArgumentParser(description="GenCode beside the floor.")
    parser.add_argument("--quick", action="store_true", help="one round of everything")
    parser.add_argument("--json", type=Path, help="also keep the raw figures in this file")
    chosen = parser.parse_args()
    if missing := [name for name in ("aiohttp", "orjson") if importlib.util.find_spec(name) is None]:
        raise SystemExit(f"The benchmark needs {', '.join(missing)}: pip install aiohttp orjson uvloop")
    # Installed packages come compiled; where Python may write no bytecode, our own sources would not be.
    compile_dir(Path(__file__).resolve().parent.parent / "src" / "gencode", quiet=1)
    busy = os.getloadavg()[0]
    results = Results()
    results.take(1 if chosen.quick else 3)
    table = [*turn_rows(results), *many_rows(results), *command_line(3 if chosen.quick else 7)]
    if chosen.json:
        chosen.json.write_text(json.dumps(results.runs))
    print(f"Python {sys.version.split()[0]}, load {busy:.1f} at the start\n")
    print("| measure | floor | GenCode | figure | best rounds | at most | |\n|---|---|---|---|---|---|---|")
    print("\n".join(row.line() for row in table))
    return 0 if all(row.holds for row in table) else 1


if __name__ == "__main__":
    sys.exit(main())
