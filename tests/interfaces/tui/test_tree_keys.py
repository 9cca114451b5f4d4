"""Keys in the tree, in one burst: each counts for what those before it made; nobody is asked in vain."""

from pathlib import Path

import pytest

from gencode.testing import call, says
from tests.interfaces.tui.driving import Seat, seated, turns

SENT = says("", call("Task", subagent_type="Explore", prompt="look", description="alpha"))


async def looking_at_the_tree(seat: Seat) -> None:
    await seat.type("go")
    await seat.rests()
    await seat.press("ctrl+t")
    await seat.assert_sees("Enter open")


async def test_a_command_with_its_enter_in_one_burst_is_done_and_the_empty_tree_is_put_away(
    tmp_path: Path,
) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as seat:
        await looking_at_the_tree(seat)
        await seat.burst(*"/new", "enter")
        await seat.until(lambda: not seat.app.main.whose, "the new conversation")
        await seat.assert_sees("Ask about this folder")
        assert seat.app.main.composer.text == ""
        assert seat.app.main.composer.editor.has_focus


async def test_a_tree_without_agents_says_so(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as seat:
        await seat.press("ctrl+t")
        await seat.assert_sees("Nothing was asked yet, so there is no agent.")
        await seat.press("x")
        await seat.burst(*"/help", "enter")
        await seat.assert_sees("/stop-tree [ID]")


async def test_a_sentence_with_its_enter_in_one_burst_is_sent_from_the_transcript(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok"), says("heard")])) as seat:
        await seat.type("go")
        await seat.rests()
        await seat.press("tab")
        await seat.assert_sees("[transcript] Up, Down")
        await seat.burst(*"more", "enter")
        await seat.assert_sees("heard")
        await seat.assert_sees("› more")


async def test_what_enter_means_goes_by_what_is_typed_not_by_what_was_offered_before(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as seat:
        await seat.type("go")
        await seat.rests()
        await seat.press("/")
        await seat.until(lambda: seat.app.main.composer.completing, "the commands")
        await seat.burst(*"new", "enter")
        await seat.until(lambda: not seat.app.main.whose, "the new conversation")
        await seat.press("/", "backspace")
        assert not seat.app.main.composer.completing


@pytest.mark.parametrize(("key", "name"), [("i", "Interrupt"), ("k", "Stop and keep"), ("x", "Abort")])
async def test_a_verb_at_an_agent_that_has_ended_asks_nothing(tmp_path: Path, key: str, name: str) -> None:
    script = turns(main=[SENT, says("ok")], explore=[says("found")])
    async with seated(tmp_path, script=script) as seat:
        await looking_at_the_tree(seat)
        (task,) = seat.talk.view.launched(seat.talk.session or "")
        await seat.burst("down", key)
        await seat.assert_sees(f"{name} would hit nothing: {task} has ended already.")
        assert seat.app.screen is seat.app.main
