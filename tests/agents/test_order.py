"""Of agents with one name the first in the order of the contract counts, and the others stay listed."""

from pathlib import Path

import pytest

from gencode.agents.registry import AgentEntry, Registry
from gencode.permissions.trust import FolderTrust, standing, trust

AGENT = "---\nname: {name}\ndescription: From {place}.\n---\nbody"
IN_ORDER = (
    ("project", ".gen/agents/a.md"),
    ("home", ".gen/agents/a.md"),
    ("project", ".claude/agents/deep/a.md"),
    ("home", ".claude/agents/a.md"),
    ("project", ".agents/agents/a.md"),
    ("home", ".agents/agents/a.md"),
    ("project", "data/subagents/a/SUBAGENT.md"),
    ("project", "subagents/a/SUBAGENT.md"),
    ("project", ".opencode/agent/a.md"),
    ("project", ".github/agents/a.agent.md"),
    ("project", ".qwen/agents/a.md"),
    ("home", ".config/opencode/agent/a.md"),
    ("home", ".qwen/agents/a.md"),
)


def put(root: Path, place: tuple[str, str], name: str = "a") -> Path:
    path = root / place[0] / place[1]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(AGENT.format(name=name, place="/".join(place)))
    return path


def loaded(root: Path, *above: FolderTrust, trusted: bool = True) -> Registry:
    project, home = root / "project", root / "home" / ".gen"
    project.mkdir(exist_ok=True)
    found = standing(project, home)
    if trusted and found.brought.anything:
        trust(found, home)
        found = standing(project, home)
    return Registry.load(home, found, *above, user=root / "home")


@pytest.mark.parametrize("at", range(len(IN_ORDER)))
def test_each_place_counts_before_all_after_it(tmp_path: Path, at: int):
    first, *others = [put(tmp_path, place) for place in IN_ORDER[at:]]
    registry = loaded(tmp_path)
    assert registry.find("A").description == f"From {'/'.join(IN_ORDER[at])}."
    shadows = {entry.path: entry.shadowed_by for entry in registry.listing() if entry.shadowed_by}
    assert shadows == {str(path): str(first) for path in others}


def test_before_it_is_trusted_a_project_brings_only_names(tmp_path: Path):
    places = [place for place in IN_ORDER if place[0] == "project"]
    paths = [str(put(tmp_path, place)) for place in places]
    listed = [entry for entry in loaded(tmp_path, trusted=False).listing() if entry.project]
    assert sorted(entry.path for entry in listed) == sorted(paths)
    assert all("is not trusted" in entry.untrusted and entry.spec is None for entry in listed)


def test_a_users_file_of_any_dialect_may_replace_a_built_in_agent(tmp_path: Path):
    put(tmp_path, ("home", ".claude/agents/explore.md"), "explore")
    assert loaded(tmp_path).find("Explore").dialect == "claude"


def test_a_projects_file_of_any_dialect_does_so_only_when_it_says_so(tmp_path: Path):
    path = put(tmp_path, ("project", ".claude/agents/explore.md"), "explore")
    assert loaded(tmp_path).find("Explore").builtin
    path.write_text(path.read_text().replace("---\nbody", "override: true\n---\nbody"))
    assert not loaded(tmp_path).find("Explore").builtin


def test_the_nearest_of_several_folders_counts(tmp_path: Path):
    far = tmp_path / "far"
    put(tmp_path, ("far", ".claude/agents/a.md"))
    put(tmp_path, ("far", ".claude/agents/b.md"), "b")
    near = put(tmp_path, ("project", ".claude/agents/a.md"))
    home = tmp_path / "home" / ".gen"
    trust(standing(far, home), home)
    registry = loaded(tmp_path, standing(far, home))
    assert registry.find("a").source == str(near)
    assert registry.find("b").source == str(far / ".claude/agents/b.md")


@pytest.mark.parametrize(
    ("near", "far", "counts"),
    [
        (".qwen/agents/a.md", ".opencode/agent/a.md", "project"),
        (".cursor/agents/a.md", ".github/agents/a.agent.md", "project"),
        ("subagents/a/SUBAGENT.md", "data/subagents/a/SUBAGENT.md", "project"),
        (".claude/agents/a.md", ".gen/agents/a.md", "far"),
        (".agents/agents/a.md", ".claude/agents/a.md", "far"),
        (".opencode/agent/a.md", "subagents/a/SUBAGENT.md", "far"),
    ],
)
def test_the_nearest_folder_comes_first_within_a_level_of_the_contract(
    tmp_path: Path, near: str, far: str, counts: str
):
    home = tmp_path / "home" / ".gen"
    paths = {"project": put(tmp_path, ("project", near)), "far": put(tmp_path, ("far", far))}
    trust(standing(tmp_path / "far", home), home)
    registry = loaded(tmp_path, standing(tmp_path / "far", home))
    assert registry.find("a").source == str(paths[counts])
    shadowed = [(entry.path, entry.shadowed_by) for entry in registry.listing() if entry.shadowed_by]
    (other,) = {"project", "far"} - {counts}
    assert shadowed == [(str(paths[other]), str(paths[counts]))]


def test_a_user_who_works_at_home_has_each_agent_once(tmp_path: Path):
    home = tmp_path / "home"
    path = put(tmp_path, ("home", ".claude/agents/a.md"))
    registry = Registry.load(home / ".gen", standing(home, home / ".gen"), user=home)
    spec = registry.find("a")
    assert [entry for entry in registry.listing() if entry.path == str(path)] == [
        AgentEntry(str(path), spec, dialect="claude")
    ]


def test_a_hidden_agent_is_found_and_not_offered(tmp_path: Path):
    path = put(tmp_path, ("home", ".claude/agents/a.md"))
    path.write_text(path.read_text().replace("---\nbody", "hidden: true\n---\nbody"))
    registry = loaded(tmp_path)
    assert registry.find("a").hidden
    assert "a" not in [spec.name for spec in registry.spawnable()]
