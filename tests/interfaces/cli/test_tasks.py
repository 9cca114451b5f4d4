"""`gen task …`: run, list, show, replay, export, import."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.cli.running import Ended, gen, script, send

LOOK = {"text": "I look.", "calls": [{"name": "Glob", "input": {"pattern": "*.py"}}]}


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "one.py").write_text("x = 1\n")
    return script(
        tmp_path,
        main=[{"calls": send("alpha")}, {"text": "done"}],
        Explore=[LOOK, {"text": "found one.py:1", "usage": {"inputTokens": 5, "outputTokens": 2}}],
    )


def explored(model: str, folder: Path, *words: str) -> Ended:
    return gen("task", "run", "explore", "find it", "--model", model, *words, cwd=folder)


def test_a_task_prints_the_result_of_its_agent(tmp_path: Path, model: str) -> None:
    assert explored(model, tmp_path) == Ended(0, "found one.py:1\n")


def test_a_task_as_json_has_the_fields_of_the_contract(tmp_path: Path, model: str) -> None:
    told = explored(model, tmp_path, "--json", "--description", "find it fast").json
    varying = {
        name: told.pop(name) for name in ("agentId", "durationMs", "createdAt", "startedAt", "endedAt")
    }
    evidence = told.pop("evidence")
    assert told == {
        "success": True,
        "result": "found one.py:1",
        "outputFile": None,
        "error": None,
        "status": "completed",
        "agent": "Explore",
        "model": model,
        "turns": 2,
        "description": "find it fast",
        "prompt": "find it",
        "parentId": None,
        "background": False,
        "cwd": str(tmp_path.resolve()),
        "usage": {
            "inputTokens": 5,
            "outputTokens": 2,
            "cachedTokens": 0,
            "usd": None,
            "tree": {"inputTokens": 5, "outputTokens": 2, "cachedTokens": 0, "usd": None},
        },
        "output": None,
    }
    assert (evidence["toolCalls"], evidence["children"]) == (1, [])
    assert all(varying.values())


def test_a_task_may_come_through_the_pipe(tmp_path: Path, model: str) -> None:
    words = ("task", "run", "Explore", "-", "--json", "--model", model)
    assert gen(*words, cwd=tmp_path, piped="the task").json["prompt"] == "the task"


def test_a_task_that_does_not_complete_exits_with_1(tmp_path: Path) -> None:
    model = script(tmp_path, Explore=[{"text": "half", "error": "refused"}])
    ended = explored(model, tmp_path)
    assert (ended.code, ended.out) == (1, "half\n")
    assert ": failed" in ended.err


def test_the_limits_of_a_task_can_be_typed(tmp_path: Path, model: str) -> None:
    told = explored(model, tmp_path, "--max-turns", "1", "--json")
    assert (told.code, told.json["status"]) == (1, "limit_reached")
    slow = script(tmp_path, Explore=[{"text": "never", "delay_ms": 60_000}])
    assert explored(slow, tmp_path, "--max-seconds", "0.2", "--json").json["status"] == "timed_out"


def test_tasks_are_listed_as_json_with_their_children(tmp_path: Path, model: str) -> None:
    run = explored(model, tmp_path, "--json").json
    asked = gen("-p", "go", "--json", "--model", model, cwd=tmp_path).json
    assert gen("task", "list", "--json", cwd=tmp_path).json == {"tasks": [run, *asked["tasks"]]}
    tree = gen("task", "list", "--tree", "--json", cwd=tmp_path).json["tasks"]
    assert [task["agentId"] for task in tree] == [
        run["agentId"],
        asked["sessionId"],
        asked["tasks"][0]["agentId"],
    ]


def test_a_list_is_of_this_folder_unless_all_are_wanted(tmp_path: Path, model: str) -> None:
    other = tmp_path / "other"
    other.mkdir()
    run = explored(model, tmp_path, "--json").json
    assert gen("task", "list", "--json", cwd=other).json == {"tasks": []}
    assert gen("task", "list", cwd=other).out.startswith("There are no tasks in this folder")
    assert gen("task", "list", "--all", "--json", cwd=other).json == {"tasks": [run]}


def test_what_ended_long_ago_is_listed_only_among_all(tmp_path: Path) -> None:
    old = tmp_path / "old.jsonl"
    created = {"type": "TASK_CREATED", "taskId": "t1", "timestamp": 0, "data": {"inputText": "look"}}
    ended = {"type": "TASK_COMPLETED", "taskId": "t1", "timestamp": 1000, "data": {"result": "seen"}}
    old.write_text(f"{json.dumps(created)}\n{json.dumps(ended)}\n")
    told = gen("task", "import", str(old), "--json", cwd=tmp_path).json
    assert (told["task"]["agent"], told["task"]["result"], told["warnings"]) == (
        "general-purpose",
        "seen",
        [],
    )
    assert gen("task", "list", "--json", cwd=tmp_path).json == {"tasks": []}
    assert gen("task", "list", "--all", "--json", cwd=tmp_path).json == {"tasks": [told["task"]]}


def test_the_tree_shows_who_asked_for_what(tmp_path: Path, model: str) -> None:
    gen("-p", "go", "--model", model, cwd=tmp_path)
    head, main, child = gen("task", "list", "--tree", cwd=tmp_path).out.splitlines()
    assert head.split()[:6] == ["ID", "AGENT", "STATUS", "TURNS", "TIME", "CREATED"]
    assert (main[10:14], child[10:19]) == ("main", "  Explore")


def test_one_task_is_shown_with_transcript_and_decisions(tmp_path: Path, model: str) -> None:
    run = explored(model, tmp_path, "--json").json
    shown: dict[str, Any] = gen("task", "show", f"agent-{run['agentId'][:6]}", "--json", cwd=tmp_path).json
    transcript, decisions = shown.pop("transcript"), shown.pop("decisions")
    assert shown == run
    assert [message["role"] for message in transcript] == ["user", "assistant", "tool", "assistant"]
    assert [(each["tool"], each["decision"]["action"]) for each in decisions] == [("Glob", "allow")]
    text = gen("task", "show", run["agentId"], cwd=tmp_path).out
    assert ("→ Glob" in text, "found one.py:1" in text, "completed after 2 turns" in text) == (
        True,
        True,
        True,
    )


def test_a_run_replays_from_the_journal_to_the_same_state(tmp_path: Path, model: str) -> None:
    asked = gen("-p", "go", "--json", "--model", model, cwd=tmp_path).json
    (tmp_path / "script.json").unlink()
    ended = gen("task", "replay", asked["sessionId"], cwd=tmp_path)
    assert (ended.code, ended.out) == (0, "done\n")
    assert "of 2 tasks: replay matches the journal." in ended.err
    told = gen("task", "replay", asked["sessionId"], "--json", cwd=tmp_path).json
    assert (told["same"], told["task"]["agentId"]) == (True, asked["sessionId"])
    assert [e["agentType"] for e in told["events"] if e["type"].endswith("Created")] == ["main", "Explore"]


def test_a_task_moves_to_another_database(tmp_path: Path, model: str) -> None:
    run = explored(model, tmp_path, "--json").json
    file = tmp_path / "task.jsonl"
    assert gen("task", "export", run["agentId"], str(file), cwd=tmp_path).code == 0
    piped = gen("task", "export", run["agentId"], "-", cwd=tmp_path).out
    assert piped == file.read_text()
    there = {"GEN_HOME": str(tmp_path / "there")}
    told = gen("task", "import", "-", "--json", cwd=tmp_path, piped=piped, **there).json
    assert told == {"task": run, "warnings": []}
    again = gen("task", "import", str(file), cwd=tmp_path, **there)
    assert (again.code, "already a task" in again.err) == (2, True)


def test_an_imported_task_is_listed_where_it_was_imported_and_says_where_it_came_from(
    tmp_path: Path, model: str
) -> None:
    run = explored(model, tmp_path, "--json").json
    other, file = tmp_path / "other", tmp_path / "task.jsonl"
    other.mkdir()
    assert gen("task", "export", run["agentId"], str(file), cwd=tmp_path).code == 0
    there = {"GEN_HOME": str(tmp_path / "there")}
    told = gen("task", "import", str(file), "--json", cwd=other, **there).json["task"]
    assert told == {**run, "cwd": str(other), "importedFrom": str(tmp_path)}
    assert gen("task", "list", "--json", cwd=other, **there).json == {"tasks": [told]}
    assert gen("task", "list", "--json", cwd=tmp_path, **there).json == {"tasks": []}
    shown = gen("task", "show", run["agentId"], cwd=other, **there).out
    assert f"\n  folder        {other}\n  imported from {tmp_path}\n" in shown


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("run", "Explor", "go"), "There is no agent 'Explor'. Did you mean Explore"),
        (("run", "Explore", "  "), "The prompt is empty"),
        (("run", "Explore", "-"), "Stdin is empty"),
        (("show", "ffffffff"), "There is no task 'ffffffff'"),
        (("show", "not an id"), "There is no task 'not an id'. See: gen task list --tree"),
        (("replay", "ffffffff"), "There is no task 'ffffffff'"),
        (("export", "ffffffff", "-"), "There is no task 'ffffffff'"),
        (("import", "missing.jsonl"), "Cannot read missing.jsonl"),
        (("import", "script.json"), "cannot be imported"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(
    tmp_path: Path, model: str, words: tuple[str, ...], sentence: str
) -> None:
    more = ("--model", model) if words[0] == "run" else ()
    ended = gen("task", *words, *more, cwd=tmp_path)
    assert (ended.code, ended.out) == (2, "")
    assert sentence in ended.err
    assert "Traceback" not in ended.err
