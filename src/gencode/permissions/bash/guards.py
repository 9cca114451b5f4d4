"""Guards: whether the words of a command name secrets, protected files or paths with rules.

Words are only a hint (a program can build any path), so guards ask and the sandbox is the wall. Nothing here
looks at the disk.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from gencode.permissions.bash.command_units import Unit
from gencode.permissions.bash.forms import value_of, without_certainty
from gencode.permissions.bash.parts import Part, ShellWord
from gencode.permissions.bash.working_folders import HERE, WorkingFolders
from gencode.permissions.paths import is_inside, is_started
from gencode.permissions.patterns import Places
from gencode.permissions.secrets import folded, is_protected, is_secret

_SEPARATORS = re.compile(r"[=:,@]")
_DYNAMIC = "\x00"
_BRACE = "\x01"
_GLUED = re.compile(r"-[A-Za-z0-9](.+)", re.DOTALL)
_BRACES = re.compile(r"[{},]")
_HIDDEN_IN_BRACES = re.compile(r"[{,]\.[^/.,}]")
# Whatever the guards speak of has one of these in it; most commands have none.
_TRIGGER = re.compile(
    r"\.(?:ssh|gnupg|aws|azure|kube|config|env|netrc|git|pgpass|npmrc|pypirc|pem|key|p12|pfx|gen|vscode|idea"
    r"|husky|mcp|bash|profile|zsh|zprofile|zlog|inputrc|agents|claude|codex|cursor|gemini|qwen|opencode|cargo"
    r"|devcontainer|pre-commit|yarnrc|exrc|dir-locals|gdbinit|kshrc|cshrc|tcshrc|\.)"
    r"|id_|git~|/(?:etc|boot|sys|proc|dev)|\x01"
)
_UNKNOWN_DOT_NAME = re.compile(r"(?:\A|[/\n=:,@]|(?:\A|\n)-[A-Za-z0-9])\.[^/\n=:,@\x00]*\x00")
_UNKNOWN_ROOT = re.compile(r"(?:\A|[\n=:,@]|(?:\A|\n)-[A-Za-z0-9])/[^/\n]*\x00")
_PLAIN_PATH = re.compile(r"(?!\.{1,2}(?:/|\Z))[^/~]+(?:/(?!\.{0,2}(?:/|\Z))[^/]+)*\Z")


def looked_at(part: Part) -> tuple[ShellWord, ...]:
    """The words of a part that may name files."""
    words = part.words[1:] if part.kind == "command" else part.words
    if part.assignments or part.inputs:
        words = (*words, *(each.value for each in part.assignments), *part.inputs)
    return words


class GuardResult(NamedTuple):
    """Why a part needs approval although a rule may allow it.

    `text` holds all words that may name files, and the folders they may be in, in small letters. A path rule
    whose needle is not in it cannot match, unless it is `doubtful` which paths the words name.
    """

    guard: str = ""
    text: str = ""
    doubtful: bool = False


_NOTHING_NAMED = GuardResult()


def check_guards(unit: Unit, places: Places, stay: WorkingFolders = HERE) -> GuardResult:
    """Look at the words of a part, and at the folders it may run in."""
    words = looked_at(unit.part)
    if unit.replaced:
        words = tuple([without_certainty(word, unit.replaced) for word in words])
    if not words:
        doubtful = unit.behind_xargs
        return GuardResult(stay.guard, doubtful=doubtful) if stay.guard or doubtful else _NOTHING_NAMED
    masked = [_masked(word) for word in words]
    text = "\n".join(masked)
    guard = stay.guard
    if not guard and (stay.folders or _may_trigger(text)):
        guard = _guard(unit, words, masked, places, stay.folders)
    guard = guard or _starts(unit, words, places, stay.folders)
    if stay.folders:
        text = "\n".join([text, *stay.folders])
    plain = text.isascii() and _DYNAMIC not in text and _BRACE not in text and "~" not in text
    return GuardResult(guard, text.lower(), stay.unknown or unit.behind_xargs or not plain)


def _guard(
    unit: Unit, words: Sequence[ShellWord], masked: Sequence[str], places: Places, folders: Sequence[str]
) -> str:
    changes = _changes(unit)
    protected = ""
    for word, text in zip(words, masked, strict=True):
        for components, absolute in _readings(word, text, places, folders):
            if is_secret(components, absolute=absolute) or _hidden(components, absolute=absolute):
                return f"{_short(word)} may hold secrets"
            if changes and not protected and is_protected(components, absolute=absolute):
                protected = f"{_short(word)} changes how programs behave"
        if _BRACE in text and _HIDDEN_IN_BRACES.search(word.value):
            return f"{_short(word)} may hold secrets"
    return protected


def _starts(unit: Unit, words: Sequence[ShellWord], places: Places, folders: Sequence[str]) -> str:
    """Whether a part that may change something names a file that a hook or an MCP server starts."""
    if not places.started or not _changes(unit):
        return ""
    for word in words:
        for candidate in _candidates(value_of(word) or ""):
            paths = list(_paths(candidate, places))
            if not candidate.startswith(("/", "~")):
                paths += [path for folder in folders for path in _paths_below(folder, candidate, places)]
            if is_started(paths, places):
                return f"{_short(word)} is started by a hook or an MCP server"
    return ""


def _changes(unit: Unit) -> bool:
    return unit.part.kind != "inert" and bool(unit.more_than_read) and not unit.plain_shell


def _may_trigger(text: str) -> bool:
    if not text.isascii() or _TRIGGER.search(text.lower()):
        return True
    return _DYNAMIC in text and bool(_UNKNOWN_DOT_NAME.search(text) or _UNKNOWN_ROOT.search(text))


def _masked(word: ShellWord) -> str:
    """The value of a word with one character for each piece that is not known."""
    pieces = word.pieces
    if len(pieces) == 1 and pieces[0].kind == "text":
        return pieces[0].text
    return "".join(
        [
            piece.text if piece.kind == "text" else _BRACE if piece.kind == "brace" else _DYNAMIC
            for piece in pieces
        ]
    )


def _hidden(components: tuple[str, ...], *, absolute: bool) -> bool:
    """Whether what is not known in a path may well be a secret."""
    unknown = [at for at, name in enumerate(components) if _DYNAMIC in name or _BRACE in name]
    if not unknown:
        return False
    if absolute and components[0] == "proc" and (unknown[-1] > 1 or unknown[-1] == len(components) - 1):
        return True
    if absolute and unknown[0] == 0 and len(components) > 1:  # `/p*/1/environ`
        return True
    return any(components[at].startswith(".") for at in unknown)


def _short(word: ShellWord) -> str:
    return repr(word.source if len(word.source) <= 60 else f"{word.source[:60]}…")


def _readings(
    word: ShellWord, text: str, places: Places, folders: Sequence[str]
) -> Iterator[tuple[tuple[str, ...], bool]]:
    """The components of everything in a word that may be a path, and whether it begins at the root."""
    candidates: Iterable[str] = _candidates(text)
    if _BRACE in text:
        inside = (each for piece in _candidates(word.value) for each in _BRACES.split(piece))
        candidates = dict.fromkeys([*candidates, *inside])
    for candidate in candidates:
        for folder in folders:
            if not candidate.startswith(("/", "~")):
                yield from _below(folder, candidate, places)
        if not _may_trigger(candidate):
            continue
        components = folded(candidate)
        if candidate[:2] in (_DYNAMIC + "/", _BRACE + "/"):
            # An empty variable leaves an absolute path.
            yield components[1:], True
        yield components, candidate.startswith("/")
        if ".." in candidate:
            for path in _paths(candidate, places):
                yield folded(path), True
            if not candidate.startswith(("/", "~")):
                yield folded(f"{places.root}/{candidate}"), True


def _below(folder: str, candidate: str, places: Places) -> Iterator[tuple[tuple[str, ...], bool]]:
    """A relative name as it is read in a folder that a `cd` leads to."""
    whole = f"{folder.rstrip('/')}/{candidate}"
    if not _may_trigger(whole):
        return
    path = whole if _PLAIN_PATH.match(candidate) else _absolute(whole, places)
    if is_inside(path, places.root):  # the names above the workspace say nothing about what is in it
        yield folded(path[len(places.root) :]), False
    else:
        yield folded(path), True
    if ".." in candidate:
        yield folded(whole), True


def _candidates(text: str) -> Iterator[str]:
    """A word, its pieces, and what is glued to a short option."""
    if not text:
        return
    yield text
    if text[0] == "-" and (glued := _GLUED.match(text)):
        yield glued[1]
    pieces = _SEPARATORS.split(text)
    if len(pieces) > 1:
        yield from filter(None, pieces)


def _paths(text: str, places: Places) -> tuple[str, ...]:
    """What a text names, seen from the workspace root; under both names of a folder that is a link.

    What is named in a folder of which the workspace is in a copy is a file of the copy as well.
    """
    plain = _PLAIN_PATH.match(text)
    return _with_twins(f"{places.root.rstrip('/')}/{text}" if plain else _absolute(text, places), places)


def _paths_below(folder: str, text: str, places: Places) -> tuple[str, ...]:
    """What a relative text names, seen from a folder."""
    whole = f"{folder.rstrip('/')}/{text}"
    return _with_twins(whole if _PLAIN_PATH.match(text) else _absolute(whole, places), places)


def _with_twins(path: str, places: Places) -> tuple[str, ...]:
    root, real_root, home, real_home = places[:4]
    if not places.originals and (root, home) == (real_root, real_home):
        return (path,)
    copies = [(folder.rstrip("/"), places.copy) for folder, _ in places.originals]
    pairs = ((root, real_root), (real_root, root), (home, real_home), (real_home, home), *copies)
    twins = [other + path[len(name) :] for name, other in pairs if is_inside(path, name)]
    return (path, *twins)


def _absolute(text: str, places: Places) -> str:
    """An absolute path, normalised by its letters alone."""
    if text.startswith("/"):
        whole = text
    elif text == "~" or text.startswith("~/"):
        whole = places.home + text[1:]
    else:
        whole = f"{places.root}/{text.removeprefix('~+/')}"
    normal = os.path.normpath(whole)
    return normal[1:] if normal.startswith("//") else normal


class NamedPath(NamedTuple):
    """A path, the same in small letters (empty if that is not certain), and the word it stands in."""

    path: str
    small: str
    word: str


class NamedPaths(NamedTuple):
    """The paths that the words of a part name. `unsure`: there is a word that may name any path."""

    paths: tuple[NamedPath, ...] = ()
    unsure: str = ""


def named_paths(unit: Unit, places: Places, stay: WorkingFolders = HERE) -> NamedPaths:
    """What path rules compare."""
    words = looked_at(unit.part)
    unsure = "xargs adds words that are only known when it runs" if unit.behind_xargs else ""
    if not words:
        return NamedPaths((), unsure)
    found: dict[str, str] = {}
    for word in words:
        value = value_of(word)
        if value is None:
            unsure = unsure or f"{_short(word)} is only known when it runs"
            continue
        if not unsure:
            unsure = _doubt(value, unknown=stay.unknown)
        for candidate in _candidates(value):
            relative = not candidate.startswith(("/", "~"))
            for path in _paths(candidate, places):
                found.setdefault(path, value)
            for folder in stay.folders if relative else ():
                for path in _paths_below(folder, candidate, places):
                    found.setdefault(path, value)
    paths = [NamedPath(path, path.lower() if path.isascii() else "", word) for path, word in found.items()]
    return NamedPaths(tuple(paths), unsure)


def _doubt(value: str, *, unknown: bool) -> str:
    if value.startswith("~"):
        known = value == "~" or value.startswith(("~/", "~+/"))
        return "" if known else f"{value!r} may be the home folder of another user"
    if unknown and value and not value.startswith(("-", "/")):
        return f"{value!r} is below a folder that cd leads to"
    return ""
