"""A copy is a repository of its own: what was committed in it and what was not both come home, once."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.workspaces.transfer.post import TASK, Office, arrived, sent
from tests.workspaces.worktrees.yard import TEN, commit, git, repository

from gencode.sandbox.placeholder_files import OWN_COMMONDIR
from gencode.workspaces.transfer import mirror
from gencode.workspaces.transfer.apply_changes import ChangeApplier
from gencode.workspaces.transfer.worker_copy import TaskWorktree
from gencode.workspaces.worktrees.agent_work import WorktreeResult
from gencode.workspaces.worktrees.leftovers import find_leftovers

pytestmark = pytest.mark.needs("git")

BRANCH = f"gencode/{TASK}"


def subjects(repo: Path, *words: str) -> list[str]:
    return git(repo, "log", "--format=%s", *words).splitlines()


async def handed_in(lodging: TaskWorktree, office: Office) -> WorktreeResult:
    work, why = await lodging.hand_in(office, "me", "worker")
    assert why == ""
    return work


async def brought(repo: Path, office: Office) -> str:
    return (await ChangeApplier(repo, office).apply(*office.back[TASK])).state


def stated(copy: Path, name: str, text: str, subject: str) -> None:
    """Write a file and commit it."""
    (copy / name).write_text(text)
    git(copy, "add", name)
    git(copy, "commit", "--quiet", "--message", subject)


async def test_an_agent_commits_and_branches_as_at_home_and_its_commits_arrive(
    tmp_path: Path, office: Office
) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    lodging = await arrived(await sent(repo, office), office, tmp_path / "home")
    copy = lodging.cwd
    assert (git(copy, "status", "--short"), subjects(copy)) == ("", ["a step"])
    stated(copy, "a.txt", TEN.replace("3\n", "three\n"), "Say three")
    git(copy, "checkout", "--quiet", "-b", "more")
    stated(copy, "b.txt", "b\n", "Add b")
    (copy / "c.txt").write_text("left\n")
    work = await handed_in(lodging, office)
    assert (work.notes, [each.path for each in work.files]) == ((), ["a.txt", "b.txt", "c.txt"])
    assert (copy.exists(), await find_leftovers(tmp_path / "home")) == (False, [])
    (repo / "a.txt").write_text(TEN.replace("3\n", "THREE\n"))
    assert await brought(repo, office) == "offered"
    left = f"Work of an agent in {lodging.tree.name}"
    assert subjects(repo, BRANCH) == [left, "Add b", "Say three", "a step"]
    assert git(repo, "show", f"{BRANCH}:c.txt") == "left"


async def test_what_was_not_committed_at_home_is_not_committed_in_the_copy_and_comes_back_once(
    tmp_path: Path, office: Office
) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN, _gitignore="*.log\n")
    (repo / "a.txt").write_text(TEN.replace("0\n", "zero\n"))
    (repo / "new.txt").write_text("new\n")
    (repo / "kept.log").write_text("ignored, and added all the same\n")
    git(repo, "add", "--force", "kept.log")
    before = git(repo, "status", "--short")
    lodging = await arrived(await sent(repo, office), office, tmp_path / "home")
    copy = lodging.cwd
    assert git(copy, "rev-parse", "HEAD") == git(repo, "rev-parse", "HEAD")
    assert git(copy, "status", "--short").splitlines() == [" M a.txt", "?? new.txt"]
    assert "+zero" in git(copy, "diff")
    (copy / "a.txt").write_text(TEN.replace("0\n", "zero\n").replace("9\n", "nine\n"))
    git(copy, "commit", "--quiet", "--all", "--message", "All of a.txt")
    (copy / "made.txt").write_text("made\n")
    work = await handed_in(lodging, office)
    assert [(each.path, each.added, each.removed) for each in work.files] == [
        ("a.txt", 1, 1),
        ("made.txt", 1, 0),
    ]
    (repo / "a.txt").write_text(TEN.replace("0\n", "null\n"))
    assert await brought(repo, office) == "applied"
    assert (repo / "a.txt").read_text() == TEN.replace("0\n", "null\n").replace("9\n", "nine\n")
    assert git(repo, "status", "--short") == before.replace("?? new", "?? made.txt\n?? new")
    assert await brought(repo, office) == "there"


async def test_a_task_goes_on_elsewhere_at_its_own_commit(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    (repo / "a.txt").write_text("changed\n")
    snapshot = await sent(repo, office)
    first = await arrived(snapshot, office, tmp_path / "home")
    stated(first.cwd, "b.txt", "b\n", "Add b")
    (first.cwd / "c.txt").write_text("left\n")
    await handed_in(first, office)
    (repo / "b.txt").write_text("mine\n")
    assert await brought(repo, office) == "offered"
    second = await arrived(snapshot, office, tmp_path / "other")
    assert subjects(second.cwd) == ["Add b", "a step"]
    assert git(second.cwd, "status", "--short").splitlines() == [" M a.txt", "?? c.txt"]
    stated(second.cwd, "c.txt", "left\nand more\n", "Add c")
    await handed_in(second, office)
    assert (await ChangeApplier(repo, office).apply(*office.back[TASK])).branch == BRANCH
    there = git(repo, "ls-tree", "--name-only", BRANCH).splitlines()
    assert ("Add c" in subjects(repo, BRANCH), there) == (True, ["a.txt", "b.txt", "c.txt"])


async def test_commits_that_are_not_in_the_last_state_stay_and_are_told(
    tmp_path: Path, office: Office
) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    snapshot = await sent(repo, office)
    lodging = await arrived(snapshot, office, tmp_path / "home")
    copy, here = lodging.cwd, git(lodging.cwd, "symbolic-ref", "--short", "HEAD")
    git(copy, "checkout", "--quiet", "-b", "try")
    stated(copy, "try.txt", "try\n", "Try")
    git(copy, "pack-refs", "--all")
    git(copy, "checkout", "--quiet", here)
    (copy / "a.txt").write_text("changed\n")
    work = await handed_in(lodging, office)
    only = "what was committed on other branches stays in the copy only: refs/heads/try"
    assert (work.notes, [each.path for each in work.files]) == ((only,), ["a.txt"])
    assert git(copy, "show", "try:try.txt") == "try"
    idle = await arrived(snapshot, office, tmp_path / "home", "00000002")
    (idle.cwd / "a.txt").write_text("put away\n")
    git(idle.cwd, "stash")
    kept = await handed_in(idle, office)
    assert (kept.kept, kept.commit, "is in no file stays in" in kept.notes[0]) == (True, snapshot.tip, True)
    assert "put away" in git(idle.cwd, "stash", "show", "-p")


async def test_a_redirected_repository_is_told_and_its_copy_stays(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    home = tmp_path / "home"
    lodging = await arrived(await sent(repo, office), office, home)
    copy = lodging.cwd
    (copy / "a.txt").write_text("put away\n")
    (copy / ".git/evil").mkdir()
    for name in ("objects", "refs", "config"):
        (copy / ".git" / name).rename(copy / ".git/evil" / name)
    (copy / ".git/commondir").write_text("evil\n")
    git(copy, "stash")
    (copy / "b.txt").write_text("b\n")
    work = await handed_in(lodging, office)
    why = "its repository was redirected to another place (.git/commondir)"
    told = "what was committed in it and is not in its files stays in the copy only"
    assert (work.notes, [each.path for each in work.files]) == ((f"{told}, because {why}",), ["b.txt"])
    assert "put away" in git(copy, "stash", "show", "-p")


async def test_what_a_killed_worker_left_standing_in_is_no_redirection(
    tmp_path: Path, office: Office
) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    lodging = await arrived(await sent(repo, office), office, tmp_path / "home")
    (lodging.cwd / ".git/commondir").write_bytes(OWN_COMMONDIR)
    stated(lodging.cwd, "b.txt", "b\n", "Add b")
    assert (await handed_in(lodging, office)).notes == ()


def bash(text: str, folder: Path) -> str:
    return subprocess.run(["bash", "-c", text], cwd=folder, capture_output=True, text=True, check=True).stdout


async def test_the_doctor_shows_how_a_copy_is_looked_at_and_removed_without_running_anything_of_it(
    tmp_path: Path, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    home, ran = tmp_path / "home", tmp_path / "ran"
    lodging = await arrived(await sent(repo, office), office, home)
    copy = lodging.cwd
    (copy / "b.txt").write_text("b\n")
    git(copy, "config", "core.fsmonitor", f"touch {ran}; false")
    monkeypatch.setenv("GEN_HOME", str(home))
    told = await asyncio.to_thread(bash, f"{sys.executable} -m gencode doctor --json || true", tmp_path)
    [fix] = [each["fix"] for each in json.loads(told)["checks"] if each["name"] == "worktree"]
    look, remove = fix.split(" (run no git in the copy: its agent could write to its .git); then ")
    assert (await asyncio.to_thread(bash, look, tmp_path), ran.exists()) == ("?? b.txt\n", False)
    await asyncio.to_thread(bash, remove, tmp_path)
    assert (copy.exists(), await find_leftovers(home)) == (False, [])


async def test_a_living_copy_outlives_the_packing_of_its_mirror(
    tmp_path: Path, office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = repository(tmp_path / "repo")
    first = await arrived(await sent(repo, office), office, tmp_path / "home")
    stated(first.cwd, "b.txt", "b\n", "Add b")
    monkeypatch.setattr(mirror, "MOST_PACKS", 1)
    commit(repo, c_txt="c\n")
    await arrived(await sent(repo, office), office, tmp_path / "home", "00000002")
    packs = first.tree.repository / "objects" / "pack"
    assert len([*packs.glob("*.pack")]) == 1
    git(first.cwd, "gc", "--quiet", "--prune=now")
    assert (git(first.cwd, "fsck", "--no-dangling"), subjects(first.cwd)) == ("", ["Add b", "a step"])
    assert (await handed_in(first, office)).notes == ()
    assert await brought(repo, office) == "applied"


def move(copy: Path, kind: str, number: int) -> None:
    """Something that an agent does with files or git; what git refuses is left."""
    names = ("a.txt", "b.txt", f"new{number}.txt", f"x{number}.log")
    match kind:
        case "write":
            (copy / names[number]).write_text(f"{number} of an agent\n")
        case "delete":
            (copy / names[number % 2]).unlink(missing_ok=True)
        case "force":
            (copy / "forced.log").write_text(f"{number}\n")
            git(copy, "add", "--force", "forced.log")
        case "commit":
            git(copy, "add", "--all")
            git(copy, "commit", "--quiet", "--allow-empty", "--message", f"step {number}")
        case "branch":
            git(copy, "checkout", "--quiet", "-B", f"branch{number}")
        case "amend":
            git(copy, "commit", "--quiet", "--amend", "--all", "--allow-empty", "--message", "amended")
        case _:
            git(copy, "reset", "--quiet", ("--soft", "--mixed", "--hard", "--keep")[number], "HEAD")


MOVES = st.tuples(
    st.sampled_from(["write", "write", "delete", "force", "commit", "commit", "branch", "amend", "reset"]),
    st.integers(0, 3),
)


def plain(folder: Path) -> dict[str, bytes]:
    """The files that are not ignored, but for those that were forced into a commit."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix == ".txt"}


@given(st.lists(MOVES, max_size=8), st.booleans())
@settings(max_examples=int(os.environ.get("GEN_EXAMPLES", "5")), deadline=None)
def test_whatever_an_agent_does_with_git_the_files_at_home_become_those_of_its_copy(
    moves: list[tuple[str, int]], dirty: bool
) -> None:
    async def there_and_back(folder: Path) -> None:
        repo, office = repository(folder / "repo", a_txt="a\n", b_txt="b\n", _gitignore="*.log\n"), Office()
        if dirty:
            (repo / "a.txt").write_text("not committed\n")
            (repo / "own.txt").write_text("new\n")
        lodging = await arrived(await sent(repo, office), office, folder / "home")
        try:
            for kind, number in moves:
                move(lodging.cwd, kind, number)
            expected = plain(lodging.cwd)
            await handed_in(lodging, office)
            if TASK in office.back:
                assert await brought(repo, office) in {"applied", "there"}
            assert plain(repo) == expected
        finally:
            lodging.release(folder / "home")

    with TemporaryDirectory() as folder:
        asyncio.run(there_and_back(Path(folder)))


def hooks(own: Path, proof: Path) -> None:
    for name in ("pre-commit", "post-index-change", "reference-transaction", "post-checkout", "pre-auto-gc"):
        hook = own / "hooks" / name
        hook.write_text(f"#!/bin/sh\ntouch {proof}\n")
        hook.chmod(0o755)


def programs(own: Path, proof: Path) -> None:
    hooks(own, proof)
    included = own / "more"
    included.write_text(f"[core]\n\tfsmonitor = touch {proof}\n\tsshCommand = touch {proof}\n")
    with (own / "config").open("a") as file:
        file.write(f'[include]\n\tpath = {included}\n[filter "x"]\n\tclean = touch {proof}; cat\n')
        file.write(f"\tsmudge = touch {proof}; cat\n\trequired = true\n[core]\n\thooksPath = {own}/hooks\n")
        file.write(f"[diff]\n\texternal = touch {proof}\n[core]\n\tpager = touch {proof}\n\tworktree = /\n")
    (own / "info").mkdir(exist_ok=True)
    (own / "info" / "attributes").write_text("* filter=x diff=x merge=x\n")
    (own.parent / ".gitattributes").write_text("* filter=x\n")


def replaced(own: Path, _proof: Path) -> None:
    git(
        own.parent,
        "replace",
        git(own.parent, "rev-parse", "HEAD:b.txt"),
        git(own.parent, "hash-object", "-w", "a.txt"),
    )


def linked(own: Path, proof: Path) -> None:
    hooks(own, proof)
    own.symlink_to(own.rename(proof.parent / "elsewhere.git"))


def pointed(own: Path, proof: Path) -> None:
    hooks(own, proof)
    own.write_text(f"gitdir: {own.rename(proof.parent / 'elsewhere.git')}\n")


def odd(own: Path, _proof: Path) -> None:
    """Names of branches that are no text or have no end, and a commit that leads nowhere."""
    stated(own.parent, "b.txt", "c\n", "Something")
    stated(own.parent, "b.txt", "b\n", "Nothing after all")
    between = git(own.parent, "rev-parse", "HEAD~1")
    (own / "objects" / between[:2] / between[2:]).unlink()
    (own / "refs" / "tags").mkdir(exist_ok=True)
    Path(os.fsdecode(os.fsencode(own / "refs" / "tags") + b"/\xff")).write_text(between)


def deep(own: Path, _proof: Path) -> None:
    inner = own / "refs" / "heads"
    for _ in range(200):
        inner = inner / "a"
        inner.mkdir()


def piped(own: Path, _proof: Path) -> None:
    (own / "HEAD").unlink()
    os.mkfifo(own / "HEAD")
    os.mkfifo(own / "refs" / "heads" / "pipe")


@pytest.mark.parametrize("harm", [programs, replaced, linked, pointed, piped, odd, deep])
async def test_nothing_that_an_agent_put_into_its_repository_runs_or_leads_elsewhere(
    tmp_path: Path, office: Office, harm: Callable[[Path, Path], None]
) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN, b_txt="b\n")
    proof = tmp_path / "proof"
    lodging = await arrived(await sent(repo, office), office, tmp_path / "home")
    (lodging.cwd / "a.txt").write_text("changed\n")
    harm(lodging.cwd / ".git", proof)
    [left] = await find_leftovers(tmp_path / "home")
    work = await handed_in(lodging, office)
    assert (left.changed in {1, 2}, "a.txt" in [each.path for each in work.files]) == (True, True)
    assert await brought(repo, office) == "applied"
    assert ((repo / "a.txt").read_text(), (repo / "b.txt").read_text()) == ("changed\n", "b\n")
    lodging.release(tmp_path / "home")
    again = await arrived(office.back[TASK][0].snapshot, office, tmp_path / "home")
    assert ((again.cwd / "a.txt").is_file(), proof.exists()) == (True, False)


async def test_no_commit_is_taken_from_another_repository_and_no_object_is_forged(
    tmp_path: Path, office: Office
) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    secret = repository(tmp_path / "secret", key_txt="secret\n")
    stolen = git(secret, "rev-parse", "HEAD")
    snapshot = await sent(repo, office)
    thief = await arrived(snapshot, office, tmp_path / "home")
    (thief.cwd / ".git" / "objects" / "info" / "alternates").write_text(f"{secret}/.git/objects\n")
    (thief.cwd / ".git" / "HEAD").write_text(f"{stolen}\n")
    (thief.cwd / "b.txt").write_text("b\n")
    git(thief.cwd, "hash-object", "-w", "b.txt")
    work = await handed_in(thief, office)
    assert "its HEAD names no commit that is there" in work.notes[0]
    assert await brought(repo, office) == "applied"
    there = thief.tree.repository
    assert stolen not in git(there, "cat-file", "--batch-check", "--batch-all-objects")
    forger = await arrived(snapshot, office, tmp_path / "home", "00000002")
    stated(forger.cwd, "c.txt", "c\n", "Add c")
    blob = git(forger.cwd, "rev-parse", "HEAD:c.txt")
    (forger.cwd / "d.txt").write_text("forged\n")
    false = git(forger.cwd, "hash-object", "-w", "d.txt")
    objects = forger.cwd / ".git" / "objects"
    (objects / blob[:2] / blob[2:]).unlink()
    (objects / false[:2] / false[2:]).rename(objects / blob[:2] / blob[2:])
    work = await handed_in(forger, office)
    assert [each.path for each in work.files] == ["c.txt", "d.txt"]
    assert "what was committed in it and is not in its files stays in the copy only" in work.notes[0]
    assert git(there, "cat-file", "-p", blob) == "c"
