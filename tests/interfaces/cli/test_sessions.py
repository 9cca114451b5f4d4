"""`gen sessions …`: conversations are listed, shown and deleted; nothing else deletes anything."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.interfaces.cli.running import gen, in_terminal, script, send

BACKGROUND = {
    "name": "Task",
    "input": {"subagent_type": "Explore", "prompt": "look", "run_in_background": True},
}


@pytest.fixture
def chat(tmp_path: Path) -> str:
    """The id of a conversation that sent two agents, in `tmp_path`."""
    main = [{"calls": [*send("alpha"), BACKGROUND]}, {"text": "meanwhile"}, {"text": "done"}]
    model = script(tmp_path, main=main, Explore=[{"text": "found"}])
    return gen("-p", "hello there", "--json", "--model", model, cwd=tmp_path).json["sessionId"]


def ids(folder: Path) -> set[str]:
    tasks = gen("task", "list", "--all", "--tree", "--json", cwd=folder).json["tasks"]
    return {task["agentId"] for task in tasks}


def test_conversations_are_listed_without_their_tasks(tmp_path: Path, chat: str) -> None:
    (session,) = gen("sessions", "list", "--json", cwd=tmp_path).json["sessions"]
    assert (session["agentId"], session["agent"], session["prompt"]) == (chat, "main", "hello there")
    assert chat in gen("sessions", "list", cwd=tmp_path).out
    other = tmp_path / "other"
    other.mkdir()
    assert gen("sessions", "list", cwd=other).out.startswith("There are no conversations in this folder")
    assert len(gen("sessions", "list", "--all", "--json", cwd=other).json["sessions"]) == 1


def test_a_conversation_is_shown_with_its_tasks(tmp_path: Path, chat: str) -> None:
    shown = gen("sessions", "show", chat, "--json", cwd=tmp_path).json
    assert (shown["agentId"], len(shown["tasks"]), shown["transcript"][0]["text"]) == (chat, 2, "hello there")
    text = gen("sessions", "show", chat[:5], cwd=tmp_path).out
    assert text.startswith(f"main {chat}: completed") and "hello there" in text


def test_a_conversation_that_is_not_there_is_called_one(tmp_path: Path, chat: str) -> None:
    missing = gen("sessions", "show", "not an id", cwd=tmp_path)
    expected = "gen: There is no conversation 'not an id'. See: gen sessions list\n"
    assert (missing.code, missing.out, missing.err) == (2, "", expected)


def test_of_a_damaged_journal_what_stands_before_is_shown(tmp_path: Path, home: Path, chat: str) -> None:
    with closing(sqlite3.connect(home / ".gen" / "gencode.db")) as connection:
        connection.execute("UPDATE gen_journal SET body = '{' WHERE task = ? AND seq = 4", (chat,))
        connection.commit()
    for noun in ("sessions", "task"):
        shown = gen(noun, "show", chat, cwd=tmp_path)
        warned = gen(noun, "show", chat, "--json", cwd=tmp_path).json["evidence"]["warnings"]
        assert (shown.code, shown.err, "hello there" in shown.out) == (0, "", True)
        assert warned[0].startswith(f"Fact 4 of task {chat} cannot be read")
        assert warned[0] in shown.out


def test_a_conversation_goes_with_its_tasks_and_their_files(tmp_path: Path, home: Path, chat: str) -> None:
    outputs = home / ".gen" / "outputs"
    family = ids(tmp_path)
    assert len(family) == 3 and list(outputs.iterdir()) != []
    unsure = gen("sessions", "delete", chat, cwd=tmp_path)
    assert (unsure.code, ids(tmp_path)) == (2, family)
    assert f"1 conversation with all subagents: {chat}" in unsure.err and "--yes" in unsure.err
    gone = gen("sessions", "delete", chat, "--yes", "--json", cwd=tmp_path).json["deleted"]
    assert (set(gone), ids(tmp_path), list(outputs.iterdir())) == (family, set[str](), [])
    missing = gen("sessions", "delete", chat, "--yes", cwd=tmp_path)
    assert (missing.code, f"There is no conversation '{chat}'" in missing.err) == (2, True)


@pytest.mark.parametrize(("typed", "code", "left"), [(b"y\n", 0, 0), (b"n\n", 1, 3), (b"\n", 1, 3)])
def test_a_person_is_asked(tmp_path: Path, chat: str, typed: bytes, code: int, left: int) -> None:
    ended = in_terminal("sessions", "delete", chat, cwd=tmp_path, typed=(b"[y/N]", typed))
    assert (ended.code, len(ids(tmp_path))) == (code, left)


def test_a_task_of_a_conversation_is_not_deleted_alone(tmp_path: Path, chat: str) -> None:
    child = next(iter(ids(tmp_path) - {chat}))
    refused = gen("sessions", "delete", child, "--yes", cwd=tmp_path)
    assert (refused.code, f"Task {child} belongs to {chat}" in refused.err) == (2, True)


def test_what_still_runs_is_not_deleted(tmp_path: Path) -> None:
    model = script(tmp_path, Explore=[{"text": "never", "delay_ms": 600_000}])
    words = ("task", "run", "Explore", "look", "--background", "--model", model)
    task = gen(*words, cwd=tmp_path).out.strip()
    refused = gen("sessions", "delete", task, "--yes", cwd=tmp_path)
    pruned = gen("sessions", "prune", "--older-than", "0", "--yes", "--json", cwd=tmp_path).json
    gen("task", "stop", task, cwd=tmp_path)
    later = gen("sessions", "delete", task, "--yes", "--json", cwd=tmp_path).json
    assert (refused.code, f"{task} is running" in refused.err) == (2, True)
    assert (pruned, later) == ({"deleted": []}, {"deleted": [task]})


def test_only_what_is_old_is_pruned(tmp_path: Path, chat: str) -> None:
    family = ids(tmp_path)
    assert gen("sessions", "prune", "--older-than", "1", cwd=tmp_path).out == "Deleted nothing.\n"
    unsure = gen("sessions", "prune", "--older-than", "0", cwd=tmp_path)
    assert (unsure.code, chat in unsure.err, ids(tmp_path)) == (2, True, family)
    gone = gen("sessions", "prune", "--older-than", "0", "--yes", "--json", cwd=tmp_path).json
    assert (set(gone["deleted"]), ids(tmp_path)) == (family, set[str]())


@pytest.mark.parametrize(
    "words", [(), ("--older-than", "x"), ("--older-than", "-1"), ("--older-than", "nan")]
)
def test_a_prune_needs_a_number_of_days(tmp_path: Path, words: tuple[str, ...]) -> None:
    ended = gen("sessions", "prune", *words, cwd=tmp_path)
    assert (ended.code, "--older-than" in ended.err) == (2, True)


def test_lists_begin_with_the_newest_and_have_a_limit(tmp_path: Path) -> None:
    model = script(tmp_path, main=[{"text": "a"}])
    asked = [gen("-p", each, "--json", "--model", model, cwd=tmp_path).json["sessionId"] for each in "123"]
    rows = gen("sessions", "list", cwd=tmp_path).out.splitlines()[1:]
    assert [row.split()[0] for row in rows] == [*reversed(asked)]
    short = gen("sessions", "list", "--limit", "2", cwd=tmp_path)
    assert short.out.splitlines()[1:] == rows[:2] and short.err
    assert gen("sessions", "list", "--limit", "0", cwd=tmp_path).out.splitlines()[1:] == rows
    told = gen("sessions", "list", "--limit", "2", "--json", cwd=tmp_path).json["sessions"]
    assert [each["agentId"] for each in told] == asked[1:]
