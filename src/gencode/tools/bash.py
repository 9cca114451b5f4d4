"""Bash and KillShell: shell commands in the foreground and in the background."""

import asyncio
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from gencode.agent.toolbox import Param, ToolContext, ToolOutput, tool
from gencode.core.messages import CommandRun, Trace
from gencode.tools.files import relative

if TYPE_CHECKING:
    from gencode.sandbox.shells import BackgroundShell, CommandRequest, ShellResult

LONGEST_MS = 600_000


@tool(effect="execute", name="Bash", aliases=("exec",), timeout=None)
async def BASH(
    ctx: ToolContext,
    command: Annotated[str, "The command line for bash"],
    limit: Annotated[
        int, Meta(ge=1), Param("Milliseconds until it is stopped, at most 600000", name="timeout")
    ] = 120_000,
    description: Annotated[str, "What it does, in five to ten words"] = "",
    run_in_background: Annotated[bool, "Return an id at once and let it run on"] = False,
) -> ToolOutput:
    """Run a command line in bash. Every call starts anew in the working directory, without a terminal.

    Output beyond 32 KiB is cut in the middle and kept in a file that Read can page. When a command ends, what
    it left running is stopped: start servers and watchers with run_in_background. Use Read, Grep, Glob and
    Edit rather than cat, grep, find and sed.
    """
    from gencode.sandbox.shells import CommandRequest

    seconds = min(limit, LONGEST_MS) / 1000
    most = None if run_in_background else seconds
    order = CommandRequest(command, ctx.workspace, ctx.task, most, ctx.network, ctx.closed(), ctx.neutral)
    if not run_in_background:
        return _told(ctx, command, await _run(ctx, order))
    shell = await ctx.shells().start(order)
    ctx.allow_reading(shell.file)
    return ToolOutput(
        f"Started in the background as {shell.id}. Its output grows in {shell.file} (page it with Read). "
        "You are notified when it ends. It runs until then, until the session closes, or until "
        f'KillShell(shell_id="{shell.id}").',
        Trace(commands=(shell.run,)),
    )


@tool(effect="execute", name="KillShell", timeout=30.0)
async def KILL_SHELL(
    ctx: ToolContext, shell_id: Annotated[str, "The id that Bash gave for a command in the background"]
) -> ToolOutput:
    """Stop a command that runs in the background, with everything it started."""
    shell = ctx.shells().find(shell_id)
    if shell.over:
        return shell_ended(shell, f"{shell_id} had already ended. {shell.verdict}")
    await shell.running.stop()
    return shell_ended(shell, f"{shell_id} was stopped. {shell.verdict}")


def shell_ended(shell: "BackgroundShell", text: str) -> ToolOutput:
    """The tool result that reports the end of a background command, which is then not announced again."""
    return ToolOutput(
        f"{text} Its output is in {shell.file}.", Trace(commands=(shell.run,), delivered=(shell.id,))
    )


async def _run(ctx: ToolContext, order: "CommandRequest") -> "ShellResult":
    """Run a command; files that any agent has read and that change meanwhile count as changed by it."""
    from gencode.sandbox.shells import only_reads

    if only_reads(order):
        return await ctx.shells().run(order)
    before = await asyncio.to_thread(ctx.seen.before)
    try:
        return await ctx.shells().run(order)
    finally:
        await asyncio.to_thread(ctx.seen.ran, before)


def _told(ctx: ToolContext, command: str, result: "ShellResult") -> ToolOutput:
    ended = result.ended
    if ended.output.file is not None:
        ctx.allow_reading(ended.output.file)
    said = [ended.output.text().rstrip("\n"), ended.verdict]
    if result.touched:
        names = ", ".join(relative(ctx.workspace, str(path)) for path in result.touched[:10])
        said.append(
            f"Warning: the command changed protected files that make other programs run code: {names}."
        )
    if result.veiled:
        names = ", ".join(relative(ctx.workspace, str(path)) for path in result.veiled[:10])
        said.append(f"Hidden from the command, because reading is denied: {names}.")
    text = "\n".join(part for part in said if part) or "(no output)"
    failed = ended.cause != "exited" or ended.exit_code != 0
    return ToolOutput(text, Trace(commands=(CommandRun(command, ended.exit_code),)), error=failed, paged=True)
