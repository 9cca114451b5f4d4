"""What enclosed commands can do to processes outside, and what the filter of system calls keeps from them."""

import os
import subprocess
import sys

import pytest

from gencode.sandbox.call_filter import call_filter
from tests.sandbox.yard import Yard

REACH_OUT = """
import ctypes, os, resource, socket, sys
outsider = int(sys.argv[1])
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, deed):
    try:
        deed()
    except OSError:
        return
    print(name)
attempt("signal", lambda: os.kill(outsider, 0))
attempt("limit", lambda: resource.prlimit(outsider, resource.RLIMIT_CORE))
attempt("priority", lambda: os.setpriority(os.PRIO_PROCESS, outsider, os.getpriority(os.PRIO_PROCESS, 0)))
attempt("processors", lambda: os.sched_setaffinity(outsider, os.sched_getaffinity(0)))
def vsock():
    socket.socket(40, socket.SOCK_STREAM).close()
def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")
if sys.argv[2] == "filtered":
    attempt("vsock", vsock)
    attempt("keyring", lambda: call({"x86_64": 250, "aarch64": 219}[os.uname().machine], 0, -4, 1))
    attempt("io_uring", lambda: call(425, 1, ctypes.create_string_buffer(120)))
    attempt("user namespace", lambda: call({"x86_64": 272, "aarch64": 97}[os.uname().machine], 0x10000000))
attempt("own limits", lambda: resource.prlimit(0, resource.RLIMIT_CORE))
attempt("own child", lambda: os.waitpid(os.spawnlp(os.P_NOWAIT, "true", "true"), 0))
"""


def test_a_command_reaches_no_process_outside_and_no_call_that_is_filtered(yard: Yard) -> None:
    filtered = "filtered" if yard.wall.name.startswith("Landlock") and call_filter(own_processes=True) else ""
    outsider = subprocess.Popen(["/bin/sleep", "100"])
    words = [sys.executable, "-I", "-c", REACH_OUT, str(outsider.pid), filtered]
    ended = subprocess.run(yard.argv(*words), cwd=yard.workspace, capture_output=True, text=True, check=False)
    outsider.kill()
    outsider.wait()
    assert (ended.stdout.split("\n")[:-1], ended.stderr) == (["own limits", "own child"], "")


def test_a_command_in_a_process_space_of_its_own_sees_only_itself(strong: Yard) -> None:
    ended = strong.bash("kill -0 $$ && readlink /proc/self/exe >/dev/null && ls -d /proc/[0-9]* | wc -l")
    assert (ended.code, int(ended.out) < 10) == (0, True), ended


@pytest.mark.parametrize(
    ("text", "code"), [("exit 3", 3), ("kill -TERM $BASHPID", 143), ("sleep 9 & exit 0", 0)]
)
def test_the_end_of_a_command_is_told_through_its_wall(strong: Yard, text: str, code: int) -> None:
    assert strong.bash(text).code == code


def test_programs_in_a_pipe_end_with_it(yard: Yard) -> None:
    ended = yard.bash("yes | head -n 1")
    assert (ended.code, ended.out, ended.err) == (0, "y\n", "")


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="its numbers are not known")
def test_the_filter_is_a_program_of_whole_instructions() -> None:
    shorter, longer = call_filter(own_processes=True), call_filter(own_processes=False)
    assert len(shorter) % 8 == len(longer) % 8 == 0
    assert 0 < len(shorter) < len(longer)
