"""Maps addresses of channels and clients to conversations: an append-only file for all processes.

Every line has an address, its conversation, and up to which event its replies were sent on; the last line
about an address is valid. `session:ID` is an address of every conversation and needs no line.
"""

import fcntl
import os
from pathlib import Path

import msgspec
from msgspec import Struct

from gencode.channels.address import Address
from gencode.core.errors import UserMistake

SESSION = "session"


MOST_BYTES = 50_000_000


_MODE = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class ChatAddress(Struct, frozen=True, omit_defaults=True):
    """An address of a folder, its conversation, and the last event whose reply was sent on."""

    address: str
    session: str
    cwd: str
    told: int = 0


class ChatAddresses:
    """The addresses of the conversations of one folder."""

    def __init__(self, path: Path, cwd: Path) -> None:
        self._path = path
        self._cwd = str(cwd)
        self._read = 0
        self._lines: dict[str, ChatAddress] = {}

    def find(self, to: Address) -> str | None:
        """The conversation of an address, if there is one."""
        if to.channel == SESSION:
            return to.chat
        self._refresh()
        line = self._lines.get(str(to))
        return line.session if line else None

    def of(self, session: str) -> ChatAddress | None:
        """The address of a conversation, the newest if there are several."""
        self._refresh()
        return next((line for line in reversed(self._lines.values()) if line.session == session), None)

    def all(self) -> list[ChatAddress]:
        """All addresses, the newest last."""
        self._refresh()
        return list(self._lines.values())

    def bind(self, to: Address, session: str, told: int = 0) -> None:
        """Set the conversation of an address, and up to which event its replies were sent on."""
        line = ChatAddress(str(to), session, self._cwd, told)
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(self._path, _MODE, 0o600), "ab", buffering=0) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if os.fstat(file.fileno()).st_size > MOST_BYTES:
                    raise UserMistake(f"{self._path} is too large. Delete lines that are no longer needed.")
                file.write(msgspec.json.encode(line) + b"\n")
        except OSError as error:
            raise UserMistake(f"{self._path} cannot be written: {error.strerror}.") from None
        self._refresh()

    def _refresh(self) -> None:
        """Read what was added since; an incomplete line is read once it is complete."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._read)
                added = file.read(MOST_BYTES)
        except FileNotFoundError:
            return
        except OSError as error:
            raise UserMistake(f"{self._path} cannot be read: {error.strerror}.") from None
        whole, newline, _ = added.rpartition(b"\n")
        self._read += len(whole) + len(newline)
        for text in whole.splitlines():
            try:
                line = msgspec.json.decode(text, type=ChatAddress)
            except msgspec.MsgspecError:
                continue  # somebody edited the file; the other lines are valid
            if line.cwd == self._cwd:
                self._lines.pop(line.address, None)
                self._lines[line.address] = line
