"""Detects destructive commands: `rm -r` of an important folder, or writing to a disk.

They need approval in every mode, whatever a rule for all commands says. Only words are looked at.
"""

import os
import re
from collections.abc import Iterator, Sequence

from gencode.permissions.bash.command_units import Unit
from gencode.permissions.bash.forms import value_of
from gencode.permissions.bash.parts import ShellWord
from gencode.permissions.bash.working_folders import WorkingFolders
from gencode.permissions.bash.wrappers import base_name
from gencode.permissions.paths import is_inside
from gencode.permissions.patterns import Places

_KNOWN = frozenset(
    {"rm", "dd", "shred", "tee", "cp", "mv", "mkfs", "mke2fs", "mkswap", "wipefs", "blkdiscard"}
)
_COPIES = frozenset({"dd", "shred", "tee", "cp", "mv"})
_NO_DISK = re.compile(
    r"/dev/(?:null|zero|full|u?random|std(?:in|out|err)|tty[^/]*|ptmx|console|(?:fd|pts|shm|mqueue)(?:/.*)?)"
)
_ALL_IN_IT = re.compile(r"(?:/\.?\*+)+\Z|\A\.?\*+\Z")
_VARIABLES = {"$HOME": "home", "${HOME}": "home", "$PWD": "cwd", "${PWD}": "cwd"}


def destruction(unit: Unit, places: Places, stay: WorkingFolders) -> str:
    """What a part would destroy; empty if nothing that is known."""
    part = unit.part
    if part.kind == "write":
        target = value_of(part.words[0]) or ""
        return f"it writes to the device {target}" if _is_disk(target) else ""
    for words in _commands(unit):
        name = base_name(words[0].value)
        if name == "rm":
            if lost := _removed(words[1:], places, stay):
                return f"it removes everything in {lost}"
        elif name not in _COPIES:
            return f"{name} makes a disk empty"
        elif disk := next(filter(_is_disk, map(_operand, words[1:])), ""):
            return f"{name} writes to the device {disk}"
    return ""


def _commands(unit: Unit) -> Iterator[Sequence[ShellWord]]:
    """The words from each place on where a command that destroys something may begin."""
    words, tracks = unit.part.words, unit.tracks
    if len(tracks) == 1 and tracks[0].starts == (0,) and tracks[0].free_from > len(words):
        if words and _is_known(base_name(value_of(words[0]) or "")):
            yield words
        return
    starts = {start for track in unit.tracks for start in track.starts}
    free_from = min((track.free_from for track in unit.tracks), default=len(words))
    for at, word in enumerate(words):
        if (at in starts or at >= free_from) and word.literal and _is_known(base_name(word.value)):
            yield words[at:]


def _is_known(name: str) -> bool:
    return name in _KNOWN or name.startswith("mkfs.")


def _operand(word: ShellWord) -> str:
    return (value_of(word) or "").removeprefix("of=")


def _is_disk(path: str) -> bool:
    normal = os.path.normpath(path) if path.startswith("/") else ""
    return normal.startswith("/dev/") and not _NO_DISK.fullmatch(normal)


def _removed(words: Sequence[ShellWord], places: Places, stay: WorkingFolders) -> str:
    """The first folder of importance that `rm` with these words removes, or all that is in it."""
    options, operands = _sorted_out(words)
    if not any(map(_recurses, options)):
        return ""
    precious = {places.root, places.real_root, places.home, places.real_home}
    for word in operands:
        for path in _paths(word, places, stay):
            if path.count("/") < 2 or any(is_inside(each, path) for each in precious):
                return path
    return ""


def _sorted_out(words: Sequence[ShellWord]) -> tuple[list[str], list[ShellWord]]:
    options: list[str] = []
    operands: list[ShellWord] = []
    for at, word in enumerate(words):
        value = value_of(word)
        if value == "--":
            return options, [*operands, *words[at + 1 :]]
        if value is not None and value.startswith("-") and len(value) > 1:
            options.append(value)
        else:
            operands.append(word)
    return options, operands


def _recurses(option: str) -> bool:
    if option.startswith("--"):
        return len(option) > 2 and "--recursive".startswith(option)
    return "r" in option or "R" in option


def _paths(word: ShellWord, places: Places, stay: WorkingFolders) -> Iterator[str]:
    """What a word names, as an absolute path; nothing where that is not known."""
    here = places.cwd or places.root
    text = ""
    for piece in word.pieces:
        if piece.kind in ("text", "glob"):
            text += piece.text
        elif piece.kind == "variable" and piece.text in _VARIABLES:
            text += places.home if _VARIABLES[piece.text] == "home" else here
        else:
            return
    first = word.pieces[0]
    if (text == "~" or text.startswith("~/")) and not first.quoted:
        text = places.home + text[1:]
    text = _ALL_IN_IT.sub("", text) or ("/" if text.startswith("/") else ".")
    if any(character in text for character in "*?"):
        return
    for base in (here,) if text.startswith("/") or not stay.runs_in else stay.runs_in:
        yield os.path.normpath(text if text.startswith("/") else f"{base}/{text}").replace("//", "/", 1)
