"""Finds and parses the JSON value in a model's reply, strictly and in bounded time.

The value is the whole text, or the last fenced block that is JSON, or the object or array at the end of the
text.
"""

import json
import math
import re
from collections import deque
from collections.abc import Iterator
from typing import Any, cast

MOST_TEXT = 1_000_000
MOST_DEPTH = 64
LONGEST_NUMBER = 400
_MOST_BLOCKS = 50
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1
"""The integers that the journal can store."""

_FENCE = re.compile(r"^[ \t]*(?P<marks>`{3,}|~{3,})(?P<info>[^`\n]*)$", re.MULTILINE)
_LOOKS = ("{", "[")
_AFTER = "`~. \t\r\n"
"""What may follow an object or array at the end of a text: a fence in the same line, the end of a sentence.
"""
_PAIRS = {"}": "{", "]": "["}


class InvalidJson(ValueError):
    """The text has no JSON, or ambiguous JSON; the message says which."""


def the_json_in(text: str) -> Any:
    """The JSON value in the text; InvalidJson without one."""
    if len(text) > MOST_TEXT:
        raise InvalidJson(f"The reply has {len(text):,} characters; a result may have {MOST_TEXT:,}.")
    text = text.strip()
    if not text:
        raise InvalidJson("The reply is empty; it should be a JSON value.")
    complaint = ""
    for candidate in _candidates(text):
        try:
            return strictly(candidate)
        except json.JSONDecodeError as error:
            if candidate.startswith(_LOOKS):
                complaint = complaint or _not_json(error)
    raise InvalidJson(complaint or "There is no JSON value in the reply.")


def strictly(text: str) -> Any:
    """Standard JSON: InvalidJson for what the standard leaves open, JSONDecodeError for invalid text."""
    try:
        value = json.loads(
            text,
            object_pairs_hook=_without_doubles,
            parse_constant=_no_number,
            parse_int=_whole_number,
            parse_float=_number,
        )
    except RecursionError:
        raise InvalidJson(_TOO_DEEP) from None
    _measure(value)
    return value


def unfit(value: object) -> str:
    """Why a single value cannot be stored as JSON, or nothing."""
    match value:
        case None | bool():
            return ""
        case str():
            return "" if _is_whole(value) else "a text in it holds a lone surrogate (\\ud800 to \\udfff)"
        case int():
            return "" if _SMALLEST <= value <= _LARGEST else "a number in it has more than 64 bits"
        case float():
            return "" if math.isfinite(value) else "JSON has no numbers such as NaN and Infinity"
        case _:
            return f"JSON has no values such as {type(value).__name__}"


def _candidates(text: str) -> Iterator[str]:
    """The candidates for the value, the likeliest first: blocks that look like JSON before others."""
    yield text
    blocks = deque(_fenced(text), maxlen=_MOST_BLOCKS)
    yield from (block for likely, block in reversed(blocks) if likely)
    yield from (block for likely, block in reversed(blocks) if not likely)
    bare = text.rstrip(_AFTER)
    if (begins := _ending(bare)) >= 0:
        yield bare[begins:]


def _fenced(text: str) -> Iterator[tuple[bool, str]]:
    """The fenced blocks and whether they look like JSON; one that is never closed reaches to the end."""
    opened: re.Match[str] | None = None
    for fence in _FENCE.finditer(text):
        if opened is None or _is_json(fence):  # which never closes a block
            opened = fence
        elif fence["marks"].startswith(opened["marks"]) and not fence["info"].strip():
            yield _block(opened, text[opened.end() : fence.start()])
            opened = None
    if opened is not None:
        yield _block(opened, text[opened.end() :])


def _block(opened: re.Match[str], content: str) -> tuple[bool, str]:
    block = content.strip()
    return _is_json(opened) or block.startswith(_LOOKS), block


def _is_json(fence: re.Match[str]) -> bool:
    return fence["info"].strip().casefold() == "json"


def _ending(text: str) -> int:
    """Where the object or array at the end of the text begins, or -1; read backwards, in one pass."""
    inside: list[str] = []
    at = len(text) - 1
    while at >= 0:
        character = text[at]
        if character in _PAIRS:
            inside.append(_PAIRS[character])
        elif not inside:
            return -1
        elif character == '"':
            at = _string_begins(text, at)
        elif character in "{[":
            if inside.pop() != character:
                return -1
            if not inside:
                return at
        at -= 1
    return -1


def _string_begins(text: str, end: int) -> int:
    """Where the string that ends at `end` begins: at a quote with an even number of backslashes before it."""
    at = end
    while (at := text.rfind('"', 0, at)) > 0:
        before = at
        while before > 0 and text[before - 1] == "\\":
            before -= 1
        if (at - before) % 2 == 0:
            return at
    return max(at, 0)


_TOO_DEEP = f"The JSON value is more than {MOST_DEPTH} levels deep; make it flatter."


def _measure(value: Any) -> None:
    waiting: list[tuple[Any, int]] = [(value, 1)]
    while waiting:
        each, depth = waiting.pop()
        if depth > MOST_DEPTH:
            raise InvalidJson(_TOO_DEEP)
        if isinstance(each, dict):
            members = cast("dict[str, Any]", each)
            if not all(map(_is_whole, members)):
                raise InvalidJson("A name in the JSON value holds a lone surrogate (\\ud800 to \\udfff).")
            waiting += ((member, depth + 1) for member in members.values())
        elif isinstance(each, list):
            waiting += ((member, depth + 1) for member in cast("list[Any]", each))
        elif reason := unfit(each):
            raise InvalidJson(f"The JSON value cannot be kept: {reason}.")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        double = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise InvalidJson(f"The JSON value has the name {_shown(double)} twice in one object.")
    return members


def _no_number(word: str) -> Any:
    raise InvalidJson(f"JSON has no number {word}; use null or a finite number.")


def _whole_number(digits: str) -> int:
    return int(digits) if len(digits) <= LONGEST_NUMBER else _no_number(f"of {len(digits):,} digits")


def _number(digits: str) -> float:
    if len(digits) > LONGEST_NUMBER or math.isinf(number := float(digits)):
        return _no_number(f"as large or as long as {digits[:20]}…")
    return number


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _not_json(error: json.JSONDecodeError) -> str:
    near = _shown(error.doc[max(error.pos - 20, 0) : error.pos + 20])
    return (
        f"The JSON value breaks at its line {error.lineno}, column {error.colno}, near {near}: {error.msg}."
    )


def _shown(text: str) -> str:
    """A short text, quoted, without lone surrogates."""
    return json.dumps(text[:80]) if not _is_whole(text[:80]) else json.dumps(text[:80], ensure_ascii=False)
