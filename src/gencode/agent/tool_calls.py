"""Runs the tool calls of one reply: decided in order, approved, run, and each given one result."""

import asyncio
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from gencode.agent.gate import CHANGED, refusal
from gencode.agent.plugin_calls import LEFT, PluginErrors, run_detached, run_stoppable
from gencode.agent.recorder import Recorder
from gencode.agent.run_setup import RunSetup
from gencode.agent.stop import Stop
from gencode.agent.toolbox import Tool, ToolContext, ToolOutput
from gencode.core.errors import Denied, Stopped, ToolError, UserMistake
from gencode.core.events import (
    CallDecided,
    CallFinished,
    CallStarted,
    MessageAdded,
    OutputArrived,
    ProgressMade,
)
from gencode.core.ids import new_id
from gencode.core.messages import AssistantMessage, ToolCall, ToolMessage, ToolResult
from gencode.core.rules import Action, DecidedBy, Decision
from gencode.core.structs import replace
from gencode.core.text import CLIP, clip, disarmed, quoted

if TYPE_CHECKING:
    from gencode.files.checkpoints import CallCheckpoints

log = logging.getLogger(__name__)

SIDE_BY_SIDE = ("read", "delegate")
CHANGING = ("write", "execute")
READERS = ("Read", "Grep")
PAGED = 4_096
"""How much longer a result may be if its tool has shortened it in the middle, so that its end is kept."""
INTERRUPTED = "Interrupted: {why}. It is not known how much of this call was done; it was not repeated."
UNAPPROVED = "Interrupted: {why}. Nothing of this call was done: it still needed approval."
UNJUDGED = Decision(Action.DENY, "it was not judged")


class PreparedCall(Struct, frozen=True):
    """A call before it runs: `arguments` if it fits its tool, `problem` if it does not."""

    call: ToolCall
    tool: Tool | None = None
    arguments: Struct | None = None
    problem: str = ""
    decision: Decision = UNJUDGED
    asked: bool = False
    said_yes: frozenset[str] = frozenset()
    network: bool = False


async def answer(setup: RunSetup, reply: AssistantMessage, record: Recorder, stop: Stop) -> list[ToolResult]:
    """One result for every call: decided in order, then run side by side if they cannot conflict.

    A call that waits for approval delays only those that have to come after it.
    """
    prepared_calls = [await _judged(setup, call) for call in reply.calls]
    decided = [_decided(setup, prepared) for prepared in prepared_calls if not prepared.problem]
    await record.commit(MessageAdded(reply), *decided)
    results: list[ToolResult] = []
    one_question = asyncio.Lock()

    async def answered(prepared: PreparedCall) -> ToolResult:
        if not prepared.problem and prepared.decision.action is Action.ASK:
            async with one_question:
                prepared = await admit(setup, prepared, record, stop)
        result = record.answers[prepared.call.id] = await perform(setup, prepared, record, stop)
        return result

    for batch in _batches(prepared_calls):
        if len(batch) == 1:
            results.append(await answered(batch[0]))
            continue
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(answered(prepared)) for prepared in batch]
        results += [each.result() for each in running]
    return results


async def read_for_user(setup: RunSetup, path: str, record: Recorder, stop: Stop) -> ToolResult | None:
    """The result of Read for a file that the user mentioned; None if that needs approval."""
    prepared = await _judged(setup, ToolCall("mentioned", "Read", {"file_path": path}))
    if prepared.decision.action is not Action.ALLOW:
        return None
    return await perform(setup, prepared, record, stop)


async def run_for_user(setup: RunSetup, command: str, record: Recorder, stop: Stop) -> ToolResult:
    """The result of Bash for a command of the user, who approves it if needed."""
    prepared = await _judged(setup, ToolCall(f"command-{new_id()}", "Bash", {"command": command}))
    if not prepared.problem:
        await record.commit(_decided(setup, prepared))
        if prepared.decision.action is Action.ASK:
            prepared = await admit(setup, prepared, record, stop)
    return await perform(setup, prepared, record, stop)


async def admit(setup: RunSetup, prepared: PreparedCall, record: Recorder, stop: Stop) -> PreparedCall:
    """The call after a person was asked, if needed; nobody is asked about a call that cannot succeed."""
    places = setup.gate.places(prepared.call)
    try:
        with stop.interruptible(), record.parked(setup.slot):
            try:
                preview = await _preview(setup, replace(prepared, said_yes=places), record)
            except ToolError as error:
                if _may_know(setup, prepared, places):
                    return replace(prepared, problem=str(error))
                preview = f"(it could not be shown beforehand: {error})"
            with PluginErrors(f"the asker {type(setup.gate.approvals.asker).__name__}"):
                admission = await setup.gate.admit(prepared.call, preview)
    except Stopped as stopped:
        return replace(prepared, decision=Decision(Action.DENY, f"the question was withdrawn: {stopped}"))
    answered = replace(
        prepared, decision=admission.decision, asked=True, said_yes=places, network=admission.network
    )
    await record.commit(_decided(setup, answered))
    return answered


def _may_know(setup: RunSetup, prepared: PreparedCall, places: frozenset[str]) -> bool:
    """Whether an agent may learn without approval why a change of these files would fail."""
    changes = prepared.tool is not None and prepared.tool.effect == "write"
    return changes and bool(places) and all(map(setup.gate.may_read, places))


async def perform(setup: RunSetup, prepared: PreparedCall, record: Recorder, stop: Stop) -> ToolResult:
    """Run one admitted call; whatever happens becomes its result."""
    call, left = prepared.call, list[str]()
    try:
        stop.check()
        tool, arguments, prepared = _ready(setup, prepared, record)
        record.tell(CallStarted(call.id, tool.name, summary(call)))
        with stop.interruptible(tool.timeout), record.parked() if _ends_by_itself(tool) else nullcontext():
            output = await _run(setup, prepared, record, tool, arguments, left)
    except (ToolError, UserMistake) as error:
        output = ToolOutput(str(error), error=True)
    except (TimeoutError, Stopped) as cut:
        output = _cut(call, cut, left, record)
    except Exception:
        log.exception("the tool %s failed on %s", call.name, call.input)
        output = ToolOutput(
            f"{call.name} failed because of a bug in it; the log of GenCode has the details.", error=True
        )
    record.tell(CallFinished(call.id, call.name, output.text.partition("\n")[0][:200], output.error))
    text = await _fitting(setup, record, output)
    name, foreign, note = call.name, output.foreign, output.note
    return ToolResult(call.id, name, text, output.error, output.trace, output.images, foreign, note)


async def _run(
    setup: RunSetup, prepared: PreparedCall, record: Recorder, tool: Tool, arguments: Struct, left: list[str]
) -> ToolOutput:
    """Run a tool between its hooks: one before it may refuse, one after it may add a note."""
    context = _context(setup, prepared, record)
    ours = tool.source == "builtin"  # which obeys a stop
    work = partial(tool.run, context) if ours else partial(run_stoppable, tool, context, left=left)
    if setup.hooks is None:
        return await work(arguments)
    refused = await setup.hooks.before(prepared.call)
    if refused is not None:
        decision = Decision(Action.DENY, f"A hook refused it: {refused}", by=DecidedBy.HOOK)
        record.defer(_decided(setup, replace(prepared, decision=decision)))  # calls beside it may be writing
        raise Denied(refusal(decision))
    output = await work(arguments)
    call, text = prepared.call, output.text
    result = ToolResult(call.id, call.name, text, output.error, foreign=output.foreign, note=output.note)
    given = replace(result, text=clip(text), trace=output.trace, images=output.images)
    record.answers[call.id] = given  # if what follows is cut, this is not lost
    more = await setup.hooks.after(prepared.call, result)
    said = f"A hook adds:\n{quoted(disarmed(more))}" if more else ""
    return replace(output, note="\n".join(filter(None, (output.note, said))))


def _cut(call: ToolCall, cut: TimeoutError | Stopped, left: Sequence[str], record: Recorder) -> ToolOutput:
    """The result of a call that was cut off; its own result, if only a hook after it was."""
    given = record.answers.get(call.id)
    if given is not None:
        return ToolOutput(
            given.text, given.trace, given.error, given.images, foreign=given.foreign, note=given.note
        )
    late = f"{call.name} did not finish in time and was stopped.{LEFT if left else ''}"
    text = INTERRUPTED.format(why=cut) if isinstance(cut, Stopped) else late
    return ToolOutput(text + record.remarks.get(call.id, ""), error=True)


async def _fitting(setup: RunSetup, record: Recorder, output: ToolOutput) -> str:
    """A result as it enters the transcript; one that is too long is saved to a file for the agent."""
    text = output.text
    if output.paged:
        return clip(text, CLIP + PAGED)
    folder = record.folder if len(text) > CLIP else None
    if folder is None or not any(name in setup.toolbox for name in READERS):
        return clip(text)
    from gencode.agent.output_files import keep_result, result_place

    try:
        file = await asyncio.to_thread(keep_result, folder, text)
    except OSError as error:
        log.info("a result of %s could not be kept: %s", record.lease.task, error.strerror)
        return clip(text)
    setup.gate.allow_reading(file)
    return clip(text, rest=result_place(file, len(text)))


def _ends_by_itself(tool: Tool) -> bool:
    """Whether a tool is certain to return, so that its silence means nothing."""
    return tool.timeout is not None or tool.source == "builtin"


def interrupted(
    calls: Sequence[ToolCall],
    why: str,
    answers: Mapping[str, ToolResult] = MappingProxyType({}),
    remarks: Mapping[str, str] = MappingProxyType({}),
    unapproved: Collection[str] = (),
) -> ToolMessage:
    """Results for calls that were cut off; those in `answers` had finished.

    `remarks` are additions to some of the others, and those in `unapproved` never began.
    """

    def text(call: ToolCall) -> str:
        form = UNAPPROVED if call.id in unapproved else INTERRUPTED
        return form.format(why=why.rstrip(".")) + remarks.get(call.id, "")

    cut = [ToolResult(call.id, call.name, text(call), error=True) for call in calls]
    return ToolMessage(tuple(answers.get(each.call, each) for each in cut))


def summary(call: ToolCall) -> str:
    """A call in one short line, for a person."""
    return f"{call.name}({target(call)})"


def target(call: ToolCall) -> str:
    """What a call is about, in one short line: the first text among its arguments."""
    for value in call.input.values():
        if isinstance(value, str) and value:
            return value.splitlines()[0][:120]
    return ""


async def _judged(setup: RunSetup, call: ToolCall) -> PreparedCall:
    tool = setup.toolbox.get(call.name)
    call = tool.spelled(call) if tool else call
    if setup.workspace.copied is not None and tool is not None:
        from gencode.workspaces.transfer.path_translation import translated_call

        call = translated_call(call, tool.name, setup.workspace.copied, local=tool.local)
    try:
        arguments = tool.parse(call) if tool else None
    except ToolError as error:
        return PreparedCall(call, tool, problem=str(error))
    await setup.gate.look_up(call)
    return PreparedCall(call, tool, arguments, decision=setup.gate.judge(call))


def _decided(setup: RunSetup, prepared: PreparedCall) -> CallDecided:
    chain, about = setup.gate.chain_names, target(prepared.call)
    return CallDecided(prepared.call.id, prepared.call.name, prepared.decision, chain, about)


def _ready(setup: RunSetup, prepared: PreparedCall, record: Recorder) -> tuple[Tool, Struct, PreparedCall]:
    """The tool and its arguments, if the call was admitted and still would be at this moment.

    With them the call as it is decided now: whether it must run neutrally may have changed.
    """
    if prepared.problem:
        raise ToolError(prepared.problem)
    if prepared.decision.action is not Action.ALLOW or prepared.tool is None or prepared.arguments is None:
        raise Denied(refusal(prepared.decision))
    now = setup.gate.judge(prepared.call)
    if now.action is Action.DENY or (now.action is Action.ASK and not prepared.asked):
        refused = replace(now, action=Action.DENY, why=f"{now.why} {CHANGED}")
        record.defer(_decided(setup, replace(prepared, decision=refused)))  # calls beside it may be writing
        raise Denied(refusal(refused))
    standing = (
        replace(prepared, decision=replace(prepared.decision, neutral=True)) if now.neutral else prepared
    )
    return prepared.tool, prepared.arguments, standing


async def _preview(setup: RunSetup, prepared: PreparedCall, record: Recorder) -> str:
    if prepared.tool is None or prepared.arguments is None:
        return ""
    clock = asyncio.timeout(prepared.tool.timeout)
    showing = prepared.tool.shown(_context(setup, prepared, record), prepared.arguments)
    ours = prepared.tool.source == "builtin" or prepared.tool.preview is None
    try:
        async with clock:
            return await (
                showing if ours else run_detached(showing, f"the preview of the tool {prepared.tool.name}")
            )
    except TimeoutError:
        if not clock.expired():
            raise
        return f"(it could not be shown beforehand: it took longer than {prepared.tool.timeout:g} s)"


def _context(setup: RunSetup, prepared: PreparedCall, record: Recorder) -> ToolContext:
    return ToolContext(
        task=record.lease.task,
        agent=setup.agent,
        call=prepared.call,
        workspace=setup.workspace,
        may_read=setup.gate.may_read,
        progress=lambda text: record.tell(ProgressMade(text)),
        notify=lambda text: record.tell(ProgressMade(text, note=True)),
        output=lambda text: record.tell(OutputArrived(prepared.call.id, text)),
        place=lambda text: setup.gate.place(prepared.call, text, prepared.said_yes),
        delegate=setup.delegate,
        network=prepared.network,
        command_seconds=setup.limits.commands or 0.0,
        grants_network=setup.gate.grants_network,
        neutral=prepared.decision.neutral,
        shells=setup.shells,
        allow_reading=setup.gate.allow_reading,
        closed=setup.gate.closed,
        seen=setup.seen,
        checkpoints=_checkpoints(setup, prepared, record),
        parked=lambda: record.parked(setup.slot),
    )


def _checkpoints(setup: RunSetup, prepared: PreparedCall, record: Recorder) -> "CallCheckpoints | None":
    """Saves the files that a call changes; an agent in a copy changes none of the person's files."""
    changes = prepared.tool is not None and prepared.tool.effect in CHANGING
    if not changes or record.folder is None or setup.workspace.copied is not None:
        return None
    from gencode.files.checkpoints import CallCheckpoints

    return CallCheckpoints(record.folder, prepared.call.id, setup.seen.versions, record.commit)


def _batches(prepared_calls: Sequence[PreparedCall]) -> Iterator[list[PreparedCall]]:
    """Groups of calls that may run together: those that change nothing; any other runs alone."""
    for together, group in groupby(
        prepared_calls, lambda prepared: prepared.tool is None or prepared.tool.effect in SIDE_BY_SIDE
    ):
        if together:
            yield list(group)
        else:
            yield from ([prepared] for prepared in group)
