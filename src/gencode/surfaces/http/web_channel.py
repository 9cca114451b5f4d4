"""The channel `web`: words to whoever has the page open, or reads the stream of everything (server)."""

from gencode.core.errors import ToolError
from gencode.surfaces.http.hub import Hub

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
