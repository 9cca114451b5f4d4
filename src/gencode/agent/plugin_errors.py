"""Whose failure it is when something fails that a program brought along: its provider, its asker.

Nothing is caught here. What is raised is marked, and told in the mark's words where all faults are caught.
"""

import re
from typing import cast

from gencode.core.errors import GenCodeError

SHOWN = 300
"""How many characters of somebody else's words are repeated."""
HIDDEN = "…"

SECRETS = (
    (r"://[^/\s@]+@", f"://{HIDDEN}@"),
    (r"(\w://[^\s?\"']+\?)[^\s\"')]+", rf"\1{HIDDEN}"),
    (r"\b(bearer|basic)\s+[^\s\"',;]+", rf"\1 {HIDDEN}"),
    (r"((?:key|token|secret|passw(?:or)?d|authorization)[\"']?\s*[=:]\s*[\"']?)[^\s\"',;&]+", rf"\1{HIDDEN}"),
    (r"(?=[\w+/-]*\d)(?=[\w+/-]*[a-z])[\w+/-]{16,}", HIDDEN),
)
"""What may be a key: its value in an address, a header or a setting, and long words with digits in them."""


class _PluginNote(str):
    """A note of ours on an exception, in whatever words."""

    __slots__ = ()


class PluginErrors:
    """While something is at work that a program brought along: what it raises is its failure."""

    __slots__ = ("_whose",)

    def __init__(self, whose: str) -> None:
        self._whose = whose

    def __enter__(self) -> None:
        """Nothing has to be done before."""

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, GenCodeError) and not blamed(error):
            error.add_note(_PluginNote(f"{self._whose} failed"))


def blamed(error: BaseException) -> str:
    """Who failed and how, in words without what may be a key; empty where nobody else is to blame."""
    if isinstance(error, BaseExceptionGroup):
        several = cast("BaseExceptionGroup[BaseException]", error).exceptions
        return next((told for each in several if (told := blamed(each))), "")
    marks = [note for note in getattr(error, "__notes__", ()) if isinstance(note, _PluginNote)]
    return f"{marks[0]}: {words_of(error)}" if marks else ""


def words_of(error: BaseException) -> str:
    """The kind of an exception and what it says, on one line and without what may be a key."""
    text = " ".join(str(error)[: 4 * SHOWN].split())
    for secret, instead in SECRETS:
        text = re.sub(secret, instead, text, flags=re.IGNORECASE)
    text = text if len(text) <= SHOWN else f"{text[:SHOWN]}{HIDDEN}"
    name = type(error).__name__
    return f"{name}: {text}" if text else name
