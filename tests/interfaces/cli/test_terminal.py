"""On a terminal: panels for launch, progress and result, and nothing that a terminal cannot take."""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.interfaces.cli.running import GEN, SECONDS, command_in_terminal, gen, in_terminal, script, send
from tests.waiting import wait_until

HOSTILE = "found \x1b]0;owned\x07 \x1b[2J\u202e in a.py:1"


def two_explorers(folder: Path, *, delay_ms: int = 300) -> str:
    look = {"calls": [{"name": "Glob", "input": {"pattern": "*.py"}}], "delay_ms": delay_ms}
    return script(
        folder,
        main=[{"text": "I send two.", "calls": send("alpha", "beta")}, {"text": "Both were found."}],
        Explore=[look, {"text": HOSTILE, "delay_ms": delay_ms}],
    )


def test_panels_are_painted_for_launch_progress_and_result(tmp_path: Path) -> None:
    ended = in_terminal("-p", "go", "--model", two_explorers(tmp_path), cwd=tmp_path)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", ended.out)
    assert ended.code == 0
    assert "[Launching 2 Explore agents in parallel…]" in plain
    assert plain.count("Launching Subagent") == 2
    assert re.search(r"Type: +Explore", plain) and re.search(r"Task: +alpha", plain)
    assert re.search(r"Model: +scripted:", plain)
    assert re.search(r"Explore: beta +thinking +\dt \d\.\d s", plain)
    assert "Subagent Result · Explore: alpha" in plain and "completed · 2 turns" in plain
    assert plain.rstrip().endswith("Both were found.")


def test_a_result_panel_is_green_and_a_failed_one_red(tmp_path: Path) -> None:
    model = script(
        tmp_path,
        main=[{"calls": [*send("good"), *send("bad", agent="Plan")]}, {"text": "ok"}],
        Explore=[{"text": "fine"}],
        Plan=[{"error": "refused"}],
    )
    shown = in_terminal("-p", "go", "--model", model, cwd=tmp_path).out
    assert re.search(r"\x1b\[32m╭─.{0,20} Subagent Result · Explore: good", shown)
    assert re.search(r"\x1b\[31m╭─.{0,20} Subagent Result · Plan: bad", shown)


def test_control_characters_of_an_agent_are_shown_and_not_sent(tmp_path: Path) -> None:
    shown = in_terminal("-p", "go", "--model", two_explorers(tmp_path), cwd=tmp_path).out
    assert "\x1b]0;" not in shown and "\x07" not in shown and "\x1b[2J" not in shown and "\u202e" not in shown
    assert "\\x1b]0;owned\\x07" in shown


@pytest.mark.parametrize(("no_color", "term"), [("1", "xterm-256color"), ("", "dumb")])
def test_a_bare_terminal_gets_panels_without_any_escape_code(
    tmp_path: Path, no_color: str, term: str
) -> None:
    words = ("-p", "go", "--model", two_explorers(tmp_path))
    ended = in_terminal(*words, cwd=tmp_path, NO_COLOR=no_color, TERM=term)
    assert "\x1b" not in ended.out
    assert "Launching Subagent" in ended.out and "[Explore agent working…]" in ended.out


@pytest.mark.parametrize("columns", [40, 200])
def test_panels_fit_narrow_and_wide_terminals(tmp_path: Path, columns: int) -> None:
    ended = in_terminal(
        "-p", "go", "--model", two_explorers(tmp_path), cwd=tmp_path, columns=columns, NO_COLOR="1"
    )
    assert ended.code == 0
    assert max(len(line) for line in ended.out.splitlines()) <= min(columns, 100)


def test_the_result_of_a_single_task_is_in_its_panel_whole(tmp_path: Path) -> None:
    model = script(tmp_path, Explore=[{"text": "\n".join(f"line {number}" for number in range(40))}])
    ended = in_terminal("task", "run", "Explore", "go", "--model", model, cwd=tmp_path, NO_COLOR="1")
    shown = [line.strip("│ ") for line in ended.out.splitlines()]
    assert [line for line in shown if line.startswith("line ")] == [f"line {number}" for number in range(40)]


def test_a_pipe_gets_the_answer_and_the_terminal_the_panels(tmp_path: Path) -> None:
    bash = shutil.which("bash") or "/bin/bash"
    command = [bash, "-c", '"$@" | tr a-z A-Z > answer.txt', "gen", *GEN, "-p", "go"]
    ended = command_in_terminal([*command, "--model", two_explorers(tmp_path)], cwd=tmp_path, NO_COLOR="1")
    assert (tmp_path / "answer.txt").read_text() == "BOTH WERE FOUND.\n"
    assert "Launching Subagent" in ended.out and "Both were found." not in ended.out


def test_json_on_a_terminal_is_indented_and_alone(tmp_path: Path) -> None:
    ended = in_terminal("-p", "go", "--json", "--model", two_explorers(tmp_path), cwd=tmp_path)
    assert ended.json["result"] == "Both were found."
    assert ended.out.startswith('{\n  "type"')


def test_a_replay_paints_the_same_panels(tmp_path: Path) -> None:
    asked = gen("-p", "go", "--json", "--model", two_explorers(tmp_path), cwd=tmp_path).json
    ended = in_terminal("task", "replay", asked["sessionId"], cwd=tmp_path, NO_COLOR="1")
    assert (ended.out.count("Launching Subagent"), ended.out.count("Subagent Result")) == (2, 2)
    assert "3 tasks: replay matches the journal." in ended.out


def test_lists_are_cut_at_the_edge_of_the_terminal(tmp_path: Path) -> None:
    ended = in_terminal("agents", "list", cwd=tmp_path, columns=60)
    assert max(len(line) for line in ended.out.splitlines()) <= 60


@pytest.mark.needs("tmux")
def screen(tmux: Sequence[str]) -> str:
    """What the terminal shows."""
    words = [*tmux, "capture-pane", "-p"]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=SECONDS).stdout


def test_a_whole_run_in_tmux_leaves_a_clean_screen(tmp_path: Path) -> None:
    tmux = [shutil.which("tmux") or "tmux", "-S", str(tmp_path / "tmux.socket")]
    done = tmp_path / "done"
    inner = f"{sys.executable} -m gencode -p go --model {two_explorers(tmp_path)}; touch {done}; sleep 60"
    subprocess.run(
        [*tmux, "-f", "/dev/null", "new-session", "-d", "-x", "90", "-y", "50", inner],
        cwd=tmp_path,
        check=True,
    )
    try:
        wait_until(done.exists, "the run has ended")
        wait_until(lambda: "Both were found." in screen(tmux), "its answer is on the screen")
        shown = screen(tmux)
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
    lines = [line.rstrip() for line in shown.splitlines() if line.strip()]
    assert lines[-1] == "Both were found."
    assert sum("Launching Subagent" in line for line in lines) == 2
    assert sum("Subagent Result" in line for line in lines) == 2
    assert [line for line in lines if "thinking" in line] == []


def test_background_work_is_announced_and_ctrl_c_leaves_whole_lines_with_the_ids(tmp_path: Path) -> None:
    one = {"subagent_type": "Explore", "prompt": "look", "description": "look", "run_in_background": True}
    lead = [{"text": "", "calls": [{"name": "Task", "input": one}]}, {"text": "waiting"}]
    model = script(tmp_path, main=lead, Explore=[{"text": "late", "delay_ms": 60_000}])
    ended = in_terminal("-p", "go", "--model", model, cwd=tmp_path, keys=b"\x03")
    assert ended.code == 130
    announced = re.search(r"\[Task running in background: agent-(\w{8})\] Progress: gen task show", ended.out)
    assert announced is not None
    assert re.search(rf"(?:\n|\x1b\[\d*[A-Za-z])Stopping {announced[1]} ", ended.out)


def test_the_tour_waits_for_the_person_and_for_nobody_else(tmp_path: Path) -> None:
    alone = gen("demo", cwd=tmp_path)
    ended = in_terminal("demo", cwd=tmp_path, typed=(b"Press Enter", b"\n\n\n"))
    assert (alone.code, ended.code) == (0, 0)
    assert [shown.count("Press Enter") for shown in (alone.err, ended.out)] == [0, 3]
    assert "gen task replay" in alone.out and "gen task replay" in ended.out


@pytest.mark.parametrize(("typed", "written"), [(b"y\n", True), (b"\n", False)])
def test_task_run_asks_whether_an_agent_may_have_the_wider_mode_of_its_file(
    tmp_path: Path, home: Path, typed: bytes, written: bool
) -> None:
    (home / ".gen" / "agents").mkdir(parents=True)
    (home / ".gen" / "agents" / "writer.md").write_text(
        "---\nname: writer\ndescription: Writes.\npermission-mode: acceptEdits\ntools: Write\n---\nWrite.\n"
    )
    one = {"name": "Write", "input": {"file_path": "made", "content": "x"}}
    model = script(tmp_path, writer=[{"calls": [one]}, {"text": "done"}])
    words = ("task", "run", "writer", "go", "--model", model)
    ended = in_terminal(*words, cwd=tmp_path, typed=(b"Approve? [y/N]", typed), answers=(b"n\n",))
    assert "change the files of the workspace without asking" in " ".join(ended.out.split())
    assert (tmp_path / "made").exists() == written
