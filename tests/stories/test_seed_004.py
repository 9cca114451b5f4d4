"""Seed 004, the spawner: work beside a conversation, its result as a message, messages and a schedule."""

import asyncio
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace
from tests.stories.seeds import answers, on_disk, posts, results, started, transcript

from gencode.app import GenCode, components
from gencode.channels.address import Address
from gencode.core.events import ProgressMade
from gencode.core.ids import stamp
from gencode.core.messages import UserMessage
from gencode.core.status import Status
from gencode.journal.store import TaskQuery
from gencode.schedule.scheduled_jobs import ScheduledJob
from gencode.tasks.delivery import TELL_THE_USER
from gencode.tasks.scheduler import Scheduler
from gencode.testing import call, says, scripted

FREE = {"permission_mode": "dontAsk", "tools": ["spawn", "message", "cron"]}


async def test_a_spawned_agent_answers_later_with_a_system_message_and_the_user_hears_a_summary(
    tmp_path: Path,
) -> None:
    main = [
        says("", call("spawn", task="count the files here", label="count")),
        says("I let somebody count."),
        says("There is one file."),
    ]
    (tmp_path / "a.txt").write_text("a\n")
    work = [says("", call("list_dir", path=".")), says("1 file: a.txt", delay_ms=50)]
    async with (
        on_disk() as store,
        scripted(tmp_path, store=store, settings=FREE, main=main, general_purpose=work) as gen,
    ):
        outcome = await gen.ask("How many files are there?").outcome()
        told = await transcript(gen, outcome.agent_id)
        child, given = await gen.get("00000002"), await started(gen, "00000002")
        own = await transcript(gen, "00000002")
    assert answers(told) == ["Subagent [count] started (id: 00000002)\n1 running"]
    assert posts(told) == [
        UserMessage(
            "[Subagent 'count' completed]\nTask: count the files here\nResult:\n1 file: a.txt\n\n"
            + TELL_THE_USER,
            "system",
            delivers=("00000002",),
            ends=(child.ended_at or "",),
        )
    ]
    assert (outcome.result, child.background, child.status) == ("There is one file.", True, Status.COMPLETED)
    assert own[0] == UserMessage("count the files here")
    assert str(tmp_path) in given.system and f"{datetime.now():%Y}" in given.system


async def test_who_is_spawned_has_the_hands_of_the_table_and_reaches_nobody(tmp_path: Path) -> None:
    table = {
        "read_file": {"path": "a.txt"},
        "write_file": {"path": "b.txt", "content": "b"},
        "list_dir": {"path": "."},
        "exec": {"command": "ls"},
    }
    refused = {
        "message": {"content": "hello"},
        "spawn": {"task": "more"},
        "cron": {"action": "list"},
    }
    (tmp_path / "a.txt").write_text("a\n")
    calls = [call(name, **arguments) for name, arguments in {**table, **refused}.items()]
    main = [says("", call("spawn", task="try")), says("Started."), says("ok")]
    async with (
        on_disk() as store,
        scripted(
            tmp_path, store=store, settings=FREE, main=main, general_purpose=[says("", *calls), says("Done.")]
        ) as gen,
    ):
        await gen.ask("go").outcome()
        found = results(await transcript(gen, "00000002"))
        tools = set((await started(gen, "00000002")).tools)
        waiting = await store.outbox.pending()
    assert [result.error for result in found] == [False] * 4 + [True] * 3
    assert {"Read", "Write", "Edit", "LS", "Bash", "WebSearch", "WebFetch"} <= tools
    assert tools.isdisjoint({"message", "spawn", "spawn_subagent", "cron", "Task"})
    assert waiting == []


async def test_a_spawned_agent_has_fifteen_turns_and_a_failure_comes_back_too(tmp_path: Path) -> None:
    main = [
        says("", call("spawn", task="never done", label="busy")),
        says("Started."),
        says("It took too long."),
    ]
    busy = [says(f"step {n}", call("LS")) for n in range(40)]
    async with (
        on_disk() as store,
        scripted(tmp_path, store=store, settings=FREE, main=main, general_purpose=busy) as gen,
    ):
        outcome = await gen.ask("go").outcome()
        (post,) = posts(await transcript(gen, outcome.agent_id))
        child = await gen.get("00000002")
    assert (child.status, child.evidence.tool_calls) == (Status.LIMIT_REACHED, 15)
    assert post.text.startswith("[Subagent 'busy' failed]\nTask: never done\nResult: reached a limit")


async def test_a_message_goes_to_the_users_own_place_and_to_others(tmp_path: Path, home: Path) -> None:
    main = [
        says("", call("message", content="I have begun.")),
        says("", call("message", content="Half is done.", channel="file", chat_id="progress")),
        says("Done."),
    ]
    async with on_disk() as store, scripted(tmp_path, store=store, settings=FREE, main=main) as gen:
        heard = [event async for event in gen.ask("go")]
        waiting = await store.outbox.pending()
    notes = [each.fact.text for each in heard if isinstance(each.fact, ProgressMade) and each.fact.note]
    file = (home / ".gen" / "outbox" / "progress.md").read_text()
    assert (notes, waiting) == (["I have begun."], [])
    assert file.endswith("]\n  Half is done.\n\n")


async def test_what_is_planned_runs_after_a_restart_and_answers_where_it_was_asked_to(tmp_path: Path) -> None:
    plan = call(
        "cron", action="add", schedule="@daily", prompt="Look for new files.", to="phone:+41", label="files"
    )
    main = [says("", plan), says("I look every day.")]
    sent: list[tuple[str, str]] = []

    class Phone:
        async def send(self, chat: str, text: str, mark: str) -> None:
            sent.append((chat, text))

    async with on_disk() as store, scripted(tmp_path, store=store, settings=FREE, main=main) as gen:
        gen.outbox.register("phone", Phone())
        session = (await gen.ask("look for new files every day").outcome()).agent_id
    async with on_disk() as store:
        (job,) = await store.schedule.jobs()
        assert await store.schedule.replace(job, replace(job, due=stamp(datetime.now(UTC))))
        async with scripted(tmp_path, store=store, main=[says("Nothing new.")]) as gen:
            gen.outbox.register("phone", Phone())

            def opening(_: ScheduledJob) -> AbstractAsyncContextManager[GenCode]:
                return scripted(tmp_path, store=store, main=[says("Nothing new.")])

            scheduler = Scheduler(store, gen.outbox, opening)
            await asyncio.gather(*map(scheduler.fire, await scheduler.look(datetime.now(UTC))))
            delivered = await gen.outbox.deliver()
        first, second = await store.tasks(TaskQuery(conversations=True))
        (after,) = await store.schedule.jobs()
    assert (first.id, second.created.prompt, second.status) == (
        session,
        "Look for new files.",
        Status.COMPLETED,
    )
    assert (after.runs, after.last_task, after.by, delivered) == (1, second.id, session, 1)
    assert sent == [("+41", f"[The scheduled job {job.id} (files)] has finished.\nNothing new.")]


async def test_the_origin_of_a_conversation_is_a_channel_and_a_chat(tmp_path: Path) -> None:
    async with scripted(tmp_path, main=[says("Hello.")]) as gen:
        session = (await gen.ask("hi").outcome()).agent_id
        assert components(gen).messaging().origin(session) == Address("cli", session)
        gen.reply_through(session, Address("phone", "+41"))
        assert str(components(gen).messaging().origin(session)) == "phone:+41"
