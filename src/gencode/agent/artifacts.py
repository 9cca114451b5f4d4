"""Runtime room: results of tools that are too long for a transcript, each whole in a file of its own.

The files lie beside the other outputs of their task, are its owner's alone, and go when the task is deleted.
An agent pages and searches them like any other file.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from gencode.core.ids import new_id

LARGEST = 10_000_000
"""So many characters of a result are kept."""
LONGEST_LINE = 2_000
"""Longer lines are broken, because who reads or searches a file is shown only the beginning of one."""
PIECE = 500
MOST_FILES = 1_000

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def keep(folder: Path, text: str) -> Path:
    """Write a result to a new file, as a whole or not at all; OSError when that cannot be done. It blocks."""
    folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    name = f"result_{new_id()}.txt"
    draft = folder / f".{name}"
    handle = os.open(draft, _NEW, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_broken(text[:LARGEST]).encode("utf-8", "replace"))
        draft.rename(folder / name)
    except OSError:
        with suppress(OSError):
            draft.unlink()
        raise
    return folder / name


def where(file: Path, size: int) -> str:
    """How a transcript says where a result is that was cut."""
    what = "all of it is" if size <= LARGEST else f"the first {LARGEST:,} are"
    return f"; {what} in {file} (page it with Read, search it with Grep)"


def files_in(folder: Path) -> Iterator[Path]:
    """The outputs of a task that its agent may read again when it goes on."""
    with suppress(OSError), os.scandir(folder) as entries:
        names = (each.name for each in entries if not each.name.startswith("."))
        yield from [folder / name for name in islice(names, MOST_FILES)]


def _broken(text: str) -> str:
    """`text` without a line that is longer than anybody is shown."""
    if "\n" in text and max(map(len, text.split("\n"))) <= LONGEST_LINE:
        return text
    return re.sub(rf"[^\n]{{{LONGEST_LINE + 1},}}", lambda long: _pieces(long[0]), text)


def _pieces(line: str) -> str:
    return "\n".join(line[at : at + PIECE] for at in range(0, len(line), PIECE))
