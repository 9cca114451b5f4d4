"""The clipboard of the person's desktop, where the terminal itself does not pass text or pictures on.

Textual tells the terminal what to copy (OSC 52). Not every terminal obeys, and tmux does so only where it is
set up for it; so a program of the desktop is told as well, where there is one.
"""

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress

from gencode.files.images import LARGEST_PICTURE

SECONDS = 3.0
"""So long a program of the desktop may take."""
_COPY = (
    ("TMUX", ("tmux", "load-buffer", "-w", "-")),
    ("WAYLAND_DISPLAY", ("wl-copy",)),
    ("DISPLAY", ("xclip", "-selection", "clipboard")),
    ("DISPLAY", ("xsel", "--clipboard", "--input")),
    ("", ("pbcopy",)),
)
_PICTURE = (
    ("WAYLAND_DISPLAY", ("wl-paste", "--type", "image/png")),
    ("DISPLAY", ("xclip", "-selection", "clipboard", "-target", "image/png", "-out")),
    ("", ("pngpaste", "-")),
)


async def copy_text(text: str) -> None:
    """Copy a text with every program that can."""
    for command in _available(_COPY, os.environ):
        await _run(command, text.encode())


async def copied_picture() -> bytes:
    """The picture on the clipboard as PNG; empty where there is none, or nothing that could read it."""
    for command in _available(_PICTURE, os.environ):
        if found := await _run(command):
            return found
    return b""


def _available(
    programs: Sequence[tuple[str, tuple[str, ...]]], environ: Mapping[str, str]
) -> list[tuple[str, ...]]:
    """The programs that are installed and whose desktop is there."""
    return [
        command
        for needs, command in programs
        if (not needs or environ.get(needs)) and shutil.which(command[0])
    ]


async def _run(command: Sequence[str], given: bytes = b"") -> bytes:
    """What a program writes, if it ends well and in time. One that serves the clipboard goes on by itself."""
    pipe, null = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=null if given else pipe, stderr=null, limit=LARGEST_PICTURE
        )
    except OSError:
        return b""
    try:
        async with asyncio.timeout(SECONDS):
            found, _ = await process.communicate(given)
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        return b""
    return found or b"" if process.returncode == 0 else b""
