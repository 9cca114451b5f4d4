"""The example cases of the specification for file tools, run exactly as they are written."""

import json
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from gencode.core.rules import Action, Mode, Policy, Rule
from gencode.core.spec import Workspace
from gencode.permissions.calls import CallFacts
from gencode.permissions.decision import decide

CASES = Path(__file__).parent.parent / "cases"
FIELD = {"Glob": "pattern", "LS": "path", "Grep": "path"}


def cases_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CASES / name).read_text("utf-8").splitlines() if line.strip()]


@pytest.fixture
def root() -> Iterator[Path]:
    with TemporaryDirectory(prefix="gc") as folder:
        real = Path(folder).resolve()
        for each in ("ws/src", "ws/.git/hooks", "ws/.gen", "home", "outside", "ws-old"):
            (real / each).mkdir(parents=True)
        yield real


def build(root: Path, item: dict[str, str]) -> None:
    place = root / item["p"]
    place.parent.mkdir(parents=True, exist_ok=True)
    match item["t"]:
        case "file":
            place.write_text(item.get("text", ""))
        case "dir":
            place.mkdir(exist_ok=True)
        case "link":
            place.symlink_to(item["to"])
        case "hard":
            place.hardlink_to(root / item["to"])
        case "fifo":
            os.mkfifo(place)
        case "sock":
            with socket.socket(socket.AF_UNIX) as door:
                door.bind(str(place))
        case other:
            raise AssertionError(f"unknown setup item {other}")


def policies(case: dict[str, Any]) -> tuple[Policy, ...]:
    above = policies(case["parent"]) if "parent" in case else ()
    rules = tuple(Rule(each["tool"], each["pattern"], Action(each["action"])) for each in case["rules"])
    return (*above, Policy(Mode(case["mode"]), rules))


@pytest.mark.parametrize("written", cases_of("paths.jsonl"), ids=lambda case: case["id"])
def test_the_case_is_decided_as_it_expects(root: Path, written: dict[str, Any]) -> None:
    case = json.loads(json.dumps(written).replace("{ROOT}", str(root)))
    for item in case["setup"]:
        build(root, item)
    call = CallFacts(
        tool=case["tool"],
        input={FIELD.get(case["tool"], "file_path"): case["path"]},
        effect="write" if case["tool"] in ("Write", "Edit") else "read",
        workspace=Workspace(root / "ws", root / "ws", root / "home"),
        background=case.get("background", False),
        grant=Mode(case["grant"]) if "grant" in case else None,
    )
    decision = decide(call, policies(case))
    assert decision.action == case["expect"], decision


def test_the_copied_cases_are_all_there() -> None:
    counts = {name: len(cases_of(name)) for name in ("bash_permissions.jsonl", "paths.jsonl", "ssrf.jsonl")}
    assert counts == {"bash_permissions.jsonl": 95, "paths.jsonl": 29, "ssrf.jsonl": 20}


@pytest.mark.parametrize("kind", ["fifo", "sock"])
def test_a_pipe_or_socket_is_denied_in_every_mode(root: Path, kind: str) -> None:
    build(root, {"t": kind, "p": "ws/x"})
    where = Workspace(root / "ws", root / "ws", root / "home")
    found = {
        decide(
            CallFacts(tool=tool, input={FIELD.get(tool, "file_path"): "x"}, effect="read", workspace=where),
            [Policy(mode)],
        ).action
        for tool in ("Read", "LS", "Glob", "Grep", "Write", "Edit")
        for mode in Mode
    }
    assert found == {Action.DENY}
