"""Stores the rate limit state of a model: in memory, or in a file that all processes of a machine share.

The file is empty in calm times, or not there, and then it costs a look at its date now and then. Who has
its lock reads it, changes it and writes it back; a process that dies has no lock any more. Whatever goes
wrong with it, each process goes on with what it knows. The times in it count from the start of the machine,
so after another one it says nothing.
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

from gencode.journal.owner import boot_id, new_owner, owner_state
from gencode.providers.rate_limit import SLOW, RateLimitState

log = logging.getLogger(__name__)

TRIES = 5
"""So many milliseconds one waits for the lock, before others of this process go on."""
AGAIN_SECONDS = 0.05
"""So soon it is tried again."""
HUNG_SECONDS = 10.0
"""Whoever has it for longer hangs: then one goes on alone until it can be had."""
STIR_SECONDS = 0.05
"""So often one looks whether others have written something: a thousand requests may leave at once."""
SILENT_SECONDS = 2.0
"""Of a process that gives no sign for so many seconds it is found out whether it has died."""
LARGEST = 1_000_000

_states = msgspec.json.Decoder(RateLimitState)


class LimitStorage:
    """Keeps the rate limit state in memory: only this process knows of it."""

    shared = False
    name = ""
    open = True
    """Whether it can be written now."""
    alone = False
    """Whether it is of no use to wait until it can be."""

    def __init__(self, state: RateLimitState | None = None) -> None:
        self.state = state or RateLimitState()

    def stirred(self) -> bool:
        """Whether somebody else has written something."""
        return False

    def __enter__(self) -> RateLimitState:
        """Read it; until the end nobody else changes it."""
        return self.state

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write it."""


class SharedLimitFile(LimitStorage):
    """Keeps the rate limit state in a file of a folder, for all who have `asked` the same."""

    shared = True

    def __init__(self, folder: Path, asked: Sequence[str]) -> None:
        super().__init__()
        self.name = new_owner()
        self.open = False
        self._boot = boot_id()
        self._path = folder / f"{sha256(repr(tuple(asked)).encode()).hexdigest()[:32]}.json"
        self._file: int | None = None
        self._broken = not self._boot
        self._seen = 0
        self._looked_at = self._again_at = self._stirs_at = 0.0
        self._missed_at: float | None = None

    @property
    def alone(self) -> bool:
        """Whether somebody who hangs has the file."""
        return self._missed_at is not None and _now() > self._missed_at + HUNG_SECONDS

    def stirred(self) -> bool:
        """Whether the file is another one than it was when it was read or written last."""
        if (now := _now()) < self._stirs_at:
            return False
        self._stirs_at = now + STIR_SECONDS
        try:
            found = self._path.stat()
        except OSError:
            return False
        return found.st_mtime_ns != self._seen and (found.st_size > 0 or self.state.cold)

    def __enter__(self) -> RateLimitState:
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
        """The file, once nobody else has it; None where that is not possible."""
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
            text = os.pread(file, LARGEST, 0)
            state = _states.decode(text) if text else None
            if state is None:
                self.state.cold = False
            elif state.boot == self._boot:
                self.state = state
        except (OSError, msgspec.MsgspecError) as trouble:
            log.info("the rate limit state cannot be read from %s: %s", self._path, trouble)
        now = _now()
        if now > self._looked_at + SILENT_SECONDS:
            self._looked_at = now
            self.state.places = {
                name: each
                for name, each in self.state.places.items()
                if each.seen_at > now - SILENT_SECONDS
                or (each.seen_at > now - SLOW and owner_state(name) != "dead")
            }

    def _write(self, file: int) -> None:
        self.state.boot = self._boot
        text = msgspec.json.encode(self.state) if self.state.cold else b""
        if text or os.fstat(file).st_size:
            os.pwrite(file, text, 0)
            os.ftruncate(file, len(text))
        self._seen = os.fstat(file).st_mtime_ns

    def _give_up(self, trouble: OSError) -> None:
        """Go on alone."""
        log.warning("the rate limit state is not shared with other processes: %s", trouble)
        self._broken = True


def _now() -> float:
    return asyncio.get_running_loop().time()
