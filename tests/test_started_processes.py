"""A test that fails leaves no process behind that could make another one fail."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.interfaces.cli.running import gen, script, start
from tests.started_processes import StartedProcesses, processes_at
from tests.waiting import wait_until


def test_what_a_failed_test_started_has_ended_with_its_pipes_and_its_background_tasks(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = StartedProcesses()
    monkeypatch.setattr(subprocess.Popen, "__init__", subprocess.Popen.__init__)  # it is put back
    started.install()
    model = script(tmp_path, Explore=[{"text": "never", "delay_ms": 600_000}])
    words = ("task", "run", "Explore", "look", "--model", model)
    gen(*words, "--background", cwd=tmp_path)
    waits = start(*words, cwd=tmp_path)
    asleep = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert processes_at(home)
    started.end(home)
    assert [each.returncode for each in (waits, asleep, ended)] == [-9, -9, 0]
    assert [each.closed for each in (waits.stdout, waits.stderr, asleep.stdin) if each] == [True] * 3
    wait_until(lambda: not processes_at(home), "the background task has ended too")
