"""Agents that were typed: strict, for one session, and before all files."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.agents.inline_agents import InlineRegistry, typed_agents
from gencode.agents.library import Library
from gencode.agents.registry import Registry
from gencode.app import GenCode
from gencode.core.errors import UserMistake
from gencode.core.rules import Mode
from gencode.core.spec import AgentSpec, ToolChoice

PLAIN = {"description": "Reviews code.", "prompt": "You review code."}


def only(**fields: Any) -> AgentSpec:
    [entry] = typed_agents({"reviewer": {**PLAIN, **fields}})
    assert entry.spec is not None
    return entry.spec


def test_every_field_of_claude_code_is_understood() -> None:
    spec = only(
        tools=["Read", "Bash(git log:*)"],
        disallowedTools="Write, Edit",
        model="claude-sonnet-4-5",
        permissionMode="plan",
        maxTurns=7,
        skills=["style"],
        initialPrompt="Begin.",
        memory="project",
        effort="high",
        background=True,
        isolation="worktree",
        color="blue",
    )
    assert (spec.name, spec.description, spec.prompt) == ("reviewer", "Reviews code.", "You review code.")
    assert (spec.model, spec.mode, spec.max_turns) == ("anthropic/claude-sonnet-4-5", Mode.PLAN, 7)
    assert (spec.skills, spec.initial_prompt, spec.memory) == (("style",), "Begin.", "project")
    assert (spec.effort, spec.background, spec.isolation, spec.colour) == ("high", True, "worktree", "blue")
    assert spec.tools.allow == ("Read", "Bash")
    assert set(spec.tools.deny) >= {"Write", "Edit"}
    assert spec.source == "--agents reviewer"


def test_what_is_not_said_is_its_senders() -> None:
    spec = only()
    assert (spec.tools, spec.model, spec.mode) == (ToolChoice(), "inherit", None)


@pytest.mark.parametrize(
    ("word", "mode"),
    [
        ("dontAsk", Mode.UNATTENDED),
        ("bypassPermissions", Mode.DONT_ASK),
        ("unattended", Mode.UNATTENDED),
        ("acceptEdits", Mode.ACCEPT_EDITS),
    ],
)
def test_modes_are_those_of_claude_code(word: str, mode: Mode) -> None:
    assert only(permissionMode=word).mode is mode


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"a": 1}, "--agents a: it must hold fields, such as description and prompt."),
        ({"a": {"prompt": "p"}}, "--agents a: it needs a description, which is a text."),
        ({"a": {"description": "d", "prompt": " "}}, "--agents a: it needs a prompt, which is a text."),
        (
            {"a": {"description": ["d"], "prompt": "p"}},
            "--agents a: it needs a description, which is a text.",
        ),
        ({"a": {**PLAIN, "toolz": []}}, "--agents a: there is no field 'toolz'. Did you mean tools"),
        ({"a": {**PLAIN, "name": "b"}}, "--agents a: there is no field 'name'."),
        ({"a": {**PLAIN, "permissionMode": "free"}}, "--agents a: there is no permission mode 'free'"),
        ({"a": {**PLAIN, "permissionMode": 3}}, "--agents a: there is no permission mode '3'"),
        ({"a": {**PLAIN, "model": "zonk"}}, "--agents a: the model 'zonk' is not known"),
        ({"a": {**PLAIN, "model": ["opus"]}}, "--agents a: the model \"['opus']\" is not known"),
        ({"a": {**PLAIN, "maxTurns": 0}}, "--agents a: max-turns must be a whole number"),
        ({"a": {**PLAIN, "tools": 5}}, "--agents a: "),
        ({"a": {**PLAIN, "max_turns": 1, "maxTurns": 2}}, "--agents a: max-turns is given twice."),
        ({"a": PLAIN, "A": PLAIN}, "--agents A: an agent of this name is there already"),
        ({"main": PLAIN}, "--agents main: the name main belongs to the conversation itself"),
        ({"../x": PLAIN}, "--agents ../x: '../x' cannot be a name"),
        ({" ": PLAIN}, "--agents: an agent needs a name."),
        ({str(each): PLAIN for each in range(101)}, "--agents holds more than 100 agents"),
    ],
)
def test_a_mistake_in_one_is_a_sentence_that_names_it(table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserMistake) as mistake:
        typed_agents(table)
    assert str(mistake.value).startswith(sentence)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["description", "prompt", "tools", "model", "permissionMode", "hooks", "mcpServers"])


@given(
    st.dictionaries(st.text(max_size=12), st.dictionaries(NAMES | st.text(max_size=8), VALUES, max_size=6))
)
def test_nothing_but_a_sentence_comes_of_hostile_agents(table: dict[str, Any]) -> None:
    try:
        entries = typed_agents(table)
    except UserMistake:
        return
    assert len(entries) == len(table)


def test_a_typed_agent_counts_before_every_file_and_the_listing_says_so(tmp_path: Path) -> None:
    folder = tmp_path / "agents"
    folder.mkdir()
    (folder / "reviewer.md").write_text("---\nname: reviewer\ndescription: Of a file.\n---\nIt.\n")
    files = Registry.load(tmp_path)
    registry = InlineRegistry(typed_agents({"Reviewer": PLAIN, "Explore": PLAIN}), files)
    assert [registry.find(name).description for name in ("reviewer", "explore")] == ["Reviews code."] * 2
    shadowed = {entry.path.rpartition("/")[2]: entry.shadowed_by for entry in registry.listing()}
    assert (shadowed["reviewer.md"], shadowed["Explore.md"]) == ("--agents Reviewer", "--agents Explore")
    assert files.find("reviewer").description == "Of a file."


def test_a_library_without_typed_agents_is_only_its_files(tmp_path: Path) -> None:
    library = Library(tmp_path, [], lambda _call, _skills: None)
    assert [spec.name for spec in library.spawnable()] == [
        spec.name for spec in Registry.load(tmp_path).spawnable()
    ]


async def test_typed_agents_are_never_a_setting_of_a_file(tmp_path: Path, home: Path) -> None:
    (home / ".gen").mkdir()
    (home / ".gen" / "settings.toml").write_text('[agents.x]\ndescription = "d"\nprompt = "p"\n')
    with pytest.raises(UserMistake) as mistake:
        async with GenCode.open(tmp_path, model="offline"):
            pass
    assert "the setting agents applies to one session" in str(mistake.value)


async def test_a_program_may_type_agents_too(tmp_path: Path) -> None:
    async with GenCode.open(tmp_path, model="offline", settings={"agents": {"reviewer": PLAIN}}) as gen:
        assert gen.agents.find("reviewer").prompt == "You review code."
        assert gen.agents is gen.agents
