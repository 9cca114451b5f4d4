"""Lines of pages that are longer than the screen is wide: broken so that columns stay columns."""

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
