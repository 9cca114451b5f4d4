"""tools: paths as models write them, files opened without being led astray, names made printable."""

import errno
import os
import stat
from collections.abc import Callable
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from gencode.core.errors import ToolError
from gencode.core.spec import Workspace
from gencode.permissions.paths import meant

_PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY)
_FOLLOW_NONE: int = getattr(os, "O_NOFOLLOW_ANY", 0)
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_QUIET = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_KINDS = {
    stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


def resolve(workspace: Workspace, text: str) -> str:
    """The absolute path a model means, with every link resolved; the same one the gate has judged."""
    if not text.strip():
        raise ToolError("The path is empty; give the path of a file or folder.")
    if "\0" in text:
        raise ToolError("The path has a NUL character in it.")
    text = meant(text, workspace)
    if text == "~" or text.startswith("~/"):
        text = f"{workspace.home}/{text[2:]}"
    elif text.startswith("~"):
        raise ToolError(f"{text} is another person's home folder; write the path out.")
    joined = f"{workspace.cwd}/{text}" if not text.startswith("/") else text
    resolved = os.path.realpath(os.path.normpath(joined))
    if ".." in joined.split("/") and os.path.realpath(joined) != resolved:
        raise ToolError(f"{text} goes through a link and back up with `..`; write the path without `..`.")
    return resolved


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
    """A shown path in the middle of a sentence."""
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


def open_file(path: str, shown: str) -> tuple[int, os.stat_result]:
    """A handle on a regular file at a resolved path; no component of it may be a link."""
    folder, name = os.path.split(path)
    try:
        above = open_folder(folder) if name else open_folder(path)
    except OSError as error:
        raise trouble(error, path, shown) from None
    try:
        seen = os.stat(name or ".", dir_fd=above, follow_symlinks=False)
        _refuse_unless_regular(seen.st_mode, shown)
        handle = os.open(name, _QUIET, dir_fd=above)
    except OSError as error:
        raise trouble(error, path, shown) from None
    finally:
        os.close(above)
    opened = os.fstat(handle)
    if (opened.st_dev, opened.st_ino, stat.S_IFMT(opened.st_mode)) != (
        seen.st_dev,
        seen.st_ino,
        stat.S_IFREG,
    ):
        os.close(handle)
        raise ToolError(f"{shown} was changed while it was being opened; try again.")
    return handle, opened


def open_folder(path: str, *, listing: bool = False) -> int:
    """A handle on a folder at a resolved path; no component of it may be a link."""
    last = os.O_RDONLY if listing else _PATH_ONLY
    if _FOLLOW_NONE:
        return os.open(path, last | os.O_DIRECTORY | os.O_CLOEXEC | _FOLLOW_NONE)
    handle = os.open("/", _PATH_ONLY | _FOLDER)
    parts = [part for part in path.split("/") if part]
    for index, part in enumerate(parts or ["."]):
        access = last if index >= len(parts) - 1 else _PATH_ONLY
        try:
            below = os.open(part, access | _FOLDER, dir_fd=handle)
        finally:
            os.close(handle)
        handle = below
    return handle


def status_of(path: str, shown: str) -> os.stat_result:
    """What is known of a file or folder at a resolved path; anything else is refused."""
    try:
        status = Path(path).lstat()
    except OSError as error:
        raise trouble(error, path, shown) from None
    if not stat.S_ISDIR(status.st_mode):
        _refuse_unless_regular(status.st_mode, shown)
    return status


def _refuse_unless_regular(mode: int, shown: str) -> None:
    if stat.S_ISDIR(mode):
        raise ToolError(f"{shown} is a folder; list it with LS or find files in it with Glob.")
    if stat.S_ISLNK(mode):
        raise ToolError(f"{shown} is a link that leads in a circle, or was changed just now.")
    if not stat.S_ISREG(mode):
        raise ToolError(f"{shown} is a {kind_text(mode)}, not a file; it cannot be read.")


def trouble(error: OSError, path: str, shown: str) -> ToolError:
    """What the system said about a path, as a sentence a model can act on."""
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return _missing(path, shown)
    if error.errno in (errno.EACCES, errno.EPERM):
        return ToolError(f"{shown} may not be read: the system refuses it (permission denied).")
    if error.errno == errno.ELOOP:
        return ToolError(f"{shown} is a link that leads in a circle, or was changed just now.")
    return ToolError(f"{shown} cannot be read: {os.strerror(error.errno or 0)}.")


def _missing(path: str, shown: str) -> ToolError:
    """A path that is not there, with the nearest names in the same folder."""
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
