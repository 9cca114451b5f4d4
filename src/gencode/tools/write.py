"""Write: create or replace a whole file."""

import asyncio
from typing import Annotated

from gencode.agent.toolbox import Param, ToolContext, ToolOutput, tool
from gencode.core.text import counted
from gencode.files.safe_files import Expected, PathMissing, open_for_reading
from gencode.tools.file_changes import CancelFlag, apply_change, as_seen, change, check_missing, difference
from gencode.tools.files import size_text
from gencode.tools.text_files import NotText, checked, line_count, read_text


async def preview(ctx: ToolContext, file_path: str, content: str) -> str:
    """The difference that writing the file would make."""
    return await asyncio.to_thread(_compared, ctx, file_path, content)


@tool(effect="write", name="Write", aliases=("write_file",), preview=preview)
async def WRITE(
    ctx: ToolContext,
    file_path: Annotated[str, Param(also=("path",))],
    content: str,
) -> ToolOutput:
    """Create a file, or replace one that you have Read. To change parts of a file use Edit."""
    return await apply_change(ctx, lambda wanted: _write(ctx, file_path, content, wanted))


def _write(ctx: ToolContext, file_path: str, content: str, wanted: CancelFlag) -> ToolOutput:
    data = checked(content, "content").encode()
    place = ctx.place(file_path)
    expected: Expected
    try:
        with open_for_reading(place) as file:
            expected = as_seen(ctx, place, file)
    except PathMissing:
        check_missing(ctx, place)
        expected = "absent"
    wanted.check()
    written = change(ctx, place, data, expected)
    done = "Created" if expected == "absent" else "Replaced"
    size = f"{counted(line_count(content), 'line')}, {size_text(len(data))}"
    return ToolOutput(f"{done} {written.changed[0].path}: {size}.", written)


def _compared(ctx: ToolContext, file_path: str, content: str) -> str:
    try:
        place = ctx.place(file_path)
        with open_for_reading(place) as file:
            as_seen(ctx, place, file)
            before = read_text(file, file_path).text
    except PathMissing:
        return f"A new file:\n{difference('', content)}"
    except NotText as error:
        return f"The whole file is replaced. {error}\n{difference('', content)}"
    return difference(before, content)
