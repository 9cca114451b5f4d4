"""The environment of an agent: folder, git, machine, model, sandbox, and when its conversation began.

It is read when a conversation begins and is the same for its subagents: system prompts of one kind are
identical, so that the provider's prompt cache serves all of them.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.text import one_line

if TYPE_CHECKING:
    from gencode.sandbox.confinement import Confinement

LONGEST_PATH = 4_096
LONGEST_BRANCH = 120
LONGEST_COMMIT = 100
MOST_KEPT = 64
MOST_WRITABLE = 5
GIT_SECONDS = 2.0
"""A git status that takes longer is left out: it would delay the start of a conversation."""
_HEAD = b"# branch.head "
_DETACHED = b"(detached)"


class GitState(Struct, frozen=True):
    """A git checkout. `branch` is empty if HEAD is detached, `commit` if there is none yet.

    `changed` counts the files and new folders with uncommitted changes; None if that is not known.
    """

    branch: str
    commit: str
    """Its abbreviated name and the first line of its message."""
    changed: int | None


class AgentEnvironment(Struct, frozen=True):
    """The environment in the system prompt; `confinement` only for an agent that can run commands."""

    cwd: str
    began: datetime
    git: GitState | None = None
    confinement: "Confinement | None" = None

    def lines(self, model: str, *, timed: bool) -> str:
        """The section of the system prompt, for this model.

        Without the time it is the same for all agents that start on one day, so earlier results can be
        reused.
        """
        facts = [
            f"Working directory: {one_line(self.cwd, LONGEST_PATH)}",
            f"Git: {_git_words(self.git)}",
            f"System: {_system()}",
            f"Model: {one_line(model, 200)}",
            f"This session began: {moment(self.began)}" if timed else f"Date: {self.began:%Y-%m-%d (%A)}",
        ]
        return "\n- ".join(("## Environment", *facts))


class EnvironmentReader:
    """Reads environments, and caches that of a folder for the subagents of a conversation, for one day."""

    def __init__(self) -> None:
        self._known: dict[str, AgentEnvironment] = {}

    async def read(
        self, cwd: Path, confined: "Callable[[], Awaitable[Confinement]] | None", *, anew: bool
    ) -> AgentEnvironment:
        """The environment of an agent; read `anew` when a conversation begins."""
        now = datetime.now().astimezone()
        known = None if anew else self._known.get(str(cwd))
        if known is None or known.began.date() != now.date():
            known = AgentEnvironment(str(cwd), now)
            state, confinement = await asyncio.gather(git_state(cwd), _found(confined))
            known = AgentEnvironment(str(cwd), now, state, confinement)
            if len(self._known) >= MOST_KEPT:
                self._known.clear()
            self._known[str(cwd)] = known
        if confined is None:
            return AgentEnvironment(known.cwd, known.began, known.git)
        if known.confinement is None:
            known = AgentEnvironment(known.cwd, known.began, known.git, await confined())
            self._known[str(cwd)] = known
        return known


async def _found(confined: "Callable[[], Awaitable[Confinement]] | None") -> "Confinement | None":
    return None if confined is None else await confined()


def moment(at: datetime) -> str:
    """A day and time with its zone, as `2026-11-19 (Thursday) 14:11 CET, UTC+0100`."""
    zone = at.strftime("%Z")
    offset = f"UTC{at.strftime('%z')}".removesuffix("+0000")
    return f"{at:%Y-%m-%d (%A) %H:%M} {offset if zone in ('', offset) else f'{zone}, {offset}'}"


def _system() -> str:
    if sys.platform == "win32":
        return sys.platform
    machine = os.uname()
    return f"{machine.sysname} {machine.release} {machine.machine}; commands run in bash"


async def git_state(folder: Path) -> GitState | None:
    """The state of the checkout around a folder; None if there is none, or git cannot tell."""
    top = _repository_around(folder)
    if top is None:
        return None
    from gencode.workspaces.worktrees.git import safe_git  # most folders need no git

    try:
        git = await safe_git(folder, top)
        status, last = await asyncio.gather(
            git.run(
                *("status", "--porcelain=v2", "--branch", "-z", "--no-renames"),
                *("--untracked-files=normal", "--ignore-submodules=all"),
                seconds=GIT_SECONDS,
            ),
            git.run("log", "-1", "--format=%h %s", seconds=GIT_SECONDS),
        )
    except UserMistake:
        return None
    if not status.ok and not last.ok:
        return None
    heads = [each.removeprefix(_HEAD) for each in status.names if each.startswith(_HEAD)]
    branch = heads[0] if heads and heads[0] != _DETACHED else b""
    changed = sum(not each.startswith(b"# ") for each in status.names) if status.ok else None
    return GitState(
        os.fsdecode(branch), last.out.decode(errors="replace").strip() if last.ok else "", changed
    )


def _repository_around(folder: Path) -> Path | None:
    return next((each for each in (folder, *folder.parents) if os.path.lexists(each / ".git")), None)


def _git_words(state: GitState | None) -> str:
    if state is None:
        return "not a repository"
    branch = one_line(state.branch, LONGEST_BRANCH)
    parts = [f"branch {branch}" if branch else "HEAD is detached"]
    match state.changed:
        case None:
            parts.append("whether files have uncommitted changes is not known")
        case 0:
            parts.append("no uncommitted changes")
        case count:
            parts.append(f"{count:,} {'file' if count == 1 else 'files'} with uncommitted changes")
    last = one_line(state.commit, LONGEST_COMMIT)
    parts.append(f"last commit {last}" if last else "no commit yet")
    return ", ".join(parts)


def sandbox_lines(
    found: "Confinement", cwd: str, *, approver: bool, background: bool = True
) -> Iterator[str]:
    """What commands can do and reach, one sentence each.

    `approver`: somebody can allow more; `background`: the agent can start commands in the background.
    """
    if not found.sandbox:
        yield "Commands run without a sandbox: they can do whatever the user can."
        return
    yield f"Commands run in a sandbox ({found.sandbox})."
    yield _writable(found, cwd)
    yield from _network(found, approver=approver, background=background)
    yield "If the sandbox prevents something you need, say so instead of working around it."


def _writable(found: "Confinement", cwd: str) -> str:
    named = [_place(each, cwd) for each in found.writable[:MOST_WRITABLE]]
    kept = "; .git/config, .git/hooks and .gen in there are read-only" if found.guarded and named else ""
    if found.private_tmp:
        temp = f"{found.temp} ($TMPDIR) is private to the commands of your task: file tools see another one."
    else:
        temp = "$TMPDIR is private to your task; /tmp is read-only."
    return f"They can write only in {_listed((*named, '$TMPDIR'))}{kept}. {temp}"


def _listed(names: Sequence[str]) -> str:
    *more, last = names
    return f"{', '.join(more)} and {last}" if more else last


def _place(folder: str, cwd: str) -> str:
    return "the working directory" if folder == cwd else one_line(folder, LONGEST_PATH)


def _network(found: "Confinement", *, approver: bool, background: bool) -> Iterator[str]:
    from gencode.sandbox.confinement import Localhost, NetworkAccess

    way = "; ask for it with `network` and your reason" if found.network_on_request and approver else ""
    match found.network:
        case NetworkAccess.NONE:
            yield f"They have no network{way}."
        case NetworkAccess.NO_TCP:
            yield f"They cannot make TCP connections{way}."
        case NetworkAccess.ALL:
            yield "They can use the network."
    match found.localhost:
        case Localhost.TASK if background:
            yield (
                "Your later commands reach a server that you start with run_in_background on 127.0.0.1; "
                "nobody else does, and other servers of this machine cannot be reached."
            )
        case Localhost.COMMAND | Localhost.TASK:
            yield "Each command has a localhost of its own: start a server and use it in the same command."
        case Localhost.NONE:
            yield "They cannot use localhost either."
        case Localhost.MACHINE:
            pass
