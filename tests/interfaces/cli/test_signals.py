"""Ctrl-C, SIGTERM and readers that go away."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.cli.running import GEN, SECONDS, gen, in_terminal, script, send, start

DEAF = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])
"""
LOOK = {"text": "half of it", "calls": [{"name": "Glob", "input": {"pattern": "*"}}]}


def slow(folder: Path) -> str:
    """An agent that says something, looks around once and then thinks forever."""
    return script(
        folder,
        main=[{"text": "First words.", "calls": send("slow")}, {"text": "never"}],
        Explore=[LOOK, {"text": "never", "delay_ms": 600_000}],
    )


def thinking(*words: str, folder: Path) -> "subprocess.Popen[str]":
    """Start a run and wait until its agent has looked around and thinks."""
    process = start(*words, "--verbose", "--model", slow(folder), cwd=folder)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("[Explore] Glob") and " → " in line:
            return process
    raise AssertionError("the run ended before it was interrupted")


def listed(folder: Path) -> list[Any]:
    return gen("task", "list", "--tree", "--json", cwd=folder).json["tasks"]


@pytest.mark.parametrize(
    ("number", "code", "why"),
    [
        (signal.SIGINT, 130, "interrupted by the user"),
        (signal.SIGTERM, 143, "the program was told to end"),
    ],
)
def test_a_signal_stops_softly_and_keeps_what_was_said(
    tmp_path: Path, number: signal.Signals, code: int, why: str
) -> None:
    process = thinking("-p", "go", folder=tmp_path)
    process.send_signal(number)
    out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out) == (code, "First words.\n")
    assert why in err
    assert [(task["agent"], task["status"], task["result"], task["error"]) for task in listed(tmp_path)] == [
        ("main", "cancelled", "First words.", why),
        ("Explore", "cancelled", "half of it", why),
    ]


def test_a_run_whose_tree_was_stopped_elsewhere_does_not_say_that_it_stops_it(tmp_path: Path) -> None:
    behind = {"subagent_type": "Explore", "description": "d", "prompt": "p", "run_in_background": True}
    calls = [{"name": "Task", "input": behind} for _ in range(3)]
    never = {"text": "never", "delay_ms": 600_000}
    model = script(tmp_path, main=[{"text": "First words.", "calls": calls}, never], Explore=[LOOK, never])
    process = start("-p", "go", "--verbose", "--model", model, cwd=tmp_path)
    assert process.stderr is not None
    thinking = 0
    while thinking < 3:
        line = process.stderr.readline()
        assert line, "the run ended before its tree was stopped"
        thinking += line.startswith("[Explore] Glob")
    main = listed(tmp_path)[0]["agentId"]
    stopped = gen("task", "stop", "--tree", main, cwd=tmp_path)
    _, err = process.communicate(timeout=SECONDS)
    assert (stopped.code, process.returncode, "results so far are kept" in err) == (0, 1, False)
    assert {task["status"] for task in listed(tmp_path)} == {"cancelled"}


def test_an_interrupted_task_still_prints_its_object(tmp_path: Path) -> None:
    process = thinking("task", "run", "Explore", "go", folder=tmp_path)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=SECONDS)
    assert (process.returncode, out) == (130, "half of it\n")


def test_several_signals_end_it_without_a_traceback(tmp_path: Path) -> None:
    process = thinking("-p", "go", folder=tmp_path)
    for _ in range(3):
        process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert "Traceback" not in err


def test_the_journal_of_an_interrupted_run_replays(tmp_path: Path) -> None:
    process = thinking("-p", "go", folder=tmp_path)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=SECONDS)
    main = listed(tmp_path)[0]["agentId"]
    told = gen("task", "replay", main, "--json", cwd=tmp_path).json
    assert (told["same"], told["task"]["status"]) == (True, "cancelled")


def test_an_interrupted_conversation_goes_on(tmp_path: Path) -> None:
    process = thinking("-p", "go", folder=tmp_path)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=SECONDS)
    model = script(tmp_path, main=[{"text": "one"}, {"text": "two"}])
    assert gen("-p", "again", "--continue", "--model", model, cwd=tmp_path).out == "two\n"


def test_a_signal_that_is_ignored_outside_stays_ignored(tmp_path: Path) -> None:
    model = script(tmp_path, main=[{"text": "done", "delay_ms": 1500}])
    words = [sys.executable, "-c", DEAF, *GEN, "-p", "go", "--verbose", "--model", model]
    process = subprocess.Popen(
        words,
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=SECONDS)
    assert (process.returncode, out) == (0, "done\n")


def test_ctrl_c_on_the_keyboard_gives_the_terminal_back(tmp_path: Path) -> None:
    ended = in_terminal("-p", "go", "--model", slow(tmp_path), cwd=tmp_path, keys=b"\x03")
    assert ended.code == 130
    assert ended.out.count("\x1b[?25l") == ended.out.count("\x1b[?25h") == 1
    assert "interrupted by the user" in ended.out


@pytest.mark.parametrize("words", [("--output-format", "stream-json"), ("--output-format", "json"), ()])
def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path, words: tuple[str, ...]) -> None:
    model = script(tmp_path, main=[{"text": "word " * 50_000}])
    process = start("-p", "go", *words, "--model", model, cwd=tmp_path)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == ""
    process.stderr.close()
    assert process.wait(SECONDS) == 141
