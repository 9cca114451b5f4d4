"""Makes text of models, files and tools safe to show: escaped, quoted, and cut to a length.

Answers are `visible`: control sequences and characters that change the direction of text are escaped. Where a
person decides or needs the exact content (questions, the contents of a folder, the log) text is `exact`:
characters that merely look like others are escaped as well. What one agent wrote another reads `disarmed` and
`quoted`: no line of ours begins with `>`, so nothing in a quoted text passes for a notice of GenCode.

Some invisible characters are part of what is read: joiners in 👩‍💻, in Persian or in Indic words, and
variation selectors. In `visible` text such a character stays where it has an effect, which depends on its
neighbours, and is escaped elsewhere. The page has the same patterns, in `interfaces/http/static/js/dom.js`; a
test compares them.
"""

import re
import unicodedata
from functools import cache

CLIP = 30_000


def word_set(text: str) -> frozenset[str]:
    """The words of a text, as a set."""
    return frozenset(text.split())


def clip(text: str, most: int = CLIP, rest: str = "") -> str:
    """`text` as it may enter a transcript: at most `most` characters, cut at a line, with a note.

    `rest` says where the whole text is.
    """
    if len(text) <= most:
        return text
    cut = text.rfind("\n", most // 2, most)
    cut = most if cut < 0 else cut
    return f"{text[:cut]}\n[… {len(text) - cut:,} of {len(text):,} characters were left out{rest}]"


def shortened(text: str, most: int) -> str:
    """At most `most` characters of a text, and how many more there are."""
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]} [… {left:,} more characters]"


def counted(number: int, one: str, several: str = "") -> str:
    """A number of things: `1 file`, `2,345 files`."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def inert(text: str) -> str:
    """`text` without invisible characters: control, format, private and unassigned ones."""
    if text.isprintable():
        return text
    lines = text.split("\n")
    return "\n".join(each if each.isprintable() else "".join(map(_visible, each)) for each in lines)


def one_line(text: str, most: int) -> str:
    """`text` without invisible characters, on one line, at most `most` characters long."""
    line = " ".join(inert(text).split())
    return line if len(line) <= most else line[: max(0, most - 1)].rstrip() + "…"


def _visible(character: str) -> str:
    if character.isprintable() or character in "\n\t":
        return character
    match unicodedata.category(character):
        case "Zs":
            return " "
        case "Zl" | "Zp":
            return "\n"
        case "Cc" | "Cf":
            return ""
        case _:
            return "\ufffd"


_ALWAYS = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters other than tab and newline
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u3164\uffa0"  # signs that take no room
    r"\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # zero width, direction, line ends
    r"\ud800-\udfff\ufe03-\ufe0d\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    r"\U000e0000-\U000e00ff\U000e0120-\U000e0fff"
)
_JOINERS = r"\u200c\u200d"
_FORMS = r"\ufe00-\ufe02\U000e0100-\U000e011f"
_MONGOLIAN_FORMS = r"\u180b-\u180f"

_EMOJI = r"\u2194\u2195\u2600-\u27bf\u2b1b\U0001f000-\U0001f3fa\U0001f400-\U0001faff"
_JOINED = (  # letters, marks and digits of scripts in which a joiner changes how its neighbours are drawn
    r"\u0610-\u061a\u0620-\u06dc\u06de-\u06ff\u0710-\u077f\u07c0-\u07fa\u0840-\u085b\u0860-\u088f"
    r"\u0897-\u08e1\u08e3-\u0df3\u1000-\u109f\u1780-\u17b3\u17b6-\u17e9\u1820-\u18aa\u1a20-\u1a99"
    r"\u1b00-\u1bff\u1cd0-\u1cfa\ua800-\ua877\ua880-\ua8ff\ua980-\ua9fe\uaa60-\uaa7f\uaae0-\uaaf6"
    r"\uabc0-\uabf9\ufb50-\ufdfb\ufe70-\ufefc\U00010ac0-\U00010ae6\U00010b80-\U00010b91"
    r"\U00010d00-\U00010d39\U00010ec2-\U00010f6f\U00010fb0-\U00010fc4\U00011000-\U000110ba"
    r"\U00011100-\U0001174f\U00011800-\U0001183a\U0001e900-\U0001e959"
)
_WITH_FORMS = (  # Myanmar, mathematics, Phags-pa, Chinese characters and their punctuation
    r"\u1000-\u109f\u2200-\u22ff\u2a00-\u2aff\u3001\u3002\u3400-\u9fff\ua840-\ua877\uaa60-\uaa7f"
    r"\uf900-\ufaff\uff01-\uff1f\U00020000-\U0003ffff"
)
# A picture may be followed by one sign that says how to draw it, a digit by one that makes it a key.
_STRAY_SIGN = (
    r"[\ufe0e\ufe0f](?<![\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff][\ufe0e\ufe0f])"
    r"(?!(?<=[0-9#*]\ufe0f)\u20e3)"
)
_STRAY = (
    # A joiner stands alone: beside a letter of a joining script, or between two parts of a picture.
    rf"[{_JOINERS}](?:(?=[{_JOINERS}])|(?<=[{_JOINERS}][{_JOINERS}])|"
    rf"(?<![{_JOINED}][{_JOINERS}])(?![{_JOINED}])"
    rf"(?!(?<=[{_EMOJI}]\u200d)[{_EMOJI}])(?!(?<=[{_EMOJI}][\ufe0f\U0001f3fb-\U0001f3ff]\u200d)[{_EMOJI}]))",
    rf"[{_FORMS}](?<![{_WITH_FORMS}][{_FORMS}])",
    rf"[{_MONGOLIAN_FORMS}](?<![\u1820-\u18aa][{_MONGOLIAN_FORMS}])",
)
_FLAGS = (  # of England, Scotland and Wales: a black flag, and gbeng, gbsct or gbwls in tags
    r"\U0001f3f4\U000e0067\U000e0062(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|"
    r"\U000e0077\U000e006c\U000e0073)\U000e007f"
)
ACTING = rf"({_FLAGS})|[{_ALWAYS}]|{_STRAY_SIGN}|{'|'.join(_STRAY)}"
"""Invisible characters with an effect; group 1 is a flag, which is made of such characters and stays."""
UNSEEN = rf"[{_ALWAYS}{_JOINERS}{_FORMS}{_MONGOLIAN_FORMS}]|{_STRAY_SIGN}"
"""All invisible characters, whatever is beside them."""
UNFINISHED = "\u200c\u200d" + "".join(map(chr, range(0xE0061, 0xE0080)))
"""Joiners, and the tags of flags: characters without an effect at the end of a text."""
_OPEN_END = re.compile(r"(?:\r|[\u200c\u200d]+|(?<=[0-9#*])\ufe0f|\U0001f3f4[\U000e0061-\U000e007a]{0,5})\Z")


@cache  # these take milliseconds to compile, and the first request of `gen -p` needs neither
def _acting() -> re.Pattern[str]:
    return re.compile(ACTING)


@cache
def _unseen() -> re.Pattern[str]:
    return re.compile(UNSEEN)


def visible(text: str) -> str:
    """`text` with control sequences, direction marks and stray zero-width characters as escapes."""
    return _acting().sub(lambda found: found[1] or spelled(found[0]), text.replace("\r\n", "\n"))


def open_end(text: str) -> str:
    """The end of an unfinished text that the next piece may change; perhaps nothing."""
    found = _OPEN_END.search(text, max(len(text) - 8, 0))
    return found[0] if found else ""


def visible_line(text: str, most: int = 0) -> str:
    """`text` as one visible line; with `most`, cut to so many characters."""
    line = visible(" ".join(text[:10_000].split()))
    return line if not most or len(line) <= most else f"{line[: max(most - 1, 0)].rstrip(UNFINISHED)}…"


def exact(text: str, keep: str = "\n\t") -> str:
    """`text` with everything escaped that is invisible or looks like another character, odd spaces too."""
    shown = _unseen().sub(lambda found: spelled(found[0]), text)
    if shown.isprintable():
        return shown
    return "".join(each if each.isprintable() or each in keep else spelled(each) for each in shown)


def exact_line(text: str) -> str:
    """`text` exactly, on one line."""
    return exact(text, keep="")


def safe_json(text: str) -> str:
    """Equivalent JSON text with every invisible character escaped."""
    return _unseen().sub(lambda found: _escaped(found[0]), text)


def spelled(char: str) -> str:
    """A character as an escape."""
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _escaped(char: str) -> str:
    """A character as JSON escapes it: one above U+FFFF as a pair."""
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


# What chat templates and harnesses mark roles and notices with. Some servers read these anywhere in a text.
_TOKEN = re.compile(
    r"<(?=[|\uff5c][^\s|\uff5c<>]{1,40}[|\uff5c]>"
    r"|/?(?:[\w-]{1,20}:)?(?:system(?:[-_][\w-]{1,40})?|user|assistant|human|developer|report|invoke|bos|eos|s"
    r"|(?:start|end)_of_turn|(?:tool|function)_(?:call|result|response)s?)\b[^<>\n]{0,100}>"
    r"|</?SYS>>)"
    r"|\[(?=/?INST\])",
    re.IGNORECASE,
)


def disarmed(text: str) -> str:
    """The text of another agent, visible, with a backslash in every marker of a role or a notice."""
    return _TOKEN.sub(lambda found: f"{found[0]}\\", visible(text))


def disarmed_line(text: str, most: int) -> str:
    """The same on one line of at most `most` characters."""
    line = disarmed(" ".join(text[:10_000].split()))
    return line if len(line) <= most else f"{line[: max(most - 1, 0)].rstrip(UNFINISHED)}…"


def unquoted(text: str) -> str:
    """The quoted lines of `text` without the `>`; empty if there are none."""
    lines = (line for line in text.split("\n") if line.startswith(">"))
    return "\n".join(line.removeprefix("> ") if line != ">" else "" for line in lines)


def code_span(text: str, most: int) -> str:
    """A name that an agent chose, for a line of ours: between backticks, without backticks in it."""
    plain = disarmed_line(text, most).replace("`", "'")
    return f"`{plain}`"


def quoted(text: str) -> str:
    """`text` with `> ` before every line."""
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
