"""Real skills of other people are read as they were meant: all of those beside the clone."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from gencode.agents.skill_file import read_skill
from gencode.core.errors import UserMistake
from gencode.core.spec import Skill
from gencode.permissions.project_files import LARGEST_KEPT


def rows(shared: Path) -> list[dict[str, Any]]:
    lines = (shared / "corpus" / "skills" / "expected.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def read(shared: Path, row: dict[str, Any]) -> Skill | str:
    """The skill, or why it is none."""
    path = shared / "corpus" / "skills" / row["path"]
    try:
        return read_skill(path.read_bytes()[: LARGEST_KEPT + 1], str(path))
    except UserMistake as mistake:
        return str(mistake)


def prefix(text: str) -> str:
    return " ".join(re.sub(r"\\[nt]", " ", text).split())[:60].strip()


def found(skill: Skill | str, row: dict[str, Any]) -> dict[str, Any]:
    """What was read, in the words of the expectation; a second right answer is put as the first."""
    if isinstance(skill, str):
        return {"loadable": False}
    tools = "all" if skill.tools is None else list(skill.tools)
    return {
        "loadable": True,
        "name": row["name"] if skill.name == row["name_also_ok"] else skill.name,
        "description": prefix(skill.description),
        "tools": row["tools"] if tools == row["tools_also_ok"] else tools,
        "model": skill.model or None,
    }


def expected(row: dict[str, Any]) -> dict[str, Any]:
    if not row["loadable"]:
        return {"loadable": False}
    return {
        "loadable": True,
        "name": row["name"],
        "description": row["description_prefix"].strip(),
        "tools": row["tools"],
        "model": row["model"],
    }


@pytest.mark.needs("shared")
def test_every_skill_of_the_corpus_is_read_as_it_was_meant(shared: Path) -> None:
    wrong = {
        row["path"]: (found(skill, row), expected(row))
        for row in rows(shared)
        if found(skill := read(shared, row), row) != expected(row)
    }
    assert wrong == {}


@pytest.mark.needs("shared")
def test_every_file_that_is_none_names_itself_and_the_reason(shared: Path) -> None:
    told = {row["path"]: read(shared, row) for row in rows(shared) if not row["loadable"]}
    assert len(told) == 6
    silent = [
        path
        for path, why in told.items()
        if not (isinstance(why, str) and path in why and "no front matter" in why and "no skill" in why)
    ]
    assert silent == []
