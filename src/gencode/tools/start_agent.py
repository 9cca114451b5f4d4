"""Task, spawn and spawn_subagent: start a subagent."""

from pathlib import Path
from typing import Annotated, Any, Literal

from gencode.agent.models import TIERS
from gencode.agent.toolbox import Param, ToolContext, ToolOutput, tool
from gencode.core.budget import Budget
from gencode.core.messages import Trace
from gencode.core.outcome import Outcome, how_ended, receipt_line, report_lines
from gencode.core.spec import Context, TaskRequest
from gencode.core.text import disarmed_line, one_line
from gencode.files.file_versions import changed_under


@tool(effect="delegate", name="Task", timeout=None, names_agent="subagent_type")
async def TASK(
    ctx: ToolContext,
    subagent_type: Annotated[str, "One of the agents your instructions list"],
    prompt: Annotated[str, "The whole task: the goal, where to look, what is known, what to report"],
    description: Annotated[str, "The task in three to five words, for the user"] = "",
    model: Annotated[
        str,
        f"haiku for simple work, sonnet for complex, opus for the hardest (or {', '.join(TIERS)}), or "
        "PROVIDER/MODEL; default: what its file says, else your model",
    ] = "",
    max_turns: Annotated[int | None, "End after this many turns"] = None,
    max_tokens: Annotated[
        int | None, Param("The most tokens one reply of its model may have", hidden=True)
    ] = None,
    run_in_background: Annotated[
        bool, "Continue at once; its report is sent to you later, so do not poll"
    ] = False,
    resume: Annotated[str, "The id of an agent you started, to continue with all it knows"] = "",
    isolation: Annotated[
        Literal["", "process", "worktree"],
        Param(
            "worktree: it edits a git worktree made from the last commit, and you get a branch to merge",
            hidden=("process",),
        ),
    ] = "",
    context: Annotated[
        Context, "fork: a copy of you that knows this whole conversation does it, whatever subagent_type is"
    ] = "",
    output_schema: Annotated[dict[str, Any] | None, "A JSON Schema that its result must fit"] = None,
    budget: Annotated[Budget | None, Param("What it and its subagents may spend", hidden=True)] = None,
) -> ToolOutput:
    """Start a subagent for one self-contained piece of work and get its final report.

    It sees nothing of this conversation, only `prompt`, and has its own tools, unless context is fork.
    Several calls in one reply run at the same time. The report is its claim, quoted with `>`; the line in
    brackets below comes from GenCode: its id and what it really did. The user does not see reports: tell
    them what matters.
    """
    delegate = ctx.starter()
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
        max_tokens=max_tokens,
        context=context,
    )
    with ctx.parked():
        outcome = await delegate.run(request, ctx.call)
    return result_of(ctx, outcome, background=run_in_background)


def result_of(ctx: ToolContext, outcome: Outcome, *, background: bool, note: str = "") -> ToolOutput:
    """The result of the call that started a task: its report, or how to follow it while it runs."""
    who = (outcome.agent_id,)
    if background or not outcome.status.ended:
        if outcome.output_file:
            ctx.allow_reading(Path(outcome.output_file))
        # A task in the foreground that can no longer be followed is delivered like one in the background.
        left = () if background or outcome.background else who
        alone = REFUSED_THERE if background and ctx.starter().approves_foreground_only else ""
        return ToolOutput(started(outcome) + alone + note, Trace(children=who, left=left))
    trace = Trace(children=who, delivered=who, ends=(outcome.ended_at or "",))  # it comes no second time
    text = report(outcome, ctx.starter().result_cap(outcome.agent))
    news = changed_under(ctx.seen.stale(ctx.workspace.cwd))
    return ToolOutput(text + news + note, trace, error=not outcome.success)


REFUSED_THERE = " Calls of it that need approval are refused, because it runs in the background."


def started(outcome: Outcome) -> str:
    """What the parent reads at once about a task that it started in the background."""
    file = f" Its log is in {outcome.output_file} (page it with Read)." if outcome.output_file else ""
    known = "".join(f" Note: {disarmed_line(each, LONGEST_NOTE)}." for each in outcome.evidence.warnings)
    return (
        f"{outcome.agent} is running in the background as task {outcome.agent_id}.{known} "
        "Continue; its result is sent to you. TaskOutput waits for it, TaskStop stops it, and SendMessage "
        f"tells it something.{file}"
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
SPAWNED_TURNS = 15
LONGEST_NOTE = 300


@tool(effect="delegate", name="spawn", timeout=None, on_request=True)
async def SPAWN(
    ctx: ToolContext,
    task: Annotated[str, "The whole task; the agent sees nothing else of this conversation"],
    label: Annotated[str, "A short name for it"] = "",
) -> ToolOutput:
    """Start an agent that works on its own beside this conversation.

    Use it for work that can go on while you talk with the user, and Task if you need the result before you
    continue. This returns at once; the result is posted here as a system message.
    """
    return await _spawned(ctx, "general-purpose", task, label, SPAWNED_TURNS)


@tool(effect="delegate", name="spawn_subagent", timeout=None, on_request=True, names_agent="type")
async def SPAWN_SUBAGENT(
    ctx: ToolContext,
    work: Annotated[str, Param("The whole task; the agent sees nothing else", name="input")],
    kind: Annotated[str, Param("Which agent to start", name="type")] = "general",
    description: Annotated[str, "A short name for it"] = "",
) -> ToolOutput:
    """Start an agent of a certain type that works on its own beside this conversation.

    Choose the type by what your instructions say of each agent. Use it for work that can go on while you
    talk with the user, and Task if you need the result before you continue. This returns at once; the
    result is posted here as a system message.
    """
    return await _spawned(ctx, kind, work, description)


async def _spawned(
    ctx: ToolContext, agent: str, task: str, label: str, turns: int | None = None
) -> ToolOutput:
    delegate = ctx.starter()
    title = one_line(label, LONGEST_LABEL) or one_line(task, LONGEST_LABEL)
    request = TaskRequest(agent, task, title, max_turns=turns, background=True, spawned=True)
    outcome = await delegate.run(request, ctx.call)
    if outcome.output_file:
        ctx.allow_reading(Path(outcome.output_file))
    running = sum(child.background and not child.status.ended for child in delegate.sent())
    return ToolOutput(
        f"Subagent [{title}] started (id: {outcome.agent_id})\n{running} running",
        Trace(children=(outcome.agent_id,)),
    )
