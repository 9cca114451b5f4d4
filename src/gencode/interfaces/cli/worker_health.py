"""A tiny HTTP endpoint on 127.0.0.1 that tells whether a worker is well; it answers nothing else."""

import asyncio
from collections.abc import Callable
from typing import Any

from gencode.core.errors import UserMistake
from gencode.core.outcome import as_json

HOST = "127.0.0.1"
PATH = "/health"
LONGEST = 4_096
READ_SECONDS = 5.0

Look = Callable[[], tuple[bool, dict[str, Any]]]
"""Whether all is well, and what is to be told."""


class Health:
    """Listens from `start` to `close`."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._server: asyncio.Server | None = None

    async def start(self, port: int = 0) -> str:
        """Listen on a port (0: any that is free); the address."""
        try:
            self._server = await asyncio.start_server(self._answer, HOST, port, limit=LONGEST)
        except OSError as error:
            raise UserMistake(
                f"Port {port} cannot be listened on ({error.strerror}); name another one."
            ) from None
        return f"http://{HOST}:{self._server.sockets[0].getsockname()[1]}{PATH}"

    def close(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(READ_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._reply(head.split(b"\r\n", 1)[0].split()))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    def _reply(self, line: list[bytes]) -> bytes:
        if line[:2] != [b"GET", PATH.encode()]:
            return _response("404 Not Found", {"error": f"there is only {PATH}"})
        well, told = self._look()
        return _response("200 OK" if well else "503 Service Unavailable", {"healthy": well, **told})


def _response(status: str, told: dict[str, Any]) -> bytes:
    body = as_json(told).encode() + b"\n"
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Connection: close\r\n\r\n".encode() + body
