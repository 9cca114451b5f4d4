"""Another conversation while something else is in sight: nothing of the first is looked for any more."""

from pathlib import Path

from gencode.core.questions import Answer
from gencode.interfaces.tui.question_dialogs import ApprovalScreen
from gencode.interfaces.tui.screens import AgentScreen
from gencode.testing import call, says
from tests.interfaces.tui.driving import Seat, seated, turns

LONG = says("\n\n".join(f"line {number}" for number in range(40)))
WRITE = call("Write", file_path="new.txt", content="new")


async def follow(setup: Seat, prompt: str, last: str) -> None:
    await setup.type(prompt)
    await setup.rests()
    await setup.assert_sees(last)


async def test_a_new_conversation_that_was_begun_in_the_tree_is_empty(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[LONG])) as setup:
        await follow(setup, "many", "line 39")
        await setup.press("ctrl+t")
        await setup.assert_sees("Enter opens")
        await setup.press(*"/new", "enter")
        await setup.until(lambda: not setup.app.main.task_id, "the new conversation")
        await setup.assert_sees("Ask about this folder")
        assert "line 39" not in setup.screen


async def test_a_shorter_conversation_that_was_opened_in_the_tree_is_shown(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("short"), LONG])) as setup:
        await follow(setup, "first", "short")
        first = setup.chat.session or ""
        await setup.type("/new")
        await setup.until(lambda: not setup.app.main.task_id)
        await follow(setup, "first", "short")
        await follow(setup, "many", "line 39")
        await setup.press("ctrl+t")
        await setup.assert_sees("Enter opens")
        await setup.type(f"/resume {first}")
        await setup.until(lambda: setup.app.main.transcript.task == first, "the first conversation")
        await setup.press("tab", "up", "down", "ctrl+t")
        await setup.assert_sees("short")
        assert "line 39" not in setup.screen


async def test_a_question_stays_in_sight_when_another_conversation_is_shown_below_it(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok"), says("", WRITE), says("written")])) as setup:
        await follow(setup, "first", "ok")
        await setup.app.push_screen(AgentScreen(setup.app, setup.app.main.task_id))
        setup.app.start_action(setup.chat.send("write"))
        await setup.assert_sees("main needs approval to use Write")
        await setup.app.show_session()
        assert isinstance(setup.app.screen, ApprovalScreen)
        setup.app.screen.answer_with(Answer(True))
        await setup.until(lambda: setup.app.screen is setup.app.main, "the conversation")
        await setup.rests()
    assert (tmp_path / "new.txt").read_text() == "new"
