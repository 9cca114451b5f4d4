"""Every file tool opens what was judged at that moment, and nothing else."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gencode.agent.toolbox import Tool
from gencode.core.errors import Denied, ToolError
from gencode.core.messages import ToolCall
from gencode.permissions.paths import Resolved
from gencode.tools.edit import EDIT
from gencode.tools.glob import GLOB
from gencode.tools.grep import GREP
from gencode.tools.ls import LS
from gencode.tools.read import READ
from gencode.tools.write import WRITE
from tests.tools.desk import Desk

CALLS: list[tuple[Tool, dict[str, Any]]] = [
    (READ, {"file_path": "a/f"}),
    (LS, {"path": "a"}),
    (GLOB, {"pattern": "a/*"}),
    (GREP, {"pattern": "x", "path": "a/f"}),
    (GREP, {"pattern": "x", "path": "a"}),
    (WRITE, {"file_path": "a/f", "content": "new"}),
    (EDIT, {"file_path": "a/f", "old_string": "x", "new_string": "y"}),
]


async def run(desk: Desk, tool: Tool, arguments: dict[str, Any], allowed: str, swap: bool = False) -> str:
    """A call whose path is judged: only `allowed` may be opened, and it may be swapped for a link then."""

    def place(text: str) -> Resolved:
        judged = desk.ctx.place(text)
        if judged.real != str(desk.root / allowed):
            raise Denied(f"{text} is not allowed")
        if swap:
            (desk.root / "a").rename(desk.root / "aside")
            (desk.root / "a").symlink_to(desk.root.parent / "outside")
        return judged

    ctx = replace(desk.ctx, place=place)
    return (await tool.run(ctx, tool.parse(ToolCall("1", tool.name, arguments)))).text


@pytest.fixture
def files(desk: Desk, tmp_path: Path) -> Desk:
    """The same file inside and outside."""
    desk.put("a/f", "x")
    desk.put("a/deep/f", "x")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/f").write_text("x of somebody else")
    return desk


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
async def test_what_is_refused_at_that_moment_is_not_opened(
    files: Desk, tool: Tool, arguments: dict[str, Any]
) -> None:
    with pytest.raises(Denied, match="is not allowed$"):
        await run(files, tool, arguments, "elsewhere")
    assert (files.root / "a/f").read_text() == "x"


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
async def test_what_is_swapped_after_it_was_judged_is_not_opened(
    files: Desk, tool: Tool, arguments: dict[str, Any]
) -> None:
    await files.use(READ, file_path="a/f")
    path = arguments.get("file_path") or arguments.get("path") or "a"
    with pytest.raises(ToolError, match="changed while it was being opened; try again.$"):
        await run(files, tool, arguments, path, swap=True)
    assert [(files.root / name).read_text() for name in ("aside/f", "../outside/f")] == [
        "x",
        "x of somebody else",
    ]


async def test_a_file_that_is_named_is_found_where_only_it_is_allowed(files: Desk) -> None:
    assert await run(files, GLOB, {"pattern": "f", "path": "a"}, "a/f") == "a/f"
    assert await run(files, GLOB, {"pattern": f"{files.root}/a/f"}, "a/f") == "a/f"
    for pattern in ("*", "deep/f"):
        with pytest.raises(Denied):
            await run(files, GLOB, {"pattern": pattern, "path": "a"}, "a/f")
