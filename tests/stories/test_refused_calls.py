"""Refused calls are seen: by the person, by scripts in JSON and the exit code, and in the app."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.interfaces.cli.running import Ended, gen, in_terminal, script
from tests.interfaces.tui.driving import seated

from gencode.testing import call, says

WRITE = call("Write", file_path="b.txt", content="b")
SENT = {"subagent_type": "general-purpose", "prompt": "write it", "description": "writing"}


def writing(folder: Path) -> str:
    return script(folder, main=[says("", WRITE), says("Written.")])


def sending(folder: Path, **more: Any) -> str:
    main = [says("", call("Task", **SENT, **more)), says("All done."), says("All done.")]
    return script(folder, main=main, general_purpose=[says("", WRITE), says("Written.")])


def refused(ended: Ended) -> list[tuple[str, str, str, str]]:
    return [(each["agent"], each["tool"], each["summary"], each["by"]) for each in ended.json["refused"]]


def test_gen_p_that_lacked_approval_exits_with_3_and_says_what_was_refused(tmp_path: Path) -> None:
    ended = gen("-p", "go", "--model", writing(tmp_path), cwd=tmp_path)
    assert (ended.code, ended.out) == (3, "Written.\n")
    assert "1 call was refused:" in ended.err and "Write(b.txt)" in ended.err and "--allow" in ended.err
    assert not (tmp_path / "b.txt").exists()


def test_its_json_lists_the_calls(tmp_path: Path) -> None:
    ended = gen("-p", "go", "--model", writing(tmp_path), "--json", cwd=tmp_path)
    assert (ended.code, ended.json["status"]) == (3, "completed")
    assert refused(ended) == [("main", "Write", "b.txt", "nobody")]


def test_calls_of_an_agent_below_count_as_well(tmp_path: Path) -> None:
    model, allow = sending(tmp_path), ("--allow", "Task(general-purpose)")
    ended = gen("-p", "go", "--model", model, *allow, "--json", cwd=tmp_path)
    assert (ended.code, refused(ended)) == (3, [("general-purpose", "Write", "b.txt", "nobody")])
    (task,) = ended.json["tasks"]
    assert [each["by"] for each in task["evidence"]["refused"]] == ["nobody"]
    listed = gen("task", "list", cwd=tmp_path)
    assert "completed (1 refused)" in listed.out
    output = gen("task", "output", task["agentId"], cwd=tmp_path)
    assert output.out == "Written.\n" and "Write(b.txt)" in output.err


def test_gen_task_run_does_the_same(tmp_path: Path) -> None:
    model = script(tmp_path, general_purpose=[says("", WRITE), says("Written.")])
    words = ("task", "run", "general-purpose", "write it", "--model", model)
    ended = gen(*words, "--json", cwd=tmp_path)
    assert (ended.code, refused(ended)) == (3, [("general-purpose", "Write", "b.txt", "nobody")])
    text = gen(*words, cwd=tmp_path)
    assert (text.code, text.out) == (3, "Written.\n")
    assert "Write(b.txt)" in text.err


def test_what_a_rule_denies_is_named_and_no_3(tmp_path: Path) -> None:
    ended = gen("-p", "go", "--model", writing(tmp_path), "--deny", "Write(b.txt)", "--json", cwd=tmp_path)
    assert (ended.code, refused(ended)) == (0, [("main", "Write", "b.txt", "rules")])


def test_what_a_person_declined_is_no_3(tmp_path: Path) -> None:
    ended = in_terminal("-p", "go", "--model", writing(tmp_path), cwd=tmp_path, answers=[b"n\n"])
    assert ended.code == 0
    assert "1 call was refused:" in ended.out
    assert not (tmp_path / "b.txt").exists()


def test_a_turn_that_was_refused_nothing_does_not_answer_for_the_one_before(tmp_path: Path) -> None:
    main = [says("", WRITE), says("Written."), says("Nothing to do.")]
    model = script(tmp_path, main=main)
    first = gen("-p", "go", "--model", model, "--json", cwd=tmp_path)
    again = ("-p", "more", "--model", model, "--json", "--session", first.json["sessionId"])
    second = gen(*again, cwd=tmp_path)
    assert (first.code, second.code, refused(second)) == (3, 0, [])


def test_the_panel_of_a_background_agent_names_its_refused_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = sending(tmp_path, run_in_background=True)
    monkeypatch.setenv("GEN_BACKGROUND_QUESTIONS", "false")
    allow = ("--allow", "Task(general-purpose)")
    ended = in_terminal("-p", "go", "--model", model, *allow, cwd=tmp_path, columns=120)
    assert ended.code == 3
    assert "Refused: Write(b.txt)" in ended.out and "1 call refused" in ended.out


def test_the_panel_of_an_agent_shows_the_warnings_of_its_receipt(tmp_path: Path) -> None:
    calls = [{"name": "Task", "input": {"subagent_type": "Explore", "prompt": "look"}}]
    turns = {"main": [{"calls": calls}, {"text": "so"}], "Explore": [{"text": "All 14 tests pass."}]}
    (tmp_path / "claims.json").write_text(json.dumps({"agents": turns}))
    ended = in_terminal(
        "-p", "go", "--model", f"scripted:{tmp_path / 'claims.json'}", cwd=tmp_path, columns=120
    )
    assert (ended.code, "Warning: no tool was called" in ended.out) == (0, True)


async def test_the_app_shows_that_a_background_agent_was_refused_a_call(tmp_path: Path) -> None:
    main = [says("", call("Task", **SENT, run_in_background=True)), says("Sent."), says("All done.")]
    worker = [says("", WRITE), says("Written.")]
    settings = {"allow": ["Task(general-purpose)"], "background_questions": False}
    script = {"main": main, "general-purpose": worker}
    async with seated(tmp_path, settings=settings, script=script, size=(140, 40)) as setup:
        await setup.type("go")
        await setup.assert_sees("was refused Write(b.txt)")
        await setup.rests()
        await setup.assert_sees("1 call refused")
