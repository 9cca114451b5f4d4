"""Hooks in plan mode: they run where they can write nothing, and nowhere else."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.interfaces.cli.running import Ended, gen, script

from gencode.settings import gen_home

READS: list[dict[str, Any]] = [
    {"calls": [{"name": "Read", "input": {"file_path": "notes.txt"}}]},
    {"text": "done"},
]


def asked(folder: Path, *words: str) -> Ended:
    """One turn that reads a file, with a hook before the call that writes one."""
    gen_home().mkdir(parents=True, exist_ok=True)
    command = "echo ran >&2; touch mark; exit 0"
    table = f"[[hooks.PreToolUse]]\nhooks = [{{type = 'command', command = {json.dumps(command)}}}]\n"
    (gen_home() / "settings.toml").write_text(table)
    (folder / "notes.txt").write_text("notes\n")
    model = script(folder, main=READS)
    return gen("-p", "go", "--model", model, "--output-format", "json", *words, cwd=folder)


def results(ended: Ended, folder: Path) -> list[bool]:
    """Whether each call was refused or failed."""
    shown = gen("sessions", "show", ended.json["sessionId"], "--json", cwd=folder).json
    found = [each for message in shown["transcript"] for each in message.get("results", ())]
    return [each.get("error", False) for each in found]


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize(("mode", "written"), [("default", True), ("plan", False)])
def test_a_hook_writes_in_the_workspace_but_not_in_plan_mode(
    tmp_path: Path, mode: str, written: bool
) -> None:
    ended = asked(tmp_path, "--permission-mode", mode)
    assert results(ended, tmp_path) == [False]
    assert (tmp_path / "mark").exists() == written


def test_where_there_is_no_sandbox_plan_mode_runs_no_hook_and_refuses_what_it_guards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEN_SANDBOX", "off")
    ended = asked(tmp_path, "--permission-mode", "plan")
    assert results(ended, tmp_path) == [True]
    assert not (tmp_path / "mark").exists()
