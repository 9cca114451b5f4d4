"""A git repository."""

import os
import subprocess
from pathlib import Path


def git(folder: Path, *words: str) -> str:
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    name = ("-c", "user.name=T", "-c", "user.email=t@example.com")
    done = subprocess.run(["git", *name, *words], cwd=folder, check=True, capture_output=True, env=environ)
    return done.stdout.decode().strip()


def repository(folder: Path) -> Path:
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder
