"""get_env and set_env: the environment variables of commands; secrets are never shown."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated

from gencode.agent.toolbox import Param, ToolContext, tool
from gencode.core.errors import ToolError
from gencode.permissions.paths import shown

LONGEST_SHOWN = 4_096
MOST_NAMES = 500


@tool(effect="read", name="get_env", on_request=True)
async def GET_ENV(
    ctx: ToolContext,
    name: Annotated[str, Param("Default: all names, without values", also=("key", "variable"))] = "",
) -> str:
    """Show an environment variable as commands see it. Keys and passwords are not shown."""
    from gencode.sandbox.variables import visible_environment

    known = {**visible_environment(), **_own(ctx)}
    if not name:
        names = sorted(known)
        more = f"\n[… and {len(names) - MOST_NAMES:,} more]" if len(names) > MOST_NAMES else ""
        return "\n".join(names[:MOST_NAMES]) + more if names else "No variable is set."
    if name not in known:
        return f"{shown(name, 100)} is not set, or not shown because it could be a secret."
    value = known[name]
    return value if len(value) <= LONGEST_SHOWN else f"{value[:LONGEST_SHOWN]}\n[… cut]"


@tool(effect="write", name="set_env", on_request=True)
async def SET_ENV(
    ctx: ToolContext,
    name: Annotated[str, Param("Letters, digits and underscores", also=("key", "variable"))],
    value: Annotated[str, "One line; an empty one restores the original value"],
) -> str:
    """Set an environment variable for your later commands in this session, and for nobody else's.

    Keys, and names that change what programs load, run or reach, are refused.
    """
    ctx.shells().variables.set(ctx.task, name, value)
    return f"{name} is set for your later commands." if value else f"{name} has its original value again."


def _own(ctx: ToolContext) -> Mapping[str, str]:
    with suppress(ToolError):  # where no command can be run, nothing was set for one
        return ctx.shells().variables.of_task(ctx.task)
    return {}
