"""Takes fixes of the history back, one by one in a copy: are they still caught by the tests they came with?

    .venv-test/bin/python bench/reverts.py [MOST]

A fix that cannot be taken back without a conflict in `src`, or whose test files are gone, is left out.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SECONDS = 600


def git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)


def taken_back(copy: Path, commit: str) -> list[str]:
    """The tests of a fix that was taken back; none if it could not be."""
    git(copy, "revert", "--no-commit", commit)
    torn = git(copy, "diff", "--name-only", "--diff-filter=U", "--", "src").stdout
    changed = git(copy, "diff", "--cached", "--name-only", "--", "src").stdout
    git(copy, "revert", "--quit")
    git(copy, "checkout", "--force", "HEAD", "--", "tests", "docs", "bench")
    touched = git(copy, "show", "--name-only", "--format=", commit, "--", "tests").stdout.split()
    there = [each for each in touched if Path(each).name.startswith("test_") and (copy / each).exists()]
    return there if changed and not torn else []


def caught(copy: Path, tests: list[str]) -> bool:
    """Whether one of the tests fails; with nothing to run, none does."""
    environ = {**os.environ, "PYTHONPATH": str(copy / "src")}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-x", "-q", "-p", "no:cacheprovider", *tests]
    ended = subprocess.run(
        command, cwd=copy, env=environ, stdout=subprocess.DEVNULL, timeout=SECONDS, check=False
    )
    return ended.returncode == 1


def main(most: int) -> int:
    missed = tried = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy")
        git(ROOT, "clone", "--quiet", "--shared", str(ROOT), str(copy))
        fixes = git(copy, "log", "--grep=^fix", "--no-merges", "--format=%h %s", "--", "src").stdout
        for line in fixes.splitlines():
            if tests := taken_back(copy, line.partition(" ")[0]):
                tried += 1
                found = caught(copy, tests)
                missed += not found
                print("caught" if found else "MISSED", line, flush=True)
            git(copy, "reset", "--quiet", "--hard", "HEAD")
            if tried == most:
                break
    print(f"{tried} fixes taken back, {missed} missed")
    return int(missed > 0 or not tried)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 30))
