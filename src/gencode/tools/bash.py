"""Bash and KillShell: shell commands in the foreground and in the background."""

import asyncio
import shlex
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from gencode.agent.toolbox import Param, ToolContext, ToolOutput, tool
from gencode.core.messages import CommandRun, Trace
from gencode.core.structs import replace
from gencode.tools.files import relative

if TYPE_CHECKING:
    from gencode.sandbox.shells import BackgroundShell, CommandRequest, ShellResult

LONGEST_MS = 600_000
STOP_FIRST = (
    " If it does not end by itself, stop it before your last reply: GenCode waits up to {seconds:g} s for it."
)

JOBS_END = "What it started with & was stopped when it ended: use run_in_background for servers."


@tool(effect="execute", name="Bash", aliases=("exec",), timeout=None)
async def BASH(
    ctx: ToolContext,
    command: Annotated[str, "The command line for bash"],
    limit: Annotated[
        float, Meta(ge=1), Param("Milliseconds until it is stopped, at most 600000", name="timeout")
    ] = 120_000,
    description: Annotated[str, "What it does, in five to ten words"] = "",
    run_in_background: Annotated[
        bool, "For servers and watchers: returns an id at once; you are notified of the end"
    ] = False,
    network: Annotated[str, "Why it needs network access, if it does; the user is asked"] = "",
) -> ToolOutput:
    """Run a command line in bash. Each call is a fresh shell in the working directory: no `cd` or variable
    lasts, so join steps with `&&`. There is no terminal: no editors, pagers or prompts.

    When a command ends, what it left running is stopped. Output over 32 KiB is cut in the middle and kept in
    a file for Read. Look at files with Read, Grep and Glob rather than cat, grep and find.
    """
    from gencode.sandbox.shells import CommandRequest

    seconds = min(limit, LONGEST_MS) / 1000
    most = None if run_in_background else seconds
    order = CommandRequest(command, ctx.workspace, ctx.task, most, ctx.network, ctx.closed(), ctx.neutral)
    if not run_in_background:
        result = await _run(ctx, replace(order, written=ctx.output))
        return _told(ctx, command, result, await _hint(ctx, result))
    if ctx.checkpoints:
        await ctx.checkpoints.before_command(await asyncio.to_thread(ctx.seen.before))
    shell = await ctx.shells().start(order)
    ctx.allow_reading(shell.file)
    waits = STOP_FIRST.format(seconds=ctx.command_seconds) if ctx.command_seconds else ""
    return ToolOutput(
        f"Started in the background as {shell.id}. Its output grows in {shell.file} (page it with Read). "
        f"You are notified when it ends; TaskStop stops it.{waits}",
        Trace(commands=(shell.run,)),
    )


@tool(effect="execute", name="KillShell", timeout=30.0, instead="TaskStop")
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
    """Run a command; files that an agent has read and that change meanwhile are recorded as its changes."""
    from gencode.sandbox.shells import only_reads

    if only_reads(order):
        return await ctx.shells().run(order)
    before = await asyncio.to_thread(ctx.seen.before)
    checkpoints = ctx.checkpoints
    known = await checkpoints.before_command(before) if checkpoints else ()
    try:
        return await ctx.shells().run(order)
    finally:
        if checkpoints:
            await checkpoints.after_command(before, known)
        await asyncio.to_thread(ctx.seen.ran, before)


async def _hint(ctx: ToolContext, result: "ShellResult") -> str:
    """What the sandbox may have to do with a command that failed."""
    if result.ended.cause != "exited" or not result.ended.exit_code:
        return ""
    from gencode.sandbox.confinement import sandbox_hint

    found = await ctx.shells().confinement(ctx.workspace, network=ctx.network)
    return sandbox_hint(found, result.ended.output.text(), approver=ctx.grants_network)


def _told(ctx: ToolContext, command: str, result: "ShellResult", hint: str) -> ToolOutput:
    ended = result.ended
    if ended.output.file is not None:
        ctx.allow_reading(ended.output.file)
    said = [ended.verdict]
    if not ended.left_over and _starts_jobs(command):
        said.append(JOBS_END)
    if result.touched:
        names = ", ".join(relative(ctx.workspace, str(path)) for path in result.touched[:10])
        said.append(
            f"Warning: the command changed protected files that make other programs run code: {names}."
        )
    if result.veiled:
        names = ", ".join(relative(ctx.workspace, str(path)) for path in result.veiled[:10])
        said.append(f"Hidden from the command, because reading is denied: {names}.")
    trace = Trace(commands=(CommandRun(command, ended.exit_code),))
    note = " ".join(filter(None, (*said, hint)))
    failed = ended.cause != "exited" or ended.exit_code != 0
    text = ended.output.text().rstrip("\n")
    return ToolOutput(text or "(no output)", trace, failed, paged=True, foreign=True, note=note)


def _starts_jobs(command: str) -> bool:
    """Whether a command seems to start processes with `&`; only a hint depends on it."""
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    try:
        return "&" in words
    except ValueError:
        return False
