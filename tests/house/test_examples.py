"""What the documents show works: their Python runs, and their `gen` commands end well, on the offline model.

A block that cannot run here has a comment before it that says why: `<!-- not run: needs a key -->`.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.house.source import ROOT

BLOCK = re.compile(
    r"^(?:<!-- not run: (?P<why>[^>]+) -->\n+)?```(?P<language>\w+)[^\n]*\n(?P<body>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
PROMPT = re.compile(r"^\$ (?:scripts/)?(?=gen(?: |$))", re.MULTILINE)
SHELLS = {"console", "sh", "bash", "shell"}
SECONDS = 120


@dataclass(frozen=True)
class Example:
    """A piece of a document that can be run."""

    place: str
    code: str


def pages() -> list[Path]:
    """All but the tutorials, whose steps build on one another: `test_tutorials.py` runs those."""
    guides = [page for page in sorted((ROOT / "docs").rglob("*.md")) if page.parent.name != "tutorial"]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *guides]


def blocks() -> list[tuple[str, str, str]]:
    """Place, language and text of every block that is meant to run."""
    found: list[tuple[str, str, str]] = []
    for page in pages():
        text = page.read_text("utf-8")
        for match in BLOCK.finditer(text):
            if not match["why"]:
                place = f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, match.start('body')) + 1}"
                found.append((place, match["language"], match["body"]))
    return found


def scripts() -> list[Example]:
    return [Example(place, body) for place, language, body in blocks() if language in {"python", "py"}]


def command_lines() -> list[Example]:
    return [
        Example(place, line[match.end() :])
        for place, language, body in blocks()
        if language in SHELLS
        for line in body.replace("\\\n", " ").splitlines()
        if (match := PROMPT.match(line))
    ]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A small project to ask about."""
    folder = tmp_path / "project"
    (folder / "app").mkdir(parents=True)
    (folder / "app" / "auth.py").write_text(
        "class AuthError(Exception):\n    pass\n\n\n"
        "def handle_auth_error(error: AuthError) -> int:\n"
        '    """Turn an authentication error into a 401 answer."""\n    return 401\n'
    )
    (folder / "README.md").write_text("# A small project\n\nThe database is opened in app/db.py.\n")
    (folder / "app" / "db.py").write_text("def connect(path: str) -> None:\n    '''Open the database.'''\n")
    return folder


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command where `gen` is the one under test."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, "PATH": path, "GEN_MODEL": "offline"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.parametrize("example", scripts(), ids=lambda example: example.place)
def test_python_in_the_documents_runs(example: Example, workspace: Path) -> None:
    ended = run([sys.executable, "-I", "-c", example.code], workspace)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("example", command_lines(), ids=lambda example: example.place)
def test_commands_in_the_documents_end_well(example: Example, workspace: Path) -> None:
    ended = run(["bash", "-o", "pipefail", "-c", example.code], workspace)
    assert ended.returncode == 0, ended.stderr


def test_the_readme_shows_something_that_runs() -> None:
    places = [example.place for example in [*scripts(), *command_lines()]]
    assert [place for place in places if place.startswith("README.md")] != []
