"""The channel `web`: words to whoever has the page open, or reads the stream of everything (server)."""

from collections.abc import Mapping
from typing import Any

from gencode.core.errors import ToolError
from gencode.interfaces.http.hub import Hub
from gencode.permissions.urls import UrlRefused, judge_url

WEB = "web"


class WebChannel:
    """Tells everybody who hears of all tasks; what nobody would hear waits in the outbox."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub

    async def send(self, chat: str, text: str, mark: str) -> None:
        """Say something in a chat of the page; the same mark is the same message."""
        if not self._hub.watched:
            raise ToolError("Nobody looks at the page; it is told when somebody does.")
        self._hub.say("ChatMessage", {"address": f"{WEB}:{chat}", "text": text, "id": mark})


def unreachable(channels: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """The channels of the settings whose url leads to no public address, as far as its text tells; why."""
    found: dict[str, str] = {}
    for name, table in channels.items():
        try:
            judge_url(str(table.get("url", "")))
        except UrlRefused as refused:
            found[name] = refused.why
    return found
