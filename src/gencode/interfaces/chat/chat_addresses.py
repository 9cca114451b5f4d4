"""Which conversation an address leads to: a file that only grows, shared by all processes of the machine.

Every line says that an address leads to a conversation of a folder, or how far its replies were sent on. The
last line counts. A conversation needs no line to be spoken to: `session:ID` is its address, too.
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
    """One address of one folder, its conversation, and the last fact whose words were sent on."""

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
        """The conversation that an address leads to, if there is one."""
        if to.channel == SESSION:
            return to.chat
        self._refresh()
        line = self._lines.get(str(to))
        return line.session if line else None

    def of(self, session: str) -> ChatAddress | None:
        """The address that leads to a conversation, the newest if there are several."""
        self._refresh()
        return next((line for line in reversed(self._lines.values()) if line.session == session), None)

    def all(self) -> list[ChatAddress]:
        """Every address that leads somewhere, the newest last."""
        self._refresh()
        return list(self._lines.values())

    def bind(self, to: Address, session: str, told: int = 0) -> None:
        """Let an address lead to a conversation whose words up to a fact were sent on."""
        line = ChatAddress(str(to), session, self._cwd, told)
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with os.fdopen(os.open(self._path, _MODE, 0o600), "ab", buffering=0) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                if os.fstat(file.fileno()).st_size > MOST_BYTES:
                    raise UserMistake(f"{self._path} is too large; delete lines that nobody needs.")
                file.write(msgspec.json.encode(line) + b"\n")
        except OSError as error:
            raise UserMistake(f"{self._path} cannot be written: {error.strerror}.") from None
        self._refresh()

    def _refresh(self) -> None:
        """Read what was added since; half a line is read when it is whole."""
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
                continue  # a hand has been in the file; every other line counts
            if line.cwd == self._cwd:
                self._lines.pop(line.address, None)
                self._lines[line.address] = line
