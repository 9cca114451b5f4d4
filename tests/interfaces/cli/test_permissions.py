"""`gen permissions explain` and `gen permissions check`."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.interfaces.cli.running import Ended, gen, script

GOOD: dict[str, Any] = {
    "id": "g",
    "tool": "Read",
    "mode": "default",
    "rules": [],
    "path": "src/x",
    "expect": "allow",
}
INSIDE = "Read of 'src/x': reading inside the workspace is allowed."


def explain(folder: Path, *words: str) -> Any:
    return gen("permissions", "explain", *words, "--json", cwd=folder).json


def cases(folder: Path, *lines: Any) -> str:
    path = folder / "cases.jsonl"
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return str(path)


def check(folder: Path, *words: str, **more: Any) -> Ended:
    return gen("permissions", "check", *words, cwd=folder, **more)


def test_a_decision_is_told_with_the_rule_the_file_it_stands_in_and_the_chain(
    tmp_path: Path, home: Path
) -> None:
    users = home / ".gen" / "settings.toml"
    users.parent.mkdir()
    users.write_text('deny = ["Read(*.sql)"]\n')
    rule = f"deny Read(*.sql) from {users}"
    why = f"Read of 'a.sql': the rule {rule} matches."
    lifts = "only removing the rule allows this: deny Read(*.sql)"
    own = "Read of 'a.sql': reading inside the workspace is allowed."
    session = {"policy": "session", "mode": "default", "decision": "deny", "why": why}
    agent = {"policy": "agent Explore", "mode": "plan", "decision": "allow", "why": own}
    assert explain(tmp_path, "--tool", "read", "--input", "a.sql", "--agent", "explore") == {
        "tool": "Read",
        "input": {"file_path": "a.sql"},
        "background": False,
        "decision": "deny",
        "why": why,
        "rule": rule,
        "policy": "session",
        "lifts": lifts,
        "chain": [{**session, "rule": rule, "lifts": lifts}, {**agent, "rule": "", "lifts": ""}],
        "notes": [],
    }


def test_a_person_reads_why_and_what_would_allow_it(tmp_path: Path) -> None:
    ended = gen("permissions", "explain", "--tool", "Write", "--input", "a.txt", cwd=tmp_path)
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0] == 'ask: Write {"file_path": "a.txt"}'
    assert "  why            Write of 'a.txt': edits need approval in default mode." in lines
    assert any(line.startswith("  to allow this  --permission-mode acceptEdits, or") for line in lines)
    assert lines[-1].split()[:3] == ["session", "default", "ask"]


@pytest.mark.parametrize(
    ("words", "decision"),
    [
        (("--tool", "Write", "--input", "a"), "ask"),
        (("--tool", "Write", "--input", "a", "--background"), "deny"),
        (("--tool", "Write", "--input", "a", "--mode", "acceptEdits"), "allow"),
        (("--tool", "Write", "--input", "a", "--permission-mode", "plan"), "deny"),
        (("--tool", "Write", "--input", "a", "--mode", "acceptEdits", "--ask", "Write"), "ask"),
        (("--tool", "Write", "--input", "a", "--mode", "acceptEdits", "--agent", "Explore"), "deny"),
        (("--tool", "Bash", "--input", "ls"), "allow"),
        (("--tool", "Bash", "--input", '{"command": "ls > a"}'), "ask"),
        (("--tool", "Task", "--input", "Explore"), "allow"),
        (("--tool", "Task", "--input", "general-purpose"), "ask"),
        (("--tool", "Task", "--input", "general-purpose", "--background"), "allow"),
        (("--tool", "WebFetch", "--input", "https://example.com/"), "ask"),
        (("--tool", "WebFetch", "--input", "http://127.0.0.1/", "--mode", "dontAsk"), "deny"),
        (("--tool", "mcp__git__push", "--input", "{}"), "ask"),
        (("--tool", "TodoWrite"), "allow"),
        (("--tool", "LS"), "allow"),
    ],
    ids=" ".join,
)
def test_flags_and_plain_text_count(tmp_path: Path, words: tuple[str, ...], decision: str) -> None:
    assert explain(tmp_path, *words)["decision"] == decision


def test_a_wider_agent_is_told_with_its_ceiling_and_what_it_would_be_granted(
    tmp_path: Path, home: Path
) -> None:
    (home / ".gen" / "agents").mkdir(parents=True)
    text = "---\nname: bold\ndescription: Bold.\npermission-mode: dontAsk\n---\nGo.\n"
    (home / ".gen" / "agents" / "bold.md").write_text(text)
    sent = explain(tmp_path, "--tool", "Task", "--input", "bold")
    assert "works in the wider mode dontAsk" in sent["why"]
    called = explain(tmp_path, "--tool", "Write", "--input", "a", "--agent", "bold")
    assert (called["decision"], called["policy"]) == ("ask", "session")
    [note] = called["notes"]
    assert "dontAsk" in note and "default" in note


def test_what_only_the_connection_shows_is_said(tmp_path: Path) -> None:
    named, literal = (
        explain(tmp_path, "--tool", "WebFetch", "--input", url)
        for url in ("https://example.com/", "https://1.1.1.1/")
    )
    assert named["notes"] == [
        "The addresses behind the name are checked when it connects, and again for every redirect."
    ]
    assert literal["notes"] == []


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--tool", "Raed", "--input", "a"), "There is no tool 'Raed'. Did you mean Read"),
        (("--tool", "*", "--input", "{}"), "There is no tool '*'"),
        (("--tool", "Read", "--input", '{"file_path": '), "The input is not a JSON object"),
        (("--tool", "cron", "--input", "daily"), "The input of cron must be a JSON object"),
        (("--tool", "Read", "--input", "a", "--agent", "Explorer"), "Did you mean Explore"),
        (("--tool", "Read", "--input", "a", "--mode", "bold"), "There is no permission mode 'bold'"),
        (("--input", "a"), "--tool"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, words: tuple[str, ...], says: str) -> None:
    ended = gen("permissions", "explain", *words, cwd=tmp_path)
    assert (ended.code, ended.out, says in ended.err) == (2, "", True)


def test_nothing_is_written_and_no_database_is_needed(tmp_path: Path, home: Path) -> None:
    explain(tmp_path, "--tool", "Write", "--input", "a")
    check(tmp_path, cases(tmp_path, GOOD))
    assert not (home / ".gen" / "gencode.db").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["cases.jsonl"]


def test_hostile_text_is_shown_harmless(tmp_path: Path) -> None:
    shown = gen("permissions", "explain", "--tool", "Bash", "--input", "ls \x1b[2J\u202e", cwd=tmp_path)
    assert ("\x1b" in shown.out, "\u202e" in shown.out, shown.out.startswith("ask: Bash")) == (
        False,
        False,
        True,
    )
    found = explain(tmp_path, "--tool", "Read", "--input", '{"file_path": "a\\ud800b"}')
    assert (found["decision"], found["input"]) == ("deny", {"file_path": "a?b"})


def test_every_case_is_one_line_of_json(tmp_path: Path) -> None:
    file = cases(tmp_path, GOOD, "", "{", {**GOOD, "id": "two", "expect": "deny"})
    ended = check(tmp_path, file, "--json")
    first, broken, second = ended.lines
    assert first == {"id": "g", "decision": "allow", "why": INSIDE}
    assert (broken["id"], broken["decision"]) == ("", "error")
    assert broken["why"].startswith("line 3: It is not JSON: ")
    assert second == {"id": "two", "decision": "allow", "why": INSIDE}
    assert ended.code == 2


def test_a_case_that_is_not_as_expected_is_told_and_exits_with_1(tmp_path: Path) -> None:
    file = cases(tmp_path, GOOD, {**GOOD, "id": "two", "expect": "deny"})
    ended = check(tmp_path, file)
    assert ended.code == 1
    assert ended.out.splitlines() == [
        f"{file}:2 (two): expected deny, got allow: {INSIDE}",
        f"{file}: 2 cases (2 allow, 0 ask, 0 deny); 1 not as expected.",
    ]


def test_cases_that_expect_nothing_and_cases_from_a_pipe_are_decided(tmp_path: Path) -> None:
    bare = {key: value for key, value in GOOD.items() if key != "expect"}
    ended = check(tmp_path, "-", piped=json.dumps(bare) + "\n")
    assert (ended.code, ended.out) == (0, "-: 1 case (1 allow, 0 ask, 0 deny).\n")


def test_the_settings_of_the_person_do_not_count_for_cases(tmp_path: Path, home: Path) -> None:
    (home / ".gen").mkdir()
    (home / ".gen" / "settings.toml").write_text('deny = ["Read"]\n')
    assert check(tmp_path, cases(tmp_path, GOOD), GEN_DENY="Read").code == 0


def test_a_file_that_is_not_there_is_a_mistake(tmp_path: Path) -> None:
    ended = check(tmp_path, "none.jsonl")
    assert (ended.code, ended.err) == (
        2,
        "gen: Cannot read none.jsonl: No such file or directory.\n",
    )


def test_every_decision_of_a_task_is_shown_with_its_chain(tmp_path: Path) -> None:
    turns: list[dict[str, Any]] = [
        {"calls": [{"name": "LS", "input": {}}, {"name": "Read", "input": {"file_path": "a.sql"}}]},
        {"text": "ok"},
    ]
    model = script(tmp_path, others=turns)
    words = ("task", "run", "general-purpose", "look", "--model", model, "--deny", "Read(*.sql)", "--json")
    task = gen(*words, cwd=tmp_path).json["agentId"]
    shown = gen("task", "show", task, cwd=tmp_path).out.splitlines()
    chain = "(session: default > agent general-purpose: default)"
    rule = "the rule deny Read(*.sql) from the flag --deny matches"
    assert f"= allow: LS of '.': reading inside the workspace is allowed. {chain}" in shown
    assert f"= deny: Read of 'a.sql': {rule}. {chain}" in shown
