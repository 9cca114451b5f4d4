"""Keys that arrive together take effect in the order in which they were pressed."""

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from textual import events

from gencode.core.messages import ToolCall
from gencode.core.questions import Answer, Inquiry, Option, Question
from gencode.core.rules import Action, Decision
from gencode.interfaces.tui import keyboard, question_dialogs
from gencode.interfaces.tui.dialogs import PickScreen
from gencode.interfaces.tui.question_dialogs import InquiryScreen
from gencode.testing import says
from tests.interfaces.cli.running import SECONDS, gen, script
from tests.interfaces.tui.driving import Seat, seated, turns
from tests.interfaces.tui.pseudo_terminal import on_a_pty, read
from tests.waiting import until

NOT_TEXT = {"left", "right", "home", "end", "backspace", "ctrl+j"}
EDITS = st.lists(st.sampled_from(("a", "b", *sorted(NOT_TEXT))), max_size=20)


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyboard, "QUIET_SECONDS", 0.0)
    monkeypatch.setattr(question_dialogs, "DOUBLE_ENTER_SECONDS", 0.0)


def post(setup: Seat, *keys: str) -> None:
    """Hand over keys as a terminal does that sends them in one piece."""
    for key in keys:
        text = " " if key == "space" else key if len(key) == 1 else None
        setup.app.post_message(events.Key(key, text))


def edited(keys: Sequence[str]) -> str:
    """What an editor of one line holds after these keys."""
    text, at = "", 0
    for key in keys:
        match key:
            case "left":
                at = max(at - 1, 0)
            case "right":
                at = min(at + 1, len(text))
            case "home":
                at = text.rfind("\n", 0, at) + 1
            case "end":
                at = end if (end := text.find("\n", at)) >= 0 else len(text)
            case "backspace":
                text, at = text[: max(at - 1, 0)] + text[at:], max(at - 1, 0)
            case _:
                put = "\n" if key == "ctrl+j" else key
                text, at = text[:at] + put + text[at:], at + 1
    return text


async def ask_for_several(setup: Seat, *options: str) -> "asyncio.Task[Answer]":
    """Ask a question and wait until it takes keys."""
    inquiry = Inquiry("Which parts?", options=tuple(Option(each) for each in options), many=True)
    call = ToolCall("c", "AskUserQuestion", {})
    question = Question("t", "main", call, Decision(Action.ASK, ""), inquiries=(inquiry,))
    asked = asyncio.create_task(setup.app.desk.ask(question))
    await setup.until(lambda: isinstance(setup.app.screen, InquiryScreen) and setup.app.screen.in_sight)
    return asked


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (
            ["o", "n", "e", "ctrl+j", "t", "w", "o", "ctrl+j", "ctrl+j", "x"],
            "one\ntwo\n\nx",
        ),
        ([*"abc", "backspace", "backspace", "X"], "aX"),
        ([*"abc", "left", "left", "X"], "aXbc"),
        ([*"abc", "home", "X", "end", "Y"], "XabcY"),
        ([*"ab cd", "ctrl+w", "X"], "ab X"),
        ([*"abc", "left", "ctrl+d", "X"], "abX"),
        ([*"abc", "ctrl+c", *"de"], "de"),
    ],
)
async def test_a_burst_in_the_text_is_edited_in_order(tmp_path: Path, keys: list[str], text: str) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        post(setup, *keys)
        await setup.until(lambda: setup.app.main.composer.text == text, repr(text))
        assert setup.app.main.composer.text == text


async def test_any_burst_gives_what_its_keys_give_one_by_one(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        loop = asyncio.get_running_loop()

        @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
        @given(EDITS)
        def holds(keys: list[str]) -> None:
            asyncio.run_coroutine_threadsafe(burst(keys), loop).result(SECONDS)

        async def burst(keys: list[str]) -> None:
            setup.app.main.composer.set_text("")
            post(setup, *keys)
            post(setup, "end", "§")
            wanted = edited([*keys, "end", "§"])
            await setup.until(lambda: "§" in setup.app.main.composer.text, "the last key")
            assert setup.app.main.composer.text == wanted

        await asyncio.to_thread(holds)


async def test_a_paste_between_keys_stands_between_them(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        post(setup, *"ab", "left")
        setup.app.post_message(events.Paste("[pasted]"))
        post(setup, "left", "X")
        await setup.until(lambda: "X" in setup.app.main.composer.text, "the last key")
        assert setup.app.main.composer.text == "a[pastedX]b"


async def test_space_and_arrows_in_one_burst_mark_the_options_they_were_meant_for(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        asked = await ask_for_several(setup, "Logs", "Metrics", "Tracing", "Alerts")
        post(setup, "space", "down", "down", "space", "down", "space", "up", "up", "space", "space", "enter")
        assert await asyncio.wait_for(asked, SECONDS) == Answer(True, words=("Logs, Tracing, Alerts",))


async def test_words_for_a_question_are_edited_in_order(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        asked = await ask_for_several(setup, "Logs")
        post(setup, *"abc", "left", "left", "X", "backspace", "backspace", "Y", "end", "Z", "enter")
        assert await asyncio.wait_for(asked, SECONDS) == Answer(True, words=("YbcZ",))


async def test_a_list_is_narrowed_before_the_enter_that_chooses_from_it(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        lines = [("1", "red"), ("2", "green"), ("3", "blue"), ("4", "blueish")]
        chosen = asyncio.create_task(setup.app.ask(PickScreen("colours", lines)))
        await setup.assert_sees("blueish")
        post(setup, *"blux", "backspace", "down", "enter")
        assert await asyncio.wait_for(chosen, SECONDS) == "4"


async def test_what_is_typed_after_a_dialog_was_closed_goes_to_the_text(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        chosen = asyncio.create_task(setup.app.ask(PickScreen("colours", [("1", "red")])))
        await setup.assert_sees("red")
        post(setup, "r", "escape", *"abc", "left", "X")
        assert await asyncio.wait_for(chosen, SECONDS) is None
        await setup.until(lambda: setup.app.main.composer.text == "abXc", "the text")


async def test_keys_for_a_dialog_that_closes_by_itself_do_not_hold_up_the_next(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        for _ in range(5):
            screen = PickScreen("colours", [("1", "red")])
            await setup.app.push_screen(screen)
            post(setup, "r", "left")
            screen.withdraw()
            post(setup, "y", "left", "x")
            await setup.until(lambda: "x" in setup.app.main.composer.text, "the last key")
            assert setup.app.main.composer.text.startswith("xy")
            setup.app.main.composer.set_text("")


async def test_a_widget_that_hangs_does_not_take_the_keys_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyboard, "MAX_CHECKS", 2)
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        hangs = asyncio.Event()
        setup.app.main.composer.call_later(hangs.wait)
        post(setup, *"ab", "ctrl+t")
        await until(lambda: setup.app.main.agent_tree.display)  # where the pilot would wait for what hangs
        hangs.set()
        assert setup.app.main.composer.text == "ab"


def test_bursts_in_a_real_terminal_keep_their_order(tmp_path: Path) -> None:
    bursts = {
        b"one two\nthree four\nfive six\nseven": "one two\nthree four\nfive six\nseven",
        b"abc\x7f\x7fX": "aX",
        b"abc\x1b[D\x1b[DX": "aXbc",
    }
    model = script(tmp_path, main=[{"text": f"answer-{number}"} for number in range(len(bursts))])
    with on_a_pty(tmp_path, "--model", model) as (leader, _, process):
        shown = read(leader, b"", lambda seen: b"Ask something" in seen)
        for number, burst in enumerate(bursts):
            os.write(leader, burst + b"\r")
            shown = read(leader, shown, lambda seen, answer=b"answer-%d" % number: answer in seen)
        os.write(leader, b"\x04")
        read(leader, shown, lambda _: process.poll() is not None)
    (session,) = gen("sessions", "list", "--json", cwd=tmp_path).json["sessions"]
    transcript = gen("sessions", "show", session["agentId"], "--json", cwd=tmp_path).json["transcript"]
    assert [each["text"] for each in transcript if each["role"] == "user"] == list(bursts.values())


async def test_joiners_that_are_typed_are_part_of_the_text(tmp_path: Path) -> None:
    async with seated(tmp_path, script=turns(main=[says("ok")])) as setup:
        text = "👩\u200d💻 می\u200cخواهم 🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f"
        setup.app.post_message(events.Key("left_to_right_override", "\u202d"))
        for each in text:
            setup.app.post_message(events.Key("space" if each == " " else each, each))
        await setup.until(lambda: setup.app.main.composer.text.endswith("\U000e007f"), "the last key")
        assert setup.app.main.composer.text == text
