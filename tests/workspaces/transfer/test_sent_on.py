"""A copy is sent on as a folder is: it keeps its repository's name, and knows what it is a copy of."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.workspaces.transfer.packer import HERE, packer
from tests.workspaces.transfer.post import Office, arrived, sent
from tests.workspaces.worktrees.yard import TEN, git, repository

from gencode.core.errors import UserMistake
from gencode.core.events import TaskCreated
from gencode.core.place import CopiedFolder, FolderCopy
from gencode.core.rules import Action, Mode, Policy, parse_rule, written_in
from gencode.fleet.workspace_transfer import may_write
from gencode.journal.folder_snapshot import FolderSnapshot, InvalidSnapshot, checked

pytestmark = pytest.mark.needs("git")


async def test_a_copy_of_a_copy_has_all_that_was_done_and_lies_in_the_same_mirror(
    tmp_path: Path, office: Office
) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    (repo / "new.txt").write_text("new\n")
    first = await arrived(await sent(repo, office), office, tmp_path / "home")
    (first.cwd / "b.txt").write_text("b\n")
    git(first.cwd, "add", "b.txt")
    git(first.cwd, "commit", "--quiet", "--message", "Add b")
    (first.cwd / "a.txt").write_text("changed\n")
    snapshot = await packer(first, office, tmp_path).build()
    assert (snapshot.key, snapshot.earlier) == (first.guest.snapshot.key, (HERE,))
    second = await arrived(checked(snapshot), office, tmp_path / "home", "00000002")
    texts = {name: (second.cwd / name).read_text() for name in ("a.txt", "b.txt", "new.txt")}
    assert texts == {"a.txt": "changed\n", "b.txt": "b\n", "new.txt": "new\n"}
    assert second.tree.repository == first.tree.repository
    assert git(second.cwd, "log", "--format=%s").splitlines() == ["Add b", "a step"]


async def test_what_a_remote_has_of_the_original_does_not_travel_again(
    tmp_path: Path, office: Office
) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    snapshot = await sent(repo, office)
    first = await arrived(snapshot, office, tmp_path / "home")
    remote = replace(
        snapshot, remote="https://git.example/repo", branch="main", known=(snapshot.head,), packs=()
    )
    first.guest = replace(first.guest, snapshot=remote)
    (first.cwd / "a.txt").write_text("changed\n")
    onward = await packer(first, office, tmp_path).build()
    assert (onward.remote, onward.branch, onward.known) == (remote.remote, "main", (snapshot.head,))
    assert [pack[0] for pack in onward.packs] == ["s"]
    first.guest = replace(first.guest, snapshot=replace(remote, known=("1" * 40,)))
    alone = await packer(first, office, tmp_path).build()
    assert (alone.remote, [pack[0] for pack in alone.packs]) == ("", ["h", "s"])


async def test_a_copy_whose_repository_was_led_elsewhere_is_not_sent(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    first = await arrived(await sent(repo, office), office, tmp_path / "home")
    git(first.cwd, "config", "core.worktree", str(first.cwd.parent))
    with pytest.raises(UserMistake, match="was redirected to"):
        await packer(first, office, tmp_path).build()


def test_what_an_agent_below_wrote_is_judged_by_the_names_of_the_first_sender(tmp_path: Path) -> None:
    (tmp_path / "copy" / ".git").mkdir(parents=True)
    deny = parse_rule("Write(/home/me/repo/kept/**)", Action.DENY, written_in("a test"))
    policies = (Policy(Mode.ACCEPT_EDITS, (deny,), "the sender"),)
    created = TaskCreated(agent="x", prompt="y", cwd=str(tmp_path / "copy"), policies=policies)
    copied = FolderCopy(str(tmp_path / "copy"), HERE.folder, HERE.home)
    names = ("kept/a", "a")
    assert [may_write(tmp_path / "copy" / name, created, copied) for name in names] == [False, True]


@pytest.mark.parametrize(
    "earlier",
    [(CopiedFolder("repo"),), (CopiedFolder("/a", "b"),), (CopiedFolder("/a\n"),), (CopiedFolder("/a"),) * 9],
)
def test_a_parcel_that_names_what_cannot_be_is_refused(earlier: tuple[CopiedFolder, ...]) -> None:
    snapshot = FolderSnapshot(key="a" * 40, tip="b" * 40, earlier=earlier)
    with pytest.raises(InvalidSnapshot, match="not a valid path"):
        checked(snapshot)
    assert checked(replace(snapshot, earlier=(HERE,))).earlier == (HERE,)
