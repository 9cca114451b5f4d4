"""A yard of real git repositories for the tests of worktrees."""

import os
import subprocess
from pathlib import Path

from gencode.core.spec import Workspace
from gencode.workspaces.worktrees.create import create_worktree
from gencode.workspaces.worktrees.worktree import Worktree

TEN = "".join(f"{number}\n" for number in range(10))
PERSON = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "protocol.file.allow=always")


def git(folder: Path, *words: str | bytes) -> str:
    """What a person's git says in a folder; it must succeed."""
    command = ["git", *PERSON, *words]
    ended = subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return os.fsdecode(ended.stdout).removesuffix("\n")


def commit(folder: Path, **files: str) -> str:
    """Write files (`__` stands for a slash, `_` for a dot), commit everything, and give the commit."""
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "a step")
    return git(folder, "rev-parse", "HEAD")


def repository(folder: Path, **files: str) -> Path:
    """A repository with one commit, on the branch main."""
    folder.mkdir(parents=True)
    git(folder, "init", "--quiet", "--initial-branch=main")
    commit(folder, **(files or {"a_txt": TEN, "sub__b_txt": "b\n"}))
    return folder


async def worktree(repository: Path, name: str = "one", below: str = ".") -> Worktree:
    """A worktree of a repository, with a home beside it."""
    workspace = Workspace(repository, repository / below, repository.parent)
    return await create_worktree(workspace, home_of(repository), name)


def home_of(repository: Path) -> Path:
    return repository.parent / "home"


def everything(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, git's own included, but for what git notes about times."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink() and path.name != "index"
    }
