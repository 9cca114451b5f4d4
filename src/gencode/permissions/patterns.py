"""Path patterns: how a rule names files.

`*` and `?` stay inside one component, `**` spans components. Without `/` a pattern speaks of the last
component at any depth; with `/` it is anchored at the workspace root, at `/` or at `~/`. Every pattern
becomes one regular expression over absolute paths, compiled once. Patterns may come from a hostile
repository, so the expressions never backtrack over more than one wildcard at a time.
"""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

_GLUED_STARS_LIMIT = 4
_STARS = re.compile(r"\*{2,}")


class Places(NamedTuple):
    """The folders patterns are anchored at, as they are written and with their links resolved."""

    root: str
    real_root: str
    home: str
    real_home: str
    copy: str = ""
    originals: tuple[tuple[str, str], ...] = ()
    """Where the workspace is in a copy: that copy, and each folder it was made of, with its user's home."""
    narrowing: int = 0
    """How many of these, the last ones, are those about which only deny and ask rules count for the copy."""
    cwd: str = ""
    """Where commands run, if that is not the root."""
    started: tuple[str, ...] = ()
    """Absolute paths of files that hooks and MCP servers start, as they are written and as links lead."""


class PathPattern:
    """A compiled pattern. Without an expression it names every path, or no path when `nothing` is set."""

    __slots__ = ("_any_case", "_folded", "_nothing", "_written")

    def __init__(self, pattern: str, places: Places, *, any_case: bool) -> None:
        self._any_case = any_case
        self._nothing = False
        self._written: re.Pattern[str] | None = None
        self._folded: re.Pattern[str] | None = None
        if pattern in ("", "*", "**"):
            return
        variants = _variants(pattern, places, any_case=any_case)
        if variants is None:
            self._nothing = not any_case
            return
        source = "|".join(variants)
        self._written = re.compile(source, re.DOTALL)
        if any_case:
            root, real_root, home, real_home = map(fold, places[:4])
            around = Places(root, real_root, home, real_home)
            folded = _variants(fold(pattern), around, any_case=True) or []
            self._folded = re.compile("|".join(folded), re.DOTALL)

    def matches(self, path: str) -> bool:
        """Whether an absolute, normalised path is named by this pattern."""
        if self._written is None:
            return not self._nothing
        if self._folded is None:
            return self._written.match(path) is not None
        if self._folded.match(fold(path)) is not None:
            return True
        return not path.isascii() and self._written.match(path) is not None


class CopiedPattern(PathPattern):
    """A pattern in a copy of a folder: it names a file also by the name that this has in the original."""

    __slots__ = ("_copy", "_there")

    def __init__(self, pattern: str, places: Places, *, any_case: bool) -> None:
        super().__init__(pattern, places, any_case=any_case)
        self._copy = places.copy.split("/")
        self._there: list[tuple[str, PathPattern]] = []
        for folder, lives in places.originals:
            root = self._renamed(places.real_root, folder) or places.real_root
            home = lives or places.real_home
            there = PathPattern(pattern, Places(root, root, home, home), any_case=any_case)
            self._there.append((folder, there))

    def matches(self, path: str) -> bool:
        """Whether an absolute, normalised path is named by this pattern, here or in an original."""
        if super().matches(path):
            return True
        names = ((self._renamed(path, folder), pattern) for folder, pattern in self._there)
        return any(name is not None and pattern.matches(name) for name, pattern in names)

    def _renamed(self, path: str, original: str) -> str | None:
        parts, top = path.split("/"), len(self._copy)
        if [*map(fold, parts[:top])] != [*map(fold, self._copy)]:
            return None
        return "/".join([original.rstrip("/"), *parts[top:]]) or "/"


class RulePattern(NamedTuple):
    """What a rule says of paths: those of its pattern, without those that it excepts."""

    pattern: PathPattern
    unless: tuple[PathPattern, ...]

    def matches(self, path: str) -> bool:
        """Whether the rule speaks of an absolute, normalised path."""
        return self.pattern.matches(path) and not any(each.matches(path) for each in self.unless)


def rule_pattern(
    pattern: str, unless: tuple[str, ...], places: Places, any_case: bool
) -> PathPattern | RulePattern:
    """The compiled pattern of a rule. What it excepts is compared as allow rules compare."""
    whole = path_pattern(pattern, places, any_case)
    if not unless:
        return whole
    return RulePattern(whole, tuple(path_pattern(each, places, False) for each in unless))


@lru_cache(maxsize=4096)
def path_pattern(pattern: str, places: Places, any_case: bool) -> PathPattern:
    """The compiled pattern; with `any_case` as deny and ask rules compare, without as allow rules do."""
    if places.narrowing and not any_case:
        places = places._replace(originals=places.originals[: -places.narrowing])
    made = CopiedPattern if places.originals else PathPattern
    return made(pattern, places, any_case=any_case)


def is_exact(pattern: str) -> bool:
    """Whether a pattern has no wildcard at all."""
    return bool(pattern) and "*" not in pattern and "?" not in pattern


def fold(text: str) -> str:
    """Text as it is compared without regard to case."""
    if text.isascii():
        return text.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _variants(pattern: str, places: Places, *, any_case: bool) -> list[str] | None:
    """Every expression this pattern stands for; None when it has too many loose stars to be told apart.

    An allow rule looks at resolved paths only, so it is anchored at the resolved folders only.
    """
    text = _STARS.sub("**", pattern)
    while text.startswith("./"):
        text = text[2:].lstrip("/")
    below = any_case and pattern.endswith("/")
    anchors: Sequence[str | None]
    if "/" not in text and text not in ("", "."):
        anchors, rest = [None], text
    elif text.startswith("/"):
        anchors, rest = [""], text
    elif text.startswith("~/"):
        anchors, rest = [places.real_home, *([places.home] if any_case else [])], text[2:]
    else:
        anchors, rest = [places.real_root, *([places.root] if any_case else [])], text
    components = [part for part in rest.split("/") if part not in ("", ".")]
    endings = [components, [*components, "**"]] if below else [components]
    if sum(_glued(part) for part in components) > _GLUED_STARS_LIMIT:
        return None
    return [
        _expression(anchor, spelled)
        for anchor in dict.fromkeys(anchors)
        for ending in endings
        for spelled in _unglued(ending)
    ]


def _glued(component: str) -> int:
    return 0 if component == "**" else component.count("**")


def _unglued(components: list[str]) -> list[list[str]]:
    """`a**b` is either `a*b` or `a*/**/*b`; every combination, without glued stars."""
    spelled: list[list[str]] = [[]]
    for component in components:
        choices: list[list[str]] = [[component]]
        while any(_glued(part) for choice in choices for part in choice):
            choices = [each for choice in choices for each in _split_first_glued(choice)]
        spelled = [[*before, *choice] for before in spelled for choice in choices]
    return spelled


def _split_first_glued(choice: list[str]) -> list[list[str]]:
    for position, part in enumerate(choice):
        if _glued(part):
            left, _, right = part.partition("**")
            before, after = choice[:position], choice[position + 1 :]
            return [
                [*before, f"{left}*{right}", *after],
                [*before, f"{left}*", "**", f"*{right}", *after],
            ]
    return [choice]


def _expression(anchor: str | None, components: list[str]) -> str:
    """One expression over absolute paths. `anchor` None means at any depth."""
    if anchor is None:
        return _joined("/", ["**", *components])
    fixed = [part for part in anchor.split("/") if part]
    kept: list[str] = []
    for part in components:
        if part != "..":
            kept.append(part)
        elif not kept:
            fixed = fixed[:-1]
        elif kept[-1] != "**":
            kept.pop()
    prefix = "/" + "".join(f"{re.escape(part)}/" for part in fixed)
    if not kept:
        return re.escape("/" + "/".join(fixed)) + r"\Z"
    return _joined(prefix, kept)


def _joined(prefix: str, components: list[str]) -> str:
    """The runs between `**` are found leftmost first and then held, which is right and never explodes."""
    runs: list[list[str]] = [[]]
    for component in components:
        if component != "**":
            runs[-1].append(component)
        elif len(runs) == 1 or runs[-1]:
            runs.append([])
    source = prefix + "".join(f"{_component(part)}/" for part in runs[0])
    if len(runs) == 1:
        return source.removesuffix("/") + r"\Z"
    for run in runs[1:-1]:
        source += "(?>(?:[^/]+/)*?" + "".join(f"{_component(part)}/" for part in run) + ")"
    if not runs[-1]:
        return source + r".+\Z"
    return source + "(?:[^/]+/)*" + "/".join(map(_component, runs[-1])) + r"\Z"


def _component(text: str) -> str:
    first, *others = text.split("*")
    if not others:
        return _fixed(first)
    if not first and not any(others):
        return "[^/]+"
    middle = "".join(f"(?>[^/]*?{_fixed(part)})" for part in others[:-1] if part)
    return f"{_fixed(first)}{middle}[^/]*{_fixed(others[-1])}"


def _fixed(text: str) -> str:
    return "".join("[^/]" if character == "?" else re.escape(character) for character in text)
