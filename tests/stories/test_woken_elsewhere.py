"""An agent of an open conversation that another process wakes: it is followed, and its result told once."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.contracts.provider import Play
from tests.interfaces.cli.running import gen as command
from tests.interfaces.cli.running import start
from tests.tasks.minds import MODEL, Told, say, thinking
from tests.waiting import until

from gencode import GenCode
from gencode.core.messages import UserMessage
from gencode.core.status import Status
from gencode.core.task import transcript_of
from gencode.core.text import unquoted
from gencode.interfaces.chat.chat_session import ChatSession
from gencode.interfaces.chat.notices import Notice
from gencode.journal.store import TaskQuery

SEND = {
    "name": "Task",
    "input": {
        "subagent_type": "Explore",
        "prompt": "look",
        "description": "alpha",
        "run_in_background": True,
    },
}


def script(folder: Path) -> str:
    """Main sends an agent, and then says a word in every turn; the agent finds something else in each."""
    main = [{"calls": [SEND]}, *({"text": f"word {number}"} for number in range(12))]
    explore = [{"text": f"finding {number}"} for number in range(1, 6)]
    path = folder / "script.json"
    path.write_text(json.dumps({"agents": {"main": main, "Explore": explore}}))
    return f"scripted:{path}"


@asynccontextmanager
async def terminal(folder: Path, session: str = "") -> AsyncGenerator[tuple[ChatSession, list[Notice]]]:
    """A conversation as an app leads it, on the real database, and the lines that its person reads."""
    told: list[Notice] = []
    async with GenCode.open(folder, model=script(folder)) as gen:
        chat = ChatSession(gen, on_notice=told.append)
        listening = asyncio.create_task(chat.listen())
        try:
            if session:
                await chat.open(session)
            yield chat, told
        finally:
            listening.cancel()
            await asyncio.wait([listening])
            await chat.close()


async def begun(chat: ChatSession) -> tuple[str, str]:
    """The conversation and its agent, once the first result was handed over."""
    await chat.send("go")
    await chat.wait_until_idle()
    session = chat.session or ""
    (child,) = [each.id for each in await chat.gen.history.tasks(TaskQuery(parent=session))]
    assert await given(chat, session) == ["finding 1"]
    return session, child


async def given(chat: ChatSession, session: str) -> list[str]:
    """The results that the main agent was given, in order."""
    said = transcript_of(await chat.gen.history.events(session))
    return [unquoted(each.text) for each in said if isinstance(each, UserMessage) and each.delivers]


async def wake(folder: Path, child: str) -> None:
    woken = await asyncio.to_thread(command, "task", "send", child, "and now?", cwd=folder)
    assert woken.code == 0, woken.err


async def answered(chat: ChatSession, turns: int) -> None:
    """Wait until the main agent has said so much, as this terminal sees it."""
    await until(
        lambda: bool(chat.main_agent and chat.main_agent.turns >= turns and chat.main_agent.status.ended),
        "it answers",
    )


async def found(chat: ChatSession, child: str, result: str) -> None:
    """Wait until this terminal sees what an agent came to."""
    await until(lambda: chat.view.agents[child].result == result, f"{result} is seen")


def ends(told: list[Notice], child: str) -> list[str]:
    """What was told of the ends of a task."""
    return [each.kind for each in told if each.task == child and each.kind != "note"]


async def test_it_is_followed_and_only_who_leads_the_conversation_tells_the_main_agent(
    tmp_path: Path,
) -> None:
    async with terminal(tmp_path) as (lead, told):
        session, child = await begun(lead)
        turns = (await lead.gen.find(session)).totals.turns
        async with terminal(tmp_path, session) as (other, also):
            told.clear()
            await wake(tmp_path, child)
            for chat in (lead, other):
                await found(chat, child, "finding 2")
                await answered(chat, turns + 1)
            assert await given(lead, session) == ["finding 1", "finding 2"]
            await other.send("and you?")
            for chat in (lead, other):
                await answered(chat, turns + 2)
            await wake(tmp_path, child)
            for chat in (lead, other):
                await found(chat, child, "finding 3")
                await answered(chat, turns + 3)
            assert await given(other, session) == ["finding 1", "finding 2", "finding 3"]
        assert (await lead.gen.find(session)).totals.turns == turns + 3
    name = f"Explore: alpha ({child})"
    for lines in (told, also):
        assert ends(lines, child) == ["result", "result"]
        woken = [each.text for each in lines if each.text == f"{name} was resumed in another process."]
        assert len(woken) == 2


async def test_what_ended_while_the_app_was_closed_is_told_once_when_it_is_opened_again(
    tmp_path: Path,
) -> None:
    async with terminal(tmp_path) as (chat, _):
        session, child = await begun(chat)
    await wake(tmp_path, child)
    async with GenCode.open(tmp_path) as gen:

        async def has_ended() -> bool:
            found = await gen.find(child)
            return found.status.ended and found.totals.turns == 2

        await until(has_ended, "it has ended")
    async with terminal(tmp_path, session) as (chat, told):
        assert ends(told, child) == ["result"]
        assert chat.view.agents[child].status is Status.COMPLETED
        await chat.send("well?")
        await chat.wait_until_idle()
        await chat.send("and?")
        await chat.wait_until_idle()
        assert await given(chat, session) == ["finding 1", "finding 2"]
    async with terminal(tmp_path, session) as (_, told):
        assert ends(told, child) == []


@pytest.mark.parametrize("waits", [False, True])
async def test_a_turn_of_gen_p_that_is_open_is_told_what_came_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, waits: bool
) -> None:
    """It hears it before its next reply, also while it only waits for another agent."""
    told, enough = asyncio.Event(), asyncio.Event()

    async def think(each: Told) -> Play:
        if each.prompt == "look":
            return say(f"finding {each.turns + 1}")
        if each.prompt == "wait":
            await enough.wait()
            return say("waited")
        if not each.turns:
            sent = [{"prompt": "look"}, *([{"prompt": "wait", "run_in_background": True}] if waits else [])]
            return say("I send.", *(("Task", {"subagent_type": "Explore", **words}) for words in sent))
        if "finding 2" in each.heard:
            told.set()
            return say("I know.")
        await asyncio.sleep(0.05)
        return say("I wait.") if waits else say("Busy.", ("LS", {"path": "."}))

    async with thinking(think, monkeypatch), GenCode.open(tmp_path) as gen:
        talking = start("-p", "go", "--model", MODEL, "--max-turns", "100000", cwd=tmp_path)

        async def has_ended() -> bool:
            return any(each.result == "finding 1" for each in await gen.history.tasks(TaskQuery()))

        await until(has_ended, "it has ended")
        [child] = [each for each in await gen.history.tasks(TaskQuery()) if each.result == "finding 1"]
        await wake(tmp_path, child.id)
        await until(told.is_set, "it is told")
        enough.set()
        await asyncio.to_thread(talking.communicate)
        session = await gen.find(child.parent or "")
        said = transcript_of(await gen.history.events(session.id))
    given = [each.text for each in said if isinstance(each, UserMessage) and child.id in each.delivers]
    assert talking.returncode == 0
    assert [(each.partition("\n")[0], unquoted(each)) for each in given] == [
        (f"[The background task {child.id} of Explore has finished]", "finding 2")
    ]
