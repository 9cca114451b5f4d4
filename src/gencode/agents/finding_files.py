"""Agents room: the agent files of the user, folder by folder. Links are followed there, within bounds."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from gencode.agents.places import dialect
from gencode.agents.yaml_reader import mistake
from gencode.permissions.agent_folders import USER_CONFIGS, USER_FOLDERS
from gencode.runtime.prompt import one_line

MOST_FILES = 5_000
DEEPEST = 8
_PASSED_OVER = frozenset((".git", "node_modules", "__pycache__"))


class CandidateFile(NamedTuple):
    """A file that may hold an agent of a dialect, or a folder with what is wrong with it."""

    path: Path
    dialect: str
    problem: str = ""


def users_files(home: Path, user: Path | None) -> Iterator[CandidateFile]:
    """The user's own agent files: those for GenCode in `home`, those of other products below `user`."""
    yield from _in_folder(home / "agents", "gencode", (".md",), deep=False)
    for name, folder in USER_FOLDERS if user is not None else ():
        if os.path.lexists(place := f"{user}/{folder}"):
            yield from _in_folder(Path(place), name, dialect(name).endings, deep=True)
    for config in USER_CONFIGS if user is not None else ():
        if os.path.lexists(place := f"{user}/{config}"):
            yield CandidateFile(Path(place), "opencode")


def unreadable(path: Path, error: OSError) -> str:
    """What to say about a file or folder that cannot be read."""
    return str(mistake(str(path), f"it cannot be read: {one_line(error.strerror or str(error), 200)}"))


def _in_folder(folder: Path, name: str, endings: tuple[str, ...], *, deep: bool) -> Iterator[CandidateFile]:
    waiting, count = [(folder, DEEPEST if deep else 0)], 0
    been: set[tuple[int, int]] = set()
    while waiting and count < MOST_FILES:
        here, deeper = waiting.pop(0)
        try:
            place = here.stat()
            if (place.st_dev, place.st_ino) in been:  # a link that leads back
                continue
            been.add((place.st_dev, place.st_ino))
            with os.scandir(here) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            yield CandidateFile(here, name, unreadable(here, error))
            continue
        for entry in entries:
            if entry.name.startswith(".") or entry.name in _PASSED_OVER:
                continue
            if deeper and _is_folder(entry):
                waiting.append((here / entry.name, deeper - 1))
            elif entry.name.endswith(endings):
                count += 1
                yield CandidateFile(here / entry.name, name)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False
