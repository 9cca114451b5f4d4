"""`gen task output | stop | events | resume`: what is printed, and what is refused."""

import json
import sqlite3
from pathlib import Path

import pytest

from gencode.places import database
from tests.interfaces.cli.running import SECONDS, Ended, gen, said_until, script, start
from tests.stores.other_program import rows
from tests.waiting import Gate, wait_until

LONG = "a line of a long report\n" * 2_000


@pytest.fixture
def task(tmp_path: Path) -> str:
    """The id of a task that has ended, in `tmp_path`."""
    model = script(tmp_path, Explore=[{"text": LONG}, {"text": "more"}])
    return gen("task", "run", "Explore", "look", "--model", model, "--json", cwd=tmp_path).json["agentId"]


def test_the_output_is_whole_unless_a_page_is_wanted(tmp_path: Path, task: str) -> None:
    assert gen("task", "output", task, cwd=tmp_path) == Ended(0, LONG, "Warning: no tool was called\n")
    page = gen("task", "output", task, "--page", "3", "--json", cwd=tmp_path).json
    assert page["result"] == f"{LONG[40_000:]}\n[page 3 of 3]"
    missing = gen("task", "output", task, "--page", "4", cwd=tmp_path)
    assert (missing.code, missing.err) == (2, "gen: There is no page 4; the result has 3.\n")


def test_what_a_task_did_is_told_beside_what_it_says(tmp_path: Path) -> None:
    run = [
        {"calls": [{"name": "Bash", "input": {"command": "exit 3 # pytest"}}]},
        {"text": "All tests pass."},
    ]
    send = {"name": "Task", "input": {"subagent_type": "Bash", "prompt": "run the tests"}}
    model = script(tmp_path, main=[{"calls": [send]}, *run], Bash=run)
    ended = gen("-p", "go", "--model", model, "--permission-mode", "dontAsk", cwd=tmp_path)
    assert ended.out == "All tests pass.\n"
    assert "; commands: `exit 3 # pytest` → exit 3." in ended.err.replace("\n", "")
    tasks = gen("task", "list", "--json", cwd=tmp_path).json["tasks"]
    (child,) = [each["agentId"] for each in tasks if each["agent"] == "Bash"]
    shown = gen("task", "output", child, cwd=tmp_path)
    assert shown.out == "All tests pass.\n"
    assert f"Bash {child}: 1 tool call; commands: `exit 3 # pytest` → exit 3." in shown.err
    assert "Warning: its last test run, `exit 3 # pytest`, failed with exit code 3" in shown.err


def test_a_time_out_that_is_too_long_is_cut_and_said(tmp_path: Path, task: str) -> None:
    ended = gen("task", "output", task[:6], "--timeout", "600001", "--json", cwd=tmp_path)
    assert (ended.code, ended.err) == (0, "The timeout was reduced to 600000 ms, the maximum.\n")
    assert ended.json["status"] == "completed"


def test_a_task_that_runs_is_shown_as_it_is(tmp_path: Path) -> None:
    model = script(tmp_path, Explore=[{"text": "never", "delay_ms": 600_000}])
    words = ("task", "run", "Explore", "look", "--background", "--model", model)
    task = gen(*words, cwd=tmp_path).out.strip()
    now = gen("task", "output", task, "--no-block", cwd=tmp_path)
    later = gen("task", "output", task, "--timeout", "200", "--json", cwd=tmp_path)
    stopped = gen("task", "stop", f"agent-{task}", "--json", cwd=tmp_path).json
    assert (now.code, now.out) == (0, "")
    assert f"Task {task} of Explore is still running after 0 turns; it has not replied yet." in now.err
    assert (later.code, later.json["status"]) == (0, "running")
    assert (stopped["agentId"], stopped["status"], stopped["stopped"]) == (task, "cancelled", [task])


def test_whoever_waits_for_a_last_report_is_told_how_long(tmp_path: Path) -> None:
    model = script(tmp_path, Explore=[{"text": "never", "delay_ms": 600_000}])
    words = ("task", "run", "Explore", "look", "--background", "--model", model)
    task = gen(*words, cwd=tmp_path).out.strip()
    with start("task", "stop", task, "--keep", cwd=tmp_path) as waiting:
        assert waiting.stderr is not None
        hits, told = waiting.stderr.readline(), waiting.stderr.readline()
        stopped = gen("task", "stop", task, cwd=tmp_path)
        waiting.communicate(timeout=SECONDS)
    again = gen("task", "stop", task, "--keep", cwd=tmp_path)
    assert hits == f"This stops 1 task: {task} (Explore).\n"
    assert told == f"Waiting up to 63 s for the last report of task {task}.\n"
    assert (waiting.returncode, stopped.code, again.code, again.err) == (0, 0, 0, "")


def test_facts_are_one_per_line(tmp_path: Path, task: str) -> None:
    lines = gen("task", "events", task, "--json", cwd=tmp_path).lines
    assert [(line["seq"], line["type"]) for line in lines] == [
        (1, "SubSessionCreated"),
        (2, "SubSessionStatusChanged"),
        (3, "MessageAdded"),
        (4, "MessageAdded"),
        (5, "SubSessionCompleted"),
    ]
    assert gen("task", "events", task, "--json", "--after", "3", cwd=tmp_path).lines == lines[3:]
    assert gen("task", "events", task, "--json", "--follow", "--after", "4", cwd=tmp_path).lines == lines[4:]
    text = gen("task", "events", task, cwd=tmp_path).out.splitlines()
    assert [line.split()[2] for line in text] == [line["type"] for line in lines]


def test_facts_before_one_that_cannot_be_read_are_shown(tmp_path: Path, home: Path, task: str) -> None:
    with sqlite3.connect(home / ".gen" / "gencode.db") as connection:
        connection.execute("UPDATE gen_journal SET body = '{' WHERE task = ? AND seq = 3", (task,))
    connection.close()
    for words in ((), ("--follow",)):
        ended = gen("task", "events", task, "--json", *words, cwd=tmp_path)
        assert (ended.code, [line["seq"] for line in ended.lines]) == (1, [1, 2])
        assert f"Fact 3 of task {task} cannot be read" in ended.err
    refused = gen("task", "resume", task, "go on", cwd=tmp_path)
    assert (refused.code, task in refused.err, "Fact 3" in refused.err) == (2, True, True)


def test_a_task_goes_on_from_another_folder_in_its_own(tmp_path: Path, task: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    told = gen("task", "resume", task, "go on", "--json", cwd=elsewhere).json
    assert (told["agentId"], told["result"], told["cwd"]) == (task, "more", str(tmp_path.resolve()))
    other = gen("task", "resume", task, "go on", "--cwd", str(elsewhere), cwd=tmp_path)
    assert (other.code, "belongs to the folder" in other.err) == (2, True)


def test_run_takes_up_a_task_of_the_same_agent(tmp_path: Path, task: str) -> None:
    wrong = gen("task", "run", "Plan", "go on", "--resume", task, cwd=tmp_path)
    right = gen("task", "run", "explore", "go on", "--resume", task, cwd=tmp_path)
    assert (wrong.code, wrong.err) == (2, f"gen: Task {task} is a task of Explore, not of Plan.\n")
    assert right == Ended(0, "more\n")


def test_an_id_that_could_be_several_is_told_with_all_of_them(tmp_path: Path) -> None:
    for number in range(2):
        file = tmp_path / f"{number}.jsonl"
        at = "2026-11-15T02:32:00.000000Z"
        file.write_text(json.dumps({"task": f"abc0000{number}", "seq": 1, "at": at, "kind": "TaskCreated"}))
        assert gen("task", "import", str(file), cwd=tmp_path).code == 0
    for verb in (("output", "abc"), ("stop", "abc"), ("resume", "abc", "go"), ("events", "abc")):
        ended = gen("task", *verb, cwd=tmp_path)
        assert (ended.code, ended.err) == (
            2,
            "gen: 'abc' matches several ids: abc00000, abc00001.\n",
        )


def test_a_task_in_a_process_of_its_own_prints_the_same(tmp_path: Path) -> None:
    model = script(tmp_path, Explore=[{"text": "found"}])
    words = ("task", "run", "Explore", "look", "--isolation", "process", "--model", model)
    assert gen(*words, cwd=tmp_path) == Ended(0, "found\n")
    told = gen(*words, "--json", cwd=tmp_path).json
    assert (told["status"], told["background"]) == ("completed", False)


@pytest.mark.parametrize("verb", ["interrupt", "stop"])
def test_what_a_verb_hits_of_a_conversation_that_gen_p_leads_is_what_it_says(
    tmp_path: Path, verb: str
) -> None:
    """Its process waits for what is in the background."""
    gate = Gate(tmp_path)
    words = {"subagent_type": "general-purpose", "prompt": "wait", "run_in_background": True}
    sent = [{"subagent_type": "Explore", "prompt": "look"}, words]
    model = script(
        tmp_path,
        main=[{"calls": [{"name": "Task", "input": each} for each in sent]}],
        Explore=[{"text": "never", "delay_ms": 600_000}],
        **{"general-purpose": [{"calls": [gate.call]}, {"text": "I waited."}]},
    )

    def known() -> dict[str, tuple[str, str]]:
        found = rows(database(), "SELECT agent, id, status FROM gen_task")
        return {agent: (task, status) for agent, task, status in found}

    gen("task", "list", cwd=tmp_path)  # which makes the database that is looked into
    talking = start("-p", "go", "--model", model, "--allow", "Task(general-purpose)", cwd=tmp_path)
    wait_until(lambda: [each[1] for each in known().values()] == ["running"] * 3, "three are at work")
    lead, child, behind = (known()[each][0] for each in ("main", "Explore", "general-purpose"))
    message = ("--message", "and then?") if verb == "interrupt" else ()
    told = gen("task", verb, lead, *message, cwd=tmp_path)
    assert known()["general-purpose"] == (behind, "running")
    said = said_until(talking, "Ctrl-C stops it.")
    gate.open()
    talking.communicate(timeout=SECONDS)
    statuses = {agent: status for agent, (_, status) in known().items()}
    cut = {"main": "cancelled", "Explore": "cancelled"}
    if verb == "interrupt":
        assert f"2 tasks: {lead} (main), {child} (Explore)" in told.err
        assert f"gen -p --session {lead}\n" in told.err
    else:
        assert told.err == f"This stops 2 tasks: {lead} (main), {child} (Explore).\n"
    assert f"Still running in the background: {behind} (general-purpose). Ctrl-C stops it." in said
    assert statuses == {**cut, "general-purpose": "completed"}
    assert talking.returncode == 1


def test_whoever_is_not_stopped_by_a_stop_of_its_tree_is_named(tmp_path: Path, home: Path) -> None:
    sent = {"subagent_type": "Explore", "prompt": "look", "run_in_background": True}
    model = script(
        tmp_path,
        main=[{"calls": [{"name": "Task", "input": sent}]}, {"text": "sent"}],
        Explore=[{"text": "never", "delay_ms": 600_000}],
    )
    leading = start("-p", "go", "--model", model, cwd=tmp_path)
    wait_until(lambda: len(gen("task", "list", "--json", cwd=tmp_path).json["tasks"]) == 1)
    [(lead, child)] = rows(database(), "SELECT parent, id FROM gen_task WHERE agent = 'Explore'")
    wait_until(lambda: gen("task", "show", lead, "--json", cwd=tmp_path).json["turns"] == 2)
    with sqlite3.connect(home / ".gen" / "gencode.db") as connection:
        far = "UPDATE gen_task SET owner = 'far', lease_until = '2999-01-01T00:00:00.000Z' WHERE id = ?"
        connection.execute(far, (lead,))
    connection.close()
    told = gen("task", "stop", lead, "--tree", cwd=tmp_path)
    leading.kill()
    leading.communicate()
    assert (told.code, told.out) == (
        1,
        f"Task {child} of Explore was stopped after 0 turns and is now cancelled.\n",
    )
    assert told.err.startswith(
        f"This stops 2 tasks: {lead} (main), {child} (Explore).\nTask {lead} of main is still running: "
    )
    assert told.err.endswith(f" gen task stop {lead}\n")
