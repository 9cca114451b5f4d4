"""tools: why a text that should be replaced is not there: what differs, and what comes nearest."""

import re
from difflib import SequenceMatcher, get_close_matches
from heapq import nlargest

LONGEST_LINE = 300
_BEGINNING = 120
_COMPARED_LINES = 20_000
_LONGEST_OLD = 200
_MOST_ALIKE = 3_000
_IN_EARNEST = 20
_ALIKE = 0.6
_SHOWN_LINES = 12
_NUMBERED = re.compile(r" *\d+\t")


def why_not_found(text: str, old: str, new: str) -> str:
    """What helps to find the text; `old` is not in `text`."""
    if old.strip() and all(_NUMBERED.match(line) for line in old.split("\n") if line):
        return "Leave out the line numbers that Read puts before each line."
    if old.replace("\r\n", "\n") in text.replace("\r\n", "\n"):
        ends = "some lines of the file end with CR LF" if "\r\n" in text else "the file has LF alone"
        return f"Only the line ends differ: {ends}, so they must be given like that."
    lines = [line.removesuffix("\r") for line in text.split("\n", _COMPARED_LINES)[:_COMPARED_LINES]]
    if found := _but_for_blanks(lines, old):
        return f"Only blanks differ; the file has:\n{_numbered(lines, *found)}"
    if len(new) > 1 and new in text:
        line = text.count("\n", 0, text.index(new)) + 1
        return f"new_string is there already, in line {line}; perhaps this was done before."
    if near := _nearest(lines, old):
        return f"The nearest lines are:\n{near}"
    return "Read the file again and copy the text exactly."


def _but_for_blanks(lines: list[str], old: str) -> tuple[int, int] | None:
    """Where the same lines stand with other blanks in and around them: the first, and how many."""
    wanted = [_squeezed(line) for line in old.strip("\r\n").split("\n")]
    if not any(wanted) or len(wanted) > _LONGEST_OLD:
        return None
    squeezed = [_squeezed(line) for line in lines]
    count = len(wanted)
    for at, line in enumerate(squeezed):
        if wanted[0] in line and (count == 1 or squeezed[at : at + count - 1][1:] == wanted[1:-1]):
            ends = squeezed[at + count - 1] if at + count <= len(squeezed) else ""
            if count == 1 or (line.endswith(wanted[0]) and ends.startswith(wanted[-1])):
                return at, count
    return None


def _squeezed(line: str) -> str:
    return " ".join(line.split())


def _nearest(lines: list[str], old: str) -> str:
    """The lines most like the first line of `old` that says something.

    Only those that have nearly the same characters are compared in earnest, which is slow.
    """
    wanted = next((line.strip() for line in old.split("\n") if line.strip()), "")[:_BEGINNING]
    if not wanted:
        return ""
    known: dict[str, int] = {}
    for number, line in enumerate(lines[:_MOST_ALIKE]):
        known.setdefault(line.strip()[:_BEGINNING], number)
    matcher = SequenceMatcher(b=wanted)
    alike: list[tuple[float, str]] = []
    for line in known:
        matcher.set_seq1(line)
        if matcher.real_quick_ratio() >= _ALIKE:
            alike.append((matcher.quick_ratio(), line))
    close = get_close_matches(wanted, [line for _, line in nlargest(_IN_EARNEST, alike)], cutoff=_ALIKE)
    return "\n".join(_numbered(lines, known[line], 1) for line in close)


def _numbered(lines: list[str], first: int, count: int) -> str:
    shown = [
        f"{number:>6}\t{line[:LONGEST_LINE]}"
        for number, line in enumerate(lines[first : first + min(count, _SHOWN_LINES)], first + 1)
    ]
    return "\n".join(shown)
