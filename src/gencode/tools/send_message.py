"""tools: SendMessage, a word to another agent of the same family."""

from typing import Annotated

from gencode.core.errors import ToolError
from gencode.core.messages import Trace
from gencode.runtime.toolbox import ToolContext, ToolOutput, tool


@tool(effect="delegate", name="SendMessage", timeout=60.0)
async def SEND_MESSAGE(
    ctx: ToolContext,
    task_id: Annotated[str, "The id that Task gave, or that a message named"],
    message: Annotated[str, "What it should know, do differently or do next"],
) -> ToolOutput:
    """Say something to an agent you sent or were told of. A running one hears it before its next reply; one
    that has ended goes on with it in the background, and its sender gets its result."""
    if ctx.delegate is None:
        raise ToolError("There is nobody here to send a message to.")
    if not message.strip():
        raise ToolError("The message is empty; say what the agent should know or do.")
    outcome, hearing = await ctx.delegate.send(task_id, message)
    who = f"{outcome.agent} (task {outcome.agent_id})"
    own = outcome.parent_id == ctx.task
    if hearing == "woken":
        result = "its result comes by itself" if own else "its result goes to its sender"
        return ToolOutput(
            f"{who} had ended and goes on in the background with your message; {result}.",
            Trace(children=(outcome.agent_id,) if own else ()),
        )
    if hearing == "heard":
        return ToolOutput(f"{who} has heard that, and has ended since.")
    if hearing == "later":
        ended = f"has ended as {outcome.status} and is not woken by this; it"
        return ToolOutput(f"{who} {ended} hears it when it goes on.")
    return ToolOutput(f"{who} hears that before its next reply.")
