"""The MCP servers and tools that the user has approved, each in the form it had then.

The first allowed call of a server, by whatever rule, mode or answer, records how the server is started and
how all of its tools describe themselves. From then on, anything that differs needs the user's approval.
"""

from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.permissions.whole_files import FileLock, write_private_file

FILE = "mcp_approvals.json"
_MOST_FORMS = 32
"""Of one server or tool: another folder may have another server of the same name."""


class _Approved(Struct, frozen=True, forbid_unknown_fields=True):
    """The approved forms of one server: SHA-256 digests, the latest last."""

    definitions: tuple[str, ...] = ()
    tools: dict[str, tuple[str, ...]] = {}


class ServerApprovals:
    """The approved servers and tools, stored in the per-user folder."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._known = _read(home)

    def refresh(self) -> None:
        """Read what other processes have approved since."""
        self._known = _read(self._home)

    def knows(self, server: str) -> bool:
        """Whether a server of this name was ever approved."""
        return server in self._known

    def covers_start(self, server: str, digest: str) -> bool:
        """Whether a server may be started in this form: approved before, or the first of its name."""
        known = self._known.get(server)
        return known is None or digest in known.definitions

    def knows_tool(self, server: str, tool: str) -> bool:
        """Whether a tool of this name was approved in any form."""
        known = self._known.get(server)
        return known is not None and tool in known.tools

    def covers_tool(self, server: str, tool: str, digest: str) -> bool:
        """Whether a tool was approved in this form, or nothing of its server was approved so far."""
        known = self._known.get(server)
        return known is None or digest in known.tools.get(tool, ())

    def add(self, server: str, definition: str, tools: Mapping[str, str]) -> None:
        """Approve these forms, atomically across processes."""
        try:
            with FileLock(self._home, FILE):
                kept = _read(self._home)
                before = kept.get(server, _Approved())
                merged = dict(before.tools)
                for name, digest in tools.items():
                    merged[name] = _with(merged.get(name, ()), digest)
                kept[server] = _Approved(_with(before.definitions, definition), merged)
                text = msgspec.json.format(msgspec.json.encode(kept), indent=1)
                write_private_file(self._home / FILE, text, sync=True)
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
        raise UserMistake(f"{path} is damaged ({error}); {way}.") from None
