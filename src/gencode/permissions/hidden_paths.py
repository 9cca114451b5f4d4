"""The files and folders that deny rules for Read name, which a sandbox hides from commands.

The words of a command only hint at what it reads. This adds nothing to any decision.
"""

import os
import stat
from collections.abc import Iterable, Iterator

from gencode.core.rules import Action, Policy, Rule
from gencode.core.spec import same_name
from gencode.permissions.links import as_links_lead, follow
from gencode.permissions.paths import is_inside
from gencode.permissions.patterns import Places, is_exact

_READING = frozenset({"*", "read", "readfile"})
_EVERYTHING_BELOW = "/**"


def hidden_paths(chain: Iterable[Policy], places: Places) -> tuple[str, ...]:
    """The folders (`secret/**`) and files that some policy keeps from being read, as they are now."""
    rules = {rule for policy in chain for rule in as_links_lead(policy, places).rules}
    named = sorted({each for rule in rules for each in _named(rule, places)})
    found = ((follow(path), kind) for path, kind in named)
    return tuple(dict.fromkeys(place for place, kind in found if place is not None and _is_a(kind, place)))


def _named(rule: Rule, places: Places) -> Iterator[tuple[str, int]]:
    """The path that a rule names, in each of its readings, and what has to be there."""
    if rule.action is not Action.DENY or rule.unless or same_name(rule.tool) not in _READING:
        return
    text = rule.pattern.removesuffix(_EVERYTHING_BELOW).rstrip("/")
    kind = stat.S_IFREG if text == rule.pattern else stat.S_IFDIR
    if not is_exact(text):
        return
    homes = [places.real_home, *(home for _, home in places.originals if home)]
    paths = [f"{home}{text[1:]}" for home in homes] if text.startswith("~/") else [text]
    for path in paths:
        whole = path if path.startswith("/") else f"{places.real_root}/{path}"
        yield whole, kind
        for folder, _ in places.originals:
            if is_inside(whole, folder):
                yield places.copy + whole.removeprefix(folder.rstrip("/")), kind


def _is_a(kind: int, place: str) -> bool:
    try:
        return stat.S_IFMT(os.lstat(place).st_mode) == kind
    except (OSError, ValueError):
        return False
