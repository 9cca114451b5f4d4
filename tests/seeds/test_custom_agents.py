"""Agents in files: where they lie, and what their front matter says."""

from pathlib import Path

import pytest

from gencode.core.rules import Mode
from gencode.core.spec import AgentSpec
from gencode.core.status import Status
from gencode.permissions.trust import standing, trust
from gencode.settings import gen_home
from gencode.testing import call, says, scripted
from tests.seeds.playing import FIRST, asks_for, play, task
from tests.seeds.rows import seed
from tests.stories.agent_file import write_agent

ENGINEER = """---
name: ml-engineer
description: Machine Learning Engineering specialist
model: inherit
permission-mode: dontAsk
max-turns: 50
tools:
  mode: allowlist
  allow:
    - Read
    - Write
    - Bash
    - Glob
    - Grep
---

# ML Engineering Agent

You are specialized in implementing machine learning models and data pipelines.

## Expertise
- PyTorch and TensorFlow
- Data preprocessing
- Model training and evaluation
- Hyperparameter tuning

## Guidelines
- Always validate data before training
- Use appropriate cross-validation strategies
- Document model architectures clearly
"""
PLACES = ("project/.gen", "home/.gen", "project/.claude", "home/.claude")


def file_in(folder: Path, name: str, text: str) -> None:
    (folder / "agents").mkdir(parents=True, exist_ok=True)
    (folder / "agents" / f"{name}.md").write_text(text)


async def loaded(folder: Path, name: str) -> AgentSpec:
    """An agent as it is once a person trusts the folder."""
    trust(standing(folder, gen_home()), gen_home())
    async with scripted(folder) as gen:
        return gen.agents.find(name)


@seed("000", "`.md` files with front matter", use="~/.gen/agents/tester.md")
async def test_a_markdown_file_is_an_agent(tmp_path: Path, home: Path) -> None:
    write_agent(home, "tester", "Read", "You run tests.")
    played = await play(tmp_path, asks_for(task("tester")), tester=[says("Green.")])
    assert (played.task.agent, played.answers) == ("tester", ["Green."])


@seed("000", "Four search paths, in that order", use="gen agents list")
async def test_the_project_comes_before_the_user_and_gen_before_claude(tmp_path: Path, home: Path) -> None:
    folders = {"project": tmp_path, "home": home}
    for place in PLACES:
        owner, _, dialect = place.partition("/")
        file_in(folders[owner] / dialect, "one", f"---\nname: one\ndescription: {place}\n---\nWork.\n")
    for place in PLACES:
        assert (await loaded(tmp_path, "one")).description == place
        owner, _, dialect = place.partition("/")
        (folders[owner] / dialect / "agents" / "one.md").unlink()


@seed("000", "The seed's ml-engineer file unchanged", use=".gen/agents/ml-engineer.md, then `gen trust`")
async def test_the_file_of_the_source_loads_as_it_is(tmp_path: Path) -> None:
    file_in(tmp_path / ".gen", "ml-engineer", ENGINEER)
    spec = await loaded(tmp_path, "ml-engineer")
    assert (spec.mode, spec.max_turns, spec.model) == (Mode.DONT_ASK, 50, "inherit")
    assert spec.tools.allow == ("Read", "Write", "Bash", "Glob", "Grep")
    assert spec.prompt.startswith("# ML Engineering Agent")
    assert spec.prompt.rstrip().endswith("- Document model architectures clearly")


@seed("000", "`name`, `description`, `max-turns`", use="max-turns: 3")
async def test_name_description_and_turns_of_a_file_apply(tmp_path: Path, home: Path) -> None:
    write_agent(home, "denier", "Glob", more="max-turns: 3\n")
    endless = [says("", call("Glob", pattern=str(n))) for n in range(9)]
    played = await play(tmp_path, asks_for(task("denier")), denier=endless)
    assert (played.task.status, played.task.turns) == (Status.LIMIT_REACHED, 3)
    assert "- denier: Does it." in played.requests[0].system


@seed("000", "`model`: inherit/sonnet/opus/haiku", use="model: haiku")
async def test_a_file_names_its_model(tmp_path: Path, home: Path) -> None:
    for name in ("inherit", "sonnet", "opus", "haiku"):
        write_agent(home, name, "Read", more=f"model: {name}\n")
        async with scripted(tmp_path, others=[says("x")]) as gen:
            assert gen.agents.find(name).model == name
            assert (await gen.task(name, "go")).success


@seed(
    "000",
    "`permission-mode` of a file",
    use='gen task run ml-engineer "Train it" --allow "Task(ml-engineer)"',
)
@pytest.mark.parametrize("granted", [False, True])
async def test_the_wider_mode_of_a_file_applies_once_a_person_allows_the_agent(
    tmp_path: Path, granted: bool
) -> None:
    file_in(tmp_path / ".gen", "ml-engineer", ENGINEER)
    trust(standing(tmp_path, gen_home()), gen_home())
    rules = {"allow": ["Task(ml-engineer)"]} if granted else {}
    train = [says("", call("Write", file_path="model.txt", content="weights")), says("Trained.")]
    async with scripted(tmp_path, settings=rules, others=train) as gen:
        await gen.task("ml-engineer", "train")
    assert (tmp_path / "model.txt").exists() == granted
    (tmp_path / "model.txt").unlink(missing_ok=True)
    played = await play(tmp_path, asks_for(task("ml-engineer")), settings=rules, others=train)
    assert [each.error for each in played.results_of(FIRST)] == [not granted]


@seed("000", "`tools.mode` allowlist + `allow`", use="tools: {mode: allowlist, allow: [Read, Grep]}")
async def test_an_allowlist_is_all_an_agent_has(tmp_path: Path, home: Path) -> None:
    write_agent(home, "reader", "{mode: allowlist, allow: [Read, Grep]}")
    played = await play(tmp_path, asks_for(task("reader")), reader=[says("x")])
    assert played.offered("reader") == ["Read", "Grep"]


@seed("000", "`tools.mode` denylist + `deny`", use="tools: {mode: denylist, deny: [Bash, WebFetch]}")
async def test_a_denylist_takes_tools_away(tmp_path: Path, home: Path) -> None:
    write_agent(home, "careful", "{mode: denylist, deny: [Bash, WebFetch]}")
    tries = [says("", call("Bash", command="ls")), says("x")]
    played = await play(tmp_path, asks_for(task("careful")), careful=tries)
    assert not {"Bash", "WebFetch"} & {*played.offered("careful")}
    assert {"Read", "Write", "Grep"} <= {*played.offered("careful")}
    assert [each.error for each in played.results_of(FIRST)] == [True]
