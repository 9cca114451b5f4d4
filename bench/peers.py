"""GenCode beside other frameworks, on the same work against the same fake server.

    python bench/peers.py [--only agno,pydantic-ai] [--folder DIR] [--all]

Each peer gets an environment of its own below DIR (the system's temporary folder unless named) and keeps it.
Without `--all` only W1 and W2 are run: W3 takes most peers half a minute and some much longer.
"""

import argparse
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from processes import Work, driven

W1 = Work(("--workload", "w1", "--turns", "50", "--rounds", "3"), streamed=False)
W2 = Work(("--workload", "w2", "--agents", "100", "--turns", "5"), latency_ms=200, streamed=False)
W3 = Work(("--workload", "w3", "--agents", "1000", "--turns", "2"), latency_ms=500, streamed=False)


class Peer(NamedTuple):
    """A driver and what it needs; nothing for those that run in this environment."""

    driver: str
    needs: tuple[str, ...] = ()


PEERS = {
    "floor (aiohttp, orjson)": Peer("floor"),
    "GenCode": Peer("gencode_"),
    "agno": Peer("agno_", ("agno", "openai")),
    "pydantic-ai": Peer("pydantic_ai_", ("pydantic-ai-slim[openai]",)),
    "openai-agents": Peer("openai_agents_", ("openai-agents",)),
}


def environment(name: str, peer: Peer, folder: Path) -> str:
    """The Python that runs a peer, made where it is missing."""
    if not peer.needs:
        return sys.executable
    python = folder / name / "bin" / "python"
    if not (folder / name / "ready").exists():
        print(f"installing {name}", file=sys.stderr, flush=True)
        venv.create(folder / name, with_pip=True, clear=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *peer.needs], check=True, timeout=900)
        (folder / name / "ready").touch()
    return str(python)


def cells(peer: Peer, python: str, works: list[Work]) -> list[str]:
    """The figures of one peer."""
    found: list[dict[str, Any]] = [driven(peer.driver, work, python=python) for work in works]
    first = found[0]
    turn = median(each["cpu"] for each in first["rounds"]) * 1000 / 51
    told = [f"{turn:.2f}", f"{first['first_cpu'] * 1000:.0f}", f"{first['server']['first_prompt']}"]
    for run in found[1:]:
        told += [f"{run['rounds'][0]['wall']:.2f}", f"{run['rounds'][0]['cpu']:.2f}"]
        told.append(f"{run['server']['connections']}")
    return told


def main() -> None:
    """Run every peer and print the table."""
    parser = argparse.ArgumentParser(description="GenCode beside other frameworks.")
    parser.add_argument("--only", default="", help="names of peers, divided by commas")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir(), "gencode-bench"))
    parser.add_argument("--all", action="store_true", help="W3 too")
    chosen = parser.parse_args()
    wanted = [name for name in chosen.only.split(",") if name]
    works = [W1, W2, W3] if chosen.all else [W1, W2]
    heads = ["peer", "W1 CPU ms/turn", "first answer CPU ms", "first prompt B"]
    for name in ("W2", "W3")[: len(works) - 1]:
        heads += [f"{name} wall s", f"{name} CPU s", f"{name} connections"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for name, peer in PEERS.items():
        if not wanted or name in wanted or not peer.needs:
            python = environment(name, peer, chosen.folder)
            print(f"| {name} | {' | '.join(cells(peer, python, works))} |", flush=True)


if __name__ == "__main__":
    main()
