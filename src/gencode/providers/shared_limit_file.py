"""Stores the rate limit state of a model: in memory, or in a file that all processes of a machine share.

Without refusals the file is empty or missing, and costs a look at its modification time now and then. The
process that has its lock reads it, changes it and writes it back; a process that dies loses the lock. If
anything goes wrong with the file, each process continues with its own state. Times count from the boot of the
machine, so a state from before a reboot is ignored.
"""

import asyncio
import contextlib
import fcntl
import logging
import os
import time
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from types import TracebackType

import msgspec

from gencode.journal.owner import boot_id
from gencode.providers.rate_limit import RateLimit

log = logging.getLogger(__name__)

TRIES = 5
"""How many milliseconds to wait for the lock before other agents of this process run."""
AGAIN_SECONDS = 0.05
"""After how many seconds the lock is tried again."""
HUNG_SECONDS = 10.0
"""A process that holds the lock for longer hangs: this one continues alone until the lock is free."""
STIR_SECONDS = 0.05
"""How often the file is checked for changes: a thousand requests may be sent at once."""
LARGEST = 1_000_000

_states = msgspec.json.Decoder(RateLimit)


class LimitStorage:
    """Keeps the rate limit state in memory, for this process only."""

    shared = False
    open = True
    """Whether the state can be written now."""
    alone = False
    """Whether waiting for that is of no use."""

    def __init__(self, state: RateLimit | None = None) -> None:
        self.state = state or RateLimit()

    def stirred(self) -> bool:
        """Whether another process has written something."""
        return False

    def __enter__(self) -> RateLimit:
        """Lock and read the state; until the end no other process changes it."""
        return self.state

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write the state and unlock it."""


class SharedLimitFile(LimitStorage):
    """Keeps the rate limit state in a file of a folder, for all processes with the same `asked`."""

    shared = True

    def __init__(self, folder: Path, asked: Sequence[str]) -> None:
        super().__init__()
        self.open = False
        self._boot = boot_id()
        self._path = folder / f"{sha256(repr(tuple(asked)).encode()).hexdigest()[:32]}.json"
        self._file: int | None = None
        self._broken = not self._boot
        self._seen = 0
        self._text = b""
        self._again_at = self._stirs_at = 0.0
        self._missed_at: float | None = None

    @property
    def alone(self) -> bool:
        """Whether a hanging process holds the file."""
        return self._missed_at is not None and _now() > self._missed_at + HUNG_SECONDS

    def stirred(self) -> bool:
        """Whether the file has changed since it was last read or written here."""
        if (now := _now()) < self._stirs_at:
            return False
        self._stirs_at = now + STIR_SECONDS
        try:
            found = self._path.stat()
        except OSError:
            return False
        return found.st_mtime_ns != self._seen and (found.st_size > 0 or self.state.active)

    def __enter__(self) -> RateLimit:
        self._file = self._locked()
        self.open = self._file is not None or self._broken
        if self._file is not None:
            self._read(self._file)
        return self.state

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        file, self._file = self._file, None
        if file is None:
            return
        try:
            self._write(file)
        except OSError as trouble:
            self._give_up(trouble)
        finally:
            os.close(file)

    def _locked(self) -> int | None:
        """The file with its lock; None where that is not possible."""
        if self._broken or _now() < self._again_at:
            return None
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as trouble:
            self._give_up(trouble)
            return None
        for _ in range(TRIES):
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._missed_at = None
                return file
            time.sleep(0.001)
        os.close(file)
        self._again_at = _now() + AGAIN_SECONDS
        if self._missed_at is None:
            self._missed_at = _now()
        return None

    def _read(self, file: int) -> None:
        try:
            self._text = os.pread(file, LARGEST, 0)
            state = _states.decode(self._text) if self._text else None
            if state is None:
                self.state.active = False
            elif state.boot == self._boot:
                self.state = state
        except (OSError, msgspec.MsgspecError) as trouble:
            log.info("the rate limit state cannot be read from %s: %s", self._path, trouble)

    def _write(self, file: int) -> None:
        self.state.boot = self._boot
        text = msgspec.json.encode(self.state) if self.state.active else b""
        if text != self._text:
            os.pwrite(file, text, 0)
            os.ftruncate(file, len(text))
        self._seen = os.fstat(file).st_mtime_ns

    def _give_up(self, trouble: OSError) -> None:
        """Continue without the file."""
        log.warning("the rate limit state is not shared with other processes: %s", trouble)
        self._broken = True


def _now() -> float:
    return asyncio.get_running_loop().time()
