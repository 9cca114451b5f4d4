"""What agents are just saying, so that whoever looks at one later misses nothing (surfaces)."""

from collections import deque

from msgspec.structs import replace

from gencode.core.events import Event, ReplyRestarted, TextArrived, ThinkingArrived
from gencode.interfaces.render.transcript import Transcript

MOST_PIECES = 4_000


class Voice:
    """The pieces of a reply that is being spoken; only the last ones are kept."""

    def __init__(self) -> None:
        self.text: deque[str] = deque(maxlen=MOST_PIECES)
        self.thinking: deque[str] = deque(maxlen=MOST_PIECES)


class Voices:
    """The replies that are being spoken, each until it is written down."""

    def __init__(self) -> None:
        self._by_task: dict[str, Voice] = {}

    def hear(self, event: Event, *, ended: bool) -> None:
        """Take in one event; pieces of an agent that has `ended` were read from the journal already."""
        match event.fact:
            case TextArrived(text) if not ended:
                self._by_task.setdefault(event.task, Voice()).text.append(text)
            case ThinkingArrived(text) if not ended:
                self._by_task.setdefault(event.task, Voice()).thinking.append(text)
            case ReplyRestarted():
                self._by_task.pop(event.task, None)
            case _ if event.seq is not None:
                self._by_task.pop(event.task, None)
            case _:
                pass

    def added_to(self, transcript: Transcript, known: int) -> Transcript:
        """A transcript from the journal with what its agent is just saying.

        `known` is the last fact of it that was heard: where the journal knows more, the words may be there.
        """
        voice = self._by_task.get(transcript.task)
        if voice is None or transcript.seq > known:
            return transcript
        return replace(transcript, text="".join(voice.text), thinking="".join(voice.thinking))
