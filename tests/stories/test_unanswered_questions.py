"""What nobody answers ends with its default, in every surface, and before the time of who asks is over."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.interfaces.acp.driving import wired
from tests.interfaces.cli.running import script
from tests.interfaces.http.serving import gen_serve
from tests.stories.terminal_window import window
from tests.tasks.words import numbered, results, said
from tests.virtual_clock import virtual_time

from gencode.core.errors import UserMistake
from gencode.core.messages import ToolCall
from gencode.core.questions import Answer, Inquiry, Question, check_answer
from gencode.core.status import Status
from gencode.interfaces.cli.terminal_questions import inquiry_text
from gencode.questions.question_desk import QuestionDesk
from gencode.tasks.ask_parent import ASKING
from gencode.testing import call, says, scripted

SIDES = [{"label": "left"}, {"label": "right"}]
ASKS = call("AskUserQuestion", questions=[{"question": "Which one?", "options": SIDES}], default="right")
GOES_ON = [says("", ASKS), says("I went on.")]
ASSUMED = "\n- Which one? → (no answer; your default: right)\nSay in your report which defaults you assumed."


class Absent:
    """Somebody who never answers, and remembers what they were asked."""

    def __init__(self) -> None:
        self.asked: list[Question] = []

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        return await asyncio.get_running_loop().create_future()

    answer = ask


@pytest.mark.parametrize("sits", ["at a screen", "behind a program"])
async def test_the_main_agent_goes_on_when_nobody_answers(tmp_path: Path, sits: str) -> None:
    absent = Absent()
    asker = QuestionDesk(absent) if sits == "at a screen" else absent
    settings = {"answer_seconds": 0.2}
    async with (
        asyncio.timeout(60),
        scripted(tmp_path, settings=settings, store=numbered(), asker=asker, main=GOES_ON) as gen,
    ):
        outcome = await gen.ask("go").outcome()
        told = results(await said(gen, outcome.agent_id))
    assert (outcome.result, told) == ("I went on.", [f"Nobody answered within 0.2 s.{ASSUMED}"])
    assert [each.inquiries[0].default for each in absent.asked] == ["right"]


@pytest.mark.parametrize("words", [("",), (" \n",)])
async def test_an_empty_answer_is_told_as_one_and_the_default_counts(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    class Silent(Absent):
        async def ask(self, question: Question) -> Answer:
            return Answer(True, words=words)

    async with scripted(tmp_path, store=numbered(), asker=Silent(), main=GOES_ON) as gen:
        outcome = await gen.ask("go").outcome()
        told = results(await said(gen, outcome.agent_id))
    assert told == [f"The user left the answer empty.{ASSUMED}"]


@pytest.mark.parametrize(
    ("asked", "given", "said"),
    [
        (1, 2, "1 answer in words is asked for, not 2; an empty one counts as no answer."),
        (2, 0, "2 answers in words are asked for, not none; an empty one counts as no answer."),
        (0, 1, "This question takes an approval, not an answer in words."),
    ],
)
def test_too_few_or_too_many_words_are_refused_in_a_sentence(asked: int, given: int, said: str) -> None:
    inquiries = tuple(Inquiry(f"Which {number}?") for number in range(asked))
    question = Question("t", "a", ToolCall("c", "AskUserQuestion", {}), ASKING, inquiries=inquiries)
    with pytest.raises(UserMistake) as refused:
        check_answer(question, Answer(True, words=("x",) * given))
    assert str(refused.value) == said


@pytest.mark.parametrize(
    ("default", "said"),
    [("blue", "an empty line selects the default: blue."), ("", "an empty line leaves it undecided.")],
)
def test_a_person_is_told_what_an_empty_line_means(default: str, said: str) -> None:
    inquiry = Inquiry("Which?", default=default)
    question = Question("t", "a", ToolCall("c", "AskUserQuestion", {}), ASKING, inquiries=(inquiry,))
    assert inquiry_text(question, inquiry).splitlines()[-1].endswith(said)


@pytest.mark.parametrize("who", ["the turn", "the one that waits", "the agent"])
@virtual_time
async def test_a_default_is_never_lost_with_the_time_of_who_asks(tmp_path: Path, who: str) -> None:
    """Whoever of them has little time, a person has most of it, and the agent the rest."""
    absent = Absent()
    short: dict[str, Any] = {"max_seconds" if who != "the agent" else "task_seconds": 4}
    settings = {"permission_mode": "dontAsk", "background_questions": True, **short}
    sends = says("", call("Task", subagent_type="general-purpose", prompt="choose"))
    script = {
        "the turn": {"main": GOES_ON},
        "the one that waits": {"main": [sends, *[says("I went on.")] * 3], "general_purpose": GOES_ON},
        "the agent": {"main": [sends, *[says("I went on.")] * 3], "general_purpose": GOES_ON},
    }[who]
    async with (
        asyncio.timeout(60),
        scripted(tmp_path, settings=settings, store=numbered(), asker=QuestionDesk(absent), **script) as gen,
    ):
        outcome = await gen.ask("go").outcome()
        asked = absent.asked[0]
        told = results(await said(gen, asked.task))
        asker = await gen.find(asked.task)
    assert (outcome.status, asker.status, asker.result) == (
        Status.COMPLETED,
        Status.COMPLETED,
        "I went on.",
    )
    assert asked.patience.most is not None and 0.0 < asked.patience.most <= 3.0
    assert told[0].endswith(ASSUMED)


async def test_each_question_of_a_call_has_a_default_that_fits_it(tmp_path: Path) -> None:
    count = {"question": "How many?", "options": [{"label": "1"}, {"label": "2"}]}
    own = {"question": "Which colour?", "default": "green"}
    side = {"question": "Which side?", "options": SIDES}
    free = {"question": "Why?"}
    asks = call("AskUserQuestion", questions=[side, count, own, free], default="right")
    async with scripted(tmp_path, store=numbered(), main=[says("", asks), says("done")]) as gen:
        outcome = await gen.ask("go").outcome()
        (told,) = results(await said(gen, outcome.agent_id))
    assert told.splitlines()[1:5] == [
        "- Which side? → (no answer; your default: right)",
        "- How many? → (no answer; not decided)",
        "- Which colour? → (no answer; your default: green)",
        "- Why? → (no answer; not decided)",
    ]
    assert "nothing is decided" in told


@pytest.mark.parametrize("there", ["nobody", "somebody who is silent", "somebody who closes it"])
async def test_without_a_default_of_its_own_a_question_that_nobody_answers_decides_nothing(
    tmp_path: Path, there: str
) -> None:
    class Closes(Absent):
        async def ask(self, question: Question) -> Answer:
            return Answer(False)

    asks = call("AskUserQuestion", questions=[{"question": "Which one?", "options": SIDES}])
    asker = {"nobody": None, "somebody who is silent": Absent(), "somebody who closes it": Closes()}[there]
    settings = {"answer_seconds": 0.2}
    turns = [says("", asks), says("I left it open.")]
    async with scripted(tmp_path, settings=settings, store=numbered(), asker=asker, main=turns) as gen:
        outcome = await gen.ask("go").outcome()
        (told,) = results(await said(gen, outcome.agent_id))
    assert ("(no answer; not decided)" in told, "nothing is decided" in told) == (True, True)
    assert not any(f"→ {side['label']}" in told for side in SIDES)


async def test_an_editor_that_leaves_a_form_open_is_not_waited_for(tmp_path: Path) -> None:
    async with wired(tmp_path, "--model", "offline", GEN_ANSWER_SECONDS="1") as wire:
        await wire.introduce(forms=True)
        session = await wire.new(tmp_path, main=GOES_ON)
        ending = await wire.say(session, "go")
        assert (ending.stop_reason, wire.editor.text(session)) == ("end_turn", "I went on.")
        message, _ = wire.editor.forms[0]
        await wire.introduce(forms=False)
        wire.editor.answer = lambda _: None
        session = await wire.new(tmp_path, main=GOES_ON)
        assert (await wire.say(session, "go")).stop_reason == "end_turn"
        assert "Default in " in str(wire.editor.asked[-1].call.content)
    assert message.startswith("main asks: Which one?\nDefault in ")
    assert message.endswith(": right")


async def test_a_server_gives_the_default_while_its_agent_still_has_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEN_TASK_SECONDS", "12")
    agents = {"general-purpose": GOES_ON}
    async with gen_serve(tmp_path, "--permission-mode", "dontAsk", **agents) as server:
        sent = await server.client.post("/api/tasks", {"agent": "general-purpose", "prompt": "choose"})
        asked = await server.client.until("/api/questions", lambda told: bool(told["questions"]))
        ended = await server.client.ended(sent.json["agentId"])
    (question,) = asked["questions"]
    assert question["inquiries"][0]["default"] == "right"
    assert sent.json["createdAt"] < question["until"] < ended["endedAt"]
    assert (ended["status"], ended["result"]) == ("completed", "I went on.")


async def test_who_follows_line_by_line_is_told_what_counts_and_when_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEN_ANSWER_SECONDS", "2")
    with window(tmp_path, "--plain", "--model", script(tmp_path, main=GOES_ON)) as at:
        await at.shows("/quit")
        at.types("go\n")
        await at.shows("main asks: Which one?", "Default in ")
        await at.shows("Nobody answered in time.")
        at.types("\x04")
        assert await at.ended() == 0
