"""Another conversation while something else is in sight: nothing of the first is looked for any more."""

from pathlib import Path

from gencode.core.questions import Answer
from gencode.interfaces.tui.question_dialogs import AskScreen
from gencode.interfaces.tui.screens import AgentScreen
from gencode.testing import call, says
from tests.interfaces.tui.driving import Seat, seated, turns

LONG = says("\n\n".join(f"line {number}" for number in range(40)))
WRITE = call("Write", file_path="new.txt", content="new")


async def follow(seat: Seat, prompt: str, last: str) -> None:
    await seat.type(prompt)
    await seat.rests()
    await seat.assert_sees(last)


async def test_a_new_conversation_that_was_begun_in_the_tree_is_empty(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[LONG])) as seat:
        await follow(seat, "many", "line 39")
        await seat.press("ctrl+t")
        await seat.assert_sees("Enter open")
        await seat.press(*"/new", "enter")
        await seat.until(lambda: not seat.app.main.whose, "the new conversation")
        await seat.assert_sees("Ask about this folder")
        assert "line 39" not in seat.screen


async def test_a_shorter_conversation_that_was_opened_in_the_tree_is_shown(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("short"), LONG])) as seat:
        await follow(seat, "first", "short")
        first = seat.talk.session or ""
        await seat.type("/new")
        await seat.until(lambda: not seat.app.main.whose)
        await follow(seat, "first", "short")
        await follow(seat, "many", "line 39")
        await seat.press("ctrl+t")
        await seat.assert_sees("Enter open")
        await seat.type(f"/resume {first}")
        await seat.until(lambda: seat.app.main.transcript.task == first, "the first conversation")
        await seat.press("tab", "up", "down", "ctrl+t")
        await seat.assert_sees("short")
        assert "line 39" not in seat.screen


async def test_a_question_stays_in_sight_when_another_conversation_is_shown_below_it(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok"), says("", WRITE), says("written")])) as seat:
        await follow(seat, "first", "ok")
        await seat.app.push_screen(AgentScreen(seat.app, seat.app.main.whose))
        seat.app.do(seat.talk.say("write"))
        await seat.assert_sees("main wants to use Write")
        await seat.app.show_session()
        assert isinstance(seat.app.screen, AskScreen)
        seat.app.screen.give(Answer(True))
        await seat.until(lambda: seat.app.screen is seat.app.main, "the conversation")
        await seat.rests()
    assert (tmp_path / "new.txt").read_text() == "new"
