"""An MCP client with roots."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import mcp_types as types
from pydantic import FileUrl


def rooted(*folders: Path) -> Callable[[object], Awaitable[types.ListRootsResult]]:
    async def tell(_: object) -> types.ListRootsResult:
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl(each.as_uri())) for each in folders])

    return tell
