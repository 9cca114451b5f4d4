"""A transcript as a person reads it."""

from collections.abc import Iterable, Iterator

import msgspec

from gencode.app import GenCode
from gencode.core.messages import AssistantMessage, Message, ToolMessage, UserMessage
from gencode.core.task import transcript_of

RESULT_LINES = 8


async def transcript_text(gen: GenCode, task: str) -> str:
    """What was said in a task."""
    return "\n".join(said(transcript_of(await gen.store.events(task))))


def said(messages: Iterable[Message]) -> Iterator[str]:
    """The lines of a transcript: text whole, calls as one line, results by their first lines."""
    for message in messages:
        match message:
            case UserMessage():
                yield f"── {message.sender} ──"
                yield message.text
            case AssistantMessage():
                yield "── assistant ──" + (" (cut)" if message.partial else "")
                if message.text:
                    yield message.text
                for call in message.calls:
                    yield f"→ {call.name} {msgspec.json.encode(call.input).decode()}"
            case ToolMessage():
                for result in message.results:
                    lines = result.text.splitlines()
                    yield f"← {result.name}{' (error)' if result.error else ''}"
                    yield from (f"  {line}" for line in lines[:RESULT_LINES])
                    if len(lines) > RESULT_LINES:
                        yield f"  … {len(lines) - RESULT_LINES} more lines"
