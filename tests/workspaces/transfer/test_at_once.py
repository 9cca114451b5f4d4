"""Work that comes to one checkout at once is applied one after another, whoever brings it."""

import asyncio
import errno
import fcntl
import os
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest
from tests.workspaces.transfer.post import Office, arrived, sent
from tests.workspaces.worktrees.yard import TEN, git, repository

from gencode.core.errors import UserMistake
from gencode.workspaces.transfer.apply_changes import LOCK_FILE, ApplyResult, ChangeApplier, checkout_lock
from gencode.workspaces.transfer.checkout import checkout_at

pytestmark = pytest.mark.needs("git")
ONE, OTHER = "0123abcd", "0123abce"
HOLDS = """
import fcntl, sys
file = open(sys.argv[1], "ab")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


async def worked(repo: Path, office: Office, task: str, before: str, after: str) -> None:
    """A task that changes a line elsewhere and hands it in."""
    lodging = await arrived(await sent(repo, office), office, repo.parent / "home", task)
    (lodging.cwd / "a.txt").write_text(TEN.replace(before, after))
    await lodging.hand_in(office, "me", "worker")


async def brought(repo: Path, office: Office, task: str) -> ApplyResult:
    return await ChangeApplier(repo, office).apply(*office.back[task])


def is_held(repo: Path) -> bool:
    """Whether somebody brings work to a checkout."""
    handle = os.open(repo / ".git" / LOCK_FILE, os.O_WRONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def state(repo: Path) -> tuple[str, str]:
    return (repo / "a.txt").read_text(), git(repo, "branch", "--format=%(refname:short)")


async def test_changes_close_to_each_other_that_come_at_once_are_both_applied(
    tmp_path: Path, office: Office
) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    await worked(repo, office, ONE, "3\n", "three\n")
    await worked(repo, office, OTHER, "5\n", "five\n")
    found = await asyncio.gather(*(brought(repo, office, task) for task in (ONE, OTHER)))
    both = TEN.replace("3\n", "three\n").replace("5\n", "five\n")
    assert ([each.state for each in found], state(repo)) == (["applied"] * 2, (both, "main"))
    assert [office.back[task][0].taken for task in (ONE, OTHER)] == [True, True]


async def test_the_same_work_that_is_brought_twice_at_once_is_there_the_second_time(
    tmp_path: Path, office: Office
) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    await worked(repo, office, ONE, "3\n", "three\n")
    found = await asyncio.gather(*(brought(repo, office, ONE) for _ in range(2)))
    assert sorted(each.state for each in found) == ["applied", "there"]
    assert state(repo) == (TEN.replace("3\n", "three\n"), "main")


async def test_nothing_is_compared_while_another_process_brings_work(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    await worked(repo, office, ONE, "3\n", "three\n")
    command = (sys.executable, "-c", HOLDS, str(repo / ".git" / LOCK_FILE))
    other = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
    assert other.stdout is not None and await other.stdout.readline() == b"held\n"
    bringing = asyncio.create_task(brought(repo, office, ONE))
    await asyncio.sleep(0.3)
    assert not bringing.done()
    (repo / "a.txt").write_text(TEN.replace("5\n", "five\n"))
    await other.communicate(b"")  # its input ends, and so does it
    found = await bringing
    both = TEN.replace("3\n", "three\n").replace("5\n", "five\n")
    assert (found.state, state(repo), is_held(repo)) == ("applied", (both, "main"), False)


async def test_the_same_work_that_is_brought_twice_at_once_is_news_once(
    tmp_path: Path, office: Office
) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    await worked(repo, office, ONE, "3\n", "three\n")
    both = [ChangeApplier(repo, office) for _ in range(2)]
    arrived = await asyncio.gather(*(each.apply(*office.back[ONE]) for each in both))
    assert sorted((each.state, home.is_news) for each, home in zip(arrived, both, strict=True)) == [
        ("applied", True),
        ("there", False),
    ]


async def test_the_turn_is_held_from_the_comparison_until_the_work_is_taken(
    tmp_path: Path, office: Office
) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    await worked(repo, office, ONE, "3\n", "three\n")
    seen: list[bool] = []

    class Watched(Office):
        async def taken(self, task: str, commit: str) -> bool:
            seen.append(is_held(repo))
            return True

    def allowed(_path: Path) -> bool:
        seen.append(is_held(repo))
        return True

    watched = Watched()
    watched.packs = office.packs
    await ChangeApplier(repo, watched).apply(*office.back[ONE], allowed)
    assert (seen, is_held(repo)) == ([True, True], False)


async def test_who_is_cut_off_while_it_waits_changes_nothing(tmp_path: Path, office: Office) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    await worked(repo, office, ONE, "3\n", "three\n")
    async with checkout_lock(await checkout_at(repo)):
        bringing = asyncio.create_task(brought(repo, office, ONE))
        await asyncio.sleep(0.2)
        bringing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await bringing
    assert (state(repo), office.back[ONE][0].taken) == ((TEN, "main"), False)


@pytest.mark.parametrize("kind", ["link", "pipe"])
async def test_no_link_is_followed_and_no_pipe_is_waited_for(
    tmp_path: Path, office: Office, kind: str
) -> None:
    repo = repository(tmp_path / "repo", a_txt=TEN)
    await worked(repo, office, ONE, "3\n", "three\n")
    lock, outside = repo / ".git" / LOCK_FILE, tmp_path / "outside"
    if kind == "link":
        lock.symlink_to(outside)
    else:
        os.mkfifo(lock)
    why = os.strerror(errno.ELOOP if kind == "link" else errno.ENXIO)
    with pytest.raises(UserMistake, match=f"cannot be written: {why}"):
        await brought(repo, office, ONE)
    assert (state(repo), outside.exists()) == ((TEN, "main"), False)
