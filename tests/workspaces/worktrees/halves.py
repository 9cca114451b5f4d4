"""Worktrees as a git leaves them that is killed while it adds one, for the tests of what is swept away."""

from pathlib import Path

from tests.workspaces.worktrees.yard import git

NOTHING = "0" * 40
STEPS = ("named", "pointed", "emptied", "headed", "shared", "common", "whole")
"""How far it came: git writes these files one after the other, and each is empty for a moment."""


def half_made(common: Path, path: Path, step: str) -> Path:
    """A worktree at a path, on a branch of its name, added up to a step; git's folder of it."""
    entry, branch = common / "worktrees" / path.name, f"gencode/{path.name}"
    entry.mkdir(parents=True)
    path.mkdir(parents=True)
    git(common, "update-ref", f"refs/heads/{branch}", git(common, "rev-parse", tip_of(common)))
    writings = (
        (entry / "gitdir", f"{path}/.git\n"),
        (path / ".git", f"gitdir: {entry}\n"),
        (entry / "HEAD", ""),
        (entry / "HEAD", f"{NOTHING}\n"),
        (entry / "commondir", ""),
        (entry / "commondir", "../..\n"),
        (entry / "HEAD", f"ref: refs/heads/{branch}\n"),
    )
    (entry / "locked").write_text("initializing\n")
    for file, text in writings[: STEPS.index(step) + 1]:
        file.write_text(text)
    return entry


def tip_of(common: Path) -> str:
    """Any commit that a repository has a name for."""
    return git(common, "for-each-ref", "--count=1", "--format=%(objectname)")


def branches(common: Path) -> list[str]:
    return git(common, "for-each-ref", "--format=%(refname:short)", "refs/heads/gencode").split()
