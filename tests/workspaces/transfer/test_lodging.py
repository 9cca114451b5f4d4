"""Copies on a worker: from a remote, again, after a death, and from senders who mean harm."""

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.workspaces.transfer.input_file import with_input
from tests.workspaces.transfer.post import TASK, Office, arrived, sent
from tests.workspaces.worktrees.yard import TEN, commit, git, repository

from gencode.core.errors import UserMistake
from gencode.journal.folder_snapshot import MOST_PACK, FolderSnapshot, ReturnedChanges
from gencode.workspaces.transfer import checkout, mirror
from gencode.workspaces.transfer.mirror import FolderUnavailable, fetch_environment
from gencode.workspaces.worktrees.agent_work import WorktreeResult
from gencode.workspaces.worktrees.leftovers import find_leftovers

pytestmark = pytest.mark.needs("git")


def evil(repo: Path, tree: bytes, office: Office, *, without: str = "") -> FolderSnapshot:
    """A snapshot whose commit has a tree of these bytes."""
    name = with_input(repo, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", text=tree).decode()
    tip = git(repo, "commit-tree", name.strip(), "-m", "evil")
    wanted = f"{tip}\n" + (f"^{without}\n" if without else "")
    pack = f"s{tip}"
    office.packs[pack] = with_input(repo, "pack-objects", "--revs", "--stdout", "-q", text=wanted.encode())
    return FolderSnapshot(key="e" * 40, tip=tip, packs=(pack,))


def entry(mode: bytes, name: bytes, blob: str) -> bytes:
    return mode + b" " + name + b"\0" + bytes.fromhex(blob)


async def test_no_tree_reaches_out_of_its_folder(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo")
    blob = git(repo, "hash-object", "-w", "a.txt")
    below = git(repo, "rev-parse", "HEAD:sub")
    target = str(tmp_path / "outside").encode()
    outside = with_input(repo, "hash-object", "-w", "--stdin", text=target).decode()
    modules = b'[submodule "x"]\n\tpath = x\n\turl = -u./payload\n'
    module = with_input(repo, "hash-object", "-w", "--stdin", text=modules).decode().strip()
    trees = [
        entry(b"40000", b"..", below),
        entry(b"40000", b".git", below),
        entry(b"40000", b".GIT", below),
        entry(b"100644", b"../x", blob),
        entry(b"100644", b"a/b", blob),
        entry(b"120000", b"sub", outside.strip()) + entry(b"40000", b"sub", below),
        entry(b"100644", b".gitmodules", module),
        entry(b"120000", b".gitmodules", blob),
    ]
    for number, tree in enumerate(trees):
        snapshot = evil(repo, tree, office)
        with pytest.raises(UserMistake, match="is not sound"):
            await arrived(snapshot, office, tmp_path / "home", f"{number:08x}")
    assert not (tmp_path / "outside").exists()
    assert await find_leftovers(tmp_path / "home") == []


async def test_a_pack_that_is_broken_or_not_whole_is_refused(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo")
    snapshot = await sent(repo, office)
    [pack] = snapshot.packs
    body = office.packs[pack]
    first = git(repo, "rev-parse", "HEAD")
    later = commit(repo, c_txt="c\n")
    thin = with_input(repo, "pack-objects", "--revs", "--stdout", "-q", text=f"{later}\n^{first}\n".encode())
    for number, wrong in enumerate((b"", b"nonsense", body[:-30], body, thin)):
        office.packs[pack] = wrong
        with pytest.raises(UserMistake, match="is not sound|is not all of it"):
            await arrived(replace(snapshot, key=f"{number}" * 40, tip=later), office, tmp_path / "home")
    del office.packs[pack]
    with pytest.raises(UserMistake, match="is not in the database any more"):
        await arrived(snapshot, office, tmp_path / "home")


async def test_a_worker_fetches_with_its_own_settings_and_each_object_once(
    tmp_path: Path, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository(tmp_path / "repo")
    bare = tmp_path / "bare.git"
    git(tmp_path, "clone", "--quiet", "--bare", "repo", str(bare))
    git(repo, "remote", "add", "origin", "https://ada:s3cret@example.invalid/r.git")
    git(repo, "update-ref", "refs/remotes/origin/main", "HEAD")
    (repo / "a.txt").write_text("not committed\n")
    snapshot = await sent(repo, office)
    own = tmp_path / "worker"
    own.mkdir()
    monkeypatch.setenv("HOME", str(own))
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "ext")
    with pytest.raises(
        FolderUnavailable, match=r"https://example\.invalid/r\.git cannot be fetched from"
    ) as told:
        await arrived(snapshot, office, tmp_path / "home")
    assert "s3cret" not in str(told.value)
    (own / ".gitconfig").write_text(f'[url "file://{bare}"]\n\tinsteadOf = https://example.invalid/r.git\n')
    lodging = await arrived(snapshot, office, tmp_path / "home")
    assert (lodging.cwd / "a.txt").read_text() == "not committed\n"
    shutil.rmtree(bare)
    assert (await arrived(snapshot, office, tmp_path / "home", "89abcdef")).cwd != lodging.cwd
    assert fetch_environment()["GIT_ALLOW_PROTOCOL"] == "https:ssh:file"


async def test_a_commit_that_its_remote_has_not_is_a_reason_to_wait(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo")
    snapshot = FolderSnapshot(
        key="a" * 40, tip="1" * 40, remote=f"file://{repo}", branch="main", known=("1" * 40,)
    )
    with pytest.raises(FolderUnavailable, match="cannot be fetched from"):
        await arrived(snapshot, office, tmp_path / "home")
    with pytest.raises(FolderUnavailable, match="No remote does not have the commit"):
        await arrived(replace(snapshot, remote=""), office, tmp_path / "home")


async def test_what_was_done_is_handed_in_and_the_copy_is_gone(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo")
    lodging = await arrived(await sent(repo, office), office, tmp_path / "home")
    (lodging.cwd / "a.txt").write_text("changed\n")
    work, why = await lodging.hand_in(office, "me", "worker")
    assert (why, work.notes, lodging.tree.path.exists()) == ("", (), False)
    back, body = office.back[TASK]
    assert (back.commit, back.files, back.worker, len(body) > 0) == (work.commit, 1, "worker", True)
    assert await find_leftovers(tmp_path / "home") == []
    mirror = lodging.tree.repository
    kept = git(mirror, "for-each-ref", "--format=%(objectname)", "refs/gencode/returned")
    assert kept == work.commit


async def test_a_copy_that_was_kept_is_left_alone_when_the_task_went_on_elsewhere(
    tmp_path: Path, office: Office
) -> None:
    """What came back from there would be replaced by work without it."""
    repo = repository(tmp_path / "repo", a_txt=TEN, _gitignore="*.log\n")
    snapshot, seen = await sent(repo, office), list[tuple[bool, list[str]]]()
    for home, name in (
        ("here", "one"),
        ("here", "two"),
        ("there", "three"),
        ("here", "four"),
        ("here", "five"),
    ):
        lodging = await arrived(snapshot, office, tmp_path / home)
        seen.append((lodging.kept, sorted(each.stem for each in lodging.cwd.glob("*.txt"))))
        (lodging.cwd / f"{name}.txt").write_text(name)
        (lodging.cwd / "own.log").write_text("so that it is kept\n")
        await lodging.hand_in(office, "me", home)
        office.lodgings.pop().release(tmp_path / home)
    assert seen == [
        (False, ["a"]),
        (True, ["a", "one"]),
        (False, ["a", "one", "two"]),
        (False, ["a", "one", "three", "two"]),
        (True, ["a", "four", "one", "three", "two"]),
    ]
    assert office.back[TASK][0].files == 5


async def test_what_cannot_be_handed_in_stays(
    tmp_path: Path, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN, _gitignore="*.log\n")
    snapshot = await sent(repo, office)
    fenced = await arrived(snapshot, office, tmp_path / "home")
    (fenced.cwd / "a.txt").write_text("changed\n")
    _, why = await fenced.hand_in(office, "somebody else", "worker")
    assert (why, office.back) == ("another worker has the task now", {})
    ignoring = await arrived(snapshot, office, tmp_path / "home", "00000002")
    (ignoring.cwd / "a.txt").write_text("changed\n")
    (ignoring.cwd / "x.log").write_text("only here\n")
    work, why = await ignoring.hand_in(office, "me", "worker")
    assert (why, work.notes) == ("", ("ignored by git, in the copy only: x.log",))
    large = await arrived(snapshot, office, tmp_path / "home", "00000003")
    (large.cwd / "a.txt").write_text("changed\n")
    monkeypatch.setattr(checkout, "MOST_PACK", 10)
    _, why = await large.hand_in(office, "me", "worker")
    assert why == f"it is larger than {MOST_PACK >> 20} MiB"
    kept = str(large.tree.path)
    noted = ReturnedChanges(
        "00000003", snapshot, snapshot.tip, "/there", "worker", taken=True, kept=kept, why=why
    )
    assert office.back["00000003"] == (noted, b"")
    left = await find_leftovers(tmp_path / "home")
    assert [(each.away, each.merged, each.missing) for each in left] == [(True, False, False)] * 3


async def test_nothing_done_leaves_nothing_behind(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo")
    snapshot = await sent(repo, office)
    idle = await arrived(snapshot, office, tmp_path / "home")
    assert await idle.hand_in(office, "me", "worker") == (
        WorktreeResult(False, snapshot.tip, merges="clean", notes=("nothing was changed",)),
        "",
    )
    unused = await arrived(snapshot, office, tmp_path / "home", "00000002")
    await unused.remove_if_unused()
    told = ReturnedChanges(TASK, snapshot, snapshot.tip, "/there", "worker", taken=True)
    assert (office.back, told.nothing) == ({TASK: (told, b"")}, True)
    assert await find_leftovers(tmp_path / "home") == []


async def test_a_task_goes_on_where_it_was_or_was_handed_in(tmp_path: Path, office: Office) -> None:
    repo, home = repository(tmp_path / "repo"), tmp_path / "home"
    snapshot = await sent(repo, office)
    first = await arrived(snapshot, office, home)
    (first.cwd / "a.txt").write_text("begun\n")
    with pytest.raises(FolderUnavailable, match="another worker on this machine is running it"):
        await arrived(snapshot, office, home)
    first.release(home)
    again = await arrived(snapshot, office, home)
    assert (again.kept, again.fresh, (again.cwd / "a.txt").read_text()) == (True, False, "begun\n")
    await again.hand_in(office, "me", "worker")
    other = await arrived(snapshot, office, tmp_path / "other")
    assert (other.kept, other.fresh, (other.cwd / "a.txt").read_text()) == (False, False, "begun\n")
    (other.cwd / "b.txt").write_text("and more\n")
    await other.hand_in(office, "me", "other")
    assert office.back[TASK][0].files == 2
    await office.taken(TASK, office.back[TASK][0].commit)
    fresh = await arrived(snapshot, office, tmp_path / "third")
    assert (fresh.fresh, (fresh.cwd / "a.txt").read_text()) == (True, TEN)


async def test_a_mirror_with_many_packs_becomes_one_and_keeps_all(
    tmp_path: Path, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "MOST_PACKS", 2)
    repo = repository(tmp_path / "repo")
    for number in range(3):
        (repo / "a.txt").write_text(f"{number}\n")
        await arrived(await sent(repo, office), office, tmp_path / "home", f"{number:08x}")
    lodging = office.lodgings[-1]
    packs = lodging.tree.repository / "objects" / "pack"
    assert (len([*packs.glob("*.pack")]), (lodging.cwd / "a.txt").read_text()) == (1, "2\n")
    assert git(lodging.tree.repository, "fsck", "--no-dangling") == ""


async def test_what_a_killed_worker_left_half_made_is_in_nobodys_way(tmp_path: Path, office: Office) -> None:
    repo, home = repository(tmp_path / "repo"), tmp_path / "home"
    snapshot = await sent(repo, office)
    first = await arrived(snapshot, office, home)
    half = first.tree.path
    first.release(home)
    for record in (half.parent / ".records").iterdir():
        record.unlink()
    assert (await arrived(snapshot, office, home)).tree.path.name == f"{half.name}-2"
