"""Opens files and folders for tools, with hints when one does not exist, and formats paths and sizes."""

import os
import stat
from collections.abc import Callable
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from gencode.core.errors import ToolError
from gencode.core.spec import Workspace
from gencode.files import safe_files
from gencode.files.safe_files import PathMissing, open_for_reading
from gencode.permissions.paths import Resolved

_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_KINDS = {
    stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def relative(workspace: Workspace, path: str) -> str:
    """A path as results show it: from the working directory where inside, absolute otherwise."""
    return names_from(workspace)(path)


def names_from(workspace: Workspace) -> Callable[[str], str]:
    """The same for many paths; the working directory is looked up once."""
    cwd = os.path.realpath(workspace.cwd)
    inside = cwd.rstrip("/") + "/"

    def name(path: str) -> str:
        return "." if path == cwd else printable(path.removeprefix(inside))

    return name


def spoken(shown: str) -> str:
    """A displayed path for the middle of a sentence."""
    return "the working directory" if shown == "." else shown


def printable(name: str) -> str:
    """A file name on one line: bytes that are not UTF-8 as `\\xff`, what cannot be seen escaped."""
    return name if name.isprintable() else "".join(map(_visible, name))


def _visible(char: str) -> str:
    code = ord(char)
    if char.isprintable():
        return char
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return _ESCAPES.get(char) or (f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


def size_text(size: int) -> str:
    """A size for people: `512 bytes`, `1.2 KB`, `3.4 GB`."""
    if size < 1_000:
        return "1 byte" if size == 1 else f"{size} bytes"
    for power, unit in ((1, "KB"), (2, "MB"), (3, "GB")):
        if size < 999.95 * 1_000**power:
            return f"{size / 1_000**power:.1f} {unit}"
    return f"{size / 1_000**4:,.1f} TB"


def kind_text(mode: int) -> str:
    """What a thing that is neither file, folder nor link is called."""
    return _KINDS.get(stat.S_IFMT(mode), "special file")


def open_file(resolved: Resolved, shown: str) -> BinaryIO:
    """Open the regular file at a judged path; errors say what to do instead."""
    try:
        return open_for_reading(resolved)
    except PathMissing:
        raise missing(resolved.real, shown) from None
    except ToolError:
        if is_folder(resolved):
            message = f"{shown} is a folder; list it with LS or find files in it with Glob."
            raise ToolError(message) from None
        raise


def open_folder(resolved: Resolved, shown: str) -> int:
    """Open the folder at a judged path; the caller closes the handle."""
    try:
        return safe_files.open_folder(resolved)
    except PathMissing:
        if os.path.lexists(resolved.real):
            raise ToolError(f"{shown} is not a folder; use Read for a file.") from None
        raise missing(resolved.real, shown) from None


def is_folder(resolved: Resolved) -> bool:
    """Whether there is a folder at a judged path just now; whoever opens it finds out for sure."""
    return not resolved.refusal and os.path.isdir(resolved.real)  # noqa: PTH112 – never raises


def missing(path: str, shown: str) -> ToolError:
    """The error for a path that does not exist, with the nearest names in its folder."""
    folder, name = os.path.split(path)
    try:
        with os.scandir(folder) as entries:
            names = [printable(entry.name) for entry in islice(entries, 5_000)]
    except NotADirectoryError:
        return ToolError(f"{shown} does not exist: {printable(Path(folder).name)} is a file, not a folder.")
    except OSError:
        return ToolError(f"{shown} does not exist, nor does its folder; find it with Glob first.")
    folded = {each.casefold(): each for each in sorted(names, reverse=True)}
    close = [folded[each] for each in get_close_matches(name.casefold(), folded, n=5, cutoff=0.5)]
    hint = f"did you mean {', '.join(close)}?" if close else "find it with Glob first."
    return ToolError(f"{shown} does not exist; {hint}")
