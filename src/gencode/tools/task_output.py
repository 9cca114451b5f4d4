"""TaskOutput: the result or progress of a background task or command."""

import asyncio
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from gencode.agent.toolbox import Param, ToolContext, ToolOutput, tool
from gencode.core.errors import UserMistake
from gencode.core.ids import SHELL
from gencode.core.messages import Trace
from gencode.core.outcome import PAGE, Outcome, how_ended, report_lines, start_of, why_ended
from gencode.core.status import Status
from gencode.files.file_versions import changed_under

if TYPE_CHECKING:
    from gencode.sandbox.shells import BackgroundShell

LONGEST_MS = 600_000


@tool(effect="read", name="TaskOutput", timeout=None)
async def TASK_OUTPUT(
    ctx: ToolContext,
    task_id: Annotated[str, "The id that Task or Bash gave"],
    block: Annotated[bool, "false: do not wait, only look"] = True,
    limit: Annotated[float, Param("Milliseconds to wait, at most 600000", name="timeout")] = 30_000,
    page: Annotated[int, Meta(ge=1), Param("Which part of a long result", hidden=True)] = 1,
    offset: Annotated[int, Meta(ge=0), "Continue a truncated report at this character"] = 0,
) -> ToolOutput:
    """Wait for a background agent or command and get its result, or check its progress."""
    within = min(limit if limit > 0 else 0, LONGEST_MS)
    seconds = within / 1000 if block else 0.0
    note = (
        "" if limit == within or not block else f"The timeout {limit:.15g} was changed to {within:.15g} ms.\n"
    )
    if task_id.startswith(SHELL):
        shell = ctx.shells().find(task_id)
        text = note + await _shell(shell, seconds)
        told = Trace(commands=(shell.run,), delivered=(shell.id,)) if shell.over else Trace()
        return ToolOutput(text, told)
    outcome = await ctx.starter().look(task_id, 0.0)
    if seconds and outcome.background and not outcome.status.ended:
        with ctx.parked():
            outcome = await ctx.starter().look(task_id, seconds)
    if not outcome.status.ended:
        return ToolOutput(note + (running(outcome) if outcome.background else in_foreground(outcome)))
    trace = Trace()
    if outcome.background:
        trace = Trace(delivered=(outcome.agent_id,), ends=(outcome.ended_at or "",))
    news = changed_under(ctx.seen.stale(ctx.workspace.cwd))
    return ToolOutput(note + ended(outcome, page, offset) + news, trace, error=not outcome.success)


def in_foreground(outcome: Outcome) -> str:
    """The error for looking at a task that runs in the foreground."""
    return (
        f"Task {outcome.agent_id} of {outcome.agent} runs in the foreground: its result is the answer to the "
        "call that started it, and it stops with that call."
    )


def running(outcome: Outcome) -> str:
    """The progress of a task that has not ended, and the calls that wait for it or stop it."""
    name = outcome.agent_id
    return "\n".join(
        (
            f"Agent: {outcome.agent}",
            f"Status: {_how_far(outcome)}",
            f"Turns: {outcome.turns}",
            f"Tokens: {_tokens(outcome)}",
            "",
            *_options(name),
        )
    )


def _how_far(outcome: Outcome) -> str:
    if outcome.status is not Status.PENDING:
        return "still running"
    place = outcome.queue_position
    return f"waiting in the queue (position {place})" if place else "waiting in the queue"


def ended(outcome: Outcome, page: int, offset: int = 0) -> str:
    """The result of a task, from a page or a character on; an error comes before the output."""
    size = len(outcome.result.strip())
    if offset and offset >= size:
        raise UserMistake(f"There is nothing from character {offset:,} on; the result has {size:,}.")
    start = offset or start_of(size, page)
    lines = [
        f"Agent: {outcome.agent}",
        f"Status: {outcome.status}",
        f"Turns: {outcome.turns}",
        f"Tokens: {_tokens(outcome)}",
        f"Duration: {(outcome.duration_ms or 0) / 1000:.0f}s",
    ]
    if outcome.status is not Status.COMPLETED:
        lines.append(f"Error: {why_ended(outcome) or how_ended(outcome)}{_way_on(outcome)}")
    return "\n".join((*lines, "", "Output:", report_lines(outcome, PAGE, start, paged=not offset)))


async def _shell(shell: "BackgroundShell", seconds: float) -> str:
    if not shell.over and seconds:
        await asyncio.wait([shell.running.task], timeout=seconds)
    output = shell.running.output()
    head = [f"Command: {shell.order.text}"]
    if shell.over:
        head += [f"Status: ended. {shell.verdict}", f"File: {shell.file}", "", "Output:"]
        return "\n".join((*head, output.text().rstrip("\n") or "(no output)"))
    head += ["Status: still running", f"File: {shell.file}", "", *_options(shell.id)]
    return "\n".join((*head, "", "Output so far:", output.text().rstrip("\n") or "(no output)"))


def _options(name: str) -> tuple[str, ...]:
    return (
        "Options:",
        f'  - Wait longer: TaskOutput(task_id="{name}", timeout=60000)',
        f'  - Check status: TaskOutput(task_id="{name}", block=false)',
        f'  - Stop: TaskStop(task_id="{name}")',
    )


def _way_on(outcome: Outcome) -> str:
    """How to resume a task that was interrupted by a crash."""
    if outcome.status is not Status.INTERRUPTED:
        return ""
    return f'; resume it with Task(subagent_type="{outcome.agent}", prompt=…, resume="{outcome.agent_id}")'


def _tokens(outcome: Outcome) -> int:
    return outcome.usage.input_tokens + outcome.usage.output_tokens
