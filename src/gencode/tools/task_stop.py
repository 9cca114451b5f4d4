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
from gencode.core.text import counted
from gencode.tools.bash import shell_ended
from gencode.tools.task_output import in_foreground

MOST_NAMED = 8


async def preview_stop(ctx: ToolContext, task_id: str, how: StopAction) -> str:
    """The tasks that a stop would end, for the approval dialog; empty for a command, which the call names."""
    if task_id.startswith(SHELL):
        return ""
    affected = await ctx.starter().affected(task_id, how)
    does = "interrupts" if how == "interrupt" else "stops"
    return f"{does} {_named(affected)}" if affected else "nothing to stop"


@tool(effect="delegate", name="TaskStop", timeout=90.0, preview=preview_stop)
async def TASK_STOP(
    ctx: ToolContext,
    task_id: Annotated[str, "The id that Task or Bash gave"],
    how: Annotated[
        StopAction,
        "stop: now; keep: after a last report; tree: with its subagents; interrupt: only its current step",
    ] = "stop",
) -> ToolOutput:
    """Stop a background agent or command."""
    if task_id.startswith(SHELL):
        return await _stop_shell(ctx, task_id, how)
    before = await ctx.starter().look(task_id, 0.0)
    if not before.background and not before.status.ended:
        raise ToolError(in_foreground(before))
    ctx.progress(await preview_stop(ctx, task_id, how))
    with ctx.parked():  # the agent may need this place in the queue for its last report
        applied = await ctx.starter().apply_action(task_id, how)
    outcome = applied.outcome
    text = _described(applied, how)
    if how != "keep" or not outcome.result or not _took_effect(applied):
        return ToolOutput(text)
    said = report_lines(outcome, ctx.starter().result_cap(outcome.agent))
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


def _described(applied: ControlResult, how: StopAction) -> str:
    """The tasks that were stopped, and the subagents that still run."""
    outcome, task = applied.outcome, applied.outcome.agent_id
    below = _named([each for each in applied.affected if each.task != task])
    if not _took_effect(applied):
        ends = "." if below else f"; nothing was {'interrupted' if how == 'interrupt' else 'stopped'}."
        said = f"{_state(applied)}{ends}"
    elif how == "interrupt":
        said = "was interrupted and continues from there."
    else:
        said = f"was stopped after {counted(outcome.turns, 'turn')} and is now {outcome.status}."
    also = f" Subagents also stopped: {below}." if below else ""
    left = f" Subagents still running: {_named(applied.left)}." if applied.left else ""
    way = f' To stop that: TaskStop(task_id="{task}", how="tree").' if applied.left else ""
    return f"Task {task} of {outcome.agent} {said}{also}{left}{way}"


def _took_effect(applied: ControlResult) -> bool:
    return any(each.task == applied.outcome.agent_id for each in applied.affected)


def _state(applied: ControlResult) -> str:
    status = applied.outcome.status
    if status.ended:
        return f"had already finished ({status})"
    return "is waiting in the queue" if status is Status.PENDING else "does not respond"


def _named(tasks: Sequence[StartedTask]) -> str:
    rest = f" and {len(tasks) - MOST_NAMED} more" if len(tasks) > MOST_NAMED else ""
    return ", ".join(f"{each.task} ({each.agent})" for each in tasks[:MOST_NAMED]) + rest
