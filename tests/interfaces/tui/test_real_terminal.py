"""The real program in a real terminal: typed in, read from the screen, left as it was found."""

import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from termios import tcgetattr

import pytest

from gencode.core.extras import installing
from gencode.interfaces.cli.main import NO_TERMINAL
from tests.interfaces.cli.running import SECONDS, gen, script, send
from tests.interfaces.tui.pseudo_terminal import on_a_pty, read
from tests.interfaces.tui.tmux_terminal import Tmux, tmux
from tests.waiting import wait_until

HOSTILE = "found \x1b]0;owned\x07\x1b[2J in a.py:1"


def slow_explorer(folder: Path, delay_ms: int = 800) -> str:
    look = {"calls": [{"name": "Glob", "input": {"pattern": "*.py"}}], "delay_ms": delay_ms}
    return script(
        folder,
        main=[
            {"text": "I send one.", "calls": send("alpha")},
            {"text": "It was found."},
            {"text": "And told."},
        ],
        Explore=[look, {"text": HOSTILE, "delay_ms": delay_ms}],
    )


@pytest.mark.needs("tmux")
def test_a_conversation_in_tmux_from_the_question_to_a_clean_screen(tmp_path: Path) -> None:
    with tmux(tmp_path, "--model", slow_explorer(tmp_path)) as terminal:
        terminal.assert_sees("Ask something, or type /help")
        terminal.type("where is it?")
        terminal.assert_sees("● Explore  alpha", "Waiting for 1 agent")
        shown = terminal.assert_sees("It was found.", "✓ Explore  alpha")
        assert "\\x1b]0;owned\\x07" in shown
        terminal.press("C-t")
        terminal.assert_sees("Enter opens")
        terminal.press("Down", "Enter")
        terminal.assert_sees("Finished · Enter resumes it")
        terminal.type("and more?")  # which wakes it in a process of its own
        terminal.assert_sees("› and more?", "completed · background")
        terminal.press("Escape")
        terminal.assert_sees("Enter opens")
        terminal.press("Escape")
        terminal.resize(60, 20)
        terminal.assert_sees("It was found.")
        terminal.press("C-d")
        shown = terminal.assert_sees("ended 0", "Resume with: gen --session")
        assert "Explore  alpha" not in shown


@pytest.mark.needs("tmux")
def test_escape_and_the_background_in_tmux(tmp_path: Path) -> None:
    with tmux(tmp_path, "--model", slow_explorer(tmp_path, 600_000), columns=140) as terminal:
        terminal.assert_sees("Ask something, or type /help")
        terminal.type("go")
        terminal.assert_sees("Waiting for 1 agent")
        terminal.type("/background")
        terminal.assert_sees("moved to the background", "Background task running")
        terminal.press("Escape")
        terminal.assert_sees("The turn has ended.", "Still running in the background: Explore: alpha")
        terminal.type("/quit")
        terminal.assert_sees("Still running:")
        time.sleep(0.3)
        terminal.press("y")
        terminal.assert_sees("ended 0")


@pytest.mark.needs("tmux")
def test_a_suspended_app_paints_its_whole_screen_when_it_goes_on(tmp_path: Path) -> None:
    model = script(tmp_path, main=[{"text": "It was found."}])
    app = f"{sys.executable} -m gencode --model {model}"
    terminal = Tmux(tmp_path, "bash --norc --noprofile -i", 100, 30)
    try:
        terminal.type(f"PS1='shell> '; {app}")
        terminal.assert_sees("Ask something, or type /help")
        terminal.type("where is it?")
        before = terminal.assert_sees("It was found.", "Enter sends")
        for _ in range(3):
            terminal.press("C-z")
            terminal.assert_sees("Stopped", "shell>")
            terminal.type("clear; fg")
            terminal.assert_sees("It was found.", "Enter sends", "GenCode ", "where is it?")
            wait_until(lambda: terminal.screen == before, "the screen is as it was")
        terminal.press("C-d")
        terminal.assert_sees("Resume with: gen --session")
    finally:
        terminal.close()


@pytest.mark.needs("tmux")
def test_text_is_selected_with_the_mouse_and_copied(tmp_path: Path) -> None:
    model = script(tmp_path, main=[{"text": "It was found in **a.py** line 3.\n\nAnd in b.py."}])
    with tmux(tmp_path, "--model", model, env="DISPLAY= WAYLAND_DISPLAY=") as terminal:
        terminal.assert_sees("Ask something, or type /help")
        terminal.type("where is it?")
        lines = terminal.assert_sees("And in b.py.", "Enter sends").splitlines()
        first = next(number for number, line in enumerate(lines, 1) if "It was found" in line)
        last = next(number for number, line in enumerate(lines, 1) if "And in b.py" in line)
        terminal.mouse((0, lines[first - 1].index("found") + 1, first), (32, 9, last))
        terminal.assert_sees("Ctrl+C copies")
        terminal.mouse((3, 9, last))
        terminal.press("C-c")
        terminal.assert_sees("Copied 3 lines.")
        assert terminal.clipboard == "found in a.py line 3.\n\nAnd in"
        terminal.type("/copy")
        wait_until(lambda: terminal.clipboard.startswith("It was found in **a.py**"), "the reply")


@pytest.mark.needs("tmux")
def test_what_nobody_answers_in_tmux_ends_with_its_default_before_the_time_of_its_agent(
    tmp_path: Path,
) -> None:
    """The time of the agent is much shorter than what a person usually has."""
    options = [{"label": "left"}, {"label": "right"}]
    asks = {"questions": [{"question": "Which one?", "options": options}], "default": "right"}
    child = [{"calls": [{"name": "AskUserQuestion", "input": asks}]}, {"text": "I went on."}]
    main = [{"calls": send("choose", agent="general-purpose")}, *[{"text": "I leave it."}] * 3]
    model = script(tmp_path, **{"main": main, "general-purpose": child})
    words = ("--permission-mode", "dontAsk", "--model", model)
    with tmux(tmp_path, *words, env="GEN_TASK_SECONDS=16 GEN_QUESTION_SECONDS=1") as terminal:
        terminal.assert_sees("Ask something, or type /help")
        terminal.type("go")
        shown = terminal.assert_sees("Which one?", "Default in ")
        assert re.search(r"Default in 0:(0\d|1[0-2]): right", shown)
        terminal.assert_sees("Nobody answered in time.")
        terminal.assert_sees("I went on.")
    (told,) = gen("task", "list", "--json", cwd=tmp_path).json["tasks"]
    assert (told["status"], told["result"]) == ("completed", "I went on.")


def test_a_plain_pty_is_left_as_it_was(tmp_path: Path) -> None:
    with on_a_pty(tmp_path, "--model", slow_explorer(tmp_path, 100)) as (leader, follower, process):
        before = tcgetattr(follower)
        shown = read(leader, b"", lambda seen: b"Ask something" in seen)
        os.write(leader, b"go\r")
        shown = read(leader, shown, lambda seen: b"It was found." in seen)
        os.write(leader, b"\x04")
        shown = read(leader, shown, lambda _: process.poll() is not None)
        assert process.wait(SECONDS) == 0
        assert tcgetattr(follower) == before
    assert b"\x1b]0;owned" not in shown
    assert shown.count(b"\x1b[?1049h") == shown.count(b"\x1b[?1049l") == 1
    assert shown.rfind(b"\x1b[?25h") > shown.rfind(b"\x1b[?25l")


def test_a_signal_from_outside_leaves_the_terminal_as_it_was(tmp_path: Path) -> None:
    with on_a_pty(tmp_path, "--model", slow_explorer(tmp_path, 60_000)) as (leader, follower, process):
        before = tcgetattr(follower)
        shown = read(leader, b"", lambda seen: b"Ask something" in seen)
        os.write(leader, b"go\r")
        shown = read(leader, shown, lambda seen: b"Waiting for 1 agent" in seen)
        process.terminate()
        shown = read(leader, shown, lambda _: process.poll() is not None)
        assert process.wait(SECONDS) == 128 + 15
        assert tcgetattr(follower) == before
    assert shown.count(b"\x1b[?1049l") == 1


def test_a_terminal_that_nobody_reads_does_not_hold_up_the_end(tmp_path: Path) -> None:
    with on_a_pty(tmp_path, "--model", slow_explorer(tmp_path, 60_000)) as (leader, follower, process):
        before = tcgetattr(follower)
        shown = read(leader, b"", lambda seen: b"Ask something" in seen)
        os.write(leader, b"go\r")
        read(leader, shown, lambda seen: b"Waiting for 1 agent" in seen)
        wait_until(lambda: not select.select([], [follower], [], 0)[1], "the terminal takes no more")
        process.terminate()
        assert process.wait(SECONDS) == 128 + signal.SIGTERM
        assert tcgetattr(follower) == before


def hang_up(leader: int) -> None:
    """Close the window of a terminal; the number of its file stays taken."""
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, leader)
    os.close(nothing)


@pytest.mark.parametrize("told", [None, signal.SIGHUP, signal.SIGTERM], ids=["unsaid", "hup", "term"])
def test_the_app_ends_when_its_terminal_closes(tmp_path: Path, told: signal.Signals | None) -> None:
    with on_a_pty(tmp_path, "--model", slow_explorer(tmp_path, 60_000)) as (leader, _, process):
        shown = read(leader, b"", lambda seen: b"Ask something" in seen)
        os.write(leader, b"go\r")
        read(leader, shown, lambda seen: b"Waiting for 1 agent" in seen)
        hang_up(leader)
        if told is not None:
            process.send_signal(told)
        assert process.wait(SECONDS) in (128 + signal.SIGHUP, 128 + signal.SIGTERM)


def test_no_colour_means_no_colour(tmp_path: Path) -> None:
    words = ("--model", slow_explorer(tmp_path, 50))
    with on_a_pty(tmp_path, *words, NO_COLOR="1") as (leader, _, process):
        shown = read(leader, b"", lambda seen: b"Ask something" in seen)
        os.write(leader, b"/mode\r")
        shown = read(leader, shown, lambda seen: b"Esc closes" in seen)
        os.write(leader, b"\r")
        shown = read(leader, shown, lambda seen: b"Ask something" in seen.rpartition(b"Esc closes")[2])
        os.write(leader, b"\x04")
        shown = read(leader, shown, lambda _: process.poll() is not None)
    assert b"\x1b[?1049l" in shown
    assert re.findall(rb"\x1b\[(?:[0-9;]*;)?[34]8;[0-9;]*m", shown) == []
    assert re.findall(rb"\x1b\[(?:[0-9;]*;)?(?:3|4|9|10)[0-7](?:;[0-9;]*)?m", shown) == []


def test_a_fault_leaves_the_terminal_sane_and_names_the_log(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import gencode.interfaces.tui.screens as s\n"
        "def broken(self, event): raise ZeroDivisionError('a bug')\n"
        "s.TranscriptScreen.receive = broken\n"  # not what a person does, which would only be told
    )
    words = ("--model", slow_explorer(tmp_path, 50))
    with on_a_pty(tmp_path, *words, PYTHONPATH=str(tmp_path)) as (leader, follower, process):
        before = tcgetattr(follower)
        shown = read(leader, b"", lambda seen: b"Ask something" in seen)
        os.write(leader, b"go\r")
        shown = read(leader, shown, lambda _: process.poll() is not None)
        assert process.wait(SECONDS) == 1
        assert tcgetattr(follower) == before
    after = shown.rpartition(b"\x1b[?1049l")[2].decode()
    assert "GenCode crashed because of a bug. Details:" in after
    assert "ZeroDivisionError" not in after
    log = Path(os.environ["GEN_HOME"], "logs", "gen.log").read_text()
    assert "ZeroDivisionError: a bug" in log


def test_the_first_frame_comes_before_any_provider_is_loaded(tmp_path: Path) -> None:
    code = (
        "import sys, gencode.interfaces.tui.app\n"
        "print([name for name in sys.modules if name.startswith(('gencode.providers', 'gencode.app'))])"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert ended.stdout == "[]\n"


def test_without_a_terminal_it_says_how_to_ask(tmp_path: Path) -> None:
    ended = gen(cwd=tmp_path)
    assert (ended.code, ended.out, ended.err) == (2, "", f"gen: {NO_TERMINAL}\n")


def test_options_of_a_question_are_refused(tmp_path: Path) -> None:
    ended = gen("--output-format", "json", cwd=tmp_path)
    assert ended.code == 2
    assert "--output-format needs a question" in ended.err


def test_without_the_extra_it_says_its_install_line(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\n"
        "real = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name == 'textual' else real(name, *more)\n"
    )
    with on_a_pty(tmp_path, PYTHONPATH=str(tmp_path)) as (leader, _, process):
        shown = read(leader, b"", lambda _: process.poll() is not None)
        assert process.wait(SECONDS) == 2
    said = " ".join(shown.decode().split())
    assert "Use --plain" in said and said.endswith(installing("tui"))


@pytest.mark.needs("tmux")
def test_a_question_on_the_command_line_opens_the_app_and_resume_alone_offers_it_again(
    tmp_path: Path,
) -> None:
    words = ("--model", script(tmp_path, main=[{"text": "It was found."}] * 2))
    with tmux(tmp_path, "'where is the parser?'", *words) as terminal:
        terminal.assert_sees("where is the parser?", "It was found.")
        terminal.press("C-d")
        terminal.assert_sees("ended 0")
    with tmux(tmp_path, "--resume", *words) as terminal:
        terminal.assert_sees("Conversations of this folder", "where is the parser?")
        terminal.press("Enter")
        terminal.assert_sees("It was found.", "Enter sends")
