"""Text of others as a person or a model reads it among ours: quoted line by line, nothing in it invisible.

No line of ours begins with `>`, so nothing in a quoted text passes for a notice of ours, whatever it says.
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
ACTING = re.compile(f"[{_ACTING}]|{_STRAY}")
"""Every character that acts on a screen or a reader instead of being seen."""

# What chat templates and harnesses mark roles and notices with. Some servers read these anywhere in a text.
_TOKEN = re.compile(
    r"<(?=[|\uff5c][^\s|\uff5c<>]{1,40}[|\uff5c]>"
    r"|/?(?:[\w-]{1,20}:)?(?:system(?:[-_][\w-]{1,40})?|user|assistant|human|developer|report|invoke|bos|eos|s"
    r"|(?:start|end)_of_turn|(?:tool|function)_(?:call|result|response)s?)\b[^<>\n]{0,100}>"
    r"|</?SYS>>)"
    r"|\[(?=/?INST\])",
    re.IGNORECASE,
)


def visible(text: str) -> str:
    """`text` with control sequences, direction marks and zero-width characters spelled as escapes."""
    return ACTING.sub(lambda found: spelled(found[0]), text.replace("\r\n", "\n"))


def visible_line(text: str, most: int = 0) -> str:
    """`text` as one visible line; with `most`, cut to so many characters."""
    line = visible(" ".join(text[:10_000].split()))
    return line if not most or len(line) <= most else f"{line[: max(most - 1, 0)]}…"


def spelled(char: str) -> str:
    """A character as an escape."""
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def disarmed(text: str) -> str:
    """`text` of another agent, visible, with a backslash in every sign that stands for a role or a notice."""
    return _TOKEN.sub(lambda found: f"{found[0]}\\", visible(text))


def disarmed_line(text: str, most: int) -> str:
    """The same on one line of at most `most` characters."""
    line = disarmed(" ".join(text[:10_000].split()))
    return line if len(line) <= most else f"{line[: max(most - 1, 0)]}…"


def unquoted(text: str) -> str:
    """What is quoted in `text`, without the `>`; empty where nothing is."""
    lines = (line for line in text.split("\n") if line.startswith(">"))
    return "\n".join(line.removeprefix("> ") if line != ">" else "" for line in lines)


def quoted(text: str) -> str:
    """Every line of `text` behind a `>`."""
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
