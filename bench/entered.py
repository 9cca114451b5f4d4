"""How many files, functions and calls of GenCode `gen -p` enters before its first request to a model.

The request goes to a fake server on this machine. `--list` prints the files, with how many calls each got.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from processes import SECONDS, clean_environment, fake_server

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "gencode"


class Entered:
    """Counts the calls of our own functions until a model's request is about to be sent."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(PACKAGE)) or is_import(frame):
            return
        where = code.co_filename.removeprefix(f"{PACKAGE}/")
        if where.startswith("providers/") and code.co_name == "stream":
            sys.setprofile(None)
            self.report()
            os._exit(0)
        self.calls[where, code.co_qualname] += 1

    def report(self) -> None:
        """Print the sums, and each file with its calls."""
        files: Counter[str] = Counter()
        for (where, _), times in self.calls.items():
            files[where] += times
        loaded = sum(name.split(".")[0] == "gencode" for name in sys.modules)
        print(
            f"files {len(files)}, functions {len(self.calls)}, calls {files.total()}, modules loaded {loaded}"
        )
        for where, times in sorted(files.items()):
            print(f"{times:>6}  {where}", flush=True)


def is_import(frame: FrameType | None) -> bool:
    """Whether something runs because one of our modules is being loaded."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_code.co_filename.startswith(str(PACKAGE)):
            return True
        frame = frame.f_back
    return False


def inside() -> None:
    """Run `gen -p` in this process and count."""
    from gencode.interfaces.cli.main import main

    sys.setprofile(Entered())
    sys.exit(main(["-p", "hi", "--model", "openai/fake-model"]))


def outside(*, listed: bool) -> None:
    """Run that in a clean process beside a fake server, and print what it counted."""
    with tempfile.TemporaryDirectory() as folder, fake_server() as server:
        environment = clean_environment(Path(folder))
        environment["OPENAI_BASE_URL"] = f"{server.url}/v1"
        words = [sys.executable, str(Path(__file__).resolve()), "--inside"]
        done = subprocess.run(
            words, env=environment, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        raise SystemExit(f"gen -p sent no request: {done.stderr}")
    print("\n".join(lines if listed else lines[:1]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What gen -p enters before its first request.")
    parser.add_argument("--list", action="store_true", help="also each file")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    inside() if chosen.inside else outside(listed=chosen.list)
