"""`gen skills list`: what can be used, and a line about everything else."""

import json
from pathlib import Path

import pytest

from gencode.core.spec import Skill, SkillEntry
from gencode.interfaces.chat.agent_info import skill_line, skills_text
from gencode.interfaces.cli.main import main

TEXT = "---\nname: {name}\ndescription: Does it.\nagent: Plan\nallowed-tools: Read\n---\nDo it.\n"


def write(folder: Path, name: str, text: str = TEXT) -> str:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True)
    path.write_text(text.format(name=name))
    return str(path)


@pytest.fixture
def project(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a skill, beside one of the user's."""
    write(home / ".gen" / "skills", "mine")
    write(tmp_path / ".claude" / "skills", "theirs")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_skills_are_listed_as_json(project: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["skills", "list", "--json"]) == 0
    mine, theirs = json.loads(capsys.readouterr().out)["skills"]
    assert mine == {
        "name": "mine",
        "description": "Does it.",
        "source": str(home / ".gen/skills/mine/SKILL.md"),
        "agent": "Plan",
        "model": None,
        "tools": ["Read"],
        "hidden": False,
        "shadowedBy": None,
        "problem": None,
        "warnings": [],
        "project": False,
        "untrusted": None,
    }
    assert (theirs["name"], theirs["project"], "is not trusted" in theirs["untrusted"]) == (
        *("theirs", True, True),
    )


def test_skills_are_listed_as_a_table(project: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["skills", "list"]) == 0
    head, mine, theirs = capsys.readouterr().out.splitlines()
    assert head.split() == ["NAME", "AGENT", "SOURCE", "DESCRIPTION"]
    assert mine.split() == ["mine", "Plan", str(home / ".gen/skills/mine/SKILL.md"), "Does", "it."]
    assert theirs.startswith(
        f"untrusted: {project}/.claude/skills/theirs/SKILL.md: its folder is not trusted"
    )


def test_everything_that_does_not_count_is_named_and_nothing_acts_on_the_terminal() -> None:
    good = Skill("good", "Works\x1b[2J.", source="/a/SKILL.md", hidden=True, warnings=("odd",))
    entries = [
        SkillEntry("/a/SKILL.md", good),
        SkillEntry("/b/SKILL.md", good, shadowed_by="/a/SKILL.md"),
        SkillEntry("/c/SKILL.md", problem="/c/SKILL.md: it is not UTF-8 text."),
    ]
    _, table, *remarks = skills_text([*map(skill_line, entries)]).split("\n")
    assert "Works\\x1b[2J." in table
    assert remarks == [
        "only for people: /a/SKILL.md",
        "warning: /a/SKILL.md: odd",
        "shadowed: /b/SKILL.md (by /a/SKILL.md)",
        "warning: /b/SKILL.md: odd",
        "broken: /c/SKILL.md: it is not UTF-8 text.",
    ]


def test_without_any_the_first_step_is_told() -> None:
    assert "~/.gen/skills/NAME/SKILL.md" in skills_text([])
