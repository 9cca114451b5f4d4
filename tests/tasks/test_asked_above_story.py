"""What an agent asks goes to its sender first, wherever that is at work; then to a person; then to nobody."""

import asyncio
import os
import re
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gencode.app import GenCode, components
from gencode.core.messages import AssistantMessage
from gencode.core.questions import Answer, Question
from gencode.core.spec import TaskRequest
from gencode.core.status import Status, stop_cause
from gencode.core.task import Task
from gencode.journal.store import TaskQuery
from gencode.places import database
from gencode.questions.question_desk import QuestionDesk
from gencode.tasks.ask_parent import LOOK_SECONDS
from gencode.testing import call, says, scripted
from tests.contracts.provider import Play
from tests.contracts.questions import until
from tests.interfaces.cli.running import start
from tests.stores.other_program import rows
from tests.tasks.minds import MODEL, Told, answer, inquiry, say, thinking
from tests.tasks.words import heard, numbered, results, said

ANSWERED = "The agent main answered; the answer is the message after this one."
UNDECIDED = "Nobody answered in time.\n- Which one? → (no answer; not decided)\n"
MAY = {"allow": ["Task(general-purpose)"]}


def send(prompt: str, **words: Any) -> tuple[str, dict[str, Any]]:
    """A call that sends an agent."""
    return "Task", {"subagent_type": "general-purpose", "prompt": prompt, **words}


def inquiry_call() -> dict[str, Any]:
    """A scripted call that asks which way to go."""
    return call("AskUserQuestion", questions=[{"question": "Which one?", "options": [{"label": "left"}]}])


APART = send("choose", isolation="process")


def choosing(told: Told, times: int = 1) -> Play:
    """An agent that asks which way to go, so many times."""
    return say("I went on.") if told.replies >= times else say("I ask.", inquiry("left", "right"))


def lead(told: Told, *first: tuple[str, dict[str, Any]]) -> Play:
    """A main agent that makes its calls, and answers once when it is asked."""
    if not told.turns:
        return say("I begin.", *first)
    if told.askers and not told.has_answered:
        return say("I know it.", answer(told, "right"))
    return say("It is done.")


@asynccontextmanager
async def opened(folder: Path, **settings: Any) -> AsyncGenerator[GenCode]:
    async with asyncio.timeout(60), GenCode.open(folder, model=MODEL, settings={**MAY, **settings}) as gen:
        yield gen


async def has_ended(gen: GenCode, turns: int) -> bool:
    """Whether the agent that chooses has ended after so many turns."""
    found = (await tasks(gen)).get("choose")
    return found is not None and found.status.ended and found.totals.turns == turns


async def tasks(gen: GenCode) -> dict[str, Task]:
    """Everything there is, by what it was told first."""
    return {each.created.prompt: each for each in await gen.history.tasks(TaskQuery())}


async def test_an_agent_apart_that_is_waited_for_asks_its_sender_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def think(told: Told) -> Play:
        return choosing(told) if told.prompt == "choose" else lead(told, APART)

    async with thinking(think, monkeypatch), opened(tmp_path) as gen:
        outcome = await gen.ask("go").outcome()
        [child] = await gen.tasks(parent=outcome.agent_id)
        asked = heard(await said(gen, outcome.agent_id))
        told = await said(gen, child.agent_id)
    name = f"general-purpose (task {child.agent_id})"
    assert (outcome.result, child.status) == ("It is done.", Status.COMPLETED)
    assert asked[1].text.startswith(f"[{name} asks]\n1. Which one?\n   - left\n   - right\n")
    assert results(told) == [ANSWERED]
    assert heard(told)[-1].text == f"[main (task {outcome.agent_id}) says]\nright"


async def test_a_sender_that_waits_for_the_result_hears_the_question_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def think(told: Told) -> Play:
        if told.prompt == "choose":
            return choosing(told)
        if told.turns == 1:
            [child] = re.findall(r"[0-9a-f]{8}", told.heard)[:1]
            return say("I wait.", ("TaskOutput", {"task_id": child, "timeout": 600_000}))
        return lead(told, send("choose", run_in_background=True))

    async with thinking(think, monkeypatch), opened(tmp_path) as gen:
        outcome = await gen.ask("go").outcome()
        known = await tasks(gen)
        waited = results(await said(gen, outcome.agent_id))[1]
        told = await said(gen, known["choose"].id)
    assert "Status: still running" in waited
    assert (outcome.result, results(told)) == ("It is done.", [ANSWERED])


async def test_an_agent_apart_that_waits_for_an_answer_keeps_nobody_from_working(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sender answers only when another one has done its work, and only one may be at work at a time."""

    def think(told: Told) -> Play:
        if told.prompt == "choose":
            return choosing(told)
        if told.prompt == "work":
            return say("Worked.")
        if not told.turns:
            return say("I begin.", send("choose", isolation="process", run_in_background=True))
        if told.askers and "Worked." not in told.heard:
            return say("First this.", send("work", isolation="process"))
        return lead(told)

    async with thinking(think, monkeypatch), opened(tmp_path, max_agents=1) as gen:
        outcome = await gen.ask("go").outcome()
        known = await tasks(gen)
        told = await said(gen, known["choose"].id)
    assert (outcome.result, known["work"].result, results(told)) == ("It is done.", "Worked.", [ANSWERED])


class Saying:
    """A person who always says the same and remembers what they were asked."""

    def __init__(self, answer: Answer) -> None:
        self.asked: list[Question] = []
        self._answer = answer

    async def answer(self, question: Question) -> Answer:
        self.asked.append(question)
        return self._answer


@pytest.mark.parametrize("sending", [APART, send("choose")])
async def test_what_the_sender_leaves_is_asked_at_once_of_the_person_who_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sending: tuple[str, dict[str, Any]]
) -> None:
    """They are asked although the agent was sent to the background meanwhile: nobody asked for that."""
    person = Saying(Answer(True, words=("right",)))

    def think(told: Told) -> Play:
        if told.prompt == "choose":
            return choosing(told)
        return say("I leave it.") if told.turns else say("I begin.", sending)

    settings = {**MAY, "question_seconds": 600, "background_questions": False}
    asker = QuestionDesk(person)
    async with (
        asyncio.timeout(120),
        thinking(think, monkeypatch),
        GenCode.open(tmp_path, model=MODEL, settings=settings, asker=asker) as gen,
    ):
        assert rows(database(), "SELECT count(*) FROM gen_presence") == [(1,)]
        await gen.ask("go").outcome()
        child = (await tasks(gen))["choose"]
        told = await said(gen, child.id)
    assert [(each.task, each.path) for each in person.asked] == [(child.id, ("main", "general-purpose"))]
    assert results(told) == ["The user answered:\n- Which one? → right"]


async def test_a_sender_that_waits_for_others_keeps_its_time_and_those_that_ask_wait_for_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One answer comes when the work of another one has; after that two ask, and both are left."""
    enough = asyncio.Event()

    async def think(told: Told) -> Play:
        if told.prompt in ("choose", "choose, too"):
            return choosing(told, 2)
        if told.prompt == "work":
            await enough.wait()
            return say("Worked.")
        if not told.turns:
            both = send("choose", run_in_background=True), send("choose, too", run_in_background=True)
            return say("I begin.", *both, send("work", run_in_background=True))
        if "Worked." in told.heard and not told.has_answered:
            words = [("SendMessage", {"task_id": each, "message": "right"}) for each in set(told.askers)]
            return say("I know it.", *words)
        return say("I wait.")

    async with thinking(think, monkeypatch), opened(tmp_path, question_seconds=600) as gen:
        talking = asyncio.ensure_future(gen.ask("go").outcome())

        async def both_are_heard() -> bool:
            main = (await tasks(gen)).get("go")
            known = await said(gen, main.id) if main else []
            asked = "".join(each.text for each in heard(known)).count(") asks]")
            return asked == 2 and isinstance(known[-1], AssistantMessage)

        await until(both_are_heard, "both have asked, and are left")
        await asyncio.sleep(3 * LOOK_SECONDS)
        known = await tasks(gen)
        asking = [results(await said(gen, known[each].id)) for each in ("choose", "choose, too")]
        enough.set()
        await talking
        told = [results(await said(gen, known[each].id)) for each in ("choose", "choose, too")]
    assert asking == [[], []]
    assert [(first, rest.startswith(UNDECIDED)) for first, rest in told] == [(ANSWERED, True)] * 2


def woken(told: Told) -> Play:
    """An agent that asks only once it is woken."""
    return choosing(told, told.heard.count("once more")) if told.turns else say("Here I am.")


async def test_an_agent_that_is_woken_in_another_process_asks_its_sender_who_is_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enough = asyncio.Event()

    async def think(told: Told) -> Play:
        if told.prompt == "choose":
            return woken(told)
        if told.prompt == "wait":
            await enough.wait()
            return say("Waited.")
        calls = (send("choose", run_in_background=True), send("wait", run_in_background=True))
        return lead(told, *calls)

    async with thinking(think, monkeypatch), opened(tmp_path) as gen:
        talking = asyncio.ensure_future(gen.ask("go").outcome())
        await until(lambda: has_ended(gen, 1), "it has ended")
        child = (await tasks(gen))["choose"].id
        async with opened(tmp_path) as other:
            assert (await other.send(child, "once more")).resumed
            await until(lambda: has_ended(other, 3), "it has ended again")
            told = await said(other, child)
        enough.set()
        outcome = await talking
    assert results(told) == [ANSWERED]
    assert heard(told)[-1].text == f"[main (task {outcome.agent_id}) says]\nright"


async def test_a_sender_whose_process_is_killed_is_not_waited_for_and_one_at_rest_is_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEN_QUESTION_SECONDS", "600")

    async def think(told: Told) -> Play:
        if told.prompt == "choose":
            return woken(told)
        if told.turns:
            await asyncio.Event().wait()  # it is at work, and hears nothing
        return say("I begin.", send("choose"))

    async with thinking(think, monkeypatch), opened(tmp_path) as gen:
        words = ("-p", "go", "--model", MODEL, "--allow", "Task(general-purpose)")
        parent = start(*words, cwd=tmp_path)
        await until(lambda: has_ended(gen, 1), "it has ended")
        child = (await tasks(gen))["choose"].id
        session = (await gen.find(child)).parent or ""
        assert (await gen.send(child, "once more")).resumed

        async def is_asked() -> bool:
            return [each.sender for each in await components(gen).store.unread_messages(session)] == [child]

        await until(is_asked, "its sender is asked")
        os.kill(parent.pid, signal.SIGKILL)
        parent.communicate()
        await until(lambda: has_ended(gen, 3), "it goes on")
        first = results(await said(gen, child))
        again = await gen.send(child, "once more, please")
        await until(lambda: has_ended(gen, 5), "it goes on again")
        asked = [each.sender for each in await components(gen).store.unread_messages(session)]
        now = await gen.find(session)
    assert [each.startswith(UNDECIDED) for each in first] == [True]
    assert (again.resumed, asked, now.status) == (True, [child], Status.INTERRUPTED)


async def test_only_what_the_sender_writes_once_it_has_heard_the_question_answers_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    async def think(told: Told) -> Play:
        if told.prompt == "choose":
            return choosing(told)
        if told.turns == 1:
            await asked.wait()
            [child] = [each for each in await tasks(gen) if each == "choose"]
            word = {"task_id": (await tasks(gen))[child].id, "message": "by the way"}
            return say("A word.", ("SendMessage", word))
        if told.turns == 2:
            return say("I know it.", answer(told, "right"))
        return say("It is done.") if told.turns else say("", send("choose", run_in_background=True))

    async with thinking(think, monkeypatch), opened(tmp_path) as gen:
        talking = asyncio.ensure_future(gen.ask("go").outcome())

        async def is_asked() -> bool:
            main = (await tasks(gen)).get("go")
            return main is not None and bool(await components(gen).store.unread_messages(main.id))

        await until(is_asked, "the question lies there")
        child = (await tasks(gen))["choose"].id
        await gen.send(child, "left, says a person")
        asked.set()
        outcome = await talking
        told = await said(gen, child)
    main = f"[main (task {outcome.agent_id}) says]"
    before = [each for each in told if isinstance(each, AssistantMessage)][-1]
    words = [each.text for each in heard(told[: told.index(before)])]
    assert words[1:] == ["left, says a person", f"{main}\nby the way", f"{main}\nright"]
    assert results(told) == [ANSWERED]


async def test_an_agent_that_asked_may_still_ask_what_it_may_do(tmp_path: Path) -> None:
    """Its parent was released to answer, so it is in the background since; nobody wanted that."""
    person = Saying(Answer(True))
    asks = call("AskUserQuestion", questions=[{"question": "Which one?", "options": [{"label": "left"}]}])
    main = [
        says("", call("Task", subagent_type="general-purpose", prompt="choose")),
        says("", call("SendMessage", task_id="00000002", message="left")),
        *[says("ok")] * 2,
    ]
    child = [says("", asks), says("", call("Bash", command="touch x")), says("done")]
    async with (
        asyncio.timeout(60),
        scripted(
            tmp_path,
            settings={**MAY, "background_questions": False},
            store=numbered(),
            asker=QuestionDesk(person),
            main=main,
            general_purpose=child,
        ) as gen,
    ):
        await gen.ask("go").outcome()
        answers = results(await said(gen, "00000002"))
    assert answers[0] == ANSWERED
    assert ([each.call.name for each in person.asked], (tmp_path / "x").exists()) == (["Bash"], True)


async def test_a_parent_that_has_answered_waits_for_the_end_and_not_for_the_question_again(
    tmp_path: Path,
) -> None:
    waits = call("TaskOutput", task_id="00000002", timeout=60_000)
    main = [
        says("", call("Task", subagent_type="general-purpose", prompt="choose", run_in_background=True)),
        says("", waits),
        says("", call("SendMessage", task_id="00000002", message="left")),
        says("", waits),
        says("done"),
    ]
    child = [says("", inquiry_call()), says("", call("Bash", command="sleep 0.5")), says("It is left.")]
    settings = {"allow": ["Task(general-purpose)", "Bash(sleep:*)"]}
    async with (
        asyncio.timeout(60),
        scripted(tmp_path, settings=settings, store=numbered(), main=main, general_purpose=child) as gen,
    ):
        outcome = await gen.ask("go").outcome()
        _, asked, _, ended = results(await said(gen, outcome.agent_id))
    assert ("00000002" in asked, "It is left." in asked, "It is left." in ended) == (True, False, True)


async def test_a_task_from_a_file_does_not_speak_to_the_sender_that_the_file_names(tmp_path: Path) -> None:
    question = {"question": "Which one?", "options": [{"label": "left"}]}
    asks = says("", call("AskUserQuestion", questions=[question]))
    main = [says("", call("Task", subagent_type="general-purpose", prompt="choose")), says("ok")]
    async with scripted(tmp_path, store=numbered(), settings=MAY, main=main, others=[says("done")]) as gen:
        await gen.ask("go").outcome()
        text = await gen.export("00000002")
    talk = [says("at work", delay_ms=600_000)]
    async with scripted(tmp_path, store=numbered(), main=talk, others=[says(""), asks, says("over")]) as gen:
        job = await gen.start_turn("go")
        taken = (await gen.take_in(text)).outcome
        again = await gen.start_resume(taken.agent_id, TaskRequest("", "choose again", background=True))
        await again.ended()
        answers = results(await said(gen, taken.agent_id))
        assert (job.id, taken.agent_id) == ("00000001", "00000002")
        assert await components(gen).store.unread_messages(job.id) == []
        await job.halt(stop_cause("enough"))
    assert [each.partition(".")[0] for each in answers] == ["Nobody is available to answer"]
