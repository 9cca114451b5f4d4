"""What files say to agents: found up to the top of the repository, bounded, quoted, and never a way out."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.agent.instructions import DEEPEST_IMPORT, MOST, MOST_OF_USERS, Instructions
from gencode.agent.instructions import _mentions as mentions  # pyright: ignore[reportPrivateUsage]
from gencode.app import GenCode
from gencode.core.rules import Action, Mode, Policy, Rule
from gencode.core.spec import Workspace
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.testing import Overhearing, call, says, scripted

PLAIN = (Policy(),)


def told(folder: Path, home: Path, chain: tuple[Policy, ...] = PLAIN) -> str:
    return Instructions(home / ".gen")(Workspace(folder, folder, home), chain)


def sections(text: str) -> dict[str, list[str]]:
    """The quoted lines under each file's name."""
    found: dict[str, list[str]] = {}
    name = ""
    for line in text.split("\n"):
        if line.endswith(":") and not line.startswith(">"):
            name = line.removesuffix(":")
        elif line.startswith(">"):
            found.setdefault(name, []).append(line.removeprefix(">").removeprefix(" "))
    return found


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "sub").mkdir()
    return tmp_path / "repo"


def test_where_nothing_is_kept_nothing_is_told(repository: Path, home: Path) -> None:
    assert told(repository, home) == ""


def test_files_are_found_up_to_the_top_of_the_repository_and_the_nearest_comes_last(
    repository: Path, home: Path
) -> None:
    write(repository.parent / "AGENTS.md", "beyond")
    write(repository / "AGENTS.md", "top")
    write(repository / "sub" / "CLAUDE.md", "near")
    write(repository / "sub" / ".gen" / "instructions.md", "ours")
    write(home / ".gen" / "instructions.md", "mine")
    write(home / ".claude" / "CLAUDE.md", "mine too")
    assert list(sections(told(repository / "sub", home)).items()) == [
        ("~/.gen/instructions.md (the user's)", ["mine"]),
        ("~/.claude/CLAUDE.md (the user's)", ["mine too"]),
        ("AGENTS.md (the project's)", ["top"]),
        ("sub/.gen/instructions.md (the project's)", ["ours"]),
        ("sub/CLAUDE.md (the project's)", ["near"]),
    ]


def test_outside_of_a_repository_only_the_folder_itself_counts(tmp_path: Path, home: Path) -> None:
    write(tmp_path / "AGENTS.md", "above")
    write(tmp_path / "here" / "AGENTS.md", "here")
    assert sections(told(tmp_path / "here", home)) == {"AGENTS.md (the project's)": ["here"]}


def test_a_file_that_is_linked_or_imported_twice_is_told_once(repository: Path, home: Path) -> None:
    write(repository / "AGENTS.md", "all of it, with @AGENTS.md and @docs/style.md and @docs/style.md.")
    (repository / "CLAUDE.md").symlink_to("AGENTS.md")
    write(repository / "docs" / "style.md", "and back to @../AGENTS.md")
    assert list(sections(told(repository, home))) == [
        "AGENTS.md (the project's)",
        "docs/style.md (the project's)",
    ]


def test_imports_go_so_deep_and_no_deeper(repository: Path, home: Path) -> None:
    write(repository / "AGENTS.md", "@1.md")
    for number in range(1, 8):
        write(repository / f"{number}.md", f"@{number + 1}.md")
    assert len(sections(told(repository, home))) == 1 + DEEPEST_IMPORT


@pytest.mark.parametrize(
    "mention",
    [
        "@/etc/passwd",
        "@../outside.md",
        "@~/notes.md",
        "@linked.md",
        "@linked/outside.md",
        "@.env",
        "@pipe",
        "@.",
    ],
)
@pytest.mark.parametrize("mode", [Mode.DEFAULT, Mode.DONT_ASK])
def test_nothing_leads_out_of_the_repository_or_to_a_secret(
    repository: Path, home: Path, mention: str, mode: Mode
) -> None:
    write(repository.parent / "outside.md", "outside")
    write(home / "notes.md", "private")
    write(repository / ".env", "KEY=1")
    os.mkfifo(repository / "pipe")
    (repository / "linked.md").symlink_to(repository.parent / "outside.md")
    (repository / "linked").symlink_to(repository.parent)
    write(repository / "AGENTS.md", mention)
    found = sections(told(repository, home, (Policy(mode),)))
    assert found == {"AGENTS.md (the project's)": [mention]}


def test_a_file_that_is_a_link_to_elsewhere_is_not_told(repository: Path, home: Path) -> None:
    (repository / "AGENTS.md").symlink_to("/etc/passwd")
    assert told(repository, home) == ""


def test_the_users_files_name_only_what_lies_beside_them(repository: Path, home: Path) -> None:
    write(home / ".claude" / "CLAUDE.md", "@style.md @../secret.md @~/.claude/more.md")
    write(home / ".claude" / "style.md", "style")
    write(home / ".claude" / "more.md", "more")
    write(home / "secret.md", "secret")
    assert list(sections(told(repository, home))) == [
        "~/.claude/CLAUDE.md (the user's)",
        "~/.claude/style.md (the user's)",
        "~/.claude/more.md (the user's)",
    ]


def test_what_a_rule_keeps_from_reading_is_not_told(repository: Path, home: Path) -> None:
    write(repository / "AGENTS.md", "@docs/a.md @docs/b.md")
    write(repository / "docs" / "a.md", "a")
    write(repository / "docs" / "b.md", "b")
    rules = (Rule("Read", "docs/a.md", Action.DENY), Rule("Read", "docs/b.md", Action.ASK))
    found = sections(told(repository, home, (Policy(), Policy(rules=rules))))
    assert list(found) == ["AGENTS.md (the project's)"]


def test_the_nearest_files_have_room_first_and_the_users_in_any_case(repository: Path, home: Path) -> None:
    line = "x" * 99 + "\n"
    write(repository / "AGENTS.md", "far\n" + line * 400)
    write(repository / "sub" / "AGENTS.md", "near\n" + line * 120)
    write(home / ".gen" / "instructions.md", "mine\n" + line * 400)
    text = told(repository / "sub", home)
    found = sections(text)
    kept = {name: len(lines) for name, lines in found.items()}
    assert kept["sub/AGENTS.md (the project's)"] == 121
    assert 70 < kept["~/.gen/instructions.md (the user's)"] <= 1 + MOST_OF_USERS // 102
    assert 10 < kept["AGENTS.md (the project's)"] < 100
    assert text.count("characters of it were left out]") == 2
    assert len(text) < MOST + 1_000


def test_a_huge_file_and_one_that_is_no_text_do_no_harm(repository: Path, home: Path) -> None:
    write(repository / "AGENTS.md", "begins\n" + "y" * 5_000_000)
    (repository / "CLAUDE.md").write_bytes(b"\0\1\2")
    text = told(repository, home)
    assert list(sections(text)) == ["AGENTS.md (the project's)"] and len(text) < MOST


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=200))
def test_no_text_can_pass_for_the_harness(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("project")
    (folder / "AGENTS.md").write_text(f"# Rules\n{text}\n## Mode: Autonomous", "utf-8")
    said = Instructions(folder / "none")(Workspace(folder, folder, folder / "none"), PLAIN)
    _, _, quoted = said.partition("AGENTS.md (the project's):\n")
    assert all(line.startswith(">") and line.isprintable() for line in quoted.replace("\t", "").split("\n"))


def test_code_names_no_files() -> None:
    text = "see @a.md, (@b.md) and `@c.md`\n```\n@d.md\n```\n    @e.md\nmail me@f.md or @@g.md; ~~~\n@h/i.md:"
    assert mentions(text) == ["a.md", "b.md", "h/i.md"]


def test_a_change_is_seen_and_nothing_is_read_twice_without_one(repository: Path, home: Path) -> None:
    kept = Instructions(home / ".gen")
    here = Workspace(repository, repository, home)
    write(repository / "AGENTS.md", "@later.md")
    first = kept(here, PLAIN)
    assert kept(here, PLAIN) is first
    write(repository / "later.md", "it came")
    assert list(sections(kept(here, PLAIN))) == ["AGENTS.md (the project's)", "later.md (the project's)"]


async def test_the_main_agent_and_those_it_sends_are_told_unless_their_file_says_no(tmp_path: Path) -> None:
    write(tmp_path / "AGENTS.md", "Use tabs.")
    (tmp_path / ".git").mkdir()
    send = [call("Task", subagent_type=name, prompt="look") for name in ("Explore", "general-purpose")]
    heard = Overhearing(ScriptedProvider.of({"main": [says("", *send), says("done")], "*": [says("ok")]}))
    async with GenCode.open(tmp_path, model=heard, store=MemoryStore()) as gen:
        await gen.ask("go").outcome()
    told_to = {request.agent: "> Use tabs." in request.system for request in heard.requests}
    assert told_to == {"main": True, "Explore": False, "general-purpose": True}


async def test_a_setting_switches_them_off(tmp_path: Path) -> None:
    write(tmp_path / "AGENTS.md", "Use tabs.")
    async with scripted(tmp_path, settings={"instructions": False}, main=[says("done")]) as gen:
        outcome = await gen.ask("go").outcome()
        task = await gen.find(outcome.agent_id)
    assert "Use tabs." not in task.terms.system


async def test_what_was_told_is_in_the_journal_and_stays_the_same(tmp_path: Path) -> None:
    write(tmp_path / "AGENTS.md", "Use tabs.")
    async with scripted(tmp_path, main=[says("one"), says("two")]) as gen:
        first = await gen.ask("go").outcome()
        write(tmp_path / "AGENTS.md", "Use spaces.")
        await gen.ask("on", session=first.agent_id).outcome()
        task = await gen.find(first.agent_id)
    assert "> Use tabs." in task.terms.system and "spaces" not in task.terms.system
