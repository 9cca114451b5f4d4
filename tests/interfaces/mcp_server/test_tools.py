"""The tools as a client of the SDK uses them, in both eras of the protocol."""

import asyncio
from pathlib import Path

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import REQUEST_TIMEOUT, CallToolResult, ElicitResult

from gencode.core.events import TaskBackgrounded, TaskEnded
from gencode.core.status import Status
from gencode.interfaces.mcp_server import progress, tool_handlers
from gencode.testing import call, says
from tests.interfaces.mcp_server.offices import ERAS, WRITES, names, office, report, task_of, text
from tests.sandbox.processes.living import eventually
from tests.tasks.agent_file import write_agent

FOUND = {"*": [says("Found it in db.py.")]}
FREE = {"permission_mode": "dontAsk", "sandbox": "off"}
SLOW = {"*": [says("thinking about it", delay_ms=60_000)]}
TOOLS = ["Task", "TaskReadOnly", "TaskOutput", "TaskStop", "SendMessage", "task_list"]


@pytest.mark.parametrize("era", ERAS)
async def test_the_tools_have_the_schemas_that_our_own_agents_see(tmp_path: Path, era: str) -> None:
    async with office(tmp_path, FOUND) as here, here.client(era) as client:
        tools = (await client.list_tools()).tools
        gen = await here.rooms.at(tmp_path)
    assert names(tools) == TOOLS
    tools = [tool for tool in tools if tool.name != "TaskReadOnly"]
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
        assert text(begun).startswith(f"Plan is running in the background as task {task}.")
        running = text(await client.call_tool("TaskOutput", {"task_id": task, "timeout": 1}))
        assert running.startswith("Agent: Plan\nStatus: still running\n")
        stopped = text(await client.call_tool("TaskStop", {"task_id": task}))
        assert stopped == f"Task {task} of Plan was stopped after 0 turns and is now cancelled."
        ended = await client.call_tool("TaskOutput", {"task_id": task})
    assert ended.is_error
    assert "the client stopped it" in text(ended)


@pytest.mark.parametrize("era", ERAS)
async def test_a_task_whose_client_gave_up_waiting_goes_on_and_can_be_fetched(
    tmp_path: Path, era: str
) -> None:
    turns = {"*": [says("", call("Glob", pattern="*")), says("Found it.", delay_ms=1500)]}
    async with office(tmp_path, turns) as here, here.client(era) as client:
        gen = await here.rooms.at(tmp_path)
        sent = {"subagent_type": "Explore", "prompt": "Go"}
        with pytest.raises(MCPError) as late:
            await client.call_tool("Task", sent, read_timeout_seconds=0.5)
        assert late.value.code == REQUEST_TIMEOUT
        listed = text(await client.call_tool("task_list", {}))
        (task,) = await gen.tasks()
        assert listed.startswith(task.agent_id)
        again = await client.call_tool("Task", {**sent, "resume": task.agent_id})
        fetched = await client.call_tool("TaskOutput", {"task_id": task.agent_id, "timeout": 60_000})
        written = [event.fact for event in await gen.history.events(task.agent_id)]
    assert again.is_error
    assert (fetched.is_error, task_of(fetched)) == (False, task.agent_id)
    assert "Found it." in text(fetched)
    assert [type(fact) for fact in written if isinstance(fact, TaskBackgrounded | TaskEnded)] == [
        TaskBackgrounded,
        TaskEnded,
    ]


async def test_a_task_whose_client_gave_up_waiting_is_stopped_unless_somebody_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_handlers, "GIVEN_UP_SECONDS", 1.0)
    async with office(tmp_path, SLOW) as here, here.client() as client:
        gen = await here.rooms.at(tmp_path)
        beside = task_of(
            await client.call_tool(
                "Task", {"subagent_type": "Plan", "prompt": "Stay", "run_in_background": True}
            )
        )
        asking = {
            name: asyncio.create_task(client.call_tool("Task", {"subagent_type": "Explore", "prompt": name}))
            for name in ("left", "fetched")
        }
        assert await eventually(lambda: len(gen.running) == 3)
        for each in asking.values():
            each.cancel()
        await asyncio.wait(asking.values())
        tasks = {live.task.created.prompt: live.id for live in gen.running}
        assert await eventually(lambda: all(live.task.terms.background for live in gen.running))
        await client.call_tool("TaskOutput", {"task_id": tasks["fetched"], "block": False})
        assert await eventually(lambda: len(gen.running) == 2)
        left = await gen.get(tasks["left"])
        assert (left.status, left.error) == (Status.CANCELLED, tool_handlers.NO_RETRY.text)
        assert {live.id for live in gen.running} == {beside, tasks["fetched"]}


async def test_a_task_whose_client_gave_up_waiting_asks_nobody(tmp_path: Path) -> None:
    async def never(*_: object) -> ElicitResult:
        raise AssertionError("nobody waits for this agent any more")

    turns = {"*": [says("", call("Glob", pattern="*")), {**WRITES[0], "delay_ms": 1000}, WRITES[1]]}
    async with office(tmp_path, turns) as here, here.client(elicitation_callback=never) as client:
        gen = await here.rooms.at(tmp_path)
        sent = {"subagent_type": "general-purpose", "prompt": "Go"}
        with pytest.raises(MCPError):
            await client.call_tool("Task", sent, read_timeout_seconds=0.5)
        (task,) = await gen.tasks()
        await client.call_tool("TaskOutput", {"task_id": task.agent_id, "timeout": 60_000})
        assert (await gen.get(task.agent_id)).status is Status.COMPLETED
    assert not (tmp_path / "made.txt").exists()


async def test_progress_has_a_heartbeat_and_its_number_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "HEARTBEAT_SECONDS", 0.05)
    steps: list[tuple[float, str]] = []
    enough = asyncio.Event()

    async def told(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, message or ""))
        if len(steps) > 10:
            enough.set()

    async with office(tmp_path, SLOW) as here, here.client() as client:
        call = {"subagent_type": "Explore", "prompt": "Where?"}
        asking = asyncio.create_task(client.call_tool("Task", call, progress_callback=told))
        await asyncio.wait_for(enough.wait(), 30)
        (task,) = await (await here.rooms.at(tmp_path)).tasks()
        asking.cancel()
        await asyncio.wait([asking])
    numbers = [number for number, _ in steps]
    assert numbers == sorted(set(numbers))
    assert all(f"(task {task.agent_id})" in message for _, message in steps)


async def test_agents_that_only_read_run_side_by_side_in_a_client_that_runs_only_such_calls_so(
    tmp_path: Path,
) -> None:
    """As Claude Code and Codex do it: what is not marked as reading runs alone."""
    writes = says("", call("Bash", command="echo x > made.txt"))
    turns = {"Review": [writes, says("Found it.", delay_ms=1500)], "Plan": [says("Planned.")]}
    async with office(tmp_path, turns, FREE) as here, here.client() as client:
        gen = await here.rooms.at(tmp_path)
        marks = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}

        async def reply(tool: str, agent: str) -> list[CallToolResult]:
            """Two calls of one reply of the client's model."""
            sent = [{"subagent_type": agent, "prompt": f"{tool} {number}"} for number in range(2)]
            hints = marks[tool]
            if hints is not None and hints.read_only_hint:
                return await asyncio.gather(*(client.call_tool(tool, each) for each in sent))
            return [await client.call_tool(tool, each) for each in sent]

        side_by_side = await reply("TaskReadOnly", "Review")
        one_by_one = await reply("Task", "Plan")
        runs = {task.agent_id: (task.started_at or "", task.ended_at or "") for task in await gen.tasks()}
    assert [each.is_error for each in (*side_by_side, *one_by_one)] == [False] * 4
    (a, b), (c, d) = ([runs[task_of(each)] for each in pair] for pair in (side_by_side, one_by_one))
    assert max(a[0], b[0]) < min(a[1], b[1])
    assert c[1] <= d[0]
    assert not (tmp_path / "made.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"subagent_type": "general-purpose"}, "general-purpose may change files"),
        ({"subagent_type": "Mine"}, "Mine may change files"),
        ({"subagent_type": "Explore", "isolation": "worktree"}, "isolation"),
        ({"subagent_type": "Nobody"}, "There is no agent 'Nobody'"),
    ],
)
async def test_an_agent_that_may_change_something_is_not_sent_as_one_that_only_reads(
    tmp_path: Path, home: Path, arguments: dict[str, str], says: str
) -> None:
    write_agent(home / ".gen" / "agents", "Mine", "Read")
    async with office(tmp_path, FOUND) as here, here.client() as client:
        gen = await here.rooms.at(tmp_path)
        result = await client.call_tool("TaskReadOnly", {"prompt": "x", **arguments})
        found = {tool.name: tool for tool in (await client.list_tools()).tools}["TaskReadOnly"]
        assert [*await gen.tasks()] == []
    assert result.is_error
    assert says in text(result)
    assert "isolation" not in found.input_schema["properties"]
    listed = (found.description or "").partition("The agents:\n")[2]
    assert {line.partition(":")[0] for line in listed.splitlines()} == {
        f"- {name}" for name in ("Explore", "Plan", "Review", "researcher")
    }


async def test_where_the_server_is_in_plan_mode_every_agent_only_reads(tmp_path: Path) -> None:
    plan = {"permission_mode": "plan"}
    async with office(tmp_path, {"*": WRITES}, plan) as here, here.client() as client:
        sent = {"subagent_type": "general-purpose", "prompt": "Write it"}
        result = await client.call_tool("TaskReadOnly", sent)
    assert (report(result), result.is_error) == ("Done.", False)
    assert not (tmp_path / "made.txt").exists()


async def test_a_task_that_has_ended_is_woken_by_a_message_and_resumed_by_its_agent(tmp_path: Path) -> None:
    turns = {"*": [says("First."), says("Second."), says("Third.")]}
    async with office(tmp_path, turns) as here, here.client() as client:
        task = task_of(await client.call_tool("Task", {"subagent_type": "Explore", "prompt": "Go"}))
        woken = text(await client.call_tool("SendMessage", {"task_id": task, "message": "And then?"}))
        assert woken.startswith(f"Explore (task {task}) had finished; it continues in the background")
        second = text(await client.call_tool("TaskOutput", {"task_id": task}))
        assert "Output:\n> Second.\n[Task" in second
        again = {"subagent_type": "Explore", "prompt": "Go on", "resume": task}
        third = await client.call_tool("Task", again)
        assert (report(third), task_of(third)) == ("Third.", task)
        other = await client.call_tool("Task", {**again, "subagent_type": "Plan"})
    assert text(other).startswith(f"Task {task} belongs to Explore;")


async def test_a_client_gives_an_agent_no_more_turns_than_its_file(tmp_path: Path) -> None:
    turns = {"*": [says("", call("LS"))] * 40}
    async with office(tmp_path, turns) as here, here.client() as client:
        gen = await here.rooms.at(tmp_path)
        sent = {"subagent_type": "Explore", "prompt": "Look", "max_turns": 1000}
        ended = task_of(await client.call_tool("Task", sent))
        most = gen.agents.find("Explore").max_turns
        task = await gen.get(ended)
    assert most is not None
    assert (task.status, task.turns) == (Status.LIMIT_REACHED, most)


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("Task", {"prompt": "x"}, "Task takes subagent_type"),
        ("Task", {"subagent_type": "Nobody", "prompt": "x"}, "There is no agent 'Nobody'"),
        (
            "Task",
            {"subagent_type": "Plan", "prompt": "x", "model": "scripted:/etc/passwd"},
            "is a file",
        ),
        (
            "Task",
            {"subagent_type": "Plan", "prompt": "x", "model": "scripted"},
            "There is no model 'scripted'",
        ),
        ("TaskOutput", {"task_id": "00000000"}, "There is no task '00000000'"),
        ("TaskOutput", {"task_id": "shell_1"}, "There is no task 'shell_1'"),
        ("TaskStop", {"task_id": "x"}, "There is no task 'x'"),
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
        with pytest.raises(MCPError, match="Bash"):
            await client.call_tool("Bash", {"command": "ls"})
