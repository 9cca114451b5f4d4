"""Manners: any size, no mouse, history, completion, paste, hostile text, a clean way out."""

from pathlib import Path

import pytest
from textual import events
from textual.geometry import Size

from gencode.core.errors import UserMistake
from gencode.interfaces.chat.prompt_history import History
from gencode.interfaces.tui.dialogs import ConfirmScreen
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says
from tests.interfaces.tui.driving import screen_text, seated, turns

HOSTILE = "\x1b]0;owned\x07 \x1b[2J\u202e [bold red]markup[/] [@click=app.quit]go[/] <b>"


@pytest.mark.parametrize("size", [(80, 24), (200, 60), (40, 10)])
async def test_everything_fits_small_and_large_screens(tmp_path: Path, size: tuple[int, int]) -> None:
    sent = [call("Task", subagent_type="Explore", prompt="look", description=name) for name in "abcdef"]
    script = {"main": [says("I send six.", *sent), says("Done **well**.")], "Explore": [says("found")]}
    async with seated(tmp_path, size=size, script=script) as seat:
        await seat.type("go")
        await seat.rests()
        await seat.assert_sees("Done well.")
        lines = seat.screen.splitlines()
        assert max(len(line) for line in lines) <= size[0]
        assert len(lines) <= size[1]


async def test_lines_break_anew_when_the_screen_changes(tmp_path: Path) -> None:
    words = " ".join(f"word{number}" for number in range(40))
    async with seated(tmp_path, size=(120, 30), script=turns(main=[says(words)])) as seat:
        await seat.type("go")
        await seat.rests()
        wide = sum("word" in line for line in seat.screen.splitlines())
        await seat.pilot.resize_terminal(50, 30)
        await seat.until(lambda: sum("word" in line for line in seat.screen.splitlines()) > wide)
        assert seat.app.size == Size(50, 30)


async def test_nothing_an_agent_says_acts(tmp_path: Path) -> None:
    sent = call("Task", subagent_type="Explore", prompt=HOSTILE, description=HOSTILE)
    script = {"main": [says(HOSTILE, sent), says("end")], "Explore": [says(HOSTILE)]}
    async with seated(tmp_path, script=script) as seat:
        await seat.type("go")
        await seat.rests()
        await seat.press("ctrl+t", "down", "enter")
        await seat.assert_sees("main › Explore")
        agent = seat.screen
        await seat.press("escape", "escape")
        await seat.assert_sees("end")
        for shown in (agent, seat.screen):
            assert "\x1b" not in shown and "\x07" not in shown and "\u202e" not in shown
            assert "\\x1b]0;owned\\x07" in shown
        assert "[bold red]markup[/]" in seat.screen


async def test_up_brings_earlier_prompts_also_of_other_sessions(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    async with seated(tmp_path, also={"history": History(history)}, script=turns(main=[says("ok")])) as seat:
        await seat.type("first question")
        await seat.rests()
    async with seated(tmp_path, also={"history": History(history)}, script=turns(main=[says("ok")])) as seat:
        await seat.press("up")
        assert seat.app.top.composer.text == "first question"
        await seat.press("down")
        assert seat.app.top.composer.text == ""


async def test_files_and_commands_are_completed(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "parser.py").touch()
    async with seated(tmp_path, script=turns(main=[says("ok")])) as seat:
        composer = seat.app.top.composer
        await seat.until(lambda: seat.app.offers("@par"), "the files")
        await seat.press(*"see @par")
        await seat.until(lambda: composer.completing)
        await seat.press("tab")
        assert composer.text == "see @src/parser.py "
        composer.put("")
        await seat.press(*"/expo")
        await seat.assert_sees("/export [FILE]")
        await seat.press("enter")
        assert composer.text == "/export "


async def test_a_command_with_its_words_is_sent_as_it_was_typed(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as seat:
        await seat.press(*"/mode", "enter")
        await seat.assert_sees("Permission modes")
        await seat.press("escape")
        await seat.press(*"/mode", "space", *"pl", "enter")
        await seat.assert_sees("There is no permission mode 'pl'")
        await seat.press(*"/mode", "space", *"pl", "tab", "enter")
        await seat.until(lambda: seat.app.mode.value == "plan", "the mode")


async def test_a_long_page_that_is_to_be_confirmed_can_be_read_to_its_end(tmp_path: Path) -> None:
    text = "\n".join(f"line {number}" for number in range(80))
    async with seated(tmp_path, size=(80, 24), script=turns(main=[says("ok")])) as seat:
        seat.app.push_screen(ConfirmScreen(text))
        await seat.assert_sees("line 3")
        await seat.press(*["pagedown"] * 10)
        await seat.assert_sees("line 79")


async def test_a_long_paste_is_one_line_until_it_is_sent(tmp_path: Path) -> None:
    pasted = "word \x1b[31m\x9b2J\r\n" * 80_000
    async with seated(tmp_path, script=turns(main=[says("ok")])) as seat:
        composer = seat.app.top.composer
        composer.editor.insert("look at ")
        composer.editor.post_message(events.Paste(pasted))
        await seat.assert_sees("look at [pasted text 1: 80,001 lines, 960,000 characters]")
        await seat.press("enter")
        await seat.rests()
        await seat.assert_sees("more characters, which were heard as well")
        task = await seat.talk.gen.find(seat.talk.session or "")
        assert task.created.prompt == "look at " + ("word [31m2J\n" * 80_000).rstrip()


async def test_pasted_text_keeps_its_lines_and_sends_nothing(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as seat:
        composer = seat.app.top.composer
        composer.editor.post_message(events.Paste("one\r\ntwo\rthree\n"))
        await seat.until(lambda: composer.text)
        assert composer.text == "one\ntwo\nthree\n"
        assert seat.talk.session is None
        await seat.press("ctrl+j", "x", "enter")
        await seat.rests()
        assert composer.text == ""


async def test_an_earlier_conversation_is_opened_with_what_ended_meanwhile(tmp_path: Path) -> None:
    store = MemoryStore()
    sent = call("Task", subagent_type="Explore", prompt="look", description="slow", run_in_background=True)
    script = {
        "main": [says("", sent), says("it runs"), says("told")],
        "Explore": [says("x", delay_ms=60_000)],
    }
    async with seated(tmp_path, store=store, script=script) as seat:
        await seat.type("an old question")
        await seat.assert_sees("it runs")
        session = seat.talk.session or ""
    async with seated(tmp_path, store=store, begin=lambda talk: talk.open(session), script=script) as seat:
        await seat.assert_sees("› an old question")
        await seat.assert_sees("While this conversation was closed: Explore")
        await seat.type("/new")
        await seat.until(lambda: "an old question" not in seat.screen)
        await seat.type("/sessions")
        await seat.assert_sees("Conversations of this folder")
        await seat.press("enter")
        await seat.assert_sees("› an old question")


async def test_leaving_names_what_still_runs(tmp_path: Path) -> None:
    sent = call("Task", subagent_type="Explore", prompt="look", description="slow")
    script = {"main": [says("", sent), says("ok")], "Explore": [says("x", delay_ms=60_000)]}
    async with seated(tmp_path, script=script) as seat:
        await seat.type("go")
        await seat.until(lambda: len(seat.talk.foreground()) == 1)
        await seat.type("/quit")
        await seat.until(lambda: isinstance(seat.app.screen, ConfirmScreen))
        assert "Still running here:" in seat.screen and "(Explore)" in seat.screen
        await seat.press("y")
        await seat.until(lambda: not seat.app.is_running, "the end")


async def test_control_c_clears_then_asks_then_leaves(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as seat:
        await seat.press(*"abc")
        await seat.press("ctrl+c")
        assert seat.app.top.composer.text == ""
        await seat.press("ctrl+c")
        await seat.assert_sees("Press Ctrl+C again to quit.")
        await seat.press("ctrl+c")
        await seat.until(lambda: not seat.app.is_running, "the end")


async def test_colours_can_be_light_and_can_be_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with seated(tmp_path, script=turns(main=[says("**plain** words")])) as seat:
        await seat.type("/theme light")
        await seat.until(lambda: seat.app.theme == "textual-light")
        await seat.type("go")
        await seat.rests()
        assert "plain words" in screen_text(seat.app)
        assert seat.app.no_color


async def test_what_ends_gencode_ends_the_app_and_is_raised_outside(tmp_path: Path) -> None:
    async def broken(_: object) -> None:
        raise UserMistake("There is no such session.")

    with pytest.raises(UserMistake, match="no such session"):
        async with seated(tmp_path, begin=broken, script=turns(main=[says("ok")])) as seat:
            await seat.until(lambda: not seat.app.is_running, "the end")


async def test_a_long_transcript_is_read_back_from_the_journal(tmp_path: Path) -> None:
    words = "\n\n".join(f"paragraph {number}" for number in range(200))
    async with seated(tmp_path, script=turns(main=[says(words)])) as seat:
        await seat.type("go")
        await seat.rests()
        assert "paragraph 199" in seat.screen
        for _ in range(40):
            await seat.press("pageup")
        await seat.assert_sees("› go")


async def test_control_c_leaves_although_something_still_runs(tmp_path: Path) -> None:
    sent = call("Task", subagent_type="Explore", prompt="look", description="slow")
    script = {"main": [says("", sent), says("ok")], "Explore": [says("x", delay_ms=60_000)]}
    async with seated(tmp_path, script=script) as seat:
        await seat.type("go")
        await seat.until(lambda: len(seat.talk.foreground()) == 1)
        await seat.type("/background")
        await seat.until(lambda: not seat.talk.working, "the end of the turn")
        await seat.press("ctrl+c")
        await seat.assert_sees("Press Ctrl+C again to quit.")
        await seat.press("ctrl+c")
        await seat.assert_sees("Ctrl+C or y stops them and quits")
        await seat.press("ctrl+d", "escape")
        assert seat.app.screen is seat.app.main
        await seat.type("/quit")
        await seat.assert_sees("Ctrl+C or y stops them and quits")
        await seat.press("ctrl+c")
        await seat.until(lambda: not seat.app.is_running, "the end")


async def test_the_model_that_was_chosen_is_in_the_header_of_a_new_conversation(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as seat:
        await seat.type("/model offline")
        await seat.assert_sees("· offline-search")
        await seat.type("/new")
        await seat.assert_sees("· offline-search")
        await seat.type("/agents Explore")
        await seat.assert_sees("gen agents show Explore")
        assert "offline-search" in seat.screen.partition("gen agents show Explore")[2]


async def test_a_command_that_is_like_no_other_offers_none(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as seat:
        await seat.type("/bogus")
        await seat.assert_sees("There is no command /bogus. See /help.")
