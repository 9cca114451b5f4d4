"""MCP approvals: the servers and tools that a person has approved, each in the form it had then.

The first call of a server that is let through, by whatever rule, mode or answer, notes how the server is
started and what all of its tools say about themselves. From then on, whatever looks different needs a person.
"""

import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.permissions.saved_rules import FileLock

FILE = "mcp_approvals.json"
_MOST_FORMS = 32
"""Of one thing: a server of the same name may be another one in another folder."""


class _Approved(Struct, frozen=True, forbid_unknown_fields=True):
    """The approved forms of one server: SHA-256 digests, the latest last."""

    definitions: tuple[str, ...] = ()
    tools: dict[str, tuple[str, ...]] = {}


class ServerApprovals:
    """The approved servers and tools, kept in the per-user folder."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._known = _read(home)

    def refresh(self) -> None:
        """Read again what other processes have approved since."""
        self._known = _read(self._home)

    def knows(self, server: str) -> bool:
        """Whether anything of a server of this name was ever let through."""
        return server in self._known

    def covers_start(self, server: str, digest: str) -> bool:
        """Whether a server may be started in this form: it was before, or nothing of its name ever was."""
        known = self._known.get(server)
        return known is None or digest in known.definitions

    def knows_tool(self, server: str, tool: str) -> bool:
        """Whether a tool of this name was let through in any form."""
        known = self._known.get(server)
        return known is not None and tool in known.tools

    def covers_tool(self, server: str, tool: str, digest: str) -> bool:
        """Whether a tool looks as it did when it, or its server for the first time, was let through."""
        known = self._known.get(server)
        return known is None or digest in known.tools.get(tool, ())

    def add(self, server: str, definition: str, tools: Mapping[str, str]) -> None:
        """Approve these forms; atomic, also beside other processes."""
        try:
            with FileLock(self._home, FILE):
                kept = _read(self._home)
                before = kept.get(server, _Approved())
                merged = dict(before.tools)
                for name, digest in tools.items():
                    merged[name] = _with(merged.get(name, ()), digest)
                kept[server] = _Approved(_with(before.definitions, definition), merged)
                _write(self._home, kept)
        except OSError as error:
            raise UserMistake(f"{self._home / FILE} cannot be written: {error.strerror}.") from None
        self._known = kept


def _with(digests: tuple[str, ...], digest: str) -> tuple[str, ...]:
    return (*(each for each in digests if each != digest), digest)[-_MOST_FORMS:]


def _read(home: Path) -> dict[str, _Approved]:
    path = home / FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, _Approved])
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except OSError as error:
        raise UserMistake(f"{path} cannot be read ({error.strerror}); make it readable.") from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        way = "remove it, and approve your MCP servers again"
        raise UserMistake(f"{path} is not as GenCode writes it ({error}); {way}.") from None


def _write(home: Path, kept: Mapping[str, _Approved]) -> None:
    temporary = home / f".{FILE}.{secrets.token_hex(8)}"
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(kept), indent=1))
            file.flush()
            os.fsync(handle)
        temporary.replace(home / FILE)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
