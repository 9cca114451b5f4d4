"""The loop: one function for every agent; only its setup differs.

Retries are in a provider wrapper, persistence in the recorder, summaries in compaction, display in listeners.
Always true: a stored message is never changed; every tool call has exactly one result, even after a stop;
nothing unbounded enters a transcript (`clip` is the only way in).
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from gencode.agent.call_budget import USUAL_TOKEN, USUAL_TOOL
from gencode.agent.final_answer import (
    BEFORE_THAT,
    last_fitting_answer,
    parse_answer,
    problem_only,
    with_earlier_answer,
)
from gencode.agent.model_calls import ModelReply, call_model
from gencode.agent.ports import Request, ToolSchema
from gencode.agent.recorder import Recorder
from gencode.agent.request_images import as_shown
from gencode.agent.run_setup import LoopResult, RunSetup
from gencode.agent.stop import Stop
from gencode.agent.tool_calls import answer
from gencode.core.errors import Interrupted, ProviderError
from gencode.core.events import (
    MessageAdded,
)
from gencode.core.messages import (
    AssistantMessage,
    EndPart,
    Message,
    NoticeKind,
    RunConditions,
    SystemNotice,
    Thinking,
    ThinkingPart,
    ToolCall,
    ToolMessage,
    ToolResult,
    UserMessage,
    pictures_in,
)
from gencode.core.rules import Policy
from gencode.core.status import EndReason, Status
from gencode.core.structs import replace
from gencode.core.text import clip, counted, disarmed, quoted
from gencode.permissions.chain import narrowest_mode

ASK_AGAIN = (
    "[Your reply announces work but calls no tool, and nothing happens after such a reply. Do the work now. "
    "If nothing is left to do, repeat your whole answer: only your last reply is used.]"
)
NOT_DONE = "its last reply announces work that was not done"
HOOK_ADDS = "[A hook adds:]\n{said}"
HOOK_BLOCKS = "[A hook did not let you finish yet:]\n{said}"
CUT = "[Your turn was interrupted: {why}. Continue from here.]"
NEW_TOOLS = "[New tools of MCP servers are available; find them with ToolSearch: {names}]"
REPEATED = "[This is the third identical call of {tool} with the same result. Do something else.]"
EMPTY_REPLY = "[Your reply was empty. Answer, or call a tool.]"
TURNS_LEFT = "[{turns} turns are left. Finish, and report what is done and what is not.]"
SAME_CALLS = 3
MOST_LOOKED_AT = 20
"""How many of the last messages are searched for mentioned files."""
LAST_TURNS = 5
MOST_REPAIRS = 2
FULL = 0.8
"""A context counts as full from this part on: the reply needs room too."""


class RunProgress(Struct):
    """What a run remembers about its turns: whether tools were called, and which reminders were given."""

    turns: int = 0
    called: bool = False
    reminded: bool = False
    nudged: bool = False
    repairs: int = 0
    policies: tuple[Policy, ...] = ()
    """Those in force when the agent was last told what it may do."""
    background: bool = False
    same: dict[tuple[str, str, str], int] = {}
    """How often each call of the last reply was repeated with the same result."""

    def repeated(self, calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> list[str]:
        """The tools that were called for the third time in a row with the same arguments and result."""
        said = {each.call: f"{each.note}\n{each.text}" for each in results}
        before, self.same, found = self.same, {}, dict[str, None]()
        for call in calls:
            key = (call.name, repr(call.input), said.get(call.id, ""))
            self.same[key] = self.same.get(key, before.get(key, 0)) + 1
            if self.same[key] == SAME_CALLS:
                found[call.name] = None
        return list(found)


async def run(setup: RunSetup, transcript: list[Message], record: Recorder, stop: Stop) -> LoopResult:
    """Call the model and run its tool calls until it makes no more."""
    gate = setup.gate
    course = RunProgress(policies=(*gate.chain,), background=gate.approvals.background)
    if setup.hooks is not None:
        with stop.interruptible():
            said = await setup.hooks.started()
        if said.blocked is not None:
            why = f"a hook did not let it begin: {said.blocked}"
            return LoopResult(Status.FAILED, EndReason.BLOCKED_BY_HOOK, error=why)
        if said.note:
            await add_notice(transcript, record, HOOK_ADDS.format(said=quoted(disarmed(said.note))))
    await attach(setup, transcript, transcript, record, stop)
    while not setup.limits.reached(course.turns):
        stop.check()
        await deliver(setup, transcript, record, stop)
        if setup.limits.left(course.turns) == LAST_TURNS < course.turns:
            await add_notice(transcript, record, TURNS_LEFT.format(turns=LAST_TURNS))
        course.turns += 1
        approvals = gate.approvals
        if (
            course.turns > 1
            and course.policies
            and (gate.chain[0] is not course.policies[0] or approvals.background is not course.background)
        ):
            await tell_permissions(setup, transcript, record, course)
        if come := setup.toolbox.grow():
            await add_notice(transcript, record, NEW_TOOLS.format(names=", ".join(come)))
        try:
            reply = await next_reply(setup, transcript, setup.toolbox.schemas(), record, stop)
            transcript.append(reply)
            if reply.calls:
                course.called = True
                results = ToolMessage(tuple(await answer(setup, reply, record, stop)))
                transcript.append(results)
                await record.commit(MessageAdded(results))
                for tool in course.repeated(reply.calls, results.results):
                    await add_notice(transcript, record, REPEATED.format(tool=tool))
                continue
            record.defer(MessageAdded(reply))  # written with the end of the task
            waits_for_commands = setup.inbox is not None and setup.inbox.only_commands_run
            if waits_for_commands and await asked_again(
                setup, transcript, record, reply, course, announced=only_announced(reply, course)
            ):
                continue
            if await pending_work(setup, record, stop):
                continue
        except Interrupted as cut:
            await add_notice(transcript, record, CUT.format(why=cut))
            continue
        ending = await finished(setup, transcript, record, reply, course)
        if ending is not None:
            return ending
    return await last_word(setup, transcript, record, stop)


async def deliver(setup: RunSetup, transcript: list[Message], record: Recorder, stop: Stop) -> None:
    """Add the contents of the inbox to the transcript, exactly once."""
    if come := setup.inbox.take() if setup.inbox else ():
        transcript += come
        await record.commit(*map(MessageAdded, come))
        await attach(setup, transcript, come, record, stop)


async def tell_permissions(
    setup: RunSetup, transcript: list[Message], record: Recorder, course: RunProgress
) -> None:
    """Tell the agent that its permissions have changed since its last turn, as with a switch of the mode."""
    chain, approvals, before = setup.gate.chain, setup.gate.approvals, course.policies
    from gencode.agent.prompt import changed_permissions

    approver = replace(approvals, background=course.background).reach_person
    told = RunConditions(narrowest_mode(before), approver)
    now = RunConditions(narrowest_mode(chain), approvals.reach_person)
    course.policies, course.background = (*chain,), approvals.background
    if text := changed_permissions(told, now, leads=record.task.conversation):
        notice = SystemNotice(NoticeKind.REMARK, conditions=now)
        transcript.append(said := UserMessage(text, sender="system", notice=notice))
        await record.commit(MessageAdded(said))


async def attach(
    setup: RunSetup, transcript: list[Message], said: Sequence[Message], record: Recorder, stop: Stop
) -> None:
    """Add the files that the last messages of the user mention, and the output of their shell commands."""
    last = said[-1] if said else None
    users = (each for each in said[-MOST_LOOKED_AT:] if isinstance(each, UserMessage))
    if not any("@" in each.text or each.runs for each in users):
        return
    from gencode.agent.attached_files import attachments, unattached

    if isinstance(last, UserMessage) and (notes := await attachments(setup, unattached(said), record, stop)):
        transcript += notes
        await record.commit(*map(MessageAdded, notes))


async def pending_work(setup: RunSetup, record: Recorder, stop: Stop) -> bool:
    """Whether an agent that has answered still has to wait for results."""
    if setup.inbox is None or not setup.inbox.expecting:
        return False
    await record.commit()
    with stop.interruptible(), record.parked(setup.slot):
        return await setup.inbox.more()


async def finished(
    setup: RunSetup, transcript: list[Message], record: Recorder, reply: AssistantMessage, course: RunProgress
) -> LoopResult | None:
    """The result of the run if it ends with this reply; None if the agent is asked for a better one."""
    announced = only_announced(reply, course)
    if await asked_again(setup, transcript, record, reply, course, announced=announced):
        return None
    if setup.hooks is not None and (more := await setup.hooks.stopping(reply.text)) is not None:
        await add_notice(transcript, record, HOOK_BLOCKS.format(said=quoted(disarmed(more))))
        return None
    ending = ending_of(reply, (NOT_DONE,) if announced else ())
    answers = record.task.run.answers
    if setup.schema is None or ending.status not in (Status.COMPLETED, Status.EMPTY):
        return with_earlier_answer(ending, answers, called=course.called)
    output, problem = await parse_answer(reply.text, setup.schema)
    if problem is None:
        return replace(ending, output=output)
    if course.repairs < MOST_REPAIRS:
        course.repairs += 1
        await add_notice(transcript, record, f"[{problem}]")
        return None
    if found := await last_fitting_answer(answers, setup.schema):
        since, output = found
        text = since.joined_with(reply.text)
        return LoopResult(Status.COMPLETED, EndReason.FINISHED, text, warnings=(BEFORE_THAT,), output=output)
    if ending.status is Status.EMPTY:
        return ending
    why = f"its result does not fit the schema: {problem_only(problem)}"
    return LoopResult(Status.FAILED, EndReason.WRONG_FORM, reply.text, why)


async def asked_again(
    setup: RunSetup,
    transcript: list[Message],
    record: Recorder,
    reply: AssistantMessage,
    course: RunProgress,
    *,
    announced: bool,
) -> bool:
    """Whether the agent is asked, once each, for an answer instead of an empty or merely announcing reply."""
    if announced and not course.reminded:
        course.reminded = True
        await add_notice(transcript, record, ASK_AGAIN)
        return True
    if is_unanswered(setup, record, reply) and not course.nudged:
        course.nudged = True
        await add_notice(transcript, record, EMPTY_REPLY)
        return True
    return False


def is_unanswered(setup: RunSetup, record: Recorder, reply: AssistantMessage) -> bool:
    """Whether a reply is empty although nothing was answered before and nothing prevented an answer."""
    prevented = reply.stop in ("max_tokens", "refusal") or bool(reply.text.strip())
    return not prevented and setup.schema is None and not record.task.run.answers.before


def only_announced(reply: AssistantMessage, course: RunProgress) -> bool:
    """Whether a reply after tool calls only announces what the agent will do next.

    The patterns for that are loaded when first needed.
    """
    if not course.called:
        return False
    from gencode.agent.unfinished_reply import announces

    return announces(reply.text)


async def add_notice(transcript: list[Message], record: Recorder, text: str) -> None:
    """Add a message of GenCode to the transcript."""
    note = UserMessage(text, sender="system", notice=SystemNotice(NoticeKind.REMARK))
    transcript.append(note)
    await record.commit(MessageAdded(note))


def ending_of(reply: AssistantMessage, warnings: tuple[str, ...] = ()) -> LoopResult:
    """The result of a run whose agent makes no more calls, by the fields of its last reply."""
    if reply.stop == "max_tokens":
        why = "the reply reached the model's limit of output tokens"
        return LoopResult(Status.LIMIT_REACHED, EndReason.REPLY_LIMIT, reply.text, why)
    if reply.stop == "refusal":
        return LoopResult(
            Status.FAILED, EndReason.WITHHELD, reply.text, "the model's vendor withheld the answer"
        )
    if not reply.text.strip():
        return LoopResult(Status.EMPTY, EndReason.NO_ANSWER, reply.text, warnings=warnings)
    return LoopResult(Status.COMPLETED, EndReason.FINISHED, reply.text, warnings=warnings)


async def last_word(setup: RunSetup, transcript: list[Message], record: Recorder, stop: Stop) -> LoopResult:
    """One more turn without tools, so that a limit never discards what was found."""
    text = await report_in_last_turn(setup, transcript, record, stop, setup.limits.last_word())
    output = (await parse_answer(text, setup.schema))[0] if setup.schema is not None else None
    why = setup.limits.reached_words()
    return LoopResult(Status.LIMIT_REACHED, EndReason.TURN_LIMIT, text, why, output=output)


async def report_in_last_turn(
    setup: RunSetup, transcript: list[Message], record: Recorder, stop: Stop, why: str
) -> str:
    """The agent's reply to the message that this turn, without tools, is its last."""
    stop.check()
    await deliver(setup, transcript, record, stop)
    await add_notice(transcript, record, why)
    text = ""
    for tools in (setup.toolbox.schemas(), ()):
        reply = await next_reply(setup, transcript, tools, record, stop, may_call=False)
        transcript.append(silent := replace(reply, calls=(), closing=True))
        record.defer(MessageAdded(silent))
        text = reply.text
        if text.strip() or not reply.calls:
            break  # else the model only called tools: it is asked again without any
    return text


async def next_reply(
    setup: RunSetup,
    transcript: list[Message],
    tools: Sequence[ToolSchema],
    record: Recorder,
    stop: Stop,
    *,
    may_call: bool = True,
) -> AssistantMessage:
    """One reply of the model; a transcript that is too long for its context is summarized first."""
    if setup.scale.taken(transcript, overhead_tokens(setup)) > setup.context * FULL:
        await shorten_transcript(setup, transcript, record, stop, "the model's context is full")
    request = request_for(setup, transcript, tools, record, may_call=may_call)
    try:
        return await stream_reply(setup, transcript, request, record, stop)
    except ProviderError as refused:
        if not refused.too_long or not await shorten_transcript(
            setup, transcript, record, stop, str(refused)
        ):
            if not refused.unfit or not setup.scale.pictures:
                raise

            return await without_refused_images(setup, transcript, request, record, stop, refused)
    request = request_for(setup, transcript, tools, record, may_call=may_call)
    return await stream_reply(setup, transcript, request, record, stop)


async def shorten_transcript(
    setup: RunSetup, transcript: list[Message], record: Recorder, stop: Stop, why: str
) -> bool:
    """Compact the transcript; the code for that is loaded when first needed."""
    from gencode.agent.compaction import compact

    return await compact(setup, transcript, record, stop, why)


def overhead_tokens(setup: RunSetup) -> int:
    """The estimated tokens of a request besides the transcript."""
    return len(setup.system) // USUAL_TOKEN + len(setup.toolbox.schemas()) * USUAL_TOOL


async def stream_reply(
    setup: RunSetup, transcript: list[Message], request: Request, record: Recorder, stop: Stop
) -> AssistantMessage:
    """One reply of the model. A reply that is cut off is kept in the journal as partial."""
    reply = ModelReply(EndPart(setup.model.name))
    try:
        await call_model(setup, request, record, stop, reply)
    finally:
        text, end = "".join(reply.text), reply.end
        if text and not reply.whole:
            transcript.append(half := AssistantMessage(text, model=end.model, partial=True))
            await record.commit(MessageAdded(half))
    calls = tuple(map(setup.toolbox.called, _numbered(reply.calls)))
    return AssistantMessage(text, calls, _blocks(reply.thinking), end.usage, end.model, end.stop)


def request_for(
    setup: RunSetup,
    transcript: Sequence[Message],
    tools: Sequence[ToolSchema],
    record: Recorder,
    *,
    may_call: bool = True,
) -> Request:
    """The request for one turn."""
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
        max_tokens=setup.model.max_tokens,
        sent=setup.sent,
        may_call=may_call,
    )


def _numbered(calls: Sequence[ToolCall]) -> Iterator[ToolCall]:
    """The calls with ids that exist and differ, whatever the provider sent."""
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
    "[The model's provider refused {images} and accepted the request without. You cannot see what was left "
    "out. The provider said: {why}]"
)
LONGEST_REFUSAL = 400


async def without_refused_images(
    setup: RunSetup,
    transcript: list[Message],
    asked: Request,
    record: Recorder,
    stop: Stop,
    refused: ProviderError,
) -> AssistantMessage:
    """The reply to a refused request without its new images, or without any.

    If the model answers then, the images were the cause and are left out from now on; otherwise the refusal
    is raised.
    """
    for count in _image_counts_to_drop(transcript, setup.model.name):
        words = IMAGES_REFUSED.format(images=counted(count, "image"), why=clip(str(refused), LONGEST_REFUSAL))
        note = UserMessage(words, sender="system", unseen=count)
        try:
            request = request_for(setup, [*transcript, note], asked.tools, record, may_call=asked.may_call)
            reply = await stream_reply(setup, transcript, request, record, stop)
        except ProviderError as again:
            if again.unfit:
                continue
            raise
        transcript.append(note)
        await record.commit(MessageAdded(note))
        return reply
    raise refused


def _image_counts_to_drop(transcript: Sequence[Message], model: str) -> Iterator[int]:
    """How many images to leave out in each attempt: those that no model accepted yet; then all."""
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
