"""A person behind an MCP client."""

from collections.abc import Mapping
from typing import Any

import mcp_types as types

YES, NO = "approve once", "decline"


class Person:
    """Somebody at a client, who fills every form like this and keeps what was shown."""

    def __init__(self, fill: Mapping[str, Any] | None, action: str = "accept") -> None:
        self._fill = fill
        self._action = action
        self.shown: list[types.ElicitRequestParams] = []

    async def __call__(self, _: object, params: types.ElicitRequestParams) -> types.ElicitResult:
        self.shown.append(params)
        content = dict(self._fill) if self._fill is not None else None
        return types.ElicitResult.model_validate({"action": self._action, "content": content})
