"""The example cases of the specification for commands, run exactly as they are written."""

import json
from pathlib import Path
from typing import Any

import pytest

from gencode.core.rules import Action, Mode, Policy, Rule
from gencode.permissions.calls import CallFacts
from gencode.permissions.decision import decide
from gencode.sandbox.shells import CommandRequest, only_reads
from tests.permissions.bash.judged import WHERE

CASES = Path(__file__).parents[2] / "cases" / "bash_permissions.jsonl"


def cases(file: Path = CASES) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines() if line.strip()]


def chain(case: dict[str, Any]) -> tuple[Policy, ...]:
    above = chain(case["parent"]) if "parent" in case else ()
    rules = tuple(Rule(each["tool"], each["pattern"], Action(each["action"])) for each in case["rules"])
    return (*above, Policy(Mode(case["mode"]), rules))


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_the_command_is_decided_as_the_case_expects(case: dict[str, Any]) -> None:
    call = CallFacts(
        tool="Bash",
        input={"command": case["command"]},
        effect="execute",
        workspace=WHERE,
        background=case.get("background", False),
        grant=Mode(case["grant"]) if "grant" in case else None,
    )
    decision = decide(call, chain(case))
    assert decision.action == case["expect"], decision


def check_one_predicate(file: Path) -> int:
    """What the gate allows without any rule is what the executor takes for a command that only reads."""
    checked = 0
    for case in cases(file):
        above = case.get("parent")
        if case["rules"] or above or case["mode"] == "dontAsk" or case["expect"] != "allow":
            continue
        checked += 1
        facts = CallFacts(tool="Bash", input={"command": case["command"]}, effect="execute", workspace=WHERE)
        assert only_reads(CommandRequest(case["command"], WHERE, "task")), case
        assert decide(facts, chain(case)).neutral, case
    return checked


def test_what_is_allowed_without_a_rule_is_run_as_what_only_reads() -> None:
    assert check_one_predicate(CASES) > 10


@pytest.mark.needs("shared")
def test_it_is_so_for_the_cases_of_the_specification(shared: Path) -> None:
    assert check_one_predicate(shared / "cases" / "bash_permissions.jsonl") > 5


def test_all_cases_are_there() -> None:
    assert len(cases()) == 286
