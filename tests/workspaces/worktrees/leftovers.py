"""Leftover worktrees as `gen doctor` tells of them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.workspaces.worktrees.yard import git


def doctor(folder: Path) -> dict[str, Any]:
    ended = subprocess.run(
        [sys.executable, "-m", "gencode", "doctor", "--json"],
        cwd=folder,
        env=dict(os.environ),
        capture_output=True,
        check=False,
    )
    return json.loads(ended.stdout)


def typed(command: str) -> int:
    """The exit code of what a person typed."""
    return subprocess.run(["sh", "-c", command], check=False, capture_output=True).returncode


def named(repo: Path) -> None:
    """Let commits have an author, as with most people."""
    git(repo, "config", "user.name", "Ada")
    git(repo, "config", "user.email", "ada@example.org")
