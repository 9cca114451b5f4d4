"""Ids of tasks, and timestamps, as they are in every event."""

import os
import re
import time
from datetime import UTC, datetime
from functools import lru_cache

ID_LENGTH = 8
SHELL = "shell_"
"""The prefix of the ids of background commands."""
_ID = re.compile(rf"[0-9a-f]{{1,{ID_LENGTH}}}\Z")


def new_id() -> str:
    """Eight random hex digits; the store draws again if they are taken."""
    return os.urandom(ID_LENGTH // 2).hex()


def clean_id(text: str) -> str | None:
    """The id (or its beginning) that `text` spells, without the prefix `agent-`; None if it is no id."""
    candidate = text.strip().lower().removeprefix("agent-")
    return candidate if _ID.match(candidate) else None


def stamp(moment: datetime | None = None) -> str:
    """A moment (default: now) as UTC ISO 8601 with exactly six decimals."""
    if moment is None:
        seconds, micros = divmod(time.time_ns() // 1_000, 1_000_000)
        return f"{_second(seconds)}.{micros:06d}Z"
    return f"{moment.astimezone(UTC).isoformat(timespec='microseconds')[:-6]}Z"


@lru_cache(2)  # every event has a stamp, and most lie in the same second as the one before
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def moment(text: str) -> datetime:
    """The inverse of `stamp`."""
    return datetime.fromisoformat(text)
