"""Ids and the clock's spelling: both appear in every fact."""

import os
import re
from datetime import UTC, datetime

ID_LENGTH = 8
_ID = re.compile(rf"[0-9a-f]{{1,{ID_LENGTH}}}\Z")


def new_id() -> str:
    """Eight random hex digits; the store draws again when they are taken."""
    return os.urandom(ID_LENGTH // 2).hex()


def clean_id(text: str) -> str | None:
    """The id (or its beginning) that `text` spells, without the prefix `agent-`; None if it is no id."""
    candidate = text.strip().lower().removeprefix("agent-")
    return candidate if _ID.match(candidate) else None


def stamp(moment: datetime | None = None) -> str:
    """A moment (default: now) as UTC ISO 8601 with exactly six decimals."""
    moment = datetime.now(UTC) if moment is None else moment.astimezone(UTC)
    return f"{moment.isoformat(timespec='microseconds')[:-6]}Z"


def moment(text: str) -> datetime:
    """The inverse of `stamp`."""
    return datetime.fromisoformat(text)
