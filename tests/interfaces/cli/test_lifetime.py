"""No process of `gen` stays for a tool that does not heed that it is stopped."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gencode.journal.owner import owner_state
from tests.house.source import package
from tests.interfaces.cli.running import SECONDS, Ended, Turn, gen, script, send
from tests.waiting import wait_until

TOOLS = '''
import asyncio, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gencode import ToolContext, tool
from gencode.journal.owner import new_owner


@tool(effect="read", timeout=0.5)
async def deaf(ctx: ToolContext) -> str:
    """Sleep for ever, whoever wants it to stop."""
    (ctx.workspace.cwd / "owner").write_text(new_owner())
    while True:
        try:
            await asyncio.sleep(3600)
        except:
            continue


@tool(effect="read", timeout=0.5)
async def blocked(ctx: ToolContext) -> str:
    """Sleep for ever in a thread, which nobody can stop."""
    (ctx.workspace.cwd / "owner").write_text(new_owner())
    await asyncio.to_thread(time.sleep, 3600)


@tool(effect="read", timeout=0.5)
async def pooled(ctx: ToolContext) -> str:
    """The same in a thread of its own pool."""
    (ctx.workspace.cwd / "owner").write_text(new_owner())
    pool = ThreadPoolExecutor(1, "mine")
    await asyncio.get_running_loop().run_in_executor(pool, time.sleep, 3600)
'''
ALL = ("deaf", "blocked", "pooled")


@pytest.fixture
def site(tmp_path: Path, home: Path) -> str:
    """A folder with an installed package, and an agent for each of its tools."""
    folder = tmp_path / "site"
    info = folder / "sleepers-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "sleepers.py").write_text(TOOLS)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sleepers\nVersion: 1.0\n")
    points = "".join(f"{name} = sleepers:{name}\n" for name in ALL)
    (info / "entry_points.txt").write_text(f"[gencode.tools]\n{points}")
    (home / ".gen" / "agents").mkdir(parents=True)
    for name in ALL:
        head = f"---\nname: {name}\ndescription: Sleeps.\ntools: {name}\n---\n"
        (home / ".gen" / "agents" / f"{name}.md").write_text(f"{head}You sleep.\n")
    return os.pathsep.join((str(folder), os.environ.get("PYTHONPATH", ""))).rstrip(os.pathsep)


def turns(name: str) -> list[Turn]:
    """An agent that calls such a tool, and goes on when that was stopped."""
    return [{"calls": [{"name": name, "input": {}}]}, {"text": "It was stopped."}]


def model(folder: Path, name: str) -> str:
    """A conversation that sends such an agent."""
    sends: list[Turn] = [{"calls": send("a look", agent=name)}, {"text": "back"}]
    return script(folder, main=sends, **{name: turns(name)})


@pytest.mark.parametrize("name", ALL)
def test_a_conversation_ends_when_it_has_answered(tmp_path: Path, site: str, name: str) -> None:
    words = ("-p", "go", "--allow", name, "--allow", "Task", "--model", model(tmp_path, name))
    assert gen(*words, cwd=tmp_path, PYTHONPATH=site) == Ended(0, "back\n")


@pytest.mark.parametrize("name", ALL)
def test_one_whose_time_is_up_ends_and_says_so(tmp_path: Path, site: str, name: str) -> None:
    limit = ("--max-seconds", "0.2", "--agent", name, "--allow", name)
    ended = gen("-p", "go", *limit, "--model", model(tmp_path, name), cwd=tmp_path, PYTHONPATH=site)
    assert (ended.code, ended.out, ": timed_out" in ended.err) == (1, "", True)
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize("name", ALL)
def test_a_task_ends_with_its_result(tmp_path: Path, site: str, name: str) -> None:
    words = ("task", "run", name, "go", "--allow", name, "--model", model(tmp_path, name))
    assert gen(*words, cwd=tmp_path, PYTHONPATH=site) == Ended(0, "It was stopped.\n")


@pytest.mark.parametrize("name", ALL)
def test_the_process_of_a_task_in_the_background_ends_with_it(tmp_path: Path, site: str, name: str) -> None:
    words = ("task", "run", name, "go", "--background", "--allow", name, "--model", model(tmp_path, name))
    task = gen(*words, "--json", cwd=tmp_path, PYTHONPATH=site).json["agentId"]
    assert gen("task", "output", task, cwd=tmp_path) == Ended(0, "It was stopped.\n")
    owner = (tmp_path / "owner").read_text()
    wait_until(lambda: owner_state(owner) == "dead", "the process of the task is gone")


LEAVES = """
import asyncio, atexit, sys

from gencode.interfaces import event_loop_runner

atexit.register(print, "cleaned up")


async def deaf() -> None:
    while True:
        try:
            await asyncio.sleep(3600)
        except:
            continue


async def given():
    try:
        yield 1
        yield 2
    finally:
        await asyncio.sleep(0)
        print("closed")


async def heeds() -> None:
    try:
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(0.1)
        print("heeded")


async def work() -> int:
    kept.append(asyncio.create_task(heeds()))
    {deaf}
    pieces.append(given())
    await anext(pieces[0])
    await asyncio.to_thread(print, "worked")
    return 7


kept, pieces = [], []
sys.exit(event_loop_runner.leave(event_loop_runner.run_to_end(work())))
"""


@pytest.mark.parametrize("left", ["", "kept.append(asyncio.create_task(deaf()))"])
def test_whatever_is_left_the_rest_comes_to_its_end(tmp_path: Path, left: str) -> None:
    """Code that would catch everything would go round and round if its coroutine were closed."""
    command = [sys.executable, "-c", LEAVES.format(deaf=left)]
    environment = {**os.environ, "PYTHONWARNINGS": "error"}
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert ended.stdout.splitlines() == ["worked", "heeded", "closed", "cleaned up"]
    assert ended.returncode == 7
    assert ("the process ends although this has not" in ended.stderr) is bool(left)


def test_every_process_runs_its_event_loop_there() -> None:
    assert [module.name for module in package() if "asyncio.run(" in module.text] == []
