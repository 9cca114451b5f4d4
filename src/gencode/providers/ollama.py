"""Finds an Ollama on this machine: quickly, and without loading an HTTP client when there is none."""

import asyncio
from typing import Any

import msgspec

HOST, PORT = "127.0.0.1", 11434
SECONDS = 0.05
MOST_BYTES = 1024 * 1024


async def tool_model(port: int = PORT) -> str | None:
    """The first model of a local Ollama that can call tools; None if there is none within 50 ms."""
    try:
        async with asyncio.timeout(SECONDS):
            for model in (await _ask(port, "GET", "/api/tags", b"")).get("models", ()):
                name = str(model["name"])
                shown = await _ask(port, "POST", "/api/show", msgspec.json.encode({"model": name}))
                if "tools" in shown.get("capabilities", ()):
                    return name
    except (OSError, TimeoutError, EOFError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return None


async def _ask(port: int, method: str, path: str, body: bytes) -> dict[str, Any]:
    """One request over a connection of its own; whatever is no JSON object is a ValueError."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        head = f"{method} {path} HTTP/1.0\r\nHost: {HOST}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        status = await reader.readline()
        if b" 200 " not in status:
            raise ValueError(status)
        answer = await reader.read(MOST_BYTES)
        while piece := await reader.read(MOST_BYTES - len(answer)):
            answer += piece
    finally:
        writer.close()
    return msgspec.json.decode(answer.partition(b"\r\n\r\n")[2], type=dict[str, Any])
