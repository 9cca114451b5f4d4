"""A transcript as a person reads it, with what the gate decided about every call."""

from collections.abc import Iterable, Iterator

import msgspec

from gencode.app import GenCode
from gencode.core.events import CallDecided, Event, MessageAdded
from gencode.core.messages import AssistantMessage, Message, ToolMessage, UserMessage

RESULT_LINES = 8


async def transcript_text(gen: GenCode, task: str) -> str:
    """What was said and decided in a task."""
    return "\n".join(told(await gen.store.events(task)))


def told(events: Iterable[Event]) -> Iterator[str]:
    """The lines of a task's messages and decisions, in the order in which they came."""
    for event in events:
        match event.fact:
            case MessageAdded(message):
                yield from said(message)
            case CallDecided() as fact:
                chain = " > ".join(fact.chain)
                yield f"  {fact.decision.action}: {fact.decision.why}" + (f" ({chain})" if chain else "")
            case _:
                pass


def said(message: Message) -> Iterator[str]:
    """The lines of one message: text whole, calls as one line, results by their first lines."""
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
