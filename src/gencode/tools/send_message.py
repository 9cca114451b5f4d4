"""SendMessage: send a message to another agent of the same tree."""

from gencode.agent.toolbox import ToolContext, ToolOutput, tool
from gencode.core.errors import ToolError
from gencode.core.messages import Trace


@tool(effect="delegate", name="SendMessage", timeout=60.0)
async def SEND_MESSAGE(
    ctx: ToolContext,
    task_id: str,
    message: str,
) -> ToolOutput:
    """Write to an agent that you started or that wrote to you: something new, or the answer to its question.
    A running one reads it before its next reply; a finished one continues in the background and reports
    again.
    """
    if ctx.delegate is None:
        raise ToolError("There is no agent to send a message to.")
    if not message.strip():
        raise ToolError("The message is empty; say what the agent should know or do.")
    outcome, hearing = await ctx.delegate.send(task_id, message)
    who = f"{outcome.agent} (task {outcome.agent_id})"
    own = outcome.parent_id == ctx.task
    if hearing == "woken":
        result = "its result is sent to you" if own else "its result goes to its parent"
        return ToolOutput(
            f"{who} had finished and continues in the background with your message; {result}.",
            Trace(children=(outcome.agent_id,) if own else ()),
        )
    if hearing == "heard":
        return ToolOutput(f"{who} got the message and has finished since.")
    if hearing == "later":
        ended = f"has finished ({outcome.status}) and is not resumed by this; it"
        return ToolOutput(f"{who} {ended} gets the message when it is resumed.")
    return ToolOutput(f"{who} gets the message before its next reply.")
