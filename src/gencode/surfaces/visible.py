"""Text from models, files and tools, made harmless for a terminal: what would act is shown instead.

Answers are `visible`. Where a person decides or looks for the truth (questions, what a folder brings, the
log) text is `exact`: what merely looks like something else is shown as well.
"""

import re

_ACTING = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters other than tab and newline
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0"  # signs that take no room
    r"\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # zero width, direction, line ends
    r"\ud800-\udfff\ufe00-\ufe0d\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# A picture may be followed by one sign that says how to draw it, a digit by one that makes it a key.
_STRAY = r"(?<![\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff])(?!(?<=[0-9#*])\ufe0f\u20e3)[\ufe0e\ufe0f]"
_acting = re.compile(f"[{_ACTING}]|{_STRAY}")


def visible(text: str) -> str:
    """`text` with control sequences, direction marks and zero-width characters spelled as escapes."""
    return _acting.sub(lambda found: _spelled(found[0]), text.replace("\r\n", "\n"))


def visible_line(text: str, most: int = 0) -> str:
    """`text` as one visible line; with `most`, cut to so many characters."""
    line = visible(" ".join(text[:10_000].split()))
    return line if not most or len(line) <= most else f"{line[: max(most - 1, 0)]}…"


def exact(text: str, keep: str = "\n\t") -> str:
    """`text` with everything spelled that cannot be seen, or looks like another character: odd spaces too."""
    shown = _acting.sub(lambda found: _spelled(found[0]), text)
    if shown.isprintable():
        return shown
    return "".join(each if each.isprintable() or each in keep else _spelled(each) for each in shown)


def exact_line(text: str) -> str:
    """`text` exactly, on one line whatever it holds."""
    return exact(text, keep="")


def safe_json(text: str) -> str:
    """JSON text that means the same and in which every acting character is escaped."""
    return _acting.sub(lambda found: _escaped(found[0]), text)


def _spelled(char: str) -> str:
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escaped(char: str) -> str:
    """A character as JSON escapes it: astral ones as a pair."""
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
