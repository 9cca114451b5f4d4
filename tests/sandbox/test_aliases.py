"""A folder is found at another name as well, and at none by which a command or a machine is fooled."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

import gencode
from gencode.sandbox.choose_sandbox import NOTHING, Sandbox, best_sandbox
from gencode.sandbox.folder_aliases import with_aliases, working_aliases
from gencode.sandbox.profile import SandboxProfile, workspace_profile
from gencode.sandbox.trial import TrialResult
from tests.sandbox.yard import BASH, SECONDS

pytestmark = pytest.mark.needs("bwrap")


@dataclass(frozen=True)
class Copy:
    """A copy of a folder, and a home of GenCode's beside it."""

    base: Path

    @property
    def folder(self) -> Path:
        return self.base / "copies" / "1"

    @property
    def home(self) -> Path:
        return self.base / "own"

    def plan(self, *names: str) -> SandboxProfile:
        plan = workspace_profile(self.folder, self.base / "temp", self.home, environ={})
        return with_aliases(plan, self.folder, names)

    def taken(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if self.plan(name).aliases]

    def bash(self, text: str, plan: SandboxProfile) -> list[str]:
        words = best_sandbox().enclose([*BASH, text], plan)
        ended = subprocess.run(
            words, cwd=self.folder, capture_output=True, text=True, timeout=SECONDS, check=False
        )
        return [*ended.stdout.splitlines(), *ended.stderr.splitlines()]


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    if not best_sandbox().supports_aliases:
        pytest.skip("bubblewrap does not work here")
    made = Copy(tmp_path)
    for name in ("copies/1/.git/hooks", "copies/1/sub", "own", "temp", "there", "near/other"):
        (tmp_path / name).mkdir(parents=True)
    (made.folder / "a.txt").write_text("in the copy\n")
    (made.folder / ".git" / "config").write_text("")
    (tmp_path / "there" / "a.txt").write_text("of somebody else\n")
    (tmp_path / "near" / "file").write_text("near\n")
    (tmp_path / "near" / "link").symlink_to("file")
    return made


def test_a_name_that_is_not_there_is_made_and_all_around_it_stays_as_it_is(copy: Copy) -> None:
    near = copy.base / "near"
    name = f"{near}/me/repo"
    assert copy.bash(
        f"cat {name}/a.txt; ls {near}; cat {near}/link; echo b > {name}/b.txt; cat b.txt; "
        f"touch {near}/x {name}/../y {name}/.git/hooks/z 2>/dev/null || echo refused",
        copy.plan(name),
    ) == ["in the copy", "file", "link", "me", "other", "near", "b", "refused"]
    assert sorted(each.name for each in near.iterdir()) == ["file", "link", "other"]
    assert (copy.folder / "b.txt").read_text() == "b\n"
    assert list((copy.folder / ".git" / "hooks").iterdir()) == []


def test_a_name_in_the_root_is_made_too(copy: Copy) -> None:
    name = "/gencode-of-nobody/me/repo"
    tries = "; ".join(f"touch {place} 2>/dev/null || echo refused" for place in ("/x", f"{name}/../x"))
    said = copy.bash(f"cat {name}/a.txt; {tries}; ls -d /usr/bin /tmp /proc/self", copy.plan(name))
    assert said == ["in the copy", "refused", "refused", "/proc/self", "/tmp", "/usr/bin"]
    assert not Path("/gencode-of-nobody").exists()


def test_the_copy_hides_what_is_at_the_name_outside(copy: Copy) -> None:
    name = str(copy.base / "there")
    assert copy.bash(f"cat {name}/a.txt; echo b >> {name}/a.txt; cat a.txt", copy.plan(name)) == [
        *("in the copy", "in the copy", "b")
    ]
    assert (copy.base / "there" / "a.txt").read_text() == "of somebody else\n"


def test_what_only_reads_writes_at_no_name(copy: Copy) -> None:
    name = str(copy.base / "there")
    reading = replace(copy.plan(name), writable=())
    said = copy.bash(f"cat {name}/a.txt; touch {name}/b b", reading)
    assert (said[0], ["Read-only" in line for line in said[1:]]) == ("in the copy", [True, True])


def test_a_folder_has_all_of_its_names_at_once(copy: Copy) -> None:
    names = [f"{copy.base}/there", f"{copy.base}/near/me/repo", f"{copy.base}/there/below"]
    plan = copy.plan(*names)
    assert [str(alias.name) for alias in plan.aliases] == names[:2]
    assert copy.bash(f"cat {names[0]}/a.txt {names[1]}/a.txt", plan) == ["in the copy"] * 2
    assert working_aliases(copy.folder, names, copy.home, best_sandbox()) == tuple(names[:2])


def test_no_place_is_taken_that_others_need(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    base = str(copy.base)
    (copy.base / "link").symlink_to("near")
    monkeypatch.setenv("HOME", f"{base}/lives/here")
    monkeypatch.setenv("PATH", f"{base}/tools/bin:{os.environ['PATH']}")
    refused = [
        *("/", "/home", "/root", "/tmp", "/usr", "/usr/src/app", "/etc/x", "/run/x", "/proc/x", "/dev/shm/x"),
        *("/USR/x", "relative", "", f"{base}/a/../b", f"{base}//x", f"{base}/x/", f"{base}/x\n", "/nix/x"),
        *(base, f"{base}/copies", f"{base}/copies/1", f"{base}/copies/1/sub"),
        *(f"{base}/own", f"{base}/own/x", f"{base}/temp/x", f"{base}/lives", f"{base}/lives/here"),
        *(f"{base}/tools", f"{base}/tools/bin", f"{base}/near/file", f"{base}/near/file/x"),
        *(f"{base}/link/me/repo", "/var/run/gencode-of-nobody"),
    ]
    taken = [f"{base}/lives/here/repo", f"{base}/copies/2", f"{base}/x", f"{base}/near"]
    assert copy.taken([*refused, *taken]) == taken


def test_no_place_is_taken_that_holds_modules_of_this_program(
    copy: Copy, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, base = Path(gencode.__file__).parent, str(copy.base)
    monkeypatch.setattr(sys, "path", ["", "relative", f"{base}/near/me/src"])
    names = [str(package.parent), str(package), f"{base}/near/me/src", f"{base}/near/me", f"{base}/near/you"]
    assert copy.taken(names) == [f"{base}/near/you"]


def test_a_folder_with_very_much_in_it_is_not_cleared(copy: Copy) -> None:
    crowd = copy.base / "crowd"
    crowd.mkdir()
    for number in range(401):
        (crowd / str(number)).touch()
    assert copy.taken([f"{crowd}/repo", f"{crowd}/0/repo"]) == []
    (crowd / "400").unlink()
    assert copy.taken([f"{crowd}/repo"]) == [f"{crowd}/repo"]


def test_without_such_a_wall_there_is_no_other_name(copy: Copy) -> None:
    assert (
        working_aliases(copy.folder, [f"{copy.base}/there"], copy.home, Sandbox(NOTHING, TrialResult())) == ()
    )


def test_a_name_that_cannot_really_be_given_is_none(copy: Copy) -> None:
    def wall(argv: Sequence[str], plan: SandboxProfile) -> list[str]:
        return ["/bin/false", *argv]

    broken = replace(best_sandbox(), wall=wall)
    assert working_aliases(copy.folder, [f"{copy.base}/there"], copy.home, broken) == ()
