"""An enclosed command begins, ends and is ended as one that is not."""

import os
import select
import signal
import subprocess
import sys
from subprocess import PIPE

import pytest

from gencode.sandbox.landlock_launcher import NO_WALL
from tests.sandbox.yard import BASH, SECONDS, Ended, Yard


def test_input_output_status_and_folder_pass_through(yard: Yard) -> None:
    ended = yard.bash("pwd; cat; echo wrong >&2; exit 7", stdin="given\n")
    assert ended == Ended(7, f"{yard.workspace}\ngiven\n", "wrong\n")


def test_the_folder_may_be_below_the_workspace(yard: Yard) -> None:
    ended = subprocess.run(yard.argv("/bin/pwd"), cwd=yard.workspace / "src", capture_output=True, check=True)
    assert ended.stdout == os.fsencode(yard.workspace / "src") + b"\n"


def test_the_environment_passes_through_with_a_temporary_folder_of_its_own(yard: Yard) -> None:
    text = 'echo "$COLOUR" "$TMPDIR"'
    ended = subprocess.run(
        yard.argv(*BASH, text), cwd=yard.workspace, env={"COLOUR": "a b"}, capture_output=True, check=True
    )
    temp = yard.base / "temp" if yard.wall.name == "Landlock" else "/tmp"
    assert ended.stdout.decode() == f"a b {temp}\n"


def test_a_death_by_signal_is_told(yard: Yard) -> None:
    assert yard.bash("kill -KILL $$").code in (-signal.SIGKILL, 128 + signal.SIGKILL)


def test_words_reach_the_program_as_they_are(yard: Yard) -> None:
    words = ["--", "--bind", "/", "a b", "$HOME", "*", "é", "", "-c", "x=y"]
    ended = subprocess.run(
        yard.argv("/usr/bin/printf", "%s\\n", *words), cwd=yard.workspace, capture_output=True, check=True
    )
    assert ended.stdout.decode().split("\n") == [*words, ""]


def test_a_command_gets_a_sigterm_and_may_clean_up(yard: Yard) -> None:
    text = "trap 'echo cleaned; exit 3' TERM; echo ready; while :; do read -r -t 0.1; done"
    argv = yard.argv(*BASH, text)
    with subprocess.Popen(
        argv, cwd=yard.workspace, stdin=PIPE, stdout=PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        for each in [process.pid, *below(process.pid)]:
            os.kill(each, signal.SIGTERM)
        assert (process.stdout.read(), process.wait(SECONDS)) == (b"cleaned\n", 3)


@pytest.mark.needs("bwrap")
def test_with_bubblewrap_everybody_dies_together(strong: Yard) -> None:
    if strong.wall.name != "bubblewrap":
        pytest.skip("others leave this to whoever starts the command")
    text = "setsid sleep 600 & echo ready; wait"
    with subprocess.Popen(
        strong.argv(*BASH, text), cwd=strong.workspace, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        handles = [os.pidfd_open(each) for each in below(process.pid)]
        process.kill()
        try:
            ended = [bool(select.select([handle], [], [], SECONDS)[0]) for handle in handles]
        finally:
            for handle in handles:
                os.close(handle)
    assert (len(ended) >= 3, all(ended)) == (True, True)


def test_a_program_that_does_not_exist_is_told(yard: Yard) -> None:
    ended = subprocess.run(
        yard.argv("/no/such/program"), cwd=yard.workspace, capture_output=True, check=False
    )
    assert (ended.returncode != 0, b"/no/such/program" in ended.stderr) == (True, True)


def test_without_its_wall_a_command_does_not_run(yard: Yard) -> None:
    """The workspace vanished between the plan and the start."""
    argv = yard.argv("/bin/echo", "ran")
    (yard.base / "temp").rmdir()
    ended = subprocess.run(argv, cwd=yard.base, capture_output=True, check=False)
    if yard.wall.name == "Landlock":
        assert (ended.returncode, ended.stdout) == (0, b"ran\n")
    else:
        assert (ended.returncode in (1, NO_WALL), ended.stdout) == (True, b"")


def test_what_walls_in_imports_next_to_nothing() -> None:
    """Every enclosed command pays for it."""
    loaded = "import sys; from gencode.sandbox import landlock_launcher; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    ours = {name for name in ended.stdout.split() if name.startswith("gencode")}
    assert ours == {
        "gencode",
        "gencode.sandbox",
        *(
            f"gencode.sandbox.{name}"
            for name in ("call_filter", "landlock_launcher", "namespaces", "syscalls")
        ),
    }


def below(process: int) -> list[int]:
    """Everybody a process started, and whom they started."""
    with open(f"/proc/{process}/task/{process}/children") as file:  # noqa: PTH123
        children = [int(word) for word in file.read().split()]
    return [found for child in children for found in (child, *below(child))]
