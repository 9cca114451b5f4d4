"""Our own process dies, in every way it can, and nobody is left."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from gencode.sandbox.processes.environment import PROCESS_MARK
from gencode.sandbox.processes.fork_server_client import end_leftovers
from gencode.sandbox.processes.process_tree import list_processes
from tests.sandbox.processes.living import HOSTILE, SLEEPERS, alive, eventually, new_word
from tests.waiting import until

CRASHES = int(os.environ.get("GEN_KILLS", "1"))

PROCESS = """
import asyncio, sys
from pathlib import Path
from gencode.sandbox.processes.command import Command
from gencode.sandbox.processes.command_runner import CommandRunner

async def main():
    async with CommandRunner(Path(sys.argv[1])) as commands:
        running = [await commands.start(Command(text, Path("/"))) for text in sys.argv[2:]]
        while not all(b"ready" in each.output().head for each in running):
            await asyncio.sleep(0.01)
        print("ready", flush=True)
        await asyncio.gather(*(each.wait() for each in running))

asyncio.run(main())
"""


@contextmanager
def started(state: Path, *texts: str) -> "Generator[subprocess.Popen[str]]":
    """Another process of ours with these commands running; it does not outlive a test that fails."""
    command = [sys.executable, "-c", PROCESS, str(state), *texts]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    with process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def below(word: str) -> list[int]:
    """Keepers, wardens and commands, not the process that started them."""
    return [process for process in alive(word) if PROCESS_MARK.encode() in environ(process)]


def environ(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/environ").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_process_that_dies_takes_its_commands_with_it(state: Path, number: signal.Signals) -> None:
    for _ in range(CRASHES):
        word = new_word()
        with started(state, HOSTILE.replace("WORD", word), f"echo ready; sleep 300; : {word}") as process:
            process.send_signal(number)
            process.wait()
        assert await eventually(lambda word=word: not alive(word))
    assert await eventually(lambda: not marked(state))
    assert end_leftovers(state) == 0


def marked(state: Path) -> list[str]:
    """The processes that a keeper of this state started and that still run."""
    marks = [record.read_bytes() for record in (state / "keepers").iterdir()]
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environ = (process / "environ").read_bytes()
            found += [process.name for mark in marks if mark in environ]
    return found


async def test_what_could_not_notice_the_crash_is_swept_at_the_next_start(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    word = new_word()
    monkeypatch.setenv("OF_THIS_TEST", word)
    with started(state, HOSTILE.replace("WORD", word)) as process:
        [fork_server] = children(process.pid)
        [guard] = children(fork_server)
        watchers = [fork_server, guard]
        await until(lambda: len(sleepers(word)) == SLEEPERS, "all of its commands sleep")
        for watcher in watchers:
            os.kill(watcher, signal.SIGSTOP)
        assert end_leftovers(state) == 0
        process.kill()
        process.wait()
    left = {*watchers, *sleepers(word)}
    assert (len(left), left <= {*below(word)}) == (2 + SLEEPERS, True)
    assert await asyncio.to_thread(end_leftovers, state) >= len(left)
    assert await eventually(lambda: not alive(word))
    assert list((state / "keepers").iterdir()) == []


def children(process: int) -> list[int]:
    """The processes that a process has started, or adopted."""
    return [each for each, (parent, _) in list_processes().items() if parent == process]


def sleepers(word: str) -> list[int]:
    """The commands that stay until somebody ends them."""
    return [each for each in below(word) if cmdline(each).startswith(b"sleep\0")]


def cmdline(process: int) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def test_a_first_start_has_nothing_to_sweep(state: Path) -> None:
    assert end_leftovers(state) == 0


def test_a_record_that_is_garbage_stays_and_harms_nobody(state: Path) -> None:
    (state / "keepers").mkdir(parents=True)
    (state / "keepers" / "odd").write_bytes(b"\xff|not|an|owner")
    assert (end_leftovers(state), (state / "keepers" / "odd").exists()) == (0, True)
