"""Typing while a page is in sight: nothing is lost, and the last line says what Enter does."""

from pathlib import Path

from textual import events

from gencode.interfaces.tui.dialogs import PageScreen
from gencode.testing import says
from tests.interfaces.tui.driving import Seat, seated, turns

CLOSES = "Esc or Enter closes this page"


async def look_at_a_page(seat: Seat) -> None:
    await seat.type("/permissions")
    await seat.assert_sees("mode default")
    await seat.assert_sees(CLOSES)


async def test_a_sentence_that_is_typed_over_a_page_is_sent_whole(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("heard")])) as seat:
        await look_at_a_page(seat)
        await seat.burst(*"quick", " ", *"one", "enter")
        await seat.assert_sees("heard")
        await seat.assert_sees("› quick one")
        assert seat.app.screen is seat.app.main


async def test_a_command_that_is_typed_over_a_page_is_done(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("heard")])) as seat:
        await look_at_a_page(seat)
        await seat.burst(*"/keep", " ", *"zzz", "enter")
        await seat.assert_sees("zzz")
        assert CLOSES not in seat.screen
        assert seat.app.main.composer.text == ""


async def test_letters_over_a_page_that_was_opened_in_the_tree_are_no_verbs(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("heard")])) as seat:
        await seat.type("go")
        await seat.rests()
        await seat.press("ctrl+t")
        await seat.assert_sees("Enter open")
        await seat.app.push_screen(PageScreen("a page", "of something"))
        await seat.burst(*"stop")
        await seat.until(lambda: seat.app.main.composer.text == "stop", "the text")
        assert seat.app.screen is seat.app.main


async def test_what_is_pasted_over_a_page_is_text_and_enter_closes_a_page(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("heard")])) as seat:
        await look_at_a_page(seat)
        seat.app.post_message(events.Paste("two\nlines"))
        await seat.until(lambda: seat.app.main.composer.text == "two\nlines", "the text")
        await seat.app.push_screen(PageScreen("a page", "again"))
        await seat.press("enter")
        await seat.until(lambda: seat.app.screen is seat.app.main, "the conversation")
        assert seat.app.main.composer.text == "two\nlines"
        assert seat.talk.session is None
