"""Agents room: the entries of a list of tools, and which of them take a tool away.

What gives a tool has to be written as it is called. What takes one away is read as widely as possible: a
denial that is missed would give more than its author meant.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

from gencode.agents.tool_names import tools_called

_ON = frozenset(("true", "on", "yes", "allow", "allowed", "enable", "enabled"))
_OFF = frozenset(
    ("false", "off", "no", "deny", "denied", "disable", "disabled", "none", "never", "block", "blocked")
)
_ASKED = "ask"
_SWITCHES = ("enabled", "enable", "allow", "allowed", "value")
_TAKEN = re.compile(r"[-!](?=[^\W\d]|\*)")


class NameList(NamedTuple):
    """The names of a list, those that it takes away, and what could not be understood of it."""

    names: list[str]
    denied: list[str]
    odd: list[str]


def listed(value: Any) -> list[str] | None:
    """The entries of a value: a text with commas, a list of such, or nothing. None if it is none of these."""
    found = entries_of(value)
    return None if found is None else found.names


def entries_of(value: Any) -> NameList | None:
    """What a list says, entry by entry; None if it is no list."""
    if value is None or value is False:
        return NameList([], [], [])
    if not isinstance(value, str | list):
        return None
    found = NameList([], [], [])
    for each in [value] if isinstance(value, str) else cast("list[Any]", value):
        if isinstance(each, dict):
            _from_fields(cast("dict[str, Any]", each), found)
        elif isinstance(each, bool | list):
            found.odd.append(str(cast("Any", each)))
        elif each is not None:
            _from_text(str(each), found)
    return NameList(*(list(dict.fromkeys(each)) for each in found))


def _from_fields(fields: dict[str, Any], found: NameList) -> None:
    """An entry with a value: `{name: Bash, enabled: false}`, or `{Bash: false}`."""
    name = fields.get("name")
    if isinstance(name, str):
        said = [switch(fields[key]) for key in _SWITCHES if key in fields]
        _sort_in(name, True if not said else all(said), found)
        return
    for key, value in fields.items():
        remark = isinstance(value, str) and switch(value) is None and value.casefold() != _ASKED
        _sort_in(key, True if value is None or remark else switch(value), found)


def _sort_in(name: str, on: bool | None, found: NameList) -> None:
    if on:
        _from_text(name, found)
    elif on is False:
        found.denied.append(name)
    else:
        found.odd.append(name)


def _from_text(text: str, found: NameList) -> None:
    for name in split_names(text):
        taken = _TAKEN.match(name)
        (found.denied if taken else found.names).append(name[1:] if taken else name)


def switch(value: Any) -> bool | None:
    """Whether a value switches something on or off; None when nobody could say."""
    if isinstance(value, dict):
        inner = cast("dict[str, Any]", value)
        return switch(next(iter(inner.values()))) if len(inner) == 1 and {*inner} <= {*_SWITCHES} else None
    word = str(value).strip().casefold()
    if isinstance(value, bool | str) and word in _ON | _OFF:
        return word in _ON
    return None


def denials(value: Any) -> list[str]:
    """Everything that a list of denials may mean, whatever its shape; `*` where there is no telling."""
    return list(dict.fromkeys(_denials(value)))


def _denials(value: Any) -> Iterator[str]:
    if value is None or value is False:
        return
    if isinstance(value, str):
        yield from _denied_names(value)
    elif isinstance(value, list):
        for each in cast("list[Any]", value):
            yield from _denials(each)
    elif isinstance(value, dict):
        fields = cast("dict[str, Any]", value)
        yield from _denied_names(str(fields["name"])) if "name" in fields else _each(fields)
    else:
        yield "*" if value is True else str(value)


def _each(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        yield from _denied_names(name)


def _denied_names(text: str) -> Iterator[str]:
    for name in split_names(plain(text), ",\n;|"):
        bare = name[1:] if _TAKEN.match(name) else name
        words = bare.split()
        yield from words if "(" not in bare and all(map(tools_called, words)) else [bare]


def plain(text: str) -> str:
    """A text without what cannot be seen, its look-alike letters as those they look like."""
    kept = (each for each in text if each == "\n" or unicodedata.category(each)[0] != "C")
    return unicodedata.normalize("NFKC", "".join(kept))


def split_names(text: str, between: str = ",\n") -> list[str]:
    """The parts of a text between its commas and lines, but not those in parentheses or brackets of names."""
    text = text.strip()
    if text[:1] == "[":
        text = text[1:].removesuffix("]")
    parts, depth, start = list[str](), 0, 0
    for at, character in enumerate(text):
        depth = max(0, depth + (character == "(") - (character == ")"))
        if character in between and not depth:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    names = [part.strip().removeprefix("- ").strip().strip("\"'`").strip() for part in parts]
    names = [name for name in names if name]
    if len(names) == 1 and "(" not in names[0] and " " in names[0]:
        words = names[0].split()
        if all(tools_called(word) for word in words):
            return words
    return names
