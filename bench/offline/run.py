"""bench: how often the offline model names the right file, how fast it is, and how often it admits a miss.

    python bench/offline/run.py --split NAME_OF_A_SET [--only NAME] [--folder DIR] [--verbose]

The trees are downloaded by package name into a folder under the system's temporary one.
"""

import argparse
import asyncio
import re
import tempfile
import time
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from drive import ask
from fetch import NotFetched, fetch

HERE = Path(__file__).parent
SPLITS = sorted(path.stem for path in HERE.glob("*.toml"))
_PLACE = re.compile(r"^(.+?):\d+(?:  .*)?$")


@dataclass
class Score:
    """Counts over some questions."""

    asked: int = 0
    first: int = 0
    top_five: int = 0
    abstained: int = 0
    seconds: list[float] = field(default_factory=lambda: [])

    def add(self, other: "Score") -> None:
        """Put two counts together."""
        self.asked += other.asked
        self.first += other.first
        self.top_five += other.top_five
        self.abstained += other.abstained
        self.seconds += other.seconds

    def line(self, name: str) -> str:
        """One row of the report."""
        times = sorted(self.seconds) or [0.0]
        return (
            f"{name:32} first {self.first:3}/{self.asked:<3} top five {self.top_five:3}/{self.asked:<3} "
            f"no match {self.abstained:2}  {times[len(times) // 2]:5.2f} s median {times[-1]:5.2f} s worst"
        )


def places(text: str) -> list[str]:
    """The paths of the leading `path:line` lines."""
    found: list[str] = []
    for line in text.splitlines():
        match = _PLACE.match(line)
        if not match:
            break
        found.append(match.group(1))
    return found


async def measure(tree: Path, questions: list[dict[str, Any]], verbose: bool) -> Score:
    """All questions about one tree."""
    score = Score()
    for question in questions:
        before = time.perf_counter()
        answer = await ask(question["ask"], tree)
        score.seconds.append(time.perf_counter() - before)
        score.asked += 1
        right = [
            any(f"/{path}".endswith(f"/{each}") for each in question["answer"])
            for path in places(answer.text)
        ]
        score.first += bool(right and right[0])
        score.top_five += any(right)
        score.abstained += answer.text.startswith("no confident match")
        if verbose and not (right and right[0]):
            print(f"  {question['ask']}  ({', '.join(question['answer'])}; {answer.calls} calls)")
            print("    " + "\n    ".join(answer.text.splitlines()[:6]))
    return score


async def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--split", choices=SPLITS, default="seen")
    parser.add_argument("--only", help="just the repository of this name")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "gencode-offline-bench")
    parser.add_argument("--verbose", action="store_true")
    chosen = parser.parse_args()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    asked = tomllib.loads((HERE / f"{chosen.split}.toml").read_text(encoding="utf-8"))
    trees: dict[str, Path] = {}
    total = Score()
    for repo in asked["repo"]:
        if chosen.only and repo["name"] != chosen.only:
            continue
        try:
            tree = fetch(repo["name"], repo["source"], repo["version"], repo.get("drop", []), chosen.folder)
        except NotFetched as error:
            print(f"{repo['name']:32} skipped: {error}")
            continue
        trees[repo["name"]] = tree
        score = await measure(tree, repo["questions"], chosen.verbose)
        print(score.line(f"{repo['name']} ({repo['language']})"), flush=True)
        total.add(score)
    print(total.line("all"))
    absent = admitted = 0
    groups: list[dict[str, Any]] = [group for group in asked["absent"] if group["repo"] in trees]
    for group in groups:
        for question in group["asks"]:
            answer = await ask(question, trees[group["repo"]])
            absent += 1
            admitted += answer.text.startswith("no confident match")
            if chosen.verbose and not answer.text.startswith("no confident match"):
                print(f"  {group['repo']}: {question}\n    {answer.text.splitlines()[0]}")
    print(f"{'not there at all':32} {admitted}/{absent} answered with no confident match")


if __name__ == "__main__":
    asyncio.run(main())
