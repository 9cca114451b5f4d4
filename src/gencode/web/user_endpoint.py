"""Sends a request to an address from the user's environment, which may be on this machine (SearXNG).

Nothing is checked here, so an address from a model, a page or a repository must never get here. There is one
request, without redirects, cookies and proxies, and errors give only its name, because the address may hold a
password.
"""

import asyncio
from typing import TYPE_CHECKING

from msgspec import Struct

from gencode.core.errors import ToolError
from gencode.web.http_fetch import LIMITS, WebLimits

if TYPE_CHECKING:
    import aiohttp

_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "gencode"}


class EndpointResponse(Struct, frozen=True):
    """The answer of an endpoint."""

    status: int
    body: bytes


async def ask_endpoint(name: str, url: str, limits: WebLimits = LIMITS) -> EndpointResponse:
    """GET an address; ToolError says in terms of `name` why there is no answer."""
    import aiohttp

    try:
        async with (
            asyncio.timeout(limits.seconds),
            aiohttp.ClientSession(
                cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False, trust_env=False
            ) as client,
            client.get(url, allow_redirects=False, headers=_HEADERS) as response,
        ):
            body = await _body(response, limits.most_bytes)
    except TimeoutError:
        raise ToolError(f"{name} did not answer within {limits.seconds:g} s.") from None
    except (aiohttp.ClientError, OSError, ValueError):
        raise ToolError(f"{name} cannot be reached; does it run?") from None
    if body is None:
        raise ToolError(f"{name} answered with more than anybody can read.")
    return EndpointResponse(response.status, body)


async def _body(response: "aiohttp.ClientResponse", most: int) -> bytes | None:
    """The whole body, or None when it is too long."""
    pieces: list[bytes] = []
    size = 0
    async for piece in response.content.iter_any():
        size += len(piece)
        if size > most:
            return None
        pieces.append(piece)
    return b"".join(pieces)
