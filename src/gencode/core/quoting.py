"""Text of others as a person or a model reads it among ours: quoted line by line, nothing in it invisible.

No line of ours begins with `>`, so nothing in a quoted text passes for a notice of ours, whatever it says.
"""

import re

from gencode.core.visible import UNFINISHED, visible

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
    """`text` of another agent, visible, with a backslash in every sign that stands for a role or a notice."""
    return _TOKEN.sub(lambda found: f"{found[0]}\\", visible(text))


def disarmed_line(text: str, most: int) -> str:
    """The same on one line of at most `most` characters."""
    line = disarmed(" ".join(text[:10_000].split()))
    return line if len(line) <= most else f"{line[: max(most - 1, 0)].rstrip(UNFINISHED)}…"


def unquoted(text: str) -> str:
    """What is quoted in `text`, without the `>`; empty where nothing is."""
    lines = (line for line in text.split("\n") if line.startswith(">"))
    return "\n".join(line.removeprefix("> ") if line != ">" else "" for line in lines)


def code_span(text: str, most: int) -> str:
    """The same between backticks, which are taken out of it: what an agent named, in a line of ours."""
    plain = disarmed_line(text, most).replace("`", "'")
    return f"`{plain}`"


def quoted(text: str) -> str:
    """Every line of `text` behind a `>`."""
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))
