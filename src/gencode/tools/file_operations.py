"""get_file_info, delete_file and move_file, one file at a time; folders and links stay where they are."""

import asyncio
import hashlib
import os
import stat
from datetime import UTC, datetime
from typing import Annotated, BinaryIO

from gencode.agent.toolbox import Param, ToolContext, ToolOutput, tool
from gencode.core.errors import ToolError
from gencode.core.messages import FileChange, FileSeen, Trace
from gencode.files.safe_files import PathMissing, identity_of, look_at, move_file, remove_file
from gencode.permissions.paths import Resolved
from gencode.tools.file_changes import CancelFlag, apply_change, as_seen, known_as, run_to_completion
from gencode.tools.files import missing, open_file, printable, relative, size_text

GONE = ""
"""Instead of a hash in a receipt: the file is not there any more."""
_CHUNK = 1024 * 1024


async def preview_delete(ctx: ToolContext, path: str) -> str:
    """What would be deleted."""
    return await run_to_completion(lambda _: f"Deletes {_described(ctx, path)}.")


async def preview_move(ctx: ToolContext, source: str, destination: str) -> str:
    """What would be moved, and where to."""
    there = ctx.place(destination).real
    return await run_to_completion(
        lambda _: f"Moves {_described(ctx, source)} to {relative(ctx.workspace, there)}."
    )


@tool(effect="write", name="delete_file", preview=preview_delete, on_request=True)
async def DELETE_FILE(ctx: ToolContext, path: Annotated[str, Param(also=("file_path",))]) -> ToolOutput:
    """Delete one file that you have Read. This cannot be undone."""
    return await apply_change(ctx, lambda wanted: _delete(ctx, path, wanted))


@tool(effect="write", name="move_file", preview=preview_move, on_request=True)
async def MOVE_FILE(
    ctx: ToolContext,
    source: Annotated[str, Param("The file as it is called now", also=("from", "src", "source_path"))],
    destination: Annotated[
        str, Param("Its whole new path; nothing may be there yet", also=("to", "dest", "destination_path"))
    ],
) -> ToolOutput:
    """Move or rename one file. Missing folders are created."""
    return await run_to_completion(lambda wanted: _move(ctx, source, destination, wanted))


def _delete(ctx: ToolContext, path: str, wanted: CancelFlag) -> ToolOutput:
    place, shown = _own_place(ctx, path)
    with open_file(place, shown) as file:
        state = as_seen(ctx, place, file)
    wanted.check()
    ctx.keep_before((place.real, GONE))
    remove_file(place, expected=state)
    ctx.seen.deleted(place.real)
    return ToolOutput(f"Deleted {shown}.", Trace(changed=(FileChange(shown, GONE),)))


def _move(ctx: ToolContext, source: str, destination: str, wanted: CancelFlag) -> ToolOutput:
    here, old = _own_place(ctx, source)
    there, new = _own_place(ctx, destination)
    if os.path.lexists(there.real):
        what = "is a folder; give the whole new path" if os.path.isdir(there.real) else "exists already"  # noqa: PTH112
        raise ToolError(f"{new} {what}; nothing was moved.")
    with open_file(here, old) as file:
        state, digest = identity_of(file), _hash(file, wanted)
    wanted.check()
    ctx.keep_before((here.real, GONE), (there.real, digest))
    moved = move_file(here, there, expected=state)
    known: tuple[FileSeen, ...] = ()
    if ctx.seen.state(here.real) == state:
        ctx.seen.wrote(there.real, moved, digest)
        known = known_as(new, there.real, digest)
    ctx.seen.deleted(here.real)
    changed = (FileChange(old, GONE), FileChange(new, digest))
    return ToolOutput(f"Moved {old} to {new}.", Trace(changed=changed, seen=known))


def _own_place(ctx: ToolContext, path: str) -> tuple[Resolved, str]:
    """A checked path that is not a link: the target of a link has to be named itself."""
    place = ctx.place(path)
    shown = relative(ctx.workspace, place.real)
    if os.path.islink(place.lexical):  # noqa: PTH114 – never raises
        link = relative(ctx.workspace, place.lexical)
        raise ToolError(f"{link} is a link to {shown}; give the path of the file itself.")
    return place, shown


def _described(ctx: ToolContext, path: str) -> str:
    place, shown = _own_place(ctx, path)
    with open_file(place, shown) as file:
        return f"{shown}, {size_text(os.fstat(file.fileno()).st_size)}"


def _hash(file: BinaryIO, wanted: CancelFlag) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(_CHUNK):
        wanted.check()
        digest.update(chunk)
    return digest.hexdigest()


@tool(effect="read", name="get_file_info", on_request=True)
async def GET_FILE_INFO(
    ctx: ToolContext, path: Annotated[str, Param("A file or folder", also=("file_path",))]
) -> str:
    """Show the kind, size, permissions and last change of a path. For its content use Read."""
    return await asyncio.to_thread(_told, ctx, path)


def _told(ctx: ToolContext, path: str) -> str:
    place = ctx.place(path)
    shown = relative(ctx.workspace, place.real)
    try:
        found = look_at(place)
    except PathMissing:
        raise missing(place.real, shown) from None
    folder = stat.S_ISDIR(found.st_mode)
    lines = [shown, f"Kind: {'folder' if folder else 'file'}"]
    if os.path.islink(place.lexical):  # noqa: PTH114 – never raises
        lines.append(f"Link: {printable(relative(ctx.workspace, place.lexical))}")
    if not folder:
        lines.append(f"Size: {size_text(found.st_size)} ({found.st_size:,} bytes)")
    lines.append(f"Modified: {datetime.fromtimestamp(found.st_mtime, UTC):%Y-%m-%dT%H:%M:%SZ}")
    lines.append(f"Permissions: {stat.filemode(found.st_mode)}")
    if not folder and found.st_nlink > 1:
        lines.append(f"Hard links: {found.st_nlink}")
    return "\n".join(lines)
