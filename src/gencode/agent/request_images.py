"""Selects the images of a transcript that go with a request, and describes the others.

A request has only the latest images, and none for a model that accepts text only. The journal keeps them all.
"""

from collections.abc import Sequence
from typing import TypeVar

from gencode.agent.models import sees
from gencode.core.messages import AssistantMessage, Image, Message, ToolResult, UserMessage, shows_pictures
from gencode.core.structs import replace
from gencode.core.text import counted
from gencode.files.images import MOST_PICTURES, MOST_TOGETHER

EARLIER = "only the latest are shown"
TEXT_ONLY = "this model takes text only"
REFUSED = "refused by a model's provider"
Piece = TypeVar("Piece", UserMessage, ToolResult)


def as_shown(transcript: Sequence[Message], model: str) -> Sequence[Message]:
    """The transcript as a request for this model contains it."""
    if not any(map(shows_pictures, transcript)):
        return transcript
    choice = _Choice(model)
    return [choice.shown(each) for each in reversed(transcript)][::-1]


class _Choice:
    """Selects images from the latest to the first, and remembers how many more fit into the request."""

    def __init__(self, model: str) -> None:
        self._sees = sees(model)
        self._left = MOST_PICTURES
        self._room = MOST_TOGETHER
        self._refused = 0

    def shown(self, message: Message) -> Message:
        """The message before those that were selected already."""
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
        notes = [f"[{counted(count, 'image')} left out here: {why}]" for why, count in gone.items()]
        text = "\n".join([piece.text, *reversed(notes)] if piece.text else notes[::-1])
        return replace(piece, text=text, images=tuple(reversed(kept)))

    def _left_out(self, image: Image) -> str:
        """Why an image is left out; empty for one that is sent."""
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
