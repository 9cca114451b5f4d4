"""Where an agent works, by what it was last told about that: in its folder, a worktree, a copy or a clone."""

import re
from collections.abc import Iterable

from gencode.core.messages import Message, UserMessage

COPY = "You work in a copy of"
MOVE = "You go on on another machine."
TREE = "You work in a git worktree"
CLONE = "You work in a clone of"
BACK = "You are back in the folder itself,"
"""How an agent is told where it is."""

_BRANCH = re.compile(r" on (?:the|a new) branch (?P<branch>gencode/(?P<name>[A-Za-z0-9._-]+[A-Za-z0-9]))")


def last_place(messages: Iterable[Message]) -> str:
    """What an agent was last told about where it is."""
    said = [each.text for each in messages if isinstance(each, UserMessage) and each.sender == "system"]
    return next((text for text in reversed(said) if text.startswith((COPY, MOVE, TREE, CLONE, BACK))), "")


def is_away(messages: Iterable[Message]) -> bool:
    """Whether an agent last worked in a copy of its folder on another machine."""
    return last_place(messages).startswith((COPY, MOVE))


def last_branch(messages: Iterable[Message], name: str) -> str:
    """The branch that an agent last worked on in a worktree called like this, here or on another machine.

    It is empty where the agent was told of none, or last worked elsewhere.
    """
    place = last_place(messages)
    found = _BRANCH.search(place) if place.startswith(TREE) else None
    own = found is not None and found["name"].startswith(name)
    return found["branch"] if found is not None and own else ""
