"""What goes on beside a conversation: work that was planned, servers that are up or not."""

from pathlib import Path

from gencode.core.rules import Policy
from gencode.interfaces.chat.chat_session import Talk
from gencode.interfaces.tui.app import run_due
from gencode.schedule.scheduled_jobs import ScheduledJob
from gencode.stores.memory import MemoryStore
from gencode.testing import says
from tests.interfaces.tui.driving import seated, turns

LONG_AGO = "2026-03-10T09:00:00.000000Z"


async def test_runs_that_were_missed_are_told_when_the_app_is_opened(tmp_path: Path) -> None:
    store = MemoryStore()
    job = ScheduledJob(
        "at 2026-03-10T09:00:00+00:00", "look", "UTC", str(tmp_path), Policy(), LONG_AGO, LONG_AGO
    )
    made = await store.schedule.add(job, 10)

    script = turns(main=[says("hello")])
    async with seated(
        tmp_path,
        size=(120, 30),
        store=store,
        also={"beside": run_due},
        script=script,
    ) as setup:
        await setup.assert_sees(f"[The scheduled job {made.id} (look)]")
        assert "missed" in setup.screen
        await setup.type("go")
        await setup.rests()
        await setup.assert_sees("hello")
    assert [each.last_status for each in await store.schedule.jobs()] == ["missed"]


async def test_a_fault_beside_the_conversation_is_told_and_does_not_end_it(tmp_path: Path) -> None:
    async def fails(talk: Talk) -> None:
        raise RuntimeError("a bug")

    async with seated(tmp_path, also={"beside": fails}, script=turns(main=[says("hello")])) as setup:
        await setup.assert_sees("Planned work is not run any more (RuntimeError).")
        await setup.type("go")
        await setup.assert_sees("hello")
        await setup.rests()


async def test_servers_are_shown_with_how_they_are_and_why(tmp_path: Path) -> None:
    settings = {"mcp_servers": {"broken": {"command": "gencode-no-such-program"}}}
    async with seated(tmp_path, settings=settings, script=turns(main=[says("x")])) as setup:
        await setup.until(lambda: setup.talk.gen.mcp_servers.status()[0].why, "the server's failure")
        await setup.type("/mcp")
        await setup.assert_sees("broken (stdio) · ")
        assert "why" in setup.screen and "gencode-no-such-program" in setup.screen
        assert "tools   none" in setup.screen


async def test_without_servers_the_page_says_where_to_name_one(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("x")])) as setup:
        await setup.type("/mcp")
        await setup.assert_sees("No MCP servers. Add one to settings.toml")
