"""runtime: a way on for a conversation whose pictures a model's provider refuses."""

from collections.abc import Iterator, Sequence

from gencode.agent.loop import asked_of, listen
from gencode.agent.ports import ToolSchema
from gencode.agent.recorder import Recorder
from gencode.agent.request_images import as_shown, counted
from gencode.agent.seat import RunSetup
from gencode.agent.stop import Stop
from gencode.core.errors import ProviderError
from gencode.core.events import MessageAdded
from gencode.core.messages import AssistantMessage, Message, UserMessage, pictures_in
from gencode.core.text import clip

NOTE = (
    "[The harness: the model's provider refused the last {pictures} and took the request without. What was "
    "refused cannot be seen and stays left out. Its words: {why}]"
)
LONGEST_WHY = 400


async def look_away(
    seat: RunSetup,
    transcript: list[Message],
    tools: Sequence[ToolSchema],
    record: Recorder,
    stop: Stop,
    refused: ProviderError,
) -> AssistantMessage:
    """One reply to what was refused, without its new pictures, or else without any.

    Only where the model answers then are they to blame, and left out for good; else the refusal is raised.
    """
    for count in _to_leave_out(transcript, seat.model.name):
        words = NOTE.format(pictures=counted(count), why=clip(str(refused), LONGEST_WHY))
        note = UserMessage(words, sender="system", unseen=count)
        try:
            request = asked_of(seat, [*transcript, note], tools, record)
            reply = await listen(seat, transcript, request, record, stop)
        except ProviderError as again:
            if again.unfit:
                continue
            raise
        transcript.append(note)
        await record.commit(MessageAdded(note))
        return reply
    raise refused


def _to_leave_out(transcript: Sequence[Message], model: str) -> Iterator[int]:
    """How many pictures to try it without: those that no reply followed yet, which were never taken; all."""
    if not pictures_in(as_shown(transcript, model)):
        return
    new: list[Message] = []
    for each in reversed(transcript):
        if isinstance(each, AssistantMessage) and not each.partial:
            break
        new.append(each)
    fresh, every = len(pictures_in(new)), len(pictures_in(transcript))
    if 0 < fresh < every:
        yield fresh
    yield every
