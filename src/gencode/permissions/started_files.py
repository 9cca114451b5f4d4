"""The files of a project that a command line starts, as far as its words tell.

Hooks and MCP servers name programs, and those often lie in the folder itself. Whoever trusts the folder
trusts them too, so their content belongs to what is trusted, and agents must not rewrite them unasked. What a
program loads in its turn is not known here; where the words do not even tell which program it is, that is
said, so that a person can be told.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from gencode.permissions.bash.command_units import Unit

LARGEST = 256 * 1024 * 1024
"""Of a larger file the size counts and the beginning."""
_CHUNK = 1 << 20
_LONGEST_TOLD = 120
_FOLDER = re.compile(r"\$(?:\{(?:CLAUDE|GEN)_PROJECT_DIR\}|(?:CLAUDE|GEN)_PROJECT_DIR\b)")
"""How a hook names the folder it works in."""
_INTERPRETER = re.compile(
    r"(?:python|pypy|ruby|perl|php|lua)[\d.]*|node(?:js)?|bun|deno|tsx|ts-node|pwsh|osascript|rscript|java"
    r"|(?:ba|da|z|k|mk|c|tc)?sh|fish|source|\."
)
_TEXTS = frozenset({"-m", "-c", "-e", "-p", "-r", "--eval", "--print", "-s", "-"})
"""Options behind which an interpreter runs something else than a file."""
_RUNNER = re.compile(
    r"npx|npm|pnpm|yarn|bunx|uvx?|pipx|poetry|pipenv|hatch|pdm|rye|make|gmake|just|rake|bundle|cargo|go|dotnet"
    r"|mvn|mvnw|gradle|gradlew|docker|podman|nix|nix-shell|mise|direnv|xargs|eval"
)
"""Programs that find out for themselves what they start."""
_PROGRAM = re.compile(
    r"\.(?:py|pyz|js|mjs|cjs|jsx|ts|mts|cts|tsx|sh|bash|zsh|ksh|fish|rb|pl|php|lua|jar|ps1|r|mk|exe)\Z", re.I
)
_PIECES = re.compile(r"[=:,]")
_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class StartedFiles(Struct, frozen=True):
    """The files, below the folder, and the command lines that do not tell everything, with why."""

    files: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def started_by(lines: Iterable[tuple[str, str]], folder: Path) -> StartedFiles:
    """What command lines start of a folder. With each comes the folder it is run in; none: this one."""
    files: dict[str, None] = {}
    unknown: dict[str, None] = {}
    for line, cwd in lines:
        finding = _StartedFinder(folder, cwd)
        finding.line(line)
        files.update(dict.fromkeys(finding.files))
        told = line if len(line) <= _LONGEST_TOLD else f"{line[:_LONGEST_TOLD]}…"
        unknown.update(dict.fromkeys(f"{told}: {why}" for why in finding.unknown))
    return StartedFiles(tuple(files), tuple(unknown))


def digests(files: Iterable[str], folder: Path) -> dict[str, str]:
    """The SHA-256 of each file below a folder as it is now; empty for one that is not there.

    A link counts with where it leads; of what lies outside of the folder only the name does.
    """
    return {path: _digest(path, folder) for path in files}


class _StartedFinder:
    def __init__(self, folder: Path, cwd: str) -> None:
        self._folder = os.path.realpath(folder)
        self._cwd = os.path.normpath(f"{self._folder}/{cwd}" if not cwd.startswith("/") else cwd)
        self.files: list[str] = []
        self.unknown: list[str] = []

    def line(self, text: str) -> None:
        # Whoever only compares digests does not need to read commands.
        from gencode.permissions.bash.command_units import split_units

        command = split_units(_FOLDER.sub(lambda _: self._folder, text))
        if command.unparsable:
            self.unknown.append(command.unparsable)
        for unit in command.units:
            self._unit(unit)

    def _unit(self, unit: "Unit") -> None:
        from gencode.permissions.bash.forms import values_of
        from gencode.permissions.bash.wrappers import base_name

        if unit.part.opaque or unit.opaque:
            self.unknown.append(unit.part.opaque or unit.opaque)
        for each in values_of([*(one.value for one in unit.part.assignments), *unit.part.inputs]):
            self._mention(each or "")
        if unit.plain_shell or unit.part.kind != "command":
            return
        words = values_of(unit.words or unit.part.words)
        if unit.move is not None:
            self._move(words)
            return
        if not words:
            return
        name = base_name(words[0]) if words[0] else ""
        if words[0] is not None and "/" in words[0]:
            self._add(words[0])
        if name and _INTERPRETER.fullmatch(name.casefold()):
            self._script(name, words[1:])
        elif name and _RUNNER.fullmatch(name.casefold()):
            self.unknown.append(f"{name} decides what is run")
        for word in words[1:]:
            self._mention(word or "")

    def _move(self, words: Sequence[str | None]) -> None:
        """Everything after a `cd` is seen from there."""
        where = words[1] if len(words) == 2 else None
        if words[0] != "cd" or where is None or where.startswith(("-", "~")):
            self.unknown.append("it goes to a folder that is only known when it runs")
        else:
            self._cwd = os.path.normpath(where if where.startswith("/") else f"{self._cwd}/{where}")

    def _script(self, name: str, words: Sequence[str | None]) -> None:
        """The file an interpreter is given: its first word that is no option."""
        for word in words:
            if word is None:
                self.unknown.append(f"what {name} runs is only known when it runs")
                return
            if word in _TEXTS:
                self.unknown.append(f"what {name} {word} runs is no file that can be looked at")
                return
            if not word.startswith("-"):
                self._add(word)
                return

    def _mention(self, word: str) -> None:
        """A word that names a program of the folder, whatever for: `timeout 5 x.sh`, `--require=x.js`."""
        for piece in dict.fromkeys((word, *_PIECES.split(word))):
            place = self._place(piece)
            if place is None or not os.path.isfile(place):  # noqa: PTH113
                continue
            if _PROGRAM.search(piece) or os.access(place, os.X_OK):
                self._add(piece)

    def _add(self, word: str) -> None:
        place = self._place(word)
        if place is not None and not os.path.isdir(place):  # noqa: PTH112
            self.files.append(place.removeprefix(f"{self._folder}/"))

    def _place(self, word: str) -> str | None:
        """The absolute path that a word names inside of the folder, links not followed; None outside."""
        if not word or "\0" in word or word.startswith("~"):
            return None
        place = os.path.normpath(word if word.startswith("/") else f"{self._cwd}/{word}")
        return place if place.startswith(f"{self._folder}/") else None


def _digest(path: str, folder: Path) -> str:
    top = os.path.realpath(folder)
    place = f"{top}/{path}"
    real = os.path.realpath(place)
    if real != place and not real.startswith(f"{top}/"):
        return sha256(f"outside {real}".encode(errors="surrogateescape")).hexdigest()
    told = sha256(f"link {real.removeprefix(top)}".encode(errors="surrogateescape") if real != place else b"")
    try:
        handle = os.open(real, _OPEN)
    except (OSError, ValueError):
        return ""
    try:
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode):
            return ""
        if seen.st_size > LARGEST:
            told.update(f"{seen.st_size} bytes".encode())
        for chunk in _chunks(handle):
            told.update(chunk)
    except OSError:
        return ""
    finally:
        os.close(handle)
    return told.hexdigest()


def _chunks(handle: int) -> Iterator[bytes]:
    left = LARGEST
    while left > 0 and (chunk := os.read(handle, min(_CHUNK, left))):
        left -= len(chunk)
        yield chunk
