"""Builds the folders and files that the path cases of a case file need, and removes them."""

import os
import shutil
import socket
import stat
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.permissions.paths import is_inside, shown
from gencode.permissions.secrets import (
    KERNEL_ROOTS,
    SYSTEM_ROOTS,
    folded,
    is_protected,
    is_secret,
    is_under,
)

FOLDERS = ("ws/src", "ws/.git/hooks", "ws/.gen", "home", "outside", "ws-old")
_ORDINARY = (None, "/tmp", "/var/tmp")  # noqa: S108 (a folder with a name of its own is made in one of them)


class Item(Struct, frozen=True):
    """One thing that has to be there: `t` is its kind, `p` its path; `to` is where a link leads."""

    t: Literal["file", "dir", "link", "hard", "fifo", "sock"]
    p: str
    text: str = ""
    to: str = ""


class CaseFolders:
    """A root for one case after the other. What a case needs is made for it and taken away again.

    Making and removing a whole tree for every case would take most of the time of a large file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        self.root = self._fresh()

    @contextmanager
    def built(self, setup: Sequence[Item]) -> Generator[None]:
        """The root with these items in it; UserMistake if one cannot be made, or would lie outside."""
        made: list[Path] = []
        try:
            for item in setup:
                _build(self.root, item, made)
            yield
        finally:
            self._undo(made)

    def _undo(self, made: list[Path]) -> None:
        try:
            for path in reversed(made):
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
        except OSError:
            shutil.rmtree(self.root, ignore_errors=True)
            self.root = self._fresh()

    def _fresh(self) -> Path:
        self._number += 1
        root = self._folder / str(self._number)
        for folder in FOLDERS:
            (root / folder).mkdir(parents=True)
        return root


@contextmanager
def scratch() -> Generator[CaseFolders]:
    """A place for roots; everything in it is gone afterwards."""
    with TemporaryDirectory(prefix="gc", dir=_ordinary_folder(), ignore_cleanup_errors=True) as folder:
        yield CaseFolders(Path(folder).resolve())


def _build(root: Path, item: Item, made: list[Path]) -> None:
    """Make one item, and remember it and every folder on the way to it."""
    try:
        place = _place(root, item.p)
        missing = [folder for folder in place.parents if not folder.exists()]
        made.extend(reversed(missing))
        place.parent.mkdir(parents=True, exist_ok=True)
        if not os.path.lexists(place):
            made.append(place)
        _make(root, place, item)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no file can have such a name"
        raise UserMistake(f"{item.t} {shown(item.p)} cannot be made: {reason}.") from None


def _ordinary_folder() -> str | None:
    """A place for temporary files that no rule of the specification speaks of."""
    for candidate in _ORDINARY:
        if candidate is not None and not Path(candidate).is_dir():
            continue
        with TemporaryDirectory(prefix="gc", dir=candidate) as folder:
            names = folded(str(Path(folder).resolve()))
        special = is_secret(names) or is_protected(names)
        if not special and not is_under(names, KERNEL_ROOTS) and not is_under(names, SYSTEM_ROOTS):
            return candidate
    raise UserMistake("There is no ordinary folder for temporary files; set TMPDIR to one.")


def _place(root: Path, path: str) -> Path:
    """Where an item goes: below the root, whatever links lead there."""
    if "\0" in path:
        raise ValueError(path)
    parent, name = os.path.split(path)
    inside = os.path.realpath(root / parent)
    plain = name not in ("", ".", "..") and not path.startswith("/")
    if not plain or not is_inside(inside, str(root)):
        raise UserMistake(f"The path {shown(path)} of an item does not stay below {{ROOT}}.")
    return Path(inside) / name


def _make(root: Path, place: Path, item: Item) -> None:
    match item.t:
        case "file":
            handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
            with os.fdopen(handle, "wb") as file:
                file.write(item.text.encode("utf-8", "surrogateescape"))
        case "dir":
            place.mkdir(exist_ok=True)
        case "link":
            place.symlink_to(item.to)
        case "hard":
            os.link(_place(root, item.to), place, follow_symlinks=False)
        case "fifo":
            os.mkfifo(place)
        case "sock":
            _socket(root, place)


def _socket(root: Path, place: Path) -> None:
    """A socket. Its address may only be short, so it is made at the top and moved."""
    first = root / "s"
    try:
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(str(first))
    except OSError:
        os.mknod(first, stat.S_IFSOCK | 0o600)
    first.rename(place)
