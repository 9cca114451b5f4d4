"""What is planned runs once, in whichever process is there; what is missed is told once; nobody is asked."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gencode.channels.address import Address
from gencode.core.errors import UserMistake
from gencode.core.events import TaskCreated, TaskStarted
from gencode.core.ids import stamp
from gencode.core.messages import UserMessage
from gencode.core.status import Status
from gencode.core.task import transcript_of
from gencode.journal.store import TaskQuery
from gencode.places import database
from gencode.schedule.scheduled_jobs import JobRequest
from gencode.stores.memory import MemoryStore
from gencode.stores.sqlite import SqliteStore
from gencode.testing import says, scripted
from tests.tasks.office import MINUTE, NOW, Office, begun, delivered
from tests.waiting import until


async def test_what_is_due_runs_in_a_new_conversation_and_then_at_its_next_time(tmp_path: Path) -> None:
    office = Office(tmp_path)
    await office.plan(NOW - MINUTE / 2)
    await office.plan(NOW + MINUTE, when="every 1h")
    assert [each.runs for each in await office.due()] == [1]
    (job, other), (session,) = await office.now(), await office.store.tasks(TaskQuery())
    assert (session.conversation, session.created.prompt, session.status) == (
        True,
        "look around",
        Status.COMPLETED,
    )
    assert (job.due, job.owner, job.began) == (stamp(datetime(2026, 3, 11, 12, tzinfo=UTC)), "", "")
    assert (job.runs, job.missed, job.last_task, job.last_status) == (1, 0, session.id, "completed")
    assert (other.runs, office.told) == (
        0,
        [f"[The scheduled job {job.id} (look around)] has finished.\nDone."],
    )
    assert (await office.due(), len(await office.conversations())) == ([], 1)


async def test_a_task_of_an_agent_is_a_task_in_the_background(tmp_path: Path) -> None:
    office = Office(tmp_path)
    await office.plan(agent="Explore", task=True, label="a look")
    await office.due()
    (task,) = await office.store.tasks(TaskQuery())
    assert (task.agent, task.terms.background, task.conversation, task.created.description) == (
        "Explore",
        True,
        False,
        "a look",
    )
    assert (await office.now())[0].last_status == "completed"


async def test_a_named_conversation_goes_on_and_one_at_work_hears_a_letter(tmp_path: Path) -> None:
    office = Office(tmp_path)
    async with scripted(tmp_path, store=office.store, main=[says("Hello."), says("Again.")]) as gen:
        session = (await gen.ask("hi").outcome()).agent_id
    job = await office.plan(session=session)
    await office.due()
    told = transcript_of(await office.store.events(session))
    assert [each.text for each in told if isinstance(each, UserMessage)] == ["hi", "look around"]
    busy = await office.store.create(TaskCreated(conversation=True), "somebody", [TaskStarted()])
    await office.plan(session=busy.task, when="at 2026-03-10T12:00:30.000000Z")
    await office.due()
    (letter,) = await office.store.unread_messages(busy.task)
    assert (letter.text, letter.sender) == ("look around", "system")
    assert [each.id for each in await office.now()] == [job.id]


async def test_a_conversation_that_is_gone_is_a_failure_that_is_told(tmp_path: Path) -> None:
    office = Office(tmp_path)
    await office.plan(session="0badcafe", to="wire:me")
    await office.due()
    ((job,), (message,)) = await office.now(), await office.store.outbox.pending()
    assert (job.last_status, job.runs) == ("failed", 1)
    assert message.text.endswith("There is no conversation 0badcafe any more.")


async def test_what_came_of_it_is_sent_to_its_address(tmp_path: Path) -> None:
    office = Office(tmp_path)
    job = await office.plan(to="wire:me", label="the look", by="0a0a0a0a")
    await office.due()
    (message,) = await office.store.outbox.pending()
    assert (message.to, message.sender) == (Address("wire", "me"), "0a0a0a0a")
    assert message.text == f"[The scheduled job {job.id} (the look)] has finished.\nDone."


async def test_a_single_moment_is_gone_after_it_went_well_and_stays_when_it_did_not(tmp_path: Path) -> None:
    office = Office(tmp_path, main=[says("x", error="no such model")])
    await office.plan(when=f"at {stamp(NOW)}")
    await office.due()
    (left,) = await office.now()
    assert (left.due, left.last_status, left.runs) == (None, "failed", 1)
    assert await office.due(NOW + MINUTE) == []


async def test_missed_runs_are_reported_once_and_not_run(tmp_path: Path) -> None:
    office = Office(tmp_path)
    job = await office.plan(NOW - 3 * 1440 * MINUTE - 30 * MINUTE, when="30 11 * * *", to="wire:me")
    assert await office.due() == await office.due() == []
    said = (
        f"[The scheduled job {job.id} (look around)]: 4 runs since 2026-03-07 11:30 UTC were missed, because "
        "GenCode was not running."
    )
    ((left,), sent) = await office.now(), [each.text for each in await office.store.outbox.pending()]
    assert (office.told, sent, await office.conversations()) == ([said], [said], [])
    assert (left.missed, left.runs, left.last_status) == (4, 0, "missed")
    assert left.due == stamp(datetime(2026, 3, 11, 11, 30, tzinfo=UTC))


async def test_what_is_due_now_runs_although_earlier_runs_were_missed(tmp_path: Path) -> None:
    office = Office(tmp_path)
    await office.plan(NOW - 10 * MINUTE, when="every 1m", created_at=stamp(NOW - 60 * MINUTE))
    await office.due()
    (job,) = await office.now()
    assert (job.missed, job.runs, job.due) == (10, 1, stamp(NOW + MINUTE))
    assert "10 runs since" in office.told[0] and len(office.told) == 2


async def test_a_single_moment_that_was_missed_is_told_and_stays_to_be_seen(tmp_path: Path) -> None:
    office = Office(tmp_path)
    await office.plan(NOW - 5 * MINUTE, when=f"at {stamp(NOW - 5 * MINUTE)}")
    await office.due()
    (job,) = await office.now()
    assert (job.due, job.missed, job.last_status, await office.conversations()) == (None, 1, "missed", [])
    assert office.told[0].endswith(
        "its run of 2026-03-10 11:55 UTC was missed, because GenCode was not running."
    )


async def test_a_run_that_takes_long_is_not_overtaken_by_the_next(tmp_path: Path) -> None:
    office = Office(tmp_path)
    await office.plan(when="every 1m", created_at=stamp(NOW - 60 * MINUTE))
    (claimed,) = await office.scheduler.look(NOW)
    for minutes in range(1, 4):
        assert await office.scheduler.look(NOW + minutes * MINUTE) == []
    await office.scheduler.fire(claimed)
    assert [each.runs for each in await office.due(NOW + 3 * MINUTE)] == [2]
    assert ((await office.now())[0].missed, len(await office.conversations())) == (2, 2)


async def test_of_several_schedulers_one_has_the_run(tmp_path: Path) -> None:
    store = MemoryStore()
    offices = [Office(tmp_path, store) for _ in range(5)]
    for _ in range(10):
        await offices[0].plan()
    claimed = await asyncio.gather(*(office.scheduler.look(NOW) for office in offices))
    assert sorted(each.id for some in claimed for each in some) == sorted(
        each.id for each in await offices[0].now()
    )


async def test_a_job_that_is_removed_while_it_runs_stays_removed_and_its_result_is_sent(
    tmp_path: Path,
) -> None:
    office = Office(tmp_path)
    await office.plan(to="wire:me")
    (claimed,) = await office.scheduler.look(NOW)
    (now,) = await office.now()
    assert await office.store.schedule.replace(now, None)
    await office.scheduler.fire(claimed)
    assert (await office.now(), len(await office.store.outbox.pending())) == ([], 1)


async def test_who_is_cancelled_stops_what_runs_and_writes_it_down(tmp_path: Path) -> None:
    office = Office(tmp_path, main=[says("never", delay_ms=600_000)])
    await office.plan(datetime.now(UTC))
    work = asyncio.create_task(office.scheduler.run())
    await until(lambda: begun(office))
    work.cancel()
    await asyncio.wait([work])
    (job,), (session,) = await office.now(), await office.store.tasks(TaskQuery())
    assert (job.owner, job.last_status, session.status) == ("", "cancelled", Status.CANCELLED)


async def test_a_scheduler_that_runs_also_delivers_what_waits(tmp_path: Path) -> None:
    office = Office(tmp_path)
    await office.plan(datetime.now(UTC), to="wire:me")
    work = asyncio.create_task(office.scheduler.run())
    await until(lambda: delivered(office))
    work.cancel()
    await asyncio.wait([work])
    assert [text.splitlines()[1] for text in office.wire.sent] == ["Done."]


async def test_a_zone_that_is_gone_keeps_nobody_else_from_running(tmp_path: Path) -> None:
    office = Office(tmp_path)
    await office.plan(zone="Gone/Town")
    await office.plan()
    assert len(await office.due()) == 1


async def test_a_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    office = Office(tmp_path / "gone")
    await office.plan()
    await office.due()
    assert "is not a folder" in office.told[0]


def claimed_and_killed() -> "subprocess.CompletedProcess[str]":
    """A process that claims what is due and dies before it starts it."""
    command = [sys.executable, "-m", "tests.tasks.claiming", str(database())]
    here = Path(__file__).parents[2]
    return subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)


@asynccontextmanager
async def on_disk() -> AsyncGenerator[SqliteStore]:
    store = await SqliteStore.open(database())
    try:
        yield store
    finally:
        await store.close()


async def test_a_run_whose_process_was_killed_before_it_began_is_missed_and_told_once(tmp_path: Path) -> None:
    async with on_disk() as store:
        office = Office(tmp_path, store)
        job = await office.plan(datetime.now(UTC), when="every 1h", created_at=stamp(), to="wire:me")
        killed = await asyncio.to_thread(claimed_and_killed)
        assert (killed.returncode, killed.stdout) == (-9, "1\n")
        (claimed,) = await office.now()
        assert (claimed.last_status, claimed.last_task, claimed.runs) == ("starting", "", 1)
        for _ in range(2):
            assert await office.due(datetime.now(UTC)) == []
        (left,), sent = await office.now(), await store.outbox.pending()
        assert (left.owner, left.missed, left.last_status, await office.conversations()) == (
            "",
            1,
            "missed",
            [],
        )
        assert [each.text for each in sent] == office.told
        assert len(office.told) == 1 and office.told[0].startswith(
            f"[The scheduled job {job.id} (look around)]"
        )
        assert office.told[0].endswith("was missed, because its process died before it began.")


async def test_a_run_that_was_cut_off_can_be_gone_on_with(tmp_path: Path) -> None:
    office = Office(tmp_path)
    dead = "|".join(("nowhere", "", "1", "1", "x"))
    await office.plan(owner=dead, began=stamp(NOW), last_task="0a0a0a0a", last_status="running", due=None)
    assert await office.due(NOW + MINUTE) == []
    assert (await office.now())[0].owner == dead  # another machine's, which may be alive
    await office.due(NOW + 1441 * MINUTE)
    (job,) = await office.now()
    assert (job.owner, job.last_status, job.missed) == ("", "interrupted", 0)
    why = "because its process died or could not reach the database"
    assert office.told[0].endswith(f"{why}; resume it with: gen -p PROMPT --session 0a0a0a0a")


async def test_what_cannot_be_planned_is_refused(tmp_path: Path) -> None:
    async with scripted(tmp_path, main=[says("x")]) as gen:
        calendar = gen.schedule
        for plan, why in (
            (JobRequest("@daily", "  "), "The prompt is empty"),
            (JobRequest("@daily", "x" * 20_001), "longer than 20,000"),
            (JobRequest("@daily", "x", task=True), "A task needs an agent"),
            (
                JobRequest("@daily", "x", agent="Explore", task=True, session="0a"),
                "belongs to no conversation",
            ),
            (JobRequest("@daily", "x", agent="Nobody"), "There is no agent 'Nobody'"),
            (JobRequest("@daily", "x", to="mars:x"), "There is no channel 'mars'"),
            (JobRequest("@daily", "x", to="mars"), "is no address"),
            (JobRequest("@daily", "x", zone="Mars/Base"), "There is no time zone"),
            (JobRequest("sometimes", "x"), "is not a schedule"),
        ):
            with pytest.raises(UserMistake, match=why):
                await calendar.add(plan)
        assert await calendar.listed() == []
