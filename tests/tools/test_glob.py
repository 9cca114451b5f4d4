"""Glob as the model calls it."""

from pathlib import Path

import pytest

from gencode.core.errors import ToolError
from gencode.core.spec import Workspace
from gencode.core.text import CLIP
from gencode.tools.glob import GLOB
from tests.tools.desk import Desk


async def test_paths_come_sorted_and_seen_from_the_working_directory(desk: Desk, tmp_path: Path) -> None:
    for name in ("src/b.py", "src/a.py", "src/a/c.py", "top.py"):
        desk.put(name)
    desk.workspace = Workspace(desk.root, desk.root / "src", tmp_path)
    assert await desk.use(GLOB, pattern="**/*.py") == "a/c.py\na.py\nb.py"
    assert await desk.use(GLOB, pattern="*.py", path="..") == f"a/c.py\na.py\nb.py\n{desk.root}/top.py"
    assert await desk.use(GLOB, pattern="../*.py") == f"{desk.root}/top.py"
    assert await desk.use(GLOB, pattern=f"{desk.root}/*.py") == f"{desk.root}/top.py"
    assert await desk.use(GLOB, pattern="~/ws/src/*.py") == "a.py\nb.py"


async def test_a_long_list_is_paged(desk: Desk) -> None:
    for number in range(450):
        desk.put(f"f{number:03}")
    first = (await desk.use(GLOB, pattern="*")).split("\n")
    assert (len(first), first[-1]) == (201, "[… 250 more; go on with offset=200]")
    assert await desk.use(GLOB, pattern="*", offset=449) == "f449"
    assert await desk.use(GLOB, pattern="*", offset=450) == (
        "There is nothing at offset=450; there are only 450 entries."
    )


async def test_a_page_never_outgrows_a_result(desk: Desk) -> None:
    for number in range(300):
        desk.put(f"{'long' * 50}{number:03}")
    text = await desk.use(GLOB, pattern="*", head_limit=0)
    assert len(text) <= CLIP
    assert text.endswith("go on with offset=144]")


@pytest.mark.parametrize(
    ("pattern", "path", "said"),
    [
        ("a.txt", "a.txt", "a.txt is a file; give Glob a folder, or Read the file."),
        ("*", "nowhere", "nowhere does not exist."),
        ("*/../x", None, "'*/../x' is not a pattern for files; write it without `..` behind a wildcard."),
        ("{x,..}/y", None, "'{x,..}/y' is not a pattern for files; write it without `..` behind a wildcard."),
        ("src/", None, "'src/' is not a pattern for files; write it without `..` behind a wildcard."),
        ("[z-a]", None, "'[z-a]' is not a pattern: its range z-a is backwards."),
    ],
)
async def test_mistakes_are_answered_with_a_way_out(
    desk: Desk, pattern: str, path: str | None, said: str
) -> None:
    desk.put("a.txt")
    with pytest.raises(ToolError) as caught:
        await desk.use(GLOB, pattern=pattern, path=path)
    assert str(caught.value) == said


async def test_nothing_found_is_a_sentence(desk: Desk) -> None:
    assert await desk.use(GLOB, pattern="*.rs") == "No files match '*.rs' in the working directory."


async def test_a_link_to_a_folder_is_searched_when_it_is_named(desk: Desk) -> None:
    desk.put("real/a.py")
    (desk.root / "link").symlink_to("real")
    assert await desk.use(GLOB, pattern="link/*.py") == "real/a.py"
    assert await desk.use(GLOB, pattern="**/*.py") == "real/a.py"
