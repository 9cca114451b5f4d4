"""Keys and questions: none is answered by what was typed for something else, whatever came in between."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest
from msgspec.structs import replace
from textual import events

from gencode.core.messages import ToolCall
from gencode.core.questions import NOBODY, Answer, AnswerTimeout, Inquiry, Option, Question, QuestionOrigin
from gencode.core.rules import Action, Decision
from gencode.interfaces.tui import keyboard, question_dialogs
from gencode.interfaces.tui.dialogs import PageScreen
from gencode.interfaces.tui.question_dialogs import ApprovalScreen, InquiryScreen
from gencode.interfaces.tui.screens import TreeScreen
from gencode.testing import says
from tests.interfaces.tui.driving import Seat, seated, turns

QUIET = 1_000.0
AWAY = QuestionOrigin("/elsewhere", "vm", True, 500.0)


@pytest.fixture(autouse=True)
def long_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pause that no machine is slow enough for: only keys that say so come after one."""
    monkeypatch.setattr(keyboard, "QUIET_SECONDS", QUIET)
    monkeypatch.setattr(question_dialogs, "WITHDRAWN_SECONDS", 0.1)


def wants(command: str, away: QuestionOrigin | None = None) -> Question:
    call = ToolCall(command, "Bash", {"command": command})
    rules = (f"Bash({command})",)
    return Question("t", "main", call, Decision(Action.ASK, "it is asked"), rules=rules, away=away)


def inquires(question: str = "Which colour?", options: Sequence[str] = ("red", "blue")) -> Question:
    inquiry = Inquiry(question, options=tuple(Option(each) for each in options))
    call = ToolCall("c", "AskUserQuestion", {})
    return Question("t", "main", call, Decision(Action.ASK, ""), inquiries=(inquiry,))


def asks(setup: Seat, question: Question) -> "asyncio.Task[Answer]":
    return asyncio.create_task(setup.app.desk.ask(question))


async def pressed(setup: Seat, *keys: str, after: float = 0.0) -> None:
    """Press keys as they would be at a later time: after so many pauses, then without one in between."""
    at = time.monotonic() + after * QUIET
    for key in keys:
        event = events.Key(key, key if len(key) == 1 else None)
        event.time = at
        setup.app.post_message(event)
    await setup.pilot.pause()


async def shows(setup: Seat, text: str) -> None:
    await setup.until(lambda: isinstance(setup.app.screen, ApprovalScreen | InquiryScreen), "a question")
    await setup.assert_sees(text)


async def test_every_key_begins_the_pause_anew_after_which_one_answers(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        asked = asks(setup, wants("touch a"))
        await shows(setup, "touch a")
        await setup.assert_sees(question_dialogs.PAUSE_TEXT)
        for pauses in (0.6, 1.2, 1.8):
            await pressed(setup, "t", "y", "enter", "escape", after=pauses)
        assert not asked.done() and isinstance(setup.app.screen, ApprovalScreen)
        await pressed(setup, "y", "enter", after=3)
        assert await asked == Answer(True)


async def test_a_sentence_that_is_being_typed_goes_on_behind_a_question(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        await setup.press(*"this is ")
        asked = asks(setup, wants("touch a"))
        await shows(setup, "touch a")
        await setup.press(*"trickx", "backspace", "y")
        setup.app.post_message(events.Paste(", pasted"))
        await setup.press("enter", *"y")
        await setup.pilot.pause()
        assert not asked.done()
        assert setup.app.main.composer.text == "this is tricky, pastedy"
        await pressed(setup, "n", "enter", after=2)
        assert not (await asked).allow
        assert setup.app.main.composer.text == "this is tricky, pastedy"


async def test_an_answer_that_comes_too_soon_is_no_text(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        await setup.type("go")
        await setup.rests()
        asked = asks(setup, wants("touch a"))
        await shows(setup, "touch a")
        await setup.press(*"yy")
        assert not asked.done()
        assert setup.app.main.composer.text == ""
        await pressed(setup, "y", "enter", after=2)
        assert (await asked).allow


async def test_a_sentence_that_begins_while_a_question_appears_is_kept_whole(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        asked = asks(setup, wants("touch a"))
        await shows(setup, "touch a")
        await setup.press(*"yes")
        await setup.until(lambda: setup.app.main.composer.text == "yes", "the sentence")
        assert not asked.done()
        await pressed(setup, "n", "enter", after=2)
        assert not (await asked).allow


@pytest.mark.parametrize("text", ["stop please", "you must not", "!no", "ssh is not needed", "hey"])
async def test_words_with_the_letters_of_answers_decide_nothing(tmp_path: Path, text: str) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        asked = asks(setup, wants("touch a"))
        await shows(setup, "touch a")
        await pressed(setup, *text, "enter", after=2)
        await setup.until(lambda: setup.app.main.composer.text == text, "the words")
        await pressed(setup, "enter", after=4)
        assert not asked.done()
        await pressed(setup, "escape", after=6)
        assert not (await asked).allow


async def test_the_letter_of_an_answer_marks_it_and_only_enter_gives_it(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        asked = asks(setup, wants("touch a"))
        await shows(setup, "touch a")
        await pressed(setup, "!", "!", after=2)
        await pressed(setup, "s", after=4)
        assert not asked.done()
        await pressed(setup, "enter", after=6)
        assert await asked == Answer(True, "session")
        assert setup.app.main.composer.text == ""


async def test_the_agents_can_be_looked_at_while_a_question_waits(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        await setup.type("go")
        await setup.rests()
        asked = asks(setup, wants("touch a"))
        await shows(setup, "touch a")
        await pressed(setup, "ctrl+t", after=2)
        await setup.until(lambda: isinstance(setup.app.screen, TreeScreen), "the agents")
        await setup.assert_sees("Agents")
        await pressed(setup, "escape", "escape", after=4)
        await setup.until(lambda: isinstance(setup.app.screen, ApprovalScreen), "the question")
        await pressed(setup, "ctrl+t", after=6)
        await setup.until(lambda: isinstance(setup.app.screen, TreeScreen), "the agents again")
        await pressed(setup, "ctrl+t", "escape", after=8)
        await setup.until(lambda: isinstance(setup.app.screen, ApprovalScreen), "the question again")
        assert not asked.done()
        await pressed(setup, "y", "enter", after=10)
        assert (await asked).allow


async def test_escape_that_closes_a_page_on_a_question_declines_nothing(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        asked = asks(setup, wants("touch a"))
        await shows(setup, "touch a")
        await setup.app.push_screen(PageScreen("a page", "that lies on the question"))
        await pressed(setup, "escape", "escape", after=4)
        await setup.until(lambda: isinstance(setup.app.screen, ApprovalScreen), "the question")
        assert not asked.done()
        await pressed(setup, "y", "enter", after=8)
        assert (await asked).allow


async def test_a_question_that_was_answered_elsewhere_says_so_before_the_next_one_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(question_dialogs, "WITHDRAWN_SECONDS", QUIET)
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        first = asks(setup, wants("touch harmless"))
        await shows(setup, "touch harmless")
        await pressed(setup, "up", after=2)
        second = asks(setup, wants("touch dangerous"))
        await setup.assert_sees("(1 more waiting)")
        await setup.app.desk.answer(setup.app.desk.waiting()[0].number, Answer(True))
        assert (await first).allow
        await setup.assert_sees(question_dialogs.WITHDRAWN_TEXT)
        assert "touch harmless" in setup.screen and "approve once" not in setup.screen
        await pressed(setup, *"yt!", "enter", "escape", after=4)
        await setup.assert_sees(question_dialogs.WITHDRAWN_TEXT)
        cast(ApprovalScreen, setup.app.screen).withdraw()  # as it does by itself after a moment
        await setup.assert_sees("touch dangerous")
        assert "more wait" not in setup.screen
        await pressed(setup, *"yt!", "enter", after=4)
        assert not second.done()
        await pressed(setup, "n", "enter", after=6)
        assert not (await second).allow


async def test_words_for_a_question_that_was_answered_elsewhere_are_kept(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        first = asks(setup, inquires())
        await shows(setup, "Which colour?")
        await pressed(setup, "tab", after=2)
        await pressed(setup, *"dark", after=2)
        await setup.assert_sees("dark")
        await setup.app.desk.answer(setup.app.desk.waiting()[0].number, Answer(True, words=("red",)))
        assert (await first).words == ("red",)
        await setup.until(lambda: setup.app.main.composer.text == "dark", "the words")
        second = asks(setup, wants("touch a"))
        await pressed(setup, *"ly", after=2)
        await shows(setup, "touch a")
        await pressed(setup, *"y", after=2)
        assert setup.app.main.composer.text == "darklyy"
        assert not second.done()
        await pressed(setup, "n", "enter", after=4)
        assert not (await second).allow


async def test_a_question_says_when_its_default_counts_and_leaves_time_to_who_types(tmp_path: Path) -> None:
    asked = inquires()
    inquiry = replace(asked.inquiries[0], default="blue")
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        first = asks(setup, replace(asked, inquiries=(inquiry,), patience=AnswerTimeout(25.0)))
        await shows(setup, "Which colour?")
        await setup.assert_sees("Default in ")
        assert "Default in 0:2" in setup.screen and ": blue" in setup.screen
        before = setup.app.desk.waiting()[0].question.until or 0.0
        await pressed(setup, *"dark", after=2)
        assert (setup.app.desk.waiting()[0].question.until or 0.0) > before
        await pressed(setup, "escape", after=4)
        assert not (await first).words


async def test_words_for_a_question_whose_time_is_over_are_kept(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        first = asks(setup, replace(inquires(), patience=AnswerTimeout(600.0, 3.0)))
        await shows(setup, "Which colour?")
        await pressed(setup, "tab", after=2)
        await pressed(setup, *"dark", after=2)
        await setup.assert_sees("dark")
        assert (await first).why.startswith("Nobody answered within")
        await setup.until(lambda: setup.app.main.composer.text == "dark", "the words")


async def test_escape_leaves_what_another_process_asks_to_others(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        asked = asks(setup, wants("touch a", AWAY))
        await shows(setup, "touch a")
        assert "/elsewhere" in setup.screen and "approve for all agents in this session" not in setup.screen
        await setup.until(lambda: "Esc leaves it open" in setup.app.main.status_bar.shown)
        await pressed(setup, "escape", after=2)
        assert await asked == NOBODY
        await setup.assert_sees("The question stays open")


async def test_how_much_of_a_command_is_out_of_sight_is_said(tmp_path: Path) -> None:
    hidden = "touch safe" + "\n" * 40 + "rm -rf important"
    async with seated(tmp_path, size=(80, 24), script=turns(main=[says("ok")])) as setup:
        asked = asks(setup, wants(hidden))
        await shows(setup, "touch safe")
        await setup.assert_sees("more lines below · PageDown")
        assert "│ rm -rf important" not in setup.screen and " n  decline" in setup.screen
        for _ in range(30):
            await setup.press("pagedown")
        await setup.assert_sees("│ rm -rf important")
        await setup.assert_sees("▲ end · PageUp")
        assert not asked.done()
        await pressed(setup, "n", "enter", after=2)
        await asked


async def test_a_long_inquiry_scrolls_and_leaves_its_answers_in_sight(tmp_path: Path) -> None:
    long = " ".join(f"word{number}" for number in range(300))
    options = [f"option {number}" for number in range(4)]
    async with seated(tmp_path, size=(100, 30), script=turns(main=[says("ok")])) as setup:
        asked = asks(setup, inquires(long, options))
        await shows(setup, "word0")
        await setup.assert_sees("more lines below · PageDown")
        await setup.assert_sees("or type your own answer")
        assert "option 3" in setup.screen and "word299" not in setup.screen
        for _ in range(12):
            await setup.press("pagedown")
        await setup.assert_sees("word299")
        await pressed(setup, "down", "enter", after=2)
        assert await asked == Answer(True, words=("option 1",))
