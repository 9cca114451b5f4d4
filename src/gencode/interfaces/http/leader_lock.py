"""One server of this machine at a time does some work: whoever locks its file first (surfaces, server)."""

import fcntl
import os
from collections.abc import Generator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from gencode.core.errors import UserMistake
from gencode.settings import gen_home

_MODE = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Turn:
    """A file that at most one process holds; what a dead one held is free."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def taken(self) -> bool:
        """Try to hold it; whether it is held here now."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def lock_of(work: str, folder: Path) -> Path:
    """The file of some work that is done for one folder; servers of other folders do theirs."""
    return gen_home() / f"{work}-{sha256(os.fsencode(folder)).hexdigest()[:16]}.lock"


@contextmanager
def turn_at(path: Path) -> Generator[Turn, None, None]:
    """The file of some work, which is let go of at the end."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, _MODE, 0o600)
    except OSError as error:
        raise UserMistake(f"{path} cannot be written: {error.strerror}.") from None
    try:
        yield Turn(handle)
    finally:
        os.close(handle)
