"""Glob: find files by name."""

import asyncio
from typing import Annotated

from msgspec import Meta

from gencode.agent.toolbox import ToolContext, tool
from gencode.core.errors import Denied, ToolError
from gencode.tools.file_search import Searcher, searcher_for
from gencode.tools.files import names_from, relative, spoken
from gencode.tools.glob_patterns import BadGlob, PathFilter, literal_prefix
from gencode.tools.output_page import OutputPage
from gencode.tools.search_listing import SearchListing, SearchRoot, search_root
from gencode.tools.search_records import FileSearch


@tool(effect="read", name="Glob")
async def GLOB(
    ctx: ToolContext,
    pattern: Annotated[str, "Such as `**/*.py`, `src/**/*.{ts,tsx}` or `*config*`"],
    path: Annotated[str | None, "The folder to look in; the working directory if left out"] = None,
    head_limit: Annotated[int, Meta(ge=0), "At most so many paths; 0: as many as fit"] = 200,
    offset: Annotated[int, Meta(ge=0), "How many paths to skip, to go on after a page"] = 0,
) -> str:
    """Find files by name. Gives one path per line, sorted.

    `*` stays within one path component, `**` spans any number; a pattern without `/` fits at any depth, one
    with `/` is tied to the folder (`./*.md`: only the folder itself). Hidden files are listed; folders, links
    and what ignore files (.gitignore, .ignore) name are not.
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
    return listing.text(f"No files fit {pattern!r} in {spoken(shown(place.path))}.")


def _place(ctx: ToolContext, folder: str, rest: str) -> SearchRoot:
    try:
        resolved = ctx.place(folder)
    except Denied:
        if any(char in "*?[{" for char in rest):
            raise
        # A single file that is named may be allowed where its folder is not: then only it is looked for.
        return search_root(ctx.workspace, ctx.place(f"{folder}{rest}"))
    place = search_root(ctx.workspace, resolved)
    if place.is_file:
        shown = relative(ctx.workspace, resolved.real)
        raise ToolError(f"{shown} is a file; give Glob a folder, or Read the file.")
    return place
