"""How long a reply of a model can be, where that is known (providers rack).

Vendors refuse a request that asks for more, so no more is asked for.
"""

import re
from collections.abc import Mapping
from functools import lru_cache

LONGEST: Mapping[str, int] = {
    "claude-3-5": 8192,
    "claude-3-7": 64000,
    "claude-3": 4096,
    "claude-2": 4096,
    "claude-instant": 4096,
    "claude": 32000,
    "gpt-3.5": 4096,
    "gpt-4o-2024-05-13": 4096,
    "gpt-4o": 16384,
    "chatgpt-4o": 16384,
    "gpt-4.1": 32768,
    "gpt-4.5": 16384,
    "gpt-4": 4096,
    "gpt-5": 128000,
    "o1-preview": 32768,
    "o1-mini": 65536,
    "o1": 100000,
    "o3": 100000,
    "o4-mini": 100000,
}
"""Tokens, by how the name of a model begins; the first that fits counts."""

_NAMED = re.compile(rf"(?:^|[/:.])({'|'.join(map(re.escape, LONGEST))})(?![a-z0-9])")


@lru_cache
def longest_reply(model: str) -> int | None:
    """The most tokens a reply can have, by the name of the model, however it is reached."""
    named = _NAMED.search(model)
    return LONGEST[named[1]] if named else None


def within_longest_reply(asked: int, model: str) -> int:
    """So many tokens as are asked for, or as the model can say at most."""
    return min(asked, longest_reply(model) or asked)
