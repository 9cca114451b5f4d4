"""Lays out text: wraps lines below their columns, and splits Markdown that is still arriving into blocks."""

import re
from textwrap import wrap

_GAP = re.compile(r"\S {2,}(?=\S)")
_INDENT = re.compile(r" *")
FARTHEST = 0.6
"""A column that begins further to the right than this part of the width leaves too little room below it."""


def folded(text: str, width: int) -> str:
    """A text whose long lines go on below the column they were in."""
    lines: list[str] = []
    for line in text.splitlines():
        lines += [line] if len(line) <= width else _folded(line, max(width, 8))
    return "\n".join(lines)


def _folded(line: str, width: int) -> list[str]:
    columns = [gap.end() for gap in _GAP.finditer(line) if gap.end() <= FARTHEST * width]
    lead = _INDENT.match(line)
    indent = columns[-1] if columns else min(lead.end() if lead else 0, width // 2)
    return wrap(line, width, subsequent_indent=" " * indent, break_on_hyphens=False)


_FENCE = re.compile(r"[ ]{0,3}(`{3,}|~{3,})")
LONGEST_PIECE = 4_000
LONGEST_CODE = 24
"""So many lines of code are drawn at once."""


def cut(text: str) -> list[str]:
    """Whole blocks of Markdown, the last of them still open; together they are the text.

    A block ends at an empty line that stands in no fence and before no indented line: a list or a quote may
    go on behind one, and is cut only where it has become very long.
    """
    pieces: list[str] = []
    lines = text.split("\n")
    begin = 0
    fence = ""
    length = 0
    for at, line in enumerate(lines):
        length += len(line) + 1
        fence = _fenced(fence, line)
        if fence or line.strip() or at + 1 >= len(lines):
            continue
        if _goes_on(lines[at + 1]) and length < LONGEST_PIECE:
            continue
        pieces.append("\n".join(lines[begin : at + 1]) + "\n")
        begin, length = at + 1, 0
    return [*pieces, "\n".join(lines[begin:])]


def code_parts(text: str) -> list[str]:
    """A long block of code as several shorter ones, each with a fence; none where it is something else."""
    lines = text.rstrip("\n").split("\n")
    opened = _FENCE.match(lines[0])
    if opened is None or len(lines) <= LONGEST_CODE + 1:
        return []
    fence = opened[1]
    end = next((at for at, line in enumerate(lines) if at and not _fenced(fence, line)), len(lines))
    if end < len(lines) - 1:  # something stands behind it
        return []
    body = lines[1:end]
    return [
        "\n".join((lines[0], *body[at : at + LONGEST_CODE], fence))
        for at in range(0, len(body), LONGEST_CODE)
    ]


def _fenced(fence: str, line: str) -> str:
    """The fence that stands open after a line; empty when none does."""
    found = _FENCE.match(line)
    if not fence:
        return found[1] if found else ""
    closes = found and found[1][0] == fence[0] and len(found[1]) >= len(fence)
    return "" if closes and not line.strip().strip(fence[0]) else fence


def _goes_on(line: str) -> bool:
    """Whether the line behind an empty one may belong to what stands before it."""
    return not line or line[0] in " \t" or bool(re.match(r"([-*+]|\d+[.)])\s", line))
