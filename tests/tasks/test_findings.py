"""What newcomers stumbled over: tasks that wait, words at the very end, forks that travel, questions."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from gencode.agent.ports import Request
from gencode.app import GenCode
from gencode.core.errors import UserMistake
from gencode.core.messages import EndPart, Part, TextPart
from gencode.core.questions import Answer, Question
from gencode.core.status import Status
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says, scripted
from tests.tasks.words import heard, numbered, results, said

SLOW = says("done", delay_ms=400)


async def test_a_task_that_never_left_the_queue_keeps_its_prompt(tmp_path: Path) -> None:
    async with scripted(tmp_path, settings={"max_agents": 1}, Explore=[SLOW, says("again")]) as gen:
        first = await gen.task("Explore", "first", background=True)
        second = await gen.task("Explore", "second", background=True)
        await second.stop()
        await first.result()
        await gen.resume(second.id, "go on now")
        words = [each.text for each in heard(await said(gen, second.id))]
    assert words == ["second", "go on now"]


async def test_a_waiting_task_cannot_be_cut_and_stays_in_line(tmp_path: Path) -> None:
    async with scripted(tmp_path, settings={"max_agents": 1}, Explore=[SLOW]) as gen:
        await gen.task("Explore", "first", background=True)
        second = await gen.task("Explore", "second", background=True)
        interrupted = await gen.interrupt(second.id, "hurry")
        outcome = await second.result()
        words = [each.text for each in heard(await said(gen, second.id))]
    assert (interrupted.status, outcome.status) == (Status.PENDING, Status.COMPLETED)
    assert words == ["second", "hurry"]


async def test_a_word_heard_just_before_the_end_is_no_mistake(tmp_path: Path) -> None:
    for delay in range(0, 60, 6):
        async with scripted(tmp_path, Explore=[says("one", delay_ms=40), says("two")]) as gen:
            handle = await gen.task("Explore", "look", background=True)
            await asyncio.sleep(delay / 1000)
            await gen.send(handle.id, "hello")
            outcome = await gen.outcome_of(await gen.history.ended(handle.id))
            words = [each.text for each in heard(await said(gen, handle.id))]
        assert (outcome.status, words) == (Status.COMPLETED, ["look", "hello"])


async def test_a_fork_can_be_exported_and_imported(tmp_path: Path) -> None:
    async with scripted(tmp_path, Explore=[says("one"), says("two")]) as gen:
        first = await gen.task("Explore", "look")
        fork = await gen.fork(first.agent_id, "other way")
        text = await gen.export(fork.agent_id)
    async with scripted(tmp_path, Explore=[says("never")]) as gen:
        imported = await gen.take_in(text)
    taken, warnings = imported.outcome, imported.problems
    assert (taken.agent_id, taken.result, warnings) == (fork.agent_id, fork.result, [])


class Person:
    """Somebody who answers every inquiry with the last option."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def ask(self, question: Question) -> Answer:
        self.asked += [each.question for each in question.inquiries]
        return Answer(True, words=tuple(each.options[-1].label for each in question.inquiries))


async def test_a_question_that_the_sender_leaves_reaches_the_person(tmp_path: Path) -> None:
    options = [{"label": "left"}, {"label": "right"}]
    asks = call("AskUserQuestion", questions=[{"question": "Which one?", "options": options}])
    main = [says("", call("Task", subagent_type="general-purpose", prompt="choose")), *[says("waiting")] * 2]
    person = Person()
    settings = {"permission_mode": "dontAsk", "question_seconds": 0.3}
    async with scripted(
        tmp_path,
        settings=settings,
        store=numbered(),
        asker=person,
        main=main,
        general_purpose=[says("", asks), says("went right")],
    ) as gen:
        await gen.ask("go").outcome()
        answers = results(await said(gen, "00000002"))
    assert person.asked == ["Which one?"]
    assert answers == ["The user answered:\n- Which one? → right"]


async def test_a_budget_may_be_a_dictionary_and_a_typing_mistake_in_it_is_told(tmp_path: Path) -> None:
    tokens = {"inputTokens": 90, "outputTokens": 10}
    look = says("", call("LS", path="."), usage=tokens)
    sent = call("Task", subagent_type="Explore", prompt="look", budget={"token": 5})
    async with scripted(tmp_path, Explore=[look] * 9, main=[says("", sent), says("ok")]) as gen:
        outcome = await gen.task("Explore", "look", budget={"tokens": 150})
        with pytest.raises(UserMistake, match="A budget has no"):
            await gen.task("Explore", "look", budget={"token": 1})
        asked = await gen.ask("go").outcome()
        (answer,) = results(await said(gen, asked.agent_id))
    assert (outcome.status, outcome.turns) == (Status.LIMIT_REACHED, 2)
    assert answer.endswith(
        "`token` (in `budget`). budget takes turns (integer), tokens (integer), usd (number), "
        "seconds (number), spawns (integer)."
    )


async def test_a_model_that_tells_no_usage_is_bounded_by_what_was_sent(tmp_path: Path) -> None:
    class Silent:
        async def stream(self, request: Request) -> AsyncGenerator[Part, None]:
            from gencode.core.messages import CallPart, ToolCall

            yield TextPart("more ")
            yield CallPart(ToolCall("", "LS", {"path": "."}))
            yield EndPart("silent")

    settings = {"max_tokens_total": 3_000}
    async with GenCode.open(tmp_path, model=Silent(), settings=settings, store=MemoryStore()) as gen:
        outcome = await gen.task("general-purpose", "go")
    assert outcome.status is Status.LIMIT_REACHED
    assert outcome.turns < 10
