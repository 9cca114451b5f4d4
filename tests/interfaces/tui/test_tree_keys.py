"""Keys in the tree, in one burst: each counts for what those before it made; nobody is asked in vain."""

from pathlib import Path

from gencode.interfaces.tui.screens import AgentScreen
from gencode.testing import call, says
from tests.interfaces.tui.driving import Seat, seated, turns

SENT = says("", call("Task", subagent_type="Explore", prompt="look", description="alpha"))


async def looking_at_the_tree(setup: Seat) -> None:
    await setup.type("go")
    await setup.rests()
    await setup.press("ctrl+t")
    await setup.assert_sees("Enter opens")


async def test_a_command_with_its_enter_in_one_burst_is_done_and_the_empty_tree_is_put_away(
    tmp_path: Path,
) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        await looking_at_the_tree(setup)
        await setup.burst(*"/new", "enter")
        await setup.until(lambda: not setup.app.main.task_id, "the new conversation")
        await setup.assert_sees("Ask about this folder")
        assert setup.app.main.composer.text == ""
        assert setup.app.main.composer.editor.has_focus


async def test_a_tree_without_agents_says_so(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        await setup.press("ctrl+t")
        await setup.assert_sees("No agents yet.")
        await setup.burst(*"/help", "enter")
        await setup.assert_sees("/stop-tree [ID]")


async def test_a_sentence_with_its_enter_in_one_burst_is_sent_from_the_transcript(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok"), says("heard")])) as setup:
        await setup.type("go")
        await setup.rests()
        await setup.press("tab")
        await setup.assert_sees("Transcript · Up and Down")
        await setup.burst(*"more", "enter")
        await setup.assert_sees("heard")
        await setup.assert_sees("› more")


async def test_what_enter_means_goes_by_what_is_typed_not_by_what_was_offered_before(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        await setup.type("go")
        await setup.rests()
        await setup.press("/")
        await setup.until(lambda: setup.app.main.composer.completing, "the commands")
        await setup.burst(*"new", "enter")
        await setup.until(lambda: not setup.app.main.task_id, "the new conversation")
        await setup.press("/", "backspace")
        assert not setup.app.main.composer.completing


async def test_an_agent_that_has_ended_is_opened_as_nothing_else_can_be_done(tmp_path: Path) -> None:
    script = turns(main=[SENT, says("ok")], explore=[says("found")])
    async with seated(tmp_path, script=script) as setup:
        await looking_at_the_tree(setup)
        (task,) = setup.chat.view.launched(setup.chat.session or "")
        await setup.press("down", "right")
        await setup.until(lambda: isinstance(setup.app.screen, AgentScreen), "its transcript")
        assert setup.app.top_transcript.task_id == task
        await setup.assert_sees("Finished · Enter resumes it in the background")
        assert "/stop" not in setup.screen


async def test_a_sentence_typed_in_the_tree_does_nothing_to_its_agents_and_is_sent(tmp_path: Path) -> None:
    script = turns(main=[SENT, says("heard")], explore=[says("found", delay_ms=600_000)])
    async with seated(tmp_path, script=script) as setup:
        await setup.type("go")
        await setup.until(setup.chat.foreground_agents)
        await setup.press("ctrl+t", "down")
        await setup.burst(*"explain", " ", *"this", "enter")
        await setup.until(lambda: list(setup.chat.queued.values()) == ["explain this"], "the message")
        assert setup.app.screen is setup.app.main
        await setup.press("escape")
        await setup.until(lambda: not setup.app.main.agent_tree.display, "the end of the tree")
        assert len(setup.chat.foreground_agents()) == 1
