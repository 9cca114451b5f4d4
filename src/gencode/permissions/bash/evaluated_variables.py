"""Variables whose value bash evaluates: integers, the prompt PS4, and BASH_ENV, which names a script."""

import re
from collections.abc import Container, Iterator, Sequence

from gencode.permissions.bash.forms import value_of
from gencode.permissions.bash.parts import Part, ShellWord

INTEGERS = frozenset({"RANDOM", "SRANDOM", "SECONDS", "HISTCMD", "OPTIND", "LINENO", "BASHPID"})
"""Those that are integers without being declared so."""
_EXPANDED = frozenset({"PS4"})
"""Texts that bash expands whenever it shows a command."""
_DECLARES = frozenset({"declare", "typeset", "local"})
SETS_VARIABLES = _DECLARES | {
    "export",
    "readonly",
    "read",
    "printf",
    "mapfile",
    "readarray",
    "getopts",
    "wait",
}
"""Builtins whose words may name variables."""
_NUMBER = re.compile(r"[-+]?(?:[0-9]*|0[xX][0-9a-fA-F]+|[0-9]+#[0-9A-Za-z@_]+)")
_ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?=)?")


def declared_integers(command: str, words: Sequence[ShellWord]) -> Iterator[str]:
    """The names that `declare -i` makes integers."""
    if command not in _DECLARES:
        return
    values = [value_of(word) for word in words[1:]]
    if any(value is not None and value[:1] == "-" and "i" in value for value in values):
        for value in values:
            if value is not None and (found := _ASSIGNED.match(value)):
                yield found[1]


def evaluated_name(part: Part, command: str, words: Sequence[ShellWord], integers: Container[str]) -> str:
    """The first variable that a part sets to a text which bash would evaluate; empty if there is none.

    What reads a value from elsewhere may set it to anything.
    """
    for each in part.assignments:
        values = part.words if part.kind == "inert" else (each.value,)
        if any(_is_evaluated(each.name, value_of(word), integers) for word in values):
            return each.name
    if command not in SETS_VARIABLES or (command == "printf" and not _has_option_v(words)):
        return ""
    for word in words[1:]:
        text = word.pieces[0].text if word.pieces and word.pieces[0].kind == "text" else ""
        text = text.removeprefix("-v")
        found = _ASSIGNED.match(text)
        if found is None:
            continue
        value = value_of(word)
        given = value.removeprefix("-v")[found.end() :] if found[2] and value is not None else None
        if (found[2] or found.end() == len(text)) and _is_set(command, found, given, integers):
            return found[1]
    return ""


def _has_option_v(words: Sequence[ShellWord]) -> bool:
    return any((value_of(word) or "-v").startswith("-v") for word in words[1:])


def _is_set(command: str, found: re.Match[str], value: str | None, integers: Container[str]) -> bool:
    if found[2] is None and (command in _DECLARES or command in ("export", "readonly")):
        return False  # it is declared and keeps its value
    return _is_evaluated(found[1], value, integers)


def _is_evaluated(name: str, value: str | None, integers: Container[str]) -> bool:
    if name in integers:
        return value is None or not _NUMBER.fullmatch(value)
    if name == "BASH_ENV":
        return value != ""
    return name in _EXPANDED and (value is None or "$" in value or "`" in value)
