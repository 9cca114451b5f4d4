"""Conversations by address: what is said is heard, and what was sent comes back to the chat that asked."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gencode.app import components
from gencode.channels.address import parse_address
from gencode.channels.outbox import WebhookChannel, WebhookSettings
from gencode.core.ids import stamp
from gencode.interfaces.chat.chat_addresses import ChatAddresses
from gencode.schedule.scheduled_jobs import ScheduledJob
from gencode.testing import call, says
from tests.interfaces.http.serving import Client, served, take
from tests.workspaces.village import page, village_in

SPAWN = call("Task", subagent_type="Explore", prompt="look", description="a look", run_in_background=True)


async def say(client: Client, text: str, chat: str = "web/room") -> Any:
    answer = await client.post(f"/api/conversations/{chat}", {"text": text})
    assert answer.status == 202, answer.json
    return answer.json


async def test_an_address_leads_to_one_conversation(tmp_path: Path) -> None:
    async with served(tmp_path, main=[says("one"), says("two"), says("three")]) as site:
        first = await say(site.client, "hello")
        assert (first["address"], first["began"]) == ("web:room", True)
        assert (await site.client.ended(first["sessionId"]))["result"] == "one"
        again = await say(site.client, "and now?")
        assert (again["sessionId"], again["began"]) == (first["sessionId"], True)
        assert (await site.client.ended(first["sessionId"]))["result"] == "two"
        other = await say(site.client, "hello", "web/another room/with a slash")
        assert other["sessionId"] != first["sessionId"]
        assert other["address"] == "web:another room/with a slash"
        same = await say(site.client, "by id", f"session/{first['sessionId']}")
        assert same["sessionId"] == first["sessionId"]
        await site.client.ended(first["sessionId"])
        assert await site.client.heard(first["sessionId"]) == ["hello", "and now?", "by id"]
        listed = (await site.client.get("/api/conversations")).json["conversations"]
        assert [chat["address"] for chat in listed] == ["web:another room/with a slash", "web:room"]


async def test_addresses_survive_a_restart(tmp_path: Path) -> None:
    async with served(tmp_path, main=[says("one"), says("two")]) as site:
        first = await say(site.client, "hello")
        await site.client.ended(first["sessionId"])
    async with served(tmp_path, main=[says("one"), says("two")]) as site:
        again = await say(site.client, "still there?")
        assert again["sessionId"] == first["sessionId"]
        assert (await site.client.ended(again["sessionId"]))["result"] == "two"


async def test_what_is_said_while_a_turn_is_open_is_heard_by_it(tmp_path: Path) -> None:
    turns = [says("", call("Bash", command="sleep 0.5")), says("heard both")]
    async with served(tmp_path, settings={"allow": ["Bash(sleep:*)"]}, main=turns) as site:
        first = await say(site.client, "begin")
        second = await say(site.client, "and this")
        assert (second["sessionId"], second["began"]) == (first["sessionId"], False)
        assert (await site.client.ended(first["sessionId"]))["result"] == "heard both"
        assert await site.client.heard(first["sessionId"]) == ["begin", "and this"]


async def test_messages_at_the_same_moment_reach_one_conversation(tmp_path: Path) -> None:
    async with served(tmp_path, main=[says(f"reply {number}") for number in range(20)]) as site:
        taken = await asyncio.gather(*(say(site.client, f"word {number}") for number in range(8)))
        sessions = {each["sessionId"] for each in taken}
        assert len(sessions) == 1
        session = sessions.pop()
        words = [f"word {number}" for number in range(8)]
        await eventually(lambda: _sorted(site.client.heard(session)), words)
        assert len((await site.client.get("/api/conversations")).json["conversations"]) == 1


async def test_a_result_comes_back_to_the_chat_that_asked(tmp_path: Path) -> None:
    main = [says("", SPAWN), says("I sent somebody."), says("They found it.")]
    async with served(tmp_path, main=main, Explore=[says("It is in a.py.", delay_ms=300)]) as site:
        session = (await say(site.client, "find it"))["sessionId"]
        assert (await site.client.ended(session))["result"] == "They found it."


async def test_a_result_that_ends_without_its_server_is_told_by_the_next_one(tmp_path: Path) -> None:
    """The agent has a process of its own; the conversation was at rest in no process when it ended."""
    main = [says("", SPAWN), says("I sent somebody."), says("They found it.")]
    async with served(tmp_path, main=main, Explore=[says("In a.py.", delay_ms=60_000)]) as site:
        session = (await say(site.client, "find it"))["sessionId"]
        await site.client.until("/api/tasks?agent=Explore&status=running", lambda told: bool(told["tasks"]))
        child = (await site.client.get("/api/tasks?agent=Explore")).json["tasks"][0]["agentId"]
        await site.client.until(f"/api/tasks/{session}", lambda told: told["turns"] == 2)
        await site.client.post(f"/api/tasks/{session}/interrupt")
        assert (await site.client.ended(session))["status"] == "cancelled"
        await site.client.post(f"/api/tasks/{child}/stop")
    async with served(tmp_path, main=main, Explore=[says("x")]) as site:
        assert (await site.client.get(f"/api/tasks/{session}")).json["status"] == "cancelled"
        await say(site.client, "what came of it?")
        ended = await site.client.ended(session)
        assert ended["result"] == "They found it."
        assert child in str((await site.client.get(f"/api/tasks/{session}/transcript")).json["transcript"])


async def test_a_word_left_for_a_chat_at_rest_begins_a_turn(tmp_path: Path) -> None:
    """So a scheduler, or another process, reaches a conversation through the journal alone."""
    async with served(tmp_path, main=[says("one"), says("I heard it.")]) as site:
        session = (await say(site.client, "hello"))["sessionId"]
        await site.client.ended(session)
        await components(site.gen).store.post(session, "It is nine o'clock.", "system")
        await site.client.until(f"/api/tasks/{session}", lambda told: told["result"] == "I heard it.")
        ended = await site.client.ended(session)
        assert (ended["turns"], ended["success"]) == (2, True)


async def test_an_interrupted_conversation_goes_on_with_what_was_said_to_it(tmp_path: Path) -> None:
    long = [says("", call("Bash", command=f"sleep {seconds}")) for seconds in (60, 61)]
    main = [*long, says("both heard"), says("on")]
    async with served(tmp_path, settings={"allow": ["Bash(sleep:*)"]}, main=main) as site:
        session = (await say(site.client, "begin"))["sessionId"]
        await site.client.until(f"/api/tasks/{session}", lambda told: told["turns"] == 1)
        begun = (await say(site.client, "said just before"))["began"]
        cut = await site.client.post(f"/api/tasks/{session}/interrupt")
        assert (begun, cut.json["interrupted"], cut.json["status"]) == (False, [session], "running")
        await site.client.until(f"/api/tasks/{session}", lambda told: told["turns"] == 2)
        cut = await site.client.post(f"/api/tasks/{session}/interrupt", {"message": "do this instead"})
        assert (cut.json["interrupted"], cut.json["status"]) == ([session], "running")
        assert (await site.client.ended(session))["result"] == "both heard"
        assert await site.client.heard(session) == ["begin", "said just before", "do this instead"]
        late = await site.client.post(f"/api/tasks/{session}/interrupt", {"message": "one more"})
        assert late.json["interrupted"] == []
        assert (await site.client.ended(session))["result"] == "on"


async def test_an_interrupt_without_words_puts_a_conversation_aside(tmp_path: Path) -> None:
    async with served(tmp_path, main=[says("first", delay_ms=60_000), says("never")]) as site:
        session = (await say(site.client, "begin"))["sessionId"]
        cut = await site.client.post(f"/api/tasks/{session}/interrupt")
        assert (cut.json["interrupted"], cut.json["status"]) == ([session], "cancelled")


async def test_servers_of_two_folders_look_after_their_own_chats(tmp_path: Path, home: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()

    async def sent() -> list[str]:
        return sent_on(home)

    async with served(one, main=[says("of one")]), served(two, main=[says("of two")]) as site:
        await say(site.client, "hello", "file/team")
        await eventually(sent, ["of two"])


async def test_a_channel_that_takes_nothing_is_named_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hook = WebhookChannel("team", WebhookSettings("http://127.0.0.1:9/in"))
    async with served(tmp_path, main=[says("one"), says("two")]) as site:
        site.gen.outbox.register("team", hook)
        session = (await say(site.client, "hello", "team/room"))["sessionId"]
        await site.client.ended(session)
        await say(site.client, "again", "team/room")

        async def waiting() -> int:
            return len(await components(site.gen).store.outbox.pending())

        await eventually(waiting, 2)
    told = [each.getMessage() for each in caplog.records if "refused a message" in each.getMessage()]
    assert len(told) == 1 and "127.0.0.1 is no public address" in told[0]


async def _sorted(words: Awaitable[list[str]]) -> list[str]:
    return sorted(await words)


def sent_on(home: Path) -> list[str]:
    """What the channel `file` was given for the chat `team`."""
    path = home / ".gen" / "outbox" / "team.md"
    text = path.read_text() if path.exists() else ""
    return [line.strip() for line in text.splitlines() if line.startswith("  ")]


async def eventually(look: Callable[[], Awaitable[Any]], wanted: Any) -> None:
    """Wait until something is as it should be."""
    async with asyncio.timeout(60):
        found = await look()
        while found != wanted:
            await asyncio.sleep(0.02)
            found = await look()
    assert found == wanted


async def test_replies_leave_through_the_channel_of_the_chat_once_each(tmp_path: Path, home: Path) -> None:
    main = [says("", SPAWN), says("I sent somebody."), says("They found it."), says("Bye.")]
    first = ["I sent somebody.", "They found it."]

    async def sent() -> list[str]:
        return sent_on(home)

    async with served(tmp_path, main=main, Explore=[says("x", delay_ms=200)]) as site:
        session = (await say(site.client, "find it", "file/team"))["sessionId"]
        await site.client.ended(session)
        await eventually(sent, first)
    async with served(tmp_path, main=main, Explore=[says("x")]) as site:
        other = await say(site.client, "a room without a channel", "nowhere/team")
        await say(site.client, "bye", "file/team")
        await eventually(sent, [*first, "Bye."])
        await site.client.ended(other["sessionId"])
    assert sent_on(home) == [*first, "Bye."]


async def test_a_webhook_is_a_channel_and_a_chat_behind_it_is_told_what_came(tmp_path: Path) -> None:
    main = [says("", SPAWN), says("I sent somebody."), says("They found it.")]
    (tmp_path / "village").mkdir()
    async with (
        village_in(tmp_path / "village") as village,
        served(tmp_path, main=main, Explore=[says("In a.py.", delay_ms=200)]) as site,
    ):
        house = await village.build("hook.example.net", page(b"ok"))
        hook = WebhookChannel("team", WebhookSettings("http://hook.example.net/in"), village)
        site.gen.outbox.register("team", hook)
        session = (await say(site.client, "find it", "team/room"))["sessionId"]
        await site.client.ended(session)

        async def sent() -> list[str]:
            return [json.loads(visit.body)["text"] for visit in house.visits]

        await eventually(sent, ["I sent somebody.", "They found it."])
        told = [json.loads(visit.body) for visit in house.visits]
        assert {(each["channel"], each["chat"]) for each in told} == {("team", "room")}
        assert len({each["id"] for each in told}) == 2


async def test_what_is_planned_runs_in_the_server_and_reaches_its_chat(tmp_path: Path, home: Path) -> None:
    async with served(tmp_path, main=[says("It is nine.")]) as site:
        now = stamp()
        planned = (f"at {now}", "What time is it?", "UTC", str(tmp_path), site.gen.policy, now, now)
        model = f"scripted:{tmp_path}/script.json"
        await components(site.gen).store.schedule.add(ScheduledJob(*planned, model=model, to="file:team"), 10)

        async def told() -> bool:
            return any("It is nine." in line for line in sent_on(home))

        await eventually(told, True)
        [session] = (await site.client.get("/api/conversations")).json["conversations"]
        assert session["session"]["result"] == "It is nine."


async def test_a_word_outside_of_the_answer_reaches_the_page(tmp_path: Path) -> None:
    word = call("message", content="Nearly there.")
    settings = {"tools": ["message"], "allow": ["message"]}
    async with (
        served(tmp_path, settings=settings, main=[says("", word), says("Done.")]) as site,
        site.client.stream("/api/stream") as stream,
    ):
        await say(site.client, "go")
        told = (await take(stream, lambda frame: frame.type == "ChatMessage"))[-1]
        assert (told.id, told.data["address"], told.data["text"]) == (None, "web:room", "Nearly there.")


async def test_wrong_addresses_are_refused(tmp_path: Path) -> None:
    async with served(tmp_path, main=[says("one")], Explore=[says("x")]) as site:
        for chat in ("We%20b/room", "web/%00", "web/" + "x" * 300, "web/%20"):
            assert (await site.client.post(f"/api/conversations/{chat}", {"text": "x"})).status in (400, 404)
        assert (await site.client.get("/api/conversations/web/nobody")).status == 404
        assert (await site.client.post("/api/conversations/web/room", {"text": " "})).status == 400
        task = (await site.client.post("/api/tasks", {"agent": "Explore", "prompt": "x"})).json["agentId"]
        assert (await site.client.post(f"/api/conversations/session/{task}", {"text": "x"})).status == 400
        assert (await site.client.get("/api/conversations")).json["conversations"] == []


def test_lines_that_a_hand_broke_do_not_hide_the_others(tmp_path: Path) -> None:
    path = tmp_path / "chats.jsonl"
    one = ChatAddresses(path, tmp_path)
    one.bind(parse_address("web:a"), "00000001")
    with path.open("a") as file:
        file.write("nonsense\n{}\n")
    one.bind(parse_address("web:b"), "00000002")
    with path.open("a") as file:
        file.write('{"address": "web:c"')
    again = ChatAddresses(path, tmp_path)
    assert [(line.address, line.session) for line in again.all()] == [
        ("web:a", "00000001"),
        ("web:b", "00000002"),
    ]
    assert ChatAddresses(path, tmp_path / "elsewhere").all() == []
