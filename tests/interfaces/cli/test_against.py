"""`gen task replay --against`: two runs are the same only when all of them is, also what they sent."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.cli.running import Ended, Turn, gen, script, send, start
from tests.waiting import Gate, wait_until

ALIKE = "The same beginning of an answer, word for word. " * 5
LISTS = {"name": "Glob", "input": {"pattern": "*"}}
WRITES = {"name": "Write", "input": {"file_path": "evil.txt", "content": "x"}}
SAME_COST = {"inputTokens": 90, "outputTokens": 10}


def ran(folder: Path, *turns: Turn) -> str:
    """The id of a task whose agent said and did this."""
    model = script(folder, general_purpose=turns)
    words = ("general-purpose", "go", "--permission-mode", "acceptEdits", "--json", "--model", model)
    return gen("task", "run", *words, cwd=folder).json["agentId"]


def talked(folder: Path, *turns: Turn, **agents: Sequence[Turn]) -> str:
    """The id of a conversation in which this was said."""
    model = script(folder, main=turns, **agents)
    return gen("-p", "go", "--permission-mode", "acceptEdits", "--json", "--model", model, cwd=folder).json[
        "sessionId"
    ]


def against(folder: Path, one: str, other: str, *words: str) -> Ended:
    return gen("task", "replay", one, "--against", other, *words, cwd=folder)


def told(folder: Path, one: str, other: str) -> dict[str, Any]:
    """The comparison as JSON, which says the same as the exit code."""
    ended = against(folder, one, other, "--json")
    assert (ended.code, ended.json["same"]) in ((0, True), (1, False))
    return ended.json


def test_two_answers_that_differ_only_at_their_end_differ_and_one_sees_where(tmp_path: Path) -> None:
    one, other = [ran(tmp_path, {"text": f"{ALIKE}The answer is {end}."}) for end in ("YES", "NO")]
    ended = against(tmp_path, one, other)
    assert ended.code == 1
    assert "The answer is YES." in ended.out and "The answer is NO." in ended.out
    found = told(tmp_path, one, other)
    assert [name for name, *_ in found["facts"]] == ["result"]
    assert [each["step"] for each in found["differences"]] == [2]


def test_arguments_and_results_are_compared_to_their_last_character(tmp_path: Path) -> None:
    ids: list[str] = []
    for last in ("print(1)", "remove(x)"):
        (tmp_path / "w.py").unlink(missing_ok=True)
        arguments = {"file_path": "w.py", "content": f"{'#' * 300}\n{last}\n"}
        ids.append(ran(tmp_path, {"calls": [{"name": "Write", "input": arguments}]}, {"text": "ok"}))
    [difference] = told(tmp_path, *ids)["differences"]
    assert difference["step"] == 2
    assert all(line.startswith("called Write: …#") for line in (difference["one"][0], difference["other"][0]))
    assert "print(1)" in difference["one"][0] and "remove(x)" in difference["other"][0]


def test_a_space_more_is_a_difference(tmp_path: Path) -> None:
    one, other = ran(tmp_path, {"text": "if x:\n  y"}), ran(tmp_path, {"text": "if x:\n    y"})
    ended = against(tmp_path, one, other)
    assert ended.code == 1
    assert len([line for line in ended.out.splitlines() if "said: if x:" in line]) == 2


def test_what_the_agents_below_did_is_compared(tmp_path: Path) -> None:
    main = ({"calls": send("it", agent="general-purpose")}, {"text": "done"})
    one, other = [
        talked(tmp_path, *main, general_purpose=[{"calls": [does], "usage": SAME_COST}, {"text": "same"}])
        for does in (LISTS, WRITES)
    ]
    found = told(tmp_path, one, other)
    [receipts], facts = found["differences"], found["facts"]
    assert (["evil.txt" in receipts[which][0] for which in ("one", "other")], facts) == ([False, True], [])
    [pair] = found["below"]
    assert not pair["same"] and "evil.txt" in json.dumps(pair["differences"])
    ended = against(tmp_path, one, other)
    assert (ended.code, "evil.txt" in ended.out) == (1, True)
    assert ended.out.endswith("0 of 1 subagents took the same steps in both.\n")


def test_agents_are_compared_in_the_order_in_which_they_were_sent(tmp_path: Path) -> None:
    def sent(*titles: str) -> str:
        return talked(tmp_path, {"calls": send(*titles)}, {"text": "done"}, Explore=[{"text": "found"}])

    one, other, longer = sent("alpha", "beta"), sent("beta", "alpha"), sent("alpha", "beta", "gamma")
    assert [pair["same"] for pair in told(tmp_path, one, other)["below"]] == [False, False]
    pairs = told(tmp_path, one, longer)["below"]
    assert [pair["same"] for pair in pairs] == [True, True, False]
    assert pairs[2]["one"] is None
    assert ["prompt", "", "look for gamma"] in pairs[2]["facts"]


def test_the_ids_of_tasks_make_no_difference(tmp_path: Path) -> None:
    fails = {"error": "it broke"}
    one, other = [
        talked(tmp_path, {"calls": send("alpha", "beta")}, {"text": "done"}, Explore=[fails])
        for _ in range(2)
    ]
    shown = gen("task", "show", one, cwd=tmp_path).out
    assert "(task " in shown, "the report of a failed agent names its id"
    found = told(tmp_path, one, other)
    assert (found["same"], len(found["below"])) == (True, 2)
    assert against(tmp_path, one, other).out == (
        f"{one} and {other} have {found['sameSteps']} steps in common.\n"
        "2 of 2 subagents took the same steps in both.\n"
    )


@pytest.mark.needs("bash")
def test_a_running_task_is_not_said_to_have_ended(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    model = script(tmp_path, general_purpose=[{"calls": [gate.call]}, {"text": "done"}])
    running = start("task", "run", "general-purpose", "wait", "--model", model, cwd=tmp_path)

    def tasks() -> list[dict[str, Any]]:
        listed = gen("task", "list", "--json", cwd=tmp_path).json["tasks"]
        return [each for each in listed if each["status"] == "running"]

    wait_until(tasks, "the task runs")
    [task] = tasks()
    replayed = gen("task", "replay", task["agentId"], cwd=tmp_path)
    gate.open()
    running.communicate()
    assert f"Task {task['agentId']} is running; it has not finished." in replayed.err
    assert "has finished" not in replayed.err
