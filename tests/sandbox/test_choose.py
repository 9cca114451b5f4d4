"""The wall is chosen by building it, and what is said about it is what was seen."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from gencode.sandbox import bubblewrap, landlock
from gencode.sandbox.choose_sandbox import Sandbox, SandboxCandidate, best_sandbox, candidates, first_working
from gencode.sandbox.profile import SandboxProfile
from gencode.sandbox.trial import TrialResult, try_sandbox

EVERYTHING = {
    *("work", "create", "overwrite", "truncate", "change", "guarded", "missing", "hidden"),
    *("tcp", "udp", "localhost", "abstract", "signal", "limits", "calls"),
}


def no_wall(argv: Sequence[str], plan: SandboxProfile) -> list[str]:
    return ["/usr/bin/env", f"TMPDIR={plan.temp}", *argv]


def broken(argv: Sequence[str], plan: SandboxProfile) -> list[str]:
    return ["/bin/sh", "-c", "echo no walls today >&2; exit 9"]


def no_filter(*, own_processes: bool) -> bytes:
    return b""


def absent(argv: Sequence[str], plan: SandboxProfile) -> list[str]:
    return ["/no/such/program", *argv]


def may_set_up_the_kernel() -> bool:
    """Root may, unless a container keeps it from that. Nothing is written."""
    try:
        os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))
    except OSError:
        return False
    return True


def test_without_a_wall_a_trial_finds_everything_possible() -> None:
    seen = try_sandbox(no_wall)
    assert (seen.possible - {"socket", "kernel"}, seen.trouble, seen.works) == (EVERYTHING, "", False)
    assert ("kernel" in seen.possible) == may_set_up_the_kernel()


def test_a_wall_behind_which_the_kernel_can_be_set_up_is_passed_over() -> None:
    sandbox = first_working(
        [SandboxCandidate("leaky", no_wall)], lambda _: TrialResult(frozenset({"work", "kernel"}))
    )
    assert (sandbox.exists, sandbox.passed_over) == (
        False,
        ("leaky does not work here: commands in it can change kernel settings.",),
    )


def test_the_first_wall_that_holds_is_chosen_and_the_others_are_explained() -> None:
    ways = [
        SandboxCandidate("broken", broken),
        SandboxCandidate("absent", absent),
        SandboxCandidate("paper", no_wall),
        *([way for way in candidates() if way.name == "Landlock"]),
    ]
    sandbox = first_working(ways)
    if not try_sandbox(partial(landlock.enclose, namespaces=False)).works:
        pytest.skip("this kernel has no Landlock")
    assert (sandbox.name, sandbox.passed_over) == (
        "Landlock",
        (
            "broken does not work here: no walls today.",
            "absent does not work here: [Errno 2] No such file or directory: '/no/such/program'.",
            "paper does not work here: it does not restrict anything.",
        ),
    )


@pytest.mark.needs("bwrap")
def test_without_its_call_filter_bubblewrap_lets_more_through(monkeypatch: pytest.MonkeyPatch) -> None:
    wall = next(iter(candidates()))
    if not try_sandbox(wall.enclose).works:
        pytest.skip("bubblewrap does not work here")
    assert "calls" not in try_sandbox(wall.enclose).possible
    monkeypatch.setattr(bubblewrap, "call_filter", no_filter)
    assert "calls" in try_sandbox(wall.enclose).possible


def test_without_any_wall_commands_stay_as_they_are_and_that_is_said() -> None:
    sandbox = first_working([SandboxCandidate("paper", no_wall)])
    command = ["/bin/bash", "-c", "x"]
    assert sandbox.enclose(command, SandboxProfile((), Path("/t"))) == command
    assert sandbox.report() == [
        "There is no sandbox here.",
        "A command that is allowed can do whatever you can.",
        "paper does not work here: it does not restrict anything.",
    ]


def test_a_good_wall_says_what_it_keeps_out() -> None:
    sandbox = Sandbox("bubblewrap", TrialResult(frozenset({"work", "missing", "socket"})), no_wall)
    assert sandbox.report() == [
        "Commands run in a sandbox: bubblewrap.",
        "Commands can write only in the workspace and in a temporary folder of their own.",
        "They cannot change kernel settings, such as those in /proc/sys.",
        "They cannot change .git/hooks, .git/config and .gen of the workspace.",
        "They cannot read GenCode's database and settings.",
        "They have no network unless you allow it.",
        "They cannot signal or limit processes outside.",
        "They cannot use kernel keyrings, io_uring, vsock or user namespaces.",
        "Commands can make .git and .gen in the workspace where there is none yet; "
        "GenCode checks after each command and reports it.",
        "Commands can talk to programs whose sockets lie in a folder, except those in /run and a few other "
        "well-known ones.",
        "Commands can read whatever else you can.",
        "Commands can make repositories in the workspace, with hooks of their own.",
    ]


def test_a_poor_wall_says_what_it_lets_through() -> None:
    possible = EVERYTHING - {"create", "overwrite"} | {"socket"}
    assert Sandbox("Landlock", TrialResult(frozenset(possible)), no_wall).report() == [
        "Commands run in a sandbox: Landlock.",
        "Commands can write only in the workspace and in a temporary folder of their own.",
        "They cannot change kernel settings, such as those in /proc/sys.",
        "Commands can change .git/hooks, .git/config and .gen of the workspace; "
        "GenCode checks after each command and reports it.",
        "Commands can empty files outside the workspace.",
        "Commands can change the permissions and times of your files outside the workspace.",
        "Commands can use the network.",
        "Commands can talk to other programs through abstract sockets.",
        "Commands can talk to programs whose sockets lie in a folder.",
        "Commands can stop your other programs.",
        "Commands can use kernel keyrings, io_uring, vsock or user namespaces.",
        "Commands can read GenCode's database and settings.",
        "Commands can read whatever else you can.",
        "Commands can make repositories in the workspace, with hooks of their own.",
    ]


def test_the_choice_is_made_once() -> None:
    assert best_sandbox() is best_sandbox()


@pytest.mark.needs("bwrap")
def test_bubblewrap_is_the_first_choice() -> None:
    if sys.platform != "linux" or not best_sandbox().name.startswith("bubblewrap"):
        pytest.skip(" ".join(best_sandbox().passed_over))
    assert (best_sandbox().passed_over, best_sandbox().advice()) == ((), "")


@pytest.mark.needs("setpriv")
def test_somebody_without_privileges_gets_a_wall_too() -> None:
    if os.geteuid() != 0:
        pytest.skip("all the other tests already run without privileges")
    person = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    text = "from gencode.sandbox.choose_sandbox import best_sandbox; print(best_sandbox().exists)"
    again = "import gencode, subprocess, sys; subprocess.run([sys.executable, '-c', ''], check=True)"
    if subprocess.run([*person, sys.executable, "-c", again], capture_output=True, check=False).returncode:
        pytest.skip("this Python is not for everybody")
    ended = subprocess.run([*person, sys.executable, "-c", text], cwd="/", capture_output=True, check=False)
    assert (ended.stdout, ended.stderr) == (f"{best_sandbox().exists}\n".encode(), b"")


@pytest.mark.needs("bwrap")
def test_a_python_that_lies_in_tmp_runs_in_the_same_sandbox(tmp_path: Path) -> None:
    here = Path(tempfile.mkdtemp(dir="/tmp"))
    try:
        python = here / "bin/python"
        python.parent.mkdir()
        python.symlink_to(Path(sys.executable).resolve())
        code = "from gencode.sandbox.choose_sandbox import best_sandbox; print(best_sandbox().name)"
        paths = os.pathsep.join(each for each in sys.path if each)
        ended = subprocess.run(
            [str(python), "-c", code],
            env={**os.environ, "PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=True,
        )
        assert ended.stdout.strip() == best_sandbox().name
    finally:
        shutil.rmtree(here)
