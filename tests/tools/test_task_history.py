"""task_list and task_replay: an agent sees what it has sent, and itself, and nobody else's work."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gencode.core.errors import ToolError
from gencode.core.messages import Message, ToolMessage
from gencode.core.task import transcript_of
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says, scripted
from gencode.tools.task_history import LONGEST_TEXT, TASK_LIST, TASK_REPLAY
from tests.tools.desk import Desk

HOST = "---\nname: host\ndescription: leads\ntools: [Task, task_list, task_replay]\n---\nLead.\n"
LOOKER = "---\nname: looker\ndescription: looks\ntools: [Glob, task_list, task_replay]\n---\nLook.\n"


@pytest.fixture(autouse=True)
def agents(home: Path) -> None:
    folder = home / ".gen" / "agents"
    folder.mkdir(parents=True)
    (folder / "host.md").write_text(HOST)
    (folder / "looker.md").write_text(LOOKER)


def numbered() -> MemoryStore:
    """A store whose tasks have ids that a script can know: 00000001 is the conversation."""
    numbers = itertools.count(1)
    return MemoryStore(draw=lambda: f"{next(numbers):08x}")


def answers(transcript: Sequence[Message]) -> list[str]:
    found = [message for message in transcript if isinstance(message, ToolMessage)]
    return [result.text for message in found for result in message.results]


async def talked(folder: Path, *turns: dict[str, Any], task: str = "00000001", **agents: Any) -> list[str]:
    """What the calls of a conversation that the host leads were answered, or those of another task."""
    async with scripted(folder, store=numbered(), host=turns, **agents) as gen:
        await gen.ask("go", agent="host").outcome()
        return answers(transcript_of(await gen.history.events(task)))


SEND = says(
    "",
    call("Task", subagent_type="looker", prompt="look\nfor it", description="look"),
    call("Task", subagent_type="Explore", prompt="explore"),
)
WORK: dict[str, Any] = {
    "looker": [says("I look.", call("Glob", pattern="*.py")), says("Found a.py")],
    "Explore": [says("", error="auth")],
}


async def test_what_was_sent_is_listed_with_how_it_stands(tmp_path: Path) -> None:
    turns = [SEND, says("", call("task_list"), call("task_list", status="completed", limit=1)), says("ok")]
    told = await talked(tmp_path, *turns, **WORK)
    every, completed = told[2].split("\n"), told[3]
    assert every[0] == completed == "00000002 looker: look [completed, 2 turns]"
    assert every[1].startswith("00000003 Explore: explore [failed (") and len(every) == 2


async def test_only_the_latest_are_listed_where_there_are_many(tmp_path: Path) -> None:
    sends = says("", *(call("Task", subagent_type="looker", prompt=f"look {n}") for n in range(3)))
    told = await talked(
        tmp_path, sends, says("", call("task_list", limit=2)), says("ok"), looker=[says("done")]
    )
    assert told[3].split("\n")[0] == "[… 1 earlier ones]" and len(told[3].split("\n")) == 3


async def test_a_task_is_told_step_by_step(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x" * 10)
    turns = [SEND, says("", call("task_replay", task_id="00000002")), says("ok")]
    told = await talked(tmp_path, *turns, **WORK)
    head, _, *steps = told[2].split("\n")
    assert head == "00000002 looker: look [completed, 2 turns]"
    assert steps == [
        "> user said: look",
        "> for it",
        "> agent said: I look.",
        "> agent called Glob({'pattern': '*.py'})",
        "> Glob answered: a.py",
        "> agent said: Found a.py",
    ]


async def test_an_agent_sees_itself_and_no_conversation(tmp_path: Path) -> None:
    looks = [
        says("", call("task_list"), call("task_replay")),
        says("", call("task_replay", task_id="00000001"), call("task_replay", id="deadbeef")),
        says("", call("task_replay", task_id="../x")),
        says("done"),
    ]
    told = await talked(
        tmp_path,
        says("", call("Task", subagent_type="looker", prompt="look")),
        says("ok"),
        task="00000002",
        looker=looks,
    )
    assert told[0].startswith("00000002 looker: look [running, ") and told[0].endswith(" (you)")
    assert told[1].startswith("00000002 looker: look [running, ")
    assert told[2:] == [
        "There is no task 00000001 in this session.",
        "There is no task deadbeef in this session.",
        "'../x' is not a task id; it is 8 hex digits, as Task gave it.",
    ]


async def test_a_long_replay_is_cut_and_paged(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    words = "w" * (LONGEST_TEXT + 5)
    looks = [*(says(words, call("Glob", pattern="*")) for _ in range(12)), says("done")]
    turns = [
        says("", call("Task", subagent_type="looker", prompt="look")),
        says("", call("task_replay", task_id="00000002")),
        says("", call("task_replay", task_id="00000002", page=2)),
        says("", call("task_replay", task_id="00000002", page=3)),
        says("ok"),
    ]
    told = await talked(tmp_path, *turns, looker=looks)
    assert "[… 5 more characters]" in told[1] and told[1].endswith("[page 1 of 2]")
    assert told[2].endswith("agent said: done\n[page 2 of 2]")
    assert told[3] == "There is no page 3; the transcript has 2."


@pytest.mark.parametrize("tool", [TASK_LIST, TASK_REPLAY])
async def test_where_nobody_keeps_tasks_that_is_said(desk: Desk, tool: Any) -> None:
    with pytest.raises(ToolError, match="This agent cannot start agents and has no tasks"):
        await desk.use(tool)


@pytest.mark.parametrize("given", [{"status": "over"}, {"limit": 0}, {"limit": 101}])
async def test_a_list_that_makes_no_sense_is_refused(desk: Desk, given: dict[str, Any]) -> None:
    with pytest.raises(ToolError, match="task_list takes status"):
        await desk.use(TASK_LIST, **given)
