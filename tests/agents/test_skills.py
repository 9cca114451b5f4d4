"""The registry of skills: nearest first, what hides what, trust, listing, preloading and files."""

import os
from pathlib import Path

import pytest

from gencode.agents.skills import MOST_FILES, PreloadedSkills, Skills, users_folders
from gencode.core.errors import UnknownName, UserMistake
from gencode.core.spec import Skill, SkillEntry
from gencode.permissions.trust import FolderTrust, standing, trust

TEXT = "---\nname: {name}\ndescription: {described}\n---\nDo it.\n"


def write(folder: Path, name: str, described: str = "Does it.", text: str = TEXT) -> str:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.format(name=name, described=described), encoding="utf-8")
    return str(path)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def gen(home: Path) -> Path:
    folder = home / ".gen"
    folder.mkdir()
    return folder


def trusted(project: Path, gen: Path) -> FolderTrust:
    trust(standing(project, gen), gen)
    return standing(project, gen)


def test_without_folders_there_are_no_skills(gen: Path, project: Path):
    skills = Skills.load(gen, standing(project, gen))
    assert (skills.listing(), skills.lines(), skills.preloaded([])) == ([], "", PreloadedSkills())


def test_a_users_skill_is_found_and_listed(gen: Path):
    path = write(gen / "skills", "notes")
    skill = Skill("notes", "Does it.", "Do it.", path)
    skills = Skills.load(gen)
    assert skills.find("Notes") == skill
    assert skills.listing() == [SkillEntry(path, skill)]


def test_the_nearest_counts_and_the_others_stay_listed(gen: Path, home: Path, project: Path):
    paths = [
        write(folder, "notes", str(number))
        for number, folder in enumerate(
            (
                *(project / ".gen/skills", gen / "skills"),
                *(project / ".claude/skills", home / ".claude/skills"),
                *(project / ".agents/skills", home / ".agents/skills"),
            )
        )
    ]
    skills = Skills.load(gen, trusted(project, gen))
    assert [entry.path for entry in skills.listing()] == paths
    assert [entry.shadowed_by for entry in skills.listing()] == ["", *[paths[0]] * 5]
    assert skills.find("notes").description == "0"


def test_a_projects_skills_are_only_named_before_it_is_trusted(gen: Path, project: Path):
    path = write(project / ".claude/skills", "notes")
    found = standing(project, gen)
    skills = Skills.load(gen, found)
    assert skills.listing() == [SkillEntry(path, project=True, untrusted=f"{path}: {found.why_not}")]
    assert skills.usable() == []
    with pytest.raises(UserMistake, match="The skill 'notes' cannot be used.*is not trusted"):
        skills.find("notes")


def test_a_trusted_projects_skill_counts_with_its_trusted_bytes(gen: Path, project: Path):
    path = write(project / ".claude/skills", "notes")
    found = trusted(project, gen)
    Path(path).write_text(TEXT.format(name="notes", described="Something else."))
    skills = Skills.load(gen, found)
    assert [skill.description for skill in skills.usable()] == ["Does it."]


def test_a_pipe_in_the_place_of_a_file_does_not_hold_us(gen: Path):
    user = gen / "skills" / "pipe" / "SKILL.md"
    user.parent.mkdir(parents=True)
    os.mkfifo(user)
    assert Skills.load(gen).listing() == [SkillEntry(str(user), problem=f"{user}: it is not a file.")]


def test_one_broken_file_does_not_stop_the_others(gen: Path):
    good = write(gen / "skills", "good")
    bad = write(gen / "skills", "bad", text="no front matter")
    listed = {entry.path: bool(entry.problem) for entry in Skills.load(gen).listing()}
    assert listed == {bad: True, good: False}
    with pytest.raises(UserMistake, match="The skill 'bad' cannot be used"):
        Skills.load(gen).find("bad")


def test_an_unknown_name_offers_the_nearest(gen: Path):
    write(gen / "skills", "release-notes")
    with pytest.raises(UnknownName, match=r"There is no skill 'release-note'\. Did you mean release-notes"):
        Skills.load(gen).find("release-note")


def test_folders_sort_skills_and_nothing_below_a_skill_is_one(gen: Path, project: Path):
    for folder in (gen / "skills", project / ".claude/skills"):
        write(folder, "group/inner")
        write(folder, "group/inner/templates/other")
    users = [entry.path for entry in Skills.load(gen).listing()]
    assert users == [str(gen / "skills/group/inner/SKILL.md")]
    both = [entry.path for entry in Skills.load(gen, trusted(project, gen)).listing()]
    assert both == [*users, str(project / ".claude/skills/group/inner/SKILL.md")]


def test_a_folder_above_a_project_comes_after_it(gen: Path, project: Path):
    near, far = project / "near", project
    paths = [write(folder / ".gen/skills", "notes") for folder in (near, far)]
    skills = Skills.load(gen, *(trusted(folder, gen) for folder in (near, far)))
    assert [(entry.path, entry.shadowed_by) for entry in skills.listing()] == [
        (paths[0], ""),
        (paths[1], paths[0]),
    ]


def test_a_users_skill_may_lie_behind_a_link(gen: Path, tmp_path: Path):
    write(tmp_path / "dotfiles", "notes")
    (gen / "skills").mkdir()
    (gen / "skills" / "mine").symlink_to(tmp_path / "dotfiles" / "notes")
    (gen / "skills" / "round").symlink_to(gen / "skills")
    names = {entry.skill.name for entry in Skills.load(gen).listing() if entry.skill}
    assert names == {"notes"}


def test_in_the_home_folder_everything_is_the_users_own(gen: Path, home: Path):
    path = write(home / ".claude/skills", "notes")
    listed = Skills.load(gen, standing(home, gen)).listing()
    assert [(entry.path, entry.untrusted) for entry in listed] == [(path, "")]


def test_lines_are_one_each_by_name_without_the_hidden_ones(gen: Path):
    write(gen / "skills", "b", "Second.\\nWith a line.")
    write(gen / "skills", "a", '"First.\\nThing"')
    write(gen / "skills", "c", text="---\nname: c\ndescription: d\ndisable-model-invocation: true\n---\n")
    assert Skills.load(gen).lines() == "- a: First. Thing\n- b: Second.\\nWith a line."


@pytest.mark.parametrize("most", [400, 1_000, 4_000, 20_000])
def test_lines_keep_to_their_budget(gen: Path, most: int):
    for number in range(60):
        write(gen / "skills", f"skill-{number:02}", "word " * 100)
    lines = Skills.load(gen).lines(most)
    assert len(lines) <= most
    shown = [line for line in lines.splitlines() if line.startswith("- skill-")]
    left_out = lines.rpartition("- and ")[2].partition(" ")[0] if "- and " in lines else "0"
    assert len(shown) + int(left_out) == 60


def test_skills_are_preloaded_with_their_folder_and_warnings_for_the_rest(gen: Path):
    path = Path(write(gen / "skills", "notes"))
    write(gen / "skills", "mine", text="---\nname: mine\ndescription: d\ndisable-model-invocation: 1\n---\nx")
    skills = Skills.load(gen)
    assert skills.preloaded(["notes", "Notes", "mine", "gone"]) == PreloadedSkills(
        f"## Skills\n\n### Skill: notes\nIts folder: {path.parent}\n\nDo it.",
        (
            "the skill mine is only for people, so it was left out",
            "the skill 'gone' is not there: There is no skill 'gone'. There are: notes.",
        ),
    )


def test_preloading_keeps_to_its_budget_and_says_what_did_not_fit(gen: Path):
    for name in ("a", "b", "c"):
        write(gen / "skills", name, text=f"---\nname: {name}\ndescription: d\n---\n" + "word and\n" * 500)
    loaded = Skills.load(gen).preloaded(["a", "b", "c"], 6_000)
    assert len(loaded.text) <= 6_000
    assert loaded.warnings == (
        "only the beginning of the skill b was included",
        "there was no room left for the skill c",
    )


def test_files_of_a_skill_are_told_but_no_hidden_secret_or_linked_one(gen: Path, project: Path):
    for folder in (gen / "skills", project / ".gen/skills"):
        skill = Path(write(folder, folder.parent.parent.name)).parent
        for name in ("b.md", "scripts/a.py", ".hidden/x", "server.key", "node_modules/m.js"):
            (skill / name).parent.mkdir(exist_ok=True)
            (skill / name).write_text("x")
    found = trusted(project, gen)
    users = gen / "skills" / gen.parent.name
    (users / "link.md").symlink_to("/etc/hostname")
    skills = Skills.load(gen, found)
    for skill in skills.usable():
        folder = Path(skill.folder)
        assert skills.files(skill) == (str(folder / "b.md"), str(folder / "scripts/a.py"))


def test_very_many_files_are_not_all_told(gen: Path):
    folder = Path(write(gen / "skills", "notes")).parent
    for number in range(MOST_FILES + 10):
        (folder / f"{number:03}.md").write_text("x")
    skills = Skills.load(gen)
    assert len(skills.files(skills.find("notes"))) == MOST_FILES


def test_the_folders_of_the_user_are_known_before_they_are_there(gen: Path, home: Path):
    assert users_folders(gen) == [gen / "skills", home / ".claude/skills", home / ".agents/skills"]
