"""The registry of skills: which there are, where they come from, and which one wins a name.

A skill is a folder with a `SKILL.md`. The nearest folder comes first: of each kind the project's before the
user's. Those of a project need its trust, for exactly the bytes that were trusted; before that they are
listed and not read.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from gencode.agent.prompt import listing
from gencode.agents.file_errors import mistake
from gencode.agents.skill_file import FILE, read_skill
from gencode.core.errors import UnknownName, UserMistake
from gencode.core.spec import Skill, SkillEntry, same_name
from gencode.core.structs import replace
from gencode.core.text import clip, inert, one_line
from gencode.permissions.agent_folders import SKILL_FOLDERS
from gencode.permissions.project_files import LARGEST_KEPT
from gencode.permissions.secrets import folded, is_secret
from gencode.permissions.trust import FolderTrust

LONGEST_LISTING = 4_000
LONGEST_PRELOADED = 24_000
DEEPEST = 4
MOST_SKILLS = 1_000
MOST_LOOKED_AT = 20_000
MOST_FILES = 60
_LEAST = 200
"""Less than so many characters of a skill are of no use."""
_NOTE = 80
"""What `clip` may add."""

# Not blocking, so that a pipe that takes the place of a file cannot hold us.
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class PreloadedSkills(Struct, frozen=True):
    """Skills as a part of an agent's instructions, and what is wrong with them."""

    text: str = ""
    warnings: tuple[str, ...] = ()


class Skills:
    """The skills that can be used, by name."""

    __slots__ = ("_entries", "_skills")

    def __init__(self, entries: Iterable[SkillEntry] = ()) -> None:
        """Of entries with the same name the first one is used."""
        self._skills: dict[str, Skill] = {}
        entries = tuple(entries)
        for entry in entries:
            if entry.skill is not None:
                self._skills.setdefault(same_name(entry.skill.name), entry.skill)
        self._entries = tuple(self._judged(entry) for entry in entries)

    @classmethod
    def load(cls, home: Path, *projects: FolderTrust, user: Path | None = None) -> "Skills":
        """The skills of projects, the nearest first, and of the user.

        `home` is the user's folder for GenCode, `user` the home folder with those of other products.
        """
        user = users_home() if user is None else user
        found: list[SkillEntry] = []
        for folder in SKILL_FOLDERS:
            users = users_folder(folder, home, user)
            for project in projects:
                if project.folder / folder != users:
                    found += _of_project(project, folder)
            found += _of_user(users)
        return cls(found)

    def find(self, name: str) -> Skill:
        """A skill by its name, without regard to case and separators; UnknownName offers the nearest."""
        key = same_name(name)
        if key in self._skills:
            return self._skills[key]
        for entry in self._entries:
            why = entry.problem or entry.untrusted
            if why and same_name(Path(entry.path).parent.name) == key:
                raise UserMistake(f"The skill {name!r} cannot be used. {why}")
        raise UnknownName("skill", name, (skill.name for skill in self.usable()))

    def listing(self) -> list[SkillEntry]:
        """Every file that was looked at, also those that are shadowed or could not be read."""
        return list(self._entries)

    def usable(self) -> list[Skill]:
        """Every skill that a model may choose, by name."""
        chosen = (skill for skill in self._skills.values() if not skill.hidden)
        return sorted(chosen, key=lambda skill: (skill.name.casefold(), skill.name))

    def lines(self, most: int = LONGEST_LISTING) -> str:
        """A line for every skill, `- name: when to use it`, in at most `most` characters.

        Descriptions are shortened before any name is left out, and a note says how many were.
        """
        return listing(((each.name, each.description) for each in self.usable()), most, 240)

    def preloaded(self, names: Sequence[str], most: int = LONGEST_PRELOADED) -> PreloadedSkills:
        """The text that an agent's instructions end with when its file names skills, in `most` characters."""
        parts = ["## Skills"]
        warnings: list[str] = []
        room = most - len(parts[0])
        wanted: dict[str, str] = {}
        for name in names:
            wanted.setdefault(same_name(name), name)
        for name in wanted.values():
            try:
                part, warning = _as_part(self.find(name), room - 2)
            except UserMistake as error:
                part, warning = "", f"the skill {one_line(name, 64)!r} is not there: {error}"
            if part:
                parts.append(part)
                room -= len(part) + 2
            if warning:
                warnings.append(warning)
        return PreloadedSkills("\n\n".join(parts) if len(parts) > 1 else "", tuple(warnings))

    def files(self, skill: Skill) -> Sequence[str]:
        """What else is in the folder of a skill, as paths: a project's as it was trusted, else as it is."""
        return skill.files if skill.project else tuple(_files_of(Path(skill.source).parent))

    def _judged(self, entry: SkillEntry) -> SkillEntry:
        if entry.skill is None:
            return entry
        winner = self._skills[same_name(entry.skill.name)]
        return entry if winner is entry.skill else replace(entry, shadowed_by=winner.source)


def _as_part(skill: Skill, room: int) -> tuple[str, str]:
    """A skill as a part of instructions, and a warning where it is not all of it."""
    if skill.hidden:
        return "", f"the skill {skill.name} is only for people, so it was left out"
    head = f"### Skill: {one_line(skill.name, 64)}\nIts folder: {one_line(skill.folder, 1_000)}\n\n"
    body = inert(skill.body).strip()
    if len(head) + len(body) <= room and not skill.cut:
        return head + body, ""
    room -= len(head) + _NOTE
    if room < _LEAST:
        return "", f"there was no room left for the skill {skill.name}"
    return head + clip(body, room), f"only the beginning of the skill {skill.name} was included"


def users_folders(home: Path, user: Path | None = None) -> list[Path]:
    """Every folder of the user's that skills are read from, whether or not it is there."""
    user = users_home() if user is None else user
    return [users_folder(folder, home, user) for folder in SKILL_FOLDERS]


def users_home() -> Path:
    """The user's home folder, also where it is not known."""
    try:
        return Path.home()
    except RuntimeError:  # a folder that does not exist, so nothing is found in it
        return Path("/nonexistent")


def users_folder(folder: str, home: Path, user: Path) -> Path:
    """A folder of the user's own; below `.gen` it is in `home`, the user's folder for GenCode."""
    kind, _, name = folder.partition("/")
    return home / name if kind == ".gen" else user / folder


def _of_project(project: FolderTrust, folder: str) -> list[SkillEntry]:
    """The skills of a folder: as they were when it was looked at if it is trusted, else only named."""
    found = sorted(path for path in project.brought.files if path.startswith(f"{folder}/"))
    ends = f"/{FILE}"
    places = {path.removesuffix(ends) for path in found if path.endswith(ends)} - {folder}
    beside: dict[str, list[str]] = {}
    for path in found:
        outermost = next((above for above in _above(path, folder) if above in places), None)
        if outermost is not None:
            beside.setdefault(outermost, []).append(path)
    if not project.trusted:
        named = [str(project.folder / f"{place}{ends}") for place in beside]
        return [SkillEntry(path, project=True, untrusted=f"{path}: {project.why_not}") for path in named]
    return [_entry_of_project(project, place, files) for place, files in beside.items()]


def _above(path: str, folder: str) -> Iterator[str]:
    """The folders on the way to a file, the outermost first."""
    at = len(folder)
    while (at := path.find("/", at + 1)) > 0:
        yield path[:at]


def _entry_of_project(project: FolderTrust, place: str, files: Sequence[str]) -> SkillEntry:
    path = f"{place}/{FILE}"
    source = str(project.folder / path)
    try:
        skill = read_skill(project.brought.texts[path], source, project=True)
    except UserMistake as error:
        return SkillEntry(source, problem=str(error), project=True)
    others = [file for file in files if file != path and _is_shown(file.removeprefix(f"{place}/"))]
    shown = tuple(str(project.folder / file) for file in others[:MOST_FILES])
    return SkillEntry(source, replace(skill, files=shown), project=True)


def _of_user(folder: Path) -> list[SkillEntry]:
    entries: list[SkillEntry] = []
    for path in _skill_files(folder):
        try:
            entries.append(SkillEntry(str(path), read_skill(read_bounded(path), str(path))))
        except UserMistake as error:
            entries.append(SkillEntry(str(path), problem=str(error)))
    return entries


def _skill_files(folder: Path) -> list[Path]:
    """Every `SKILL.md` below a folder of the user's own, in order; none below a skill. Links are followed."""
    found: list[Path] = []
    looked_at = 0
    waiting = [(folder, 0)]
    while waiting and len(found) < MOST_SKILLS and looked_at < MOST_LOOKED_AT:
        here, depth = waiting.pop(0)
        names: list[str] = []
        for entry in _entries(here):
            looked_at += 1
            if entry.name == FILE and depth:
                found.append(here / FILE)
                break
            if depth < DEEPEST and not entry.name.startswith(".") and _is_folder(entry):
                names.append(entry.name)
        else:
            waiting += [(here / name, depth + 1) for name in sorted(names)]
    return sorted(found)


def _entries(folder: Path) -> "list[os.DirEntry[str]]":
    try:
        with os.scandir(folder) as found:
            return list(found)
    except OSError:  # it is not there, or not for us to see
        return []


def _is_folder(entry: "os.DirEntry[str]", *, links: bool = True) -> bool:
    try:
        return entry.is_dir(follow_symlinks=links)
    except OSError:
        return False


def _files_of(folder: Path) -> Iterator[str]:
    """The files below the folder of a skill, real ones only, as real paths: so they can be handed out."""
    waiting = [Path(os.path.realpath(folder))]
    given = looked_at = 0
    first = waiting[0]
    while waiting and looked_at < MOST_LOOKED_AT:
        here = waiting.pop(0)
        for entry in sorted(_entries(here), key=lambda each: each.name):
            looked_at += 1
            path = here / entry.name
            if not _is_shown(str(path.relative_to(first))) or path == first / FILE:
                continue
            if _is_folder(entry, links=False):
                if len(path.relative_to(first).parts) < DEEPEST:
                    waiting.append(path)
            elif entry.is_file(follow_symlinks=False):
                if given == MOST_FILES:
                    return
                given += 1
                yield str(path)


def _is_shown(path: str) -> bool:
    """Whether a file is listed to the model: not if it is hidden, secret or made by a program."""
    hidden = any(part.startswith(".") or part in ("node_modules", "__pycache__") for part in path.split("/"))
    return not hidden and path.isprintable() and not is_secret(folded(path), absolute=False)


def read_bounded(path: Path) -> bytes:
    """At most one byte more of a regular file than is read of it."""
    try:
        handle = os.open(path, _OPEN)
    except OSError as error:
        raise _unreadable(path, error) from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise mistake(str(path), "it is not a file")
        content = bytearray()
        while piece := os.read(handle, LARGEST_KEPT + 1 - len(content)):
            content += piece
        return bytes(content)
    except OSError as error:
        raise _unreadable(path, error) from None
    finally:
        os.close(handle)


def _unreadable(path: Path, error: OSError) -> UserMistake:
    return mistake(str(path), f"it cannot be read: {one_line(error.strerror or str(error), 200)}")
