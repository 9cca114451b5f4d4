"""`gen -p`: formats, prompts, conversations."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from gencode.places import database
from gencode.settings import gen_home
from tests.interfaces.cli.running import SECONDS, Ended, gen, script, send, start
from tests.stores.other_program import rows
from tests.waiting import Gate, wait_until

AT_WORK = "SELECT count(*) FROM gen_task WHERE status = 'running'"
SLOW_LOOK = {"calls": [{"name": "Glob", "input": {"pattern": "*"}}], "delay_ms": 150}


def two_explorers(folder: Path) -> str:
    return script(
        folder,
        main=[{"text": "I send two.", "calls": send("alpha", "beta")}, {"text": "Both were found."}],
        Explore=[SLOW_LOOK, {"text": "found it"}],
    )


def test_the_answer_alone_goes_to_stdout(tmp_path: Path) -> None:
    assert gen("-p", "go", "--model", two_explorers(tmp_path), cwd=tmp_path) == Ended(0, "Both were found.\n")


def test_json_is_one_object_with_the_tasks_in_the_order_of_launch(tmp_path: Path) -> None:
    ended = gen("-p", "go", "--output-format", "json", "--model", two_explorers(tmp_path), cwd=tmp_path)
    told = ended.json
    fields = ["type", "result", "status", "sessionId", "model", "turns", "usage", "tasks", "servers", "error"]
    assert list(told) == [*fields, "refused", "stopped"]
    assert (ended.code, told["result"], told["status"], told["turns"]) == (
        0,
        "Both were found.",
        "completed",
        2,
    )
    assert [(task["description"], task["agent"], task["parentId"]) for task in told["tasks"]] == [
        ("alpha", "Explore", told["sessionId"]),
        ("beta", "Explore", told["sessionId"]),
    ]


def test_two_explore_tasks_overlap_in_time(tmp_path: Path) -> None:
    first, second = gen("-p", "go", "--json", "--model", two_explorers(tmp_path), cwd=tmp_path).json["tasks"]
    assert first["startedAt"] < second["endedAt"]
    assert second["startedAt"] < first["endedAt"]


def test_stream_json_is_one_event_per_line_and_the_object_last(tmp_path: Path) -> None:
    words = ("-p", "go", "--output-format", "stream-json", "--model", two_explorers(tmp_path))
    *events, last = gen(*words, cwd=tmp_path).lines
    (main,) = [event for event in events if event["type"] == "SessionCreated"]
    explorers = [event for event in events if event["type"] == "SubSessionCreated"]
    assert [each["parentSessionId"] for each in explorers] == [main["sessionId"], main["sessionId"]]
    progress = [event for event in events if event["type"] == "SubSessionProgress"]
    assert {event["parentSessionId"] for event in progress} == {main["task"]}
    assert any(event["type"] == "SessionProgress" for event in events)
    assert [task["agentId"] for task in last["tasks"]] == [each["task"] for each in explorers]
    assert (last["result"], last["sessionId"]) == ("Both were found.", main["task"])


def test_the_numbers_of_streamed_events_have_no_gaps(tmp_path: Path) -> None:
    words = ("-p", "go", "--output-format", "stream-json", "--model", two_explorers(tmp_path))
    *events, _ = gen(*words, cwd=tmp_path).lines
    numbers: dict[str, list[int]] = {}
    for event in events:
        if event["seq"] is not None:
            numbers.setdefault(event["task"], []).append(event["seq"])
    assert len(numbers) == 3
    assert all(seqs[0] == 1 for seqs in numbers.values())
    assert all(later == earlier + 1 for seqs in numbers.values() for earlier, later in pairwise(seqs))


def prompt_of(ended: Ended, folder: Path) -> Any:
    return gen("task", "show", ended.json["sessionId"], "--json", cwd=folder).json["prompt"]


@pytest.mark.parametrize(
    ("words", "piped", "prompt"),
    [
        (("-p", "go"), "", "go"),
        (("-p", "go"), "a diff\n", "go\n\na diff\n"),
        (("-p",), "the question", "the question"),
        (("-p", "go"), b"not \xff utf-8", "go\n\nnot \ufffd utf-8"),
    ],
)
def test_piped_input_is_added_to_the_prompt(
    tmp_path: Path, words: tuple[str, ...], piped: str | bytes, prompt: str
) -> None:
    model = script(tmp_path, main=[{"text": "ok"}])
    ended = gen(*words, "--json", "--model", model, cwd=tmp_path, piped=piped)
    assert prompt_of(ended, tmp_path) == prompt


def test_a_conversation_goes_on(tmp_path: Path) -> None:
    model = script(tmp_path, main=[{"text": "first"}, {"text": "second"}, {"text": "third"}])
    first = gen("-p", "one", "--json", "--model", model, cwd=tmp_path).json
    second = gen("-p", "two", "--continue", "--json", "--model", model, cwd=tmp_path).json
    third = gen(
        "-p", "three", "--session", first["sessionId"][:5], "--json", "--model", model, cwd=tmp_path
    ).json
    assert [each["result"] for each in (first, second, third)] == ["first", "second", "third"]
    assert {each["sessionId"] for each in (first, second, third)} == {first["sessionId"]}


def test_a_conversation_goes_on_with_the_agent_that_led_it(tmp_path: Path) -> None:
    model = script(tmp_path, main=[{"text": "main"}], Plan=[{"text": "plan one"}, {"text": "plan two"}])
    gen("-p", "one", "--agent", "plan", "--model", model, cwd=tmp_path)
    assert gen("-p", "two", "--continue", "--model", model, cwd=tmp_path).out == "plan two\n"


def test_a_conversation_of_another_folder_is_not_continued(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    model = script(tmp_path, main=[{"text": "ok"}])
    gen("-p", "one", "--model", model, cwd=tmp_path)
    ended = gen("-p", "two", "--continue", "--model", model, cwd=tmp_path / "other")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "no conversation in this folder" in ended.err


def test_a_task_is_no_conversation(tmp_path: Path) -> None:
    model = script(tmp_path, Explore=[{"text": "ok"}])
    task = gen("task", "run", "Explore", "go", "--json", "--model", model, cwd=tmp_path).json["agentId"]
    ended = gen("-p", "more", "--session", task, "--model", model, cwd=tmp_path)
    assert (ended.code, f"gen task show {task}" in ended.err) == (2, True)


def test_the_folder_can_be_named(tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    model = script(tmp_path, main=[{"calls": send("x")}, {"text": "ok"}], Explore=[{"text": "x"}])
    told = gen("-p", "go", "--json", "--cwd", str(folder), "--model", model, cwd=tmp_path).json
    assert [task["cwd"] for task in told["tasks"]] == [str(folder.resolve())]


def test_a_limit_of_turns_ends_with_what_there_is(tmp_path: Path) -> None:
    look = {"text": "looking", "calls": [{"name": "LS", "input": {"path": "."}}]}
    model = script(tmp_path, main=[look, {"text": "so far so good"}])
    ended = gen("-p", "go", "--max-turns", "1", "--model", model, cwd=tmp_path)
    assert (ended.code, ended.out) == (1, "so far so good\n")
    assert "limit_reached: the limit of 1 turn was reached" in ended.err


def test_running_out_of_time_takes_the_agents_along(tmp_path: Path) -> None:
    model = script(
        tmp_path,
        main=[{"text": "I send one.", "calls": send("slow")}],
        Explore=[{"text": "never", "delay_ms": 60_000}],
    )
    ended = gen("-p", "go", "--max-seconds", "0.3", "--json", "--model", model, cwd=tmp_path)
    told = ended.json
    assert (ended.code, told["status"], told["result"]) == (1, "timed_out", "I send one.")
    assert [task["status"] for task in told["tasks"]] == ["cancelled"]


def test_rules_of_flags_reach_the_gate(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    read = {"calls": [{"name": "Read", "input": {"file_path": "notes.txt"}}]}
    model = script(tmp_path, main=[read, {"text": "done"}])
    ended = gen("-p", "go", "--json", "--deny", "Read(*.txt)", "--model", model, cwd=tmp_path)
    shown = gen("task", "show", ended.json["sessionId"], "--json", cwd=tmp_path).json
    assert [each["decision"]["action"] for each in shown["decisions"]] == ["deny"]


def test_verbose_tells_every_step_on_stderr(tmp_path: Path) -> None:
    ended = gen("-p", "go", "--verbose", "--model", two_explorers(tmp_path), cwd=tmp_path)
    assert ended.out == "Both were found.\n"
    assert {"[Explore] alpha", "[Explore] beta", "[Explore] Glob(*)"} <= set(ended.err.splitlines())


def test_control_characters_of_a_model_never_reach_the_output(tmp_path: Path) -> None:
    model = script(tmp_path, main=[{"text": "\x1b[2Jgone \u202e"}])
    assert gen("-p", "go", "--model", model, cwd=tmp_path).out == "\\x1b[2Jgone \\u202e\n"
    ended = gen("-p", "go", "--json", "--model", model, cwd=tmp_path)
    assert ended.out.isprintable() is False  # only for the line's end
    assert ended.out.rstrip("\n").isprintable()
    assert ended.json["result"] == "\x1b[2Jgone \u202e"


def test_what_was_said_before_a_result_came_back_is_not_lost(tmp_path: Path) -> None:
    away = {"subagent_type": "Explore", "prompt": "look", "run_in_background": True}
    model = script(
        tmp_path,
        main=[
            {"text": "I send one.", "calls": [{"name": "Task", "input": away}]},
            {"text": "The first half of the answer."},
            {"text": "The second half."},
        ],
        Explore=[{"text": "found", "delay_ms": 300}],
    )
    said = "The first half of the answer.\n\nThe second half."
    assert gen("-p", "go", "--model", model, cwd=tmp_path).out == f"{said}\n"
    ended = gen("-p", "go", "--model", model, "--output-format", "json", cwd=tmp_path)
    assert ended.json["result"] == said


@pytest.mark.parametrize("verb", ["interrupt", "stop"])
def test_one_that_stays_for_its_background_prints_its_own_words_whoever_goes_on_meanwhile(
    tmp_path: Path, verb: str
) -> None:
    gate = Gate(tmp_path)
    words = {"subagent_type": "general-purpose", "prompt": "wait", "run_in_background": True}
    sends = {"text": "I send one.", "calls": [{"name": "Task", "input": words}]}
    model = script(
        tmp_path,
        main=[sends, {"text": "never", "delay_ms": 600_000}],
        **{"general-purpose": [{"calls": [gate.call]}, {"text": "I waited."}]},
    )
    (tmp_path / "other").mkdir()
    other = script(tmp_path / "other", main=[{"text": "What another terminal heard."}] * 4)
    gen("task", "list", cwd=tmp_path)  # which makes the database that is looked into
    allowed = ("--allow", "Task(general-purpose)")
    talking = start("-p", "go", "--json", "--model", model, *allowed, cwd=tmp_path)
    wait_until(lambda: rows(database(), AT_WORK) == [(2,)], "two are at work")
    [(lead,)] = rows(database(), "SELECT id FROM gen_task WHERE agent = 'main'")
    gen("task", verb, lead, cwd=tmp_path)
    again = gen("-p", "and then?", "--session", lead, "--model", other, cwd=tmp_path)
    gate.open()
    out, _ = talking.communicate(timeout=SECONDS)
    told = Ended(talking.returncode, out)
    assert again.out == "What another terminal heard.\n"
    assert (told.code, told.json["result"], told.json["turns"]) == (1, "I send one.", 1)


def test_the_answer_of_one_turn_may_have_a_form(tmp_path: Path) -> None:
    (tmp_path / "form.json").write_text('{"type": "object", "required": ["files"]}')
    model = script(tmp_path, main=[{"text": '{"files": ["a.py"]}'}])
    words = ("--json", "--model", model)
    formed = gen("-p", "which?", "--output-schema", "form.json", *words, cwd=tmp_path)
    assert (formed.code, formed.json["output"]) == (0, {"files": ["a.py"]})
    (tmp_path / "form.json").write_text('{"type": "nothing"}')
    assert gen("-p", "which?", "--output-schema", "form.json", *words, cwd=tmp_path).code == 2


def test_a_hook_that_would_not_be_run_is_an_error_and_not_passed_over(tmp_path: Path) -> None:
    (gen_home() / "settings.toml").parent.mkdir(parents=True, exist_ok=True)
    (gen_home() / "settings.toml").write_text(
        '[[hooks.AfterTool]]\nhooks = [{type = "command", command = "true"}]\n'
    )
    asked = gen("-p", "where?", "--model", "offline", cwd=tmp_path)
    assert (asked.code, asked.out) == (2, "") and "AfterTool" in asked.err
