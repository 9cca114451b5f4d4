"""The example cases of the specification for file tools, run exactly as they are written."""

from pathlib import Path

import pytest

from gencode.core.rules import Action, Mode, Policy
from gencode.core.spec import Workspace
from gencode.permissions.calls import CallFacts
from gencode.permissions.case_folders import Item, scratch
from gencode.permissions.cases import CaseResult, judge_file
from gencode.permissions.decision import decide

CASES = Path(__file__).parent.parent / "cases"
FIELD = {"Glob": "pattern", "LS": "path", "Grep": "path"}


def judged(name: str) -> list[CaseResult]:
    with (CASES / name).open("rb") as file:
        return list(judge_file(file))


@pytest.mark.parametrize("case", judged("paths.jsonl"), ids=lambda case: case.id)
def test_the_case_is_decided_as_it_expects(case: CaseResult) -> None:
    assert case.expect is not None
    assert case.met, case


def test_the_copied_cases_are_all_there() -> None:
    counts = {name: len(judged(name)) for name in ("bash_permissions.jsonl", "paths.jsonl", "ssrf.jsonl")}
    assert counts == {"bash_permissions.jsonl": 286, "paths.jsonl": 43, "ssrf.jsonl": 22}


@pytest.mark.parametrize("item", [Item("fifo", "ws/x"), Item("sock", "ws/x")], ids=lambda item: item.t)
def test_a_pipe_or_socket_is_denied_in_every_mode(item: Item) -> None:
    with scratch() as place, place.built([item]):
        where = Workspace(place.root / "ws", place.root / "ws", place.root / "home")
        calls = [
            CallFacts(tool=tool, input={FIELD.get(tool, "file_path"): "x"}, effect="read", workspace=where)
            for tool in ("Read", "LS", "Glob", "Grep", "Write", "Edit")
        ]
        found = {decide(call, [Policy(mode)]).action for call in calls for mode in Mode}
    assert found == {Action.DENY}
