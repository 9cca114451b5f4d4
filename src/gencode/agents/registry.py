"""Agents room: which agents there are, where they come from, and what hides what.

Built-in agents are files in this package; those in the user's own folder may replace them. Agents of a
project count when its folder is trusted, before the user's; they replace a built-in one only when they say so
with `override: true`. Before that they are named and not read.
"""

import os
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gencode.agents.frontmatter import mistake
from gencode.agents.gencode_file import read_agent
from gencode.core.errors import UnknownName, UserMistake
from gencode.core.spec import AgentSpec, same_name
from gencode.permissions.brought import AGENTS, LARGEST_KEPT
from gencode.permissions.trust import Standing
from gencode.runtime.prompt import one_line

MAIN = "main"

_HERE = Path(__file__).parent
_ALIASES = {"general": "generalpurpose", "planner": "plan"}
_FILLERS = "\u115f\u1160"
_NO_OVERRIDE = "a project's agent takes the name of a built-in one only with override: true"


class Entry(Struct, frozen=True):
    """One file: the agent it describes, or the sentence that says why it does not.

    `project`: it came with the folder we work in. `untrusted` says why it was not even read.
    """

    path: str
    spec: AgentSpec | None = None
    shadowed_by: str = ""
    problem: str = ""
    project: bool = False
    untrusted: str = ""


class Registry:
    """The agents that can be used, by name."""

    __slots__ = ("_agents", "_entries")

    def __init__(self, entries: Iterable[Entry]) -> None:
        """Of entries with the same name the first one counts: a project's, then a user's, then a built-in."""
        self._agents: dict[str, AgentSpec] = {}
        self._entries: tuple[Entry, ...] = ()
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
    def load(cls, home: Path, project: Standing | None = None) -> "Registry":
        """The built-in agents, those in the folder `agents` of the user's home for GenCode, a project's."""
        built_in = [_entry(path, builtin=True) for path in _markdown(_HERE / "builtin")]
        folder = home / "agents"
        try:
            users = [_entry(path) for path in _markdown(folder)]
        except OSError as error:
            users = [Entry(str(folder), problem=str(_unreadable(folder, error)))]
        return cls([*built_in, *users, *(_of_project(project) if project else ())])

    @staticmethod
    def main() -> AgentSpec:
        """The agent that leads the conversation: it has no turn limit."""
        path = _HERE / "main.md"
        return replace(_parsed(_content(path), path, builtin=True), max_turns=None)

    def find(self, name: str) -> AgentSpec:
        """An agent by its name or alias, without regard to case and separators."""
        key = same_name(name)
        for candidate in (key, _ALIASES.get(key, key)):
            if candidate in self._agents:
                return self._agents[candidate]
        for entry in self._entries:
            why = entry.problem or entry.untrusted
            if why and same_name(Path(entry.path).stem) == key:
                raise UserMistake(f"The agent {name!r} cannot be used. {why}")
        raise UnknownName("agent", name, (spec.name for spec in self.spawnable()))

    def listing(self) -> list[Entry]:
        """Every file that was looked at, also those that are shadowed or could not be read."""
        return list(self._entries)

    def spawnable(self) -> list[AgentSpec]:
        """Every agent that can be sent, by name."""
        return sorted(self._agents.values(), key=lambda spec: (spec.name.casefold(), spec.name))

    def _judged(self, entry: Entry) -> Entry:
        if entry.spec is None or entry.shadowed_by:
            return entry
        winner = self._agents[same_name(entry.spec.name)]
        return entry if winner is entry.spec else replace(entry, shadowed_by=winner.source)


def _rank(entry: Entry) -> int:
    builtin = entry.spec is not None and entry.spec.builtin
    return 0 if entry.project else 2 if builtin else 1


def _kept_apart(entry: Entry, built_in: Mapping[str, AgentSpec]) -> Entry:
    """A project's agent that would pass for a built-in one, by its name or an alias, and does not say so."""
    if not entry.project or entry.spec is None or entry.spec.override:
        return entry
    likeness = _likeness(entry.spec.name)
    taken = built_in.get(_ALIASES.get(likeness, likeness))
    if taken is None:
        return entry
    spec = replace(entry.spec, warnings=(*entry.spec.warnings, _NO_OVERRIDE))
    return replace(entry, spec=spec, shadowed_by=taken.source)


def _likeness(name: str) -> str:
    """A name as it looks at a glance: no case, accents, separators, nor letters that cannot be seen."""
    plain = unicodedata.normalize("NFKD", name)
    return "".join(each for each in plain if each.isalnum() and each not in _FILLERS).casefold()


def _of_project(project: Standing) -> list[Entry]:
    """The agents of a folder: read as they were when it was looked at if it is trusted, else only named."""
    found = sorted(path for path in project.brought.texts if path.startswith(f"{AGENTS}/"))
    if project.trusted:
        return [
            replace(_entry_of(project.brought.texts[path], project.folder / path), project=True)
            for path in found
        ]
    paths = [str(project.folder / path) for path in found]
    return [Entry(path, project=True, untrusted=f"{path}: {project.why_not}") for path in paths]


def _markdown(folder: Path) -> Sequence[Path]:
    """The agent files of a folder, in the order of their names; none when there is no such folder."""
    try:
        with os.scandir(folder) as found:
            names = sorted(each.name for each in found if each.name.endswith(".md"))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    return [folder / name for name in names if not name.startswith(".")]


def _entry(path: Path, *, builtin: bool = False) -> Entry:
    try:
        content = _content(path)
    except UserMistake as error:
        return Entry(str(path), problem=str(error))
    return _entry_of(content, path, builtin=builtin)


def _entry_of(content: bytes, path: Path, *, builtin: bool = False) -> Entry:
    try:
        spec = _parsed(content, path, builtin=builtin)
        if _likeness(spec.name) == MAIN:
            raise mistake(str(path), "the name main belongs to the conversation itself; choose another")
    except UserMistake as error:
        return Entry(str(path), problem=str(error))
    return Entry(str(path), spec)


def _content(path: Path) -> bytes:
    try:
        if not path.is_file():  # a pipe or a device would keep us waiting
            raise mistake(str(path), "it is not a file")
        with path.open("rb") as file:
            return file.read(LARGEST_KEPT + 1)
    except OSError as error:
        raise _unreadable(path, error) from None


def _parsed(content: bytes, path: Path, *, builtin: bool) -> AgentSpec:
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise mistake(str(path), "it is not UTF-8 text", line) from None
    if len(content) > LARGEST_KEPT:
        raise mistake(str(path), f"it is larger than {LARGEST_KEPT:,} bytes")
    return read_agent(text, str(path), builtin=builtin)


def _unreadable(path: Path, error: OSError) -> UserMistake:
    return mistake(str(path), f"it cannot be read: {one_line(error.strerror or str(error), 200)}")
