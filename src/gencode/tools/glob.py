"""Glob: find files by name."""

import asyncio
import os
from typing import Annotated

from msgspec import Meta

from gencode.agent.toolbox import ToolContext, tool
from gencode.core.errors import Denied, ToolError
from gencode.tools.file_search import Searcher, searcher_for
from gencode.tools.files import missing, names_from, relative, spoken
from gencode.tools.glob_patterns import BadGlob, PathFilter, literal_prefix
from gencode.tools.output_page import OutputPage
from gencode.tools.search_listing import SearchListing, SearchRoot, search_root
from gencode.tools.search_records import FileSearch


@tool(effect="read", name="Glob")
async def GLOB(
    ctx: ToolContext,
    pattern: Annotated[str, "`**/*.py`, `src/**/*.{ts,tsx}`, `*config*`"],
    path: Annotated[str | None, "Folder; default: the working directory"] = None,
    head_limit: Annotated[int, Meta(ge=0), "Maximum number of paths"] = 200,
    offset: Annotated[int, Meta(ge=0), "Paths to skip"] = 0,
) -> str:
    """Find files by name, sorted by path; ignored files (.gitignore) are left out.

    `*` stays within a folder, `**` spans folders; a pattern without `/` matches at any depth.
    """
    searcher = searcher_for(ctx.workspace.root)
    return await glob_files(ctx, searcher, pattern, path, OutputPage(offset, head_limit))


async def glob_files(
    ctx: ToolContext, searcher: Searcher, pattern: str, path: str | None, page: OutputPage
) -> str:
    """Glob with a searcher of one's choice."""
    prefix, rest = literal_prefix(pattern)
    if not rest or ".." in rest.replace("{", "/").replace(",", "/").replace("}", "/").split("/"):
        raise ToolError(f"{pattern!r} is not a pattern for files; write it without `..` behind a wildcard.")
    try:
        fits = PathFilter([f"./{rest}" if "/" in pattern else rest])
    except BadGlob as error:
        raise ToolError(f"{pattern!r} is not a pattern: {error}.") from None
    folder = prefix if prefix.startswith(("/", "~")) else f"{path or '.'}/{prefix}"
    place = await asyncio.to_thread(_place, ctx, folder, rest)
    shown = names_from(ctx.workspace)
    listing = SearchListing(
        page,
        write=lambda hit: shown(place.absolute(hit.path)),
        wanted=lambda found: fits.matches(place.inside(found)),
    )
    search = FileSearch(
        base=place.base, start=place.start, shape="paths", names=fits.names, outer=place.outer
    )
    await listing.fill(searcher, search)
    return listing.text(f"No files match {pattern!r} in {spoken(shown(place.path))}.")


def _place(ctx: ToolContext, folder: str, rest: str) -> SearchRoot:
    try:
        resolved = ctx.place(folder)
    except Denied:
        if any(char in "*?[{" for char in rest):
            raise
        # A single file that is named may be allowed where its folder is not: then only it is looked for.
        return search_root(ctx.workspace, ctx.place(f"{folder}{rest}"))
    shown = relative(ctx.workspace, resolved.real)
    if not resolved.refusal and not os.path.lexists(resolved.real):
        raise missing(resolved.real, shown, way="")
    place = search_root(ctx.workspace, resolved)
    if place.is_file:
        raise ToolError(f"{shown} is a file; give Glob a folder, or Read the file.")
    return place
