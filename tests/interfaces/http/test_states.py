"""The states of tasks: folded by the server, told on streams that want them, the same as the lists say."""

from pathlib import Path
from typing import Any

from gencode.testing import call, says
from tests.interfaces.http.serving import Client, Frame, served, take

LOOK = [says("I look.", call("LS", path=".")), says("I have looked.")]
WRITE = [says("", call("Write", file_path="notes.txt", content="one\n")), says("It is written.")]
SEND = call("Task", subagent_type="Explore", description="look", prompt="look")


async def start(client: Client, agent: str = "Explore") -> str:
    answer = await client.post("/api/tasks", {"agent": agent, "prompt": "look"})
    assert answer.status == 201, answer.json
    return answer.json["agentId"]


def state_ended(frame: Frame) -> bool:
    return frame.type == "TaskState" and frame.data["state"]["endedAt"] is not None


async def state(client: Client, task: str) -> Any:
    [told] = (await client.get("/api/states", id=task)).json["states"]
    return told


async def test_a_stream_tells_states_only_to_who_wants_them_and_the_last_one_is_that_of_the_list(
    tmp_path: Path,
) -> None:
    async with (
        served(tmp_path, Explore=LOOK) as site,
        site.client.stream("/api/stream?states=true") as stream,
        site.client.stream("/api/stream") as plain,
    ):
        task = await start(site.client)
        found = await take(stream, state_ended)
        other = await take(plain, lambda frame: frame.type == "SubSessionCompleted")
        told = [frame.data["state"] for frame in found if frame.type == "TaskState"]
        assert [each["agentId"] for each in told] == [task] * len(told)
        assert [each["seq"] for each in told] == sorted(each["seq"] for each in told)
        assert {frame.id for frame in found if frame.type == "TaskState"} == {None}
        assert told[-1] == await state(site.client, task)
        assert told[-1]["step"] == "I have looked."
        assert (told[-1]["turns"], told[-1]["status"], told[-1]["runningSince"]) == (2, "completed", None)
        assert "TaskState" not in {frame.type for frame in other}


async def test_who_comes_back_is_told_the_states_of_what_changed_meanwhile(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=LOOK) as site:
        before = await start(site.client)
        await site.client.ended(before)
        cursor = (await site.client.get("/api/states")).json["cursor"]
        task = await start(site.client)
        await site.client.ended(task)
        async with site.client.stream("/api/stream?states=true", cursor) as stream:
            found = await take(stream, lambda frame: frame.type == "StreamOpened")
        assert [frame.data["task"] for frame in found if frame.type == "TaskState"] == [task]
        async with site.client.stream(f"/api/tasks/{before}/stream?states=true") as stream:
            found = await take(stream, state_ended)
        assert found[-1].data["state"] == await state(site.client, before)


async def test_a_state_says_what_a_task_does_and_which_call_asked_for_it(tmp_path: Path) -> None:
    main = [says("", SEND), says("It came.")]
    async with served(tmp_path, main=main, Explore=[says("found it", delay_ms=60_000)]) as site:
        begun = await site.client.post("/api/conversations/web/one", {"text": "go"})
        session = begun.json["sessionId"]
        told = await site.client.until("/api/states", lambda told: len(told["states"]) == 2)
        child, parent = told["states"]
        assert parent["agentId"] == child["parentId"] == session
        assert (parent["conversation"], child["conversation"]) == (True, False)
        said = (await site.client.get(f"/api/tasks/{session}/transcript")).json["transcript"]
        assert child["callId"] == said[1]["calls"][0]["id"]
        running = await site.client.until(
            f"/api/states?id={session}", lambda told: "Explore" in told["states"][0]["step"]
        )
        assert running["states"][0]["status"] == "running"
        times = (await site.client.get("/api/times", id=session)).json["tasks"]
        assert times[0]["spans"][-1]["activity"] == "waiting_for_agents"
        assert times[0]["spans"][-1]["until"] is None


async def test_times_tell_what_a_task_waited_for(tmp_path: Path) -> None:
    async with served(tmp_path, general_purpose=WRITE) as site:
        task = await start(site.client, "general-purpose")
        asked = await site.client.until("/api/questions", lambda told: bool(told["questions"]))
        early = (await site.client.get("/api/times", id=task)).json["tasks"][0]["spans"]
        assert [each["activity"] for each in early] == ["queued", "working", "waiting_for_person"]
        assert early[-1]["until"] is None
        number = asked["questions"][0]["number"]
        await site.client.post(f"/api/questions/{number}", {"allow": True})
        await site.client.ended(task)
        [times] = (await site.client.get("/api/times", id=task)).json["tasks"]
        told = await state(site.client, task)
        assert [each["activity"] for each in times["spans"]] == [
            *("queued", "working", "waiting_for_person", "working"),
        ]
        assert times["seq"] == told["seq"]
        assert times["spans"][-1]["until"] == told["endedAt"]
        assert all(
            one["until"] == other["since"]
            for one, other in zip(times["spans"], times["spans"][1:], strict=False)
        )


async def test_a_task_is_shown_as_it_was_after_a_fact(tmp_path: Path) -> None:
    async with served(tmp_path, Explore=LOOK) as site:
        task = await start(site.client)
        await site.client.ended(task)
        facts: list[dict[str, Any]] = (await site.client.get(f"/api/tasks/{task}/events")).json["events"]
        turns = [
            (await site.client.get(f"/api/tasks/{task}", at=fact["seq"])).json["turns"] for fact in facts
        ]
        replies = [
            fact["type"] == "MessageAdded" and fact["message"]["role"] == "assistant" for fact in facts
        ]
        assert turns == [sum(replies[: place + 1]) for place in range(len(facts))]
        missing = await site.client.get(f"/api/tasks/{task}", at=len(facts) + 1)
        assert missing.status == 404
