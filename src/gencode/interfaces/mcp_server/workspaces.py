"""The workspaces of MCP clients: the folder that a client's roots select, and an open GenCode for each."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from gencode.app import GenCode
from gencode.core.errors import UserMistake
from gencode.core.rules import Action, Mode, Policy, Rule, parse_mode
from gencode.core.status import EndReason, StopCause
from gencode.core.text import exact_line
from gencode.permissions.paths import PATH_TOOLS
from gencode.settings import load

MOST_OPEN = 32
CLIENT_GONE = StopCause(EndReason.CALLER_GONE, "the MCP client has disconnected; the task can be resumed")
STRICTNESS = (Mode.DONT_ASK, Mode.ACCEPT_EDITS, Mode.DEFAULT, Mode.UNATTENDED, Mode.PLAN)

Opening = Callable[[Path, Mapping[str, Any]], AbstractAsyncContextManager[GenCode]]
"""Opens GenCode in a folder with these settings."""


class ClientWorkspaces:
    """Opens workspaces on demand, in the folder of the server (`base`), and keeps them until it ends."""

    def __init__(self, base: Path, flags: Mapping[str, Any], opening: Opening) -> None:
        self.base = base
        self._flags = flags
        self._opening = opening
        self._open: dict[Path, _OpenWorkspace] = {}
        self._policy: Policy | None = None

    async def open(self) -> GenCode:
        """Open the folder of the server: mistakes in the settings are reported at once."""
        gen = await self.at(self.base)
        self._policy = gen.policy
        return gen

    async def at(self, folder: Path) -> GenCode:
        """The GenCode of a folder, opened if it is not."""
        if folder not in self._open:
            await self._close_idle()
        workspace = self._open.get(folder)  # another call may have opened it meanwhile
        if workspace is None:
            opening = self._opening(folder, self._settings(folder))
            workspace = self._open[folder] = _OpenWorkspace(opening)
        await asyncio.wait([workspace.gen, workspace.running], return_when=asyncio.FIRST_COMPLETED)
        if not workspace.gen.done():
            self._open.pop(folder, None)
            await workspace.running  # raises why it could not be opened
        return workspace.gen.result()

    async def _close_idle(self) -> None:
        """Close workspaces without running tasks while too many are open."""
        while len(self._open) >= MOST_OPEN:
            idle = (at for at, each in self._open.items() if at != self.base and each.idle)
            if (folder := next(idle, None)) is None:
                raise UserMistake(f"Agents are running in {MOST_OPEN} folders; wait until one has finished.")
            await self._open.pop(folder).close()

    def all_open(self) -> Iterator[GenCode]:
        """Every open GenCode."""
        for each in tuple(self._open.values()):
            if each.gen.done():
                yield each.gen.result()

    async def close(self) -> None:
        """Stop all running tasks, and close every workspace."""
        for gen in self.all_open():
            gen.running.stop(CLIENT_GONE)
        closing = list(self._open.values())
        self._open.clear()
        await asyncio.gather(*(each.close() for each in closing))

    def _settings(self, folder: Path) -> dict[str, Any]:
        """The options of the server, always with a mode, so that resumed tasks run in this one.

        In a folder below the base, the ask and deny rules of the base apply too, and the stricter mode.
        """
        mode = parse_mode(load(folder, self._flags).permission_mode)
        if self._policy is None or folder == self.base:
            return {**self._flags, "permission_mode": mode.value}
        mode = max(mode, self._policy.mode, key=STRICTNESS.index)
        settings: dict[str, Any] = {**self._flags, "permission_mode": mode.value}
        for action in (Action.ASK, Action.DENY):
            rules = [_anchored(rule, self.base) for rule in self._policy.rules if rule.action is action]
            settings[action.value] = [*self._flags.get(action.value, ()), *rules]
        return settings


class _OpenWorkspace:
    """One GenCode, opened and closed in a task of its own, since several calls may share it."""

    def __init__(self, opening: AbstractAsyncContextManager[GenCode]) -> None:
        self.gen: asyncio.Future[GenCode] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self.running = asyncio.create_task(self._run(opening))

    async def _run(self, opening: AbstractAsyncContextManager[GenCode]) -> None:
        async with opening as gen:
            self.gen.set_result(gen)
            await self._closing.wait()

    @property
    def idle(self) -> bool:
        """Whether no task is running there."""
        return self.gen.done() and not len(self.gen.result().running)

    async def close(self) -> None:
        """Close it, and wait until it is closed."""
        self._closing.set()
        await self.running


def _anchored(rule: Rule, base: Path) -> str:
    """A rule of the base for use in another folder: its relative paths become absolute."""
    relative = "/" in rule.pattern and not rule.pattern.startswith(("/", "~"))
    if relative and any(rule.names(tool) for tool in PATH_TOOLS):
        return f"{rule.tool}({base.as_posix()}/{rule.pattern.removeprefix('./')})"
    return f"{rule.tool}({rule.pattern})"


HERE = ("", "localhost")
MOST_SHOWN = 5


def folder_of(uri: str) -> Path | None:
    """The folder of a `file://` URI, with links resolved; None for anything else."""
    try:
        parts = urlsplit(uri)
        path = Path(unquote(parts.path, errors="surrogateescape"))
        if parts.scheme.casefold() != "file" or parts.netloc not in HERE or not path.is_absolute():
            return None
        return path.resolve()
    except (ValueError, OSError, RuntimeError):  # not a URI, a null byte, a loop of links
        return None


def working_folder(base: Path, roots: Sequence[str]) -> Path:
    """The folder to work in: what `base` and the client's roots have in common.

    A root that contains `base` changes nothing; the first root inside it is used; others are refused.
    """
    folders = [folder for uri in roots if (folder := folder_of(uri)) is not None]
    if not roots or any(base.is_relative_to(folder) for folder in folders):
        return base
    inside = [folder for folder in folders if folder.is_relative_to(base) and folder.is_dir()]
    if inside:
        return inside[0]
    named = ", ".join(exact_line(uri)[:200] for uri in roots[:MOST_SHOWN])
    if any(folder.is_relative_to(base) for folder in folders):
        raise UserMistake(f"None of the client's roots ({named}) is an existing folder in {base}.")
    raise UserMistake(
        f"The client's roots ({named}) are outside of {base}, the folder of gen mcp. "
        "Start gen mcp with --cwd and a folder that contains them."
    )
