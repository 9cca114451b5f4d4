"""tools: spawn and spawn_subagent, work beside the conversation whose result is told when it comes."""

from pathlib import Path
from typing import Annotated

from gencode.core.errors import ToolError
from gencode.core.messages import Trace
from gencode.core.spec import TaskRequest
from gencode.runtime.prompt import one_line
from gencode.runtime.toolbox import Param, ToolContext, ToolOutput, tool

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
        ctx.hand_out(Path(outcome.output_file))
    running = sum(child.background and not child.status.ended for child in ctx.delegate.sent())
    return ToolOutput(
        f"Subagent [{title}] started (id: {outcome.agent_id})\n{running} running",
        Trace(children=(outcome.agent_id,)),
    )
