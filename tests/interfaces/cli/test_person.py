"""A person at a plain terminal is asked, sees exactly what about, and an answer reaches as far as it says."""

from pathlib import Path

import pytest

from gencode.core.messages import ToolCall
from gencode.core.questions import Answer, Question
from gencode.core.rules import Action, Decision
from gencode.interfaces.cli.terminal_questions import choices_line, shown, understood
from tests.interfaces.cli.running import gen, in_terminal, script, send


def two_workers(folder: Path) -> str:
    turn = {"text": "I send somebody.", "calls": send("one", agent="general-purpose")}
    again = {"text": "I send another.", "calls": send("two", agent="general-purpose")}
    return script(folder, main=[turn, again, {"text": "Done."}], general_purpose=[{"text": "It is there."}])


def question(*rules: str, **arguments: str) -> Question:
    call = ToolCall("c1", "Bash", arguments)
    decision = Decision(Action.ASK, "Bash: 'make' is covered by no rule.")
    return Question("0a0a0a0a", "worker", call, decision, ("main", "worker"), rules=rules)


def test_a_yes_lets_the_agent_go_and_is_remembered_for_the_session(tmp_path: Path) -> None:
    model = two_workers(tmp_path)
    ended = in_terminal("-p", "go", "--model", model, cwd=tmp_path, columns=120, answers=[b"y\n"])
    assert ended.code == 0
    assert "main needs approval to use Task:" in ended.out
    assert ended.out.count("needs approval to use") == 1
    assert ended.out.count("It is there.") == 2


def test_a_no_is_told_to_the_model_and_nothing_runs(tmp_path: Path) -> None:
    model = two_workers(tmp_path)
    ended = in_terminal("-p", "go", "--model", model, cwd=tmp_path, columns=120, answers=[b"n\n", b"n\n"])
    assert (ended.code, ended.out.count("needs approval to use"), "It is there." in ended.out) == (
        0,
        2,
        False,
    )
    told = gen("task", "list", "--all", "--json", cwd=tmp_path).json
    assert told == {"tasks": []}


def test_an_answer_that_says_nothing_is_asked_for_again(tmp_path: Path) -> None:
    model = two_workers(tmp_path)
    answers = [b"perhaps\n", b"\n", b"y\n"]
    ended = in_terminal("-p", "go", "--model", model, cwd=tmp_path, columns=120, answers=answers)
    assert (ended.code, ended.out.count("· n decline"), ended.out.count("It is there.")) == (0, 3, 2)


def test_ctrl_c_at_a_question_stops_the_run_and_leaves_a_usable_terminal(tmp_path: Path) -> None:
    model = two_workers(tmp_path)
    ended = in_terminal("-p", "go", "--model", model, cwd=tmp_path, columns=120, answers=[b"\x03"])
    assert (ended.code, "It is there." in ended.out) == (130, False)


def test_without_a_person_nobody_is_asked(tmp_path: Path) -> None:
    ended = gen("-p", "go", "--model", two_workers(tmp_path), cwd=tmp_path)
    assert (ended.code, "needs approval to use" in ended.err) == (0, False)


def test_a_question_shows_who_asks_exactly_what_and_why() -> None:
    asked = question(command="make\x1b[2K all\nrm -rf dist", description="harmless")
    assert shown(asked).splitlines() == [
        "main › worker needs approval to use Bash:",
        "    make\\x1b[2K all",
        "    rm -rf dist",
        "    description: harmless",
        "  Bash: 'make' is covered by no rule.",
    ]


@pytest.mark.parametrize(
    ("typed", "with_rule", "without"),
    [
        ("y\n", Answer(True), Answer(True)),
        ("YES", Answer(True), Answer(True)),
        ("w", Answer(True, network=True), Answer(True, network=True)),
        ("a", Answer(True, "agent"), None),
        ("t", Answer(True, "subtree"), None),
        ("s\n", Answer(True, "session"), None),
        ("!", Answer(True, "always"), None),
        ("n", Answer(False), Answer(False)),
        ("\x04", None, None),
        ("", None, None),
        ("yy", None, None),
    ],
)
def test_a_key_means_one_thing(typed: str, with_rule: Answer | None, without: Answer | None) -> None:
    assert understood(typed, question("Bash(make)")) == with_rule
    assert understood(typed, question()) == without


@pytest.mark.parametrize(
    ("typed", "why"),
    [
        ("n", ""),
        ("No", ""),
        ("n use pnpm instead", "use pnpm instead"),
        ("no, and leave the Makefile alone", "and leave the Makefile alone"),
    ],
)
def test_a_no_may_say_what_to_do_instead(typed: str, why: str) -> None:
    assert understood(typed, question()) == Answer(False, why=why)


def test_an_approval_of_a_command_that_asks_for_the_network_says_so() -> None:
    asking = question("Bash(make)", command="make", network="to fetch the sources")
    assert "network: to fetch the sources" in shown(asking)
    assert choices_line(asking).startswith("  y approve once, with network access · a ")
