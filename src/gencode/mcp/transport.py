"""MCP messages (JSON-RPC), protocol versions and the interface of a transport."""

from collections.abc import Mapping
from typing import Any, Protocol, cast

import msgspec

from gencode.core.errors import GenCodeError

LARGEST_MESSAGE = 16 * 1024 * 1024
STATELESS_VERSION = "2026-07-28"
"""The version without a handshake: every request says on its own who asks and in which version."""
HANDSHAKE_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

METHOD_NOT_FOUND = -32601
UNSUPPORTED_VERSION = -32022

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
    """There is no connection, or no more; the text says why. `hopeless`: trying again would not help."""

    def __init__(self, why: str, *, hopeless: bool = False) -> None:
        super().__init__(why)
        self.hopeless = hopeless


class TransportListener(Protocol):
    """Receives the messages of a server."""

    def hear(self, message: Message) -> None:
        """One message of the server."""
        ...

    def failed(self, request: int, error: GenCodeError) -> None:
        """One request will not be answered."""
        ...

    def lost(self, why: str) -> None:
        """Nothing more can be said or heard."""
        ...


class Transport(Protocol):
    """What carries messages to one server and back. `version` is the one that was agreed on."""

    version: str

    async def open(self, listener: TransportListener) -> None:
        """Connect to the server; ConnectionLost when that fails."""
        ...

    def send(self, message: Message, headers: Mapping[str, str]) -> None:
        """Say something; `headers` go along where there are any."""
        ...

    def abandon(self, request: int) -> bool:
        """Nobody waits for an answer any more; whether the server knows by this."""
        ...

    def follow(self) -> None:
        """Hear also what the server says without being asked, where that needs a connection of its own."""
        ...

    async def close(self) -> None:
        """Close the connection."""
        ...


def decoded(content: bytes | bytearray) -> list[Message]:
    """The messages in one piece of JSON, which may be a batch; none if it is something else."""
    try:
        read: Any = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    several = cast("list[Any]", read) if isinstance(read, list) else [read]
    objects = [cast("Message", each) for each in several if isinstance(each, dict)]
    return [each for each in objects if each.get("jsonrpc") == "2.0"]


def encoded(message: Message) -> bytes:
    """A message as one line, without its end."""
    return msgspec.json.encode(message)
