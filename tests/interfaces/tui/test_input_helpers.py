"""What helps with the input: the history, an editor, shell commands, dropped and copied pictures."""

import os
from pathlib import Path

import pytest
from textual import events

from gencode.core.events import MessageAdded
from gencode.core.messages import UserMessage
from gencode.testing import says
from tests.interfaces.cli.running import script
from tests.interfaces.tui.driving import Seat, seated, turns
from tests.interfaces.tui.tmux_terminal import tmux
from tests.pictures import png
from tests.waiting import wait_until


async def said(setup: Seat) -> list[UserMessage]:
    """What the user has said in the conversation."""
    added = [each.fact for each in (await setup.chat.gen.journal(setup.chat.session or "")).events]
    messages = [each.message for each in added if isinstance(each, MessageAdded)]
    return [each for each in messages if isinstance(each, UserMessage) and each.sender == "user"]


async def test_an_earlier_prompt_is_found_and_comes_back_into_the_input(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")] * 3)) as setup:
        for prompt in ("where is the parser", "why is it slow"):
            await setup.type(prompt)
            await setup.rests()
        await setup.press("ctrl+r")
        await setup.assert_sees("Earlier prompts")
        await setup.press(*"parser", "enter")
        await setup.until(lambda: setup.app.main.composer.text == "where is the parser", "the prompt")


async def test_a_command_of_the_person_runs_in_the_folder_and_is_read_with_the_next_message(
    tmp_path: Path,
) -> None:
    async with seated(tmp_path, script=turns(main=[says("seen"), says("seen again")])) as setup:
        await setup.type("!pwd; echo made > made.txt; exit 3")
        await setup.assert_sees("exit code 3")
        await setup.assert_sees(str(tmp_path)[-40:])
        assert setup.chat.session is None and (tmp_path / "made.txt").read_text() == "made\n"
        await setup.type("what was that?")
        await setup.rests()
        (first,) = await said(setup)
        assert first.text.startswith("what was that?\n\n") and f"\n> {tmp_path}\n" in f"{first.text}\n"
        await setup.type("!echo second")
        await setup.until(lambda: setup.chat.queued, "the output")
        await setup.type("and that?")
        await setup.assert_sees("seen again")
        later = [each.text for each in (await said(setup))[1:]]
        assert [each.rpartition("\n")[2] for each in later] == ["> second", "and that?"]


async def test_escape_stops_a_command_of_the_person(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        await setup.type("!sleep 600")
        await setup.assert_sees("Running: sleep 600")
        await setup.press("escape")
        await setup.assert_sees("Stopped: sleep 600")
        assert setup.chat.queued == {}


async def test_a_dropped_picture_is_attached_and_stays_in_the_input_when_it_cannot_be_sent(
    tmp_path: Path,
) -> None:
    picture = tmp_path / "my shot.png"
    picture.write_bytes(png(2, 2))
    (tmp_path / "broken.png").write_bytes(png(2, 2)[:20])
    async with seated(tmp_path, script=turns(main=[says("seen"), says("slow", delay_ms=60_000)])) as setup:
        setup.app.post_message(events.Paste(f"'{picture}'"))
        await setup.assert_sees("[image 1: my shot.png]")
        await setup.press("enter")
        await setup.rests()
        (first,) = await said(setup)
        assert (first.text, len(first.images)) == ("[image 1: my shot.png]", 1)
        await setup.type("go on")
        await setup.until(lambda: setup.chat.working)
        setup.app.post_message(events.Paste(f"file://{str(picture).replace(' ', '%20')}"))
        await setup.assert_sees("│ [image 1: my shot.png]")
        await setup.press("enter")
        await setup.assert_sees("Nothing was sent.")
        assert setup.app.main.composer.text == "[image 1: my shot.png]"
        setup.app.post_message(events.Paste(str(tmp_path / "broken.png")))
        await setup.assert_sees("broken.png was not attached")


@pytest.mark.needs("tmux")
def test_the_editor_writes_the_prompt_and_a_copied_picture_is_attached(tmp_path: Path) -> None:
    for name, body in {
        "edit": f"touch {tmp_path}/editing\nwhile [ ! -e {tmp_path}/go ]; do sleep 0.05; done\n"
        'printf "from the editor: %s" "$(cat "$1")" > "$1"\n',
        "wl-paste": f"cat {tmp_path}/copied.png\n",
    }.items():
        program = tmp_path / "programs" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text(f"#!/bin/sh\n{body}")
        program.chmod(0o755)
    (tmp_path / "copied.png").write_bytes(png(2, 2))
    path = f"{tmp_path}/programs:{os.environ['PATH']}"
    words = ("--model", script(tmp_path, main=[{"text": "It was found."}]))
    with tmux(tmp_path, *words, env=f"PATH={path} EDITOR=edit WAYLAND_DISPLAY=here DISPLAY=") as terminal:
        terminal.assert_sees("Ask something, or type /help")
        terminal.press("a", "C-g")
        wait_until((tmp_path / "editing").exists, "the editor")
        assert "Ask something" not in terminal.screen
        (tmp_path / "go").touch()
        terminal.assert_sees("from the editor: a", "Ask something")
        terminal.press("C-v")
        terminal.assert_sees("from the editor: a[image 1: clipboard]")


async def test_escape_pressed_twice_brings_an_earlier_prompt_back_to_be_edited(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("first answer"), says("second answer")])) as setup:
        for prompt in ("where is the parser", "why is it slow"):
            await setup.type(prompt)
            await setup.rests()
        await setup.press("escape", "escape")
        await setup.assert_sees("Rewind to before which prompt?")
        await setup.press(*"slow", "enter")
        await setup.assert_sees("Conversation only")
        await setup.press("enter")
        await setup.until(lambda: setup.app.main.composer.text == "why is it slow", "the prompt")
        await setup.until(lambda: "second answer" not in setup.screen, "the conversation before it")
        assert "first answer" in setup.screen
