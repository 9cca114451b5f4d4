"""Names that are no UTF-8, links that lead back, names that are taken."""

import json
from pathlib import Path

import pytest

from gencode.agents.registry import Registry, users_files
from gencode.core.errors import UnknownName, UserMistake
from gencode.core.outcome import as_json


def test_a_name_that_is_not_utf8_is_escaped_in_json():
    assert json.loads(as_json({"path": ["a\udcff.md"], "n": 1})) == {"path": ["a\\udcff.md"], "n": 1}


def test_an_unknown_name_among_thousands_is_told_in_a_short_sentence():
    told = str(UnknownName("agent", "zz", (f"name-{number:05}" for number in range(10_000))))
    assert told.endswith("name-00019 and 9,980 more.")
    assert len(told) < 400


def test_a_link_that_leads_back_lists_no_agent_again(tmp_path: Path):
    folder = tmp_path / ".claude" / "agents"
    folder.mkdir(parents=True)
    (folder / "x.md").write_text("")
    (folder / "loop").symlink_to(folder)
    assert [each.path for each in users_files(tmp_path / "gen", tmp_path)] == [folder / "x.md"]


@pytest.mark.parametrize(("name", "project"), [("main", True), ("Main", False), ("Explore", True)])
def test_no_file_is_written_that_could_never_count(name: str, project: bool, tmp_path: Path):
    with pytest.raises(UserMistake, match="main belongs|override: true"):
        Registry.write(tmp_path, {"name": name, "description": "d"}, project=project)
    assert list(tmp_path.iterdir()) == []


def test_the_user_may_take_the_place_of_a_built_in_agent(tmp_path: Path):
    assert Registry.write(tmp_path, {"name": "Explore", "description": "d"}).spec is not None
