"""Completing what is being typed: files behind `@`, commands behind `/`, ids and names behind those."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from gencode.core.text import visible_line
from gencode.interfaces.chat.slash_commands import completions

MOST_FILES = 20_000
MOST_OFFERED = 50
_SKIPPED = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox"})
_FILE = re.compile(r"(?:^|\s)@([^\s@]*)\Z")


class Completion(Struct, frozen=True):
    """One way to go on: what it is, and the text up to the cursor when it is taken."""

    shown: str
    says: str
    text: str


class Words(Struct, frozen=True):
    """What words behind commands may stand for: agents of the session, names of agents and models."""

    tasks: Sequence[tuple[str, str]] = ()
    agents: Sequence[str] = ()
    models: Sequence[str] = ()
    modes: Sequence[str] = ()


_TASKS = frozenset(
    (
        *("task-status", "status", "open", "background", "interrupt"),
        *("steer", "send", "keep", "stop", "stop-tree", "fork"),
    )
)
NO_WORDS = Words()


def offers(before: str, files: Sequence[str], words: Words = NO_WORDS) -> list[Completion]:
    """Every way to complete the text before the cursor, the best first."""
    if found := _FILE.search(before):
        head = before[: found.start(1)]
        return [Completion(path, "", f"{head}{path} ") for path in matching(found[1], files)]
    if before.startswith("/") and " " not in before:
        return [Completion(each.usage, each.says, f"/{each.name} ") for each in completions(before)]
    if before.startswith("/"):
        return list(_behind(before, words))
    return []


def _behind(before: str, words: Words) -> Iterator[Completion]:
    """What may follow a command as its first word."""
    name, _, typed = before[1:].partition(" ")
    if " " in typed:
        return
    known: Iterable[tuple[str, str]]
    if name in _TASKS:
        known = words.tasks
    else:
        plain = {"agents": words.agents, "model": words.models, "mode": words.modes}.get(name, ())
        known = [(each, "") for each in plain]
    for word, says in known:
        if word.casefold().startswith(typed.casefold()):
            yield Completion(word, visible_line(says, 60), f"/{name} {word} ")


def matching(typed: str, files: Sequence[str], most: int = MOST_OFFERED) -> list[str]:
    """The files that a beginning, or letters in order, may mean; the best first."""
    wanted = typed.casefold()
    if not wanted:
        return [path for path in files if path.count("/") == 0][:most] or list(files[:most])
    ranked: list[tuple[int, int, str]] = []
    for path in files:
        rank = _rank(wanted, path.casefold())
        if rank is not None:
            ranked.append((rank, len(path), path))
    return [path for _, _, path in sorted(ranked)[:most]]


def _rank(wanted: str, path: str) -> int | None:
    name = path.rpartition("/")[2]
    if path.startswith(wanted):
        return 0
    if name.startswith(wanted):
        return 1
    if wanted in name:
        return 2
    if wanted in path:
        return 3
    letters = iter(path)
    return 4 if len(wanted) > 2 and all(letter in letters for letter in wanted) else None


def files_below(root: Path, most: int = MOST_FILES) -> list[str]:
    """The files below a folder, as paths from there, without what nobody looks at; links are not followed."""
    found: list[str] = []
    waiting = [""]
    while waiting and len(found) < most:
        folder = waiting.pop(0)
        try:
            entries = sorted(os.scandir(root / folder), key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if not entry.name.isprintable() or entry.name in _SKIPPED:
                continue
            path = f"{folder}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                waiting.append(f"{path}/")
            elif len(found) < most:
                found.append(path)
    return found
