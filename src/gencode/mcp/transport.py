"""MCP messages (JSON-RPC), protocol versions and the interface of a transport."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Protocol, cast

import msgspec

from gencode.core.errors import GenCodeError

log = logging.getLogger(__name__)

LARGEST_MESSAGE = 16 * 1024 * 1024
STATELESS_VERSION = "2026-07-28"
"""The version without a handshake: every request names its client and its version."""
HANDSHAKE_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

METHOD_NOT_FOUND = -32601

META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CLIENT = "io.modelcontextprotocol/clientInfo"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"

Message = dict[str, Any]


class RequestRefused(GenCodeError):
    """The server answered a request with an error."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class ConnectionLost(GenCodeError):
    """The connection failed or was lost; the text says why. `hopeless`: a retry would not help."""

    def __init__(self, why: str, *, hopeless: bool = False) -> None:
        super().__init__(why)
        self.hopeless = hopeless


class TransportListener(Protocol):
    """Receives the messages of a server."""

    def receive(self, message: Message) -> None:
        """Handle a message of the server."""
        ...

    def failed(self, request: int, error: GenCodeError) -> None:
        """A request will not be answered."""
        ...

    def lost(self, why: str) -> None:
        """The connection is lost."""
        ...


class Transport(Protocol):
    """Sends messages to one server, and passes on its own. `version` is the negotiated one."""

    version: str

    async def open(self, listener: TransportListener) -> None:
        """Connect to the server; ConnectionLost when that fails."""
        ...

    def send(self, message: Message, headers: Mapping[str, str]) -> None:
        """Send a message; `headers` are for transports that have headers."""
        ...

    def cancel_request(self, request: int) -> bool:
        """Drop a request; whether this already tells the server that it is cancelled."""
        ...

    def listen(self) -> None:
        """Receive the server's own notifications too, where that needs another connection."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...


def decoded(content: bytes | bytearray) -> list[Message]:
    """The messages in JSON, which may be a batch; none in anything else."""
    try:
        read: Any = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    several = cast("list[Any]", read) if isinstance(read, list) else [read]
    objects = [cast("Message", each) for each in several if isinstance(each, dict)]
    return [each for each in objects if each.get("jsonrpc") == "2.0"]


def encoded(message: Message) -> bytes:
    """A message as one line, without a line end."""
    return msgspec.json.encode(message)


BUG = "a bug in GenCode, see the log"
"""Why a connection failed after an unexpected error of ours."""


def bug_in(task: "asyncio.Task[Any]") -> bool:
    """Whether a background task failed unexpectedly; that is logged with its traceback."""
    if task.cancelled() or (trouble := task.exception()) is None:
        return False
    log.error("a background task of an MCP connection failed", exc_info=trouble)
    return True
