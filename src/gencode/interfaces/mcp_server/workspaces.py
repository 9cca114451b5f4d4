"""Rooms: one open GenCode for each folder that a client works in, kept until the server ends (MCP server)."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from gencode.app import GenCode
from gencode.core.errors import UserMistake
from gencode.core.rules import Action, Mode, Policy, Rule, parse_mode
from gencode.core.status import EndReason, StopCause
from gencode.permissions.paths import PATH_TOOLS
from gencode.settings import load

MOST_ROOMS = 32
GONE = StopCause(EndReason.CALLER_GONE, "the client it worked for has gone; it can be resumed")
STRICTNESS = (Mode.DONT_ASK, Mode.ACCEPT_EDITS, Mode.DEFAULT, Mode.UNATTENDED, Mode.PLAN)

Opening = Callable[[Path, Mapping[str, Any]], AbstractAsyncContextManager[GenCode]]
"""Opens GenCode in a folder with these settings."""


class Rooms:
    """Opens rooms when they are wanted. `base` is the folder of the server; no room lies outside of it."""

    def __init__(self, base: Path, flags: Mapping[str, Any], opening: Opening) -> None:
        self.base = base
        self._flags = flags
        self._opening = opening
        self._rooms: dict[Path, _Room] = {}
        self._policy: Policy | None = None

    async def open(self) -> GenCode:
        """The room of the base, so that mistakes of the settings are told before anything else."""
        gen = await self.at(self.base)
        self._policy = gen.root.policy
        return gen

    async def at(self, folder: Path) -> GenCode:
        """The GenCode that works in a folder."""
        if folder not in self._rooms:
            await self._make_place()
        room = self._rooms.get(folder)  # somebody else may have come meanwhile
        if room is None:
            room = self._rooms[folder] = _Room(self._opening(folder, self._settings(folder)))
        await asyncio.wait([room.gen, room.life], return_when=asyncio.FIRST_COMPLETED)
        if not room.gen.done():
            self._rooms.pop(folder, None)
            await room.life  # which says why it could not be opened
        return room.gen.result()

    async def _make_place(self) -> None:
        """Close a room in which nobody works, where there are too many."""
        while len(self._rooms) >= MOST_ROOMS:
            idle = (at for at, room in self._rooms.items() if at != self.base and room.idle)
            if (folder := next(idle, None)) is None:
                raise UserMistake(f"Agents work in {MOST_ROOMS} folders already; wait until one has ended.")
            await self._rooms.pop(folder).close()

    def open_ones(self) -> Iterator[GenCode]:
        """Everything that is open."""
        for room in tuple(self._rooms.values()):
            if room.gen.done():
                yield room.gen.result()

    async def close(self) -> None:
        """Stop what still runs, and close every room."""
        for gen in self.open_ones():
            gen.supervisor.stop.stop(GONE)
        rooms = list(self._rooms.values())
        self._rooms.clear()
        await asyncio.gather(*(room.close() for room in rooms))

    def _settings(self, folder: Path) -> dict[str, Any]:
        """The flags of the server. The mode is always named, so that tasks go on under it and no other.

        In a folder below the base, what is asked about or refused there is so here, too.
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


class _Room:
    """One GenCode, opened and closed by a task of its own, whoever asked for it first."""

    def __init__(self, opening: AbstractAsyncContextManager[GenCode]) -> None:
        self.gen: asyncio.Future[GenCode] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self.life = asyncio.create_task(self._live(opening))

    async def _live(self, opening: AbstractAsyncContextManager[GenCode]) -> None:
        async with opening as gen:
            self.gen.set_result(gen)
            await self._closing.wait()

    @property
    def idle(self) -> bool:
        """Whether nobody works there."""
        return self.gen.done() and not len(self.gen.result().supervisor)

    async def close(self) -> None:
        """Let it close, and wait for that."""
        self._closing.set()
        await self.life


def _anchored(rule: Rule, base: Path) -> str:
    """A rule of the base as it is written elsewhere: what it anchors there is meant there."""
    relative = "/" in rule.pattern and not rule.pattern.startswith(("/", "~"))
    if relative and any(rule.names(tool) for tool in PATH_TOOLS):
        return f"{rule.tool}({base.as_posix()}/{rule.pattern.removeprefix('./')})"
    return f"{rule.tool}({rule.pattern})"
