"""The loop: one function for every agent; only its setup differs.

It holds no retries (a provider wrapper), no persistence (inside the recorder), no summing up (compaction), no
screens (listeners).
Three things are always true: a stored message is never changed; every tool call has exactly one result,
even after a stop; nothing unbounded enters a transcript (`clip` is the only road in).
"""

from collections.abc import Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from gencode.agent.call_budget import USUAL_TOKEN, USUAL_TOOL, cost, kept_to
from gencode.agent.final_answer import (
    BEFORE_THAT,
    last_fitting_answer,
    parse_answer,
    problem_only,
    with_earlier_answer,
)
from gencode.agent.ports import Request, ToolSchema
from gencode.agent.recorder import Recorder
from gencode.agent.request_images import as_shown, counted
from gencode.agent.run_setup import LoopResult, RunSetup
from gencode.agent.stop import Stop
from gencode.agent.tool_calls import answer
from gencode.core.errors import Interrupted, ProviderError, UserMistake
from gencode.core.events import (
    CostEstimated,
    MessageAdded,
    ProgressMade,
    ReplyRestarted,
    TextArrived,
    ThinkingArrived,
)
from gencode.core.messages import (
    AgainPart,
    AssistantMessage,
    CallPart,
    EndPart,
    Message,
    NoticeKind,
    SystemNotice,
    TextPart,
    Thinking,
    ThinkingPart,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    WaitPart,
    pictures_in,
)
from gencode.core.status import EndReason, Status, WaitFor
from gencode.core.text import clip

if TYPE_CHECKING:
    from gencode.agent.call_budget import ReservedCall

ASK_AGAIN = (
    "Your reply ends by announcing work, but it calls no tool, and nothing happens after such a reply. Do "
    "the work now. If nothing is left to do, repeat your whole answer: only your last reply is passed on."
)
NOT_DONE = "its last reply announces work that was not done"
CUT = "Your turn was interrupted: {why}. Continue from here."
BACK_IN_LINE = "waiting in the queue to continue"
MOST_REPAIRS = 2
FULL = 0.8
"""What a model holds is taken as full here: its reply needs room too."""


class RunProgress(Struct):
    """What a run has to remember of its turns: whether tools were called, what the agent was told already."""

    turns: int = 0
    called: bool = False
    reminded: bool = False
    repairs: int = 0


async def run(setup: RunSetup, transcript: list[Message], record: Recorder, stop: Stop) -> LoopResult:
    """Talk to the model and run its calls until it has nothing left to call."""
    course = RunProgress()
    if setup.hooks is not None:
        with stop.interruptible():
            said = await setup.hooks.started()
        if said.blocked is not None:
            why = f"a hook did not let it begin: {said.blocked}"
            return LoopResult(Status.FAILED, EndReason.BLOCKED_BY_HOOK, error=why)
        if said.note:
            await tell(transcript, record, said.note)
    while not setup.limits.reached(course.turns):
        stop.check()
        await deliver(setup, transcript, record)
        course.turns += 1
        setup.toolbox.grow()
        try:
            reply = await heard(setup, transcript, setup.toolbox.schemas(), record, stop)
            transcript.append(reply)
            if reply.calls:
                course.called = True
                results = ToolMessage(tuple(await answer(setup, reply, record, stop)))
                transcript.append(results)
                await record.commit(MessageAdded(results))
                continue
            record.defer(MessageAdded(reply))  # written with the end of the task
            if await pending_work(setup, record, stop):
                continue
        except Interrupted as cut:
            await tell(transcript, record, CUT.format(why=cut))
            continue
        ending = await finished(setup, transcript, record, reply, course)
        if ending is not None:
            return ending
    return await last_word(setup, transcript, record, stop)


async def deliver(setup: RunSetup, transcript: list[Message], record: Recorder) -> None:
    """Put what has come meanwhile before the model, exactly once."""
    if come := setup.inbox.take() if setup.inbox else ():
        transcript += come
        await record.commit(*map(MessageAdded, come))


async def pending_work(setup: RunSetup, record: Recorder, stop: Stop) -> bool:
    """Whether an agent that has nothing left to say has to hear something that comes back."""
    if setup.inbox is None or not setup.inbox.expecting:
        return False
    await record.commit()
    with stop.interruptible(), record.parked(setup.slot):
        return await setup.inbox.more()


async def finished(
    setup: RunSetup, transcript: list[Message], record: Recorder, reply: AssistantMessage, course: RunProgress
) -> LoopResult | None:
    """How the work ended with this reply; None when the agent is told to say it better."""
    only_announced = course.called and merely_announced(reply)
    if only_announced and not course.reminded:
        course.reminded = True
        await tell(transcript, record, ASK_AGAIN)
        return None
    if setup.hooks is not None and (more := await setup.hooks.stopping(reply.text)) is not None:
        await tell(transcript, record, more)
        return None
    ending = ending_of(reply, (NOT_DONE,) if only_announced else ())
    answers = record.task.run.answers
    if setup.schema is None or ending.status not in (Status.COMPLETED, Status.EMPTY):
        return with_earlier_answer(ending, answers, called=course.called)
    output, problem = await parse_answer(reply.text, setup.schema)
    if problem is None:
        return replace(ending, output=output)
    if course.repairs < MOST_REPAIRS:
        course.repairs += 1
        await tell(transcript, record, str(problem))
        return None
    if found := await last_fitting_answer(answers, setup.schema):
        since, output = found
        text = since.with_these(reply.text)
        return LoopResult(Status.COMPLETED, EndReason.FINISHED, text, warnings=(BEFORE_THAT,), output=output)
    if ending.status is Status.EMPTY:
        return ending
    why = f"its result does not fit the schema: {problem_only(problem)}"
    return LoopResult(Status.FAILED, EndReason.WRONG_FORM, reply.text, why)


def merely_announced(reply: AssistantMessage) -> bool:
    """Whether a reply ends with what its author is about to do; its patterns are loaded when first needed."""

    from gencode.agent.unfinished_reply import announces

    return announces(reply.text)


async def tell(transcript: list[Message], record: Recorder, text: str) -> None:
    """Say something to the agent from GenCode itself."""
    note = UserMessage(text, sender="system", notice=SystemNotice(NoticeKind.REMARK))
    transcript.append(note)
    await record.commit(MessageAdded(note))


def ending_of(reply: AssistantMessage, warnings: tuple[str, ...] = ()) -> LoopResult:
    """How a task ends whose agent has nothing left to call: by what happened, never by what it says."""
    if reply.stop == "max_tokens":
        why = "the reply was cut at the model's limit of tokens"
        return LoopResult(Status.LIMIT_REACHED, EndReason.REPLY_LIMIT, reply.text, why)
    if reply.stop == "refusal":
        return LoopResult(
            Status.FAILED, EndReason.WITHHELD, reply.text, "the model's vendor withheld the answer"
        )
    if not reply.text.strip():
        return LoopResult(Status.EMPTY, EndReason.NO_ANSWER, reply.text, warnings=warnings)
    return LoopResult(Status.COMPLETED, EndReason.FINISHED, reply.text, warnings=warnings)


async def last_word(setup: RunSetup, transcript: list[Message], record: Recorder, stop: Stop) -> LoopResult:
    """One more turn without tools, so that a limit never throws away what was found."""
    text = await sum_up(setup, transcript, record, stop, setup.limits.last_word())
    output = (await parse_answer(text, setup.schema))[0] if setup.schema is not None else None
    why = setup.limits.reached_words()
    return LoopResult(Status.LIMIT_REACHED, EndReason.TURN_LIMIT, text, why, output=output)


async def sum_up(setup: RunSetup, transcript: list[Message], record: Recorder, stop: Stop, why: str) -> str:
    """What the agent says when it is told that this turn, without tools, is its last."""
    stop.check()
    await deliver(setup, transcript, record)
    await tell(transcript, record, why)
    reply = replace(await heard(setup, transcript, (), record, stop), calls=())
    transcript.append(reply)
    record.defer(MessageAdded(reply))
    return reply.text


async def heard(
    setup: RunSetup, transcript: list[Message], tools: Sequence[ToolSchema], record: Recorder, stop: Stop
) -> AssistantMessage:
    """One reply of the model to what it can hold: a transcript that is too long for it is summed up first."""
    if setup.scale.taken(transcript, beside(setup)) > setup.context * FULL:
        await shorten_transcript(setup, transcript, record, stop, "the model holds no more")
    try:
        return await listen(setup, transcript, asked_of(setup, transcript, tools, record), record, stop)
    except ProviderError as refused:
        if not refused.too_long or not await shorten_transcript(
            setup, transcript, record, stop, str(refused)
        ):
            if not refused.unfit or not setup.scale.pictures:
                raise

            return await without_refused_images(setup, transcript, tools, record, stop, refused)
    return await listen(setup, transcript, asked_of(setup, transcript, tools, record), record, stop)


async def shorten_transcript(
    setup: RunSetup, transcript: list[Message], record: Recorder, stop: Stop, why: str
) -> bool:
    """Sum up the beginning of a transcript; what does that is loaded when it is first needed."""
    from gencode.agent.compaction import compact

    return await compact(setup, transcript, record, stop, why)


def beside(setup: RunSetup) -> int:
    """About how many tokens the model is told besides the transcript."""
    return len(setup.system) // USUAL_TOKEN + len(setup.toolbox.schemas()) * USUAL_TOOL


async def listen(
    setup: RunSetup, transcript: list[Message], request: Request, record: Recorder, stop: Stop
) -> AssistantMessage:
    """One reply of the model. Half a reply is kept in the journal when it is cut."""
    text: list[str] = []
    thinking: list[ThinkingPart] = []
    calls: list[ToolCall] = []
    end = EndPart(setup.model.name)
    paid: ReservedCall | None = None
    asked = whole = False
    try:
        with stop.interruptible():
            paid = await admitted(setup, request, record)
            asked = True
            async with aclosing(setup.model.provider.stream(kept_to(request, paid))) as parts:
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
                            lost, text, thinking, calls = text, [], [], []
                            record.tell(ReplyRestarted(part.why))
                            await broken_off(setup, paid, cost_so_far(setup, request, lost), record)
                        case EndPart():
                            end = replace(part, usage=priced(setup, part.usage))
                        case WaitPart():
                            asked = part.over or bool(text or thinking or calls)
                            tell_wait(record, part)
        whole = True
    except (ProviderError, UserMistake):
        asked = bool(text)  # what was refused at once costs nothing
        raise
    finally:
        bounded = paid is not None and paid.bounded
        told = end.usage is not None or (whole and not bounded)
        spent = (end.usage or Usage()) if told or not asked else cost_so_far(setup, request, text)
        if not told and spent != Usage():
            record.defer(CostEstimated(spent))
        elif not whole and not text:
            await release(setup, paid)
        if not whole and text:
            transcript.append(half := AssistantMessage("".join(text), model=end.model, partial=True))
            await record.commit(MessageAdded(half))
    said = "".join(text)
    return AssistantMessage(said, tuple(_numbered(calls)), _blocks(thinking), end.usage, end.model, end.stop)


def asked_of(
    setup: RunSetup, transcript: Sequence[Message], tools: Sequence[ToolSchema], record: Recorder
) -> Request:
    """Everything the model is told for one turn."""
    messages = as_shown(transcript, setup.model.name) if setup.scale.pictures else transcript
    return Request(
        model=setup.model.name,
        system=setup.system,
        messages=messages,
        tools=tools,
        agent=setup.agent,
        task=record.lease.task,
        effort=setup.model.effort,
        temperature=setup.model.temperature,
        sent=setup.sent,
    )


async def admitted(setup: RunSetup, request: Request, record: Recorder) -> "ReservedCall | None":
    """Wait for the right to be at work, and hold what the call may cost where a budget limits that.

    A call that follows at once on facts that nothing limited does not look for a budget.
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
    await record.flush()  # what the call before cost settles its own hold
    with record.parked():
        tell = partial(tell_wait, record)
        return await setup.call_budget.pay(request, setup.price, left, record.task.totals.usage, tell)


def tell_wait(record: Recorder, part: WaitPart) -> None:
    """Let be heard why nothing is asked yet."""
    if part.why:
        record.tell(ProgressMade(part.why, part.note, part.waits_for))


def cost_so_far(setup: RunSetup, request: Request, text: Sequence[str]) -> Usage:
    """About what a call cost of which no more was heard than this."""
    return priced(setup, cost(None, request, text, free=setup.price.input == 0)) or Usage()


def priced(setup: RunSetup, usage: Usage | None) -> Usage | None:
    """Usage with its price, where its provider does not tell one and it is known; a free model has none."""
    if usage is None or usage.usd is not None or usage == Usage():
        return usage
    return replace(usage, usd=setup.price.of(usage) or None)


async def broken_off(setup: RunSetup, paid: "ReservedCall | None", usage: Usage, record: Recorder) -> None:
    """Count a call that is about to be made again; BudgetSpent when nothing is left for that."""
    if usage == Usage():
        return
    await record.commit(CostEstimated(usage))
    if setup.call_budget is not None and paid is not None:
        with record.parked():
            await setup.call_budget.again(paid, partial(tell_wait, record))


async def release(setup: RunSetup, paid: "ReservedCall | None") -> None:
    """Give back what was held for a call that cost nothing."""
    if setup.call_budget is not None and paid is not None:
        await setup.call_budget.release(paid)


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


IMAGES_REFUSED = (
    "[GenCode: the model's provider refused the last {pictures} and accepted the request without. What was "
    "refused cannot be seen and stays left out. Its words: {why}]"
)
LONGEST_REFUSAL = 400


async def without_refused_images(
    setup: RunSetup,
    transcript: list[Message],
    tools: Sequence[ToolSchema],
    record: Recorder,
    stop: Stop,
    refused: ProviderError,
) -> AssistantMessage:
    """One reply to what was refused, without its new pictures, or else without any.

    Only where the model answers then are they to blame, and left out for good; else the refusal is raised.
    """
    for count in _image_counts_to_drop(transcript, setup.model.name):
        words = IMAGES_REFUSED.format(pictures=counted(count), why=clip(str(refused), LONGEST_REFUSAL))
        note = UserMessage(words, sender="system", unseen=count)
        try:
            request = asked_of(setup, [*transcript, note], tools, record)
            reply = await listen(setup, transcript, request, record, stop)
        except ProviderError as again:
            if again.unfit:
                continue
            raise
        transcript.append(note)
        await record.commit(MessageAdded(note))
        return reply
    raise refused


def _image_counts_to_drop(transcript: Sequence[Message], model: str) -> Iterator[int]:
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
