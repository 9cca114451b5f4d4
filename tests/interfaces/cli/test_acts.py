"""What the commands of a conversation do, without any screen."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.rules import Mode
from gencode.core.status import Status
from gencode.interfaces.chat.chat_session import ChatSession
from gencode.interfaces.chat.info_pages import next_mode
from gencode.interfaces.chat.notices import Notice
from gencode.interfaces.chat.slash_commands import (
    CommandResult,
    ConfirmAction,
    Page,
    PickList,
    ShowView,
    StatusMessage,
    parse_command,
    run_slash_command,
)
from gencode.stores.memory import MemoryStore
from gencode.testing import Turns, call, says, scripted
from tests.waiting import until

SEND = call("Task", subagent_type="Explore", prompt="look", description="alpha")


@asynccontextmanager
async def talking(
    folder: Path, main: Turns, Explore: Turns = (), store: MemoryStore | None = None
) -> AsyncGenerator[tuple[ChatSession, list[Notice]], None]:
    """A conversation that is listened to, and everything that is told."""
    told: list[Notice] = []
    async with scripted(folder, store=store, main=main, Explore=Explore) as gen:
        chat = ChatSession(gen, on_notice=told.append)
        listening = asyncio.create_task(chat.listen())
        await asyncio.sleep(0)
        try:
            yield chat, told
        finally:
            listening.cancel()
            await chat.close()


async def said(chat: ChatSession, text: str) -> None:
    await chat.send(text)
    await chat.wait_until_idle()
    await until(lambda: chat.main_agent is not None and chat.main_agent.status.ended)


async def done(chat: ChatSession, text: str, here: str = "") -> CommandResult:
    return await run_slash_command(chat, parse_command(text), here)


async def test_a_conversation_has_a_session_and_a_view(tmp_path: Path) -> None:
    async with talking(tmp_path, main=[says("", SEND), says("ok")], Explore=[says("found")]) as (chat, _):
        await said(chat, "go")
        agents = {each.agent: (each.status, each.result) for each in chat.view.agents.values()}
        assert agents == {"main": (Status.COMPLETED, "ok"), "Explore": (Status.COMPLETED, "found")}
        assert not chat.running and not chat.working


async def test_places_are_shown_and_pages_read(tmp_path: Path) -> None:
    async with talking(tmp_path, main=[says("", SEND), says("ok")], Explore=[says("found")]) as (chat, _):
        await said(chat, "go")
        child = next(each.id for each in chat.view.agents.values() if each.parent)
        assert await done(chat, "/tasks") == ShowView("tree")
        assert await done(chat, f"/open {child[:5]}") == ShowView("agent", child)
        listed = await done(chat, "/sessions")
        assert isinstance(listed, PickList) and [key for key, _ in listed.lines] == [chat.session]
        status = await done(chat, f"/task-status agent-{child}")
        assert isinstance(status, Page) and "Result:\nfound" in status.text
        cost = await done(chat, "/cost")
        assert isinstance(cost, Page) and f"└─Explore {child}" in cost.text


async def test_a_verb_is_confirmed_with_what_it_would_hit(tmp_path: Path) -> None:
    async with talking(tmp_path, main=[says("ok", delay_ms=60_000)]) as (chat, _):
        await chat.send("go")
        session = chat.session or ""
        found = await done(chat, "/stop")
        assert isinstance(found, ConfirmAction) and (found.verb, found.task) == ("stop", session)
        assert session in found.text
        await chat.apply_action(session, "stop")


async def test_a_verb_that_would_hit_nothing_says_so_and_asks_nothing(tmp_path: Path) -> None:
    async with talking(tmp_path, main=[says("ok")]) as (chat, _):
        await said(chat, "go")
        session = chat.session or ""
        expected = f"Nothing to stop: {session} has already finished."
        assert await done(chat, "/stop") == StatusMessage(expected)
        with pytest.raises(UserMistake, match="There is no task"):
            await done(chat, "/stop-tree 00000000")


async def test_the_mode_reaches_the_root(tmp_path: Path) -> None:
    async with talking(tmp_path, main=[says("ok")]) as (chat, _):
        assert isinstance(await done(chat, "/mode accept-edits"), StatusMessage)
        assert chat.gen.policy.mode is Mode.ACCEPT_EDITS
        with pytest.raises(UserMistake, match="There is no permission mode"):
            await done(chat, "/mode everything")


def test_full_autonomy_is_not_in_the_cycle_but_leads_back_to_it() -> None:
    assert [next_mode(mode) for mode in (Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.PLAN, Mode.DONT_ASK)] == [
        Mode.ACCEPT_EDITS,
        Mode.PLAN,
        Mode.DEFAULT,
        Mode.DEFAULT,
    ]


async def test_a_budget_bounds_the_next_turn_and_can_be_taken_away(tmp_path: Path) -> None:
    turns = [says("", SEND), says("ok"), says("", SEND), says("refused")]
    async with talking(tmp_path, main=turns, Explore=[says("found")]) as (chat, _):
        await said(chat, "go")
        await done(chat, "/budget spawns 1")
        assert chat.gen.budgets.default == Budget(spawns=1)
        await said(chat, "again")
        events = (await chat.gen.journal(chat.session or "")).events
        assert str(events).count("TaskCreated") == 1
        assert "The budget of 1 agent of the session is spent." in str(events)
        await done(chat, "/budget tokens 5000")
        await done(chat, "/budget spawns none")
        assert chat.gen.budgets.default == Budget(tokens=5000)
        await done(chat, "/budget none")
        assert chat.gen.budgets.default == Budget()
        for wrong in ("/budget tokens many", "/budget turns 3", "/budget tokens 0"):
            with pytest.raises(UserMistake):
                await done(chat, wrong)


async def test_the_budget_of_one_agent_is_shown_and_raised_while_it_is_at_rest(tmp_path: Path) -> None:
    send = call("Task", subagent_type="Explore", prompt="look", budget={"turns": 1})
    async with talking(tmp_path, main=[says("", send), says("ok")], Explore=[says("found")]) as (chat, _):
        await said(chat, "go")
        [task] = await chat.gen.tasks(chat.session)
        assert str(await done(chat, f"/budget {task.agent_id}")).count("1/1 turns") == 1
        shown = await done(chat, f"/budget {task.agent_id} turns 4 spawns 2")
        assert isinstance(shown, Page)
        assert shown.text.endswith("1/4 turns\n" + "░" * 20 + " 0/2 agents")
        with pytest.raises(UserMistake, match="Unknown budget kind 'agents'"):
            await done(chat, f"/budget {task.agent_id} agents 4")


async def test_a_budget_counts_at_once_in_every_process_if_the_conversation_is_at_rest(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    main = [says("", SEND), says("ok"), says("slowly", delay_ms=600_000)]
    async with (
        talking(tmp_path, main=main, Explore=[says("found")], store=store) as (chat, _),
        scripted(tmp_path, store=store) as other,
    ):
        await said(chat, "go")
        session = chat.session or ""
        assert "Nothing" not in str(await done(chat, "/budget tokens 5000"))
        assert await other.budgets.of_conversation(session) == Budget(tokens=5000)
        await done(chat, "/budget none")
        assert await other.budgets.of_conversation(session) == Budget()
        await chat.send("more")
        await until(lambda: chat.running and chat.working)
        await done(chat, "/budget spawns 3")
        assert await other.budgets.of_conversation(session) == Budget(spawns=3)


async def test_what_agents_spend_in_other_processes_counts_when_it_is_asked_for(tmp_path: Path) -> None:
    store = MemoryStore()
    cost = {"inputTokens": 900, "outputTokens": 100}
    main = [says("", SEND, usage=cost), says("ok", usage=cost)]
    explore = [says("found", usage=cost), says("more", usage=cost)]
    async with (
        talking(tmp_path, main=main, Explore=explore, store=store) as (chat, _),
        scripted(tmp_path, store=store, Explore=explore) as other,
    ):
        await said(chat, "go")
        await done(chat, "/budget tokens 5000")
        [child] = await other.tasks(chat.session)
        await other.resume(child.agent_id, "more")
        assert "4.0k/5.0k tokens" in str(await done(chat, "/budget"))
        assert "Total: 4.0k tokens" in str(await done(chat, "/cost"))


async def test_another_model_answers_from_the_next_turn_on(tmp_path: Path) -> None:
    async with talking(tmp_path, main=[says("ok")]) as (chat, _):
        await said(chat, "go")
        assert await done(chat, "/model offline") == StatusMessage(
            "Model from the next turn on: offline-search"
        )
        await said(chat, "where is the parser?")
        assert chat.main_agent is not None and chat.main_agent.model == "offline-search"
        with pytest.raises(UserMistake, match="There is no model"):
            await done(chat, "/model nobody")


async def test_the_journal_is_exported_but_never_over_a_file(tmp_path: Path) -> None:
    async with talking(tmp_path, main=[says("ok")]) as (chat, _):
        with pytest.raises(UserMistake, match="Nothing to export"):
            await done(chat, "/export out.jsonl")
        await said(chat, "go")
        await done(chat, "/export out.jsonl")
        assert '"TaskCreated"' in (tmp_path / "out.jsonl").read_text()
        with pytest.raises(UserMistake, match="already exists"):
            await done(chat, "/export out.jsonl")


async def test_an_agent_is_steered_resumed_and_forked(tmp_path: Path) -> None:
    explore = [says("first"), says("second"), says("third")]
    async with talking(tmp_path, main=[says("", SEND), says("ok")], Explore=explore) as (chat, told):
        await said(chat, "go")
        child = next(each.id for each in chat.view.agents.values() if each.parent)
        assert await done(chat, f"/resume {child} go on") == ShowView("agent", child)
        await until(lambda: chat.view.agents[child].result == "second")
        assert any("resumes in the background" in notice.text for notice in told)
        forked = await done(chat, f"/fork {child}@4 another way")
        assert isinstance(forked, ShowView) and forked.what != child
        with pytest.raises(UserMistake, match="ID@12 forks at event 12"):
            await done(chat, f"/fork {child}")


async def test_a_new_conversation_begins_after_new(tmp_path: Path) -> None:
    async with talking(tmp_path, main=[says("ok")]) as (chat, _):
        await said(chat, "one")
        first = chat.session
        assert await done(chat, "/new") == ShowView("new")
        await said(chat, "two")
        assert chat.session not in (None, first)
        assert await done(chat, f"/resume {first}") == ShowView("opened", first or "")
        assert chat.session == first


async def test_agents_are_made_checked_and_edited(tmp_path: Path) -> None:
    async with talking(tmp_path, main=[says("ok")]) as (chat, _):
        made = await done(chat, "/agents new tester Runs the tests.")
        assert isinstance(made, Page) and "tester.md" in made.text
        linted = await done(chat, "/agents lint")
        assert isinstance(linted, Page) and "1 agent file, 1 can be used" in linted.text
        with pytest.raises(UserMistake, match="Explore is built in"):
            await done(chat, "/agents edit Explore")
        with pytest.raises(UserMistake, match="Give a name"):
            await done(chat, "/agents new")
