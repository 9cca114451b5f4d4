"""A transcript as a person reads it, with what the gate decided about every call.

What anybody said is indented, and nothing else is, so that no text can pass for a line of ours.
"""

from collections.abc import Iterable, Iterator

import msgspec

from gencode.app import GenCode
from gencode.core.events import CallDecided, Event, MessageAdded, TranscriptCompacted
from gencode.core.messages import AssistantMessage, Message, ToolMessage, UserMessage
from gencode.core.text import visible, visible_line

RESULT_LINES = 8


async def transcript_text(gen: GenCode, task: str) -> str:
    """What was said and decided in a task, as far as its journal can be read."""
    events = (await gen.journal(task)).events
    return "\n".join(told(events))


def told(events: Iterable[Event]) -> Iterator[str]:
    """The lines of a task's messages and decisions, in the order in which they came."""
    for event in events:
        match event.fact:
            case MessageAdded(message):
                yield from said(message)
            case TranscriptCompacted() as fact:
                yield f"= summed up, since it had become long: {visible_line(fact.why)}"
            case CallDecided() as fact:
                chain = visible_line(" > ".join(fact.chain))
                why = visible_line(fact.decision.why)
                yield f"= {fact.decision.action}: {why}" + (f" ({chain})" if chain else "")
            case _:
                pass


def said(message: Message) -> Iterator[str]:
    """The lines of one message: text whole, calls as one line, results by their first lines."""
    match message:
        case UserMessage():
            yield f"── {visible_line(message.sender)} ──"
            yield from _indented(message.text)
        case AssistantMessage():
            mark = f" (answered from the journal: task {message.again})" if message.again else ""
            yield "── assistant ──" + (" (cut)" if message.partial else visible_line(mark))
            if message.text:
                yield from _indented(message.text)
            for call in message.calls:
                yield f"→ {visible_line(call.name)} {msgspec.json.encode(call.input).decode()}"
        case ToolMessage():
            for result in message.results:
                lines = _indented(result.text) if result.text else []
                yield f"← {visible_line(result.name)}{' (error)' if result.error else ''}"
                yield from lines[:RESULT_LINES]
                if len(lines) > RESULT_LINES:
                    yield f"… {len(lines) - RESULT_LINES} more lines"


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in visible(text).removesuffix("\n").split("\n")]
