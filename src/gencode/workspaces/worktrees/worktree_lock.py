"""worktrees: whoever begins or ends in one does so alone, also between processes.

So nobody removes one that another is about to work in, and of two that end at once one is the last.
"""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

from gencode.workspaces.worktrees.create import locked
from gencode.workspaces.worktrees.worktree import Worktree, record_file, recorded


@asynccontextmanager
async def alone(path: Path) -> AsyncGenerator[Worktree | None]:
    """The worktree at a path while nobody else begins or ends in it; None where there is none any more."""
    while file := _opened(path):
        with file:
            await locked(file.fileno(), f"beginning or ending in {path}")
            if _is_current(file, path):  # it may have been removed, and made anew, meanwhile
                yield recorded(path)
                return
    yield None


def _opened(path: Path) -> IO[bytes] | None:
    """What is noted of a worktree is also its lock: it comes and goes with it, and nobody replaces it."""
    try:
        return record_file(path).open("r+b")
    except OSError:
        return None


def _is_current(file: IO[bytes], path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file.fileno()), record_file(path).stat())
    except OSError:
        return False
