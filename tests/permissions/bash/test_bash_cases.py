"""The example cases of the specification for commands, run exactly as they are written."""

import json
from pathlib import Path
from typing import Any

import pytest

from gencode.core.rules import Action, Mode, Policy, Rule
from gencode.permissions.calls import CallFacts
from gencode.permissions.decision import decide
from tests.permissions.bash.judged import WHERE

CASES = Path(__file__).parents[2] / "cases" / "bash_permissions.jsonl"


def cases() -> list[dict[str, Any]]:
    return [json.loads(line) for line in CASES.read_text("utf-8").splitlines() if line.strip()]


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


def test_all_cases_are_there() -> None:
    assert len(cases()) == 95
