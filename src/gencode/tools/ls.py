"""LS: list one folder."""

import asyncio
import os
import stat
from typing import Annotated

from msgspec import Meta

from gencode.agent.toolbox import ToolContext, tool
from gencode.core.errors import ToolError
from gencode.permissions.paths import Resolved
from gencode.tools.files import kind_text, open_folder, printable, relative, size_text, spoken
from gencode.tools.glob_patterns import BadGlob, PathFilter
from gencode.tools.ignore_files import is_ignored
from gencode.tools.output_page import OutputPage

_NAMED = 10
"""So many of the ignored entries are named."""


@tool(effect="read", name="LS", aliases=("list_dir", "list_files"), instead="Read")
async def LS(
    ctx: ToolContext,
    path: Annotated[str | None, "Folder; default: the working directory"] = None,
    ignore: Annotated[list[str] | None, "Patterns of names to leave out, such as `*.log`"] = None,
    head_limit: Annotated[int, Meta(ge=0), "Maximum number of entries"] = 500,
    offset: Annotated[int, Meta(ge=0), "Entries to skip"] = 0,
) -> str:
    """List one folder: folders first (`name/`), then files with their size and links with their target.

    Ignored files are left out and listed at the end.
    """
    return await asyncio.to_thread(_list, ctx, path or ".", ignore or [], OutputPage(offset, head_limit))


def _list(ctx: ToolContext, path: str, ignore: list[str], page: OutputPage) -> str:
    try:
        unwanted = PathFilter(f"!{each}" for each in ignore)
    except BadGlob as error:
        raise ToolError(f"ignore={ignore!r} has something that is not a pattern: {error}.") from None
    return list_folder(ctx, ctx.place(path), page, unwanted)


def list_folder(
    ctx: ToolContext, place: Resolved, page: OutputPage, unwanted: PathFilter | None = None
) -> str:
    """A page of the entries of a judged folder, without the `unwanted` ones."""
    shown = relative(ctx.workspace, place.real)
    handle = open_folder(place, shown)
    try:
        with os.scandir(handle) as entries:
            found = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
        ignored = is_ignored(place.real, os.path.realpath(ctx.workspace.root), found)
        kept = [
            each
            for each in found
            if each[0] not in ignored and (unwanted is None or unwanted.matches(each[0]))
        ]
        kept.sort(key=lambda each: (not each[1], os.fsencode(each[0])))
        more = sum(not (page.skips() or (not page.full and page.add(_entry(handle, *each)))) for each in kept)
    finally:
        os.close(handle)
    return page.text(more, _nothing(shown, found), *_left_out(ignored, found))


def _nothing(shown: str, found: list[tuple[str, bool]]) -> str:
    return f"Everything in {spoken(shown)} is left out." if found else f"{spoken(shown)} is empty."


def _left_out(ignored: set[str], found: list[tuple[str, bool]]) -> list[str]:
    names = sorted(printable(name) + "/" * is_folder for name, is_folder in found if name in ignored)
    if not names:
        return []
    rest = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return [f"left out by ignore files: {', '.join(names[:_NAMED])}{rest}"]


def _entry(handle: int, name: str, is_folder: bool) -> str:
    """One line; an entry that vanished or may not be looked at is still named."""
    label = printable(name)
    if is_folder:
        return f"{label}/"
    try:
        status = os.stat(name, dir_fd=handle, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return f"{label} -> {printable(os.readlink(name, dir_fd=handle))}"
    except OSError:
        return label
    if not stat.S_ISREG(status.st_mode):
        return f"{label} ({kind_text(status.st_mode)})"
    return f"{label} ({size_text(status.st_size)})"
