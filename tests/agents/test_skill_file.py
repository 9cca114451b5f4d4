"""A SKILL.md becomes a skill, as its author meant it, whatever it holds."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.agents.skill_file import LONGEST_DESCRIPTION, LONGEST_NAME, read_skill, split_tools
from gencode.core.errors import UserMistake
from gencode.core.spec import Skill
from gencode.permissions.project_files import LARGEST_KEPT

PATH = "/skills/notes/SKILL.md"


def read(fields: str, body: str = "Do it.") -> Skill:
    return read_skill(f"---\n{fields}\n---\n{body}\n".encode(), PATH)


def why_not(content: bytes | str) -> str:
    with pytest.raises(UserMistake) as caught:
        read_skill(content.encode() if isinstance(content, str) else content, PATH)
    return str(caught.value)


def test_every_field_is_read():
    fields = (
        "name: release-notes\ndescription: Writes notes.\nwhen_to_use: Before a release.\nagent: Explore\n"
        "model: haiku\nallowed-tools: Read, Bash(git log:*)\nargument-hint: [version]\n"
        "disable-model-invocation: true\nlicense: MIT\nmetadata: {author: me}"
    )
    assert read(fields) == Skill(
        name="release-notes",
        description="Writes notes. Before a release.",
        body="Do it.",
        source=PATH,
        agent="Explore",
        model="haiku",
        tools=("Read", "Bash(git log:*)"),
        hint="[version]",
        hidden=True,
        extra={"license": "MIT", "metadata": {"author": "me"}},
    )


def test_without_a_name_the_folder_gives_it():
    assert read("description: Writes notes.") == Skill("notes", "Writes notes.", "Do it.", PATH)


def test_a_name_that_is_no_text_gives_way_to_the_folders_with_a_warning():
    skill = read("name: {a: b}\ndescription: d")
    assert (skill.name, skill.warnings) == (
        "notes",
        ("its name is not text, so the name of its folder is used",),
    )


def test_without_a_description_the_first_words_are_taken():
    skill = read("name: n", "# Notes\n\nWrites them.")
    assert skill.description == "Notes Writes them."
    assert skill.warnings == ("it has no description, so its first words are used",)


@pytest.mark.parametrize(
    ("fields", "agent"),
    [
        ("agent: Plan", "Plan"),
        ("context: fork", "general"),
        ("context: fork\nagent: Plan", "Plan"),
        ("context: inline", ""),
        ("license: MIT", ""),
    ],
)
def test_a_skill_is_routed_by_its_agent_or_its_context(fields: str, agent: str):
    assert read(f"description: d\n{fields}").agent == agent


@pytest.mark.parametrize("agent", ["[a, b]", "true", '""', f"{'a' * 201}", '"a\\u0007b"'])
def test_an_agent_that_cannot_be_read_is_an_error(agent: str):
    assert why_not(f"---\ndescription: d\nagent: {agent}\n---\n") == (
        f"{PATH}, line 3: agent must be the name of an agent."
    )


@pytest.mark.parametrize(("said", "hidden"), [("true", True), ("yes", True), ("false", False), ("no", False)])
def test_only_a_plain_no_lets_models_use_a_skill_that_speaks_of_it(said: str, hidden: bool):
    assert read(f"description: d\ndisable-model-invocation: {said}").hidden is hidden


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Read, Write", ["Read", "Write"]),
        ("Read Write", ["Read", "Write"]),
        ("Bash(git diff *), Read", ["Bash(git diff *)", "Read"]),
        ("Bash(a, b) mcp__x__*", ["Bash(a, b)", "mcp__x__*"]),
        ("", []),
    ],
)
def test_tools_are_split_at_commas_and_blanks_outside_of_parentheses(text: str, names: list[str]):
    assert split_tools(text) == names


@pytest.mark.parametrize("name", ["../other", "a\\b", "/etc", "a//b", "---", '"a\\u200bb"', "x" * 65])
def test_a_name_that_hides_something_is_refused(name: str):
    assert re.match(
        rf"{PATH}, line 2: .*(cannot be a name|longer than {LONGEST_NAME})",
        why_not(f"---\nname: {name}\ndescription: d\n---\n"),
    )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("# Just text\n", "it has no front matter (fields between two lines of ---), so it is no skill."),
        ("---\nname: x\n", "the front matter is never closed; end it with a line of ---."),
        (b"---\nname: \xff\n---\n", "it is not UTF-8 text."),
        ("---\nname: &a x\ndescription: *a\n---\n", "anchors and aliases (& and *) are not allowed"),
    ],
)
def test_a_file_that_is_no_skill_says_why(content: bytes | str, why: str):
    assert why in why_not(content)


def test_of_a_very_large_file_the_beginning_is_read_also_when_the_cut_is_inside_a_character():
    head = "---\nname: n\ndescription: d\n---\n"
    for more in range(4):
        skill = read_skill((head + "a" * more + "é€😀" * LARGEST_KEPT).encode()[: LARGEST_KEPT + 1], PATH)
        assert skill.cut
        assert len(skill.body.encode()) in range(LARGEST_KEPT - len(head) - 4, LARGEST_KEPT - len(head) + 1)


def test_a_description_without_end_is_cut():
    skill = read(f"description: {'word ' * 2_000}")
    assert len(skill.description) == LONGEST_DESCRIPTION
    assert skill.warnings == (f"the description is cut at {LONGEST_DESCRIPTION:,} characters",)


@given(
    st.binary(max_size=400)
    | st.text(max_size=400).map(lambda text: f"---\n{text}\n---\nx".encode("utf-8", "ignore"))
)
def test_whatever_a_file_holds_it_is_a_skill_or_a_mistake_with_its_path(content: bytes):
    try:
        skill = read_skill(content, PATH)
    except UserMistake as mistake:
        assert str(mistake).startswith(PATH)
    else:
        assert skill.name.isprintable() and skill.name
        assert len(skill.name) <= LONGEST_NAME
