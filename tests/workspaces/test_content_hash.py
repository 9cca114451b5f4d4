"""The hash of a folder that was searched: it changes with everything that decides what a search finds."""

from pathlib import Path

import pytest

from gencode.core.spec import Workspace
from gencode.workspaces.content_hash import ContentHasher


@pytest.mark.parametrize("file", ["repo/.git/info/exclude", "home/.config/git/ignore", "home/.gitconfig"])
def test_it_changes_with_the_excludes_of_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    repo = tmp_path / "repo"
    (repo / ".git" / "info").mkdir(parents=True)
    (tmp_path / "home/.config/git").mkdir(parents=True)
    (repo / "a.txt").write_text("x")

    def hashed() -> str | None:
        return ContentHasher(Workspace(repo, repo, tmp_path / "home")).hash(".")

    before = hashed()
    assert before and hashed() == before
    (tmp_path / file).write_text("*.txt\n")
    assert hashed() not in (before, "", None)
