"""How work from elsewhere comes to a checkout that has moved on, or that somebody wants to harm."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.workspaces.transfer.post import TASK, Office, arrived, sent
from tests.workspaces.worktrees.yard import TEN, commit, everything, git, repository

from gencode.core.changes import listed
from gencode.core.errors import UserMistake
from gencode.core.events import TaskCreated
from gencode.core.rules import Action, Mode, Policy, Rule, written_in
from gencode.fleet.workspace_transfer import may_write
from gencode.workspaces.transfer.apply_changes import LOCK_FILE, ApplyResult, ChangeApplier, describe_result

pytestmark = pytest.mark.needs("git")


async def worked(repo: Path, office: Office, do: Callable[[Path], object]) -> None:
    """Send a folder away, do something there, and hand it in."""
    lodging = await arrived(await sent(repo, office), office, repo.parent / "home")
    do(lodging.cwd)
    await lodging.hand_in(office, "me", "worker")


async def brought(repo: Path, office: Office, **more: Callable[[Path], bool]) -> ApplyResult:
    return await ChangeApplier(repo, office).apply(*office.back[TASK], **more)


def state(repo: Path) -> tuple[str, str]:
    return git(repo, "status", "--short"), git(repo, "branch", "--format=%(refname:short)")


async def test_changes_come_into_files_that_were_changed_meanwhile(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN, gone_txt="gone\n", pic="\0\1")
    (repo / "a.txt").write_text(TEN.replace("0\n", "zero\n"))

    def do(copy: Path) -> None:
        (copy / "a.txt").write_text(TEN.replace("0\n", "zero\n").replace("9\n", "nine\n"))
        (copy / "gone.txt").unlink()
        (copy / "pic").write_bytes(bytes(range(256)))
        (copy / "new").mkdir()
        (copy / "new" / "run.sh").write_text("true\n")
        (copy / "new" / "run.sh").chmod(0o755)

    await worked(repo, office, do)
    commit(repo)
    commit(repo, later_txt="later\n")
    (repo / "a.txt").write_text(TEN.replace("0\n", "zero\n").replace("4\n", "four\n"))
    before = everything(repo)
    seen = await ChangeApplier(repo, office).preview(*office.back[TASK])
    assert (seen.state, everything(repo)) == ("fits", before)
    arrival = await brought(repo, office)
    assert arrival == replace(seen, state="applied")
    both = TEN.replace("0\n", "zero\n").replace("4\n", "four\n").replace("9\n", "nine\n")
    assert (repo / "a.txt").read_text() == both
    assert (repo / "pic").read_bytes() == bytes(range(256))
    assert (repo / "new" / "run.sh").stat().st_mode & 0o111
    assert state(repo) == (" M a.txt\n D gone.txt\n M pic\n?? new/", "main")
    assert office.back[TASK][0].taken
    assert [*describe_result(arrival)] == [f"[Its changes are in the files of {repo} now.]"]
    assert (await brought(repo, office)).state == "there"


async def test_a_conflict_changes_no_file_and_is_offered(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    await worked(repo, office, lambda copy: (copy / "a.txt").write_text(TEN.replace("3\n", "three\n")))
    mine = TEN.replace("3\n", "THREE\n")
    (repo / "a.txt").write_text(mine)
    arrival = await brought(repo, office)
    assert (arrival.state, arrival.conflicts, (repo / "a.txt").read_text()) == ("offered", ("a.txt",), mine)
    assert state(repo) == (" M a.txt", f"gencode/{TASK}\nmain")
    base = office.back[TASK][0].snapshot.tip[:12]
    patch = f"git -C {repo} diff --binary {base} gencode/{TASK}"
    assert [*listed(arrival.files), *describe_result(arrival)] == [
        "changed a.txt +1 -1",
        f"[Its changes are on the branch gencode/{TASK} of {repo} and not in the files there.]",
        "They were not applied: a merge would conflict in: a.txt.",
        f"To take it over: git -C {repo} merge gencode/{TASK}",
        f"or: {patch} | git -C {repo} apply --3way",
    ]
    assert not office.back[TASK][0].taken
    git(repo, "checkout", "--quiet", "a.txt")
    git(repo, "merge", "--quiet", f"gencode/{TASK}")
    assert (await brought(repo, office)).state == "there"


async def test_a_branch_that_is_there_already_is_not_dropped(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    await worked(repo, office, lambda copy: (copy / "a.txt").write_text("theirs\n"))
    (repo / "a.txt").write_text("mine\n")
    git(repo, "branch", f"gencode/{TASK}", commit(repo))
    arrival = await brought(repo, office)
    assert arrival.branch == f"gencode/{TASK}-{office.back[TASK][0].commit[:8]}"


async def test_what_may_not_be_written_without_asking_is_offered(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN, b_txt="b\n")

    def do(copy: Path) -> None:
        (copy / "a.txt").write_text("changed\n")
        (copy / "b.txt").write_text("changed\n")

    await worked(repo, office, do)
    arrival = await brought(repo, office, allowed=lambda path: path.name != "b.txt")
    assert (arrival.state, arrival.why) == ("offered", "these files need approval to be changed: b.txt")
    assert (repo / "a.txt").read_text() == TEN


def test_the_policies_over_a_task_say_what_may_be_written(tmp_path: Path) -> None:
    def may(path: str, *policies: Policy) -> bool:
        return may_write(tmp_path / path, TaskCreated(cwd=str(tmp_path), policies=policies))

    edits, plan = Policy(Mode.ACCEPT_EDITS, (), "you"), Policy(Mode.PLAN, (), "agent")
    never = replace(edits, rules=(Rule("Write", "a.txt", Action.DENY, written_in("you")),))
    assert [may("a.txt", edits), may("sub/b.txt", edits, edits)] == [True, True]
    refused = [
        may("a.txt"),
        may("a.txt", edits, plan),
        may("a.txt", never),
        may("../a.txt", edits),
        may(".gen/settings.toml", edits),
        may(".git/config", edits),
        may(".env", edits),
        may("a.txt", Policy(Mode.DEFAULT, (), "you")),
    ]
    assert refused == [False] * len(refused)


async def test_nothing_is_written_through_a_link_or_over_a_file_git_does_not_know(
    tmp_path: Path, office: Office
) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN, _gitignore="build\nown.log\n")
    outside = tmp_path / "outside"
    outside.mkdir()
    (repo / "build").symlink_to(outside)
    (repo / "own.log").write_text("mine\n")

    def do(copy: Path) -> None:
        (copy / "build").mkdir()
        (copy / "build" / "x").write_text("x\n")
        (copy / "own.log").write_text("theirs\n")
        git(copy, "add", "--force", "build/x", "own.log")
        git(copy, "commit", "--quiet", "--message", "forced")

    await worked(repo, office, do)
    arrival = await brought(repo, office)
    assert (arrival.state, arrival.why.startswith("It could not be applied: git said")) == ("offered", True)
    [why] = [
        line for line in describe_result(arrival) if line.startswith("They were not applied: it could not be")
    ]
    assert (why[-1], why[-2] == ".") == (".", False)
    assert ([*outside.iterdir()], (repo / "own.log").read_text()) == ([], "mine\n")


async def test_work_that_is_forged_or_not_whole_is_refused(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    await worked(repo, office, lambda copy: (copy / "a.txt").write_text("changed\n"))
    work, body = office.back[TASK]
    homecoming = ChangeApplier(repo, office)
    before = everything(repo)
    for wrong, pack in (
        (replace(work, commit="1" * 40), body),
        (replace(work, commit="--output=x"), body),
        (replace(work, snapshot=replace(work.snapshot, tip="2" * 40, packs=())), body),
        (work, body[:-25]),
        (work, b"PACK"),
        (replace(work, task="../../main"), body),
    ):
        with pytest.raises(UserMistake):
            await homecoming.apply(wrong, pack, lambda _: False)
    assert {
        name: text
        for name, text in everything(repo).items()
        if "objects" not in name and LOCK_FILE not in name
    } == {name: text for name, text in before.items() if "objects" not in name}


async def test_a_checkout_without_the_beginning_is_told_so(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    await worked(repo, office, lambda copy: (copy / "a.txt").write_text("changed\n"))
    work, body = office.back[TASK]
    other = repository(tmp_path / "other", z_txt="z\n")
    known = replace(work, snapshot=replace(work.snapshot, known=(work.snapshot.tip,), packs=()))
    with pytest.raises(UserMistake, match="does not have the commit"):
        await ChangeApplier(other, office).preview(known, body)
    office.packs.clear()
    with pytest.raises(UserMistake, match="is not in the database any more"):
        await ChangeApplier(other, office).preview(work, body)
    assert (await ChangeApplier(repo, office).preview(work, body)).state == "fits"
