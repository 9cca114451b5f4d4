"""What the permissions of a path do not allow is a mistake of one sentence, and no crash."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interfaces.cli.running import GEN, SECONDS

UNPRIVILEGED = ("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all")
"""Permissions apply to root, too."""

pytestmark = pytest.mark.needs("setpriv")


def refusal(*words: str, cwd: Path) -> str:
    """What `gen` writes to stderr when it is refused."""
    prefix = UNPRIVILEGED if os.geteuid() == 0 else ()
    ended = subprocess.run(
        [*prefix, *GEN, *words],
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    return ended.stderr


@pytest.fixture
def secret(tmp_path: Path) -> Iterator[Path]:
    """A folder that nobody can read."""
    folder = tmp_path / "secret"
    (folder / "inside").mkdir(parents=True)
    folder.chmod(0)
    yield folder
    folder.chmod(0o700)


@pytest.mark.parametrize(
    "words",
    [
        ("-p", "hi", "--cwd", "secret"),
        ("-p", "hi", "--cwd", "secret/inside"),
        ("doctor", "--cwd", "secret"),
        ("task", "list", "--cwd", "secret"),
        ("task", "run", "Explore", "hi", "--cwd", "secret"),
        ("agents", "lint", "--cwd", "secret"),
        ("agents", "add", "team", "--cwd", "secret"),
        ("serve", "--port", "0", "--cwd", "secret"),
        ("trust", "secret"),
        ("trust", "secret/inside"),
    ],
)
def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, secret: Path, words: tuple[str, ...]) -> None:
    assert refusal(*words, cwd=tmp_path) == f"gen: {secret} cannot be read (Permission denied).\n"


def test_a_path_to_lint_that_cannot_be_read_is_named(tmp_path: Path, secret: Path) -> None:
    denied = f"gen: {secret}/inside cannot be read (Permission denied).\n"
    assert refusal("agents", "lint", "secret/inside", cwd=tmp_path) == denied


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    denied = f"gen: {tmp_path}/.gen cannot be created (Permission denied).\n"
    assert refusal("agents", "add", "team", cwd=tmp_path) == denied
    tmp_path.chmod(0o700)
