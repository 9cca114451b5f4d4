"""When the time of a run is up, it names all that it stops, and shows what agents had handed back by then."""

import re
from pathlib import Path
from typing import Any

import pytest

from gencode.interfaces.render.transcript import NOT_SUMMED_UP
from tests.interfaces.cli.running import gen, script
from tests.tasks.agent_file import write_agent

FREE = ("--permission-mode", "dontAsk", "--max-seconds", "6")
NEVER = {"text": "never", "delay_ms": 600_000}
FOUND = {"text": "It is in a.py:\n- line 7"}
BEHIND = {"name": "Bash", "input": {"command": "sleep 600", "run_in_background": True}}
STOPPING = re.compile(r"Stopping (.*)\. Their results so far are kept\.")
DEEP = {"GEN_MAX_DEPTH": "2"}


def send(agent: str, *, behind: bool = False) -> dict[str, Any]:
    """A call that sends an agent."""
    words = {"subagent_type": agent, "prompt": "look", "description": f"what {agent} does"}
    return {"name": "Task", "input": {**words, "run_in_background": behind}}


def stopped(err: str) -> list[list[str]]:
    """The agents and commands that were named as stopped, each time that was said."""
    said = [re.findall(r"\((\w+)", each) for each in STOPPING.findall(err)]
    return [sorted(each) for each in said]


def test_an_agent_that_is_waited_for_is_named_and_what_the_other_found_is_shown(tmp_path: Path) -> None:
    calls = [send("Explore"), send("Plan")]
    model = script(
        tmp_path, main=[{"text": "I send two.", "calls": calls}, NEVER], Explore=[FOUND], Plan=[NEVER]
    )
    ended = gen("-p", "go", "--model", model, *FREE, cwd=tmp_path)
    shown = re.sub(r"\(\w{8}\)", "(id)", ended.out)
    assert shown == (
        f"I send two.\n\n{NOT_SUMMED_UP}\n\n"
        "Explore: what Explore does (id), completed:\nIt is in a.py:\n- line 7\n"
    )
    assert (ended.code, stopped(ended.err)) == (1, [["Plan"]])
    assert ": timed_out: it took longer than 6 s" in ended.err


def test_however_many_there_are_all_of_them_are_named(tmp_path: Path) -> None:
    calls = [send("Plan", behind=True) for _ in range(14)]
    model = script(tmp_path, main=[{"calls": calls}, {"text": "sent"}], Plan=[NEVER])
    ended = gen("-p", "go", "--model", model, *FREE, cwd=tmp_path)
    assert (ended.code, stopped(ended.err)) == (1, [["Plan"] * 14])


def test_nested_agents_in_the_background_are_named(tmp_path: Path, home: Path) -> None:
    write_agent(home / ".gen" / "agents", "lead", "LS, Task(Plan)")
    model = script(
        tmp_path,
        main=[{"calls": [send("lead", behind=True), BEHIND]}, {"text": "sent"}],
        lead=[{"calls": [send("Plan", behind=True), send("Plan")]}, {"text": "one is out"}],
        Plan=[NEVER],
    )
    ended = gen("-p", "go", "--model", model, *FREE, cwd=tmp_path, **DEEP)
    assert (ended.out, ended.code) == ("sent\n", 1)
    assert stopped(ended.err) == [["Plan", "lead", "sleep"]]


@pytest.mark.parametrize("between", [[], [{"calls": [{"name": "LS", "input": {"path": "."}}]}]])
def test_what_came_while_the_model_was_still_asked_is_shown(tmp_path: Path, between: list[Any]) -> None:
    sends = {"text": "I send one.", "calls": [send("Explore", behind=True)]}
    model = script(
        tmp_path,
        main=[sends, *between, NEVER],
        Explore=[{**FOUND, "delay_ms": 1_500}],
    )
    ended = gen("-p", "go", "--model", model, *FREE, cwd=tmp_path)
    assert re.sub(r"\(\w{8}\)", "(id)", ended.out) == (
        f"I send one.\n\n{NOT_SUMMED_UP}\n\n"
        "Explore: what Explore does (id), completed:\nIt is in a.py:\n- line 7\n"
    )
    assert (ended.code, stopped(ended.err)) == (1, [])


def test_so_are_those_below_an_agent_in_a_process_of_its_own(tmp_path: Path, home: Path) -> None:
    write_agent(home / ".gen" / "agents", "lead", "LS, Task(Plan, Explore)")
    apart = send("lead")
    apart["input"]["isolation"] = "process"
    model = script(
        tmp_path,
        main=[{"calls": [apart]}, {"text": "never"}],
        lead=[{"calls": [send("Plan", behind=True), send("Explore"), send("Plan")]}, NEVER],
        Explore=[FOUND],
        Plan=[NEVER],
    )
    ended = gen("-p", "go", "--model", model, *FREE, cwd=tmp_path, **DEEP)
    assert (ended.code, stopped(ended.err)) == (1, [["Plan", "Plan", "lead"]])


def test_a_task_names_who_is_stopped_below_it_and_not_itself(tmp_path: Path, home: Path) -> None:
    write_agent(home / ".gen" / "agents", "lead", "LS, Task(Plan)")
    model = script(
        tmp_path,
        lead=[{"calls": [send("Plan", behind=True)]}, {"text": "one is out"}],
        Plan=[NEVER],
    )
    ended = gen("task", "run", "lead", "go", "--model", model, *FREE, cwd=tmp_path, **DEEP)
    assert (ended.code, stopped(ended.err)) == (1, [["Plan"]])
