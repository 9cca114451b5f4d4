"""Ignore files (`.gitignore`, `.ignore`, `.rgignore`), read the way ripgrep reads them, and git's excludes.

The repository's `.git/info/exclude` and the user's global excludes file have the lowest precedence.

Rules above the searched folder apply up to the top of its git repository or, outside of one, up to the root
of the workspace; never further, so that a stray file in a home folder hides nothing.
"""

import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from gencode.tools.glob_patterns import BadGlob, compile_glob

IGNORE_FILES = (".rgignore", ".ignore", ".gitignore")
"""Strongest first: whatever `.ignore` says, at any level, beats every `.gitignore`."""

LARGEST = 256 * 1024
_POINTS_AT = "gitdir: "


class _IgnoreLine(NamedTuple):
    body: str
    negated: bool
    folders_only: bool
    anchored: bool


class _IgnorePattern(NamedTuple):
    regex: re.Pattern[str]
    negated: bool
    folders_only: bool


class IgnoreRules:
    """The rules of one ignore file; paths are relative to its folder."""

    def __init__(self, text: str) -> None:
        self._patterns = [pattern for line in text.split("\n") if (pattern := _pattern(line))]
        self._patterns.reverse()

    def verdict(self, path: str, is_folder: bool) -> bool | None:
        """True: ignored, False: kept on purpose, None: this file says nothing. The last rule wins."""
        for pattern in self._patterns:
            if (is_folder or not pattern.folders_only) and pattern.regex.fullmatch(path):
                return not pattern.negated
        return None


def read_rules(folder: str, name: str) -> str:
    """The text of an ignore file, empty when there is none that can be read."""
    try:
        handle = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ""
        return file.read(LARGEST).decode("utf-8", "replace").removeprefix("\ufeff")


def outermost_folder(folder: str, root: str) -> str:
    """The outermost folder whose ignore files apply to a search in `folder`."""
    for above in (Path(folder), *Path(folder).parents):
        if os.path.lexists(above / ".git"):
            return str(above)
    return root if Path(folder).is_relative_to(root) else folder


def outer_rules(base: str, folder: str) -> str:
    """The rules of the ignore files from `base` down to above `folder`, rewritten for `base`, strongest last.

    None of them applies where the search names an ignored folder: it is meant to look inside.
    """
    below = Path(folder).relative_to(base).parts
    levels = ["/".join(below[:depth]) for depth in range(len(below))]
    lines = git_excludes(base)
    lines += [
        line
        for name in reversed(IGNORE_FILES)
        for level in levels
        for text in read_rules(f"{base}/{level}", name).split("\n")
        if (line := _rebased(text, level))
    ]
    rules = IgnoreRules("\n".join(lines))
    named = ("/".join(below[: depth + 1]) for depth in range(len(below)))
    return "" if any(rules.verdict(each, True) for each in named) else "\n".join(lines)


def git_excludes(top: str) -> list[str]:
    """The lines of the excludes files that git has for the repository at `top`, the strongest last."""
    git = git_folder(top)
    if not git:
        return []
    return [
        line
        for path in (global_excludes(os.environ), f"{git}/info/exclude")
        for line in read_rules(*os.path.split(path)).split("\n")
        if _parse(line)
    ]


def git_folder(top: str) -> str:
    """Git's own folder of the repository at `top`, also for a linked worktree; empty when there is none."""
    git = f"{top}/.git"
    if os.path.isdir(git):  # noqa: PTH112
        return git
    pointer = read_rules(top, ".git").strip()
    if not pointer.startswith(_POINTS_AT):
        return ""
    linked = os.path.join(top, pointer.removeprefix(_POINTS_AT).strip())  # noqa: PTH118
    shared = read_rules(linked, "commondir").strip()
    return os.path.join(linked, shared) if shared else linked  # noqa: PTH118


def global_excludes(environ: Mapping[str, str]) -> str:
    """The path of the user's excludes file for all repositories, as git finds it."""
    home = environ.get("HOME", "")
    config = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    chosen = ""
    for folder, name in ((f"{config}/git", "config"), (home, ".gitconfig")):
        chosen = _excludes_setting(read_rules(folder, name)) or chosen
    path = f"{home}{chosen[1:]}" if chosen.startswith("~/") else chosen
    return path if path.startswith("/") else f"{config}/git/ignore"


def _excludes_setting(config: str) -> str:
    """The value of `core.excludesFile` in the text of a git configuration; empty when it has none."""
    section, found = "", ""
    for line in map(str.strip, config.split("\n")):
        if line.startswith("["):
            section = line.strip("[] ").casefold()
        elif section == "core":
            name, _, value = line.partition("=")
            if name.strip().casefold() == "excludesfile":
                found = value.strip().strip('"')
    return found


def is_ignored(folder: str, root: str, entries: Iterable[tuple[str, bool]]) -> set[str]:
    """Which of a folder's entries (name, whether it is a folder) ignore files leave out."""
    base = outermost_folder(folder, root)
    inside = str(Path(folder).relative_to(base))
    prefix = "" if inside == "." else f"{inside}/"
    own = [IgnoreRules(read_rules(folder, name)) for name in IGNORE_FILES]
    outer = IgnoreRules(outer_rules(base, folder))

    def ignored(name: str, is_folder: bool) -> bool:
        verdicts = (
            *(rules.verdict(name, is_folder) for rules in own),
            outer.verdict(prefix + name, is_folder),
        )
        return next((verdict for verdict in verdicts if verdict is not None), False)

    return {name for name, is_folder in entries if ignored(name, is_folder)}


def _parse(line: str) -> _IgnoreLine | None:
    if line.startswith("#"):
        return None
    line = line.removesuffix("\r")
    if not line.endswith("\\ "):
        line = line.rstrip(" \t")
    negated = line.startswith("!")
    body = line.removeprefix("!")
    if body.startswith(("\\!", "\\#")):
        body = body[1:]
    folders_only = body.endswith("/")
    body = body.removesuffix("/")
    anchored = "/" in body
    body = body.removeprefix("/")
    return _IgnoreLine(body, negated, folders_only, anchored) if body else None


def _pattern(line: str) -> _IgnorePattern | None:
    if not (parsed := _parse(line)):
        return None
    body = parsed.body if parsed.anchored else f"**/{parsed.body}"
    try:
        return _IgnorePattern(compile_glob(body), parsed.negated, parsed.folders_only)
    except BadGlob:
        return None


def _rebased(line: str, folder: str) -> str:
    """A line of `folder`'s ignore file as it would stand in the ignore file of the base."""
    if not (parsed := _parse(line)):
        return ""
    literal = re.sub(r"([\\*?\[\]{}!#])", r"\\\1", folder)
    parts = [part for part in (literal, "" if parsed.anchored else "**", parsed.body) if part]
    return f"{'!' if parsed.negated else ''}/{'/'.join(parts)}{'/' if parsed.folders_only else ''}"
