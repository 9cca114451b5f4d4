"""Other processes that use the same database."""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from pathlib import Path

ROOT = Path(__file__).parents[2]


async def start(command: str, path: Path, *rest: str) -> Process:
    """A process that is ready to go."""
    program = [sys.executable, "-m", "tests.stores.other_process", command, str(path), *rest]
    process = await asyncio.create_subprocess_exec(*program, cwd=ROOT, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    assert process.stdout
    line = await process.stdout.readline()
    if line != b"ready\n":
        raise AssertionError((await process.communicate())[1].decode())
    return process


async def outcomes(*processes: Process) -> list[str]:
    """Let them all go at once; what each one said, once all have ended well."""
    said = await asyncio.gather(*(process.communicate(b"go\n") for process in processes))
    assert [
        (process.returncode, err.decode()) for process, (_, err) in zip(processes, said, strict=True)
    ] == [(0, "") for _ in processes]
    return [out.decode().strip() for out, _ in said]
