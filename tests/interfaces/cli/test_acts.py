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
from gencode.interfaces.chat.chat_session import Talk
from gencode.interfaces.chat.info_pages import next_mode
from gencode.interfaces.chat.notices import Notice
from gencode.interfaces.chat.slash_commands import Confirm, Deed, Page, Show, Word, act, parse
from gencode.stores.memory import MemoryStore
from gencode.testing import Turns, call, says, scripted
from tests.waiting import until

SEND = call("Task", subagent_type="Explore", prompt="look", description="alpha")


@asynccontextmanager
async def talking(
    folder: Path, main: Turns, Explore: Turns = (), store: MemoryStore | None = None
) -> AsyncGenerator[tuple[Talk, list[Notice]], None]:
    """A conversation that is listened to, and everything that is told."""
    told: list[Notice] = []
    async with scripted(folder, store=store, main=main, Explore=Explore) as gen:
        talk = Talk(gen, told=told.append)
        listening = asyncio.create_task(talk.listen())
        await asyncio.sleep(0)
        try:
            yield talk, told
        finally:
            listening.cancel()
            await talk.close()


async def said(talk: Talk, text: str) -> None:
    await talk.say(text)
    await talk.rest()
    await until(lambda: talk.lead is not None and talk.lead.status.ended)


async def done(talk: Talk, text: str, here: str = "") -> Deed:
    return await act(talk, parse(text), here)


async def test_a_conversation_has_a_session_and_a_view(tmp_path: Path) -> None:
    async with talking(tmp_path, main=[says("", SEND), says("ok")], Explore=[says("found")]) as (talk, _):
        await said(talk, "go")
        agents = {each.agent: (each.status, each.result) for each in talk.view.agents.values()}
        assert agents == {"main": (Status.COMPLETED, "ok"), "Explore": (Status.COMPLETED, "found")}
        assert not talk.running and not talk.working


async def test_places_are_shown_and_pages_read(tmp_path: Path) -> None:
    async with talking(tmp_path, main=[says("", SEND), says("ok")], Explore=[says("found")]) as (talk, _):
        await said(talk, "go")
        child = next(each.id for each in talk.view.agents.values() if each.parent)
        assert await done(talk, "/tasks") == Show("tree")
        assert await done(talk, f"/open {child[:5]}") == Show("agent", child)
        assert await done(talk, "/sessions") == Show("sessions")
        status = await done(talk, f"/task-status agent-{child}")
        assert isinstance(status, Page) and "Result:\nfound" in status.text
        cost = await done(talk, "/cost")
        assert isinstance(cost, Page) and f"└─Explore {child}" in cost.text


async def test_a_verb_is_confirmed_with_what_it_would_hit(tmp_path: Path) -> None:
    async with talking(tmp_path, main=[says("ok", delay_ms=60_000)]) as (talk, _):
        await talk.say("go")
        session = talk.session or ""
        found = await done(talk, "/stop")
        assert isinstance(found, Confirm) and (found.verb, found.task) == ("stop", session)
        assert session in found.text
        await talk.apply_action(session, "stop")


async def test_a_verb_that_would_hit_nothing_says_so_and_asks_nothing(tmp_path: Path) -> None:
    async with talking(tmp_path, main=[says("ok")]) as (talk, _):
        await said(talk, "go")
        session = talk.session or ""
        expected = f"Abort would hit nothing: {session} has ended already."
        assert await done(talk, "/stop") == Word(expected)
        with pytest.raises(UserMistake, match="There is no task"):
            await done(talk, "/stop-tree 00000000")


async def test_the_mode_reaches_the_root(tmp_path: Path) -> None:
    async with talking(tmp_path, main=[says("ok")]) as (talk, _):
        assert isinstance(await done(talk, "/mode accept-edits"), Word)
        assert talk.gen.policy.mode is Mode.ACCEPT_EDITS
        with pytest.raises(UserMistake, match="There is no permission mode"):
            await done(talk, "/mode everything")


def test_full_autonomy_is_not_in_the_cycle_but_leads_back_to_it() -> None:
    assert [next_mode(mode) for mode in (Mode.DEFAULT, Mode.ACCEPT_EDITS, Mode.PLAN, Mode.DONT_ASK)] == [
        Mode.ACCEPT_EDITS,
        Mode.PLAN,
        Mode.DEFAULT,
        Mode.DEFAULT,
    ]


async def test_a_budget_bounds_the_next_turn_and_can_be_taken_away(tmp_path: Path) -> None:
    turns = [says("", SEND), says("ok"), says("", SEND), says("refused")]
    async with talking(tmp_path, main=turns, Explore=[says("found")]) as (talk, _):
        await said(talk, "go")
        await done(talk, "/budget spawns 1")
        assert talk.gen.budgets.default == Budget(spawns=1)
        await said(talk, "again")
        events = (await talk.gen.journal(talk.session or "")).events
        assert str(events).count("TaskCreated") == 1
        assert "The budget of 1 agent of the session is spent." in str(events)
        await done(talk, "/budget tokens 5000")
        await done(talk, "/budget spawns none")
        assert talk.gen.budgets.default == Budget(tokens=5000)
        await done(talk, "/budget none")
        assert talk.gen.budgets.default == Budget()
        for wrong in ("/budget tokens many", "/budget turns 3", "/budget tokens 0"):
            with pytest.raises(UserMistake):
                await done(talk, wrong)


async def test_the_budget_of_one_agent_is_shown_and_raised_while_it_is_at_rest(tmp_path: Path) -> None:
    send = call("Task", subagent_type="Explore", prompt="look", budget={"turns": 1})
    async with talking(tmp_path, main=[says("", send), says("ok")], Explore=[says("found")]) as (talk, _):
        await said(talk, "go")
        [task] = await talk.gen.tasks(talk.session)
        assert str(await done(talk, f"/budget {task.agent_id}")).count("1/1 turns") == 1
        shown = await done(talk, f"/budget {task.agent_id} turns 4 spawns 2")
        assert isinstance(shown, Page)
        assert shown.text.endswith("1/4 turns\n" + "░" * 20 + " 0/2 agents")
        with pytest.raises(UserMistake, match="A budget has no 'agents'"):
            await done(talk, f"/budget {task.agent_id} agents 4")


async def test_a_budget_counts_at_once_in_every_process_if_the_conversation_is_at_rest(
    tmp_path: Path,
) -> None:
    store = MemoryStore()
    main = [says("", SEND), says("ok"), says("slowly", delay_ms=600_000)]
    async with (
        talking(tmp_path, main=main, Explore=[says("found")], store=store) as (talk, _),
        scripted(tmp_path, store=store) as other,
    ):
        await said(talk, "go")
        session = talk.session or ""
        assert "Nothing" not in str(await done(talk, "/budget tokens 5000"))
        assert await other.budgets.of_conversation(session) == Budget(tokens=5000)
        await done(talk, "/budget none")
        assert await other.budgets.of_conversation(session) == Budget()
        await talk.say("more")
        await until(lambda: talk.running and talk.working)
        await done(talk, "/budget spawns 3")
        assert await other.budgets.of_conversation(session) == Budget(spawns=3)


async def test_what_agents_spend_in_other_processes_counts_when_it_is_asked_for(tmp_path: Path) -> None:
    store = MemoryStore()
    cost = {"inputTokens": 900, "outputTokens": 100}
    main = [says("", SEND, usage=cost), says("ok", usage=cost)]
    explore = [says("found", usage=cost), says("more", usage=cost)]
    async with (
        talking(tmp_path, main=main, Explore=explore, store=store) as (talk, _),
        scripted(tmp_path, store=store, Explore=explore) as other,
    ):
        await said(talk, "go")
        await done(talk, "/budget tokens 5000")
        [child] = await other.tasks(talk.session)
        await other.resume(child.agent_id, "more")
        assert "4.0k/5.0k tokens" in str(await done(talk, "/budget"))
        assert "Total: 4.0k tokens" in str(await done(talk, "/cost"))


async def test_another_model_answers_from_the_next_turn_on(tmp_path: Path) -> None:
    async with talking(tmp_path, main=[says("ok")]) as (talk, _):
        await said(talk, "go")
        assert await done(talk, "/model offline") == Word("From the next turn on offline-search answers.")
        await said(talk, "where is the parser?")
        assert talk.lead is not None and talk.lead.model == "offline-search"
        with pytest.raises(UserMistake, match="There is no model"):
            await done(talk, "/model nobody")


async def test_the_journal_is_exported_but_never_over_a_file(tmp_path: Path) -> None:
    async with talking(tmp_path, main=[says("ok")]) as (talk, _):
        with pytest.raises(UserMistake, match="nothing to export"):
            await done(talk, "/export out.jsonl")
        await said(talk, "go")
        await done(talk, "/export out.jsonl")
        assert '"TaskCreated"' in (tmp_path / "out.jsonl").read_text()
        with pytest.raises(UserMistake, match="is there already"):
            await done(talk, "/export out.jsonl")


async def test_an_agent_is_steered_resumed_and_forked(tmp_path: Path) -> None:
    explore = [says("first"), says("second"), says("third")]
    async with talking(tmp_path, main=[says("", SEND), says("ok")], Explore=explore) as (talk, told):
        await said(talk, "go")
        child = next(each.id for each in talk.view.agents.values() if each.parent)
        assert await done(talk, f"/resume {child} go on") == Show("agent", child)
        await until(lambda: talk.view.agents[child].result == "second")
        assert any("goes on with it" in notice.text for notice in told)
        forked = await done(talk, f"/fork {child}@4 another way")
        assert isinstance(forked, Show) and forked.what != child
        with pytest.raises(UserMistake, match="/fork ID@12 TEXT"):
            await done(talk, f"/fork {child}")


async def test_a_new_conversation_begins_after_new(tmp_path: Path) -> None:
    async with talking(tmp_path, main=[says("ok")]) as (talk, _):
        await said(talk, "one")
        first = talk.session
        assert await done(talk, "/new") == Show("new")
        await said(talk, "two")
        assert talk.session not in (None, first)
        assert await done(talk, f"/resume {first}") == Show("opened", first or "")
        assert talk.session == first


async def test_agents_are_made_checked_and_edited(tmp_path: Path) -> None:
    async with talking(tmp_path, main=[says("ok")]) as (talk, _):
        made = await done(talk, "/agents new tester Runs the tests.")
        assert isinstance(made, Page) and "tester.md" in made.text
        linted = await done(talk, "/agents lint")
        assert isinstance(linted, Page) and "1 agent file, 1 can be used" in linted.text
        with pytest.raises(UserMistake, match="Explore is built in"):
            await done(talk, "/agents edit Explore")
        with pytest.raises(UserMistake, match="Say its name"):
            await done(talk, "/agents new")
