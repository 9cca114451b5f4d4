"""Owners of leases: whether the process behind a name still lives."""

import resource
import subprocess
import sys

import pytest

from gencode.journal.owner import new_owner, owner_state

SAYS_WHO_IT_IS = """
import time
from gencode.journal.owner import new_owner
print(new_owner(), flush=True)
time.sleep(600)
"""
KILLS = 10


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says that a process is ending")
def test_a_process_whose_pipe_was_closed_by_its_death_is_dead_at_once() -> None:
    """Its end of the pipe is closed a while before the system calls it a zombie."""
    for _ in range(KILLS):
        with subprocess.Popen([sys.executable, "-c", SAYS_WHO_IT_IS], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            owner = process.stdout.readline().decode().strip()
            assert owner_state(owner) == "alive"
            process.kill()
            assert process.stdout.read(1) == b""
            assert owner_state(owner) == "dead"


def test_a_process_is_not_taken_for_dead_by_one_that_cannot_open_files_any_more() -> None:
    owner = new_owner()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        found = owner_state(owner)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found == "alive"
