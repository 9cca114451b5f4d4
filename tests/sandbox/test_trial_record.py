"""A sandbox is tried once on a machine that stays the same, and again on any other."""

from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from gencode.sandbox.choose_sandbox import best_sandbox
from gencode.sandbox.trial_record import TrialRecord, known_sandbox


def test_what_a_trial_found_is_kept_as_long_as_the_machine_stays_the_same(tmp_path: Path) -> None:
    found = known_sandbox(tmp_path)
    if not found.exists:
        pytest.skip("no sandbox works here")
    file = tmp_path / "sandbox.json"
    record = msgspec.json.decode(file.read_bytes(), type=TrialRecord)
    assert (record.name, record.possible) == (best_sandbox().name, best_sandbox().seen.possible)
    file.write_bytes(msgspec.json.encode(replace(record, passed_over=("known",))))
    again = known_sandbox(tmp_path)
    assert (again.name, again.passed_over, again.exists) == (found.name, ("known",), True)
    file.write_bytes(msgspec.json.encode(replace(record, machine=("another",), passed_over=("known",))))
    assert known_sandbox(tmp_path) == best_sandbox()


@pytest.mark.parametrize("text", ["", "{", '{"machine": 1}', "x" * 200_000])
def test_a_record_that_cannot_be_read_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "sandbox.json").write_text(text)
    assert known_sandbox(tmp_path) == best_sandbox()
