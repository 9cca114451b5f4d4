"""Text of rewinds: what one would change, and what it did."""

from collections.abc import Iterator
from pathlib import PurePath
from typing import TYPE_CHECKING

from gencode.core.text import visible_line
from gencode.interfaces.render.number_format import counted, local_time

if TYPE_CHECKING:
    from gencode.tasks.rewind import RewindFile, RewindPoint, RewindPreview, Rewound

MOST_SHOWN = 50
MOST_COMMANDS = 10
DOES = {"restore": "restore", "create": "bring back", "delete": "delete"}
STATES = {
    "ready": "",
    "changed": "changed since by you or another program",
    "lost": "cannot be restored: its content was not kept",
    "blocked": "cannot be restored: a link, a folder or a very large file is there now",
}


def point_text(point: "RewindPoint") -> str:
    """A point in one line."""
    return f"Undo the rewind of {local_time(point.at)}" if point.undo else visible_line(point.prompt, 200)


def preview_lines(preview: "RewindPreview", folder: str) -> Iterator[str]:
    """What a rewind would change, with paths from a folder."""
    yield f"Rewind to before: {point_text(preview.point)}"
    yield f"Conversation: {counted(preview.messages, 'message')} taken back"
    if not preview.files:
        yield "Files: no file would be changed"
    else:
        yield f"Files: {counted(len(preview.files), 'file')}"
        yield from (f"  {file_line(each, folder)}" for each in preview.files[:MOST_SHOWN])
        yield from _more(len(preview.files) - MOST_SHOWN)
    if preview.commands:
        yield "Not undone: what these commands did to files that no agent had read"
        yield from (f"  {visible_line(each, 100)}" for each in preview.commands[:MOST_COMMANDS])
        yield from _more(len(preview.commands) - MOST_COMMANDS)
    if preview.elsewhere:
        names = ", ".join(f"{visible_line(each.agent)} {each.id}" for each in preview.elsewhere)
        yield f"Not undone: changes of agents in a worktree or on another machine: {names}"


def file_line(file: "RewindFile", folder: str) -> str:
    """A file with what a rewind does to it."""
    path = PurePath(file.path)
    shown = str(path.relative_to(folder)) if path.is_relative_to(folder) else file.path
    lines = "binary" if file.added is None else f"+{file.added} -{file.removed}"
    does = f"{DOES[file.does]}, {lines}" if file.state in ("ready", "changed") else ""
    return f"{visible_line(shown)}: {'; '.join(filter(None, (does, STATES[file.state])))}"


def result_lines(done: "Rewound", folder: str) -> Iterator[str]:
    """What a rewind did."""
    if done.conversation:
        yield f"Conversation rewound to before: {point_text(done.preview.point)}"
    if done.restored:
        yield f"Files: {counted(len(done.restored), 'file')} put back"
    if done.left:
        yield f"Left as they are: {counted(len(done.left), 'file')}"
        yield from (f"  {file_line(each, folder)}" for each in done.left[:MOST_SHOWN])
        yield from _more(len(done.left) - MOST_SHOWN)
    yield from map(visible_line, done.problems[:MOST_SHOWN])
    if not (done.conversation or done.restored or done.left):
        yield "Nothing was changed: the files are as they were."


def _more(rest: int) -> Iterator[str]:
    if rest > 0:
        yield f"  … and {rest} more"
