"""Files as the editor has them: unsaved buffers are read and changed, after the gate has decided."""

from pathlib import Path
from typing import Any

import pytest
from acp.exceptions import RequestError

from tests.interfaces.acp.driving import Editor, Wired

pytestmark = pytest.mark.asyncio(loop_scope="package")

EDIT = {"name": "Edit", "input": {"file_path": "a.txt", "old_string": "unsaved", "new_string": "changed"}}


def read(path: str) -> dict[str, Any]:
    return {"name": "Read", "input": {"file_path": path}}


def result(editor: Editor, session: str, title: str) -> str:
    """What a call shows as text."""
    content = editor.call(session, title)["content"]
    return "\n".join(each["content"]["text"] for each in content if each["type"] == "content")


async def test_an_unsaved_buffer_is_read_and_changed_through_the_editor(wire: Wired, tmp_path: Path) -> None:
    path, clean = tmp_path / "a.txt", tmp_path / "clean.txt"
    path.write_text("on the disk\n")
    clean.write_bytes(b"as\r\nsaved\r\n")
    editor = wire.editor
    editor.buffers = {str(path): "an unsaved line\n", str(clean): "as\nsaved\n"}
    looks = [read("a.txt"), read("clean.txt")]
    session = await wire.new(
        tmp_path, main=[{"calls": [EDIT]}, {"calls": looks}, {"calls": [EDIT]}, {"text": "ok"}]
    )
    await wire.say(session, "Go.")
    calls = [each for each in editor.calls(session).values() if each["title"] == "Edit(a.txt)"]
    assert [each["status"] for each in calls] == ["failed", "completed"]
    assert "was not read in this task; Read it first" in str(calls[0]["content"])
    told = result(editor, session, "Read(a.txt)")
    assert "1\tan unsaved line\n[this is the editor's version of the file" in told
    assert "unsaved changes" not in result(editor, session, "Read(clean.txt)")
    assert editor.written == {str(path): "an changed line\n"}
    assert path.read_text() == "an changed line\n"
    change = {
        "type": "diff",
        "path": str(path),
        "oldText": "an unsaved line\n",
        "newText": "an changed line\n",
    }
    assert [each for each in calls[1]["content"] if each["type"] == "diff"] == [change]
    assert "Edited a.txt: 1 place changed." in str(calls[1]["content"])
    assert [each.call.title for each in editor.asked] == ["Edit(a.txt)", "Edit(a.txt)"]
    assert "an changed line" in str(editor.asked[-1].call.content)


async def test_the_editor_is_not_asked_for_what_is_refused_or_outside(wire: Wired, tmp_path: Path) -> None:
    folder, outside = tmp_path / "here", tmp_path / "outside.txt"
    folder.mkdir()
    outside.write_text("outside\n")
    (folder / ".env").write_text("SECRET=1\n")
    (folder / "link.txt").symlink_to(outside)
    editor = wire.editor
    editor.answer = lambda asked: "n" if ".env" in str(asked.call.title) else "y"
    calls = [read(".env"), read("../outside.txt"), read("link.txt")]
    session = await wire.new(folder, main=[{"calls": calls}, {"text": "ok"}])
    await wire.say(session, "Go.")
    assert editor.read == []
    assert "outside" in result(editor, session, "Read(../outside.txt)")
    assert "SECRET" not in str(editor.updates)


async def test_an_editor_that_offers_no_files_is_asked_for_none(wire: Wired, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("on the disk\n")
    await wire.introduce(fs=False)
    session = await wire.new(tmp_path, main=[{"calls": [read("a.txt")]}, {"text": "ok"}])
    await wire.say(session, "Go.")
    assert wire.editor.read == []
    assert "on the disk" in result(wire.editor, session, "Read(a.txt)")


WRITE = {"name": "Write", "input": {"file_path": "a.txt", "content": "made anew\n"}}


async def test_the_editor_is_not_asked_for_a_file_that_is_about_to_be_made(
    wire: Wired, tmp_path: Path
) -> None:
    session = await wire.new(tmp_path, main=[{"calls": [WRITE]}, {"text": "ok"}])
    await wire.say(session, "Go.")
    assert wire.editor.read == []
    assert (tmp_path / "a.txt").read_text() == "made anew\n"
    (asked,) = wire.editor.asked
    diff = {"type": "diff", "path": str(tmp_path / "a.txt"), "newText": "made anew\n"}
    told = asked.call.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert diff in told["content"]


@pytest.mark.parametrize(
    ("trouble", "buffer"),
    [
        (RequestError(-32_603, "Internal error"), ""),
        (RequestError(-32_601, "Method not found"), ""),
        (None, "half a character \ud800"),
        (None, "x" * 8_000_001),
    ],
)
async def test_nothing_is_done_to_a_file_that_the_editor_does_not_show(
    wire: Wired, tmp_path: Path, trouble: RequestError | None, buffer: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("on the disk\n")
    wire.editor.trouble, wire.editor.buffers = trouble, {str(path): buffer}
    session = await wire.new(tmp_path, main=[{"calls": [read("a.txt")]}, {"calls": [WRITE]}, {"text": "ok"}])
    await wire.say(session, "Go.")
    told = result(wire.editor, session, "Read(a.txt)")
    assert "The editor did not return a.txt: " in told
    assert "on the disk" not in told
    assert wire.editor.call(session, "Write(a.txt)")["status"] == "failed"
    assert (path.read_text(), wire.editor.written) == ("on the disk\n", {})


@pytest.mark.parametrize(
    "trouble",
    [
        RequestError.resource_not_found("a.txt"),
        RequestError(-32_603, "Internal error", {"details": "ENOENT"}),
    ],
)
async def test_a_file_that_the_editor_does_not_know_is_on_the_disk(
    wire: Wired, tmp_path: Path, trouble: RequestError
) -> None:
    wire.editor.trouble = trouble
    session = await wire.new(tmp_path, main=[{"calls": [WRITE]}, {"calls": [read("a.txt")]}, {"text": "ok"}])
    await wire.say(session, "Go.")
    assert "made anew" in result(wire.editor, session, "Read(a.txt)")
    assert (tmp_path / "a.txt").read_text() == "made anew\n"


async def test_a_file_that_was_unsaved_stays_so_until_the_editor_says_otherwise(
    wire: Wired, tmp_path: Path
) -> None:
    path = tmp_path / "a.txt"
    path.write_text("on the disk\n")
    wire.editor.buffers = {str(path): "an unsaved line\n"}
    turns = [{"calls": [read("a.txt")]}, {"text": "ok"}, {"calls": [WRITE]}, {"text": "ok"}]
    session = await wire.new(tmp_path, main=turns)
    await wire.say(session, "Look.")
    await wire.introduce(fs=False)
    await wire.say(session, "Write.")
    assert wire.editor.call(session, "Write(a.txt)")["status"] == "failed"
    assert path.read_text() == "on the disk\n"
