"""How far a client reaches: its roots, the trust of the folder, and the tasks of others."""

import asyncio
from pathlib import Path

import mcp_types as types
import pytest
from pydantic import FileUrl

from gencode.app import GenCode
from gencode.core.spec import TaskRequest
from gencode.interfaces.mcp_server import server
from gencode.providers.scripted import ScriptedProvider
from gencode.testing import call, says
from tests.interfaces.mcp_server.offices import ERAS, names, office, report, task_of, text
from tests.interfaces.mcp_server.roots import rooted

READS = {
    "*": [says("", call("Read", file_path="../secret.txt"), call("Read", file_path="own.txt")), says(".")]
}
GO = {"subagent_type": "Explore", "prompt": "Read them"}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "base"
    (folder / "inner").mkdir(parents=True)
    (folder / "secret.txt").write_text("the treasure")
    (folder / "inner" / "own.txt").write_text("mine")
    return folder


@pytest.mark.parametrize("era", ERAS)
async def test_agents_do_not_reach_what_lies_outside_of_the_roots(base: Path, era: str) -> None:
    async with office(base, READS) as here:
        async with here.client(era, list_roots_callback=rooted(base / "inner")) as client:
            result = await client.call_tool("Task", GO)
            listed = (await client.list_resources()).resources
            transcript = await client.read_resource(f"gencode://tasks/{task_of(result)}/transcript")
        gen = await here.rooms.at(base / "inner")
        assert [task.cwd for task in await gen.tasks()] == [str(base / "inner")]
    told = str(transcript)
    assert ("mine" in told, "the treasure" in told) == (True, False)
    assert len(listed) == 2


async def test_a_client_that_says_it_has_roots_and_does_not_tell_them_works_in_the_folder_of_the_server(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "ROOTS_SECONDS_OF_LISTS", 0.2)
    monkeypatch.setattr(server, "ROOTS_SECONDS", 0.5)
    asked: list[object] = []

    async def silent(context: object) -> types.ListRootsResult:
        asked.append(context)
        await asyncio.Event().wait()
        raise AssertionError("it waits for ever")

    async with office(base, READS) as here, here.client(list_roots_callback=silent) as client:
        tools = names((await client.list_tools()).tools)
        prompts = names((await client.list_prompts()).prompts)
        resources = (await client.list_resources()).resources
        assert len(asked) == 1
        result = await client.call_tool("Task", GO)
        await client.call_tool("task_list", {})
        gen = await here.rooms.at(base)
        assert [task.cwd for task in await gen.tasks()] == [str(base)]
    assert (len(asked), result.is_error, resources) == (2, False, [])
    assert "TaskOutput" in tools
    assert "Explore" in prompts


@pytest.mark.parametrize("era", ERAS)
async def test_roots_elsewhere_are_refused_with_a_sentence(base: Path, era: str) -> None:
    tell = rooted(base.parent / "other")
    async with office(base / "inner", READS) as here, here.client(era, list_roots_callback=tell) as client:
        result = await client.call_tool("Task", GO)
    assert result.is_error
    assert "--cwd" in text(result)


async def test_roots_that_change_count_from_the_next_call_on(base: Path) -> None:
    now = [base]

    async def tell(_: object) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl(now[0].as_uri()))])

    async with office(base, READS) as here, here.client(list_roots_callback=tell) as client:
        first = task_of(await client.call_tool("Task", GO))
        now[0] = base / "inner"
        await client.session.send_notification(types.RootsListChangedNotification())
        second = task_of(await client.call_tool("Task", GO))
        gen = await here.rooms.at(base)
        folders = {task.agent_id: task.cwd for task in await gen.tasks()}
        gone = await client.call_tool("TaskOutput", {"task_id": first})
    assert folders == {first: str(base), second: str(base / "inner")}
    assert text(gone).startswith(f"There is no task '{first}'")


async def test_a_narrower_root_does_not_shake_off_what_is_refused_above(base: Path) -> None:
    (base / ".gen").mkdir()
    (base / ".gen" / "settings.toml").write_text('deny = ["Read(inner/**)"]\n')
    async with office(base, READS, {"permission_mode": "plan"}) as here:
        gen = await here.rooms.at(base / "inner")
        decided = gen.explain("Read", {"file_path": "own.txt"}).decision
    assert decided == "deny"
    assert gen.policy.mode == "plan"


async def test_the_agents_of_a_folder_that_nobody_trusts_are_absent(base: Path) -> None:
    (base / ".claude" / "agents").mkdir(parents=True)
    agent = "---\nname: helper\ndescription: Helps.\n---\nHelp.\n"
    (base / ".claude" / "agents" / "helper.md").write_text(agent)
    async with office(base, READS) as here, here.client() as client:
        assert "helper" not in names((await client.list_prompts()).prompts)
        result = await client.call_tool("Task", {"subagent_type": "helper", "prompt": "x"})
    assert result.is_error


async def test_conversations_and_what_they_sent_are_nobody_elses_business(base: Path) -> None:
    turns = {"main": [says("", call("Task", **GO)), says("Told.")], "*": [says("A secret.")]}
    async with GenCode.open(base, model=ScriptedProvider.of(turns)) as mine:
        asked = await mine.ask("Look").outcome()
        children = [each.agent_id for each in await mine.tasks(asked.agent_id)]
    assert len(children) == 1
    async with office(base, READS) as here, here.client() as client:
        for task in (asked.agent_id, *children):
            found = await client.call_tool("TaskOutput", {"task_id": task})
            assert text(found).startswith(f"There is no task '{task}'")
        assert text(await client.call_tool("task_list", {})) == "There are no tasks."
        assert (await client.list_resources()).resources == []


async def test_a_task_of_another_process_is_looked_at_and_not_steered(base: Path) -> None:
    slow = ScriptedProvider.of({"*": [says("…", delay_ms=60_000)]})
    async with GenCode.open(base, model=slow, settings={"permission_mode": "dontAsk"}) as other:
        job = await other.start_task(TaskRequest("Explore", "Stay", background=True))
        async with office(base, READS) as here, here.client() as client:
            looked = await client.call_tool("TaskOutput", {"task_id": job.id, "block": False})
            said = await client.call_tool("SendMessage", {"task_id": job.id, "message": "rm -rf"})
            stopped = await client.call_tool("TaskStop", {"task_id": job.id})
        assert not job.over
    assert "still running" in text(looked)
    assert [text(each).partition(";")[0] for each in (said, stopped)] == [
        f"Task {job.id} runs in another process"
    ] * 2


async def test_a_task_goes_on_under_the_permissions_of_this_server(base: Path) -> None:
    writes = [says("First."), says("", call("Write", file_path="made.txt", content="x")), says("Second.")]
    model = ScriptedProvider.of({"*": writes})
    async with GenCode.open(base, model=model, settings={"permission_mode": "dontAsk"}) as free:
        task = (await free.task("general-purpose", "Begin")).agent_id
    again = {"subagent_type": "general-purpose", "prompt": "Go on", "resume": task}
    async with office(base, {"*": writes}) as here, here.client() as client:
        result = await client.call_tool("Task", again)
    assert (report(result), (base / "made.txt").exists()) == ("Second.", False)
