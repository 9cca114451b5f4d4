"""Writes `docs/reference/seeds.md` from the marks of the tests, or lists the rows without a test."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.seeds.different import DIFFERENT
from tests.seeds.rows import areas

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "seeds.md"
TABLES = ROOT.parent / "shared" / "notes" / "seeds_checked.md"
HEAD = """# Features of the five source documents

Here you find each feature of the five documents that GenCode unites, how you use it, and the test that
tries it. The page is written by `python -m tests.seeds.page` from the tests in `tests/seeds`.

| seed | document |
|---|---|
| 000 | GenCode: Task, TaskOutput, TaskStop and agents in files |
| 001 | mycode: the Task tool |
| 002 | Task Types: agents as folders with a `SUBAGENT.md` |
| 003 | OpenFork: sub-sessions, their events and rows |
| 004 | Spawn: detached work with an announcement |
"""
DIFFERENTLY = """
## Done differently

| feature | seed | why |
|---|---|---|
"""


def written() -> str:
    """The whole page."""
    parts = [HEAD]
    for title, rows in areas():
        parts.append(f"\n## {title}\n\n| feature | seed | how to use it | test |\n|---|---|---|---|\n")
        parts += [
            f"| {_cell(row.feature)} | {row.number} | {_code(row.use)} "
            f"| [{row.test.removeprefix('test_')}](../../tests/seeds/{row.file}) |\n"
            for row in rows
        ]
    if DIFFERENT:
        parts.append(DIFFERENTLY)
        parts += [f"| {_cell(row.feature)} | {row.number} | {_cell(row.why)} |\n" for row in DIFFERENT]
    return "".join(parts)


def here() -> list[tuple[str, str]]:
    """Every row that has a test or a reason."""
    tried = [(row.number, row.feature) for _, rows in areas() for row in rows]
    return tried + [(row.number, row.feature) for row in DIFFERENT]


def wanted() -> Iterator[tuple[str, str]]:
    """The rows of the two tables; the first numbers them and names a place."""
    for line in TABLES.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if cells[0].isdigit() and len(cells[0]) < 4 and not re.fullmatch("00[0-4]", cells[0]):
            yield cells[1][:3], cells[2]
        elif re.fullmatch("00[0-4]", cells[0]):
            yield cells[0], cells[1]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _code(text: str) -> str:
    """A line to type; a text that has code in it is a sentence."""
    return _cell(text) if "`" in text else f"`{_cell(text)}`"


if __name__ == "__main__":
    if "--missing" in sys.argv:
        done = set(here())
        print(
            "\n".join(f"{number} {feature}" for number, feature in wanted() if (number, feature) not in done)
        )
    else:
        PAGE.write_text(written(), "utf-8")
