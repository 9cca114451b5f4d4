"""One conversation in two terminals: both see everything, and what either says is heard."""

import asyncio
import gc
import warnings
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gencode.agent.ports import StopAction
from gencode.app import components
from gencode.core.events import Event, TaskEnded, TextArrived
from gencode.core.messages import UserMessage
from gencode.core.status import Status
from gencode.core.task import transcript_of
from gencode.core.text import unquoted
from gencode.interfaces.chat.chat_session import ChatSession
from gencode.interfaces.chat.notices import Notice
from gencode.interfaces.render.transcript import Reply, hear
from gencode.journal.store import TaskQuery
from gencode.stores.sqlite import SqliteStore
from gencode.tasks.service import COME_BACK
from gencode.testing import call, says, scripted
from tests.stores.other_program import rows
from tests.waiting import Gate, until

Turns = Sequence[dict[str, Any]]


@asynccontextmanager
async def terminal(
    folder: Path, main: Turns, explore: Turns = (), others: Turns = ()
) -> AsyncGenerator[ChatSession, None]:
    """A GenCode of its own over the database of the folder, listened to."""
    store = await SqliteStore.open(folder / "gen.db")
    async with scripted(folder, store=store, main=main, Explore=explore, others=others) as gen:
        chat = ChatSession(gen)
        listening = asyncio.create_task(chat.listen())
        try:
            yield chat
        finally:
            listening.cancel()
            await asyncio.wait([listening])
            await chat.close()
    await store.close()


async def test_what_is_said_in_one_terminal_is_seen_and_answered_in_the_other(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    main = [says("one"), says("", gate.call), says("two")]
    async with terminal(tmp_path, main) as first, terminal(tmp_path, main) as second:
        await first.send("hello")
        await until(lambda: first.main_agent and first.main_agent.status.ended)
        session = first.session or ""
        await second.open(session)
        await first.send("from the first")
        await until(lambda: second.running_elsewhere)
        saying = asyncio.create_task(second.send("from the second"))
        await until(lambda: second.queued, "it waits to be heard")
        await until(gate.opened, "the first goes on")
        await saying

        async def said() -> list[str]:
            heard = transcript_of(await first.gen.history.events(session))
            return [each.text for each in heard if isinstance(each, UserMessage) and each.sender == "user"]

        async def ended() -> bool:
            task = await first.gen.history.task(session)
            if task is None or not task.status.ended or len(await said()) != 3:
                return False
            leads = {lead and (lead.turns, lead.status) for lead in (first.main_agent, second.main_agent)}
            return leads == {(task.totals.turns, task.status)}

        await until(ended, "all is heard and answered, in this turn or in one of its own")
        assert await said() == ["hello", "from the first", "from the second"]
        await until(lambda: (second.queued, second.running_elsewhere) == ({}, False))


async def test_a_turn_that_waits_for_others_hears_what_somebody_woke_elsewhere(tmp_path: Path) -> None:
    slow = call("Task", subagent_type="general-purpose", prompt="wait", run_in_background=True)
    sent = call("Task", subagent_type="Explore", prompt="look")
    main = [says("", sent), says("one"), says("", slow), says("two"), says("three")]
    script = (main, [says("first"), says("second")], [says("never", delay_ms=600_000)])
    async with terminal(tmp_path, *script) as here, terminal(tmp_path, *script) as there:
        await here.send("hello")
        await until(lambda: here.main_agent and here.main_agent.status.ended)
        (child,) = here.view.launched(here.session or "")
        await here.send("and another one")
        await until(lambda: here.main_agent and here.main_agent.turns == 4)
        assert (await there.gen.send(child, "and now?")).resumed
        await until(lambda: here.main_agent and here.main_agent.turns == 5)
        heard = transcript_of(await here.gen.history.events(here.session or ""))
        told = [each for each in heard if isinstance(each, UserMessage) and each.delivers]
        assert [(each.delivers, unquoted(each.text)) for each in told] == [((child,), "second")]
        assert here.running and not here.working
        await here.interrupt()


@pytest.mark.parametrize("elsewhere", [True, False])
@pytest.mark.parametrize("first", ["tree", "interrupt"])
async def test_what_a_person_stopped_wakes_nobody_and_is_told_in_the_next_turn(
    tmp_path: Path, first: StopAction, elsewhere: bool
) -> None:
    sent = [call("Task", subagent_type="Explore", prompt=each, run_in_background=True) for each in "ab"]
    script = ([says("", *sent), says("sent"), says("told")], [says("never", delay_ms=600_000)])
    async with terminal(tmp_path, *script) as here, terminal(tmp_path, *script) as there:
        await here.send("hello")
        await until(lambda: here.main_agent and here.main_agent.turns == 2)
        session = here.session or ""
        both = sorted(here.view.launched(session))
        by = there if elsewhere else here
        await by.apply_action(session, first)
        await by.apply_action(session, "tree")
        await until(lambda: all(here.view.agents[each].status is Status.CANCELLED for each in both))
        assert await components(here.gen).tasks.service.hear(here.gen.agents.main(), session) is None
        assert (await here.gen.get(session)).turns == 2
        await here.send("and now?")
        await here.wait_until_idle()
        heard = transcript_of(await here.gen.history.events(session))
    said = [each for each in heard if isinstance(each, UserMessage)]
    assert [each.text for each in said if each.sender == "user"] == ["hello", "and now?"]
    assert COME_BACK.notice not in [each.notice for each in said]
    assert sorted(task for each in said for task in each.delivers) == both


async def test_what_comes_back_to_one_that_led_no_turn_is_heard_without_a_word(tmp_path: Path) -> None:
    sent = call("Task", subagent_type="Explore", prompt="look")
    main = [says("", sent), says("one"), says("two"), says("three")]
    script = (main, [says("first"), says("second")])
    async with terminal(tmp_path, *script) as before:
        await before.send("hello")
        await until(lambda: before.main_agent and before.main_agent.status.ended)
        session = before.session or ""
        (child,) = before.view.launched(session)
    async with terminal(tmp_path, *script) as here, terminal(tmp_path, *script) as beside:
        told: list[Notice] = []
        here.notify = beside.notify = told.append
        for each in (here, beside):
            await each.open(session)
        await here.steer(child, "and now?")
        await until(lambda: all(each.main_agent and each.main_agent.turns == 3 for each in (here, beside)))
        await until(lambda: all(each.main_agent and each.main_agent.status.ended for each in (here, beside)))
        heard = transcript_of(await here.gen.history.events(session))
        delivered = [each.delivers for each in heard if isinstance(each, UserMessage) and each.delivers]
        assert delivered == [(child,)]
        assert [each.text for each in told if each.kind == "error"] == []


async def test_an_agent_that_is_woken_goes_on_in_the_process_in_which_that_was_said(tmp_path: Path) -> None:
    sent = call("Task", subagent_type="Explore", prompt="look")
    script = ([says("", sent), says("one")], [says("first"), says("never", delay_ms=600_000)])
    async with terminal(tmp_path, *script) as chat:
        await chat.send("hello")
        await until(lambda: chat.main_agent and chat.main_agent.status.ended)
        (child,) = chat.view.launched(chat.session or "")
        told: list[Notice] = []
        chat.notify = told.append
        await chat.steer(child, "and now?")
        working = [live.id for live in chat.gen.running]
    assert working == [child]
    assert [each.task for each in told if "in the background" in each.text] == [child]
    assert not any("before its next reply" in each.text for each in told)


async def test_what_was_not_begun_when_it_closes_is_let_go_of_without_a_warning(tmp_path: Path) -> None:
    async with terminal(tmp_path, [says("one")]) as chat:
        await chat.send("hello")
        await until(lambda: chat.main_agent and chat.main_agent.status.ended)
        late = ChatSession(chat.gen)
        for event in await chat.gen.history.events(chat.session or ""):
            late.receive(event)
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            await late.close()
            del late
            gc.collect()
        assert [str(each.message) for each in warned if "never awaited" in str(each.message)] == []


async def test_words_that_are_in_the_journal_by_now_are_not_shown_twice(tmp_path: Path) -> None:
    async with terminal(tmp_path, [says("one two")]) as chat:
        heard: list[Event] = []
        listener = chat.gen.listen()
        await chat.send("hello")
        async for event in listener:
            heard.append(event)
            if isinstance(event.fact, TaskEnded):
                break
        listener.close()
        session = chat.session or ""
        late = ChatSession(chat.gen)
        spoken = next(place for place, event in enumerate(heard) if isinstance(event.fact, TextArrived))
        for event in heard[: spoken + 1]:
            late.receive(event)
        shown = await late.transcript(session)
        for event in heard[spoken:]:
            late.receive(event)
            shown = hear(shown, event)
        again = await late.transcript(session)
        late.receive(heard[spoken])
        await late.close()
        assert (shown.text, again, await late.transcript(session)) == ("", shown, shown)
        assert [each.text for each in shown.entries if isinstance(each, Reply)] == ["one two"]


async def test_an_agent_that_cannot_be_read_hides_no_other_from_a_second_terminal(tmp_path: Path) -> None:
    agents = [call("Task", subagent_type="Explore", prompt=each) for each in ("broken", "whole")]
    main = [says("", *agents), says("both are done")]
    async with terminal(tmp_path, main, [says("one"), says("two")]) as first:
        await first.send("go")
        await until(lambda: first.main_agent and first.main_agent.status.ended)
        session = first.session or ""
        prompts = {
            task.created.prompt: task.id for task in await first.gen.history.tasks(TaskQuery(parent=session))
        }
        async with terminal(tmp_path, main) as second:
            await second.open(session)
            came = """
                INSERT INTO gen_journal
                SELECT task, seq + ?, epoch, '', ?, at FROM gen_journal WHERE task = ? AND seq = 5
            """
            for later, body in enumerate(('{"kind":"TaskStarted"}', '{"kind":"TaskPraised"}'), 1):
                rows(tmp_path / "gen.db", came, later, body, prompts["broken"])
            rows(tmp_path / "gen.db", "UPDATE gen_task SET last_seq = 7 WHERE id = ?", prompts["broken"])
            await first.gen.send(prompts["whole"], "and now?")
            await until(lambda: second.view.agents[prompts["whole"]].turns == 2)
            assert second.view.agents[prompts["broken"]].status is Status.RUNNING
