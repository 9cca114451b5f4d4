"""Reads the files of a project that need trust: they could run programs or widen a policy.

Each of these files is read once, with a bound and without following a link, and what was read is what counts
afterwards: nobody can show one thing and have another one used. `.env` is not among them because nothing ever
reads it.
"""

import errno
import os
import stat
from collections.abc import Collection, Generator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.structs import replace
from gencode.permissions.agent_folders import (
    AGENT_FOLDERS,
    COMMAND_FOLDERS,
    CONFIGS,
    NAMED,
    ONE_NAME,
    ROLES_CONFIG,
    SKILL_FOLDERS,
    TREES,
    agent_dialect,
    is_base,
    named_inside,
)

FOLDER = ".gen"
SETTINGS = ".gen/settings.toml"

MOST_FILES = 1_000
MOST_BYTES = 32 * 1024 * 1024
LARGEST_KEPT = 256 * 1024
LARGEST_SETTINGS = 64 * 1024
DEEPEST = 12
MOST_PROBLEMS = 10

_FILES = (SETTINGS, ".mcp.json", *CONFIGS)
_SKILL_TREES = tuple(f"{folder}/" for folder in SKILL_FOLDERS)
SERVERS = (".mcp.json", ".gen/mcp.json")
"""Where a project names MCP servers."""
_SKILL = "SKILL.md"
_ROLES = tuple(f"{folder}/" for folder in AGENT_FOLDERS["codex"])
_TREES = (*TREES, *SKILL_FOLDERS, *COMMAND_FOLDERS)
_COMMAND_TREES = tuple(f"{folder}/" for folder in COMMAND_FOLDERS)
COMMAND_ENDINGS = (".md", ".toml")
_BEGINNINGS = ("hooks", "mcp")
"""What names in `.gen` begin with that hold programs to be started."""

_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Not blocking, so that a pipe that takes the place of a file cannot hold us.
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_CHUNK = 1 << 16


class ProjectFiles(Struct, frozen=True):
    """The files with the SHA-256 of each, and what speaks against trusting them.

    `texts` is what those hold that are used once they are trusted, up to one byte more than `LARGEST_KEPT`.
    """

    files: dict[str, str] = {}
    texts: dict[str, bytes] = {}
    problems: tuple[str, ...] = ()

    @property
    def anything(self) -> bool:
        """Whether there is something to be trusted or not."""
        return bool(self.files or self.problems)

    def only(self, paths: Collection[str]) -> "ProjectFiles":
        """Just these files."""
        return ProjectFiles(
            {path: each for path, each in self.files.items() if path in paths},
            {path: each for path, each in self.texts.items() if path in paths},
        )

    def without(self, paths: Collection[str]) -> "ProjectFiles":
        """All but these files."""
        return replace(self.only(self.files.keys() - set(paths)), problems=self.problems)


class _NotReadable(Exception):
    """Something among the files cannot be read as it is; the text says why."""


class _TooMany(Exception):
    """There is more than is looked at."""


def read_project(folder: Path, home: Path) -> ProjectFiles:
    """The files of a folder that need trust. `home` is the user's own folder, which is never a project's."""
    looking = _ProjectScan()
    try:
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return ProjectFiles()
    try:
        looking.everything(root, users=is_users(folder, home))
    except _TooMany as enough:
        looking.problems.append(str(enough))
    finally:
        os.close(root)
    return ProjectFiles(looking.files, looking.texts, tuple(looking.problems[:MOST_PROBLEMS]))


def is_users(folder: Path, home: Path) -> bool:
    """Whether `.gen` in this folder is the user's own, also by way of a link."""
    try:
        return (folder / FOLDER).samefile(home)
    except OSError:
        return folder / FOLDER == home


def project_settings(folder: Path) -> bytes:
    """The beginning of the settings of a project, trusted or not; nothing when there are none.

    They may hold rules that narrow, so what cannot be read is an error and not passed over. Whoever asks sees
    by one more byte than `LARGEST_SETTINGS` that there is too much.
    """
    try:
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        *above, name = SETTINGS.split("/")
        with _inside(root, above) as handle:
            content = None if handle is None else _content(handle, name, LARGEST_SETTINGS)
    except _NotReadable as refused:
        way = "put a file there, or remove it"
        raise UserMistake(
            f"The settings file {folder / SETTINGS} cannot be used: {refused}; {way}."
        ) from None
    finally:
        os.close(root)
    return content or b""


class _ProjectScan:
    """A scan of one folder, and what was found so far."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.texts: dict[str, bytes] = {}
        self.problems: list[str] = []
        self._wanted: set[str] = set()
        self._bytes = 0

    def everything(self, root: int, *, users: bool) -> None:
        for path in _FILES:
            if not (users and _is_gens(path)):
                *above, name = path.split("/")
                self._file_below(root, above, name)
        for path in _TREES:
            if not (users and _is_gens(path)):
                self._tree_below(root, path.split("/"))
        if not users:
            self._beginnings(root)
        for path in NAMED:
            self._one_folder_down(root, path, ONE_NAME)
        for path in [path for path in self.texts if path in CONFIGS]:
            for name in named_inside(self.texts[path], path):
                self._also(root, name)
        if any(path.startswith(_ROLES) for path in self.texts):
            self._also(root, ROLES_CONFIG)

    def _also(self, root: int, path: str) -> None:
        """A file that others need to be whole: it is used with them, and trusted with them."""
        if path not in self.files:
            *above, name = path.split("/")
            self._wanted.add(path)
            self._file_below(root, above, name)

    def _file_below(self, root: int, above: Sequence[str], name: str) -> None:
        try:
            with _inside(root, above) as handle:
                if handle is not None:
                    self._file(handle, "/".join((*above, name)))
        except _NotReadable as refused:
            self._problem("/".join((*above, name)), refused)

    def _tree_below(self, root: int, parts: Sequence[str]) -> None:
        if not _leads_somewhere(root, "/".join(parts)):
            return
        try:
            with _inside(root, parts) as handle:
                if handle is not None:
                    self._tree(handle, "/".join(parts), DEEPEST)
        except _NotReadable as refused:
            self._problem("/".join(parts), refused)

    def _beginnings(self, root: int) -> None:
        """`.gen/hooks*` and `.gen/mcp*`: files, or folders with everything below."""
        try:
            with _inside(root, [FOLDER]) as handle:
                if handle is not None:
                    names = [each for each in _names(handle, FOLDER) if each.startswith(_BEGINNINGS)]
                    for name in names:
                        self._either(handle, f"{FOLDER}/{name}", DEEPEST)
        except _NotReadable as refused:
            self._problem(FOLDER, refused)

    def _one_folder_down(self, root: int, path: str, name: str) -> None:
        if not _leads_somewhere(root, path):
            return
        try:
            with _inside(root, path.split("/")) as handle:
                for each in () if handle is None else _names(handle, path):
                    self._file_below(root, (*path.split("/"), each), name)
        except _NotReadable as refused:
            self._problem(path, refused)

    def _tree(self, handle: int, path: str, deeper: int) -> None:
        if not deeper:
            raise _NotReadable(f"there are more than {DEEPEST} nested folders")
        for name in _names(handle, path):
            self._either(handle, f"{path}/{name}", deeper)

    def _either(self, handle: int, path: str, deeper: int) -> None:
        """A file, or a folder with everything below it."""
        try:
            with _inside(handle, [path.rpartition("/")[2]]) as below:
                if below is None:
                    self._file(handle, path)
                else:
                    self._tree(below, path, deeper - 1)
        except _NotReadable as refused:
            self._problem(path, refused)

    def _file(self, handle: int, path: str) -> None:
        content = _content(handle, path.rpartition("/")[2], MOST_BYTES - self._bytes)
        if content is None:
            return
        if not _is_unicode(path):
            raise _NotReadable("its name is not UTF-8")
        self._bytes += len(content)
        if self._bytes > MOST_BYTES:
            raise _TooMany(f"there are more than {MOST_BYTES:,} bytes in what is to be trusted")
        if len(self.files) >= MOST_FILES:
            raise _TooMany(f"there are more than {MOST_FILES:,} files to be trusted")
        self.files[path] = _digest(content)
        if path in self._wanted or _is_used(path):
            self.texts[path] = content[: LARGEST_KEPT + 1]

    def _problem(self, path: str, refused: _NotReadable) -> None:
        said = f"{path}: {refused}"
        if said not in self.problems:
            self.problems.append(said)
        if len(self.problems) > MOST_PROBLEMS:
            raise _TooMany("and there are more problems")


def _is_gens(path: str) -> bool:
    return path.startswith(f"{FOLDER}/")


def is_skill(path: str) -> bool:
    """Whether a file of a project is that of a skill."""
    return path.endswith(f"/{_SKILL}") and path.startswith(_SKILL_TREES)


def is_command(path: str) -> bool:
    """Whether a file of a project is a slash command."""
    return path.endswith(COMMAND_ENDINGS) and path.startswith(_COMMAND_TREES)


def _is_used(path: str) -> bool:
    """Whether this version reads the file once the folder is trusted."""
    ours = path in (SETTINGS, *SERVERS) or is_skill(path) or is_command(path)
    return ours or agent_dialect(path) is not None or is_base(path)


def _is_unicode(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _leads_somewhere(root: int, path: str) -> bool:
    """Whether there is anything at a path, links followed: one that leads past us is nothing to speak of."""
    try:
        os.stat(path, dir_fd=root)
    except OSError as error:
        return error.errno not in (errno.ENOENT, errno.ENOTDIR)
    return True


@contextmanager
def _inside(handle: int, parts: Sequence[str]) -> Generator[int | None]:
    """A handle on a folder further down, no link followed; None when there is no such folder."""
    opened: list[int] = []
    try:
        for part in parts:
            below = _open_folder(opened[-1] if opened else handle, part)
            if below is None:
                yield None
                return
            opened.append(below)
        yield opened[-1] if opened else handle
    finally:
        for each in opened:
            os.close(each)


def _open_folder(handle: int, name: str) -> int | None:
    try:
        return os.open(name, _OPEN_FOLDER, dir_fd=handle)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG):
            raise _NotReadable(f"{_shown(name)} cannot be read ({error.strerror})") from None
    kind = _kind(handle, name)
    if kind is not None and not stat.S_ISREG(kind):
        raise _NotReadable(f"{_shown(name)} is {_called(kind)}, and only real folders and files are read")
    return None


def _content(handle: int, name: str, most: int) -> bytes | None:
    """At most `most` + 1 bytes of a regular file; None when it is not there."""
    kind = _kind(handle, name)
    if kind is None:
        return None
    if not stat.S_ISREG(kind):
        raise _NotReadable(f"it is {_called(kind)}, not a file")
    try:
        opened = os.open(name, _OPEN_FILE, dir_fd=handle)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _NotReadable(f"it cannot be read ({error.strerror})") from None
    try:
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            raise _NotReadable("it is not a file")
        content = bytearray()
        while len(content) <= most and (piece := os.read(opened, min(_CHUNK, most + 1 - len(content)))):
            content += piece
        return bytes(content)
    except OSError as error:
        raise _NotReadable(f"it cannot be read ({error.strerror})") from None
    finally:
        os.close(opened)


def _kind(handle: int, name: str) -> int | None:
    try:
        return os.stat(name, dir_fd=handle, follow_symlinks=False).st_mode
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _NotReadable(f"{_shown(name)} cannot be read ({error.strerror})") from None


def _called(kind: int) -> str:
    if stat.S_ISLNK(kind):
        return "a link"
    return "a folder" if stat.S_ISDIR(kind) else "a pipe, a socket or a device"


def _names(handle: int, path: str) -> list[str]:
    """The names in a folder in order; a folder of too many is not listed to its end."""
    try:
        with os.scandir(handle) as entries:
            names = [entry.name for entry in islice(entries, MOST_FILES + 1)]
    except OSError as error:
        raise _NotReadable(f"it cannot be read ({error.strerror})") from None
    if len(names) > MOST_FILES:
        raise _TooMany(f"{path}: it holds more than {MOST_FILES:,} files")
    return sorted(names)


def _shown(name: str) -> str:
    return name if name.isprintable() and len(name) <= 100 else repr(name[:100])


def _digest(content: bytes) -> str:
    from hashlib import sha256  # only where there is something to be looked at

    return sha256(content).hexdigest()
