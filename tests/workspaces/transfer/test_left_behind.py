"""What an agent hears of its copy before it begins, and what is told of work that git cannot carry."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.workspaces.transfer.notices import said
from tests.workspaces.transfer.post import TASK, Office, sent
from tests.workspaces.worktrees.yard import commit, git, repository

from gencode.fleet.worker_workspace import CopiedTaskFolder
from gencode.workspaces.transfer.worker_copy import IncomingTask

pytestmark = pytest.mark.needs("git")


@asynccontextmanager
async def lodged(folder: Path, office: Office, home: Path) -> AsyncGenerator[CopiedTaskFolder]:
    made = await CopiedTaskFolder.prepare(
        IncomingTask(TASK, str(folder), await sent(folder, office)), office, home, "far"
    )
    made.run_by(office.owner)
    try:
        yield made
    finally:
        await made.leave(home)


async def test_a_repository_that_was_made_inside_is_told_not_to_be_handed_in(
    tmp_path: Path, office: Office
) -> None:
    async with lodged(repository(tmp_path / "repo"), office, tmp_path / "home") as made:
        for name in ("inner", "empty"):
            (made.workspace.cwd / name).mkdir()
            git(made.workspace.cwd / name, "init", "--quiet")
        commit(made.workspace.cwd / "inner", x_txt="x\n")
        (made.workspace.cwd / "y.txt").write_text("y\n")
        ending = await made.summary()
    [line] = [line for line in said(ending).splitlines() if line.startswith("Not copied back")]
    stays = "repositories made inside stay in the copy only: "
    assert line.startswith(f"Not copied back, {stays}") and line.endswith(f", in {made.path}.")
    assert "inner" in line and "added y.txt +1 -0" in said(ending)
    assert (made.workspace.cwd / "inner" / "x.txt").exists()


async def test_an_agent_hears_that_its_history_stayed_at_home(tmp_path: Path, office: Office) -> None:
    young = tmp_path / "young"
    young.mkdir()
    git(young, "init", "--quiet")
    (young / "a.txt").write_text("a\n")
    async with lodged(young, office, tmp_path / "one") as made:
        [alone] = made.introduction()
    commit(young)
    async with lodged(young, office, tmp_path / "two") as made:
        [whole] = made.introduction()
    said = "history is missing"
    assert (said in alone.text, said in whole.text) == (True, False)


@pytest.mark.parametrize("below", [".", "sub"])
async def test_a_copy_stands_for_the_whole_checkout_of_its_sender(
    tmp_path: Path, office: Office, below: str
) -> None:
    repo = repository(tmp_path / "repo")
    async with lodged(repo / below, office, tmp_path / "home") as made:
        assert made.moved == (str(made.path), str(repo))
