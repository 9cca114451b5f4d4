"""Which images of a transcript go with a request, and what stands in the place of the others.

A request carries only the latest, and none for a model that takes text only. The journal keeps them all.
"""

from collections.abc import Sequence
from typing import TypeVar

from msgspec.structs import replace

from gencode.agent.models import sees
from gencode.core.messages import AssistantMessage, Image, Message, ToolResult, UserMessage, shows_pictures
from gencode.files.images import MOST_PICTURES, MOST_TOGETHER

EARLIER = "only the latest are shown"
TEXT_ONLY = "this model takes text only"
REFUSED = "refused by a model's provider"
Piece = TypeVar("Piece", UserMessage, ToolResult)


def as_shown(transcript: Sequence[Message], model: str) -> Sequence[Message]:
    """The transcript as a model of this name is told it."""
    if not any(map(shows_pictures, transcript)):
        return transcript
    choice = _Choice(model)
    return [choice.told(each) for each in reversed(transcript)][::-1]


def counted(pictures: int) -> str:
    """So many pictures, in words."""
    return "1 picture" if pictures == 1 else f"{pictures} pictures"


class _Choice:
    """Chooses from the latest picture to the first, and remembers how many more go with the request."""

    def __init__(self, model: str) -> None:
        self._sees = sees(model)
        self._left = MOST_PICTURES
        self._room = MOST_TOGETHER
        self._refused = 0

    def told(self, message: Message) -> Message:
        """The next message before those that were told already."""
        if isinstance(message, AssistantMessage):
            return message
        if isinstance(message, UserMessage):
            self._refused = max(self._refused, message.unseen)
            return self._reduced(message) if message.images else message
        if not shows_pictures(message):
            return message
        results = [self._reduced(each) if each.images else each for each in reversed(message.results)]
        return replace(message, results=tuple(reversed(results)))

    def _reduced(self, piece: Piece) -> Piece:
        kept: list[Image] = []
        gone: dict[str, int] = {}
        for image in reversed(piece.images):
            if why := self._left_out(image):
                gone[why] = gone.get(why, 0) + 1
            else:
                kept.append(image)
        if not gone:
            return piece
        notes = [f"[{counted(count)} left out here: {why}]" for why, count in gone.items()]
        text = "\n".join([piece.text, *reversed(notes)] if piece.text else notes[::-1])
        return replace(piece, text=text, images=tuple(reversed(kept)))

    def _left_out(self, image: Image) -> str:
        """Why a picture is left out; nothing for one that is shown."""
        refused, self._refused = self._refused > 0, max(0, self._refused - 1)
        if not self._sees:
            return TEXT_ONLY
        if refused:
            return REFUSED
        self._left -= 1
        self._room -= len(image.base64)
        if self._left < 0 or self._room < 0:
            self._left = 0  # and so are all before it
            return EARLIER
        return ""
