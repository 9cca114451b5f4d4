"""The registry of agents: which there are, where they come from, and which one wins a name.

Built-in agents are files in this package; those of the user may replace them. Agents of a project need its
trust; they replace a built-in one only with `override: true`. Before that they are listed and not read. Of
agents with one name the order of the contract decides: first its levels, and in each of them the nearest
folder, the user's own being the farthest.
"""

import os
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct

from gencode.agents.agent_file import read_agent, read_agent_file, read_agent_files
from gencode.agents.dialect import AgentFile, Near, usual_name
from gencode.agents.dialects.table import GENCODE, dialect_named, level, rank
from gencode.agents.file_errors import mistake
from gencode.core.errors import UnknownName, UserMistake
from gencode.core.spec import MAIN, AgentSpec, same_name
from gencode.core.structs import replace
from gencode.core.text import one_line
from gencode.permissions.agent_folders import USER_CONFIGS, USER_FOLDERS, agent_dialect, beside
from gencode.permissions.paths import is_inside
from gencode.permissions.project_files import LARGEST_KEPT
from gencode.permissions.trust import FolderTrust

if TYPE_CHECKING:
    from gencode.agents.lint import LintReport


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
            yield from _in_folder(Path(place), name, dialect_named(name).endings, deep=True)
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


_HERE = Path(__file__).parent
_ALIASES = {"general": "generalpurpose", "planner": "plan"}
_FILLERS = "\u115f\u1160"
_NO_OVERRIDE = "a project's agent takes the name of a built-in one only with override: true"
_TAKEN = "the name main belongs to the conversation itself; choose another"


class AgentEntry(Struct, frozen=True):
    """One agent file: its agent, or why it has none.

    `project`: it came with the working directory, or with a project folder `distance` levels above it.
    `untrusted` says why it was not even read.
    """

    path: str
    spec: AgentSpec | None = None
    shadowed_by: str = ""
    problem: str = ""
    project: bool = False
    untrusted: str = ""
    claims: str = ""
    """What the agent of a file is called whose folder was trusted and has changed: nobody else takes its
    name in silence."""
    dialect: str = "gencode"
    distance: int = 0


class Registry:
    """The agents that can be used, by name."""

    __slots__ = ("_agents", "_entries")

    def __init__(self, entries: Iterable[AgentEntry]) -> None:
        """Of entries with the same name, level and distance the first one is used."""
        self._agents: dict[str, AgentSpec] = {}
        self._entries: tuple[AgentEntry, ...] = ()
        entries = tuple(entries)
        built_in = {
            _likeness(each.spec.name): each.spec for each in entries if each.spec and each.spec.builtin
        }
        entries = tuple(_kept_apart(entry, built_in) for entry in entries)
        for entry in sorted(entries, key=_rank):
            if entry.spec is not None and not entry.shadowed_by:
                self._agents.setdefault(same_name(entry.spec.name), entry.spec)
        self._entries = tuple(self._judged(entry) for entry in entries)

    @classmethod
    def load(
        cls, home: Path, project: FolderTrust | None = None, *above: FolderTrust, user: Path | None = None
    ) -> "Registry":
        """The agents of this package, of the user and of a project.

        `home` is the user's folder for GenCode, `user` the home folder with those of other products; `above`
        are folders over the project that belong to it, the nearest first.
        """
        users = [entry for found in users_files(home, user or _users_home()) for entry in _entries(found)]
        own = {entry.path for entry in users}
        standings = [each for each in (project, *above) if each]
        brought = [entry for far, each in enumerate(standings) for entry in _of_project(each, far)]
        return cls([*_built_in(), *users, *(entry for entry in brought if entry.path not in own)])

    @staticmethod
    def main(also: tuple[str, ...] = ()) -> AgentSpec:
        """The agent that leads the conversation: it has no turn limit, and `also` these tools."""
        path = _HERE / "main.md"
        found = read_agent(path.read_text("utf-8"), str(path), GENCODE, builtin=True)
        return replace(found, max_turns=None, tools=replace(found.tools, also=also))

    @staticmethod
    def lint(paths: Sequence[Path]) -> "LintReport":
        """Check agent files of any dialect."""
        from gencode.agents.lint import lint

        return lint(paths)

    def checked(self) -> "list[AgentEntry]":
        """Everything that is listed, with what only shows when all of it is there, or takes a while."""
        from gencode.agents.lint import INVALID, SchemaChecker

        found, schemas = self.listing(), SchemaChecker()
        names = {same_name(each.spec.name) for each in found if each.spec is not None}
        checked: list[AgentEntry] = []
        for each in found:
            if each.spec is None:
                checked.append(each)
                continue
            gone = [name for name in each.spec.sends or () if same_name(name) not in names]
            words = [f"it may start {one_line(name, 64)}, but there is no such agent" for name in gone]
            wrong = schemas.wrong(each.spec.output_schema) if each.spec.output_schema is not None else None
            problem = each.problem
            if wrong is not None and wrong[0] == INVALID and each.dialect == GENCODE.name:
                problem = str(mistake(each.path, f"output-schema: {wrong[1]}"))
            elif wrong is not None:
                words.append(wrong[1])
            spec = replace(each.spec, warnings=(*each.spec.warnings, *words))
            checked.append(replace(each, spec=spec, problem=problem))
        return checked

    @staticmethod
    def write(folder: Path, wishes: Mapping[str, Any], *, project: bool = False) -> AgentFile:
        """Write the file of a new agent, and read it back.

        `wishes` are the fields of `NewAgentFile`; its tools may be one text with commas.
        """
        from gencode.agents.new_agent import NewAgentFile, write_agent
        from gencode.agents.tool_lists import split_names

        if isinstance(tools := wishes.get("tools"), str):
            wishes = {**wishes, "tools": tuple(split_names(tools))}

        likeness = _likeness(str(wishes["name"]))
        if likeness == MAIN:
            raise UserMistake(f"{_TAKEN[:1].upper()}{_TAKEN[1:]}.")
        if project and _ALIASES.get(likeness, likeness) in {_likeness(path.stem) for path in _ours()}:
            way = "choose another name, or add --user"
            raise UserMistake(f"{_NO_OVERRIDE[:1].upper()}{_NO_OVERRIDE[1:]}; {way}.")
        if project and not is_inside(os.path.realpath(folder), os.path.realpath(folder.parents[1])):
            raise UserMistake(f"{folder} is behind a link that leads elsewhere. Nothing was written.")
        return write_agent(NewAgentFile(**wishes), folder)

    def find(self, name: str) -> AgentSpec:
        """An agent by its name or alias, without regard to case and separators."""
        key = same_name(name)
        found = self._agents.get(key) or self._agents.get(_ALIASES.get(key, key))
        for entry in self._entries:
            if entry.claims and same_name(entry.claims) == key and self._is_before(entry, found):
                raise UserMistake(f"The agent {name!r} cannot be used. {entry.untrusted}")
        if found is not None:
            return found
        for entry in self._entries:
            why = entry.problem or entry.untrusted
            if why and same_name(usual_name(PurePath(entry.path))) == key:
                raise UserMistake(f"The agent {name!r} cannot be used. {why}")
        unknown = UnknownName("agent", name, (spec.name for spec in self.spawnable()))
        if unread := next((entry.untrusted for entry in self._entries if entry.untrusted), ""):
            unknown.unread = f"A file that was not read may hold it: {unread}"
            unknown.args = (f"{unknown} {unknown.unread}",)
        raise unknown

    def listing(self) -> list[AgentEntry]:
        """Every file that was looked at, also those that are shadowed or could not be read."""
        return list(self._entries)

    def spawnable(self) -> list[AgentSpec]:
        """Every agent that can be started and is not hidden, by name."""
        shown = (spec for spec in self._agents.values() if not spec.hidden)
        return sorted(shown, key=lambda spec: (spec.name.casefold(), spec.name))

    def _is_before(self, entry: AgentEntry, agent: AgentSpec | None) -> bool:
        """Whether the agent of a file would be used rather than another one."""
        other = next((each for each in self._entries if each.spec is not None and each.spec is agent), None)
        return other is None or _rank(entry) < _rank(other)

    def _judged(self, entry: AgentEntry) -> AgentEntry:
        if entry.spec is None or entry.shadowed_by:
            return entry
        winner = self._agents[same_name(entry.spec.name)]
        return entry if winner is entry.spec else replace(entry, shadowed_by=winner.source)


def _rank(entry: AgentEntry) -> tuple[bool, int, bool, int, int]:
    builtin = entry.spec is not None and entry.spec.builtin
    return builtin, level(entry.dialect), not entry.project, entry.distance, rank(entry.dialect)


def _kept_apart(entry: AgentEntry, built_in: Mapping[str, AgentSpec]) -> AgentEntry:
    """A project's agent that would pass for a built-in one, by its name or an alias, and does not say so."""
    if not entry.project or entry.spec is None or entry.spec.override:
        return entry
    likeness = _likeness(entry.spec.name)
    taken = built_in.get(_ALIASES.get(likeness, likeness))
    if taken is None:
        return entry
    spec = replace(entry.spec, warnings=(*entry.spec.warnings, _NO_OVERRIDE))
    return replace(entry, spec=spec, shadowed_by=taken.source)


def _taken_name(spec: AgentSpec) -> bool:
    """Whether a project's agent has the name of a built-in one and does not say that it takes its place."""
    likeness = _likeness(spec.name)
    return not spec.override and _ALIASES.get(likeness, likeness) in {
        _likeness(each.stem) for each in _ours()
    }


def _likeness(name: str) -> str:
    """A name as it looks at a glance: without case, accents, separators and invisible letters."""
    plain = unicodedata.normalize("NFKD", name)
    return "".join(each for each in plain if each.isalnum() and each not in _FILLERS).casefold()


def _of_project(project: FolderTrust, distance: int) -> Iterator[AgentEntry]:
    """The agents of a folder: read as they were when it was looked at if it is trusted, else only named."""
    for path in sorted(project.brought.texts):
        dialect = agent_dialect(path)
        if dialect is None:
            continue
        place, texts = project.folder / path, project.brought.texts
        if project.trusted:
            for entry in _entries_of(texts[path], place, dialect, _brought_near(path, texts)):
                spec = replace(entry.spec, project=True) if entry.spec is not None else None
                yield replace(entry, spec=spec, project=True, distance=distance)
        else:
            why = f"{place}: {project.why_not}"
            entry = AgentEntry(str(place), project=True, untrusted=why, dialect=dialect, distance=distance)
            if project.state != "changed":
                yield entry
                continue
            for read in _entries_of(texts[path], place, dialect, _brought_near(path, texts)):
                named = "" if read.spec is None or _taken_name(read.spec) else read.spec.name
                yield replace(entry, claims=named)
    for path in sorted(project.added.texts):
        place = project.folder / path
        why = f"{place}: {project.why_not}"
        kind = agent_dialect(path) or GENCODE.name
        yield AgentEntry(str(place), project=True, untrusted=why, dialect=kind, distance=distance)


def _brought_near(path: str, texts: Mapping[str, bytes]) -> Near:
    return lambda name: texts.get(beside(path, name))


def _users_near(path: Path) -> Near:
    def content(name: str) -> bytes | None:
        try:
            return content_of(path.parent / name)
        except UserMistake:
            return None

    return content


def _ours() -> list[Path]:
    with os.scandir(_HERE / "builtin") as found:
        return sorted(Path(each.path) for each in found if each.name.endswith(".md"))


def _users_home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:  # its folder is not known
        return None


def _entries(found: CandidateFile) -> list[AgentEntry]:
    if found.problem:
        return [AgentEntry(str(found.path), problem=found.problem, dialect=found.dialect)]
    try:
        content = content_of(found.path)
    except UserMistake as error:
        return [AgentEntry(str(found.path), problem=str(error), dialect=found.dialect)]
    return _entries_of(content, found.path, found.dialect, _users_near(found.path))


def _entries_of(content: bytes, path: Path, dialect: str, near: Near) -> list[AgentEntry]:
    return [_entry(read) for read in read_agent_files(content, str(path), dialect, near=near)]


@cache
def _built_in() -> tuple[AgentEntry, ...]:
    """The agents of this package, which are as they were installed; users' files are read far more often."""
    files = ((path.read_bytes(), str(path)) for path in _ours())
    return tuple(
        _entry(read_agent_file(content, path, GENCODE.name, builtin=True)) for content, path in files
    )


def _entry(read: AgentFile) -> AgentEntry:
    problem = read.why_not
    if read.spec is not None and _likeness(read.spec.name) == MAIN:
        problem = str(mistake(read.path, _TAKEN))
    return AgentEntry(read.path, None if problem else read.spec, problem=problem, dialect=read.dialect)


def content_of(path: Path) -> bytes:
    """What a file holds, up to one byte more than is read of it; UserMistake when it is no file."""
    try:
        if not path.is_file():  # a pipe or a device would keep us waiting
            raise mistake(str(path), "it is not a file")
        with path.open("rb") as file:
            return file.read(LARGEST_KEPT + 1)
    except OSError as error:
        raise UserMistake(unreadable(path, error)) from None
