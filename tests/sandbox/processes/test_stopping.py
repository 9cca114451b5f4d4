"""A stop leaves nobody, whatever the command does to get away. GEN_KILLS says how often each is tried."""

import os
import signal
from pathlib import Path

import pytest

from gencode.sandbox.processes.command import Command
from gencode.sandbox.processes.command_runner import CommandRunner
from gencode.sandbox.processes.running_command import RunningCommand
from tests.sandbox.processes.living import HOSTILE, alive, eventually, new_word, python

KILLS = int(os.environ.get("GEN_KILLS", "3"))

BOMB = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def grow(depth):
    for _ in range(3 if depth else 0):
        if os.fork() == 0:
            os.setsid()
            grow(depth - 1)
    if depth == 4:
        print("ready", flush=True)
    while True:
        if os.fork() == 0:
            signal.alarm(20)
            os._exit(0)
        os.wait()
signal.alarm(20)
grow(4)
"""
"""A tree of sessions in which everybody forks all the time. The alarms are for the day this test fails."""

HOPPER = """
import os, time
print("ready", flush=True)
end = time.monotonic() + 20
while time.monotonic() < end:
    if os.fork():
        os._exit(0)
    os.setsid()
"""
"""Never the same process for longer than a moment."""

KILLS_WARDEN = "setsid sleep 300 & : WORD; trap '' TERM; echo ready; kill -9 $PPID; sleep 300; : WORD"
STOPS_WARDEN = "(setsid bash -c 'sleep 300; : WORD' &) ; kill -STOP $PPID; echo ready; sleep 300; : WORD"
KILLS_KEEPER = (
    "setsid bash -c 'sleep 300; : WORD' & read -r _ _ _ keeper _ < /proc/$PPID/stat; "
    "kill -9 $keeper; echo ready; sleep 300; : WORD"
)
KILLS_BOTH = (
    "setsid bash -c 'sleep 300; : WORD' & read -r _ _ _ keeper _ < /proc/$PPID/stat; "
    "kill -9 $keeper $PPID; echo ready; sleep 300; : WORD"
)
STOPS_BOTH = (
    "setsid bash -c 'sleep 300; : WORD' & read -r _ _ _ keeper _ < /proc/$PPID/stat; "
    "kill -STOP $keeper $PPID; echo ready; sleep 300; : WORD"
)


async def ready(running: RunningCommand) -> None:
    """Return when the command has said that everything it wants to start has started, or has ended."""
    assert await eventually(lambda: b"ready" in running.output().head or running.task.done())


async def test_hostile_trees_are_ended_to_the_last_process(commands: CommandRunner, tmp_path: Path) -> None:
    for _ in range(KILLS):
        word = new_word()
        running = await commands.start(Command(HOSTILE.replace("WORD", word), tmp_path))
        await ready(running)
        assert alive(word) != []
        ended = await running.stop()
        assert (ended.cause, ended.signal, ended.unstoppable) == ("stopped", signal.SIGKILL, 0)
        assert alive(word) == []


async def test_a_tree_that_listens_ends_by_itself(commands: CommandRunner, tmp_path: Path) -> None:
    text = "trap 'echo bye; exit 5' TERM; echo ready; while :; do :; done"
    running = await commands.start(Command(text, tmp_path))
    await ready(running)
    ended = await running.stop()
    assert (ended.cause, ended.exit_code, ended.output.text()) == ("stopped", 5, "ready\nbye\n")


async def test_a_stopped_process_is_ended_too(commands: CommandRunner, tmp_path: Path) -> None:
    running = await commands.start(Command("echo ready; kill -STOP $$", tmp_path))
    await ready(running)
    ended = await running.stop()
    assert (ended.cause, ended.signal) == ("stopped", signal.SIGTERM)


@pytest.mark.parametrize("script", [BOMB, HOPPER], ids=["bomb", "hopper"])
async def test_what_forks_all_the_time_is_ended(commands: CommandRunner, tmp_path: Path, script: str) -> None:
    word = new_word()
    running = await commands.start(Command(python(script, word), tmp_path))
    await ready(running)
    ended = await running.stop()
    assert (ended.unstoppable, alive(word)) == (0, [])


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (KILLS_WARDEN, "lost"),
        (STOPS_WARDEN, "stopped"),
        (KILLS_KEEPER, "lost"),
        (KILLS_BOTH, "lost"),
        (STOPS_BOTH, "stopped"),
    ],
    ids=["kills warden", "stops warden", "kills keeper", "kills both", "stops both"],
)
async def test_a_command_that_attacks_who_watches_it_ends_all_the_same(
    commands: CommandRunner, tmp_path: Path, text: str, cause: str
) -> None:
    word = new_word()
    running = await commands.start(Command(text.replace("WORD", word), tmp_path))
    await ready(running)
    ended = await (running.wait() if cause == "lost" else running.stop())
    assert (ended.cause, alive(word)) == (cause, [])
    assert (await commands.run(Command("echo on", tmp_path))).output.text() == "on\n"


async def test_a_warden_that_is_stopped_again_and_again_is_replaced_by_force(
    commands: CommandRunner, tmp_path: Path
) -> None:
    word = new_word()
    text = f"trap '' TERM; warden=$PPID; echo ready; while :; do kill -STOP $warden; done; : {word}"
    running = await commands.start(Command(text, tmp_path))
    await ready(running)
    await running.stop()
    assert alive(word) == []
    assert (await commands.run(Command("echo on", tmp_path))).output.text() == "on\n"


async def test_stopping_one_command_leaves_the_others(commands: CommandRunner, tmp_path: Path) -> None:
    word = new_word()
    stays = await commands.start(Command(f"echo ready; sleep 300; : {word}", tmp_path))
    goes = await commands.start(Command("echo ready; sleep 300", tmp_path))
    await ready(stays)
    await ready(goes)
    await goes.stop()
    assert (commands.running(), alive(word) != []) == ({stays.id: stays}, True)


async def test_a_command_that_ends_normally_leaves_nobody_either(
    commands: CommandRunner, tmp_path: Path
) -> None:
    word = new_word()
    text = HOSTILE.replace("WORD", word).replace("while :; do sleep 300; done", "exit 0")
    ended = await commands.run(Command(text, tmp_path))
    assert (ended.cause, ended.exit_code, ended.left_over > 0, alive(word)) == ("exited", 0, True, [])
