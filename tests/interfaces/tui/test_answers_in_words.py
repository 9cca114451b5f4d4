"""Answers in words of one's own: what is typed at a question is what is sent, wherever the focus was."""

import asyncio
from pathlib import Path

import pytest
from textual import events

from gencode.core.messages import ToolCall
from gencode.core.questions import Answer, Inquiry, Option, Question
from gencode.core.rules import Action, Decision
from gencode.interfaces.tui import keyboard, question_dialogs
from gencode.interfaces.tui.question_dialogs import InquiryScreen
from gencode.testing import says
from tests.interfaces.tui.driving import SECONDS, Seat, seated, turns

DATABASES = (Option("Postgres", "the big one"), Option("SQLite", "the small one"))


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyboard, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(question_dialogs, "AGAIN_SECONDS", 0.0)


async def asked(setup: Seat, *, many: bool = False) -> "asyncio.Task[Answer]":
    """A question with two options is in sight."""
    inquiry = Inquiry("Which database?", options=DATABASES, many=many)
    call = ToolCall("c", "AskUserQuestion", {})
    question = Question("t", "main", call, Decision(Action.ASK, ""), inquiries=(inquiry,))
    await setup.until(lambda: setup.app.screen is setup.app.main, "the end of the question before")
    answer = asyncio.create_task(setup.app.desk.ask(question))
    await setup.until(lambda: isinstance(setup.app.screen, InquiryScreen) and setup.app.screen.in_sight)
    await setup.assert_sees("Which database?")
    return answer


async def given(answer: "asyncio.Task[Answer]") -> Answer:
    """What was answered, which is known soon."""
    return await asyncio.wait_for(answer, SECONDS)


async def test_what_is_typed_at_the_options_is_seen_and_sent(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        answer = await asked(setup)
        await setup.press(*"MySQL please")
        await setup.assert_sees("MySQL please")
        await setup.press("enter")
        assert await given(answer) == Answer(True, words=("MySQL please",))


async def test_words_that_come_all_at_once_choose_no_option(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        answer = await asked(setup)
        await setup.burst(*"MySQL", "enter")
        assert await given(answer) == Answer(True, words=("MySQL",))


async def test_a_number_is_a_word_since_no_option_has_one(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        answer = await asked(setup)
        await setup.press("2", "space", "4", "enter")
        assert await given(answer) == Answer(True, words=("2 4",))


async def test_what_is_pasted_at_the_options_is_seen_and_sent(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        answer = await asked(setup)
        setup.app.post_message(events.Paste("MariaDB"))
        await setup.assert_sees("MariaDB")
        await setup.press("enter")
        assert await given(answer) == Answer(True, words=("MariaDB",))


async def test_from_the_words_the_arrows_lead_back_to_the_options_and_typing_goes_on_with_the_words(
    tmp_path: Path,
) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        answer = await asked(setup)
        await setup.press(*"My", "down", *"SQL", "enter")
        assert await given(answer) == Answer(True, words=("MySQL",))
        answer = await asked(setup)
        await setup.press("x", "backspace", "up", "down", "enter")
        assert await given(answer) == Answer(True, words=("SQLite",))


async def test_space_marks_options_and_is_a_space_in_words(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        answer = await asked(setup, many=True)
        await setup.press("space", "down", "space", "enter")
        assert await given(answer) == Answer(True, words=("Postgres, SQLite",))
        answer = await asked(setup, many=True)
        await setup.press(*"My SQL", "enter")
        assert await given(answer) == Answer(True, words=("My SQL",))


async def test_words_beside_marked_options_are_sent_with_them(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        answer = await asked(setup, many=True)
        await setup.press("down", "space", *"and MySQL", "enter")
        assert await given(answer) == Answer(True, words=("SQLite, and MySQL",))
