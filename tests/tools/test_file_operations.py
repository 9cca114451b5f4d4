"""delete_file, move_file and get_file_info: one file, as it was judged and seen, and no link followed."""

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gencode.agent.toolbox import Tool, ToolOutput
from gencode.core.errors import ToolError
from gencode.core.messages import FileChange, FileSeen, ToolCall, Trace
from gencode.permissions.paths import Resolved, resolve
from gencode.tools.edit import EDIT
from gencode.tools.file_operations import DELETE_FILE, GET_FILE_INFO, MOVE_FILE
from gencode.tools.read import READ
from gencode.tools.write import WRITE
from tests.tools.desk import Desk


def state(folder: Path) -> dict[str, bytes | str | None]:
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else None
        for path in folder.rglob("*")
    }


async def refusal(desk: Desk, tool: Tool, **given: Any) -> str:
    """Why a call is refused; nothing is changed by it."""
    before = state(desk.root)
    with pytest.raises(ToolError) as error:
        await desk.use(tool, **given)
    assert state(desk.root) == before
    return str(error.value)


async def test_a_file_that_was_read_is_deleted_and_the_receipt_says_so(desk: Desk) -> None:
    desk.put("src/a.py", "x")
    await desk.use(READ, path="src/a.py")
    assert await desk.output(DELETE_FILE, file_path="src/a.py") == ToolOutput(
        "Deleted src/a.py.", Trace(changed=(FileChange("src/a.py", ""),))
    )
    assert state(desk.root) == {"src": None}


async def test_a_file_that_was_not_seen_as_it_is_now_is_not_deleted(desk: Desk) -> None:
    desk.put("a", "one")
    assert await refusal(desk, DELETE_FILE, path="a") == (
        "a exists and was not read in this task; Read it first, then change it."
    )
    await desk.use(READ, file_path="a")
    desk.put("a", "another")
    assert await refusal(desk, DELETE_FILE, path="a") == "a changed since it was read; Read it again first."


async def test_looking_at_what_a_file_is_does_not_count_as_reading_it(desk: Desk) -> None:
    desk.put("a", "one")
    await desk.use(GET_FILE_INFO, path="a")
    assert "was not read in this task" in await refusal(desk, DELETE_FILE, path="a")
    assert "was not read in this task" in await refusal(desk, WRITE, file_path="a", content="x")


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("src", "src is a folder; find files in it with Glob."),
        ("missing", "missing does not exist; find it with Glob first."),
        ("link", "link is a link to src/a; give the path of the file itself."),
        ("dangling", "dangling is a link to nowhere; give the path of the file itself."),
    ],
)
async def test_only_a_file_is_deleted_or_moved(desk: Desk, path: str, said: str) -> None:
    desk.put("src/a", "x")
    (desk.root / "link").symlink_to("src/a")
    (desk.root / "dangling").symlink_to("nowhere")
    assert await refusal(desk, DELETE_FILE, path=path) == said
    assert await refusal(desk, MOVE_FILE, source=path, destination="new") == said


async def test_a_file_behind_a_linked_folder_is_the_real_one(desk: Desk) -> None:
    desk.put("src/a", "x")
    (desk.root / "link").symlink_to("src")
    await desk.use(READ, file_path="link/a")
    assert await desk.use(DELETE_FILE, path="link/a") == "Deleted src/a."


async def test_a_file_is_moved_with_its_folders_and_what_was_known_of_it(desk: Desk) -> None:
    desk.put("a", "text\n")
    (desk.root / "a").chmod(0o640)
    await desk.use(READ, file_path="a")
    digest = hashlib.sha256(b"text\n").hexdigest()
    assert await desk.output(MOVE_FILE, **{"from": "a", "to": "new/er/b"}) == ToolOutput(
        "Moved a to new/er/b.",
        Trace(
            changed=(FileChange("a", ""), FileChange("new/er/b", digest)),
            seen=(FileSeen("new/er/b", digest),),
        ),
    )
    assert (desk.root / "new/er/b").stat().st_mode & 0o777 == 0o640
    await desk.use(EDIT, file_path="new/er/b", old_string="text", new_string="more")
    assert state(desk.root) == {"new": None, "new/er": None, "new/er/b": b"more\n"}


async def test_moving_a_file_that_was_not_read_tells_nothing_about_it(desk: Desk) -> None:
    desk.put("a", "text")
    await desk.use(MOVE_FILE, source="a", destination="b")
    assert "was not read in this task" in await refusal(desk, WRITE, file_path="b", content="x")


@pytest.mark.parametrize(
    ("destination", "said"),
    [
        ("b", "b exists already; nothing was moved."),
        ("src", "src is a folder; give the whole new path; nothing was moved."),
        ("a", "a exists already; nothing was moved."),
        ("dangling", "dangling is a link to nowhere; give the path of the file itself."),
        ("b/c", "b/c is not there: 'b' is a file, not a folder."),
    ],
)
async def test_nothing_is_ever_replaced_by_moving(desk: Desk, destination: str, said: str) -> None:
    desk.put("a", "x")
    desk.put("b", "y")
    desk.put("src/c", "z")
    (desk.root / "dangling").symlink_to("nowhere")
    for name in ("a", "b"):
        await desk.use(READ, file_path=name)
    assert await refusal(desk, MOVE_FILE, source="a", destination=destination) == said


async def test_what_takes_the_place_of_a_judged_file_is_neither_deleted_nor_moved(desk: Desk) -> None:
    """The file is swapped for a link, or its folder for one, right after it was judged."""
    outside = desk.root.parent / "outside"
    outside.mkdir()
    (outside / "a").write_text("not ours")
    for name in ("one/a", "two/a", "three/a", "four/a"):
        desk.put(name, "ours")
        await desk.use(READ, file_path=name)

    def swapped(text: str) -> Resolved:
        found = resolve(text, desk.workspace)
        folder, name = desk.root / text.split("/")[0], desk.root / text
        if text in ("one/a", "three/a"):
            name.unlink()
            name.symlink_to(outside / "a")
        elif text in ("two/a", "four/a"):
            folder.rename(desk.root / f"{folder.name}-was")
            folder.symlink_to(outside)
        return found

    ctx = replace(desk.ctx, place=swapped)
    tries = [
        (DELETE_FILE, {"path": "one/a"}),
        (DELETE_FILE, {"path": "two/a"}),
        (MOVE_FILE, {"source": "three/a", "destination": "x"}),
        (MOVE_FILE, {"source": "four/a", "destination": "y"}),
    ]
    for tool, given in tries:
        with pytest.raises(ToolError):
            await tool.run(ctx, tool.parse(ToolCall("c", tool.name, given)))
    assert state(outside) == {"a": b"not ours"}
    assert not (desk.root / "x").exists() and not (desk.root / "y").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may change every folder")
async def test_what_the_system_refuses_is_said_in_words(desk: Desk) -> None:
    desk.put("shut/a", "x")
    await desk.use(READ, file_path="shut/a")
    (desk.root / "shut").chmod(0o555)
    for tool, given in (
        (DELETE_FILE, {"path": "shut/a"}),
        (MOVE_FILE, {"source": "shut/a", "destination": "b"}),
    ):
        assert "the system refuses it (Permission denied)" in await refusal(desk, tool, **given)
    (desk.root / "shut").chmod(0o755)


@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        (DELETE_FILE, {}, "missing required field `path`"),
        (DELETE_FILE, {"path": "a", "file_path": "b"}, "unknown field `file_path`"),
        (MOVE_FILE, {"source": "a"}, "missing required field `destination`"),
        (GET_FILE_INFO, {"path": 3}, "Expected `str`, got `int`"),
        (GET_FILE_INFO, {"path": "a"}, "a does not exist; find it with Glob first."),
    ],
)
async def test_bad_input_changes_nothing(desk: Desk, tool: Tool, given: dict[str, Any], said: str) -> None:
    assert said in await refusal(desk, tool, **given)


async def test_the_person_sees_what_would_be_deleted_or_moved(desk: Desk) -> None:
    desk.put("a", "x" * 2_000)
    shown = [
        await tool.shown(desk.ctx, tool.parse(ToolCall("c", tool.name, given)))
        for tool, given in (
            (DELETE_FILE, {"path": "a"}),
            (MOVE_FILE, {"source": "a", "destination": "b/c"}),
        )
    ]
    assert shown == ["Deletes a, 2.0 KB.", "Moves a, 2.0 KB to b/c."]
    with pytest.raises(ToolError, match="no does not exist; find it with Glob first"):
        await DELETE_FILE.shown(desk.ctx, DELETE_FILE.parse(ToolCall("c", "delete_file", {"path": "no"})))


async def test_what_a_file_or_folder_is_comes_line_by_line(desk: Desk) -> None:
    desk.put("src/a", "x" * 1_234)
    (desk.root / "src/a").chmod(0o644)
    (desk.root / "src").chmod(0o755)
    (desk.root / "link").symlink_to("src/a")
    for path in ("src/a", "src"):
        os.utime(desk.root / path, (0, 1_700_000_000))
    file = (
        "src/a\nKind: file\n{}Size: 1.2 KB (1,234 bytes)\n"
        "Modified: 2023-11-14T22:13:20Z\nPermissions: -rw-r--r--"
    )
    assert await desk.use(GET_FILE_INFO, file_path="src/a") == file.format("")
    assert await desk.use(GET_FILE_INFO, path="link") == file.format("Link: link\n")
    assert await desk.use(GET_FILE_INFO, path="src") == (
        "src\nKind: folder\nModified: 2023-11-14T22:13:20Z\nPermissions: drwxr-xr-x"
    )
    (desk.root / "twice").hardlink_to(desk.root / "src/a")
    assert (await desk.use(GET_FILE_INFO, path="twice")).endswith("\nHard links: 2")
