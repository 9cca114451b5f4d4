"""A test that could not run is named at the end, and in CI it is a failure."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source import ROOT

TESTS = """
import os
import pytest

@pytest.mark.needs("no-such-program")
def test_needs_it():
    assert True

def test_has_a_home_of_its_own(home):
    assert os.environ["GEN_HOME"] == str(home / ".gen")
    assert not [name for name in os.environ if name.endswith("_API_KEY")]
"""


@pytest.mark.parametrize(("workers", "ci", "code"), [("0", "", 0), ("1", "true", 1)])
def test_what_could_not_run_is_named(tmp_path: Path, workers: str, ci: str, code: int) -> None:
    (tmp_path / "tests").mkdir()
    for name in ("conftest.py", "doors.py", "started_processes.py", "warm_start.py"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests")
    (tmp_path / "tests" / "test_it.py").write_text(TESTS)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", workers, "-p", "no:cacheprovider", "tests"],
        cwd=tmp_path,
        env={**os.environ, "CI": ci, "ANTHROPIC_API_KEY": "secret", "OPENAI_API_KEY": "secret"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "did not run: 1 that need no-such-program" in ended.stdout.splitlines()
    assert "1 passed, 1 skipped" in ended.stdout
    assert ended.returncode == code
