"""A shell command that the person types as `!command`: run as in their own shell, its output for the agent.

It is the person's own doing, so no policy decides about it and no sandbox holds it.
"""

import asyncio
import os
import signal
from collections import deque
from contextlib import suppress
from pathlib import Path

from gencode.core.errors import UserMistake
from gencode.core.text import disarmed, inert, quoted, visible_line
from gencode.sandbox.processes.command import find_bash

MOST_OUTPUT = 30_000
"""So many characters of the end of an output are kept: errors stand there."""
_PIECE = 1 << 14


async def run_user_command(command: str, folder: Path) -> str:
    """Run a command to its end; what it was, how it ended and what it wrote, as a message for the agent.

    When this is cancelled, the command and what it started are killed.
    """
    bash = find_bash()
    if bash is None:
        raise UserMistake("Cannot run the command: bash is not installed.")
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *(bash, "-c", command),
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=pipe,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, cut = await _read(process.stdout) if process.stdout else ("", 0)
        code = await process.wait()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    ended = f"exit code {code}" if code >= 0 else f"ended by {signal.Signals(-code).name}"
    left_out = f"[… {cut:,} bytes before this were left out]\n" if cut else ""
    said = f"[The user ran a command: {ended}, in {visible_line(str(folder), 200)}]\n$ {inert(command)}"
    # The message is the user's, its output is not: a commit, say, must not give the agent a task.
    return f"{said}\n{left_out}{quoted(disarmed(output.rstrip())) if output.strip() else '(no output)'}"


async def _read(stream: asyncio.StreamReader) -> tuple[str, int]:
    """The end of what a process writes, and how many bytes before it were left out."""
    kept: deque[bytes] = deque()
    size = cut = 0
    while piece := await stream.read(_PIECE):
        kept.append(piece)
        size += len(piece)
        while size - len(kept[0]) > MOST_OUTPUT:
            first = kept.popleft()
            size -= len(first)
            cut += len(first)
    text = b"".join(kept)
    return text[-MOST_OUTPUT:].decode("utf-8", "replace"), cut + max(len(text) - MOST_OUTPUT, 0)
