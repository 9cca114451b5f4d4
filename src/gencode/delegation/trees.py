"""Agents in git worktrees of their own: made before they start, summed up when they have ended.

What makes worktrees is loaded when the first one is wanted.
"""

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gencode.core.errors import GenCodeError, UserMistake
from gencode.core.spec import Workspace
from gencode.runtime.seat import Ending

if TYPE_CHECKING:
    from gencode.runtime.worktrees import Worktree

NO_HOME = "A worktree needs a folder of GenCode's own, and there is none here; leave isolation out."


class Workplace:
    """The worktree of one agent."""

    def __init__(self, tree: "Worktree") -> None:
        self._tree = tree

    @property
    def workspace(self) -> Workspace:
        """Where the agent works."""
        return self._tree.workspace

    @property
    def notes(self) -> tuple[str, ...]:
        """What the agent's sender should know of it."""
        return self._tree.notes

    async def summed_up(self, ending: Ending) -> Ending:
        """How the agent ended, with what it changed and how that can be taken over."""
        from gencode.runtime.worktrees import result

        try:
            work = await result(self._tree)
        except GenCodeError as trouble:
            kept = f"its worktree {self._tree.path} is kept as it is: {trouble}"
            return replace(ending, warnings=(*ending.warnings, kept))
        text = "\n\n".join(part for part in (ending.text.strip(), work.told()) if part)
        return replace(ending, text=text, warnings=(*ending.warnings, *self.notes))


class Workplaces:
    """Makes worktrees below the folder `home`."""

    def __init__(self, home: Path | None) -> None:
        self._home = home

    async def make(self, workspace: Workspace) -> Workplace:
        """A worktree for a new agent; UserMistake where there can be none."""
        from gencode.runtime.worktrees import make

        if self._home is None:
            raise UserMistake(NO_HOME)
        return Workplace(await make(workspace, self._home, secrets.token_hex(4)))

    async def again(self, path: str, workspace: Workspace) -> Workplace:
        """The worktree that an agent had before; UserMistake when it is gone."""
        from gencode.runtime.worktrees import find

        return Workplace(await find(Path(path), workspace))
