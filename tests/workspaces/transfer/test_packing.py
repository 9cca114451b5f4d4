"""What goes into a snapshot, what stays at home, and what is too large to travel."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.workspaces.transfer.post import Office, arrived, sent
from tests.workspaces.worktrees.yard import TEN, commit, everything, git, repository

from gencode.core.errors import UserMistake
from gencode.permissions.trust import standing, trust
from gencode.workspaces.transfer import checkout, snapshot_builder
from gencode.workspaces.transfer.snapshot_builder import NO_HISTORY, SHALLOW, SnapshotBuilder

pytestmark = pytest.mark.needs("git")


def names(folder: Path) -> list[str]:
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return sorted(str(path) for path in found if path.parts[0] != ".git")


async def test_a_folder_arrives_as_it_is_and_stays_as_it_is(tmp_path: Path, office: Office) -> None:
    repo = repository(
        tmp_path / "repo", a_txt=TEN, gone_txt="gone\n", kept_txt="kept\n", _gitignore="*.log\n"
    )
    (repo / "a.txt").write_text("staged\n")
    git(repo, "add", "a.txt")
    (repo / "a.txt").write_text("and changed again\n")
    (repo / "gone.txt").unlink()
    (repo / "deep" / "new").mkdir(parents=True)
    (repo / "deep" / "new" / "b.bin").write_bytes(bytes(range(256)) * 40)
    (repo / "deep" / "run.sh").write_text("true\n")
    (repo / "deep" / "run.sh").chmod(0o755)
    (repo / "link").symlink_to("deep/run.sh")
    (repo / "no.log").write_text("ignored\n")
    (repo / "deep" / ".env").write_text("KEY=1\n")
    before = everything(repo)
    snapshot = await sent(repo, office)
    lodging = await arrived(snapshot, office, tmp_path / "home")
    assert everything(repo) == before
    assert snapshot.notes == ("not sent: new files that may hold secrets: deep/.env",)
    there = ["deep/new/b.bin", "deep/run.sh", "kept.txt", "link", ".gitignore", "a.txt"]
    assert names(lodging.cwd) == sorted(there)
    assert (lodging.cwd / "a.txt").read_text() == "and changed again\n"
    assert (lodging.cwd / "deep" / "new" / "b.bin").read_bytes() == bytes(range(256)) * 40
    assert (lodging.cwd / "deep" / "run.sh").stat().st_mode & 0o111
    assert (lodging.cwd / "link").readlink() == Path("deep/run.sh")
    assert git(lodging.cwd, "rev-parse", "HEAD") == git(repo, "rev-parse", "HEAD")
    changed = [" M a.txt", " D gone.txt", "?? deep/new/b.bin", "?? deep/run.sh", "?? link"]
    assert git(lodging.cwd, "status", "--short", "--untracked-files=all").splitlines() == changed


async def test_the_place_in_the_repository_is_the_same(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo")
    lodging = await arrived(await sent(repo / "sub", office), office, tmp_path / "home")
    assert names(lodging.cwd) == ["b.txt"]
    assert lodging.tree.workspace.root == lodging.cwd


async def test_one_without_a_commit_and_a_linked_worktree_travel_too(tmp_path: Path, office: Office) -> None:
    young = tmp_path / "young"
    young.mkdir()
    git(young, "init", "--quiet")
    (young / "first.txt").write_text("first\n")
    assert names((await arrived(await sent(young, office), office, tmp_path / "home")).cwd) == ["first.txt"]
    repo = repository(tmp_path / "repo")
    git(repo, "worktree", "add", "--quiet", str(tmp_path / "beside"), "-b", "side")
    commit(tmp_path / "beside", c_txt="c\n")
    lodging = await arrived(await sent(tmp_path / "beside", office), office, tmp_path / "home", "89abcdef")
    assert names(lodging.cwd) == ["a.txt", "c.txt", "sub/b.txt"]


async def test_what_has_not_changed_is_packed_once(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo")
    packer = SnapshotBuilder(repo, tmp_path / "own", office)
    first = await packer.build()
    assert (await packer.build(), office.kept) == (first, 1)
    (repo / "a.txt").write_text("changed\n")
    second = await packer.build()
    assert second.tip != first.tip and second.packs[0] == first.packs[0] and office.kept == 2
    office.packs.clear()
    assert (await packer.build(), office.kept) == (second, 4)


async def test_what_a_remote_has_does_not_travel_nor_its_password(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "remote", "add", "origin", "https://ada:s3cret@example.org/r.git")
    git(repo, "update-ref", "refs/remotes/origin/main", "HEAD")
    pushed = await sent(repo, office)
    head = git(repo, "rev-parse", "HEAD")
    told = (pushed.remote, pushed.branch, pushed.known, pushed.packs, pushed.tip)
    assert told == ("https://example.org/r.git", "main", (head,), (), head)
    later = commit(repo, c_txt="c\n")
    ahead = await sent(repo, office)
    assert (ahead.known, ahead.head, len(ahead.packs)) == ((head,), later, 1)
    assert len(office.packs[ahead.packs[0]]) < 400
    assert "s3cret" not in str(ahead) and ahead.key == pushed.key


@pytest.mark.parametrize(
    "address", ["ext::sh -c x", "../other", "http://example.org/r.git", "file:///srv/r.git"]
)
async def test_a_remote_that_is_not_safe_or_only_here_is_not_named(tmp_path: Path, address: str) -> None:
    repo = repository(tmp_path / "repo")
    git(repo, "remote", "add", "origin", address)
    git(repo, "update-ref", "refs/remotes/origin/main", "HEAD")
    snapshot = await sent(repo, Office())
    assert (snapshot.remote, snapshot.known, len(snapshot.packs)) == ("", (), 1)


async def test_a_shallow_clone_travels_without_its_history_and_says_why(
    tmp_path: Path, office: Office
) -> None:
    repo = repository(tmp_path / "repo")
    commit(repo, a_txt="second\n")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repo}", "shallow")
    git(tmp_path / "shallow", "remote", "remove", "origin")
    snapshot = await sent(tmp_path / "shallow", office)
    assert (snapshot.notes, snapshot.head) == ((SHALLOW,), "")


async def test_a_history_that_is_too_large_is_left_out_and_a_folder_that_is_stays(
    tmp_path: Path, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository(tmp_path / "repo")
    noise = bytes(range(256)) * 8
    (repo / "old.bin").write_bytes(b"".join(bytes((each * 7 + n) % 251 for each in noise) for n in range(20)))
    commit(repo)
    (repo / "old.bin").unlink()
    commit(repo)
    monkeypatch.setattr(checkout, "MOST_PACK", 700)
    snapshot = await sent(repo, office)
    assert (snapshot.notes, snapshot.head) == ((NO_HISTORY,), "")
    lodging = await arrived(snapshot, office, tmp_path / "home")
    assert names(lodging.cwd) == ["a.txt", "sub/b.txt"]
    monkeypatch.setattr(checkout, "MOST_PACK", 100)
    with pytest.raises(UserMistake, match="is too large to send: packed it has more than 32 MiB"):
        await sent(repo, Office())
    monkeypatch.setattr(snapshot_builder, "MOST_CHANGED", 1)
    (repo / "a.txt").write_text("larger than one byte")
    too_much = "is neither committed nor ignored: 1 KiB, of it 1 KiB in a.txt; at most 1 KiB can be sent"
    with pytest.raises(UserMistake, match=too_much):
        await sent(repo, Office())


async def test_what_is_too_large_is_named_with_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository(tmp_path / "repo")
    noise = os.urandom(20_000)
    monkeypatch.setattr(checkout, "MOST_PACK", 10_000)
    (repo / "big one").write_bytes(noise)

    async def refused() -> str:
        with pytest.raises(UserMistake) as mistake:
            await sent(repo, Office())
        return str(mistake.value)

    said = [await refused()]
    commit(repo)
    said.append(await refused())
    (repo / "b.txt").write_text("b\n")
    said.append(await refused())
    begins = f"{repo} is too large to send: packed it has more than 32 MiB, most of it in big one (20 KiB)"
    shares = "or use workers that share the folder"
    remote = "to a remote that the workers can reach"
    pushed = f"{begins}, which is committed. Push the commit {remote}, {shares}"
    ignored = f"{begins}, which is not committed. Ignore it, or commit it and push it {remote}, {shares}"
    assert said == [ignored, pushed, pushed]


async def test_a_folder_with_a_line_break_in_its_name_cannot_travel(tmp_path: Path) -> None:
    repo = repository(tmp_path / "new\nline")
    with pytest.raises(UserMistake, match="has a line break in it, and git cannot tell it exactly$"):
        await sent(repo, Office())


async def test_a_shallow_clone_travels_without_what_it_has_not(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo")
    commit(repo, c_txt="c\n")
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{repo}", "shallow")
    git(tmp_path / "shallow", "remote", "remove", "origin")
    lodging = await arrived(await sent(tmp_path / "shallow", office), office, tmp_path / "home")
    assert names(lodging.cwd) == ["a.txt", "c.txt", "sub/b.txt"]


async def test_a_folder_that_is_in_no_repository_cannot_travel(tmp_path: Path) -> None:
    with pytest.raises(UserMistake, match="is not in a git repository"):
        await sent(tmp_path, Office())


async def test_programs_of_the_repository_are_not_run(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo", _gitattributes="*.txt filter=evil\n", a_txt=TEN)
    proof = tmp_path / "proof"
    for name in (
        "filter.evil.clean",
        "filter.evil.smudge",
        "core.fsmonitor",
        "diff.external",
        "core.sshCommand",
    ):
        git(repo, "config", name, f"touch {proof}; cat")
    git(repo, "config", "filter.evil.required", "true")
    (repo / ".git" / "hooks").mkdir(exist_ok=True)
    for hook in ("post-index-change", "pre-commit", "reference-transaction"):
        (repo / ".git" / "hooks" / hook).write_text(f"#!/bin/sh\ntouch {proof}\n")
        (repo / ".git" / "hooks" / hook).chmod(0o755)
    (repo / "a.txt").write_text("changed\n")
    lodging = await arrived(await sent(repo, office), office, tmp_path / "home")
    assert ((lodging.cwd / "a.txt").read_text(), proof.exists()) == ("changed\n", False)


async def test_only_what_its_sender_trusts_is_trusted(tmp_path: Path, office: Office) -> None:
    repo, own, home = repository(tmp_path / "repo"), tmp_path / "own", tmp_path / "home"
    own.mkdir()
    home.mkdir()
    (repo / ".gen" / "agents").mkdir(parents=True)
    (repo / ".gen" / "agents" / "x.md").write_text("---\nname: x\ndescription: d\n---\nx\n")
    assert (await sent(repo, office)).trusted == {}
    trust(standing(repo, own), own)
    snapshot = await sent(repo, office)
    assert list(snapshot.trusted) == [".gen/agents/x.md"]
    lodging = await arrived(snapshot, office, home)
    assert standing(lodging.cwd, home).state == "untrusted"
    lodging.trust(home)
    assert standing(lodging.cwd, home).state == "trusted"
    lodging.release(home)
    assert standing(lodging.cwd, home).state == "untrusted"
    other = replace(snapshot, trusted={".gen/agents/x.md": "0" * 64})
    again = await arrived(other, office, home)
    again.trust(home)
    assert (again.kept, standing(again.cwd, home).state) == (True, "untrusted")
