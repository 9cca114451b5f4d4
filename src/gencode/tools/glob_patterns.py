"""Glob patterns compiled to regular expressions that cannot run away.

`*` and `?` stay inside one path component, `**` spans components, `[…]` and `{a,b}` mean what they mean
everywhere. A hostile pattern such as `*a*a*a*a*b` must not blow up, so every star but the last commits to
its first match (an atomic group): for globs the first match is never worse than a later one.
"""

import re
from collections.abc import Iterable
from itertools import pairwise

MOST_ALTERNATIVES = 64
LONGEST = 1_000


class BadGlob(ValueError):
    """A pattern that cannot be understood; the text says why."""


def expand(pattern: str) -> list[str]:
    """The pattern's `{a,b}` alternatives written out, at most `MOST_ALTERNATIVES` of them."""
    if len(pattern) > LONGEST:
        raise BadGlob(f"it is longer than {LONGEST:,} characters")
    waiting, done = [pattern], list[str]()
    while waiting:
        one = waiting.pop()
        brace = _first_brace(one)
        if brace is None:
            done.append(one)
        else:
            before, choices, after = brace
            waiting.extend(before + choice + after for choice in reversed(choices))
        if len(waiting) + len(done) > MOST_ALTERNATIVES:
            raise BadGlob(f"its braces stand for more than {MOST_ALTERNATIVES} patterns")
    return done


def compile_glob(pattern: str) -> re.Pattern[str]:
    """A regular expression whose `fullmatch` says whether a whole relative path fits the pattern."""
    return compile_plain(expand(pattern))


def compile_plain(patterns: Iterable[str]) -> re.Pattern[str]:
    """The same for patterns whose braces are already written out; any of them may fit."""
    return re.compile("|".join(f"(?:{_path(each)})" for each in patterns), re.DOTALL)


def anywhere(pattern: str) -> str:
    """A pattern without a slash fits at any depth; one with a slash is tied to the starting folder."""
    if pattern.endswith("/"):
        pattern += "**"
    if pattern.startswith(("./", "/")):
        return pattern.removeprefix(".").lstrip("/")
    return pattern if "/" in pattern else f"**/{pattern}"


def split_list(text: str) -> list[str]:
    """Several patterns in one text, `*.ts, *.tsx`: parted at commas and blanks outside of braces."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "{") - (char == "}" and depth > 0)
        if depth == 0 and (char == "," or char.isspace()):
            parts.append("")
        else:
            parts[-1] += char
    return [part for part in parts if part]


def literal_prefix(pattern: str) -> tuple[str, str]:
    """A pattern as the folders before its first component with a glob character, and the rest."""
    parts = pattern.split("/")
    globby = (at for at, part in enumerate(parts[:-1]) if re.search(r"[*?\[{\\]", part))
    index = next(globby, len(parts) - 1)
    return "/".join(parts[:index]) + ("/" if index else ""), "/".join(parts[index:])


class PathFilter:
    """Filters relative paths by a list of patterns; a leading `!` excludes."""

    def __init__(self, patterns: Iterable[str]) -> None:
        wanted, unwanted = list[str](), list[str]()
        for pattern in patterns:
            shut_out = pattern.startswith("!")
            (unwanted if shut_out else wanted).extend(
                anywhere(each) for each in expand(pattern.removeprefix("!"))
            )
        self._wanted = compile_plain(wanted) if wanted else None
        self._unwanted = compile_plain(unwanted) if unwanted else None
        self.names = _last_components(wanted)

    def matches(self, *spellings: str) -> bool:
        """Whether a path, in any of its spellings, is wanted and none of them is unwanted."""
        if self._unwanted and any(map(self._unwanted.fullmatch, spellings)):
            return False
        return self._wanted is None or any(map(self._wanted.fullmatch, spellings))


def _last_components(patterns: list[str]) -> tuple[str, ...]:
    """Patterns for the file name alone, a coarse sieve; empty when every name is possible.

    `?` and `[…]` are one byte to ripgrep and one character to us: there the sieve lets everything through.
    """
    names = (pattern.rsplit("/", 1)[-1] for pattern in patterns)
    last = tuple(dict.fromkeys(re.sub(r"\?|\[.*\]", "*", name) for name in names))
    return () if any(set(name) <= {"*"} for name in last) else last


def _first_brace(pattern: str) -> tuple[str, list[str], str] | None:
    """The first outermost brace: what is before it, its choices, what is after it."""
    depth, start, position, commas = 0, -1, 0, list[int]()
    while position < len(pattern):
        char = pattern[position]
        if char == "\\":
            position += 1
        elif char == "[" and (closed := _class_end(pattern, position)):
            position = closed - 1
        elif char == "{":
            depth += 1
            start = position if depth == 1 else start
        elif char == "," and depth == 1:
            commas.append(position)
        elif char == "}" and depth:
            depth -= 1
            if depth == 0:
                edges = [start, *commas, position]
                choices = [pattern[a + 1 : b] for a, b in pairwise(edges)]
                return pattern[:start], choices, pattern[position + 1 :]
        position += 1
    if depth:
        raise BadGlob("it has a `{` that is never closed")
    return None


def _path(pattern: str) -> str:
    """One pattern without braces as a regular expression for a whole path."""
    blocks: list[list[str]] = [[]]
    for part in pattern.split("/"):
        if part == "**":
            blocks.append([])
        else:
            blocks[-1].append(_component(part))
    written = ["/".join(block) for block in blocks]
    if len(written) == 1:
        return written[0]
    first = f"{written[0]}/" if blocks[0] else ""
    middle = "".join(f"(?>(?:[^/]+/)*?{block}/)" for block in written[1:-1] if block)
    return first + middle + (f"(?:[^/]+/)*{written[-1]}" if blocks[-1] else ".+")


def _component(text: str) -> str:
    """One path component; its stars cut it into pieces of fixed length."""
    pieces, position = [""], 0
    while position < len(text):
        char = text[position]
        position += 1
        if char == "*":
            pieces.append("")
        elif char == "?":
            pieces[-1] += "[^/]"
        elif char == "[" and (end := _class_end(text, position - 1)):
            pieces[-1] += _class(text[position : end - 1])
            position = end
        elif char == "\\" and position < len(text):
            pieces[-1] += re.escape(text[position])
            position += 1
        else:
            pieces[-1] += re.escape(char)
    if len(pieces) == 1:
        return pieces[0]
    middle = "".join(f"(?>[^/]*?{piece})" for piece in pieces[1:-1] if piece)
    return f"{pieces[0]}{middle}[^/]*{pieces[-1]}"


def _class_end(text: str, start: int) -> int:
    """Where the class that opens at `start` is over; 0 when it never closes and is a plain bracket."""
    position = start + 1
    if text[position : position + 1] in ("!", "^"):
        position += 1
    return text.find("]", position + 1) + 1


def _class(body: str) -> str:
    negated = body[0] in "!^"
    body = body[1:] if negated else body
    members, position = "", 0
    while position < len(body):
        low, high = body[position], body[position + 2 : position + 3]
        if high and body[position + 1] == "-":
            if high < low:
                raise BadGlob(f"its range {low}-{high} is backwards")
            members += f"{re.escape(low)}-{re.escape(high)}"
            position += 3
        else:
            members += re.escape(low)
            position += 1
    return f"(?!/)[{'^' if negated else ''}{members}]"
