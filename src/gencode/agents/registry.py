"""Agents room: which agents there are, where they come from, and what hides what.

Built-in agents are files in this package; those in the user's own folder may replace them. Agents of
a project are not read here: they wait until the folder is trusted.
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gencode.agents.frontmatter import mistake
from gencode.agents.gencode_file import read_agent
from gencode.core.errors import UnknownName, UserMistake
from gencode.core.spec import AgentSpec, same_name
from gencode.runtime.prompt import one_line

LARGEST_FILE = 256 * 1024
MAIN = "main"

_HERE = Path(__file__).parent
_ALIASES = {"general": "generalpurpose", "planner": "plan"}


class Entry(Struct, frozen=True):
    """One file: the agent it describes, or the sentence that says why it does not."""

    path: str
    spec: AgentSpec | None = None
    shadowed_by: str = ""
    problem: str = ""


class Registry:
    """The agents that can be used, by name."""

    __slots__ = ("_agents", "_entries")

    def __init__(self, entries: Iterable[Entry]) -> None:
        """Of entries with the same name the first one counts, and a user's before a built-in."""
        self._agents: dict[str, AgentSpec] = {}
        self._entries: tuple[Entry, ...] = ()
        entries = tuple(entries)
        for entry in sorted(entries, key=_rank):
            if entry.spec is not None:
                self._agents.setdefault(same_name(entry.spec.name), entry.spec)
        self._entries = tuple(self._judged(entry) for entry in entries)

    @classmethod
    def load(cls, home: Path) -> "Registry":
        """The built-in agents and those in the folder `agents` of the user's home for GenCode."""
        built_in = [_entry(path, builtin=True) for path in _markdown(_HERE / "builtin")]
        folder = home / "agents"
        try:
            users = [_entry(path) for path in _markdown(folder)]
        except OSError as error:
            users = [Entry(str(folder), problem=str(_unreadable(folder, error)))]
        return cls([*built_in, *users])

    @staticmethod
    def main() -> AgentSpec:
        """The agent that leads the conversation: it has no turn limit."""
        return replace(_read(_HERE / "main.md", builtin=True), max_turns=None)

    def find(self, name: str) -> AgentSpec:
        """An agent by its name or alias, without regard to case and separators."""
        key = same_name(name)
        for candidate in (key, _ALIASES.get(key, key)):
            if candidate in self._agents:
                return self._agents[candidate]
        for entry in self._entries:
            if entry.problem and same_name(Path(entry.path).stem) == key:
                raise UserMistake(f"The agent {name!r} cannot be used. {entry.problem}")
        raise UnknownName("agent", name, (spec.name for spec in self.spawnable()))

    def listing(self) -> list[Entry]:
        """Every file that was looked at, also those that are shadowed or could not be read."""
        return list(self._entries)

    def spawnable(self) -> list[AgentSpec]:
        """Every agent that can be sent, by name."""
        return sorted(self._agents.values(), key=lambda spec: (spec.name.casefold(), spec.name))

    def _judged(self, entry: Entry) -> Entry:
        if entry.spec is None:
            return entry
        winner = self._agents[same_name(entry.spec.name)]
        return entry if winner is entry.spec else replace(entry, shadowed_by=winner.source)


def _rank(entry: Entry) -> bool:
    return entry.spec is not None and entry.spec.builtin


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
        spec = _read(path, builtin=builtin)
        if same_name(spec.name) == MAIN:
            raise mistake(str(path), "the name main belongs to the conversation itself; choose another")
    except UserMistake as error:
        return Entry(str(path), problem=str(error))
    return Entry(str(path), spec)


def _read(path: Path, *, builtin: bool) -> AgentSpec:
    try:
        if not path.is_file():  # a pipe or a device would keep us waiting
            raise mistake(str(path), "it is not a file")
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
        text = content.decode("utf-8")
    except OSError as error:
        raise _unreadable(path, error) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise mistake(str(path), "it is not UTF-8 text", line) from None
    if len(content) > LARGEST_FILE:
        raise mistake(str(path), f"it is larger than {LARGEST_FILE:,} bytes")
    return read_agent(text, str(path), builtin=builtin)


def _unreadable(path: Path, error: OSError) -> UserMistake:
    return mistake(str(path), f"it cannot be read: {one_line(error.strerror or str(error), 200)}")
