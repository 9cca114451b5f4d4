"""Agents and skills that change while we work: noticed, kept when they break, and never without trust."""

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from gencode.agents import file_watcher
from gencode.agents.file_watcher import FileWatcher
from gencode.agents.library import LiveRegistry, keep_skills, living_agents, living_skills
from gencode.agents.skills import Skills, users_folders
from gencode.core.errors import UserMistake
from gencode.permissions.trust import FolderTrust, revoke, standing, trust

SKILL = "---\nname: notes\ndescription: {described}\n---\nDo it.\n"
AGENT = "---\nname: tester\ndescription: {described}\n---\nTest.\n"


@pytest.fixture
def gen(home: Path) -> Path:
    folder = home / ".gen"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def add(folder: Path) -> None:
    put(folder / "new.md", "x")


def change(folder: Path) -> None:
    put(folder / "sub" / "old.md", "y")


def remove(folder: Path) -> None:
    (folder / "sub" / "old.md").unlink()


def swap(folder: Path) -> None:
    put(folder / "other", "x").replace(folder / "sub" / "old.md")


def remove_all(folder: Path) -> None:
    remove(folder)
    (folder / "sub").rmdir()
    folder.rmdir()


@pytest.mark.parametrize("action", [add, change, remove, swap, remove_all])
def test_a_change_is_noticed_once(tmp_path: Path, action: Callable[[Path], None]):
    folder = tmp_path / "agents"
    put(folder / "sub" / "old.md", "x")
    watch = FileWatcher([folder], settled=0)
    assert not watch.changed()
    action(folder)
    assert [watch.changed(), watch.changed()] == [True, False]


def test_a_folder_that_appears_later_is_noticed(tmp_path: Path):
    watch = FileWatcher([tmp_path / "a" / "b"], [tmp_path / "c"], settled=0)
    seen = [watch.changed()]
    for folder in ("a/b", "c"):
        (tmp_path / folder).mkdir(parents=True)
        seen.append(watch.changed())
    assert seen == [False, True, True]


def test_what_appears_below_missing_folders_is_noticed_and_what_is_beside_them_is_none_of_it(tmp_path: Path):
    watch = FileWatcher([tmp_path / "a" / "b" / "c"], [tmp_path / "d"], settled=0.01)

    def noticed(action: Callable[[], object]) -> bool:
        action()
        time.sleep(0.03)  # so that it is settled, and only what was there is asked for
        found = watch.changed()
        while watch.changed():
            time.sleep(0.03)
        return found

    c = tmp_path / "a" / "b" / "c"
    told = [
        noticed(lambda: put(tmp_path / "beside", "x")),
        noticed((tmp_path / "a").mkdir),
        noticed((tmp_path / "a" / "b").mkdir),
        noticed(lambda: put(c / "new.md", "x")),
        noticed(lambda: put(tmp_path / "a" / "b" / "beside", "x")),
        noticed(lambda: put(c / "new.md", "yy")),
        noticed(lambda: (tmp_path / "a").rename(tmp_path / "e")),
        noticed(lambda: (tmp_path / "d").symlink_to(tmp_path / "e")),
        noticed(lambda: put(tmp_path / "e" / "more.md", "x")),
        noticed(lambda: (tmp_path / "e").rename(tmp_path / "a")),
    ]
    assert told == [False, False, False, True, False, True, True, True, False, True]


def test_what_changed_a_moment_ago_is_looked_at_again(tmp_path: Path):
    put(tmp_path / "agents" / "a.md", "x")
    assert FileWatcher([tmp_path / "agents"], settled=3600).changed()


def looked(watch: FileWatcher) -> bool:
    """Whether a watch that looks by the side noticed something, once it has looked again."""
    seen: list[bool] = []
    for _ in range(3):  # one look may be under way, one begins now, and what it found is asked for
        for thread in threading.enumerate():
            if thread.name == "gencode-watch":
                thread.join()
        seen.append(watch.changed())
    return any(seen)


@pytest.mark.parametrize("action", [add, change, remove, swap, remove_all])
def test_a_change_among_very_many_files_is_noticed_by_the_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: Callable[[Path], None]
):
    monkeypatch.setattr(file_watcher, "MOST_FILES", 2)
    monkeypatch.setattr(file_watcher, "PAUSE", 0.0)
    folder = tmp_path / "agents"
    put(folder / "sub" / "old.md", "x")
    watch = FileWatcher([folder], settled=0)
    assert "more than 2 files" in watch.crowded
    looked(watch)
    assert not looked(watch)
    action(folder)
    assert [looked(watch), looked(watch)] == [True, False]


def test_of_very_many_files_the_listing_says_that_changes_are_noticed_late(
    gen: Path, monkeypatch: pytest.MonkeyPatch
):
    put(gen / "agents/tester.md", AGENT.format(described="Good."))
    monkeypatch.setattr(file_watcher, "MOST_FILES", 2)
    living = living_agents(gen)
    problems = [entry.problem for entry in living.current().listing() if entry.problem]
    assert [problem[:27] for problem in problems] == ["There are more than 2 files"]
    assert living.current().find("tester").description == "Good."


def test_links_are_followed_for_the_user_and_not_for_a_project(tmp_path: Path):
    outside = put(tmp_path / "outside" / "a.md", "x")
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "linked").symlink_to(outside.parent)
    user, project = (
        FileWatcher([tmp_path / "agents"], settled=0),
        FileWatcher([], [tmp_path / "agents"], settled=0),
    )
    outside.write_text("longer")
    assert (user.changed(), project.changed()) == (True, False)


def test_a_link_that_leads_round_in_circles_ends(tmp_path: Path):
    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "again").symlink_to(tmp_path / "agents")
    assert not FileWatcher([tmp_path / "agents"], settled=0).changed()


def described(skills: Skills) -> dict[str, str]:
    return {skill.name: skill.description for skill in skills.usable()}


def outdated(skills: Skills) -> list[str]:
    return [text for skill in skills.usable() if (text := skill.outdated)]


def test_a_changed_file_counts_for_the_next_use_and_an_earlier_one_stays_as_it_was(gen: Path):
    living = living_skills(gen)
    before = living.current()
    path = put(gen / "skills/notes/SKILL.md", SKILL.format(described="First."))
    first = living.current()
    path.write_text(SKILL.format(described="Other."))
    seen = [described(each) for each in (before, first, living.current())]
    assert seen == [{}, {"notes": "First."}, {"notes": "Other."}]


def test_nothing_is_read_again_while_nothing_changes(gen: Path):
    loads: list[Sequence[FolderTrust]] = []

    def load(projects: Sequence[FolderTrust]) -> Skills:
        loads.append(projects)
        return Skills.load(gen, *projects)

    living = LiveRegistry(load, keep_skills, FileWatcher(users_folders(gen), settled=0), gen)
    assert living.current() is living.current()
    assert loads == [()]


def test_a_file_that_breaks_keeps_its_last_good_version_and_says_so(gen: Path):
    path = put(gen / "skills/notes/SKILL.md", SKILL.format(described="Good."))
    living = living_skills(gen)
    for text in ("broken", "broken again"):
        path.write_text(text)
        now = living.current()
        assert described(now) == {"notes": "Good."}
        (warning,) = outdated(now)
        assert warning.startswith(f"{path}: it has no front matter")
    path.write_text(SKILL.format(described="Repaired."))
    repaired = living.current()
    assert (described(repaired), outdated(repaired)) == ({"notes": "Repaired."}, [])


def test_a_file_that_is_removed_is_gone(gen: Path):
    path = put(gen / "skills/notes/SKILL.md", SKILL.format(described="Good."))
    living = living_skills(gen)
    path.unlink()
    assert described(living.current()) == {}


def test_an_agent_that_breaks_keeps_its_last_good_version(gen: Path):
    path = put(gen / "agents/tester.md", AGENT.format(described="Good."))
    living = living_agents(gen)
    path.write_text("broken")
    spec = living.current().find("tester")
    assert (spec.description, spec.warnings) == ("Good.", ())
    assert spec.cautions == (f"an earlier version is used: {spec.outdated}",)


def trusting(project: Path, gen: Path) -> None:
    trust(standing(project, gen), gen)


def test_a_trusted_project_that_changes_counts_as_it_was_trusted_until_it_is_again(gen: Path, project: Path):
    path = put(project / ".gen/skills/notes/SKILL.md", SKILL.format(described="Trusted."))
    trusting(project, gen)
    living = living_skills(gen, [standing(project, gen)])
    path.write_text(SKILL.format(described="Sneaky."))
    put(project / ".gen/skills/more/SKILL.md", SKILL.format(described="New.").replace("notes", "more"))
    now = living.current()
    assert described(now) == {"notes": "Trusted."}
    assert outdated(now) == [living.note]
    assert "has changed since it was trusted" in living.note
    trusting(project, gen)
    again = living.current()
    assert (described(again), living.note) == ({"notes": "Sneaky.", "more": "New."}, "")


def test_an_agent_of_a_trusted_project_that_changes_counts_as_it_was_trusted(gen: Path, project: Path):
    path = put(project / ".gen/agents/tester.md", AGENT.format(described="Trusted."))
    trusting(project, gen)
    living = living_agents(gen, [standing(project, gen)])
    path.write_text(
        AGENT.format(described="Sneaky.").replace("---\nTest", "permission-mode: dontAsk\n---\nTest")
    )
    spec = living.current().find("tester")
    assert (spec.description, spec.mode) == ("Trusted.", None)
    assert spec.outdated == living.note


def test_a_new_agent_of_a_trusted_folder_waits_for_trust_alone(gen: Path, project: Path):
    put(project / ".gen/agents/tester.md", AGENT.format(described="Trusted."))
    trusting(project, gen)
    living = living_agents(gen, [standing(project, gen)])
    new = put(project / ".gen/agents/writer.md", AGENT.format(described="New.").replace("tester", "scribe"))
    now = living.current()
    why = f"{new}: it is new since its folder was trusted; review it with: gen trust {project}"
    with pytest.raises(UserMistake) as by_file:
        now.find("writer")
    with pytest.raises(UserMistake) as by_name:
        now.find("scribe")
    assert str(by_file.value) == f"The agent 'writer' cannot be used. {why}"
    assert str(by_name.value).startswith("There is no agent 'scribe'.")
    assert str(by_name.value).endswith(f"A file that was not read may hold it: {why}")
    assert now.find("tester").description == "Trusted."
    trusting(project, gen)
    assert living.current().find("scribe").description == "New."


@pytest.mark.parametrize("others", [0, 1])
def test_an_agent_of_a_trusted_project_whose_file_is_removed_is_gone(gen: Path, project: Path, others: int):
    path = put(project / ".gen/agents/tester.md", AGENT.format(described="Trusted."))
    for _ in range(others):
        put(project / ".gen/agents/other.md", AGENT.format(described="Stays.").replace("tester", "other"))
    trusting(project, gen)
    living = living_agents(gen, [standing(project, gen)])
    path.unlink()
    found = [entry.path for entry in living.current().listing() if entry.project]
    assert found == [str(project / ".gen/agents/other.md")] * others


def test_a_project_that_is_trusted_later_counts_from_then_on(gen: Path, project: Path):
    put(project / ".gen/skills/notes/SKILL.md", SKILL.format(described="Waits."))
    living = living_skills(gen, [standing(project, gen)])
    before = described(living.current())
    trusting(project, gen)
    assert (before, described(living.current())) == ({}, {"notes": "Waits."})


def test_trust_that_is_taken_back_counts_at_once(gen: Path, project: Path):
    put(project / ".gen/agents/tester.md", AGENT.format(described="Trusted."))
    trusting(project, gen)
    living = living_agents(gen, [standing(project, gen)])
    assert living.current().find("tester").description == "Trusted."
    revoke(project, gen)
    with pytest.raises(UserMistake, match="is not trusted"):
        living.current().find("tester")


def test_a_list_of_trusted_folders_that_cannot_be_read_changes_nothing(gen: Path, project: Path):
    put(project / ".gen/skills/notes/SKILL.md", SKILL.format(described="Trusted."))
    trusting(project, gen)
    living = living_skills(gen, [standing(project, gen)])
    (gen / "trust.toml").write_text("[")
    assert described(living.current()) == {"notes": "Trusted."}
    assert "trust.toml is not valid" in living.note


def test_a_projects_file_that_broke_and_was_trusted_so_is_broken(gen: Path, project: Path):
    path = put(project / ".gen/skills/notes/SKILL.md", SKILL.format(described="Trusted."))
    trusting(project, gen)
    living = living_skills(gen, [standing(project, gen)])
    path.write_text("broken")
    trusting(project, gen)
    assert [bool(entry.problem) for entry in living.current().listing()] == [True]
