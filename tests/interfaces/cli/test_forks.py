"""Forks at the command line: what they are called in lists, what bounds only them, what they wait for."""

from pathlib import Path

from tests.interfaces.cli.running import gen, script, send

LOOK = {"text": "I look.", "calls": [{"name": "Glob", "input": {"pattern": "*.py"}}]}


def test_a_fork_is_listed_as_one_and_may_have_a_budget_of_its_own(tmp_path: Path) -> None:
    model = script(
        tmp_path,
        main=[{"calls": send("alpha")}, {"text": "done"}],
        Explore=[{"text": "found"}, LOOK, {"text": "never said"}],
    )
    asked = gen("-p", "go", "--json", "--model", model, cwd=tmp_path).json
    [first] = [task["agentId"] for task in asked["tasks"]]
    words = ("task", "fork", first, "another way", "--model", model, "--json")
    bounded = gen(*words, "--budget", "turns", "1", "--budget", "tokens", "80000", cwd=tmp_path).json
    assert (bounded["status"], bounded["forkedFrom"]) == ("limit_reached", first)
    assert bounded["error"] == "The budget of 1 turn of agent Explore is spent."
    fork = bounded["agentId"]
    shown = gen("task", "budget", fork, "--json", cwd=tmp_path).json
    assert shown["budget"] == {"turns": 1, "tokens": 80_000}
    assert gen("task", "budget", asked["sessionId"], "--json", cwd=tmp_path).json["budget"] == {}

    listed = gen("task", "list", "--tree", cwd=tmp_path, COLUMNS="200").out.splitlines()
    assert [(line[:8], line.rsplit("  ", 1)[1]) for line in listed[2:]] == [
        (first, "alpha"),
        (fork, f"fork of {first}: alpha"),
    ]


def test_a_fork_may_have_no_budget_of_its_own_though_the_task_it_copies_has_one(tmp_path: Path) -> None:
    model = script(tmp_path, Explore=[{"text": "found"}, LOOK, {"text": "more"}])
    first = gen("task", "run", "Explore", "look", "--model", model, "--json", cwd=tmp_path).json["agentId"]
    gen("task", "budget", first, "turns", "1", cwd=tmp_path)
    words = ("task", "fork", first, "another way", "--model", model, "--json")
    kept = gen(*words, cwd=tmp_path).json
    lifted = gen(*words, "--budget", "turns", "none", cwd=tmp_path).json
    behind = gen(*words, "--budget", "turns", "none", "--background", cwd=tmp_path).json
    behind = gen("task", "output", behind["agentId"], "--json", cwd=tmp_path).json
    assert [each["status"] for each in (kept, lifted, behind)] == ["limit_reached", "completed", "completed"]
    shown = [gen("task", "budget", each["agentId"], "--json", cwd=tmp_path).json for each in (kept, lifted)]
    assert [each["budget"] for each in shown] == [{"turns": 1}, {}]


def test_a_conversation_is_copied_and_both_go_on(tmp_path: Path) -> None:
    model = script(tmp_path, main=[{"text": "one"}, {"text": "two"}, {"text": "three"}])
    session = gen("-p", "go", "--json", "--model", model, cwd=tmp_path).json["sessionId"]
    copy = gen("sessions", "fork", session, "--json", cwd=tmp_path).json["agentId"]
    for each in (session, copy):
        assert gen("-p", "on", "--session", each, "--model", model, cwd=tmp_path).out == "two\n"
    listed = gen("sessions", "list", "--json", cwd=tmp_path).json["sessions"]
    assert {each["agentId"]: each.get("forkedFrom") for each in listed} == {session: None, copy: session}
    assert gen("sessions", "fork", session, "--at", "0", cwd=tmp_path).code == 2


def test_a_fork_of_a_conversation_is_a_task_of_it(tmp_path: Path) -> None:
    model = script(tmp_path, main=[{"text": "one"}, {"text": "two"}])
    session = gen("-p", "go", "--json", "--model", model, cwd=tmp_path).json["sessionId"]
    forked = gen("task", "fork", session, "another way", "--model", model, cwd=tmp_path)
    (task,) = gen("task", "list", "--json", cwd=tmp_path).json["tasks"]
    assert (forked.code, forked.out) == (0, "two\n")
    assert (task["parentId"], task["forkedFrom"]) == (session, session)
    detached = gen("task", "fork", session, "another way", "--background", "--model", model, cwd=tmp_path)
    assert detached.code == 2
