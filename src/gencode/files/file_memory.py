"""Runtime room: the files that an agent knew in its earlier runs, held against what is on the disk."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from msgspec.structs import astuple

from gencode.core.errors import ToolError
from gencode.core.messages import FileSeen, Message, ToolMessage
from gencode.core.spec import Workspace
from gencode.files.file_versions import MOST_CHANGES, SeenFiles
from gencode.files.openers import FileIdentity, identity_of, open_for_reading
from gencode.permissions.paths import resolve

CHUNK = 1 << 20
ANOTHER = FileIdentity(0, 0, 0, 0, 0)
"""The state of a file that is not as it was: no file has it."""


def as_text(state: FileIdentity) -> str:
    """A state as journals keep it: its numbers are too large for some that read JSON."""
    return ":".join(f"{number:x}" for number in astuple(state))


def recall(seen: SeenFiles, files: Iterable[FileSeen], workspace: Workspace) -> None:
    """Let an agent know files again that it knew: as they are, if they are as they were then.

    Of any other one it knows that it was changed. This blocks: files are read for it.
    """
    for known in files:
        path = str(Path(os.path.realpath(workspace.cwd), known.path))
        place = resolve(path, workspace)
        if place.refusal or place.real != path:  # a link by now, and so another file
            continue
        if not seen.knows(path, known.sha256):
            seen.note(path, _as_known(known, path, workspace), known.sha256)


def last_known(transcript: Iterable[Message]) -> list[FileSeen]:
    """Every file that calls let their agent know, as after the last of them."""
    found: dict[str, FileSeen] = {}
    for message in transcript:
        for result in message.results if isinstance(message, ToolMessage) else ():
            for change in result.trace.changed:
                if not change.sha256:  # deleted or moved away by this agent
                    found.pop(change.path, None)
            for each in result.trace.seen:
                found.pop(each.path, None)
                found[each.path] = each
    return [*found.values()][-MOST_CHANGES:]


def _as_known(known: FileSeen, path: str, workspace: Workspace) -> FileIdentity:
    """The state of a file now, if what is in it is what was known of it."""
    try:
        with open_for_reading(resolve(path, workspace)) as file:
            state = identity_of(file)
            same = _hash(file) == known.sha256 if known.sha256 else as_text(state) == known.state
            return state if same and state == identity_of(file) else ANOTHER
    except (ToolError, OSError):
        return ANOTHER


def _hash(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()
