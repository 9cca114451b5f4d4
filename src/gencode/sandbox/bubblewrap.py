"""The bubblewrap sandbox: a file system, a process space and a network of the command's own.

A folder is cleared, and filled again with what was in it, where a name has to be made in it for an alias.
Nothing is made outside.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from gencode.sandbox.call_filter import call_filter
from gencode.sandbox.guarded_paths import file_mode
from gencode.sandbox.namespaces import COMES_AND_GOES
from gencode.sandbox.profile import SYSTEM_TMP, Access, FolderAlias, SandboxProfile, layers

MOST_ENTRIES = 400
"""A folder with more in it is not cleared: each entry is mounted by itself."""


class ClearedFolder(Struct, frozen=True):
    """A folder in which a name has to be made, and what else is in it: files, folders and links."""

    folder: Path
    entries: tuple[str, ...]
    links: tuple[tuple[str, str], ...]


def cleared_folders(aliases: Iterable[FolderAlias]) -> list[ClearedFolder]:
    """The folders in which the names are missing, the outer ones first."""
    folders = {nearest_existing(alias.name) for alias in aliases} - {alias.name for alias in aliases}
    return [_cleared(folder) for folder in sorted(folders, key=lambda each: len(each.parts))]


def nearest_existing(name: Path) -> Path:
    """The name itself, or the folder above it that is there; OSError where a file is in the way."""
    near = next(each for each in (name, *name.parents) if os.path.lexists(each))
    if not stat.S_ISDIR(file_mode(near)):
        raise NotADirectoryError(str(near))
    return near


def folder_entries(folder: Path) -> list[str]:
    """What is in a folder, or one more than is ever taken."""
    names: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            names.append(entry.name)
            if len(names) > MOST_ENTRIES:
                break
    return names


def _cleared(folder: Path) -> ClearedFolder:
    entries: list[str] = []
    links: list[tuple[str, str]] = []
    for name in sorted(folder_entries(folder)):
        path = folder / name
        if path.is_symlink():
            links.append((name, os.readlink(path)))  # noqa: PTH115  (a Path would spell it anew)
        else:
            entries.append(name)
    return ClearedFolder(folder, tuple(entries), tuple(links))


KEPT_OF_ROOT = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID")
"""What root still may inside: with files as with its own. All else goes, or it could take the wall down."""
_ROOT = Path("/")
_PROC = Path("/proc")
_SYS = Path("/sys")
_WRITABLE = 0o222
_OWN = frozenset({"dev", "proc"})
"""What bubblewrap makes anew in the root."""


_IGNORE_TERM = "trap '' TERM; "
_OPEN_FILTER = 'exec 9< <(printf %b "$0"); '
_FILTER_FILE = "9"


def enclose(
    program: str, shell: str, argv: Sequence[str], plan: SandboxProfile, *, env: str | None = None
) -> list[str]:
    """The command line that runs another one enclosed. `shell` is bash, which hands over the call filter.

    `env` is GNU env. A SIGTERM to everybody would end bubblewrap at once, and with it, by SIGKILL, a command
    that wanted to clean up. So bubblewrap ignores it, and the command does not.
    """
    calls = call_filter(own_processes=True)
    start = (_OPEN_FILTER if calls else "") + 'exec "$@"'
    wall = [program, *_options(plan), *(("--seccomp", _FILTER_FILE) if calls else ()), "--"]
    if env is not None and "=" not in argv[0]:
        start = _IGNORE_TERM + start
        wall += [env, "--default-signal=TERM"]
    return [shell, "-p", "-c", start, "".join(f"\\0{byte:o}" for byte in calls), *wall, *argv]


def _options(plan: SandboxProfile) -> Iterator[str]:
    yield from ("--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc")
    yield from ("--unshare-uts", "--unshare-cgroup-try")
    if not plan.network and not plan.joined:
        yield "--unshare-net"
    if os.geteuid() == 0:
        yield from ("--cap-drop", "ALL")
        for name in KEPT_OF_ROOT:
            yield from ("--cap-add", name)
    places = layers(plan)
    cleared = cleared_folders(plan.aliases)
    if not any(each.folder == _ROOT for each in cleared):
        yield from ("--bind" if (_ROOT, Access.WRITE) in places else "--ro-bind", "/", "/")
    for each in cleared:
        yield from _clear(each)
    yield from ("--dev", "/dev", "--proc", "/proc")
    if plan.private_tmp:
        yield from ("--bind", str(plan.temp), str(SYSTEM_TMP))
    for place, access in places:
        yield from _layer(place, place, access)
    masks = [str(place) for place, access in places if _is_mask(place, access)]
    for alias in plan.aliases:
        yield from ("--ro-bind", str(alias.folder), str(alias.name))
        inside = [(place, access) for place, access in places if place.is_relative_to(alias.folder)]
        for place, access in inside:
            seen = alias.name / place.relative_to(alias.folder)
            yield from _layer(place, seen, access)
            masks += [str(seen)] if _is_mask(place, access) else []
    for path in _kernel(places):
        yield from ("--ro-bind-try", path, path)
    for path in (*masks, *(str(each.folder) for each in cleared)):
        yield from ("--remount-ro", path)
    yield from ("--setenv", "TMPDIR", str(SYSTEM_TMP if plan.private_tmp else plan.temp))


def _kernel(places: Sequence[tuple[Path, Access]]) -> Iterator[str]:
    """Where files are settings of the whole machine: they are never the command's, whatever else is.

    Bubblewrap covers some of it by itself, but for root not `/proc/sys`, where a file names a program that
    the kernel starts outside of all walls. Root opens every file for writing, others what they are let.
    What belongs to a process stays.
    """
    for entry in _PROC.iterdir() if _PROC.is_dir() else ():
        if entry.name.isdecimal() or entry.is_symlink():
            continue
        if os.geteuid() == 0 or stat.S_ISDIR(file_mode(entry)) or file_mode(entry) & _WRITABLE:
            yield str(entry)
    written = [place for place, access in places if access is Access.WRITE]
    if any(place == _ROOT or place.is_relative_to(_SYS) for place in written):
        yield str(_SYS)


def _layer(place: Path, seen: Path, access: Access) -> Iterator[str]:
    """What a place is to the command, where it is seen."""
    source, path = str(place), str(seen)
    match access:
        case Access.WRITE if place != _ROOT:
            yield from (f"--bind{_if_there(source)}", source, path)
        case Access.READ:
            yield from (f"--ro-bind{_if_there(source)}", source, path)
        case Access.HIDE if stat.S_ISDIR(file_mode(place)):
            yield from ("--tmpfs", path)
        case Access.HIDE:
            yield from ("--ro-bind", os.devnull, path)
        case Access.WRITE:
            pass


def _is_mask(place: Path, access: Access) -> bool:
    return access is Access.HIDE and stat.S_ISDIR(file_mode(place))


def _clear(clearing: ClearedFolder) -> Iterator[str]:
    """A folder with the same in it, in which more can be made. The root is one from the beginning."""
    folder = clearing.folder
    if folder != _ROOT:
        yield from ("--tmpfs", str(folder))
    for name in clearing.entries:
        if folder != _ROOT or name not in _OWN:
            path = str(folder / name)
            yield from ("--ro-bind-try", path, path)
    for name, target in clearing.links:
        yield from ("--symlink", target, str(folder / name))


def _if_there(path: str) -> str:
    """What git knows of a linked worktree may be gone by the time the command starts."""
    return "-try" if COMES_AND_GOES in path else ""
