"""The commands of one task share a network and temporary files; others, and the machine, are out of reach."""

import os
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gencode.core.spec import Workspace
from gencode.sandbox.choose_sandbox import best_sandbox
from gencode.sandbox.shells import CommandRequest, Shells
from tests.sandbox.yard import listening
from tests.waiting import until

SERVES = "import socket; s = socket.create_server(('127.0.0.1', 8765)); open('up', 'w'); s.accept()"
SERVER = f'exec python3 -c "{SERVES}"'
CLIENT = "exec 3<>/dev/tcp/127.0.0.1/8765 && echo heard"
FIRST, SECOND = "aaaaaaaa", "bbbbbbbb"


@pytest.fixture(autouse=True)
def sharing() -> None:
    if not best_sandbox().shares_network:
        pytest.skip("no network can be shared here")


@asynccontextmanager
async def opened(base: Path) -> AsyncGenerator[tuple[Shells, Workspace]]:
    for name in ("home", "work"):
        (base / name).mkdir()
    shells = Shells(base / "home")
    try:
        yield shells, Workspace(base / "work", base / "work", base / "home")
    finally:
        await shells.close()


async def said(shells: Shells, place: Workspace, task: str, text: str) -> str:
    return (await shells.run(CommandRequest(text, place, task))).ended.output.text().strip()


async def test_a_server_in_the_background_is_reached_by_its_task_alone(tmp_path: Path) -> None:
    async with opened(tmp_path) as (shells, place):
        server = await shells.start(CommandRequest(SERVER, place, FIRST))
        await until((place.root / "up").exists)
        other = await said(shells, place, SECOND, CLIENT)
        assert (await said(shells, place, FIRST, CLIENT), "heard" in other) == ("heard", False)
        await server.running.wait()


async def test_a_shared_network_reaches_nobody_else(tmp_path: Path) -> None:
    async with opened(tmp_path) as (shells, place):
        server = await shells.start(CommandRequest("exec sleep 600", place, FIRST))
        with listening() as port:
            connect = f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo heard"
            outside = await said(shells, place, FIRST, connect)
        links = await said(shells, place, FIRST, "ls /sys/class/net; ip link add d0 type dummy && echo made")
        await server.running.stop()
    assert ("heard" in outside, "made" in links) == (False, False)


async def test_commands_of_a_task_share_their_temporary_files(tmp_path: Path) -> None:
    async with opened(tmp_path) as (shells, place):
        assert (await shells.confinement(place)).private_tmp
        await said(shells, place, FIRST, "echo mine > /tmp/note")
        same, other = [await said(shells, place, task, 'cat "$TMPDIR/note"') for task in (FIRST, SECOND)]
    assert (same, "mine" in other) == ("mine", False)


async def test_a_network_ends_with_the_last_command_in_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as (shells, place):
        files = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
        first = await said(shells, place, FIRST, "readlink /proc/self/ns/net")
        assert first.startswith("net:")
        files_then = set(os.listdir("/proc/self/fd"))  # noqa: PTH208
        second = await said(shells, place, FIRST, "readlink /proc/self/ns/net")
        assert set(os.listdir("/proc/self/fd")) == files_then  # noqa: PTH208
        assert second.startswith("net:") and len(files_then - files) <= 2


KILLED = """
import asyncio, os, sys
from pathlib import Path
from gencode.core.spec import Workspace
from gencode.sandbox.shells import CommandRequest, Shells
async def main():
    base = Path(sys.argv[1])
    place = Workspace(base, base, base / "home")
    shells = Shells(base / "home")
    await shells.start(CommandRequest("readlink /proc/self/ns/net > space; sleep 600", place, "aaa"))
    await asyncio.sleep(600)
asyncio.run(main())
"""


async def test_nothing_of_a_network_is_left_after_its_owner_was_killed(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    note = tmp_path / "space"
    with subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)]) as owner:  # noqa: ASYNC220
        await until(lambda: note.exists() and bool(note.read_text().strip()))
        space = note.read_text().strip()
        assert members(space)
        owner.send_signal(signal.SIGKILL)
    await until(lambda: not members(space))


def members(space: str) -> list[str]:
    """The processes in a network namespace."""
    found: list[str] = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and str((process / "ns" / "net").readlink()) == space:
                found.append(process.name)
        except OSError:
            continue
    return found
