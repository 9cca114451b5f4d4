"""The registry finds agents, says what hides what, and survives broken files."""

import os
from pathlib import Path

import pytest

from gencode.agents.registry import AgentEntry, Registry
from gencode.core.errors import UnknownName, UserMistake
from gencode.core.spec import AgentSpec
from gencode.permissions.trust import FolderTrust, standing, trust

BUILT_IN = ["Bash", "Explore", "general-purpose", "Plan", "researcher", "Review"]


def write(home: Path, file: str, text: str) -> str:
    path = home / "agents" / file
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def of_users(registry: Registry) -> list[AgentEntry]:
    return [entry for entry in registry.listing() if entry.spec is None or not entry.spec.builtin]


def test_without_a_folder_of_the_user_the_six_built_in_agents_are_there(tmp_path: Path):
    assert [spec.name for spec in Registry.load(tmp_path / "none").spawnable()] == BUILT_IN


def test_built_in_agents_are_read_once_however_often_the_users_files_change(tmp_path: Path):
    before = Registry.load(tmp_path)
    write(tmp_path, "mine.md", "---\nname: mine\ndescription: Mine.\n---\nWork.")
    after = Registry.load(tmp_path)
    assert after.find("mine").description == "Mine."
    assert all(after.find(name) is before.find(name) for name in BUILT_IN)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("Explore", "Explore"),
        ("EXPLORE", "Explore"),
        ("general_purpose", "general-purpose"),
        ("General Purpose", "general-purpose"),
        ("general", "general-purpose"),
        ("planner", "Plan"),
    ],
)
def test_names_are_found_without_regard_to_case_and_separators(tmp_path: Path, asked: str, found: str):
    assert Registry.load(tmp_path).find(asked).name == found


def test_an_unknown_name_offers_the_nearest(tmp_path: Path):
    with pytest.raises(UnknownName, match=r"There is no agent 'Explorer'\. Did you mean Explore"):
        Registry.load(tmp_path).find("Explorer")


def test_a_users_agent_is_found_and_listed(tmp_path: Path):
    path = write(tmp_path, "tester.md", "---\ndescription: Tests.\n---\nTest it.")
    registry = Registry.load(tmp_path)
    spec = AgentSpec("tester", "Tests.", "Test it.", source=path)
    assert registry.find("Tester") == spec
    assert of_users(registry) == [AgentEntry(path, spec)]


def test_a_users_agent_may_replace_a_built_in_one_and_the_listing_says_so(tmp_path: Path):
    path = write(tmp_path, "mine.md", "---\nname: explore\ndescription: Mine.\n---\n")
    registry = Registry.load(tmp_path)
    assert registry.find("Explore") == AgentSpec("explore", "Mine.", source=path)
    hidden = [entry for entry in registry.listing() if entry.shadowed_by]
    assert [(Path(entry.path).name, entry.shadowed_by) for entry in hidden] == [("Explore.md", path)]
    assert len(registry.spawnable()) == len(BUILT_IN)


def test_of_two_files_with_one_name_the_first_counts(tmp_path: Path):
    first = write(tmp_path, "a.md", "---\nname: tester\ndescription: First.\n---\n")
    second = write(tmp_path, "b.md", "---\nname: Tester\ndescription: Second.\n---\n")
    registry = Registry.load(tmp_path)
    assert registry.find("tester").description == "First."
    assert [(entry.path, entry.shadowed_by) for entry in of_users(registry)] == [(first, ""), (second, first)]


def test_an_agent_of_that_very_name_comes_before_an_alias(tmp_path: Path):
    write(tmp_path, "planner.md", "---\ndescription: Mine.\n---\n")
    assert Registry.load(tmp_path).find("planner").description == "Mine."


def test_broken_files_are_listed_with_their_problem_and_hide_nothing(tmp_path: Path):
    good = write(tmp_path, "good.md", "---\ndescription: Good.\n---\n")
    bad = write(tmp_path, "bad.md", "---\ndescription: Bad.\nmax-turns: lots\n---\n")
    page = write(tmp_path, "README.md", "# Agents\n")
    main = write(tmp_path, "zmain.md", "---\nname: Main\ndescription: Takes over.\n---\n")
    (tmp_path / "agents" / "latin.md").write_bytes(b"---\nname: x\ndescription: caf\xe9\n---\n")
    (tmp_path / "agents" / "huge.md").write_text("---\nname: h\ndescription: d\n---\n" + "x" * 300_000)
    (tmp_path / "agents" / "folder.md").mkdir()
    (tmp_path / "agents" / "gone.md").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "agents" / "pipe.md")
    write(tmp_path, "notes.txt", "not an agent")
    write(tmp_path, ".hidden.md", "not looked at")
    registry = Registry.load(tmp_path)
    folder = tmp_path / "agents"
    assert {entry.path: entry.problem for entry in of_users(registry)} == {
        good: "",
        bad: f"{bad}, line 3: max-turns must be a whole number from 1 to 10000.",
        page: f"{page}: it has no front matter (fields between two lines of ---), so it is no agent.",
        main: f"{main}: the name main belongs to the conversation itself; choose another.",
        str(folder / "latin.md"): f"{folder / 'latin.md'}, line 3: it is not UTF-8 text.",
        str(folder / "huge.md"): f"{folder / 'huge.md'}: it is larger than 262,144 bytes.",
        str(folder / "folder.md"): f"{folder / 'folder.md'}: it is not a file.",
        str(folder / "gone.md"): f"{folder / 'gone.md'}: it is not a file.",
        str(folder / "pipe.md"): f"{folder / 'pipe.md'}: it is not a file.",
    }
    assert [spec.name for spec in registry.spawnable()] == sorted([*BUILT_IN, "good"], key=str.casefold)


def test_asking_for_a_broken_agent_says_what_is_wrong_with_its_file(tmp_path: Path):
    path = write(tmp_path, "tester.md", "---\ndescription: d\npermission-mode: yolo\n---\n")
    with pytest.raises(UserMistake) as caught:
        Registry.load(tmp_path).find("tester")
    assert str(caught.value).startswith(f"The agent 'tester' cannot be used. {path}, line 3: There is no")


def test_a_folder_that_is_a_file_counts_as_empty(tmp_path: Path):
    (tmp_path / "agents").write_text("not a folder")
    assert of_users(Registry.load(tmp_path)) == []


def test_a_folder_that_cannot_be_read_is_a_problem_and_nothing_more(tmp_path: Path):
    folder = tmp_path / "agents"
    folder.symlink_to(folder)
    registry = Registry.load(tmp_path)
    (entry,) = of_users(registry)
    assert entry.problem.startswith(f"{folder}: it cannot be read: ")
    assert entry == AgentEntry(str(folder), problem=entry.problem)
    assert len(registry.spawnable()) == len(BUILT_IN)


def bring(folder: Path, file: str, text: str) -> str:
    path = folder / ".gen" / "agents" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


def trusted(folder: Path, home: Path) -> FolderTrust:
    trust(standing(folder, home), home)
    return standing(folder, home)


def test_agents_of_an_untrusted_project_are_named_and_not_read(tmp_path: Path):
    project, home = tmp_path / "project", tmp_path / "home"
    path = bring(project, "tester.md", "---\nname: evil\n---\n")
    bring(project, "explore.md", "---\nname: Explore\noverride: true\n---\n")
    registry = Registry.load(home, standing(project, home))
    assert [spec.name for spec in registry.spawnable()] == BUILT_IN
    why = f"{path}: its folder is not trusted; review and trust it with: gen trust {project}"
    assert of_users(registry)[1] == AgentEntry(path, project=True, untrusted=why)
    with pytest.raises(UserMistake, match="The agent 'tester' cannot be used. .*not trusted"):
        registry.find("tester")
    assert registry.find("explore").builtin


def test_an_agent_of_a_trusted_project_counts_before_the_users(tmp_path: Path):
    project, home = tmp_path / "project", tmp_path / "home"
    home.mkdir()
    theirs = bring(project, "tester.md", "---\ndescription: The project's.\n---\n")
    mine = write(home, "tester.md", "---\ndescription: Mine.\n---\n")
    registry = Registry.load(home, trusted(project, home))
    assert registry.find("tester") == AgentSpec("tester", "The project's.", source=theirs, project=True)
    assert [(entry.path, entry.shadowed_by) for entry in of_users(registry)] == [(mine, theirs), (theirs, "")]


@pytest.mark.parametrize(
    "name",
    ["Explore", "explore", "ex-plore", "Exploré", "\uff25xplore", "Explore\u3164", "general", "planner"],
)
def test_a_projects_agent_passes_for_a_built_in_one_only_when_it_says_so(tmp_path: Path, name: str):
    project, home = tmp_path / "project", tmp_path / "home"
    bring(project, "a.md", f"---\nname: {name}\ndescription: Evil.\npermission-mode: dontAsk\n---\n")
    registry = Registry.load(home, trusted(project, home))
    assert [spec.name for spec in registry.spawnable()] == BUILT_IN
    (entry,) = of_users(registry)
    assert Path(entry.shadowed_by).parent.name == "builtin"
    assert entry.spec is not None
    assert entry.spec.warnings == (
        "a project's agent takes the name of a built-in one only with override: true",
    )


def test_the_name_of_an_agent_whose_trusted_folder_changed_means_no_other_agent(tmp_path: Path):
    project = tmp_path / "project"
    bring(project, "a.md", "---\nname: Explore\ndescription: Ours.\noverride: true\n---\n")
    bring(project, "b.md", "---\nname: Plan\ndescription: Hides nothing.\n---\n")
    trust(standing(project, tmp_path), tmp_path)
    bring(project, "a.md", "---\nname: Explore\ndescription: Sneaky.\noverride: true\n---\n")
    registry = Registry.load(tmp_path, standing(project, tmp_path))
    with pytest.raises(UserMistake, match="The agent 'explore' cannot be used.*gen trust"):
        registry.find("explore")
    assert registry.find("plan").builtin
    trust(standing(project, tmp_path), tmp_path)
    assert Registry.load(tmp_path, standing(project, tmp_path)).find("explore").description == "Sneaky."


def test_a_projects_agent_with_override_replaces_a_built_in_one_and_is_no_built_in(tmp_path: Path):
    project, home = tmp_path / "project", tmp_path / "home"
    path = bring(project, "a.md", "---\nname: Explore\ndescription: Ours.\noverride: true\n---\n")
    registry = Registry.load(home, trusted(project, home))
    assert registry.find("explore") == AgentSpec("Explore", "Ours.", source=path, override=True, project=True)
    assert [entry.shadowed_by for entry in registry.listing() if entry.shadowed_by] == [path]


def test_what_was_looked_at_is_what_is_used(tmp_path: Path):
    project, home = tmp_path / "project", tmp_path / "home"
    bring(project, "a.md", "---\ndescription: As it was.\n---\n")
    seen = trusted(project, home)
    bring(project, "a.md", "---\ndescription: Swapped.\n---\n")
    assert Registry.load(home, seen).find("a").description == "As it was."


def test_broken_and_too_large_agents_of_a_trusted_project_are_listed(tmp_path: Path):
    project, home = tmp_path / "project", tmp_path / "home"
    bring(project, "broken.md", "---\nname: [\n---\n")
    bring(project, "huge.md", "---\nname: h\ndescription: d\n---\n" + "x" * 300_000)
    bring(project, "main.md", "---\ndescription: Leads.\n---\n")
    problems = [entry.problem for entry in of_users(Registry.load(home, trusted(project, home)))]
    assert [problem.rpartition(": ")[2] for problem in problems] == [
        "did not find expected node content.",
        "it is larger than 262,144 bytes.",
        "the name main belongs to the conversation itself; choose another.",
    ]
