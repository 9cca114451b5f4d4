"""What ends with a process of `gen` is named: its agents, and the commands they left in the background."""

import re
import signal
from pathlib import Path

import pytest

from gencode.interfaces.cli.foreground_run import tell_stopped
from gencode.testing import call, says, scripted
from tests.interfaces.cli.running import SECONDS, gen, script, start
from tests.waiting import until, wait_until

FREE = ("--permission-mode", "dontAsk")
BEHIND = {"name": "Bash", "input": {"command": "touch begun; sleep 600", "run_in_background": True}}
COMMAND = r"the command shell_\w+ \(touch begun; sleep 600\)"
NAMED = rf"Stopping {COMMAND}\. Their results so far are kept\."
BOTH = rf"Stopping \w{{8}} \(Explore\), {COMMAND}\."


def leaving(folder: Path) -> str:
    """A conversation that leaves a command in the background."""
    return script(folder, main=[{"calls": [BEHIND]}, {"text": "over"}])


def test_a_turn_names_the_commands_that_end_with_it(tmp_path: Path) -> None:
    ended = gen("-p", "go", "--model", leaving(tmp_path), *FREE, cwd=tmp_path, GEN_COMMAND_SECONDS="0.3")
    assert (ended.code, ended.out) == (0, "over\n")
    assert re.search(NAMED, ended.err)


@pytest.mark.parametrize("way", ["a signal", "its time"])
def test_so_does_one_that_is_cut_beside_its_agents(tmp_path: Path, way: str) -> None:
    behind = {"subagent_type": "Explore", "prompt": "p", "run_in_background": True}
    never = {"text": "never", "delay_ms": 600_000}
    calls = [{"name": "Task", "input": behind}, BEHIND]
    model = script(tmp_path, main=[{"calls": calls}, never], Explore=[never])
    limit = ("--max-seconds", "8") if way == "its time" else ()
    process = start("-p", "go", "--model", model, *FREE, *limit, cwd=tmp_path)
    wait_until((tmp_path / "begun").exists, "the command runs")
    if way == "a signal":
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=SECONDS)
    assert re.search(BOTH, err)
    assert process.returncode == (130 if way == "a signal" else 1)


async def test_a_command_that_has_ended_is_not_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    calls = [call("Bash", command=text, run_in_background=True) for text in ("true", "sleep 600")]
    settings = {"permission_mode": "dontAsk"}
    async with scripted(tmp_path, settings=settings, main=[says("", *calls), says("over")]) as opened:
        await opened.ask("go").outcome()
        await until(lambda: len(opened.running.commands()) == 1, "one has ended")
        tell_stopped(opened)
    said = capsys.readouterr().err
    assert ("(sleep 600)" in said, "(true)" in said) == (True, False)


def test_line_by_line_they_are_named_as_well(tmp_path: Path) -> None:
    ended = gen("--plain", "--model", leaving(tmp_path), *FREE, cwd=tmp_path, piped="go\n")
    assert (ended.code, "Stopping the command shell_" in ended.err) == (0, True)
