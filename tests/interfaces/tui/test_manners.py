"""Manners: any size, no mouse, history, completion, paste, hostile text, a clean way out."""

from pathlib import Path

import pytest
from textual import events
from textual.geometry import Size

from gencode.core.errors import UserMistake
from gencode.interfaces.chat.prompt_history import PromptHistory
from gencode.interfaces.tui.dialogs import ConfirmScreen
from gencode.stores.memory import MemoryStore
from gencode.testing import call, says
from tests.interfaces.tui.driving import screen_text, seated, turns

HOSTILE = "\x1b]0;owned\x07 \x1b[2J\u202e [bold red]markup[/] [@click=app.quit]go[/] <b>"


@pytest.mark.parametrize("size", [(80, 24), (200, 60), (40, 10)])
async def test_everything_fits_small_and_large_screens(tmp_path: Path, size: tuple[int, int]) -> None:
    sent = [call("Task", subagent_type="Explore", prompt="look", description=name) for name in "abcdef"]
    script = {"main": [says("I send six.", *sent), says("Done **well**.")], "Explore": [says("found")]}
    async with seated(tmp_path, size=size, script=script) as setup:
        await setup.type("go")
        await setup.rests()
        await setup.assert_sees("Done well.")
        lines = setup.screen.splitlines()
        assert max(len(line) for line in lines) <= size[0]
        assert len(lines) <= size[1]


async def test_lines_break_anew_when_the_screen_changes(tmp_path: Path) -> None:
    words = " ".join(f"word{number}" for number in range(40))
    async with seated(tmp_path, size=(120, 30), script=turns(main=[says(words)])) as setup:
        await setup.type("go")
        await setup.rests()
        wide = sum("word" in line for line in setup.screen.splitlines())
        await setup.pilot.resize_terminal(50, 30)
        await setup.until(lambda: sum("word" in line for line in setup.screen.splitlines()) > wide)
        assert setup.app.size == Size(50, 30)


async def test_nothing_an_agent_says_acts(tmp_path: Path) -> None:
    sent = call("Task", subagent_type="Explore", prompt=HOSTILE, description=HOSTILE)
    script = {"main": [says(HOSTILE, sent), says("end")], "Explore": [says(HOSTILE)]}
    async with seated(tmp_path, script=script) as setup:
        await setup.type("go")
        await setup.rests()
        await setup.press("ctrl+t", "down", "enter")
        await setup.assert_sees("main › Explore")
        agent = setup.screen
        await setup.press("escape", "escape")
        await setup.assert_sees("end")
        for shown in (agent, setup.screen):
            assert "\x1b" not in shown and "\x07" not in shown and "\u202e" not in shown
            assert "\\x1b]0;owned\\x07" in shown
        assert "[bold red]markup[/]" in setup.screen


async def test_up_brings_earlier_prompts_also_of_other_sessions(tmp_path: Path) -> None:
    history = tmp_path / "history.jsonl"
    async with seated(
        tmp_path, also={"history": PromptHistory(history)}, script=turns(main=[says("ok")])
    ) as setup:
        await setup.type("first question")
        await setup.rests()
    async with seated(
        tmp_path, also={"history": PromptHistory(history)}, script=turns(main=[says("ok")])
    ) as setup:
        await setup.press("up")
        assert setup.app.top_transcript.composer.text == "first question"
        await setup.press("down")
        assert setup.app.main.composer.text == ""


async def test_files_and_commands_are_completed(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "parser.py").touch()
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        composer = setup.app.top_transcript.composer
        await setup.until(lambda: setup.app.completions("@par"), "the files")
        await setup.press(*"see @par")
        await setup.until(lambda: composer.completing)
        await setup.press("tab")
        assert composer.text == "see @src/parser.py "
        composer.set_text("")
        await setup.press(*"/expo")
        await setup.assert_sees("/export [FILE]")
        await setup.press("enter")
        assert composer.text == "/export "


async def test_a_command_with_its_words_is_sent_as_it_was_typed(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        await setup.press(*"/mode", "enter")
        await setup.assert_sees("Permission mode of all agents")
        await setup.press("escape")
        await setup.press(*"/mode", "space", *"pl", "enter")
        await setup.assert_sees("There is no permission mode 'pl'")
        await setup.press(*"/mode", "space", *"pl", "tab", "enter")
        await setup.until(lambda: setup.app.mode.value == "plan", "the mode")


async def test_the_other_name_of_a_command_is_sent_with_one_enter(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        await setup.type("go")
        await setup.rests()
        await setup.press(*"/clear", "enter")
        await setup.until(lambda: setup.chat.session is None, "the new conversation")
        assert setup.app.main.composer.text == ""


async def test_a_long_page_that_is_to_be_confirmed_can_be_read_to_its_end(tmp_path: Path) -> None:
    text = "\n".join(f"line {number}" for number in range(80))
    async with seated(tmp_path, size=(80, 24), script=turns(main=[says("ok")])) as setup:
        setup.app.push_screen(ConfirmScreen(text))
        await setup.assert_sees("line 3")
        await setup.press(*["pagedown"] * 10)
        await setup.assert_sees("line 79")


async def test_a_long_paste_is_one_line_until_it_is_sent(tmp_path: Path) -> None:
    pasted = "word \x1b[31m\x9b2J\r\n" * 80_000
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        composer = setup.app.top_transcript.composer
        composer.editor.insert("look at ")
        composer.editor.post_message(events.Paste(pasted))
        await setup.assert_sees("look at [pasted text 1: 80,001 lines, 960,000 characters]")
        await setup.press("enter")
        await setup.rests()
        await setup.assert_sees("more characters (sent in full)")
        task = await setup.chat.gen.find(setup.chat.session or "")
        assert task.created.prompt == "look at " + ("word [31m2J\n" * 80_000).rstrip()


async def test_pasted_text_keeps_its_lines_and_sends_nothing(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        composer = setup.app.top_transcript.composer
        composer.editor.post_message(events.Paste("one\r\ntwo\rthree\n"))
        await setup.until(lambda: composer.text)
        assert composer.text == "one\ntwo\nthree\n"
        assert setup.chat.session is None
        await setup.press("ctrl+j", "x", "enter")
        await setup.rests()
        assert composer.text == ""


async def test_an_earlier_conversation_is_opened_with_what_ended_meanwhile(tmp_path: Path) -> None:
    store = MemoryStore()
    sent = call("Task", subagent_type="Explore", prompt="look", description="slow", run_in_background=True)
    script = {
        "main": [says("", sent), says("it runs"), says("told")],
        "Explore": [says("x", delay_ms=60_000)],
    }
    async with seated(tmp_path, store=store, script=script) as setup:
        await setup.type("an old question")
        await setup.assert_sees("it runs")
        session = setup.chat.session or ""
    async with seated(tmp_path, store=store, begin=lambda chat: chat.open(session), script=script) as setup:
        await setup.assert_sees("› an old question")
        await setup.assert_sees("While this conversation was closed: Explore")
        await setup.type("/new")
        await setup.until(lambda: "an old question" not in setup.screen)
        await setup.type("/sessions")
        await setup.assert_sees("Conversations of this folder")
        await setup.press("enter")
        await setup.assert_sees("› an old question")


async def test_leaving_names_what_still_runs(tmp_path: Path) -> None:
    sent = call("Task", subagent_type="Explore", prompt="look", description="slow")
    script = {"main": [says("", sent), says("ok")], "Explore": [says("x", delay_ms=60_000)]}
    async with seated(tmp_path, script=script) as setup:
        await setup.type("go")
        await setup.until(lambda: len(setup.chat.foreground_agents()) == 1)
        await setup.type("/quit")
        await setup.until(lambda: isinstance(setup.app.screen, ConfirmScreen))
        assert "Still running:" in setup.screen and "(Explore)" in setup.screen
        await setup.press("y")
        await setup.until(lambda: not setup.app.is_running, "the end")


async def test_control_c_clears_then_asks_then_leaves(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        await setup.press(*"abc")
        await setup.press("ctrl+c")
        assert setup.app.main.composer.text == ""
        await setup.press("ctrl+c")
        await setup.assert_sees("Press Ctrl+C again to quit.")
        await setup.press("ctrl+c")
        await setup.until(lambda: not setup.app.is_running, "the end")


async def test_colours_can_be_light_and_can_be_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with seated(tmp_path, script=turns(main=[says("**plain** words")])) as setup:
        await setup.type("/theme light")
        await setup.until(lambda: setup.app.theme == "gencode-light")
        await setup.type("go")
        await setup.rests()
        assert "plain words" in screen_text(setup.app)
        assert setup.app.no_color


async def test_what_ends_gencode_ends_the_app_and_is_raised_outside(tmp_path: Path) -> None:
    async def broken(_: object) -> None:
        raise UserMistake("There is no such session.")

    with pytest.raises(UserMistake, match="no such session"):
        async with seated(tmp_path, begin=broken, script=turns(main=[says("ok")])) as setup:
            await setup.until(lambda: not setup.app.is_running, "the end")


async def test_a_long_transcript_is_read_back_from_the_journal(tmp_path: Path) -> None:
    words = "\n\n".join(f"paragraph {number}" for number in range(200))
    async with seated(tmp_path, script=turns(main=[says(words)])) as setup:
        await setup.type("go")
        await setup.rests()
        assert "paragraph 199" in setup.screen
        for _ in range(40):
            await setup.press("pageup")
        await setup.assert_sees("› go")


async def test_control_c_leaves_although_something_still_runs(tmp_path: Path) -> None:
    sent = call("Task", subagent_type="Explore", prompt="look", description="slow")
    script = {"main": [says("", sent), says("ok")], "Explore": [says("x", delay_ms=60_000)]}
    async with seated(tmp_path, script=script) as setup:
        await setup.type("go")
        await setup.until(lambda: len(setup.chat.foreground_agents()) == 1)
        await setup.type("/background")
        await setup.until(lambda: not setup.chat.working, "the end of the turn")
        await setup.press("ctrl+c")
        await setup.assert_sees("Press Ctrl+C again to quit.")
        await setup.press("ctrl+c")
        await setup.assert_sees("Ctrl+C or y stops them and quits")
        await setup.press("ctrl+d", "escape")
        assert setup.app.screen is setup.app.main
        await setup.type("/quit")
        await setup.assert_sees("Ctrl+C or y stops them and quits")
        await setup.press("ctrl+c")
        await setup.until(lambda: not setup.app.is_running, "the end")


async def test_the_model_that_was_chosen_is_in_the_header_of_a_new_conversation(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        await setup.type("/model offline")
        await setup.assert_sees("offline-search")
        await setup.type("/new")
        await setup.assert_sees("offline-search")
        await setup.type("/agents Explore")
        await setup.assert_sees("gen agents show Explore")
        assert "offline-search" in setup.screen.partition("gen agents show Explore")[2]


async def test_a_command_that_is_like_no_other_offers_none(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        await setup.type("/bogus")
        await setup.assert_sees("Unknown command /bogus. See /help.")
