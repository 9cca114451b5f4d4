"""Real agent files of 42 repositories load as their authors meant; what is no agent says why."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gencode.agents.dialect import AgentFile
from gencode.agents.lint import lint

pytestmark = pytest.mark.needs("shared")

ENOUGH = 0.97


@pytest.fixture(scope="module")
def corpus() -> Path:
    return Path(__file__).parents[3] / "shared" / "corpus" / "agents"


@pytest.fixture(scope="module")
def read(corpus: Path) -> list[tuple[dict[str, Any], AgentFile]]:
    """Every expected file with what the linter made of it."""
    expected = [json.loads(line) for line in (corpus / "expected.jsonl").read_text("utf-8").splitlines()]
    found = {file.path: file for file in lint([corpus / "files"]).files}
    return [(row, found[str(corpus / row["path"])]) for row in expected]


Read = list[tuple[dict[str, Any], AgentFile]]


def test_every_file_of_the_corpus_is_read_and_counted(read: Read) -> None:
    stages = Counter(file.stage for _, file in read)
    loadable = [(row, file) for row, file in read if row["loadable"]]
    tools = sum(_tools_agree(row, file) for row, file in loadable)
    names = sum(_name_agrees(row, file) for row, file in loadable)
    print(f"{len(read)} files, {len(loadable)} agents, {names} names, {tools} tools, stages {dict(stages)}")
    assert len(read) >= 1_300


def test_exactly_the_loadable_files_load(read: Read) -> None:
    wrong = [
        (row["path"], file.why_not) for row, file in read if row["loadable"] is not (file.spec is not None)
    ]
    assert wrong == []


def test_every_agent_has_the_expected_name(read: Read) -> None:
    wrong = [
        (row["path"], file.spec.name)
        for row, file in read
        if file.spec is not None and not _name_agrees(row, file)
    ]
    assert wrong == []


def test_nearly_every_agent_has_the_expected_tools(read: Read) -> None:
    agents = [(row, file) for row, file in read if file.spec is not None]
    wrong = [(row["path"], file.tools) for row, file in agents if not _tools_agree(row, file)]
    assert len(wrong) <= len(agents) * (1 - ENOUGH), wrong


def test_every_denial_and_every_model_is_read_as_written(read: Read) -> None:
    wrong = [
        (row["path"], file.disallowed, file.model)
        for row, file in read
        if file.spec is not None
        and (set(file.disallowed), file.model) != (set(row["disallowed_tools"]), row["model"])
    ]
    assert wrong == []


def test_every_description_begins_as_expected(read: Read) -> None:
    wrong = [
        (row["path"], _beginning(file.spec.description))
        for row, file in read
        if file.spec is not None and row["description_prefix"]
        if _beginning(file.spec.description) != row["description_prefix"]
    ]
    assert wrong == []


def test_what_is_no_agent_names_its_file_and_the_reason(read: Read) -> None:
    wrong = [
        (row["why_not"], file.why_not)
        for row, file in read
        if not row["loadable"] and not (row["why_not"] in file.why_not and file.path in file.why_not)
    ]
    assert wrong == []


def test_a_list_of_tools_never_gives_all_of_them(read: Read) -> None:
    widened = [
        row["path"]
        for row, file in read
        if file.spec is not None and isinstance(file.tools, list) and file.spec.tools.allow is None
    ]
    assert widened == []


def test_files_that_strict_yaml_refuses_say_that_they_were_repaired(read: Read) -> None:
    broken = [
        file for row, file in read if row["loadable"] and row["strict_error"] and row["format"] != "kimi"
    ]
    assert [file.path for file in broken if file.stage == "strict"] == []
    assert [file.path for file in broken if "recovered" not in {each.code for each in file.findings}] == []


def _name_agrees(row: dict[str, Any], file: AgentFile) -> bool:
    return file.spec is not None and file.spec.name in (row["name"], row["name_also_ok"])


def _tools_agree(row: dict[str, Any], file: AgentFile) -> bool:
    return file.tools == row["tools"] or (
        row["tools_also_ok"] is not None and file.tools == row["tools_also_ok"]
    )


def _beginning(text: str) -> str:
    return " ".join(text.replace("\\n", " ").replace("\\t", " ").split())[:60]
