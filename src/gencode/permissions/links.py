"""Resolves symbolic links: where a path leads on this disk, and the rules that follow from it.

A deny or ask rule counts for the name it is written with and for the place that name leads to at this moment,
as far as its first wildcard. Allow rules do not: a link that somebody moves must never open anything.
"""

import os
import re
import stat
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from gencode.core.rules import Action, Policy, Rule, merge
from gencode.core.spec import same_name
from gencode.core.structs import replace
from gencode.permissions.patterns import Places

_MOST_LINKS = 40
_WILDCARD = re.compile(r"[*?]")
_NO_PLAIN_CHARACTER = re.compile("[*\ud800-\udfff]")
_COMMANDS = "bash"


class _Name(NamedTuple):
    """What the pattern of a rule begins with: a name in a folder that is reached without links, and the rest.

    `steps` are all the paths on the way, as they are written; a name that `climbs` has `..` among them.
    """

    rule: Rule
    folder: str
    parts: tuple[str, ...]
    rest: str
    steps: tuple[str, ...]
    climbs: bool


def follow(path: str, begin: str = "") -> str | None:
    """The path with its links followed as the kernel would; None when they never end.

    `begin` is a folder that the path is in, without any link.
    """
    todo = path.split("/")
    todo.reverse()
    done = begin
    links = 0
    while todo:
        part = todo.pop()
        if part in ("", "."):
            continue
        if part == "..":
            done = done.rpartition("/")[0]
            continue
        candidate = f"{done}/{part}"
        target = _link_target(candidate)
        if target is None:
            done = candidate
            continue
        links += 1
        if links > _MOST_LINKS:
            return None
        if target.startswith("/"):
            done = ""
        todo.extend(reversed(target.split("/")))
    return done or "/"


def _link_target(path: str) -> str | None:
    """Where a link leads; None for what is no link, does not exist or may not be looked at."""
    try:
        if not stat.S_ISLNK(os.lstat(path).st_mode):
            return None
        return os.readlink(path)  # noqa: PTH115  (a Path takes several times as long)
    except (OSError, ValueError):
        return None


def as_links_lead(policy: Policy, places: Places) -> Policy:
    """The policy with its deny and ask rules also for where their names lead now; mostly the very same."""
    names = _names(policy, places)
    if not names:
        return policy
    leading = [(at, name) for at, name in enumerate(names) if name.climbs or _has_link(name.steps)]
    led = tuple([(at, place) for at, name in leading for place in _leads(name)])
    return _led(policy, places, led) if led else policy


def _has_link(steps: Sequence[str]) -> bool:
    """Whether one of these paths, each in the one before it, is a link: asked of each rule at each call."""
    try:
        for step in steps:
            if stat.S_ISLNK(os.lstat(step).st_mode):
                return True
    except (OSError, ValueError):
        return False  # and so nothing further on is one that could be followed
    return False


def _leads(name: _Name) -> list[str]:
    """Where a name leads, if elsewhere. With `..` in it both readings count, as they do for paths."""
    texts = ["/".join(name.parts)]
    if name.climbs:
        texts.append(os.path.relpath(f"{name.folder}/{texts[0]}", name.folder or "/"))
    found = dict.fromkeys(follow(text, name.folder) for text in texts)
    return [place for place in found if place is not None and place != name.steps[-1]]


@lru_cache(maxsize=256)
def _names(policy: Policy, places: Places) -> tuple[_Name, ...]:
    found = (_name(rule, places) for rule in policy.rules if rule.action is not Action.ALLOW)
    return tuple([name for name in found if name is not None])


def _name(rule: Rule, places: Places) -> _Name | None:
    text = rule.pattern
    while text.startswith("./"):
        text = text[2:].lstrip("/")
    if "/" not in text or same_name(rule.tool) == _COMMANDS:
        return None
    folder = "" if text.startswith("/") else places.real_root
    if text.startswith("~/"):
        folder, text = places.real_home, text[2:]
    wildcard = _WILDCARD.search(text)
    fixed = text.rpartition("/")[0] if wildcard is None and text.endswith("/") else text
    if wildcard is not None:
        fixed = text[: wildcard.start()].rpartition("/")[0]
    parts = tuple(part for part in fixed.split("/") if part not in ("", "."))
    if not parts:
        return None
    folder = folder.rstrip("/")
    steps = tuple(f"{folder}/{'/'.join(parts[: at + 1])}" for at in range(len(parts)))
    return _Name(rule, folder, parts, text[len(fixed) :].lstrip("/"), steps, ".." in parts)


@lru_cache(maxsize=256)
def _led(policy: Policy, places: Places, led: tuple[tuple[int, str], ...]) -> Policy:
    names = _names(policy, places)
    more = [_rule_there(names[at], place) for at, place in led]
    return replace(policy, rules=merge(policy.rules, more))


def _rule_there(name: _Name, place: str) -> Rule:
    """The same rule for where its name leads. What is no plain character in a pattern may be any."""
    rule = name.rule
    below = name.rest or ("" if rule.pattern.endswith("/") else ".")
    pattern = f"{_NO_PLAIN_CHARACTER.sub('?', place).rstrip('/')}/{below}"
    return replace(rule, pattern=pattern, origin=replace(rule.origin, link=rule.pattern))
