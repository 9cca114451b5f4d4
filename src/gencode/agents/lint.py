"""The linter for agent files: reads every file below a path, and runs nothing.

What is there is hostile: links are not followed, pipes and devices not opened, and there is an end to files,
folders, what is read of each, and the time that their schemas take.
"""

import os
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath

from msgspec import Struct

from gencode.agents.agent_file import ENDINGS, from_path, home_of, read_agent_files
from gencode.agents.dialect import AgentFile, Near
from gencode.agents.dialects.table import level, rank
from gencode.agents.file_errors import FileFinding, NotAnAgent, mistake, no_agent
from gencode.core.errors import UserMistake
from gencode.core.spec import same_name
from gencode.core.structs import replace
from gencode.core.text import one_line
from gencode.permissions.agent_folders import CONFIG_NAMES
from gencode.permissions.project_files import LARGEST_KEPT

MOST_FILES = 20_000
DEEPEST = 64
SCHEMA_SECONDS = 60.0
"""So long the schemas of all files may take together."""
UNCHECKED = f"Not checked: the schemas before took {SCHEMA_SECONDS:g} seconds; check fewer files at once."
INVALID = "schema-invalid"
OURS = "gencode"
"""In files of this dialect a value that cannot be used is an error."""
_PASSED_OVER = (".git", "node_modules")
_SKILL = "SKILL.md"
_README = "readme."
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class NameClash(Struct, frozen=True):
    """Files in one place whose agents have the same name; the first one is used.

    Where they are of several dialects, in folders of one project or home, `dialect` names them all.
    """

    name: str
    dialect: str
    paths: list[str]


class LintReport(Struct, frozen=True):
    """What the linter found."""

    files: list[AgentFile]
    clashes: list[NameClash]

    @property
    def broken(self) -> list[AgentFile]:
        """The files that are meant as agents and are none."""
        return [file for file in self.files if file.why_not and not file.other]


def lint(paths: Sequence[Path]) -> LintReport:
    """Read the files and everything below the folders; UserMistake for a path that is not there."""
    found: dict[str, None] = {}
    for path in paths:
        place = _plain(path)
        try:
            os.lstat(place)
        except PermissionError as error:
            raise UserMistake(f"{path} cannot be read ({error.strerror}).") from None
        except (OSError, ValueError):
            raise UserMistake(f"There is no file or folder {path}.") from None
        for each in _below(place) if place.is_dir() else (str(place),):
            found.setdefault(each)
            if len(found) > MOST_FILES:
                raise UserMistake(f"There are more than {MOST_FILES:,} files; name a smaller folder.")
    named = {str(_plain(path)) for path in paths}
    schemas = SchemaChecker()
    read = (file for path in found for file in _read(path, follow=path in named))
    files = [schemas.checked(file) for file in read]
    return LintReport(files, list(_clashes(files)))


def _below(folder: Path) -> Iterator[str]:
    """The files in a folder and everything below it, sorted by name."""
    waiting = [(str(folder), DEEPEST)]
    while waiting:
        here, deeper = waiting.pop()
        try:
            with os.scandir(here) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError:
            continue
        folders = [entry.path for entry in entries if _is_folder(entry)]
        yield from (entry.path for entry in entries if _is_meant(entry))
        if deeper:
            waiting += [(each, deeper - 1) for each in reversed(folders)]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) and entry.name not in _PASSED_OVER


def _is_meant(entry: os.DirEntry[str]) -> bool:
    return not entry.is_dir(follow_symlinks=False) and entry.name.casefold().endswith(ENDINGS)


def _read(path: str, *, follow: bool) -> list[AgentFile]:
    """The agents of a file. One that was named (`follow`) or lies among agents is meant as one."""
    name, dialect = PurePath(path).name, from_path(PurePath(path)) or ""
    try:
        if name == _SKILL:
            raise no_agent(path, "it is a skill and no agent")
        found = read_agent_files(_content(path, follow=follow), path, near=_near(path))
        if not found:
            raise no_agent(path, "it holds no agents")
    except UserMistake as error:
        found = [AgentFile(path, dialect, why_not=str(error), other=isinstance(error, NotAnAgent))]
    if name.casefold().startswith(_README) or name == _SKILL or name in CONFIG_NAMES:
        return found
    meant = follow or bool(dialect)
    return [replace(file, other=False) if meant else file for file in found]


def _near(path: str) -> Near:
    def content(name: str) -> bytes | None:
        try:
            return _content(str(Path(path).parent / name), follow=False)
        except UserMistake:
            return None

    return content


class SchemaChecker:
    """Checks the output schema of each agent, as long as there is time left for that."""

    def __init__(self) -> None:
        self._left = SCHEMA_SECONDS

    def checked(self, file: AgentFile) -> AgentFile:
        """A file with what is wrong with its schema; one of ours is no agent then."""
        if file.spec is None or file.spec.output_schema is None:
            return file
        wrong = self.wrong(file.spec.output_schema)
        if wrong is None:
            return file
        code, why = wrong
        file = replace(file, findings=(*file.findings, FileFinding(code, why)))
        if code != INVALID or file.dialect != OURS:
            return file
        return replace(file, spec=None, why_not=str(mistake(file.path, f"output-schema: {why}")))

    def wrong(self, schema: object) -> tuple[str, str] | None:
        """What is wrong with a schema, as a code and in words; None where nothing is."""
        from gencode.agent.output_schema import check_schema

        if self._left <= 0:
            return "schema-unchecked", UNCHECKED
        begun = time.monotonic()
        try:
            check_schema(schema)
        except UserMistake as error:
            return INVALID, str(error)
        finally:
            self._left -= time.monotonic() - begun
        return None


def _content(path: str, *, follow: bool) -> bytes:
    """The beginning of a regular file, opened without blocking."""
    try:
        handle = os.open(path, _OPEN | (0 if follow else os.O_NOFOLLOW))
    except OSError as error:
        link = not follow and Path(path).is_symlink()
        reason = "it is a link, and links are not followed" if link else error.strerror or str(error)
        raise mistake(path, f"it cannot be read: {one_line(reason, 200)}") from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise mistake(path, "it is not a file")
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(LARGEST_KEPT + 1)
    except OSError as error:
        raise mistake(path, f"it cannot be read: {one_line(error.strerror or str(error), 200)}") from None
    finally:
        os.close(handle)


def _plain(path: Path) -> Path:
    """An absolute path without `..`; links stay, so that a person finds their own words again."""
    return Path(os.path.normpath(path.absolute()))


def _clashes(files: Iterable[AgentFile]) -> Iterator[NameClash]:
    """Agents of one name: of one dialect in one folder of agents, and of several beside each other."""
    together: dict[tuple[str, str, str], list[AgentFile]] = {}
    beside: dict[tuple[str, str], dict[str, AgentFile]] = {}
    for file in files:
        if file.spec is not None:
            path = PurePath(file.path)
            name, place = same_name(file.spec.name), home_of(path)
            together.setdefault((name, file.dialect, place), []).append(file)
            if from_path(path):
                beside.setdefault((name, str(PurePath(place).parents[1])), {}).setdefault(file.dialect, file)
    for (_, dialect, _), several in together.items():
        if len(several) > 1 and several[0].spec is not None:
            yield NameClash(several[0].spec.name, dialect, [file.path for file in several])
    for found in beside.values():
        ordered = sorted(found.values(), key=lambda file: (level(file.dialect), rank(file.dialect)))
        if len(ordered) > 1 and ordered[0].spec is not None:
            dialects = ", ".join(file.dialect for file in ordered)
            yield NameClash(ordered[0].spec.name, dialects, [file.path for file in ordered])
