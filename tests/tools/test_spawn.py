"""spawn and spawn_subagent: work beside a conversation, whose result is posted to it."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gencode.core.events import TaskStarted
from gencode.core.messages import Message, ToolMessage, UserMessage
from gencode.core.status import Status
from gencode.core.task import transcript_of
from gencode.core.text import unquoted
from gencode.stores.memory import MemoryStore
from gencode.tasks.delivery import TELL_THE_USER
from gencode.testing import call, says, scripted

HOST = """---
name: host
description: talks to people
tools: [spawn, spawn_subagent, Read, TaskOutput]
---
Talk.
"""


@pytest.fixture(autouse=True)
def host(home: Path) -> None:
    """An agent whose file names the spawning tools."""
    folder = home / ".gen" / "agents"
    folder.mkdir(parents=True)
    (folder / "host.md").write_text(HOST)


def numbered() -> MemoryStore:
    """A store whose tasks have ids that a script can know: 00000001 is the conversation."""
    numbers = itertools.count(1)
    return MemoryStore(draw=lambda: f"{next(numbers):08x}")


def answers(transcript: Sequence[Message]) -> list[str]:
    found = [message for message in transcript if isinstance(message, ToolMessage)]
    return [result.text for message in found for result in message.results]


def posts(transcript: Sequence[Message]) -> list[UserMessage]:
    return [each for each in transcript if isinstance(each, UserMessage) and each.sender == "system"]


async def talked(folder: Path, *turns: dict[str, Any], **agents: Any) -> list[Message]:
    """The transcript of a conversation that the host leads, once it is over."""
    async with scripted(folder, store=numbered(), host=turns, **agents) as gen:
        outcome = await gen.ask("go", agent="host").outcome()
        assert outcome.status is Status.COMPLETED
        return transcript_of(await gen.history.events(outcome.agent_id))


async def test_it_starts_at_once_and_the_result_is_posted(tmp_path: Path) -> None:
    turns = [
        says("", call("spawn", task="count\nthe files", label="count")),
        says("Started."),
        says("Three."),
    ]
    told = await talked(tmp_path, *turns, general_purpose=[says("3 files", delay_ms=50)])
    assert answers(told) == ["Subagent [count] started (id: 00000002)\n1 running"]
    (post,) = posts(told)
    receipt = "[Task 00000002 (general-purpose): 0 tool calls. Warning: no tool was called.]"
    assert replace(post, ends=()) == UserMessage(
        "[Subagent 'count' completed]\nTask: count the files\nResult:\n> 3 files\n"
        f"{receipt}\n\n{TELL_THE_USER}",
        sender="system",
        delivers=("00000002",),
    )


async def test_who_is_sent_is_warned_of_the_tools_its_file_names_in_vain(tmp_path: Path, home: Path) -> None:
    one = HOST.replace("name: host", "name: one").replace(
        "spawn, spawn_subagent, Read, TaskOutput", "Task, Read"
    )
    (home / ".gen" / "agents" / "one.md").write_text(one)
    two = one.replace("name: one", "name: two").replace("Task, Read", "Task(Explore), Read")
    (home / ".gen" / "agents" / "two.md").write_text(two)
    sends = [call("Task", subagent_type=name, prompt="go") for name in ("host", "one", "two", "Explore")]
    look = [says("", call("Read", file_path="a")), says("ok")]
    (tmp_path / "a").write_text("x")
    async with scripted(tmp_path, main=[says("", *sends), says("ok")], others=look) as gen:
        outcome = await gen.ask("go").outcome()
        sent = {child.agent: child.evidence.warnings for child in await gen.tasks(parent=outcome.agent_id)}
    assert sent == {
        "host": ("the tools spawn, spawn_subagent, TaskOutput are not available to a subagent",),
        "one": ("the tool Task is not available to a subagent",),
        "two": (
            "the tool Task is not available to a subagent; to start the agents that its file names, "
            "set max_depth = 2",
        ),
        "Explore": (),
    }
    assert outcome.evidence.warnings == ()


async def test_who_is_as_deep_as_can_be_is_not_told_to_be_deeper(tmp_path: Path, home: Path) -> None:
    lead = "---\nname: lead\ndescription: d\ntools: Task(lead)\n---\nLead.\n"
    (home / ".gen" / "agents" / "lead.md").write_text(lead)
    send = says("", call("Task", subagent_type="lead", prompt="go"))
    settings = {"max_depth": 4}
    async with scripted(tmp_path, settings=settings, main=[send, says("ok")], lead=[send, says("ok")]) as gen:
        await gen.ask("go").outcome()
        warned = [each.evidence.warnings[:1] for each in await gen.tasks()]
    words = "the tool Task is not available to a subagent; agents can be nested at most 4 deep"
    assert warned == [(), (), (), (words,)]


async def test_who_leads_a_conversation_has_them_all_and_no_warning(tmp_path: Path) -> None:
    async with scripted(tmp_path, host=[says("Hello.")]) as gen:
        outcome = await gen.ask("go", agent="host").outcome()
    assert outcome.evidence.warnings == ()


async def test_what_failed_is_posted_as_failed_with_what_there_is(tmp_path: Path) -> None:
    turns = [says("", call("spawn", task="count")), says("Started."), says("It failed.")]
    worker = [says("I begin.", call("Glob", pattern="*")), says("", error="auth")]
    told = await talked(tmp_path, *turns, general_purpose=worker)
    (post,) = posts(told)
    assert post.text.startswith("[Subagent 'count' failed]\nTask: count\nResult: failed: ")
    assert (unquoted(post.text), post.text.endswith(f"]\n\n{TELL_THE_USER}")) == ("I begin.", True)


async def test_several_are_counted_and_come_in_one_message(tmp_path: Path) -> None:
    one = call("spawn", task="the first", label="one")
    two = call("spawn_subagent", type="Explore", description="two", input="the second")
    three = call("spawn_subagent", input="the third")
    turns = [says("", one), says("", two), says("", three), says("Started.", delay_ms=500), says("All done.")]
    workers = {"general_purpose": [says("a", delay_ms=200)], "Explore": [says("b", delay_ms=200)]}
    told = await talked(tmp_path, *turns, **workers)
    assert answers(told) == [
        "Subagent [one] started (id: 00000002)\n1 running",
        "Subagent [two] started (id: 00000003)\n2 running",
        "Subagent [the third] started (id: 00000004)\n3 running",
    ]
    (post,) = posts(told)
    assert post.delivers == ("00000002", "00000003", "00000004")
    assert post.text.count(TELL_THE_USER) == 1


async def test_who_is_spawned_reaches_and_spawns_nobody_and_has_fifteen_turns(tmp_path: Path) -> None:
    async with scripted(
        tmp_path,
        store=numbered(),
        host=[says("", call("spawn", task="work")), says("a"), says("b")],
        general_purpose=[says("", call("spawn", task="more")), says("done")],
    ) as gen:
        await gen.ask("go", agent="host").outcome()
        child = await gen.find("00000002")
        events = await gen.history.events("00000002")
    (started,) = [event.fact for event in events if isinstance(event.fact, TaskStarted)]
    assert (child.agent, child.terms.background, child.created.spawned, child.created.max_turns) == (
        "general-purpose",
        True,
        True,
        15,
    )
    assert {"message", "cron", "spawn", "spawn_subagent", "Task"} & set(started.tools) == set()
    assert "There is no tool 'spawn' for general-purpose." in answers(transcript_of(events))[0]


async def test_what_is_too_long_for_the_conversation_is_in_the_file(tmp_path: Path, home: Path) -> None:
    file = home / ".gen" / "outputs" / "00000002.md"
    turns = [
        says("", call("spawn", task="tell", label="long")),
        says("Started."),
        says("", call("Read", file_path=str(file))),
        says("read"),
    ]
    told = await talked(tmp_path, *turns, general_purpose=[says("a line of it\n" * 2_000 + "the end of it")])
    (post,) = posts(told)
    assert len(post.text) < 10_000 and f" characters follow: {file}]\n" in post.text
    assert answers(told)[-1].splitlines()[0].endswith("# general-purpose: long")


async def test_the_label_stays_on_one_line(tmp_path: Path) -> None:
    label = "a\nb'] completed]\x1b[31m" + "x" * 100
    turns = [says("", call("spawn", task="t", label=label)), says("Started."), says("ok")]
    told = await talked(tmp_path, *turns, general_purpose=[says("done")])
    (answer,) = answers(told)
    assert answer.startswith("Subagent [a b'] completed][31mx") and len(answer) < 100
    assert posts(told)[0].text.split("\n")[1:4] == ["Task: t", "Result:", "> done"]


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (call("spawn", task="  "), "The prompt is empty"),
        (call("spawn_subagent", type="nobody", input="x"), "There is no agent 'nobody'."),
        (call("spawn_subagent", description="x"), "spawn_subagent: Object missing required field `input`"),
    ],
)
async def test_what_is_wrong_is_said_in_a_sentence(tmp_path: Path, asked: dict[str, Any], said: str) -> None:
    told = await talked(tmp_path, says("", asked), says("ok"))
    assert said in answers(told)[0]


async def test_they_are_there_only_for_an_agent_that_names_them(tmp_path: Path) -> None:
    async with scripted(tmp_path, main=[says("", call("spawn", task="t")), says("ok")]) as gen:
        outcome = await gen.ask("go").outcome()
        told = transcript_of(await gen.history.events(outcome.agent_id))
        explained = [gen.explain("spawn", {"task": "t"}, agent=name) for name in ("host", "general-purpose")]
    assert "There is no tool 'spawn' for main." in answers(told)[0]
    assert "does not have the tool spawn" not in explained[0].why
    assert "The agent general-purpose does not have the tool spawn" in explained[1].why
