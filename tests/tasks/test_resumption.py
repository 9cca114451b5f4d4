"""Going on with earlier tasks: who they are, what they may do, and what stands in the way."""

import json
import sqlite3
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gencode import GenCode, ToolContext, UserMistake, tool
from gencode.app import components
from gencode.core.events import Event, TaskCreated, TaskStarted, plain
from gencode.core.messages import Message, UserMessage
from gencode.core.rules import Action, Mode, Policy, parse_rule
from gencode.core.status import Status
from gencode.core.task import transcript_of
from gencode.places import database
from gencode.providers.scripted import ScriptedProvider
from gencode.stores.memory import MemoryStore
from gencode.tasks.resume import TOOLS_AGAIN
from gencode.testing import call, says, scripted

WRITE = says("", call("Write", file_path="new.txt", content="x"))
SLOW = says("never said", delay_ms=600_000)


def heard(messages: list[Message]) -> list[tuple[str, str]]:
    return [(message.sender, message.text) for message in messages if isinstance(message, UserMessage)]


async def decided(gen: GenCode, task: str) -> list[str]:
    return [each["decision"]["action"] for each in (await gen.show(task)).decisions or ()]


@asynccontextmanager
async def playing(
    folder: Path, store: MemoryStore, *turns: dict[str, Any], **settings: Any
) -> AsyncGenerator[GenCode, None]:
    """A GenCode whose general-purpose agent plays these turns, with these settings as flags."""
    async with scripted(folder, store=store, settings=settings, general_purpose=turns) as gen:
        yield gen


async def test_an_agent_that_reported_without_tools_is_told_that_they_are_back(tmp_path: Path) -> None:
    looks = says("", call("LS", path="."))
    async with playing(tmp_path, MemoryStore(), looks, says("half"), says("whole"), says("more")) as gen:
        first = await gen.task("general-purpose", "look", max_turns=1)
        for prompt in ("and the rest?", "and then?"):
            await gen.resume(first.agent_id, prompt, max_turns=9)
        told = [text for _, text in heard(transcript_of(await gen.history.events(first.agent_id)))]
    assert first.status is Status.LIMIT_REACHED
    assert told[2:] == [TOOLS_AGAIN, "and the rest?", "and then?"]


async def test_a_task_keeps_who_it_is_and_what_it_has_said(tmp_path: Path) -> None:
    store = MemoryStore()
    async with playing(tmp_path, store, says("half")) as gen:
        first = await gen.task("general-purpose", "look", description="a look", max_turns=7)
        system = (await gen.find(first.agent_id)).terms.system
    async with playing(tmp_path, store, says("half"), says("the other half")) as gen:
        second = await gen.resume(first.agent_id[:5], "and the rest?")
        stored = await gen.find(first.agent_id)
        told = transcript_of(await store.events(first.agent_id))
    assert (second.agent_id, second.agent, second.description) == (first.agent_id, first.agent, "a look")
    assert (second.result, second.turns, stored.created.max_turns, stored.terms.system) == (
        "the other half",
        2,
        7,
        system,
    )
    assert heard(told) == [("user", "look"), ("user", "and the rest?")]


@pytest.mark.parametrize(
    ("first", "then", "action"),
    [
        ({"permission_mode": "acceptEdits"}, {}, "allow"),
        ({}, {}, "deny"),
        ({"permission_mode": "acceptEdits"}, {"permission_mode": "default"}, "deny"),
        ({}, {"permission_mode": "acceptEdits"}, "allow"),
        ({"permission_mode": "plan"}, {"permission_mode": "acceptEdits"}, "allow"),
        ({"permission_mode": "acceptEdits", "deny": ["Write"]}, {}, "deny"),
        ({"permission_mode": "acceptEdits", "deny": ["Write"]}, {"permission_mode": "acceptEdits"}, "allow"),
    ],
)
async def test_a_task_may_do_what_it_might_unless_permissions_are_named_again(
    tmp_path: Path, first: Mapping[str, Any], then: Mapping[str, Any], action: str
) -> None:
    store = MemoryStore()
    async with playing(tmp_path, store, says("ready"), **first) as gen:
        task = (await gen.task("general-purpose", "wait")).agent_id
    async with playing(tmp_path, store, says("ready"), WRITE, says("done"), **then) as gen:
        await gen.resume(task, "write it")
        assert await decided(gen, task) == [action]


async def test_what_is_refused_today_is_refused_in_an_earlier_task(tmp_path: Path, home: Path) -> None:
    store = MemoryStore()
    async with playing(tmp_path, store, says("ready"), permission_mode="acceptEdits") as gen:
        task = (await gen.task("general-purpose", "wait")).agent_id
    (home / ".gen").mkdir(exist_ok=True)
    (home / ".gen" / "settings.toml").write_text('deny = ["Write(new.txt)"]\nallow = ["Bash"]\n')
    async with playing(tmp_path, store, says("ready"), WRITE, says("done")) as gen:
        await gen.resume(task, "write it")
        assert await decided(gen, task) == ["deny"]


async def test_an_agent_that_was_stopped_is_told_so(tmp_path: Path) -> None:
    store = MemoryStore()
    async with playing(tmp_path, store, SLOW) as gen:
        handle = await gen.task("general-purpose", "look", background=True)
        stopped = await handle.stop()
    async with playing(tmp_path, store, says("I go on")) as gen:
        outcome = await gen.resume(handle.id, "go on")
        told = transcript_of(await store.events(handle.id))
    assert (stopped.status, outcome.status) == (Status.CANCELLED, Status.COMPLETED)
    assert heard(told)[1:] == [
        (
            "system",
            "[Your last run was stopped: a program stopped it. Calls that did not finish are marked as "
            "interrupted. Continue from there.]",
        ),
        ("user", "go on"),
    ]


async def test_a_conversation_goes_on_by_its_id_too(tmp_path: Path) -> None:
    async with scripted(tmp_path, main=[says("one"), says("two")]) as gen:
        talk = await gen.ask("go").outcome()
        again = await gen.resume(talk.agent_id, "go on")
    assert (again.agent_id, again.agent, again.result) == (talk.agent_id, "main", "two")


async def test_a_task_that_runs_is_not_gone_on_with(tmp_path: Path) -> None:
    store = MemoryStore()
    async with playing(tmp_path, store, SLOW) as one, playing(tmp_path, store, SLOW) as two:
        handle = await one.task("general-purpose", "look", background=True)
        before = await store.events(handle.id)
        for gen in (one, two):
            with pytest.raises(UserMistake, match=r"wait for it,? or stop it first"):
                await gen.resume(handle.id, "me too")
        assert await store.events(handle.id) == before


async def test_a_task_whose_agent_is_gone_says_so(tmp_path: Path, home: Path) -> None:
    file = home / ".gen" / "agents" / "scout.md"
    file.parent.mkdir(parents=True)
    file.write_text("---\nname: scout\ndescription: looks\ntools: Read, Glob\n---\nLook.\n")
    store = MemoryStore()
    async with scripted(tmp_path, store=store, scout=[says("one"), says("two")]) as gen:
        task = (await gen.task("scout", "look")).agent_id
    file.unlink()
    async with scripted(tmp_path, store=store, scout=[says("one"), says("two")]) as gen:
        before = await store.events(task)
        with pytest.raises(UserMistake, match=f"Task {task} cannot run without its agent.*scout"):
            await gen.resume(task, "go on")
        assert (await store.events(task), await store.owned()) == (before, [])


@tool(effect="read")
async def count_stars(ctx: ToolContext) -> str:
    """Count the stars."""
    return f"{ctx.agent} sees many"


async def test_a_tool_that_is_gone_is_a_warning(tmp_path: Path) -> None:
    store = MemoryStore()
    provider = ScriptedProvider.of({"*": [says("", call("count_stars")), says("many"), says("still many")]})
    async with GenCode.open(tmp_path, model=provider, store=store, tools=[count_stars]) as gen:
        task = (await gen.task("general-purpose", "count")).agent_id
    async with GenCode.open(tmp_path, model=provider, store=store) as gen:
        outcome = await gen.resume(task, "again")
    warning = "the tool count_stars, which it had before, is no longer available"
    assert (outcome.result, warning in outcome.evidence.warnings) == ("still many", True)


async def test_a_folder_that_is_gone_or_another_one_is_named(tmp_path: Path) -> None:
    store = MemoryStore()
    there = tmp_path / "there"
    there.mkdir()
    async with playing(there, store, says("one")) as gen:
        task = (await gen.task("general-purpose", "look")).agent_id
    async with playing(tmp_path, store, says("two")) as gen:
        with pytest.raises(UserMistake, match=f"belongs to the folder {there}; resume it there"):
            await gen.resume(task, "go on")
        there.rmdir()
        with pytest.raises(UserMistake, match=f"The folder {there} of task {task} is gone"):
            await gen.resume(task, "go on")


async def test_a_fact_that_cannot_be_read_stops_it_and_nothing_is_lost(tmp_path: Path) -> None:
    provider = ScriptedProvider.of({"*": [says("one"), says("two")]})
    async with GenCode.open(tmp_path, model=provider) as gen:
        task = (await gen.task("general-purpose", "look")).agent_id
    with sqlite3.connect(database()) as connection:
        connection.execute("UPDATE gen_journal SET body = '{' WHERE task = ? AND seq = 3", (task,))
    connection.close()
    async with GenCode.open(tmp_path, model=provider) as gen:
        with pytest.raises(UserMistake, match=rf"{task} cannot be resumed: Fact 3 .*Nothing was changed"):
            await gen.resume(task, "go on")
        shown = await gen.show(task)
        assert (await components(gen).store.owned(), shown.status) == ([], Status.COMPLETED)
    with sqlite3.connect(database()) as connection:
        rows = connection.execute("SELECT count(*) FROM gen_journal WHERE task = ?", (task,)).fetchall()
    connection.close()
    assert rows == [(5,)]


async def test_an_imported_task_brings_no_rights_along(tmp_path: Path) -> None:
    """Its file could say anything: full autonomy, the root folder, a model that runs a program."""
    everything = Policy(Mode.DONT_ASK, (parse_rule("*", Action.ALLOW),))
    created = TaskCreated(
        agent="general-purpose",
        prompt="be good",
        cwd="/",
        depth=1,
        policies=(everything, everything),
        grant=Mode.DONT_ASK,
    )
    facts = [created, TaskStarted(model="local//bin/evil")]
    at = "2026-11-15T02:32:00.000000Z"
    events = [Event("9f3a1c2e", seq, at, fact) for seq, fact in enumerate(facts, start=1)]
    text = "".join(f"{json.dumps(plain(event))}\n" for event in events)
    async with playing(tmp_path, MemoryStore(), WRITE, says("done")) as gen:
        taken = (await gen.take_in(text)).outcome
        outcome = await gen.resume(taken.agent_id, "write it")
        stored = await gen.find(taken.agent_id)
        assert (outcome.status, await decided(gen, taken.agent_id)) == (Status.COMPLETED, ["deny"])
        assert (bool(stored.imported), stored.terms.model) == (True, "ScriptedProvider")


async def test_the_model_it_had_goes_on_unless_another_is_named(tmp_path: Path) -> None:
    for name in ("first", "second"):
        turns = {"agents": {"*": [says(f"{name} {number}") for number in range(3)]}}
        (tmp_path / f"{name}.json").write_text(json.dumps(turns))
    async with GenCode.open(tmp_path, model=f"scripted:{tmp_path}/first.json") as gen:
        task = (await gen.task("Explore", "look")).agent_id
    async with GenCode.open(tmp_path, model="offline") as gen:
        same = await gen.resume(task, "go on")
        other = await gen.resume(task, "go on", model=f"scripted:{tmp_path}/second.json")
    assert (same.result, other.result) == ("first 1", "second 2")


async def test_a_model_that_is_gone_is_named(tmp_path: Path) -> None:
    async with scripted(tmp_path, store=(store := MemoryStore()), Explore=[says("one")]) as gen:
        task = (await gen.task("Explore", "look")).agent_id
    async with GenCode.open(tmp_path, model="offline", store=store) as gen:
        with pytest.raises(UserMistake, match=f"Task {task} cannot be resumed with its model; name another"):
            await gen.resume(task, "go on")
