"""One conversation in two terminals: the one that cannot answer a question says that it waits, and where."""

from pathlib import Path

import pytest

from gencode.stores.sqlite import SqliteStore
from gencode.surfaces.tui import dialogs
from gencode.testing import call, says
from tests.tui.driving import seated


async def test_a_question_of_another_terminal_is_named_until_it_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialogs, "GRACE_SECONDS", 0.0)
    write = call("Write", file_path="new.txt", content="x")
    sent = call("Task", subagent_type="general-purpose", prompt="write", description="alpha")
    script = {
        "main": [says("begun"), says("", sent), says("over")],
        "general-purpose": [says("", write), says("written")],
    }
    settings = {"allow": ["Task"]}
    stores = [await SqliteStore.open(tmp_path / "gen.db") for _ in range(2)]
    async with seated(tmp_path, store=stores[0], settings=settings, script=script) as first:
        await first.type("hello")
        await first.rests()
        session = first.talk.session or ""
        async with seated(
            tmp_path,
            store=stores[1],
            settings=settings,
            script=script,
            begin=lambda talk: talk.open(session),
        ) as second:
            await second.assert_sees("begun")
            await first.type("go")
            await first.assert_sees("general-purpose wants to use Write")
            (child,) = first.talk.view.launched(session)
            await second.assert_sees(f"? {child} asks to use Write: answer it in the terminal where it runs")
            await first.press("n")
            await first.rests()
            await second.assert_sees("over")
            await second.until(lambda: not second.talk.led_elsewhere, "the end of the turn")
            assert second.talk.asked_elsewhere.first is None
    assert not (tmp_path / "new.txt").exists()
