"""One conversation in two terminals: a question of the one is shown in the other, and either answers it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import pytest

from gencode.interfaces.chat.chat_session import ANSWER_THERE
from gencode.interfaces.tui import keyboard, question_dialogs
from gencode.interfaces.tui.question_dialogs import ApprovalScreen
from gencode.questions.question_desk import who_answers
from gencode.stores.sqlite import SqliteStore
from gencode.testing import call, says
from tests.interfaces.tui.driving import Seat, seated

ASKS = "general-purpose needs approval to use Write"
KEYS = "Answer the question above · from another process · Esc leaves it open"


@asynccontextmanager
async def two_terminals(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncGenerator[tuple[Seat, Seat, Seat]]:
    """The one that leads a conversation, one that looks at it, and one in the same folder that does not.

    An agent of the first one asks whether it may write.
    """
    monkeypatch.setattr(keyboard, "QUIET_SECONDS", 0.0)
    write = call("Write", file_path="new.txt", content="x")
    sent = call("Task", subagent_type="general-purpose", prompt="write", description="alpha")
    script = {
        "main": [says("begun"), says("", sent), says("over")],
        "general-purpose": [says("", write), says("written")],
    }
    settings = {"allow": ["Task"]}
    stores = [await SqliteStore.open(folder / "gen.db") for _ in range(3)]
    async with seated(folder, store=stores[0], settings=settings, script=script) as first:
        await first.type("hello")
        await first.rests()
        session = first.chat.session or ""
        async with (
            seated(
                folder,
                store=stores[1],
                settings=settings,
                script=script,
                begin=lambda chat: chat.open(session),
            ) as second,
            seated(folder, store=stores[2], settings=settings, script=script) as third,
        ):
            await second.assert_sees("begun")
            await first.type("go")
            await first.assert_sees(ASKS)
            await second.assert_sees(ASKS)
            yield first, second, third
            for each in (first, second):
                await each.until(lambda each=each: ASKS not in each.screen, "the end of the dialog")
                await each.assert_sees("over")
            await second.until(lambda: not second.chat.running_elsewhere, "the end of the turn")
            assert second.chat.remote_questions.first is None


async def test_the_second_terminal_answers_a_question_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_terminals(tmp_path, monkeypatch) as (first, second, third):
        await second.until(lambda: KEYS in second.app.main.status_bar.shown, "what the keys do")
        await second.until(lambda: second.chat.remote_questions.first is not None, "the journal")
        assert ANSWER_THERE not in "".join(line.plain for line in second.app.notice_lines())
        assert (
            "approve for all agents in this session" in first.screen
            and "approve for all agents in this session" not in second.screen
        )
        assert not third.app.desk.waiting()
        await second.press("y", "enter")
        await first.until(lambda: not first.app.desk.waiting(), "the end of the question")
    assert (tmp_path / "new.txt").read_text() == "x"


async def test_what_the_first_terminal_answers_is_not_asked_in_the_second_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_terminals(tmp_path, monkeypatch) as (first, second, _):
        monkeypatch.setattr(question_dialogs, "WITHDRAWN_SECONDS", 1_000.0)
        await first.press("n", "enter")
        await second.until(lambda: not second.app.desk.waiting(), "the end of the question")
        await second.assert_sees(f"Declined by {who_answers()}.")
        second.app.call_later(cast(ApprovalScreen, second.app.screen).withdraw)  # as it does by itself later
    assert not (tmp_path / "new.txt").exists()
