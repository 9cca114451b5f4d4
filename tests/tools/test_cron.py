"""cron: work that is planned by the agent that leads a conversation."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gencode.app import components
from gencode.core.errors import ToolError
from gencode.core.messages import Message, ToolMessage
from gencode.core.rules import Mode
from gencode.core.task import transcript_of
from gencode.schedule.scheduled_jobs import MOST, ScheduledJob
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says, scripted
from gencode.tools.cron import cron
from tests.tools.desk import Desk

BERLIN = "CET-1CEST,M3.5.0,M10.5.0/3"
FREE = {"permission_mode": "dontAsk", "tools": ["cron"]}


@pytest.fixture(autouse=True)
def in_berlin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", BERLIN)


def answers(transcript: Sequence[Message]) -> list[tuple[str, bool]]:
    found = [each for each in transcript if isinstance(each, ToolMessage)]
    return [(result.text, result.error) for each in found for result in each.results]


async def asked(
    folder: Path, *calls: dict[str, Any], store: MemoryStore | None = None, **settings: Any
) -> tuple[list[tuple[str, bool]], list[ScheduledJob], str]:
    """What the main agent is answered, what is planned then, and the conversation."""
    kept = store or MemoryStore()
    turns = [*(says("", each) for each in calls), says("ok")]
    async with scripted(folder, store=kept, settings={**FREE, **settings}, main=turns) as gen:
        outcome = await gen.ask("go").outcome()
        told = answers(transcript_of(await gen.history.events(outcome.agent_id)))
    return told, await kept.schedule.jobs(), outcome.agent_id


async def test_a_prompt_is_planned_in_the_users_zone_with_todays_policy(tmp_path: Path) -> None:
    add = call("cron", action="add", schedule="0 9 * * *", prompt="Say good morning.", label="hello")
    told, (job,), session = await asked(tmp_path, add, deny=["Bash"])
    assert told[0][0].startswith(f"The job {job.id} is scheduled (0 9 * * *); it runs next at 20")
    assert told[0][0].rstrip(".").rpartition(" ")[2] in ("CET", "CEST") and " 09:00 " in told[0][0]
    assert (job.prompt, job.zone, job.label, job.by, job.cwd) == (
        "Say good morning.",
        BERLIN,
        "hello",
        session,
        str(tmp_path),
    )
    assert (job.agent, job.task, job.session, job.policy.mode) == ("", False, "", Mode.DONT_ASK)
    assert [str(rule) for rule in job.policy.rules] == ["deny Bash(*)"]


async def test_a_task_and_this_conversation_can_be_planned(tmp_path: Path) -> None:
    task = call("cron", action="add", when="every 2h", message="Look.", agent="explore", to="file:looks")
    here = call("cron", action="add", schedule="in 2h", prompt="Go on.", session="here")
    _, (first, second), session = await asked(tmp_path, task, here)
    assert (first.agent, first.task, first.session, first.to) == ("explore", True, "", "file:looks")
    assert (second.agent, second.task, second.session, second.when[:3]) == ("", False, session, "at ")


async def test_what_is_planned_is_listed_and_removed(tmp_path: Path) -> None:
    store = MemoryStore()
    add = call("cron", action="add", schedule="@daily", prompt="Look around.")
    _, (job,), _ = await asked(tmp_path, add, store=store)
    elsewhere = await store.schedule.add(replace(job, cwd="/elsewhere", id=""), 200)
    listing, remove = call("cron", action="list"), call("cron", action="remove", job_id=job.id[:5])
    other = call("cron", action="remove", job_id=elsewhere.id)
    told, left, _ = await asked(tmp_path, listing, remove, remove, other, listing, store=store)
    assert told[0][0] == f"{job.id} 0 0 * * * ({BERLIN}): Look around.; next {job.next_told}, 0 runs"
    assert told[1] == (f"The job {job.id} (Look around.) was removed.", False)
    assert [error for _, error in told] == [False, False, True, True, False]
    assert (told[4][0], left) == ("No jobs are scheduled in this folder.", [elsewhere])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"action": "add", "prompt": "x"}, 'The schedule is missing; write it as "0 9 \\* \\* 1-5"'),
        ({"action": "add", "schedule": "@daily"}, "The prompt is empty"),
        ({"action": "add", "schedule": "every 5s", "prompt": "x"}, "is not between a minute and a year"),
        ({"action": "add", "schedule": "0 0 31 2 *", "prompt": "x"}, "never occurs"),
        ({"action": "add", "schedule": "at 2020-01-01T00:00", "prompt": "x"}, "is in the past"),
        (
            {"action": "add", "schedule": "@daily", "prompt": "x", "agent": "Nobody"},
            "There is no agent 'Nobody'",
        ),
        ({"action": "add", "schedule": "@daily", "prompt": "x", "to": "x"}, "is no address"),
        (
            {"action": "add", "schedule": "@daily", "prompt": "x", "timezone": "Mars"},
            "There is no time zone 'Mars'",
        ),
        ({"action": "remove"}, "There is no scheduled job ''"),
        ({"action": "burn"}, "Invalid enum value 'burn'"),
        ({}, "missing required field `action`"),
    ],
)
async def test_what_is_wrong_is_said_and_nothing_is_planned(
    tmp_path: Path, arguments: dict[str, str], why: str
) -> None:
    ((text, error),), planned, _ = await asked(tmp_path, call("cron", **arguments))
    assert (error, planned) == (True, [])
    with pytest.raises(ToolError, match=why):
        raise ToolError(text)


async def test_there_are_two_hundred_at_most(tmp_path: Path) -> None:
    store = MemoryStore()
    add = call("cron", action="add", schedule="@daily", prompt="x")
    _, (job,), _ = await asked(tmp_path, add, store=store)
    for _ in range(MOST - 1):
        await store.schedule.add(job, MOST)
    ((text, error),), planned, _ = await asked(tmp_path, add, store=store)
    assert (error, len(planned), "There are 200 scheduled jobs already" in text) == (True, 200, True)


async def test_it_is_refused_where_nobody_can_be_asked_and_hidden_in_plan_mode(tmp_path: Path) -> None:
    add = call("cron", action="add", schedule="@daily", prompt="x")
    for mode, why in (
        ("default", "nobody can approve it in this run"),
        ("plan", "There is no tool 'cron' for main."),
    ):
        ((text, error),), planned, _ = await asked(tmp_path, add, permission_mode=mode)
        assert (error, planned, why in text) == (True, [], True)


async def test_an_agent_that_leads_is_the_one_that_hears_its_prompt(tmp_path: Path, home: Path) -> None:
    folder = home / ".gen" / "agents"
    folder.mkdir(parents=True)
    (folder / "host.md").write_text("---\nname: host\ndescription: d\ntools: [cron]\n---\nGo.\n")
    add = call("cron", action="add", schedule="@daily", prompt="x")
    async with scripted(
        tmp_path, settings={"permission_mode": "dontAsk"}, host=[says("", add), says("ok")]
    ) as gen:
        await gen.ask("go", agent="host").outcome()
        (job,) = await components(gen).store.schedule.jobs()
    assert (job.agent, job.task) == ("host", False)


async def test_without_a_calendar_it_says_so(desk: Desk) -> None:
    with pytest.raises(ToolError, match="Scheduling is not available"):
        await desk.use(cron(None), action="list")
