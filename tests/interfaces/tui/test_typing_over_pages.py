"""Typing while a page is in sight: nothing is lost, and the last line says what Enter does."""

from pathlib import Path

from textual import events

from gencode.interfaces.tui.dialogs import PageScreen
from gencode.testing import says
from tests.interfaces.tui.driving import Seat, seated, turns

CLOSES = "Esc or Enter closes this page"


async def look_at_a_page(setup: Seat) -> None:
    await setup.type("/permissions")
    await setup.assert_sees("mode default")
    await setup.assert_sees(CLOSES)


async def test_a_sentence_that_is_typed_over_a_page_is_sent_whole(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("heard")])) as setup:
        await look_at_a_page(setup)
        await setup.burst(*"quick", " ", *"one", "enter")
        await setup.assert_sees("heard")
        await setup.assert_sees("› quick one")
        assert setup.app.screen is setup.app.main


async def test_a_command_that_is_typed_over_a_page_is_done(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("heard")])) as setup:
        await look_at_a_page(setup)
        await setup.burst(*"/keep", " ", *"zzz", "enter")
        await setup.assert_sees("zzz")
        assert CLOSES not in setup.screen
        await setup.until(lambda: setup.app.main.composer.text == "", "the command is sent")


async def test_letters_over_a_page_that_was_opened_in_the_tree_are_no_verbs(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("heard")])) as setup:
        await setup.type("go")
        await setup.rests()
        await setup.press("ctrl+t")
        await setup.assert_sees("Enter opens")
        await setup.app.push_screen(PageScreen("a page", "of something"))
        await setup.burst(*"stop")
        await setup.until(lambda: setup.app.main.composer.text == "stop", "the text")
        assert setup.app.screen is setup.app.main


async def test_what_is_pasted_over_a_page_is_text_and_enter_closes_a_page(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("heard")])) as setup:
        await look_at_a_page(setup)
        setup.app.post_message(events.Paste("two\nlines"))
        await setup.until(lambda: setup.app.main.composer.text == "two\nlines", "the text")
        await setup.app.push_screen(PageScreen("a page", "again"))
        await setup.press("enter")
        await setup.until(lambda: setup.app.screen is setup.app.main, "the conversation")
        assert setup.app.main.composer.text == "two\nlines"
        assert setup.chat.session is None
