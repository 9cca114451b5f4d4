"""Runtime room: a transcript that becomes too long for its model is summed up, and no work in it is lost.

What stays word for word: what was asked first and last with the notes that belong to it, what was last said
about the form of results, what the agent has not answered yet, and its last turns, whose calls are never
parted from their results. For the rest stands one message: a summary that the model writes itself, or the
harness where it cannot, and then what only the harness knows for sure (`summaries`). The journal keeps
everything: one fact says what took the place of what, so that a crash leaves it done or not done.
"""

import logging
import time
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from gencode.agent import compaction_summary
from gencode.agent.call_cost import kept_to, taken, weight
from gencode.agent.loop import admitted, beside, broken_off, cost_so_far, priced, release
from gencode.agent.output_schema_notice import form_in
from gencode.agent.ports import Request
from gencode.agent.recorder import Recorder
from gencode.agent.seat import RunSetup
from gencode.agent.stop import Stop
from gencode.budgets.ledger import BudgetSpent
from gencode.core.errors import ProviderError
from gencode.core.events import CostEstimated, ProgressMade, TranscriptCompacted
from gencode.core.messages import AssistantMessage, Message, ToolMessage, Usage, UserMessage, beginning
from gencode.core.reply_parts import AgainPart, EndPart, TextPart, WaitPart
from gencode.core.task import compacted
from gencode.core.text import clip

if TYPE_CHECKING:
    from gencode.agent.payer import ReservedCall

log = logging.getLogger(__name__)

TAIL = 5
"""The last turns stay as far as they fit into this part of the room: a fifth."""
MOST_TURNS = 12
LARGEST_KEPT = 8
"""What was asked stays word for word if it takes no more than this part of the room: an eighth."""
LEAST = 10
"""Less than this part of the room is not worth a summary: a tenth."""
MOST_NOTE = 30_000
LEAST_NOTE = 3_000
PROGRESS = "summing up the conversation, which is long"


class CompactionPlan(Struct, frozen=True):
    """What a summary will stand for: the first `upto` messages but those at the places `keeps`."""

    upto: int
    keeps: tuple[int, ...]

    def gone(self, transcript: Sequence[Message]) -> list[Message]:
        """The messages that will not be told any more."""
        kept = {*self.keeps}
        return [each for place, each in enumerate(transcript[: self.upto]) if place not in kept]


async def compact(seat: RunSetup, transcript: list[Message], record: Recorder, stop: Stop, why: str) -> bool:
    """Sum up the beginning of a transcript; False when there is nothing in it that could be left out.

    Nothing may be running that this agent waits for: it is called between two turns, or for a conversation at
    rest.
    """
    room = min(seat.context, taken(transcript, beside(seat)))
    plan = planned(transcript, room)
    if plan is None:
        return False
    record.tell(ProgressMade(PROGRESS))
    gone = plan.gone(transcript)
    most = min(max(room // 2, LEAST_NOTE), MOST_NOTE)
    said, end = await _written(seat, record, stop, compaction_summary.question(gone, 2 * room))
    whom, summary = (
        compaction_summary.by_model(said, most // 2)
        if said
        else compaction_summary.by_harness(gone, most // 2)
    )
    unseen = compaction_summary.unseen(_unanswered(transcript, plan), most // 4)
    parts = (summary, compaction_summary.asked(gone, most // 4), unseen)
    note = compaction_summary.note(
        whom,
        "\n\n".join(part for part in parts if part),
        clip(compaction_summary.todos_in(transcript), most // 4),
        await compaction_summary.known(seat, record.task, most),
        count=len(gone),
        replies=_replies(gone),
    )
    fact = TranscriptCompacted(
        plan.upto,
        note,
        plan.keeps,
        why,
        end.model if end else "",
        end.usage if end else None,
    )
    await record.commit(fact)
    transcript[:] = compacted(transcript, fact)
    seat.scale.forget()
    return True


def planned(transcript: Sequence[Message], room: int) -> CompactionPlan | None:
    """What to sum up so that a transcript takes far less than `room` tokens; None when it is not worth it."""
    upto = _tail(transcript, room // TAIL)
    plan = CompactionPlan(upto, tuple(_asked(transcript, upto, room // LARGEST_KEPT)))
    gone = plan.gone(transcript)
    worth = any(isinstance(each, AssistantMessage) for each in gone)
    return plan if worth and sum(map(weight, gone)) * LEAST >= room else None


def _tail(transcript: Sequence[Message], room: int) -> int:
    """Where the part begins that stays: what is not answered yet, and as many last turns as fit.

    A call is never parted from its result.
    """
    start = len(transcript)
    while start and isinstance(transcript[start - 1], UserMessage):
        start -= 1
    turns, place = 0, start
    while place and turns < MOST_TURNS:
        place -= 1
        room -= weight(transcript[place])
        if room < 0:
            break
        turns += isinstance(transcript[place], AssistantMessage)
        if not _belongs_to_call(transcript, place):
            start = place
    return start


def _belongs_to_call(transcript: Sequence[Message], place: int) -> bool:
    before = transcript[place - 1] if place else None
    called = isinstance(before, AssistantMessage) and bool(before.calls)
    return called or isinstance(transcript[place], ToolMessage)


def _asked(transcript: Sequence[Message], upto: int, largest: int) -> list[int]:
    """The places of what was asked at first and last, and of the notes of the harness that came with it."""
    asked = [place for place, each in enumerate(transcript) if _is_asked(each)]
    begins = beginning(transcript)
    # The form of an earlier run may stay, and must not be the last that is heard of any.
    kept = {*[place for place, each in enumerate(transcript) if form_in(each)][-1:]}
    for place in {*(each for each in asked if each < begins), *asked[-1:]}:
        kept.add(place)
        for after in range(place + 1, len(transcript)):
            message = transcript[after]
            if not isinstance(message, UserMessage):
                break
            if message.sender == "system" and not message.delivers and not message.replaces:
                kept.add(after)
    return sorted(place for place in kept if place < upto and weight(transcript[place]) <= largest)


def _is_asked(message: Message) -> bool:
    return isinstance(message, UserMessage) and message.sender != "system"


def _unanswered(transcript: Sequence[Message], plan: CompactionPlan) -> list[Message]:
    """The results among what goes that the agent has not answered: they were too long to stay."""
    if any(isinstance(each, AssistantMessage) for each in transcript[plan.upto :]):
        return []
    last = max(
        (place for place, each in enumerate(transcript) if isinstance(each, AssistantMessage)), default=0
    )
    return [each for each in transcript[last : plan.upto] if isinstance(each, ToolMessage)]


def _replies(gone: Sequence[Message]) -> int:
    """How many replies a summary of these stands for."""
    earlier = sum(each.replaces for each in gone if isinstance(each, UserMessage))
    return earlier + sum(isinstance(each, AssistantMessage) for each in gone)


async def _written(seat: RunSetup, record: Recorder, stop: Stop, question: str) -> tuple[str, EndPart | None]:
    """What the model says in one call without tools; nothing where it could not."""
    asked = (UserMessage(question, sender="system"),)
    request = Request(
        seat.model.name, compaction_summary.SYSTEM, asked, (), seat.agent, sums_up=True, sent=seat.sent
    )
    text: list[str] = []
    end = EndPart(seat.model.name)
    paid: ReservedCall | None = None
    asked = False
    try:
        with stop.interrupts():
            paid = await admitted(seat, request, record)
            asked = True
            async with aclosing(seat.model.provider.stream(kept_to(request, paid))) as parts:
                async for part in parts:
                    record.heard = time.monotonic()
                    match part:
                        case TextPart():
                            text.append(part.text)
                        case AgainPart():
                            lost, text = text, []
                            await broken_off(seat, paid, cost_so_far(seat, request, lost), record)
                        case EndPart():
                            end = replace(part, usage=priced(seat, part.usage))
                        case WaitPart():
                            asked = part.over or bool(text)
                        case _:
                            pass
    except (ProviderError, BudgetSpent) as trouble:
        asked = bool(text)
        log.info("task %s is summed up by the harness: %s", record.task.id, trouble)
        return "", None
    finally:
        bounded = paid is not None and paid.bounded
        cut = cost_so_far(seat, request, text) if asked and bounded and end.usage is None else Usage()
        if cut != Usage():
            record.defer(CostEstimated(cut))
        elif not end.usage:
            await release(seat, paid)
    return "".join(text).strip(), end
