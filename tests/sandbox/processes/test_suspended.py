"""A GenCode that was suspended (Ctrl-Z) and goes on: what began before is not taken for failed."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gencode.sandbox.choose_sandbox import best_sandbox
from gencode.sandbox.processes.command import Command
from gencode.sandbox.processes.command_runner import CommandRunner
from gencode.workspaces.worktrees.git import Git
from tests.waiting import Gate, until

HOUR = 3600.0


@pytest.fixture
def an_hour_passes(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Lets an hour pass for the event loop, in which it did nothing."""

    def passes() -> None:
        loop = asyncio.get_running_loop()
        before = loop.time
        monkeypatch.setattr(loop, "time", lambda: before() + HOUR)

    return passes


async def test_a_command_that_had_just_been_started_runs(
    commands: CommandRunner, tmp_path: Path, an_hour_passes: Callable[[], None]
) -> None:
    ran = asyncio.create_task(commands.run(Command("echo here", tmp_path)))
    while not commands.running():  # noqa: ASYNC110  # the very next moments count
        await asyncio.sleep(0)
    for _ in range(3):
        await asyncio.sleep(0)
    an_hour_passes()
    ended = await ran
    assert (ended.cause, ended.output.text()) == ("exited", "here\n")


async def test_a_command_does_not_lack_its_network(
    commands: CommandRunner, an_hour_passes: Callable[[], None]
) -> None:
    if not best_sandbox().shares_network:
        pytest.skip("no network can be shared here")
    made = asyncio.create_task(commands.make_network())
    await asyncio.sleep(0)
    an_hour_passes()
    files = await made
    assert files
    for each in files:
        os.close(each)


async def test_git_is_not_ended_in_the_middle(tmp_path: Path, an_hour_passes: Callable[[], None]) -> None:
    pipe, program = Gate(tmp_path), tmp_path / "git"
    program.write_text("#!/bin/sh\ntouch begun && cat gate && echo whole\n")
    program.chmod(0o755)
    said = asyncio.create_task(Git(str(program), {"PATH": os.environ["PATH"]}, tmp_path).run("status"))
    await until((tmp_path / "begun").exists, "git runs")
    an_hour_passes()
    await asyncio.sleep(0)
    pipe.open()
    assert (await said).line == "whole"
