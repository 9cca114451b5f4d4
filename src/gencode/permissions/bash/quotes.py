"""Decodes the escapes of `$'…'`."""

import re

from gencode.permissions.bash.parts import Unparsable

_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c([A-Za-z])|(.))",
    re.DOTALL,
)
_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "?": "?",
}
_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


def decoded(text: str) -> str:
    """The value of the text between `$'` and `'`."""
    if "\\" not in text:
        return text
    value = _ESCAPE.sub(_character, text)
    if "\0" in value:
        raise Unparsable("$'…' with a NUL ends where it does not seem to")
    try:
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise Unparsable("$'…' holds what is no character") from None


def _character(found: re.Match[str]) -> str:
    byte, short, long, octal, control, simple = found.groups()
    if byte is not None:
        return _byte(int(byte, 16))
    if octal is not None:
        return _byte(int(octal, 8) & 0xFF)
    if control is not None:
        return chr(ord(control.upper()) & 0x1F)
    if simple is not None:
        return _simple(simple)
    code = int(short or long, 16)
    if code > _LAST_CHARACTER or code in _SURROGATES:
        raise Unparsable("$'…' holds what is no character")
    return chr(code)


def _byte(value: int) -> str:
    """Bytes beyond ASCII may be parts of one character, so they are put together at the end."""
    return chr(value) if value < 0x80 else bytes([value]).decode("ascii", "surrogateescape")


def _simple(letter: str) -> str:
    if letter in "xuUc":
        raise Unparsable(f"$'…' has an unfinished \\{letter}")
    return _SIMPLE.get(letter, "\\" + letter)
