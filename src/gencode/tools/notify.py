"""tools: notify, a line that the person sees at once."""

from typing import Annotated

from gencode.core.errors import ToolError
from gencode.runtime.prompt import one_line
from gencode.runtime.toolbox import Param, ToolContext, tool

LONGEST = 500


@tool(effect="read", name="notify", on_request=True)
async def NOTIFY(
    ctx: ToolContext,
    message: Annotated[str, Param("One line, at most 500 characters", also=("text", "content"))],
) -> str:
    """Tell the user about a milestone while you go on working. Your answer is still what counts."""
    line = one_line(message, LONGEST)
    if not line:
        raise ToolError("The message is empty; say in one line what the user should know.")
    ctx.notify(line)
    return "The user was told."
