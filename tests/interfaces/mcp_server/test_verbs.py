"""The verbs that cut or end a task, as a client of `gen mcp` has them."""

from pathlib import Path

import pytest

from gencode.app import GenCode
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.providers.scripted import ScriptedProvider
from gencode.testing import call, says
from tests.interfaces.mcp_server.offices import ERAS, office, task_of, text
from tests.tasks.agent_file import write_agent
from tests.waiting import until

REPORT = "\n\nIts last message:\nso far"
LATE = says("late", delay_ms=600_000)
BEHIND = {"subagent_type": "general-purpose", "prompt": "Look", "run_in_background": True}
FREE = {"permission_mode": "dontAsk", "sandbox": "off"}
AT_WORK = [says("", call("Bash", command="sleep 300")), says("so far")]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("how", "status", "told"),
    [
        ("interrupt", "completed", "was interrupted and continues from there."),
        (
            "keep",
            "cancelled",
            "was stopped after 1 turn and is now cancelled.\n\nIts last message:\n> so far",
        ),
        ("stop", "cancelled", "was stopped after 1 turn and is now cancelled."),
        ("tree", "cancelled", "was stopped after 1 turn and is now cancelled."),
    ],
)
async def test_a_client_has_every_verb(tmp_path: Path, era: str, how: str, status: str, told: str) -> None:
    async with office(tmp_path, {"*": AT_WORK}, FREE) as here, here.client(era) as client:
        gen = await here.rooms.at(tmp_path)
        task = task_of(await client.call_tool("Task", BEHIND))

        async def begun() -> bool:
            return (await gen.get(task)).turns == 1

        await until(begun, "it makes its call")
        hit = text(await client.call_tool("TaskStop", {"task_id": task, "how": how}))
        await client.call_tool("TaskOutput", {"task_id": task})
        ended = (await gen.get(task)).status
    hit = hit.partition("\n[Task")[0]
    assert (hit, ended) == (f"Task {task} of general-purpose {told}", status)


async def test_a_client_hears_what_goes_on_below_and_stops_that_too(tmp_path: Path, home: Path) -> None:
    write_agent(home / ".gen" / "agents", "Leader", "Task(Plan), Read")
    lead = [says("", call("Task", subagent_type="Plan", prompt="plan", run_in_background=True)), LATE]
    script = {"Leader": lead, "Plan": [LATE]}
    async with office(tmp_path, script, {"max_depth": 2}) as here, here.client() as client:
        gen = await here.rooms.at(tmp_path)
        task = task_of(await client.call_tool("Task", {**BEHIND, "subagent_type": "Leader"}))
        await until(lambda: len(gen.running) == 2, "both are at work")
        (below,) = await gen.tasks(parent=task)
        stop = {"task_id": task}
        first = text(await client.call_tool("TaskStop", stop))
        assert (await gen.get(below.agent_id)).status is Status.RUNNING
        then = text(await client.call_tool("TaskStop", {**stop, "how": "tree"}))
        ended = (await gen.get(below.agent_id)).status
    plan = f"{below.agent_id} (Plan)"
    assert first.partition(" Subagents ")[2] == (
        f'still running: {plan}. To stop that: TaskStop(task_id="{task}", how="tree").'
    )
    assert then == f"Task {task} of Leader had already finished (cancelled). Subagents also stopped: {plan}."
    assert ended is Status.CANCELLED


async def test_a_client_stops_no_tree_in_which_another_process_is_at_work(tmp_path: Path, home: Path) -> None:
    write_agent(home / ".gen" / "agents", "Leader", "Task(Plan), Read")
    lead = [says("", call("Task", subagent_type="Plan", prompt="plan", run_in_background=True)), says("led")]
    script = ScriptedProvider.of({"Leader": [*lead, says("told")], "Plan": [says("planned"), LATE]})
    async with GenCode.open(tmp_path, model=script, settings={"max_depth": 2}) as other:
        led = (await other.task("Leader", "lead")).agent_id
        (below,) = await other.tasks(parent=led)
        job = await other.start_resume(below.agent_id, TaskRequest("", "go on", background=True))
        async with office(tmp_path, {"*": [LATE]}) as here, here.client() as client:
            refused = await client.call_tool("TaskStop", {"task_id": led, "how": "tree"})
        assert not job.over
    assert refused.is_error
    assert text(refused).startswith(f"Task {below.agent_id} runs in another process;")
