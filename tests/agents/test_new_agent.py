"""A new agent's file reads back as what was asked for, and never takes the place of another file."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gencode.agents.new_agent import NewAgentFile, write_agent
from gencode.core.errors import UserMistake
from gencode.core.rules import Mode
from gencode.core.spec import ToolChoice


def test_everything_that_was_asked_for_is_in_the_file(tmp_path: Path):
    new = NewAgentFile(
        "My Tester", "Runs: the tests.", ("Bash(git *)", "Read"), "fast", "plan", 12, "Test it."
    )
    read = write_agent(new, tmp_path / "agents")
    spec = read.spec
    assert spec is not None
    assert read.path == str(tmp_path / "agents" / "my-tester.md")
    assert (spec.name, spec.description, spec.model, spec.mode) == (
        *("My Tester", "Runs: the tests.", "fast"),
        Mode.PLAN,
    )
    assert (spec.tools, spec.max_turns, spec.prompt) == (ToolChoice(("Bash", "Read")), 12, "Test it.")


def test_a_file_with_only_a_description_is_clean_and_tells_its_agent_how_to_reply(tmp_path: Path):
    read = write_agent(NewAgentFile("scout", "Finds things."), tmp_path)
    assert read.findings == ()
    assert read.spec is not None and "Reply with:" in read.spec.prompt


@pytest.mark.parametrize("described", ["Runs tests.", "Use after edits", "Go-Experte", "The API's reviewer!"])
def test_the_text_of_a_new_agent_has_its_description_as_it_was_written(tmp_path: Path, described: str):
    read = write_agent(NewAgentFile("scout", described), tmp_path)
    assert read.spec is not None
    first = read.spec.prompt.splitlines()[0]
    assert first.startswith('You are the agent "scout".') and described in first


def test_a_file_that_is_there_stays(tmp_path: Path):
    write_agent(NewAgentFile("scout", "First."), tmp_path)
    with pytest.raises(UserMistake, match="is already there"):
        write_agent(NewAgentFile("Scout", "Second."), tmp_path)
    assert "First." in (tmp_path / "scout.md").read_text()


@pytest.mark.parametrize(
    "new",
    [NewAgentFile("", "d"), NewAgentFile("../x", "d", mode="yolo"), NewAgentFile("x", "d", mode="yolo")],
)
def test_what_would_be_no_agent_is_not_written(tmp_path: Path, new: NewAgentFile):
    with pytest.raises(UserMistake):
        write_agent(new, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("tools", "said"),
    [
        (("Read", "Raed"), "There is no tool 'Raed'. Did you mean Read"),
        (("Bsh(git *)",), "There is no tool 'Bsh'. Did you mean Bash"),
        ((), "No tool is named"),
    ],
)
def test_a_tool_that_is_not_there_is_a_mistake(tmp_path: Path, tools: tuple[str, ...], said: str):
    with pytest.raises(UserMistake) as caught:
        write_agent(NewAgentFile("x", "d", tools), tmp_path)
    assert str(caught.value).startswith(said)
    assert list(tmp_path.iterdir()) == []


def test_tools_of_servers_and_of_other_products_need_not_be_there(tmp_path: Path):
    tools = ("mcp__github__*", "Shell", "Task(Explore)", "spawn")
    spec = write_agent(NewAgentFile("x", "d", tools), tmp_path).spec
    assert spec is not None
    assert (spec.tools, spec.sends) == (ToolChoice(("mcp__github__*", "Bash", "Task", "spawn")), ("Explore",))


LINES = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Zl", "Zp")), min_size=1, max_size=60)


@given(LINES.filter(lambda text: text.strip() and "\\n" not in text and text.isprintable()))
def test_any_description_comes_back(text: str):
    with TemporaryDirectory() as folder:
        read = write_agent(NewAgentFile("x", text), Path(folder))
    assert read.spec is not None and read.spec.description == text.strip()
