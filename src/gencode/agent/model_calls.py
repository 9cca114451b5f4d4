"""Calls the model: waits for a slot, holds the possible cost, receives the reply, settles the real cost."""

from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct

from gencode.agent.call_budget import cost, kept_to
from gencode.agent.ports import Request
from gencode.agent.recorder import Recorder
from gencode.agent.run_setup import RunSetup
from gencode.agent.stop import Stop
from gencode.core.errors import ProviderError, UserMistake
from gencode.core.events import CostEstimated, ProgressMade, ReplyRestarted, TextArrived, ThinkingArrived
from gencode.core.messages import (
    AgainPart,
    CallPart,
    EndPart,
    TextPart,
    ThinkingPart,
    ToolCall,
    Usage,
    WaitPart,
)
from gencode.core.status import WaitFor
from gencode.core.structs import replace

if TYPE_CHECKING:
    from gencode.agent.call_budget import ReservedCall

BACK_IN_LINE = "waiting in the queue to continue"


class ModelReply(Struct):
    """A reply of a model as far as it has arrived."""

    end: EndPart
    text: list[str] = []
    thinking: list[ThinkingPart] = []
    calls: list[ToolCall] = []
    whole: bool = False

    @property
    def begun(self) -> bool:
        """Whether anything has arrived."""
        return bool(self.text or self.thinking or self.calls)


async def call_model(
    setup: RunSetup, request: Request, record: Recorder, stop: Stop, reply: ModelReply, *, shown: bool = True
) -> None:
    """Receive a reply into `reply`, which has what arrived also if the call is stopped or fails.

    The caller writes its usage; a `shown` reply is written with it, also a partial one. If the reply reports
    no usage, its cost is estimated and written here.
    """
    paid: ReservedCall | None = None
    asked = False
    try:
        with stop.interruptible():
            paid = await _admitted(setup, request, record)
            asked = True
            async with aclosing(setup.model.provider.stream(kept_to(request, paid))) as parts:
                async for part in parts:
                    record.give_sign()
                    match part:
                        case TextPart():
                            reply.text.append(part.text)
                            if shown:
                                record.tell(TextArrived(part.text))
                        case ThinkingPart():
                            reply.thinking.append(part)
                            if shown:
                                record.tell(ThinkingArrived(part.text))
                        case CallPart():
                            reply.calls.append(part.call)
                        case AgainPart():
                            lost, reply.text, reply.thinking, reply.calls = reply.text, [], [], []
                            if shown:
                                record.tell(ReplyRestarted(part.why))
                            await _broken_off(setup, paid, _cost_so_far(setup, request, lost), record)
                        case EndPart():
                            reply.end = replace(part, usage=_priced(setup, part.usage))
                        case WaitPart():
                            asked = part.over or reply.begun
                            _tell_wait(record, part)
        reply.whole = True
    except (ProviderError, UserMistake):
        asked = bool(reply.text)  # a call that is refused at once costs nothing
        raise
    finally:
        usage, whole = reply.end.usage, reply.whole
        bounded = paid is not None and paid.bounded
        told = usage is not None or (whole and not bounded)
        if not (whole and told):
            spent = (usage or Usage()) if told or not asked else _cost_so_far(setup, request, reply.text)
            if spent != Usage():
                record.defer(CostEstimated(spent))
            elif not (shown and (whole or reply.text)) and setup.call_budget is not None and paid is not None:
                await setup.call_budget.release(paid)  # no event settles it


async def _admitted(setup: RunSetup, request: Request, record: Recorder) -> "ReservedCall | None":
    """Wait for a slot, and hold what the call may cost if a budget limits that.

    A call right after facts that no budget limited does not look for one.
    """
    limited = not record.lease.unlimited
    if setup.slot is not None and not setup.slot.try_acquire():
        limited = True  # by now, perhaps
        record.tell(ProgressMade(BACK_IN_LINE, waits_for=WaitFor.TURN))
        with record.parked():
            await setup.slot.take()
        record.tell(ProgressMade("thinking"))
    if setup.call_budget is None or not limited or (left := await setup.call_budget.left()) is None:
        return None
    await record.flush()  # the cost of the call before settles its own hold
    with record.parked():
        tell = partial(_tell_wait, record)
        return await setup.call_budget.pay(request, setup.price, left, record.task.totals.usage, tell)


def _tell_wait(record: Recorder, part: WaitPart) -> None:
    """Publish what the call waits for."""
    if part.why:
        record.tell(ProgressMade(part.why, part.note, part.waits_for))


def _cost_so_far(setup: RunSetup, request: Request, text: Sequence[str]) -> Usage:
    """The estimated cost of a call of which no more than this has arrived."""
    return _priced(setup, cost(None, request, text, free=setup.price.input == 0)) or Usage()


def _priced(setup: RunSetup, usage: Usage | None) -> Usage | None:
    """Usage with its price, if the provider reports none and the price is known; a free model has none."""
    if usage is None or usage.usd is not None or usage == Usage():
        return usage
    return replace(usage, usd=setup.price.of(usage) or None)


async def _broken_off(setup: RunSetup, paid: "ReservedCall | None", usage: Usage, record: Recorder) -> None:
    """Settle a call that broke off before it is repeated; BudgetSpent when too little is left for that."""
    if usage == Usage():
        return
    await record.commit(CostEstimated(usage))
    if setup.call_budget is not None and paid is not None:
        with record.parked():
            await setup.call_budget.again(paid, partial(_tell_wait, record))
