"""tools: the difference between two texts, for the person who is asked whether to make it."""

from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from itertools import takewhile

MOST_LINES = 200
LONGEST_LINE = 500
_MOST_REMOVED = 90
_CONTEXT = 3
_MOST_COMPARED = 600
"""Longer stretches are shown as a whole: comparing hostile ones line by line could take minutes."""

_UNENDED = "\n\\ No newline at end of file"
_Step = tuple[str, int, int, int, int]


def difference(before: str, after: str) -> str:
    """A unified diff without its file names, in at most `MOST_LINES` lines and a note about the rest."""
    if 0 < before.count("\n") == before.count("\r\n") and after.count("\n") == after.count("\r\n"):
        before, after = before.replace("\r\n", "\n"), after.replace("\r\n", "\n")
    old, new = _lines(before), _lines(after)
    shown = list(_hunks(old, new))
    if len(shown) > MOST_LINES:
        rest = len(shown) - MOST_LINES
        shown[MOST_LINES:] = [f"[… {rest:,} more lines of this difference are not shown]"]
    return "\n".join(shown) or "(nothing changes)"


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    if lines[-1]:
        lines[-1] += _UNENDED
    else:
        lines.pop()
    return lines


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    top = _alike(zip(old, new, strict=False))
    most = min(len(old), len(new)) - top
    bottom = min(_alike(zip(reversed(old), reversed(new), strict=False)), most)
    ends = (len(old) - bottom, len(new) - bottom)
    if top == ends[0] and top == ends[1]:
        return
    for steps in _groups(old, new, top, ends):
        yield _header(steps)
        for kind, old_at, old_end, new_at, new_end in steps:
            if kind == "equal":
                yield from _marked(" ", old[old_at:old_end])
            else:
                yield from _removed(old[old_at:old_end])
                yield from _marked("+", new[new_at:new_end])


def _alike(pairs: Iterable[tuple[str, str]]) -> int:
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _groups(
    old: Sequence[str], new: Sequence[str], top: int, ends: tuple[int, int]
) -> Iterable[Sequence[_Step]]:
    """The steps from one text to the other, those that are near each other together."""
    first = max(0, top - _CONTEXT)
    last = (min(len(old), ends[0] + _CONTEXT), min(len(new), ends[1] + _CONTEXT))
    if max(last) - first > _MOST_COMPARED:
        return [
            [
                ("equal", first, top, first, top),
                ("replace", top, ends[0], top, ends[1]),
                ("equal", ends[0], last[0], ends[1], last[1]),
            ]
        ]
    matcher = SequenceMatcher(None, old[first : last[0]], new[first : last[1]], autojunk=False)
    return [
        [(kind, a + first, b + first, c + first, d + first) for kind, a, b, c, d in group]
        for group in matcher.get_grouped_opcodes(_CONTEXT)
    ]


def _header(steps: Sequence[_Step]) -> str:
    first, last = steps[0], steps[-1]
    old, new = (first[1], last[2]), (first[3], last[4])
    spans = [f"{start + (end > start)},{end - start}" for start, end in (old, new)]
    return f"@@ -{spans[0]} +{spans[1]} @@"


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    yield from (f"{mark}{_short(line)}" for line in lines)


def _removed(lines: Sequence[str]) -> Iterator[str]:
    """Lines that go; very many are cut, so that what comes in their place is seen too."""
    yield from _marked("-", lines[:_MOST_REMOVED])
    if len(lines) > _MOST_REMOVED:
        yield f"[… {len(lines) - _MOST_REMOVED:,} more lines are removed]"


def _short(line: str) -> str:
    over = len(line) - LONGEST_LINE
    return line if over <= 0 else f"{line[:LONGEST_LINE]} [… {over:,} more characters]"
