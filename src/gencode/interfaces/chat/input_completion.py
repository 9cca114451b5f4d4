"""Completion of the input: files after `@`, commands after `/`, ids and names as their arguments."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from gencode.core.text import visible_line
from gencode.interfaces.chat.slash_commands import SlashCommand, matching_commands

MAX_FILES = 20_000
MAX_COMPLETIONS = 50
_SKIPPED = frozenset({".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", "venv", ".tox"})
_FILE = re.compile(r"(?:^|\s)@([^\s@]*)\Z")


class Completion(Struct, frozen=True):
    """One completion: its label, its description, and the text up to the cursor once accepted."""

    label: str
    says: str
    text: str


class CompletionSources(Struct, frozen=True):
    """What arguments are completed from: agents of the session, names of agents, models and modes.

    `commands` are those from files.
    """

    tasks: Sequence[tuple[str, str]] = ()
    agents: Sequence[str] = ()
    models: Sequence[str] = ()
    modes: Sequence[str] = ()
    commands: Sequence[SlashCommand] = ()


_TASKS = frozenset(
    (
        *("task-status", "status", "open", "background", "interrupt"),
        *("steer", "send", "keep", "stop", "stop-tree", "fork"),
    )
)
NO_SOURCES = CompletionSources()


def completions(before: str, files: Sequence[str], words: CompletionSources = NO_SOURCES) -> list[Completion]:
    """Every way to complete the text before the cursor, the best first."""
    if found := _FILE.search(before):
        head = before[: found.start(1)]
        return [Completion(path, "", f"{head}{path} ") for path in matching_files(found[1], files)]
    if before.startswith("/") and " " not in before:
        found = matching_commands(before, words.commands)
        return [Completion(each.usage, each.says, f"/{each.name} ") for each in found]
    if before.startswith("/"):
        return list(_argument_completions(before, words))
    return []


def _argument_completions(before: str, words: CompletionSources) -> Iterator[Completion]:
    """Completions of the first argument of a command."""
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


def matching_files(typed: str, files: Sequence[str], most: int = MAX_COMPLETIONS) -> list[str]:
    """The files that match a prefix, or letters in order; the best first."""
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


def files_below(root: Path, most: int = MAX_FILES) -> list[str]:
    """The files below a folder as relative paths, without caches and the like; links are not followed."""
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
