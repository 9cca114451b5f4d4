"""The parts that need no process: what is sent and shown, what a prompt says and when it is answered."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from acp.exceptions import RequestError
from acp.helpers import (
    embedded_blob_resource,
    embedded_text_resource,
    resource_block,
    resource_link_block,
    start_tool_call,
    text_block,
    update_tool_call,
)
from acp.schema import ContentToolCallContent
from hypothesis import given
from hypothesis import strategies as st

from gencode.core.events import AnyFact, Event, MessageAdded, TaskEnded
from gencode.core.messages import AssistantMessage, Image, UserMessage
from gencode.core.status import EndReason, Status
from gencode.core.text import visible
from gencode.interfaces.acp.editor_client import UpdateQueue
from gencode.interfaces.acp.prompts import MOST_OF_ONE, PendingPrompt, PendingPrompts, prompt_text
from gencode.interfaces.acp.tool_call_updates import describe_call, plan_entries
from gencode.interfaces.render.transcript import Call


class Sent:
    """What an editor was sent, and whether it reads."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.reads = asyncio.Event()
        self.reads.set()

    async def send(self, update: Any) -> None:
        await self.reads.wait()
        self.updates.append(update)


async def drained(out: UpdateQueue) -> None:
    """Send everything that waits."""
    pumping = asyncio.create_task(out.send_all())
    out.release()
    await out.flush()
    pumping.cancel()
    await asyncio.wait([pumping])


async def test_what_waits_for_a_slow_editor_is_joined() -> None:
    sent = Sent()
    out = UpdateQueue(sent.send, held=True)
    for piece in ("one ", "two ", "\x1b[31m", "three\r", "\nfour"):
        out.add_text("agent_message_chunk", piece)
    out.add(start_tool_call("a", "Read", status="pending"))
    out.add(update_tool_call("a", status="in_progress"))
    out.add(update_tool_call("a", status="in_progress"))
    out.add(update_tool_call("a", status="completed", title="Read(x)"))
    out.end_message()
    out.add_text("agent_message_chunk", "five")
    await drained(out)
    words, call, last = sent.updates
    assert words.content.text == "one two \\x1b[31mthree\nfour"
    assert (call.session_update, call.status, call.title) == ("tool_call", "completed", "Read(x)")
    assert last.content.text == "five"
    assert words.message_id != last.message_id


async def test_an_editor_that_is_gone_holds_nobody() -> None:
    tried: list[Any] = []

    async def gone(update: Any) -> None:
        tried.append(update)
        raise ConnectionError("closed")

    out = UpdateQueue(gone)
    out.add_note("said to nobody")
    await out.send_all()
    out.add_text("agent_message_chunk", "more")
    out.add(start_tool_call("a", "Read"))
    await out.flush()
    assert [each.content.text for each in tried] == ["\n\n> said to nobody\n\n"]


JOINED = st.text(
    "👩💻🏽❤\ufe0f1\u20e3\u200d\u200cمکक्葛\U000e0100🏴\U000e0067\U000e0062\U000e007f\ra", max_size=4
)
FLAG = st.just("🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f").flatmap(
    lambda flag: st.integers(0, len(flag)).map(lambda cut: [flag[:cut], flag[cut:]])
)


@given(st.lists(st.text(max_size=8) | JOINED, max_size=8) | FLAG)
def test_pieces_are_made_visible_as_the_whole_text_would_be(pieces: list[str]) -> None:
    async def spoken() -> str:
        sent = Sent()
        out = UpdateQueue(sent.send, held=True)
        for piece in pieces:
            out.add_text("agent_message_chunk", piece)
        out.end_message()
        await drained(out)
        return "".join(each.content.text for each in sent.updates)

    whole = "".join(pieces)
    # A last CR waits for a LF that never came.
    assert asyncio.run(spoken()) == visible(whole[:-1] if whole.endswith("\r") else whole)


def fact(each: AnyFact) -> Event:
    return Event("lead", 1, "2026-01-01T00:00:00.000000Z", each)


def heard(prompts: PendingPrompts, *facts: AnyFact, rests: bool = False, busy: bool = False) -> None:
    for each in facts:
        prompts.add_event(fact(each), idle=rests, busy=busy)


SAID = MessageAdded(UserMessage("go"))


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        (TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED), "end_turn"),
        (TaskEnded(Status.EMPTY, reason=EndReason.NO_ANSWER), "end_turn"),
        (TaskEnded(Status.LIMIT_REACHED, reason=EndReason.TURN_LIMIT), "max_turn_requests"),
        (TaskEnded(Status.TIMED_OUT, reason=EndReason.TIME_LIMIT), "max_turn_requests"),
        (TaskEnded(Status.CANCELLED, reason=EndReason.STOPPED), "cancelled"),
    ],
)
async def test_how_a_turn_ended_is_the_stop_reason(end: TaskEnded, reason: str) -> None:
    prompts = PendingPrompts()
    prompt = prompts.begin()
    heard(prompts, SAID, MessageAdded(AssistantMessage("done")), end)
    assert await prompt.reason == reason


@pytest.mark.parametrize(("stop", "reason"), [("length", "max_tokens"), ("content_filter", "refusal")])
async def test_what_the_model_says_about_its_end_counts(stop: str, reason: str) -> None:
    prompts = PendingPrompts()
    prompt = prompts.begin()
    heard(
        prompts,
        SAID,
        MessageAdded(AssistantMessage("do", stop=stop)),
        TaskEnded(Status.COMPLETED, reason=EndReason.FINISHED),
    )
    assert await prompt.reason == reason


async def test_a_turn_that_failed_is_an_error_unless_it_was_cancelled() -> None:
    prompts = PendingPrompts()
    first = prompts.begin()
    heard(prompts, SAID, TaskEnded(Status.FAILED, error="no model", reason=EndReason.FAILED))
    with pytest.raises(RequestError, match="no model"):
        await first.reason
    prompts.forget(first)
    second = prompts.begin()
    prompts.cancel()
    heard(prompts, SAID, TaskEnded(Status.FAILED, error="no model", reason=EndReason.FAILED))
    assert await second.reason == "cancelled"


async def test_a_prompt_is_answered_while_others_still_work_and_only_once_it_was_heard() -> None:
    prompts = PendingPrompts()
    first, second = prompts.begin(), prompts.begin()
    heard(prompts, SAID)
    heard(prompts, MessageAdded(AssistantMessage("they work")), rests=True, busy=True)
    assert await first.reason == "end_turn"
    assert not second.reason.done()
    heard(prompts, SAID)
    heard(prompts, MessageAdded(AssistantMessage("and so do I")), rests=True, busy=True)
    assert await second.reason == "end_turn"


async def test_a_prompt_ends_once() -> None:
    prompt = PendingPrompt()
    prompt.end("end_turn")
    prompt.fail("too late")
    assert await prompt.reason == "end_turn"


def test_a_prompt_is_its_words_then_what_came_along(tmp_path: Path) -> None:
    text = prompt_text(
        [
            text_block("Look at "),
            resource_link_block("a.py", f"{(tmp_path / 'src' / 'a b.py').as_uri()}#L3"),
            text_block(" and "),
            resource_block(embedded_text_resource("file:///elsewhere/b.txt", "```\nx\n```")),
            resource_block(embedded_blob_resource("https://example.com/c", "AAAA")),
        ],
        tmp_path,
    )
    assert text == (
        'Look at @"src/a b.py#L3" and /elsewhere/b.txt'
        "[https://example.com/c is not text and was left out]\n\n"
        "Files the user refers to:\n- src/a b.py#L3\n\n"
        "/elsewhere/b.txt, as the editor shows it:\n````\n```\nx\n```\n````"
    )


def test_what_comes_along_is_bounded(tmp_path: Path) -> None:
    long = resource_block(embedded_text_resource("file:///long", "x" * (MOST_OF_ONE + 7)))
    text = prompt_text([long], tmp_path)
    assert text.count("x") < MOST_OF_ONE + 10
    assert "[… 7 more characters" in text


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("asked", "pending"),
        ("waiting", "pending"),
        ("running", "in_progress"),
        ("done", "completed"),
        ("failed", "failed"),
        ("denied", "failed"),
    ],
)
def test_a_call_is_shown_in_the_words_of_the_protocol(state: Any, status: str, tmp_path: Path) -> None:
    call = Call(
        "1", "Grep", "Grep(x\x1b)", {"pattern": "x\x1b", "path": "src", "many": [1]}, state, "", "why"
    )
    shown = describe_call("name", call, tmp_path).start().model_dump(by_alias=True, exclude_none=True)
    shown.pop("content", None)
    assert shown == {
        "sessionUpdate": "tool_call",
        "toolCallId": "name",
        "title": "Grep(x\\x1b)",
        "kind": "search",
        "status": status,
        "locations": [{"path": str(tmp_path / "src")}],
        "rawInput": {"pattern": "x\\x1b", "path": "src", "many": "[1]"},
    }


def test_pictures_are_shown_as_far_as_there_is_room(tmp_path: Path) -> None:
    images = [Image("image/png", "A" * 3_000_000) for _ in range(4)]
    call = Call("1", "paint", "paint()", {}, "done", "painted")
    shown = describe_call("name", call, tmp_path, images=images).content
    kinds = [each.content.type for each in shown if isinstance(each, ContentToolCallContent)]
    assert kinds == ["text", "image", "image", "text"]
    assert "[2 more pictures" in str(shown[-1])


@pytest.mark.parametrize(
    "todos", [None, "no list", [1], [{"content": 5, "status": "pending"}], [{"content": "x"}]]
)
def test_a_plan_that_makes_no_sense_has_no_entries(todos: Any) -> None:
    assert plan_entries({"todos": todos}) == []
