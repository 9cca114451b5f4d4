"""The built-in agents: what each may do, and how long."""

from pathlib import Path

import pytest

from gencode.core.rules import Mode
from gencode.testing import call, says, scripted
from tests.seeds.playing import FIRST, asks_for, play, task
from tests.seeds.rows import seed
from tests.seeds.setup import auth_project

FREE = {"permission_mode": "dontAsk"}
READS = ["Read", "Glob", "Grep", "WebFetch", "WebSearch"]


async def tries(folder: Path, agent: str, *commands: str) -> list[bool]:
    """Which of some commands an agent may run, where its parent may run all."""
    turns = [says("", *(call("Bash", command=each) for each in commands)), says("Done.")]
    played = await play(folder, asks_for(task(agent)), settings=FREE, others=turns)
    return [not each.error for each in played.results_of(FIRST)]


async def offered(folder: Path, agent: str) -> list[str]:
    return (await play(folder, asks_for(task(agent)), others=[says("Done.")])).offered(agent)


async def terms(agent: str, folder: Path) -> tuple[Mode | None, int | None, str]:
    async with scripted(folder) as gen:
        spec = gen.agents.find(agent)
    return spec.mode, spec.max_turns, spec.model


@seed("000", "Explore: plan, 5 tools, 30, inherit", use='gen task run Explore "Find the tests"')
async def test_explore_only_reads_with_five_tools_and_read_only_commands(tmp_path: Path) -> None:
    assert await terms("Explore", tmp_path) == (Mode.PLAN, 30, "inherit")
    assert sorted(await offered(tmp_path, "Explore")) == sorted([*READS, "Bash"])
    assert await tries(tmp_path, "Explore", "ls", "touch made") == [True, False]


@seed("000", "Plan: plan, 5 tools, 50, inherit", use='gen task run Plan "Plan the migration"')
async def test_plan_only_reads_for_fifty_turns(tmp_path: Path) -> None:
    assert await terms("Plan", tmp_path) == (Mode.PLAN, 50, "inherit")
    assert sorted(await offered(tmp_path, "Plan")) == sorted([*READS, "Bash"])
    assert await tries(tmp_path, "Plan", "ls", "touch made") == [True, False]


@seed("000", "Bash: default, 4 tools, 30", use='gen task run Bash "Run the tests"')
async def test_bash_runs_commands_in_its_parents_mode(tmp_path: Path) -> None:
    assert await terms("Bash", tmp_path) == (None, 30, "inherit")
    assert await offered(tmp_path, "Bash") == ["Bash", "Read", "Glob", "Grep"]
    assert await tries(tmp_path, "Bash", "ls", "touch made") == [True, True]


@seed("000", "Review: plan, 4 tools, 30; reads with Bash", use='gen task run Review "Review my last commit"')
async def test_review_reads_with_bash_and_changes_nothing(tmp_path: Path) -> None:
    assert await terms("Review", tmp_path) == (Mode.PLAN, 30, "inherit")
    assert await offered(tmp_path, "Review") == ["Read", "Glob", "Grep", "Bash"]
    assert await tries(tmp_path, "Review", "ls", "touch made") == [True, False]


@seed("000", "general-purpose: all except Task, 50", use='gen task run general-purpose "Fix the typo"')
async def test_general_purpose_has_every_usual_tool_but_task(tmp_path: Path) -> None:
    assert await terms("general-purpose", tmp_path) == (None, 50, "inherit")
    tools = await offered(tmp_path, "general-purpose")
    assert "Task" not in tools
    assert {"Read", "Write", "Edit", "Bash", "Glob", "Grep", "WebFetch", "WebSearch", "TodoWrite"} <= {*tools}


@seed("000", "Use cases", use='gen -p "Where are authentication errors handled?"')
@pytest.mark.parametrize(
    ("pattern", "found"), [("AuthError", "src/auth/errors.py"), ("def handle", "src/middleware/auth.py")]
)
async def test_explore_finds_what_is_asked_for_with_the_built_in_search(
    tmp_path: Path, pattern: str, found: str
) -> None:
    auth_project(tmp_path)
    look = [says("", call("Grep", pattern=pattern)), says("Done.")]
    played = await play(tmp_path, asks_for(task("Explore")), Explore=look)
    assert found in played.results_of(FIRST)[0].text
