"""Task, spawn and spawn_subagent: start a subagent."""

from pathlib import Path
from typing import Annotated, Any, Literal

from gencode.agent.toolbox import Param, ToolContext, ToolOutput, tool
from gencode.core.budget import Budget
from gencode.core.errors import ToolError
from gencode.core.messages import Trace
from gencode.core.outcome import Outcome, how_ended, receipt_line, report_lines
from gencode.core.spec import TaskRequest
from gencode.core.text import one_line
from gencode.files.file_versions import changed_under


@tool(effect="delegate", name="Task", timeout=None)
async def TASK(
    ctx: ToolContext,
    subagent_type: Annotated[str, "Which agent, by its name"],
    prompt: Annotated[str, "The whole task; the agent sees nothing else of this conversation"],
    description: Annotated[str, "The task in three to five words"] = "",
    model: Annotated[str, "Another model or tier for this task"] = "",
    max_turns: Annotated[int | None, "End after this many turns"] = None,
    run_in_background: Annotated[bool, "Give back an id at once; the result comes by itself"] = False,
    resume: Annotated[str, "The id of an agent started earlier, to resume it"] = "",
    isolation: Annotated[
        Literal["", "process", "worktree"], "In a process, or a git worktree, of its own"
    ] = "",
    output_schema: Annotated[dict[str, Any] | None, "A JSON Schema that its result must fit"] = None,
    budget: Annotated[Budget | None, Param("What it and its subagents may spend", hidden=True)] = None,
) -> ToolOutput:
    """Send a specialised agent to do one piece of work on its own and report back.

    It starts with an empty context, has only its own tools, and returns only its final text: its claim,
    quoted with `>`. The bracketed line below that is ours, with its id and what it really did. Send several
    in one reply when the pieces do not depend on each other: they run side by side.
    """
    if ctx.delegate is None:
        raise ToolError("This agent cannot start agents; do the work here or report back.")
    request = TaskRequest(
        subagent_type,
        prompt,
        description,
        model,
        max_turns,
        run_in_background,
        resume,
        isolation=isolation,
        output_schema=output_schema,
        budget=budget or Budget(),
    )
    with ctx.parked():
        outcome = await ctx.delegate.run(request, ctx.call)
    if run_in_background or not outcome.status.ended:
        if outcome.output_file:
            ctx.allow_reading(Path(outcome.output_file))
        # Who was waited for and cannot be followed any more is told of as one in the background.
        left = () if run_in_background or outcome.background else (outcome.agent_id,)
        return ToolOutput(started(outcome), Trace(children=(outcome.agent_id,), left=left))
    who = (outcome.agent_id,)
    trace = Trace(children=who, delivered=who, ends=(outcome.ended_at or "",))  # it comes no second time
    text = report(outcome, ctx.delegate.result_cap(outcome.agent))
    news = changed_under(ctx.seen.stale(ctx.workspace.cwd))
    return ToolOutput(text + news, trace, error=not outcome.success)


def started(outcome: Outcome) -> str:
    """What the parent reads at once about a task that it started in the background."""
    file = f" Its log is in {outcome.output_file} (page it with Read)." if outcome.output_file else ""
    return (
        f"{outcome.agent} is running in the background as task {outcome.agent_id}. "
        f'Continue; its result is sent to you. To wait for it: TaskOutput(task_id="{outcome.agent_id}"). '
        f'To stop it: TaskStop(task_id="{outcome.agent_id}").{file}'
    )


def report(outcome: Outcome, cap: int) -> str:
    """What the parent reads of a task that has ended: how it ended, its final text, and its receipt."""
    if outcome.success:
        return f"Report of {outcome.agent}:\n{report_lines(outcome, cap)}"
    head = f"The agent {outcome.agent} (task {outcome.agent_id}) {how_ended(outcome)}."
    if not outcome.result.strip():
        return f"{head}\n{receipt_line(outcome)}"
    return f"{head}\n\nIts last message:\n{report_lines(outcome, cap)}"


LONGEST_LABEL = 40


@tool(effect="delegate", name="spawn", timeout=None, on_request=True)
async def SPAWN(
    ctx: ToolContext,
    task: Annotated[str, "The whole task; the agent sees nothing else of this conversation"],
    label: Annotated[str, "A few words to call it by"] = "",
) -> ToolOutput:
    """Start an agent that works on its own beside this conversation.

    This returns at once. What came of it is posted here as a system message when it is done.
    """
    return await _spawned(ctx, "general-purpose", task, label)


@tool(effect="delegate", name="spawn_subagent", timeout=None, on_request=True)
async def SPAWN_SUBAGENT(
    ctx: ToolContext,
    work: Annotated[str, Param("The whole task; the agent sees nothing else", name="input")],
    kind: Annotated[str, Param("Which agent to start", name="type")] = "general",
    description: Annotated[str, "A few words to call it by"] = "",
) -> ToolOutput:
    """Start an agent of a certain type that works on its own beside this conversation.

    This returns at once. What came of it is posted here as a system message when it is done.
    """
    return await _spawned(ctx, kind, work, description)


async def _spawned(ctx: ToolContext, agent: str, task: str, label: str) -> ToolOutput:
    if ctx.delegate is None:
        raise ToolError("This agent cannot start agents; do the work here or report back.")
    title = one_line(label, LONGEST_LABEL) or one_line(task, LONGEST_LABEL)
    request = TaskRequest(agent, task, title, background=True, spawned=True)
    outcome = await ctx.delegate.run(request, ctx.call)
    if outcome.output_file:
        ctx.allow_reading(Path(outcome.output_file))
    running = sum(child.background and not child.status.ended for child in ctx.delegate.sent())
    return ToolOutput(
        f"Subagent [{title}] started (id: {outcome.agent_id})\n{running} running",
        Trace(children=(outcome.agent_id,)),
    )
