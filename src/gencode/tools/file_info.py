"""tools: get_file_info, what a file or folder is, without what is in it."""

import asyncio
import os
import stat
from datetime import UTC, datetime
from typing import Annotated

from gencode.runtime.openers import NotThere, look_at
from gencode.runtime.toolbox import Param, ToolContext, tool
from gencode.tools.files import missing, printable, relative, size_text


@tool(effect="read", name="get_file_info", on_request=True)
async def GET_FILE_INFO(
    ctx: ToolContext, path: Annotated[str, Param("A file or folder", also=("file_path",))]
) -> str:
    """Tell what a path is: its kind, size, rights and when it was changed last. Contents come with Read."""
    return await asyncio.to_thread(_told, ctx, path)


def _told(ctx: ToolContext, path: str) -> str:
    place = ctx.place(path)
    shown = relative(ctx.workspace, place.real)
    try:
        found = look_at(place)
    except NotThere:
        raise missing(place.real, shown) from None
    folder = stat.S_ISDIR(found.st_mode)
    lines = [shown, f"Kind: {'folder' if folder else 'file'}"]
    if os.path.islink(place.lexical):  # noqa: PTH114 – never raises
        lines.append(f"Reached by the link: {printable(relative(ctx.workspace, place.lexical))}")
    if not folder:
        lines.append(f"Size: {size_text(found.st_size)} ({found.st_size:,} bytes)")
    lines.append(f"Changed: {datetime.fromtimestamp(found.st_mtime, UTC):%Y-%m-%dT%H:%M:%SZ}")
    lines.append(f"Rights: {stat.filemode(found.st_mode)}")
    if not folder and found.st_nlink > 1:
        lines.append(f"Names: {found.st_nlink} (hard links)")
    return "\n".join(lines)
