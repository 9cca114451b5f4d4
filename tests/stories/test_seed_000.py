"""Seed 000, the subagent system: Task, TaskOutput and TaskStop, the built-in agents and those of files."""

import re
from pathlib import Path
from typing import Any

import pytest
from tests.stories.seeds import answers, auth_project, on_disk, results, started, transcript

from gencode import GenCode
from gencode.agents.registry import Registry
from gencode.core.messages import UserMessage
from gencode.core.rules import Mode
from gencode.core.status import Status
from gencode.permissions.trust import standing, trust
from gencode.providers.scripted import ScriptedProvider
from gencode.settings import gen_home
from gencode.testing import Overhearing, call, says, scripted

READING = ["Read", "Glob", "Grep", "WebFetch", "WebSearch"]
ENGINEER = """---
name: ml-engineer
description: Machine learning specialist
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

Validate data before you train on it.
"""


async def test_an_agent_in_the_foreground_gives_back_its_final_text_and_nothing_else(tmp_path: Path) -> None:
    auth_project(tmp_path)
    look = says(
        "I look around.", call("Grep", pattern="AuthError"), call("Read", file_path="src/auth/errors.py")
    )
    provider = Overhearing(
        ScriptedProvider.of(
            {
                "main": [
                    says("", call("Task", subagent_type="Explore", prompt="Find all database-related files")),
                    says("Based on that: none."),
                ],
                "Explore": [look, says("src/auth/errors.py:1 AuthError")],
            }
        )
    )
    async with on_disk() as store, GenCode.open(tmp_path, model=provider, store=store) as gen:
        outcome = await gen.ask("Analyze auth").outcome()
        told = await transcript(gen, outcome.agent_id)
        given = await started(gen, "00000002")
    assert (outcome.result, answers(told)) == ("Based on that: none.", ["src/auth/errors.py:1 AuthError"])
    of_child = [request for request in provider.requests if request.agent == "Explore"]
    assert of_child[0].messages == (UserMessage("Find all database-related files"),)
    assert [schema.name for schema in of_child[0].tools] == READING == list(given.tools)
    assert "Analyze auth" not in repr(of_child)
    assert "I look around." not in repr([each for each in provider.requests if each.agent == "main"])
    parts = ["Explore", "Read-only", "Working directory", "Find all database-related files"]
    assert [part for part in parts if part not in given.system] == []
    assert given.system.index("Find all database-related files") > given.system.index("Working directory")


def still(agent: str, task: str) -> str:
    """The text form of a task that runs."""
    return (
        f"Agent: {agent}\nStatus: still running\nTurns: 0\nTokens: 0\n\nOptions:\n"
        f'  - Wait longer: TaskOutput(task_id="{task}", timeout=60000)\n'
        f'  - Check status: TaskOutput(task_id="{task}", block=false)\n'
        f'  - Stop: TaskStop(task_id="{task}")'
    )


async def test_an_agent_in_the_background_is_asked_for_stopped_and_resumed_by_its_id(tmp_path: Path) -> None:
    background = call("Task", subagent_type="Explore", prompt="Analyze codebase", run_in_background=True)
    main = [
        says("", background, call("Task", subagent_type="Plan", prompt="x", run_in_background=True)),
        says("", call("TaskOutput", task_id="00000002", block=False)),
        says("", call("TaskOutput", task_id="00000003", timeout=1)),
        says("", call("TaskOutput", task_id="00000002", timeout=600_000)),
        says("", call("TaskStop", task_id="00000003")),
        says("", call("Task", subagent_type="Explore", prompt="And the tests?", resume="agent-00000002")),
        says("Done."),
    ]
    agents: dict[str, Any] = {
        "Explore": [says("3 modules", delay_ms=3_000), says("2 test files")],
        "Plan": [says("never", delay_ms=600_000)],
    }
    async with on_disk() as store, scripted(tmp_path, store=store, main=main, **agents) as gen:
        outcome = await gen.ask("go").outcome()
        told = answers(await transcript(gen, outcome.agent_id))
        resumed, stopped = await gen.get("00000002"), await gen.get("00000003")
    assert "00000002" in told[0] and "3 modules" not in told[0]
    assert told[2:4] == [still("Explore", "00000002"), still("Plan", "00000003")]
    assert re.fullmatch(
        r"Agent: Explore\nStatus: completed\nTurns: 1\nTokens: \d+\nDuration: \S+\n\nOutput:\n3 modules",
        told[4],
    )
    assert told[5] == "Task 00000003 of Plan was stopped after 0 turns and is now cancelled."
    assert told[6] == "2 test files"
    assert (resumed.status, resumed.turns, resumed.result) == (Status.COMPLETED, 2, "2 test files")
    assert (stopped.status, outcome.result) == (Status.CANCELLED, "Done.")


async def test_a_background_task_that_failed_gives_its_error_and_what_it_said(tmp_path: Path) -> None:
    send = call("Task", subagent_type="Explore", prompt="x", run_in_background=True)
    main = [says("", send), says("", call("TaskOutput", task_id="00000002")), says("I see.")]
    explore = [says("half of it", call("LS")), says("", error="overloaded for good")]
    async with on_disk() as store, scripted(tmp_path, store=store, main=main, Explore=explore) as gen:
        outcome = await gen.ask("go").outcome()
        looked = results(await transcript(gen, outcome.agent_id))[1]
    assert looked.error and "Status: failed" in looked.text
    assert "overloaded for good" in looked.text and "half of it" in looked.text


@pytest.mark.parametrize(
    ("name", "mode", "turns", "tools"),
    [
        ("Explore", Mode.PLAN, 30, READING),
        ("Plan", Mode.PLAN, 50, READING),
        ("Bash", None, 30, ["Bash", "Read", "Glob", "Grep"]),
        ("Review", Mode.PLAN, 30, ["Read", "Glob", "Grep", "Bash"]),
        ("general-purpose", None, 50, None),
    ],
)
def test_the_built_in_agents_are_those_of_the_table(
    tmp_path: Path, name: str, mode: Mode | None, turns: int, tools: list[str] | None
) -> None:
    spec = Registry.load(tmp_path).find(name)
    assert (spec.mode, spec.max_turns, spec.model, spec.builtin) == (mode, turns, "inherit", True)
    assert (None if spec.tools.allow is None else list(spec.tools.allow)) == tools


async def test_no_agent_that_was_sent_sends_agents_although_it_has_all_other_tools(tmp_path: Path) -> None:
    again = call("Task", subagent_type="Explore", prompt="deeper")
    main = [says("", call("Task", subagent_type="general-purpose", prompt="go")), says("ok")]
    async with (
        on_disk() as store,
        scripted(tmp_path, store=store, main=main, general_purpose=[says("", again), says("Alone.")]) as gen,
    ):
        await gen.ask("go").outcome()
        (refused,) = results(await transcript(gen, "00000002"))
        given = await started(gen, "00000002")
    assert refused.error and refused.text.startswith("There is no tool 'Task' for general-purpose.")
    assert {"Write", "Edit", "Bash", "Read", "TodoWrite"} <= set(given.tools)


async def test_a_custom_agent_of_a_trusted_project_works_under_its_senders_ceiling(tmp_path: Path) -> None:
    (tmp_path / ".gen" / "agents").mkdir(parents=True)
    (tmp_path / ".gen" / "agents" / "ml-engineer.md").write_text(ENGINEER)
    trust(standing(tmp_path, gen_home()), gen_home())
    train = says("", call("Write", file_path="model.txt", content="weights"), call("Edit", file_path="x"))
    main = [says("", call("Task", subagent_type="ml-engineer", prompt="train")), says("ok")]
    for mode, written in (("default", False), ("dontAsk", True)):
        async with scripted(
            tmp_path, settings={"permission_mode": mode}, main=main, ml_engineer=[train, says("Trained.")]
        ) as gen:
            outcome = await gen.ask("go").outcome()
            (child,) = await gen.tasks(parent=outcome.agent_id)
            found = results(await transcript(gen, child.agent_id))
            given = await started(gen, child.agent_id)
        assert list(given.tools) == ["Read", "Write", "Bash", "Glob", "Grep"]
        assert "Validate data before you train on it." in given.system
        assert [result.error for result in found] == [not written, True]
        assert (tmp_path / "model.txt").exists() == written
