"""Opens, replaces, moves and deletes files, only at the path where permission was checked (no races).

A checked path has no links left in it, so none may appear: every folder on the way is opened relative to the
one before, without following links, and the opened file is compared with the checked one. If a folder or file
is exchanged for a link in between, there is an error, never another file. A file is replaced completely or
not at all. These calls block; call them in a thread.
"""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import BinaryIO, Literal

from msgspec import Struct

from gencode.core.errors import ToolError
from gencode.permissions.paths import Resolved, shown
from gencode.permissions.whole_files import FileDraft

MOST_NEW_FOLDERS = 64
_PATH_ONLY: int = getattr(os, "O_PATH", os.O_RDONLY)
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not blocking, so that a pipe that takes the place of a file cannot hold us.
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class PathMissing(ToolError):
    """The path, or a folder on the way to it, does not exist."""


class FileChanged(ToolError):
    """The file at the path is not the one that was checked or read."""


class FileIdentity(Struct, frozen=True):
    """The identity and state of a file: a different one means that it was changed or replaced."""

    device: int
    inode: int
    changed_ns: int
    size: int
    touched_ns: int
    """The time of the last change of any kind: no program can set it."""


ALONE_SECONDS = 5.0
"""How long a change waits for another one in the same folder."""
Expected = FileIdentity | Literal["absent"] | None
"""What must be there before a file is replaced; None for anything."""


def identity_of(file: BinaryIO) -> FileIdentity:
    """The identity of an open file."""
    return _identity(os.fstat(file.fileno()))


def state_of(path: str) -> FileIdentity | None:
    """The identity of what is at a path at this moment; None without anything."""
    try:
        return _identity(os.lstat(path))
    except (OSError, ValueError):
        return None


def open_for_reading(resolved: Resolved) -> BinaryIO:
    """Open the regular file at a checked path."""
    try:
        with _folder_above(resolved) as (folder, name):
            handle = _open_file(folder, name, os.O_RDONLY, resolved)
    except OSError as error:
        raise _trouble(error, resolved, "read") from None
    return os.fdopen(handle, "rb")


def open_folder(resolved: Resolved) -> int:
    """Open the folder at a checked path, for listing it; the caller closes it."""
    try:
        with _folder_above(resolved) as (folder, name):
            return _step(folder, name or ".", os.O_RDONLY, resolved)
    except OSError as error:
        raise _trouble(error, resolved, "read") from None


def replace_file(
    resolved: Resolved, data: bytes, *, expected: Expected = None, mode: int = 0o666
) -> FileIdentity:
    """Write a whole file at a checked path, with its folders; on an error everything stays as it was.

    A new file has this mode, as far as the umask allows.
    """
    try:
        with _folder_above(resolved, make=True) as (folder, name):
            before = _present(folder, name, resolved)
            _check_expected(before, expected, resolved)
            with _new_file(folder, data, before, mode) as draft, _alone(folder, resolved):
                _check_again(folder, name, before, resolved)
                draft.rename(name)
                return _identity(os.fstat(draft.handle))
    except OSError as error:
        raise _trouble(error, resolved, "changed") from None


def look_at(resolved: Resolved) -> os.stat_result:
    """The status of the file or folder at a checked path, without opening it."""
    try:
        with _folder_above(resolved) as (folder, name):
            found = os.stat(name or ".", dir_fd=folder, follow_symlinks=False)
    except OSError as error:
        raise _trouble(error, resolved, "read") from None
    if stat.S_ISDIR(found.st_mode):
        return found
    _check_regular(found, resolved)
    return found


def remove_file(resolved: Resolved, *, expected: FileIdentity) -> None:
    """Delete the file at a checked path, if it is still in this state."""
    try:
        with _folder_above(resolved) as (folder, name):
            before = os.stat(name or ".", dir_fd=folder, follow_symlinks=False)
            _check_regular(before, resolved)
            _check_expected(before, expected, resolved)
            with _alone(folder, resolved):
                _check_again(folder, name, before, resolved)
                os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        raise _changed(resolved) from None
    except OSError as error:
        raise _trouble(error, resolved, "deleted") from None


def move_file(source: Resolved, target: Resolved, *, expected: FileIdentity) -> FileIdentity:
    """Move the file at one checked path to another that is free; its folders are made."""
    try:
        with _folder_above(source) as (folder, name), _folder_above(target, make=True) as (there, new):
            before = os.stat(name or ".", dir_fd=folder, follow_symlinks=False)
            _check_regular(before, source)
            _check_expected(before, expected, source)
            # Only one folder is held: both may be the same one.
            with _alone(folder, source):
                _check_again(folder, name, before, source)
                _check_again(there, new, None, target)
                # A second name first: unlike a rename it never takes the place of a file that just appeared.
                os.link(name, new, src_dir_fd=folder, dst_dir_fd=there, follow_symlinks=False)
                try:
                    os.unlink(name, dir_fd=folder)
                except OSError:
                    os.unlink(new, dir_fd=there)
                    raise
                return _identity(os.stat(new, dir_fd=there, follow_symlinks=False))
    except OSError as error:
        raise _not_moved(error, source, target) from None


@contextmanager
def _folder_above(resolved: Resolved, *, make: bool = False) -> Generator[tuple[int, str]]:
    """The folder of a checked path, opened, and the last name; folders made for a file that could not be
    written are removed again.
    """
    *above, name = _components(resolved) or [""]
    made: list[tuple[int, str]] = []
    handle = os.open("/", _PATH_ONLY | _FOLDER)
    try:
        for part in above:
            if make and _make_folder(handle, part, len(made)):
                made.append((os.dup(handle), part))
            below = _step(handle, part, _PATH_ONLY, resolved)
            os.close(handle)
            handle = below
        yield handle, name
        made = _kept(made)
    finally:
        os.close(handle)
        for parent, part in reversed(made):
            with suppress(OSError):
                os.rmdir(part, dir_fd=parent)
        _kept(made)


def _components(resolved: Resolved) -> list[str]:
    """The names in a checked path; ToolError for one that no tool may open."""
    name = _said(resolved)
    if resolved.refusal or not resolved.real.startswith("/"):
        raise ToolError(f"{name} cannot be opened: {resolved.refusal or 'it was not judged'}.")
    if resolved.twin is not None:
        raise ToolError(f"{name} goes through a link and back up with `..`; write the path without `..`.")
    if resolved.special:
        raise ToolError(f"{name} is a device, a pipe or a socket, not a file; it cannot be opened.")
    return [part for part in resolved.real.split("/") if part]


def _make_folder(handle: int, part: str, already: int) -> bool:
    try:
        os.stat(part, dir_fd=handle, follow_symlinks=False)
    except FileNotFoundError:
        if already >= MOST_NEW_FOLDERS:
            message = f"More than {MOST_NEW_FOLDERS} folders on the way are missing; check the path."
            raise ToolError(message) from None
        with suppress(FileExistsError):
            os.mkdir(part, dir_fd=handle)
            return True
    return False


def _kept(made: list[tuple[int, str]]) -> list[tuple[int, str]]:
    """Close the folders that were made, and keep them."""
    for parent, _ in made:
        os.close(parent)
    return []


def _step(handle: int, part: str, access: int, resolved: Resolved) -> int:
    """Open the next folder; a link is never followed."""
    try:
        return os.open(part, access | _FOLDER, dir_fd=handle)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        found = os.stat(part, dir_fd=handle, follow_symlinks=False)
        if stat.S_ISREG(found.st_mode):
            raise PathMissing(
                f"{_said(resolved)} is not there: {shown(part)} is a file, not a folder."
            ) from None
        raise _changed(resolved) from None


def _open_file(folder: int, name: str, access: int, resolved: Resolved) -> int:
    """Open a regular file that is the checked one."""
    seen = os.stat(name or ".", dir_fd=folder, follow_symlinks=False)
    _check_regular(seen, resolved)
    handle = os.open(name, access | _FILE, dir_fd=folder)
    try:
        opened = os.fstat(handle)
        _check_regular(opened, resolved)
        if (opened.st_dev, opened.st_ino) != (seen.st_dev, seen.st_ino):
            raise _changed(resolved)
    except ToolError:
        os.close(handle)
        raise
    return handle


def _check_regular(found: os.stat_result, resolved: Resolved) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise ToolError(f"{_said(resolved)} is a folder, not a file.")
    # The judged path was no link and nothing special; a name more means that it is another file.
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > max(resolved.hard_links, 1):
        raise _changed(resolved)


def _present(folder: int, name: str, resolved: Resolved) -> os.stat_result | None:
    """The status of the file that will be replaced, if there is one and it may be written."""
    try:
        handle = _open_file(folder, name, os.O_WRONLY, resolved)
    except FileNotFoundError:
        return None
    try:
        return os.fstat(handle)
    finally:
        os.close(handle)


def _check_expected(before: os.stat_result | None, expected: Expected, resolved: Resolved) -> None:
    name = _said(resolved)
    if expected is None:
        return
    if expected == "absent":
        if before is not None:
            raise FileChanged(f"{name} exists already; read it first, then change it.")
    elif before is None:
        raise FileChanged(f"{name} was deleted since it was read; look for it with Glob.")
    elif _identity(before) != expected:
        raise FileChanged(f"{name} changed since it was read; read it again first.")


@contextmanager
def _alone(folder: int, resolved: Resolved) -> Generator[None]:
    """Lock a folder between the last check and the change, so that only one writer is in between."""
    until = time.monotonic() + ALONE_SECONDS
    try:
        handle = os.open(".", os.O_RDONLY | _FOLDER, dir_fd=folder)
    except OSError:  # it may be writable but not readable, so that it cannot be locked
        yield
        return
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > until:
                os.close(handle)
                busy = f"{_said(resolved)} is being changed by another program; try again."
                raise ToolError(busy) from None
            time.sleep(0.002)
        except OSError:  # a file system without locks
            break
    try:
        yield
    finally:
        os.close(handle)


@contextmanager
def _new_file(folder: int, data: bytes, before: os.stat_result | None, mode: int) -> Generator[FileDraft]:
    """A new file with these bytes in a folder, to be renamed."""
    # A replacement is readable for its owner only until it has the rights of the old file.
    with FileDraft(folder, mode & 0o777 if before is None else 0o600) as draft:
        draft.write(data)
        if before is not None:
            _take_rights(draft.handle, before)
        draft.sync()
        yield draft


def _take_rights(handle: int, before: os.stat_result) -> None:
    """Set owner, group and mode of the old file, as far as the system allows; never wider ones."""
    mode = stat.S_IMODE(before.st_mode) & 0o777
    for owner, group in ((before.st_uid, -1), (-1, before.st_gid)):
        with suppress(PermissionError):
            os.fchown(handle, owner, group)
    if os.fstat(handle).st_gid != before.st_gid:
        mode &= 0o707 | (mode & 0o007) << 3
    os.fchmod(handle, mode)


def _check_again(folder: int, name: str, before: os.stat_result | None, resolved: Resolved) -> None:
    """The last check before the new file replaces the old: same folder, same path, same file."""
    try:
        with _folder_above(resolved) as (again, _):
            same_folder = os.path.samestat(os.fstat(again), os.fstat(folder))
    except (OSError, PathMissing):
        same_folder = False
    try:
        now = _identity(os.stat(name, dir_fd=folder, follow_symlinks=False))
    except FileNotFoundError:
        now = None
    if not same_folder or now != (None if before is None else _identity(before)):
        raise _changed(resolved)


def _identity(found: os.stat_result) -> FileIdentity:
    return FileIdentity(found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size, found.st_ctime_ns)


def _said(resolved: Resolved) -> str:
    text = resolved.text
    return text if text.isprintable() and 0 < len(text) <= 200 else shown(text)


def _changed(resolved: Resolved) -> ToolError:
    return FileChanged(f"{_said(resolved)} changed while it was being opened; try again.")


def _not_moved(error: OSError, source: Resolved, target: Resolved) -> ToolError:
    """Why a file was not moved."""
    match error.errno:
        case errno.EXDEV:
            return ToolError(f"{_said(target)} is on another disk; write it there and delete the old one.")
        case errno.EEXIST:
            return ToolError(f"{_said(target)} exists already; delete it first, or choose another name.")
        case errno.EPERM | errno.ENOTSUP:
            why = f"the system refuses it ({error.strerror})"
            return ToolError(f"{_said(source)} cannot be moved here: {why}; write it there and delete it.")
        case _:
            return _trouble(error, source, "moved")


def _trouble(error: OSError, resolved: Resolved, done: str) -> ToolError:
    """A system error about a path, as a sentence the model can act on."""
    name = _said(resolved)
    if error.errno == errno.ENOENT and done == "read":
        return PathMissing(f"{name} does not exist; find it with Glob first.")
    if error.errno in (errno.ENOENT, errno.ELOOP):
        return _changed(resolved)
    if error.errno in _FULL:
        return ToolError(f"There is no room for {name} on the disk ({error.strerror}); nothing was changed.")
    if error.errno in _REFUSED:
        return ToolError(f"{name} may not be {done}: the system refuses it ({error.strerror}).")
    return ToolError(f"{name} cannot be {done}: {error.strerror}.")
