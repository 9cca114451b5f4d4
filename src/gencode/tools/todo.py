"""TodoWrite: the agent's list of steps. The list lives in the call itself."""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from gencode.agent.toolbox import ToolContext, tool
from gencode.core.errors import ToolError
from gencode.core.text import one_line

MOST = 200
LONGEST = 300
_SIGNS = {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]"}


# Without a docstring: it would be in every prompt.
class Todo(Struct, frozen=True):
    content: Annotated[str, Meta(min_length=1)]
    status: Literal["pending", "in_progress", "completed"]
    activeForm: str | UnsetType = UNSET


@tool(effect="read", name="TodoWrite", aliases=("todo",))
async def TODO_WRITE(
    ctx: ToolContext,
    todos: Annotated[
        list[Todo], "All steps in order; activeForm is shown meanwhile, such as `Running tests`"
    ],
) -> str:
    """Keep the list of steps that the user sees, for work of three or more steps.

    Each call replaces the list. Keep exactly one step in_progress, and mark it completed as soon as it is
    done and checked.
    """
    if len(todos) > MOST:
        raise ToolError(f"The list has more than {MOST} steps; combine some.")
    if not todos:
        ctx.progress("no steps left")
        return "The list is empty."
    active = [todo for todo in todos if todo.status == "in_progress"]
    done = sum(todo.status == "completed" for todo in todos)
    now = f": {one_line(active[0].activeForm or active[0].content, LONGEST)}" if active else ""
    ctx.progress(f"{done} of {len(todos)} done{now}")
    lines = [f"{_SIGNS[todo.status]} {one_line(todo.content, LONGEST)}" for todo in todos]
    if len(active) > 1:
        lines.append(f"[{len(active)} steps are in progress; work on one at a time]")
    elif not active and done < len(todos):
        lines.append("[no step is in progress; mark the one you are working on]")
    return "\n".join(lines)
