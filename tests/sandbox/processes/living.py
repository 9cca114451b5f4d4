"""Who still lives of what a test started, known by a word that only this test puts on command lines."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

Found = TypeVar("Found")

HOSTILE = """
trap '' TERM
setsid bash -c "trap '' TERM; (trap '' TERM; sleep 300; : WORD) & sleep 300; : WORD" &
( setsid bash -c "trap '' TERM; sleep 300; : WORD" & )
setsid setsid bash -c "( ( sleep 300; : WORD ) & ) & sleep 300; : WORD" > /dev/null &
echo ready
while :; do sleep 300; done; : WORD
"""
"""Leaves its session, forks twice, and ignores SIGTERM, in every combination."""
SLEEPERS = HOSTILE.count("sleep")
"""So many of its processes stay until somebody ends them."""


def new_word() -> str:
    """A word nobody else uses."""
    return f"w{uuid4().hex}"


def alive(word: str) -> list[int]:
    """The processes, but this one, with the word on their command line or in their environment."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                known = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            except OSError:
                continue
            if word.encode() in known:
                found.append(int(folder.name))
    return found


async def eventually(check: Callable[[], Found], seconds: float = 20) -> Found:
    """What the check says as soon as it says something, or at the end."""
    for _ in range(int(seconds / 0.01)):
        if found := check():
            return found
        await asyncio.sleep(0.01)
    return check()


def python(script: str, *arguments: str) -> tuple[str, ...]:
    """A command that runs a Python script quickly."""
    return (sys.executable, "-S", "-E", "-c", script, *arguments)
