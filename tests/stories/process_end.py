"""Whether a process has ended."""

from pathlib import Path

import pytest

NEEDS_PROC = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes cannot be told apart")


EXITING = 0x4
"""PF_EXITING among the flags of a process: it runs nothing of its own any more."""


def is_gone(process: int) -> bool:
    """Whether a process has ended, or is about to; its parent may not have looked after it yet."""
    try:
        state, *rest = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return True
    return state == "Z" or bool(int(rest[5]) & EXITING)
