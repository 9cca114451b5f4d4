"""The loop: one function for every agent; only the seat differs.

It holds no retries (a provider wrapper), no persistence (inside the recorder), no screens (listeners).
Three things are always true: a stored message is never changed; every tool call has exactly one result,
even after a stop; nothing unbounded enters a transcript (`clip` is the only road in).
"""

from collections.abc import Iterator, Sequence
from contextlib import aclosing

from msgspec.structs import replace

from gencode.core.events import MessageAdded, ReplyRestarted, TextArrived, ThinkingArrived
from gencode.core.messages import AssistantMessage, Message, Thinking, ToolCall, ToolMessage, UserMessage
from gencode.core.status import Status
from gencode.runtime.calls import answer
from gencode.runtime.ports import AgainPart, CallPart, EndPart, Request, TextPart, ThinkingPart, ToolSchema
from gencode.runtime.recorder import Recorder
from gencode.runtime.seat import Ending, Seat
from gencode.runtime.stop import Stop

ASK_AGAIN = (
    "Your reply ends by announcing work, but it calls no tool, and nothing happens after such a reply. Do "
    "it now. If nothing is left to do, give your whole answer once more: only your last reply is passed on."
)
NOT_DONE = "its last reply announces work that was not done"


async def run(seat: Seat, transcript: list[Message], record: Recorder, stop: Stop) -> Ending:
    """Talk to the model and run its calls until it has nothing left to call."""
    turns, called, reminded = 0, False, False
    while not seat.limits.reached(turns):
        stop.check()
        await deliver(seat, transcript, record)
        reply = await listen(seat, transcript, seat.toolbox.schemas(), record, stop)
        turns += 1
        transcript.append(reply)
        if not reply.calls:
            record.defer(MessageAdded(reply))  # written with the end of the task
            if await still_out(seat, record, stop):
                continue
            only_announced = called and merely_announced(reply)
            if only_announced and not reminded:
                await remind(transcript, record)
                reminded = True
                continue
            return ending_of(reply, (NOT_DONE,) if only_announced else ())
        called = True
        results = ToolMessage(tuple(await answer(seat, reply, record, stop)))
        transcript.append(results)
        await record.commit(MessageAdded(results))
    return await last_word(seat, transcript, record, stop)


async def deliver(seat: Seat, transcript: list[Message], record: Recorder) -> None:
    """Put the results that have come back meanwhile before the model, exactly once."""
    message = await seat.inbox.take() if seat.inbox else None
    if message is not None:
        transcript.append(message)
        await record.commit(MessageAdded(message))


async def still_out(seat: Seat, record: Recorder, stop: Stop) -> bool:
    """Whether an agent that has nothing left to say has to hear a result that comes back."""
    if seat.inbox is None or not seat.inbox.expecting:
        return False
    await record.commit()
    with stop.interrupts():
        return await seat.inbox.more()


def merely_announced(reply: AssistantMessage) -> bool:
    """Whether a reply ends with what its author is about to do; its patterns are loaded when first needed."""
    from gencode.runtime.announcing import announces

    return announces(reply.text)


async def remind(transcript: list[Message], record: Recorder) -> None:
    """Ask once more for what a reply only announced."""
    note = UserMessage(ASK_AGAIN, sender="system")
    transcript.append(note)
    await record.commit(MessageAdded(note))


def ending_of(reply: AssistantMessage, warnings: tuple[str, ...] = ()) -> Ending:
    """How a task ends whose agent has nothing left to call: by what happened, never by what it says."""
    if reply.stop == "max_tokens":
        return Ending(Status.LIMIT_REACHED, reply.text, "the reply was cut at the model's limit of tokens")
    if reply.stop == "refusal":
        return Ending(Status.FAILED, reply.text, "the model's vendor withheld the answer")
    return Ending(Status.COMPLETED if reply.text.strip() else Status.EMPTY, reply.text, warnings=warnings)


async def last_word(seat: Seat, transcript: list[Message], record: Recorder, stop: Stop) -> Ending:
    """One more turn without tools, so that a limit never throws away what was found."""
    text = await sum_up(seat, transcript, record, stop, seat.limits.last_word())
    return Ending(Status.LIMIT_REACHED, text, f"the limit of {seat.limits.turns} turns was reached")


async def sum_up(seat: Seat, transcript: list[Message], record: Recorder, stop: Stop, why: str) -> str:
    """What the agent says when it is told that this turn, without tools, is its last."""
    stop.check()
    await deliver(seat, transcript, record)
    note = UserMessage(why, sender="system")
    transcript.append(note)
    await record.commit(MessageAdded(note))
    reply = replace(await listen(seat, transcript, (), record, stop), calls=())
    transcript.append(reply)
    record.defer(MessageAdded(reply))
    return reply.text


async def listen(
    seat: Seat, transcript: list[Message], tools: Sequence[ToolSchema], record: Recorder, stop: Stop
) -> AssistantMessage:
    """One reply of the model. Half a reply is kept in the journal when it is cut."""
    request = Request(
        seat.model, seat.system, transcript, tools, seat.agent, record.lease.task, effort=seat.effort
    )
    text: list[str] = []
    thinking: list[ThinkingPart] = []
    calls: list[ToolCall] = []
    end = EndPart(seat.model)
    whole = False
    try:
        with stop.interrupts():
            async with aclosing(seat.provider.stream(request)) as parts:
                async for part in parts:
                    match part:
                        case TextPart():
                            text.append(part.text)
                            record.tell(TextArrived(part.text))
                        case ThinkingPart():
                            thinking.append(part)
                            record.tell(ThinkingArrived(part.text))
                        case CallPart():
                            calls.append(part.call)
                        case AgainPart():
                            text, thinking, calls = [], [], []
                            record.tell(ReplyRestarted(part.why))
                        case EndPart():
                            end = part
        whole = True
    finally:
        if not whole and text:
            half = AssistantMessage("".join(text), model=end.model, partial=True)
            transcript.append(half)
            await record.commit(MessageAdded(half))
    said = "".join(text)
    return AssistantMessage(said, tuple(_numbered(calls)), _blocks(thinking), end.usage, end.model, end.stop)


def _numbered(calls: Sequence[ToolCall]) -> Iterator[ToolCall]:
    """Calls with ids that are there and differ, whatever the provider sent."""
    seen: set[str] = set()
    for number, call in enumerate(calls):
        name = call.id or f"call_{number}"
        while name in seen:
            name = f"{name}_{number}"
        seen.add(name)
        yield call if name == call.id else replace(call, id=name)


def _blocks(parts: Sequence[ThinkingPart]) -> tuple[Thinking, ...]:
    """Pieces of reasoning as blocks; a signature ends one."""
    blocks: list[Thinking] = []
    text = ""
    for part in parts:
        text += part.text
        if part.signature:
            blocks.append(Thinking(text, part.signature))
            text = ""
    return (*blocks, Thinking(text)) if text else tuple(blocks)
