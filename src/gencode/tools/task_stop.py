"""TaskStop: stop or interrupt a background task or command."""

from collections.abc import Sequence
from typing import Annotated

from gencode.agent.ports import ControlResult, StartedTask, StopAction
from gencode.agent.toolbox import ToolContext, ToolOutput, tool
from gencode.core.errors import ToolError
from gencode.core.ids import SHELL
from gencode.core.messages import Trace
from gencode.core.outcome import report_lines
from gencode.core.status import Status
from gencode.tools.bash import shell_ended
from gencode.tools.task_output import delegate_of, in_foreground

MOST_NAMED = 8


async def preview_stop(ctx: ToolContext, task_id: str, how: StopAction) -> str:
    """The tasks that a stop would end, for the approval dialog; empty for a command, which the call names."""
    if task_id.startswith(SHELL):
        return ""
    hit = await delegate_of(ctx).hits(task_id, how)
    does = "interrupts" if how == "interrupt" else "stops"
    return f"{does} {_named(hit)}" if hit else "nothing to stop"


@tool(effect="delegate", name="TaskStop", timeout=90.0, preview=preview_stop)
async def TASK_STOP(
    ctx: ToolContext,
    task_id: Annotated[str, "The id that Task or Bash gave"],
    how: Annotated[
        StopAction, "keep: it reports first; tree: its subagents too; interrupt: it continues after"
    ] = "stop",
) -> ToolOutput:
    """Stop a task or command that runs in the background. What it has found so far is kept."""
    if task_id.startswith(SHELL):
        return await _stop_shell(ctx, task_id, how)
    before = await delegate_of(ctx).look(task_id, 0.0)
    if not before.background and not before.status.ended:
        raise ToolError(in_foreground(before))
    ctx.progress(await preview_stop(ctx, task_id, how))
    with ctx.parked():  # who reports may need the place
        struck = await delegate_of(ctx).apply_action(task_id, how)
    outcome = struck.outcome
    text = _told(struck, how)
    if how != "keep" or not outcome.result or not _itself(struck):
        return ToolOutput(text)
    said = report_lines(outcome, delegate_of(ctx).result_cap(outcome.agent))
    trace = Trace(delivered=(outcome.agent_id,), ends=(outcome.ended_at or "",))
    return ToolOutput(f"{text}\n\nIts last message:\n{said}", trace)


async def _stop_shell(ctx: ToolContext, name: str, how: StopAction) -> ToolOutput:
    shell = ctx.shells().find(name)
    if how == "interrupt":
        raise ToolError(f"{name} is a command: it can be stopped, but not resumed.")
    if shell.over:
        return shell_ended(shell, f"{name} had already ended. {shell.verdict}")
    await shell.running.stop()
    return shell_ended(shell, f"{name} was stopped, with all it had started.")


def _told(struck: ControlResult, how: StopAction) -> str:
    """The tasks that were stopped, and the subagents that still run."""
    outcome, task = struck.outcome, struck.outcome.agent_id
    below = _named([each for each in struck.hit if each.task != task])
    turns = "1 turn" if outcome.turns == 1 else f"{outcome.turns} turns"
    if not _itself(struck):
        ends = "." if below else f"; nothing was {'interrupted' if how == 'interrupt' else 'stopped'}."
        said = f"{_as_it_is(struck)}{ends}"
    elif how == "interrupt":
        said = "was interrupted and continues from there."
    else:
        said = f"was stopped after {turns} and is now {outcome.status}."
    also = f" Subagents also stopped: {below}." if below else ""
    left = f" Subagents still running: {_named(struck.left)}." if struck.left else ""
    way = f' To stop that: TaskStop(task_id="{task}", how="tree").' if struck.left else ""
    return f"Task {task} of {outcome.agent} {said}{also}{left}{way}"


def _itself(struck: ControlResult) -> bool:
    return any(each.task == struck.outcome.agent_id for each in struck.hit)


def _as_it_is(struck: ControlResult) -> str:
    status = struck.outcome.status
    if status.ended:
        return f"had already finished ({status})"
    return "is waiting in the queue" if status is Status.PENDING else "does not respond"


def _named(tasks: Sequence[StartedTask]) -> str:
    rest = f" and {len(tasks) - MOST_NAMED} more" if len(tasks) > MOST_NAMED else ""
    return ", ".join(f"{each.task} ({each.agent})" for each in tasks[:MOST_NAMED]) + rest
