"""Opens files and folders for tools, with hints when one does not exist, and formats paths and sizes."""

import os
import stat
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from gencode.core.errors import ToolError
from gencode.core.spec import Workspace
from gencode.core.text import counted
from gencode.files import safe_files
from gencode.files.safe_files import PathMissing, open_for_reading
from gencode.permissions.paths import Resolved

MOST_NEAREST = 3
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
        return counted(size, "byte")
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
            message = f"{shown} is a folder; find files in it with Glob."
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
    """Whether there is a folder at a checked path at this moment."""
    return not resolved.refusal and os.path.isdir(resolved.real)  # noqa: PTH112 – never raises


def missing(path: str, shown: str, *, way: str = "; find it with Glob first") -> ToolError:
    """The error for a path that does not exist, with the nearest names, or else a way to find it."""
    folder, name = os.path.split(path)
    try:
        with os.scandir(folder) as entries:
            names = [printable(entry.name) for entry in islice(entries, 5_000)]
    except NotADirectoryError:
        return ToolError(f"{shown} does not exist: {printable(Path(folder).name)} is a file, not a folder.")
    except OSError:
        return ToolError(f"{shown} does not exist, nor does its folder{way}.")
    near = _nearest(name, names)
    beside = f"{os.path.dirname(shown)}/" if "/" in shown else ""  # noqa: PTH120 – as it was written
    close = ", ".join(f"{beside}{each}" for each in near)
    hint = f"; did you mean {close}?" if close else f"{way}."
    return ToolError(f"{shown} does not exist{hint}")


def _nearest(name: str, names: Sequence[str]) -> list[str]:
    """The names that this one may be a misspelling of, without regard to the suffix."""
    folded = {each.casefold(): each for each in sorted(names, reverse=True)}
    stems: dict[str, list[str]] = {}
    for each in folded:
        stems.setdefault(os.path.splitext(each)[0], []).append(each)  # noqa: PTH122
    wanted = os.path.splitext(name.casefold())[0]  # noqa: PTH122
    close = get_close_matches(wanted, stems, n=MOST_NEAREST, cutoff=0.7)
    return [folded[each] for stem in close for each in sorted(stems[stem])][:MOST_NEAREST]
