"""LS: one folder."""

import os

import pytest

from gencode.core.errors import ToolError
from gencode.core.text import CLIP
from gencode.tools.ls import LS
from tests.tools.desk import Desk


async def test_folders_come_first_then_files_and_links(desk: Desk) -> None:
    desk.put("src/a.py")
    desk.put(".hidden/x")
    desk.put("b.txt", "x" * 1234)
    desk.put("a.txt", "x")
    desk.put(b"odd\xff")
    desk.put("new\nline")
    (desk.root / "link").symlink_to("src")
    os.mkfifo(desk.root / "pipe")
    assert await desk.use(LS) == (
        ".hidden/\nsrc/\na.txt (1 byte)\nb.txt (1.2 KB)\nlink -> src\nnew\\nline (0 bytes)\n"
        "odd\\xff (0 bytes)\npipe (named pipe)"
    )


async def test_what_ignore_files_name_is_left_out_and_told(desk: Desk) -> None:
    desk.put(".gitignore", "dist/\n*.log\n")
    desk.put("dist/x")
    desk.put("pkg/.gitignore", "!keep.log\n")
    for name in ("a.log", "keep.log", "b.py"):
        desk.put(f"pkg/{name}")
    assert await desk.use(LS) == "pkg/\n.gitignore (12 bytes)\n[left out by ignore files: dist/]"
    assert await desk.use(LS, path="pkg", ignore=["*.py"]) == (
        ".gitignore (10 bytes)\nkeep.log (0 bytes)\n[left out by ignore files: a.log]"
    )
    assert await desk.use(LS, path="dist") == "x (0 bytes)"


async def test_a_long_folder_is_paged(desk: Desk) -> None:
    for number in range(1200):
        desk.put(f"{'x' * 60}{number:04}")
    pages: list[str] = []
    offset = 0
    while offset is not None:
        text = await desk.use(LS, head_limit=0, offset=offset)
        assert len(text) <= CLIP
        *lines, last = text.split("\n")
        offset = int(last.rpartition("=")[2][:-1]) if last.startswith("[…") else None
        pages += lines if offset else [*lines, last]
    assert pages == [f"{'x' * 60}{number:04} (0 bytes)" for number in range(1200)]


async def test_empty_folders_and_mistakes_are_said_in_words(desk: Desk) -> None:
    (desk.root / "empty").mkdir()
    desk.put("a.txt")
    assert await desk.use(LS, path="empty") == "empty is empty."
    assert await desk.use(LS, ignore=["*"]) == "Everything in the working directory is left out."
    for path, said in (
        ("a.txt", "a.txt is not a folder; use Read for a file."),
        ("emtpy", "emtpy does not exist; did you mean empty?"),
        ("a.txt/b", "a.txt/b does not exist: a.txt is a file, not a folder."),
    ):
        with pytest.raises(ToolError) as caught:
            await desk.use(LS, path=path)
        assert str(caught.value) == said


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every folder")
async def test_a_folder_that_may_not_be_read_is_said_in_words(desk: Desk) -> None:
    (desk.root / "shut").mkdir(mode=0)
    with pytest.raises(ToolError, match="Permission denied"):
        await desk.use(LS, path="shut")
