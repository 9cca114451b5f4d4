"""Words that are refused are not kept, and words of several at once are all heard, each of them once."""

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

from gencode.app import GenCode, components
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.status import Status
from gencode.stores.memory import MemoryStore
from gencode.tasks.service import MessageKept
from gencode.testing import call, says, scripted
from tests.interfaces.cli.running import SECONDS, gen, script, start
from tests.tasks.words import heard, said

COSTS = {"inputTokens": 90, "outputTokens": 10}
SENT = call("Task", subagent_type="Explore", prompt="look")
BEHIND = call("Task", subagent_type="Explore", prompt="look", run_in_background=True)
EXPLORE = [says(f"found {number}", usage=COSTS) for number in range(9)]
SPENT = "The budget of 300 tokens of the session is spent"


async def words(gen: GenCode, task: str) -> list[str]:
    """What a task was told by people."""
    return [each.text for each in heard(await said(gen, task)) if each.sender == "user"]


async def test_what_is_refused_is_not_kept_and_not_heard_later(tmp_path: Path) -> None:
    main = [says("", SENT, usage=COSTS), says("told", usage=COSTS), says("heard you", usage=COSTS)]
    store = MemoryStore()
    async with scripted(
        tmp_path, store=store, settings={"max_tokens_total": 300}, main=main, Explore=EXPLORE
    ) as gen:
        session = (await gen.ask("go").outcome()).agent_id
        [child] = await gen.tasks(session)
        for refused in (
            gen.send(child.agent_id, "refused"),
            gen.resume(child.agent_id, "refused"),
            gen.resume(session, "refused"),
            gen.ask("refused", session=session).outcome(),
        ):
            with pytest.raises(UserMistake, match=SPENT):
                await refused
        assert (await store.unread_messages(child.agent_id), await store.unread_messages(session)) == ([], [])
        await gen.budgets.set_all(Budget())
        await gen.resume(child.agent_id, "real")
        await gen.ask("real", session=session).outcome()
        assert await words(gen, child.agent_id) == ["look", "real"]
        assert await words(gen, session) == ["go", "real"]


async def test_what_comes_back_to_a_spent_conversation_is_kept_once_and_that_is_said(tmp_path: Path) -> None:
    store = MemoryStore()
    main = [says("", BEHIND, usage=COSTS), says("sent", usage=COSTS), *[says("told", usage=COSTS)] * 3]
    async with scripted(
        tmp_path, store=store, settings={"max_tokens_total": 300}, main=main, Explore=EXPLORE
    ) as gen:
        session = (await gen.ask("go").outcome()).agent_id
        assert (await gen.get(session)).status is not Status.RUNNING
        await gen.send(session, "and then?")
        for _ in range(2):
            with pytest.raises(MessageKept, match="Results that were not delivered yet are kept"):
                await components(gen).tasks.service.hear(gen.agents.main(), session)
        kept = [each.text for each in await store.unread_messages(session)]
        assert kept == ["and then?"]


async def test_words_of_several_at_once_to_an_ended_agent_are_all_heard_once(tmp_path: Path) -> None:
    store = MemoryStore()
    slow = [says("found"), *[says("", call("LS", path="."), delay_ms=20)] * 3, says("heard")]
    async with (
        scripted(tmp_path, store=store, Explore=slow) as one,
        scripted(tmp_path, store=store, Explore=slow) as other,
    ):
        task = (await one.task("Explore", "look")).agent_id
        told = [f"word {number}" for number in range(6)]
        sent = [(one, other)[number % 2].send(task, text) for number, text in enumerate(told)]
        woken = [each.resumed for each in await asyncio.gather(*sent)]
        await one.history.ended(task, SECONDS)
        assert await store.unread_messages(task) == []
        assert Counter(await words(one, task)) == Counter(["look", *told])
    assert woken.count(True) >= 1


def test_three_commands_at_once_to_an_ended_agent_all_succeed_and_are_heard(tmp_path: Path) -> None:
    explore = [says("found"), *[says("", call("LS", path="."), delay_ms=500)] * 8, says("heard")]
    model = script(tmp_path, Explore=explore)
    words = ("task", "run", "Explore", "look", "--model", model, "--json")
    task: str = gen(*words, cwd=tmp_path).json["agentId"]
    sends = [start("task", "send", task, f"word {number}", cwd=tmp_path) for number in range(3)]
    ended = [send.communicate(timeout=SECONDS) for send in sends]
    assert [send.returncode for send in sends] == [0, 0, 0], ended
    gen("task", "output", task, cwd=tmp_path)
    shown = json.dumps(gen("task", "show", task, "--json", cwd=tmp_path).json["transcript"])
    assert [shown.count(f"word {number}") for number in range(3)] == [1, 1, 1]
