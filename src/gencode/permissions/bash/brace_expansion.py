"""Brace expansion, as far as it is known before anything runs: lists and ranges of plain text.

Bash does it first of all, by the letters alone. A word with anything else between its braces stays dynamic.
"""

import re
from collections.abc import Sequence
from itertools import product
from math import prod

from gencode.core.structs import replace
from gencode.permissions.bash.parts import Part, ShellWord, WordPiece

MOST_WORDS = 256
"""More than that stay one word that is not known."""
_PLAIN = re.compile(r"[A-Za-z0-9_./:@%+=~^*?-]*")
_LIST = re.compile(r"\{([^{}]*,[^{}]*)\}")
_NUMBERS = re.compile(r"\{(-?[0-9]{1,6})\.\.(-?[0-9]{1,6})(?:\.\.(-?[0-9]{1,6}))?\}")
_LETTERS = re.compile(r"\{([A-Za-z])\.\.([A-Za-z])\}")


def with_braces_expanded(part: Part) -> Part:
    """The part with the words that bash makes of its braces, where all of them are known."""
    if "{" not in part.source or part.kind == "write" or not any(map(_has_braces, part.words)):
        return part
    words: list[ShellWord] = []
    for word in part.words:
        words += _expanded(word) if word.has("brace") else [word]
        if len(words) > MOST_WORDS:
            return part
    return replace(part, words=tuple(words))


def _has_braces(word: ShellWord) -> bool:
    pieces = word.pieces
    return pieces[0].kind == "brace" if len(pieces) == 1 else word.has("brace")


def _expanded(word: ShellWord) -> Sequence[ShellWord]:
    """The words of one with braces; itself where they are not known."""
    text = word.value
    known = all(piece.kind in ("text", "brace", "glob") and not piece.quoted for piece in word.pieces)
    if not known or "[" in text:
        return [word]
    choices: list[Sequence[str]] = []
    at = 0
    for found in re.finditer(r"\{[^{}]*\}", text):
        alternatives = _alternatives(found[0])
        if alternatives is None:
            return [word]
        choices += [(text[at : found.start()],), alternatives]
        at = found.end()
    choices.append((text[at:],))
    between = "".join([text for (text,) in choices[::2]])
    if prod(map(len, choices)) > MOST_WORDS or "{" in between or "}" in between:
        return [word]
    made = ["".join(each) for each in product(*choices)]
    return [_word(each) for each in made if each]


def _alternatives(braces: str) -> Sequence[str] | None:
    """What stands for one pair of braces; None where that is not known."""
    if found := _LIST.fullmatch(braces):
        parts = found[1].split(",")
        return parts if all(map(_PLAIN.fullmatch, parts)) else None
    if found := _NUMBERS.fullmatch(braces):
        numbers = _range(int(found[1]), int(found[2]), abs(int(found[3] or 1)) or 1)
        padded = any(_is_padded(each) for each in found.groups())
        return None if padded or len(numbers) > MOST_WORDS else [str(each) for each in numbers]
    if (found := _LETTERS.fullmatch(braces)) and found[1].isupper() == found[2].isupper():
        return [chr(each) for each in _range(ord(found[1]), ord(found[2]), 1)]
    return None


def _range(first: int, last: int, step: int) -> range:
    """From one number to another, both included, up or down."""
    return range(first, last + 1, step) if last >= first else range(first, last - 1, -step)


def _is_padded(number: str | None) -> bool:
    digits = (number or "").lstrip("-")
    return (len(digits) > 1 and digits.startswith("0")) or number == "-0"


def _word(text: str) -> ShellWord:
    return ShellWord(_pieces(text), text)


def _pieces(text: str) -> tuple[WordPiece, ...]:
    """Its pieces: patterns stay what they are."""
    found = re.split(r"([*?]+)", text)
    return tuple([WordPiece(each, "glob" if at % 2 else "text") for at, each in enumerate(found) if each])
