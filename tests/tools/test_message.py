"""message: a word through a channel, for the agent that leads a conversation and nobody else."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gencode.app import components
from gencode.channels.address import Address
from gencode.core.errors import ToolError
from gencode.core.events import CallDecided, ProgressMade, TaskStarted
from gencode.core.messages import Message, ToolMessage
from gencode.core.questions import Answer, Question
from gencode.core.rules import Action
from gencode.core.task import transcript_of
from gencode.testing import call, says, scripted
from gencode.tools.message import message
from tests.tools.desk import Desk

FREE = {"permission_mode": "dontAsk", "tools": ["message"]}


def answers(transcript: Sequence[Message]) -> list[tuple[str, bool]]:
    found = [each for each in transcript if isinstance(each, ToolMessage)]
    return [(result.text, result.error) for each in found for result in each.results]


async def told(folder: Path, *calls: dict[str, Any], **settings: Any) -> list[tuple[str, bool]]:
    """What the main agent is answered."""
    async with scripted(folder, settings={**FREE, **settings}, main=[says("", *calls), says("ok")]) as gen:
        outcome = await gen.ask("go").outcome()
        return answers(transcript_of(await gen.history.events(outcome.agent_id)))


async def test_what_goes_to_the_user_is_shown_at_once(tmp_path: Path) -> None:
    says_hello = says(
        "", call("message", content="one\ntwo"), call("message", content="x", channel="terminal")
    )
    async with scripted(tmp_path, settings=FREE, main=[says_hello, says("ok")]) as gen:
        heard = [event async for event in gen.ask("go")]
        waiting = await components(gen).store.outbox.pending()
    notes = [each.fact.text for each in heard if isinstance(each.fact, ProgressMade) and each.fact.note]
    assert (notes, waiting) == (["one", "two", "x"], [])


async def test_where_nobody_watches_it_waits(tmp_path: Path) -> None:
    async with scripted(
        tmp_path, settings=FREE, main=[says("", call("message", content="hi")), says("ok")]
    ) as gen:
        job = await gen.start_turn("go")
        await gen.outcome(job)
        (waiting,) = await components(gen).store.outbox.pending()
        (answer,) = answers(transcript_of(await gen.history.events(job.id)))
    assert (waiting.to, waiting.text, waiting.sender) == (Address("cli", job.id), "hi", job.id)
    assert answer[0].startswith(f"The message to cli:{job.id} could not be delivered yet") and not answer[1]


async def test_a_file_and_another_channel_take_messages(tmp_path: Path, home: Path) -> None:
    found = await told(tmp_path, call("message", content="hello", channel="file", chat_id="notes"))
    assert found == [("The message was delivered to file:notes.", False)]
    assert (home / ".gen" / "outbox" / "notes.md").read_text().endswith("]\n  hello\n\n")


async def test_a_conversation_that_came_through_a_channel_is_answered_there(tmp_path: Path) -> None:
    sent: list[tuple[str, str]] = []

    class Phone:
        async def send(self, chat: str, text: str, mark: str) -> None:
            sent.append((chat, text))

    turns = [says("Hello."), says("", call("message", content="on my way")), says("ok")]
    async with scripted(tmp_path, settings=FREE, main=turns) as gen:
        session = (await gen.ask("hi").outcome()).agent_id
        gen.outbox.register("phone", Phone())
        gen.reply_through(session, Address("phone", "+41"))
        await gen.ask("where are you?", session=session).outcome()
    assert sent == [("+41", "on my way")]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"content": " "}, "The content is empty"),
        ({"content": "x" * 10_001}, "longer than 10,000 characters"),
        ({"content": "x", "channel": "file"}, "Set chat_id to the recipient in file"),
        ({"content": "x", "channel": "fil", "chat_id": "a"}, "There is no channel 'fil'. Did you mean file?"),
        ({"content": "x", "channel": "file", "chat_id": "a\nb"}, "is no chat"),
        ({"content": "x", "channel": "a b", "chat_id": "a"}, "is no name of a channel"),
        ({}, "missing required field `content`"),
    ],
)
async def test_what_is_wrong_is_said_and_nothing_is_sent(
    tmp_path: Path, home: Path, arguments: dict[str, str], why: str
) -> None:
    ((text, error),) = await told(tmp_path, call("message", **arguments))
    assert (error, why in text) == (True, True)
    assert not (home / ".gen" / "outbox").exists()


async def test_it_is_asked_once_and_refused_in_plan_mode_and_where_nobody_can_be_asked(
    tmp_path: Path,
) -> None:
    asked: list[str] = []

    class Person:
        async def ask(self, question: Question) -> Answer:
            asked.append(question.call.name)
            return Answer(allow=True)

    sends = call("message", content="x", channel="file", chat_id="a")
    async with scripted(
        tmp_path,
        settings={"tools": ["message"]},
        asker=Person(),
        main=[says("", sends), says("", sends), says("ok")],
    ) as gen:
        outcome = await gen.ask("go").outcome()
        assert [error for _, error in answers(transcript_of(await gen.history.events(outcome.agent_id)))] == [
            False
        ] * 2
    assert asked == ["message"]
    assert [error for _, error in await told(tmp_path, sends, permission_mode="default")] == [True]
    ((text, error),) = await told(tmp_path, sends, permission_mode="plan")
    assert (error, text.startswith("There is no tool 'message' for main.")) == (True, True)


async def test_nobody_who_was_sent_has_it_even_when_its_file_names_it(tmp_path: Path, home: Path) -> None:
    folder = home / ".gen" / "agents"
    folder.mkdir(parents=True)
    tools = "[message, cron, spawn, spawn_subagent, Read, Task(Explore)]"
    text = f"---\nname: chatty\ndescription: d\ntools: {tools}\n---\nGo.\n"
    (folder / "chatty.md").write_text(text)
    tries = [
        call("message", content="x", channel="file", chat_id="a"),
        call("cron", action="list"),
        call("spawn", task="x"),
        call("spawn_subagent", input="x"),
    ]
    for depth in (1, 2):
        async with scripted(
            tmp_path,
            settings={"permission_mode": "dontAsk", "max_depth": depth},
            main=[says("", call("Task", subagent_type="chatty", prompt="go")), says("ok")],
            chatty=[says("", *tries), says("No.")],
        ) as gen:
            outcome = await gen.ask("go").outcome()
            (child,) = await gen.tasks(parent=outcome.agent_id)
            events = await gen.history.events(child.agent_id)
        (started,) = [event.fact for event in events if isinstance(event.fact, TaskStarted)]
        decided = [event.fact.decision.action for event in events if isinstance(event.fact, CallDecided)]
        assert decided == [Action.DENY] * 4
        assert {"message", "cron", "spawn", "spawn_subagent"}.isdisjoint(started.tools)
        assert [each for each in started.warnings if "not available to a subagent" in each] != []
    assert not (home / ".gen" / "outbox").exists()


async def test_the_agent_that_leads_has_it_when_its_file_names_it(tmp_path: Path, home: Path) -> None:
    folder = home / ".gen" / "agents"
    folder.mkdir(parents=True)
    (folder / "host.md").write_text("---\nname: host\ndescription: d\ntools: [message]\n---\nGo.\n")
    sends = call("message", content="x", channel="file", chat_id="a")
    settings = {"permission_mode": "dontAsk"}
    async with scripted(tmp_path, settings=settings, host=[says("", sends), says("ok")]) as gen:
        await gen.ask("go", agent="host").outcome()
    assert (home / ".gen" / "outbox" / "a.md").exists()


async def test_without_anybody_who_delivers_it_says_so(desk: Desk) -> None:
    with pytest.raises(ToolError, match="Messages cannot be sent"):
        await desk.use(message(None), content="x")
