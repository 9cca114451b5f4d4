"""The tools as a client of the SDK uses them, in both eras of the protocol."""

import asyncio
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError

from gencode.core.status import Status
from gencode.testing import call, says
from tests.mcp_server.offices import ERAS, names, office, report, task_of, text
from tests.runtime.processes.living import eventually

FOUND = {"*": [says("Found it in db.py.")]}
SLOW = {"*": [says("thinking about it", delay_ms=60_000)]}
TOOLS = ["Task", "TaskOutput", "TaskStop", "SendMessage", "task_list"]


@pytest.mark.parametrize("era", ERAS)
async def test_the_tools_have_the_schemas_that_our_own_agents_see(tmp_path: Path, era: str) -> None:
    async with office(tmp_path, FOUND) as here, here.client(era) as client:
        tools = (await client.list_tools()).tools
        gen = await here.rooms.at(tmp_path)
    assert names(tools) == TOOLS
    ours = [gen.toolbox.find(tool.name).schema for tool in tools]
    assert [[*tool.input_schema["properties"]] for tool in tools] == [[*each["properties"]] for each in ours]
    assert [tool.input_schema.get("required") for tool in tools] == [each.get("required") for each in ours]
    task = tools[0]
    assert "- Explore: " in (task.description or "")
    assert "comes by itself" not in str(tools)


@pytest.mark.parametrize("era", ERAS)
async def test_a_task_in_the_foreground_gives_its_report_and_its_steps(tmp_path: Path, era: str) -> None:
    steps: list[tuple[float, str]] = []

    async def told(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, message or ""))

    async with office(tmp_path, FOUND) as here, here.client(era) as client:
        call = {"subagent_type": "explore", "prompt": "Where?"}
        result = await client.call_tool("Task", call, progress_callback=told)
        listed = text(await client.call_tool("task_list", {}))
    assert (report(result), result.is_error) == ("Found it in db.py.", False)
    assert listed == f"{task_of(result)} Explore: Where? [completed, 1 turn]"
    assert steps[0][0] == 1
    assert steps[0][1].startswith(f"Explore (task {task_of(result)}), 0 turns:")
    assert [number for number, _ in steps] == sorted({number for number, _ in steps})


@pytest.mark.parametrize("era", ERAS)
async def test_a_task_in_the_background_is_looked_at_and_stopped(tmp_path: Path, era: str) -> None:
    async with office(tmp_path, SLOW) as here, here.client(era) as client:
        call = {"subagent_type": "Plan", "prompt": "Plan it", "run_in_background": True}
        begun = await client.call_tool("Task", call)
        task = task_of(begun)
        assert text(begun).startswith(f"Plan works in the background as task {task}.")
        running = text(await client.call_tool("TaskOutput", {"task_id": task, "timeout": 1}))
        assert running.startswith("Agent: Plan\nStatus: still running\n")
        stopped = text(await client.call_tool("TaskStop", {"task_id": task}))
        assert stopped == f"Task {task} of Plan was stopped after 0 turns and is now cancelled."
        ended = await client.call_tool("TaskOutput", {"task_id": task})
    assert ended.is_error
    assert "the client stopped it" in text(ended)


async def test_a_call_that_is_cancelled_stops_its_task_and_no_other(tmp_path: Path) -> None:
    async with office(tmp_path, SLOW) as here, here.client() as client:
        gen = await here.rooms.at(tmp_path)
        beside = await client.call_tool(
            "Task", {"subagent_type": "Plan", "prompt": "Stay", "run_in_background": True}
        )
        asking = asyncio.create_task(client.call_tool("Task", {"subagent_type": "Explore", "prompt": "Go"}))
        assert await eventually(lambda: len(gen.supervisor) == 2)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert await eventually(lambda: len(gen.supervisor) == 1)
        tasks = {task.agent: task for task in await gen.tasks()}
        assert (tasks["Explore"].status, tasks["Explore"].error) == (
            Status.CANCELLED,
            "the client cancelled the call",
        )
        assert [live.id for live in gen.supervisor] == [task_of(beside)]


async def test_a_task_that_has_ended_is_woken_by_a_message_and_resumed_by_its_agent(tmp_path: Path) -> None:
    turns = {"*": [says("First."), says("Second."), says("Third.")]}
    async with office(tmp_path, turns) as here, here.client() as client:
        task = task_of(await client.call_tool("Task", {"subagent_type": "Explore", "prompt": "Go"}))
        woken = text(await client.call_tool("SendMessage", {"task_id": task, "message": "And then?"}))
        assert woken.startswith(f"Explore (task {task}) had ended and goes on in the background")
        second = text(await client.call_tool("TaskOutput", {"task_id": task}))
        assert "Output:\n> Second.\n[Task" in second
        again = {"subagent_type": "Explore", "prompt": "Go on", "resume": task}
        third = await client.call_tool("Task", again)
        assert (report(third), task_of(third)) == ("Third.", task)
        other = await client.call_tool("Task", {**again, "subagent_type": "Plan"})
    assert text(other) == f"Task {task} belongs to Explore; name that as subagent_type."


async def test_a_client_gives_an_agent_no_more_turns_than_its_file(tmp_path: Path) -> None:
    turns = {"*": [says("", call("LS"))] * 40}
    async with office(tmp_path, turns) as here, here.client() as client:
        gen = await here.rooms.at(tmp_path)
        sent = {"subagent_type": "Explore", "prompt": "Look", "max_turns": 1000}
        ended = task_of(await client.call_tool("Task", sent))
        most = gen.agents.find("Explore").max_turns
        task = await gen.get(ended)
    assert most is not None
    assert (task.status, task.turns) == (Status.LIMIT_REACHED, most + 1)


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("Task", {"prompt": "x"}, "Task takes subagent_type"),
        ("Task", {"subagent_type": "Nobody", "prompt": "x"}, "There is no agent 'Nobody'"),
        ("Task", {"subagent_type": "Plan", "prompt": "x", "model": "scripted:/etc/passwd"}, "by a client"),
        (
            "Task",
            {"subagent_type": "Plan", "prompt": "x", "model": "scripted"},
            "There is no model 'scripted'",
        ),
        ("TaskOutput", {"task_id": "00000000"}, "There is no task '00000000' of this folder"),
        ("TaskOutput", {"task_id": "shell_1"}, "There is no task 'shell_1' of this folder"),
        ("TaskStop", {"task_id": "x"}, "There is no task 'x' of this folder"),
        ("SendMessage", {"task_id": "00000000", "message": " "}, "The message is empty"),
    ],
)
async def test_a_mistake_is_a_sentence_that_the_client_can_act_on(
    tmp_path: Path, tool: str, arguments: dict[str, str], says: str
) -> None:
    async with office(tmp_path, FOUND) as here, here.client() as client:
        result = await client.call_tool(tool, arguments)
    assert result.is_error
    assert says in text(result)
    assert "scripted:FILE" not in text(result)


async def test_a_tool_that_is_not_offered_is_a_protocol_error(tmp_path: Path) -> None:
    async with office(tmp_path, FOUND) as here, here.client() as client:
        with pytest.raises(MCPError, match="There is no tool 'Bash'"):
            await client.call_tool("Bash", {"command": "ls"})
