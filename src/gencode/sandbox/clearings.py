"""sandbox: folders that are cleared for a command, so that a name can be made in them that is not there.

Nothing is made outside. What is in the folder is seen in the cleared one, too.
"""

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from gencode.sandbox.guards import kind
from gencode.sandbox.plan import Alias

MOST_ENTRIES = 400
"""A folder with more in it is not cleared: each entry is mounted by itself."""


class Clearing(Struct, frozen=True):
    """A folder in which a name has to be made, and what else is in it: files, folders and links."""

    folder: Path
    entries: tuple[str, ...]
    links: tuple[tuple[str, str], ...]


def clearings(aliases: Iterable[Alias]) -> list[Clearing]:
    """The folders in which the names are missing, the outer ones first."""
    folders = {nearest(alias.name) for alias in aliases} - {alias.name for alias in aliases}
    return [_cleared(folder) for folder in sorted(folders, key=lambda each: len(each.parts))]


def nearest(name: Path) -> Path:
    """The name itself, or the folder above it that is there; OSError where a file is in the way."""
    near = next(each for each in (name, *name.parents) if os.path.lexists(each))
    if not stat.S_ISDIR(kind(near)):
        raise NotADirectoryError(str(near))
    return near


def listed(folder: Path) -> list[str]:
    """What is in a folder, or one more than is ever taken."""
    names: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            names.append(entry.name)
            if len(names) > MOST_ENTRIES:
                break
    return names


def _cleared(folder: Path) -> Clearing:
    entries: list[str] = []
    links: list[tuple[str, str]] = []
    for name in sorted(listed(folder)):
        path = folder / name
        if path.is_symlink():
            links.append((name, os.readlink(path)))  # noqa: PTH115  (a Path would spell it anew)
        else:
            entries.append(name)
    return Clearing(folder, tuple(entries), tuple(links))
