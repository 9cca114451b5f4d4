"""The working folders of each part of a command line, after its `cd`s.

A `cd` may fail, so without `&&` a part may run in every folder that the line could be in by then. What a
subshell does ends with it; what stands in a loop or a function may run again. Only `leaves` and
`in_other_repository` look at the disk.
"""

import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from gencode.permissions.bash.command_meanings import FolderChange
from gencode.permissions.bash.command_units import Unit
from gencode.permissions.bash.parts import Frame
from gencode.permissions.paths import is_inside
from gencode.permissions.patterns import Places
from gencode.permissions.secrets import KERNEL_ROOTS, folded, is_secret, is_under

_MOST_FOLDERS = 16
_GUARDED_ROOTS = KERNEL_ROOTS | {"etc"}


class WorkingFolders(NamedTuple):
    """Where a part may run.

    `folders` are those beside the workspace root to which its relative words may belong, `runs_in` those in
    which its command runs if it is not where the line began. `guard` says why it has to be asked about,
    whatever its words say; `unknown` that no list of folders is complete.
    """

    folders: tuple[str, ...] = ()
    runs_in: tuple[str, ...] = ()
    guard: str = ""
    unknown: bool = False


HERE = WorkingFolders()


class _Trail:
    """The folders that one shell of a line has come through.

    It is in one of `now`, or in one of `failed` if a `cd` of the chain that is being read did not work; what
    `&&` joins to such a `cd` does not run then.
    """

    __slots__ = ("chain", "failed", "folders", "full", "guard", "known", "moved", "now", "places", "unknown")

    def __init__(self, places: Places, folders: Iterable[str]) -> None:
        self.places = places
        self.folders = dict.fromkeys(folders)
        self.now = list(self.folders)
        self.failed: list[str] = []
        self.chain = 0
        self.known: WorkingFolders | None = None
        self.guard = ""
        self.moved = self.unknown = self.full = False

    def copy(self) -> "_Trail":
        made = _Trail(self.places, self.folders)
        made.guard, made.moved, made.unknown, made.full = self.guard, self.moved, self.unknown, self.full
        made.now = list(dict.fromkeys([*self.now, *self.failed]))
        return made

    def reach(self, chain: int) -> None:
        """Come to a part of a chain, 0 if it is in none."""
        if self.failed and (not chain or chain != self.chain):
            self.now = list(dict.fromkeys([*self.now, *self.failed]))
            self.failed = []
            self.known = None
        self.chain = chain

    def go(self, move: FolderChange, *, again: bool = False) -> None:
        """Follow a `cd`. `again`: it stands in a loop or a function, so it may run any number of times."""
        folder = move.folder
        if self.full:
            return
        self.moved = True
        self.known = None
        if move.back and self.failed:  # a `cd` before it has worked, so it leads to one of these
            self.now = list(self.folders)
            return
        if folder is None or (again and folder and not folder.startswith(("/", "~"))):
            self.unknown = True
            return
        reached = _joined(self.now, folder, self.places)
        self.failed = list(dict.fromkeys([*self.failed, *self.now]))
        self.now = reached
        self.folders.update(dict.fromkeys(reached))
        self.guard = self.guard or _guarded(reached)
        if len(self.folders) > _MOST_FOLDERS:
            self.unknown = self.full = True
            self.folders = dict.fromkeys([*self.folders][:_MOST_FOLDERS])
            self.now, self.failed = list(self.folders), []

    def stay(self, own: Sequence[str | None]) -> WorkingFolders:
        """Where a part runs that goes to the folders `own` by itself, one after the other."""
        if not own:
            self.known = self.known or self._stay(own)
            return self.known
        return self._stay(own)

    def _stay(self, own: Sequence[str | None]) -> WorkingFolders:
        if not self.moved and not own:
            return HERE
        guard, unknown = self.guard, self.unknown or None in own
        reached = self.now
        for folder in filter(None, own):
            reached = _joined(reached, folder, self.places)
            guard = guard or _guarded(reached)
        folders = [each for each in dict.fromkeys([*self.folders, *reached]) if each != self.places.root]
        guard = guard or ("it runs in a folder that is only known then" if unknown else "")
        return WorkingFolders(tuple(folders), tuple(dict.fromkeys(reached)), guard, unknown)


def working_folders(units: Sequence[Unit], places: Places) -> tuple[WorkingFolders, ...]:
    """Where each unit of a command line may run."""
    first = _Trail(places, filter(None, (places.root, places.cwd)))
    first.now = [places.cwd or places.root]
    trails: dict[Frame | None, _Trail] = {None: first}
    repeated = _repeated(units)
    found: list[WorkingFolders] = []
    for unit in units:
        trail = _entered(unit.part.frame, trails, repeated)
        trail.reach(unit.part.chain)
        found.append(trail.stay(unit.own))
        if unit.move is not None:
            trail.go(unit.move)
    if any(frame is not None and frame.kind == "function" for frame in trails):
        _put_off(units, found, trails.values(), places)
    return tuple(found)


def _repeated(units: Sequence[Unit]) -> dict[Frame, list[FolderChange]]:
    """What may be done again in each loop and function."""
    found: dict[Frame, list[FolderChange]] = {}
    for unit in units:
        frame = unit.part.frame if unit.move is not None else None
        while frame is not None and frame.kind != "subshell":
            if unit.move is not None:
                found.setdefault(frame, []).append(unit.move)
            frame = frame.outer
    return found


def _entered(
    frame: Frame | None, trails: dict[Frame | None, _Trail], repeated: dict[Frame, list[FolderChange]]
) -> _Trail:
    """The trail of a frame; a subshell begins where the shell around it is."""
    new: list[Frame] = []
    while frame is not None and frame not in trails:
        new.append(frame)
        frame = frame.outer
    trail = trails[frame]
    for each in reversed(new):
        if each.kind == "subshell":
            trail = trail.copy()
        trails[each] = trail
        for move in repeated.get(each, ()):
            trail.go(move, again=True)
    return trail


def _put_off(
    units: Sequence[Unit], found: list[WorkingFolders], trails: Collection[_Trail], places: Places
) -> None:
    """What stands in a function may run wherever the line comes to."""
    whole = _Trail(places, [folder for trail in trails for folder in trail.folders])
    whole.moved = any(trail.moved for trail in trails)
    whole.guard = next((trail.guard for trail in trails if trail.guard), "")
    whole.unknown = any(trail.unknown for trail in trails)
    for at, unit in enumerate(units):
        frame = unit.part.frame
        while frame is not None and frame.kind != "function":
            frame = frame.outer
        if frame is not None:
            found[at] = whole.stay(unit.own)


def _joined(bases: Iterable[str], folder: str, places: Places) -> list[str]:
    """Where a folder leads from each of these; normalised by its letters, as `cd` does it."""
    if folder == "~" or folder.startswith("~/"):
        folder = places.home + folder[1:]
    wholes = [folder] if folder.startswith("/") else [f"{base}/{folder}" for base in bases]
    normal = (os.path.normpath(whole) for whole in wholes)
    return list(dict.fromkeys(each[1:] if each.startswith("//") else each for each in normal))


def _guarded(folders: Iterable[str]) -> str:
    for folder in folders:
        names = folded(folder)
        if is_under(names, _GUARDED_ROOTS) or is_secret(names):
            return f"it runs in {folder}, which may hold secrets"
    return ""


def leaves(folders: Iterable[str], places: Places) -> str:
    """The first of these folders that is not in the workspace, by its name or by where links lead."""
    for folder in folders:
        named = is_inside(folder, places.root) or is_inside(folder, places.real_root)
        if not named or not is_inside(os.path.realpath(folder), places.real_root):
            return folder
    return ""


def in_other_repository(folders: Iterable[str], places: Places) -> bool:
    """Whether git could work on another repository in one of these folders than where the line begins.

    A folder that is not there yet may become one.
    """
    here = _repository(places.cwd or places.root)
    return any(not Path(folder).is_dir() or _repository(folder) != here for folder in folders)


def _repository(folder: str) -> str:
    """The folder that git would take for the repository around another one; empty if there is none."""
    real = Path(os.path.realpath(folder))
    for each in (real, *real.parents):
        bare = os.path.lexists(each / "HEAD") and os.path.lexists(each / "objects")
        if bare or os.path.lexists(each / ".git"):
            return str(each)
    return ""
