"""A shared token reaches the tasks of the server's folder, and nothing of those of other folders."""

from pathlib import Path
from typing import Any

from gencode.interfaces.http.application import ENDPOINTS
from gencode.testing import call, says
from tests.interfaces.http.serving import Client, served, take
from tests.tasks.repository import repository

FREE = {"permission_mode": "dontAsk"}
LOOKS = [says("I have looked.")]
BODIES: dict[str, Any] = {
    "interrupt_task": {"message": "hello"},
    "send_to_task": {"message": "hello"},
    "resume_task": {"prompt": "go on"},
    "fork_task": {"prompt": "go on"},
    "rewind_task": {"to": 1},
}
PARAMETERS: dict[str, Any] = {"get_hits": {"verb": "stop"}, "preview_rewind": {"to": 1}}


async def began(client: Client, prompt: str) -> str:
    answer = await client.post("/api/tasks", {"agent": "Explore", "prompt": prompt})
    assert answer.status == 201, answer.json
    return answer.json["agentId"]


async def test_a_shared_token_sees_the_tasks_of_its_folder_only(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    async with (
        served(tmp_path / "ours", share=["view", "act"], Explore=LOOKS) as ours,
        served(tmp_path / "theirs", Explore=LOOKS) as theirs,
    ):
        view, act, owner = ours.shared(0), ours.shared(1), ours.client
        mine, foreign = await began(owner, "ours"), await began(theirs.client, "theirs")
        for task in (mine, foreign):
            await owner.ended(task)
        async with view.stream("/api/stream?states=true", "0") as stream:
            seen = await take(stream, lambda frame: frame.type == "StreamOpened")
            await theirs.client.ended(await began(theirs.client, "theirs again"))
            last = await began(owner, "ours again")
            seen += await take(stream, lambda frame: bool(frame.id and frame.id.startswith(last)))
        assert {frame.data["task"] for frame in seen if "task" in frame.data} == {mine, last}
        for each in ENDPOINTS:
            if each.path.startswith("/api/tasks/{id}") and each.name not in (
                "rewind_task",
                "set_task_budget",
            ):
                body = {} if each.method == "GET" else {"json": BODIES.get(each.name, {})}
                params = PARAMETERS.get(each.name, {})
                answer = await act.ask(each.method, each.path.format(id=foreign), params=params, **body)
                assert answer.status == 404, (each.name, answer.json)
        for path in (
            f"tasks/{foreign[:6]}",
            f"times?id={foreign}",
            f"states?id={foreign}",
            f"usage?task={foreign}",
            f"tasks/{mine}/replay?against={foreign}",
            f"conversations/session/{foreign}",
        ):
            assert (await view.get(f"/api/{path}")).status == 404, path
        for path in ("tasks", "states", "usage", "conversations"):
            assert (await view.get(f"/api/{path}?all=true")).status == 403, path
            assert (await owner.get(f"/api/{path}?all=true")).status == 200, path
        listed = (await view.get("/api/events?after=0&limit=500")).json["events"]
        assert {event["task"] for event in listed} == {mine, last}
        assert foreign in {
            event["task"] for event in (await owner.get("/api/events?after=0&limit=500")).json["events"]
        }


async def test_a_shared_token_sees_subagents_that_work_in_a_copy(tmp_path: Path) -> None:
    starts = call("Task", subagent_type="general-purpose", prompt="go", isolation="worktree")
    agents: dict[str, Any] = {"main": [says("", starts), says("Done.")], "general_purpose": LOOKS}
    async with served(repository(tmp_path / "ws"), settings=FREE, share=["view"], **agents) as site:
        session = (await site.client.post("/api/conversations/web/1", {"text": "go"})).json["sessionId"]
        await site.client.ended(session)
        tree = (await site.client.get(f"/api/tasks/{session}/tree")).json
        ids = {task["agentId"] for task in tree["tasks"]}
        assert len(ids) == 2
        for task in ids:
            assert (await site.shared().get(f"/api/tasks/{task}")).status == 200


async def test_a_shared_token_writes_to_no_conversation_of_another_folder(tmp_path: Path) -> None:
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    async with (
        served(tmp_path / "ours", share=["act"], main=LOOKS) as ours,
        served(tmp_path / "theirs", main=LOOKS) as theirs,
    ):
        started = await theirs.client.post("/api/conversations/web/1", {"text": "hi"})
        session = started.json["sessionId"]
        await theirs.client.ended(session)
        answer = await ours.shared().post(f"/api/conversations/session/{session}", {"text": "do it"})
        assert answer.status == 404, answer.json
        assert await ours.client.heard(session) == ["hi"]


async def test_no_model_that_is_a_file_can_be_chosen_over_http(tmp_path: Path) -> None:
    (tmp_path / "hostile.json").write_text('{"agents": {"main": []}}')
    async with served(tmp_path, share=["act"], main=LOOKS) as site:
        before = (await site.client.get("/api/health")).json["model"]
        for client in (site.client, site.shared()):
            for model in (f"scripted:{tmp_path}/hostile.json", " Scripted:hostile.json", "local/x.gguf"):
                assert (await client.ask("PUT", "/api/session", json={"model": model})).status == 400
        assert (await site.client.get("/api/health")).json["model"] == before
