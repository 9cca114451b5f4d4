"""Chooses the sandbox that works on this machine, by building one and trying it."""

import os
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path

from msgspec import Struct

from gencode.core.structs import replace
from gencode.sandbox import bubblewrap, landlock, seatbelt
from gencode.sandbox.profile import SandboxProfile
from gencode.sandbox.trial import Enclose, TrialResult, restrictions, try_sandbox, unenforced

_PROGRAM_FOLDERS = ("/usr/bin", "/bin", "/usr/local/bin", "/run/current-system/sw/bin")
"""Not PATH: a repository or a command could have put something in front of it."""

NOTHING = "nothing"
_INSTALL = "install bubblewrap (apt install bubblewrap)"
_BUBBLEWRAP = "bubblewrap"


class SandboxCandidate(Struct, frozen=True):
    """One way to build a wall."""

    name: str
    enclose: Enclose


class Sandbox(Struct, frozen=True):
    """The wall that was chosen, or none; `passed_over` says why better ones were not."""

    name: str
    seen: TrialResult
    wall: Enclose | None = None
    passed_over: tuple[str, ...] = ()
    shares_network: bool = False
    """Whether it also holds for commands that are started in a network namespace of their task."""

    @property
    def exists(self) -> bool:
        """Whether commands are enclosed at all."""
        return self.wall is not None

    def enclose(self, argv: Sequence[str], plan: SandboxProfile) -> list[str]:
        """The command line that runs another one enclosed; without a wall the very same one."""
        return list(argv) if self.wall is None else self.wall(argv, plan)

    @property
    def needs_placeholders(self) -> bool:
        """Whether it keeps what is guarded from being changed, and not from being made."""
        return self.exists and "missing" in self.seen.possible and "guarded" not in self.seen.possible

    @property
    def hides(self) -> bool:
        """Whether it can keep a command from reading something."""
        return self.exists and "hidden" not in self.seen.possible

    @property
    def supports_aliases(self) -> bool:
        """Whether a folder can be given another name in it."""
        return self.name.startswith(_BUBBLEWRAP)

    def enforced(self) -> list[str]:
        """What commands cannot do, in sentences."""
        return list(restrictions(self.seen.possible)) if self.exists else []

    def not_enforced(self) -> list[str]:
        """What commands can do although one might think otherwise, in sentences."""
        if not self.exists:
            return ["A command that is allowed can do whatever you can."]
        return list(unenforced(self.seen.possible))

    def report(self) -> list[str]:
        """All of it: by what, what is and what is not enforced, and why it is not more."""
        by = f"Commands run in a sandbox: {self.name}." if self.exists else "There is no sandbox here."
        return [by, *self.enforced(), *self.not_enforced(), *self.passed_over]

    def advice(self) -> str:
        """What would give more; empty when there is nothing."""
        wanted = sys.platform == "linux" and not self.name.startswith(_BUBBLEWRAP)
        return _INSTALL if wanted and _find("bwrap") is None else ""


@cache
def best_sandbox() -> Sandbox:
    """The best wall of this machine. Takes a moment the first time: it is really tried."""
    return first_working(candidates())


def first_working(
    ways: Iterable[SandboxCandidate], trial: Callable[[Enclose], TrialResult] = try_sandbox
) -> Sandbox:
    """The first way that holds."""
    passed_over: list[str] = []
    for way in ways:
        joined = trial(partial(_joined, way.enclose)) if sys.platform == "linux" else TrialResult()
        if joined.works and "localhost" in joined.possible and joined.possible.isdisjoint({"tcp", "udp"}):
            return Sandbox(way.name, joined, way.enclose, tuple(passed_over), shares_network=True)
        seen = trial(way.enclose)
        if seen.works:
            return Sandbox(way.name, seen, way.enclose, tuple(passed_over))
        passed_over.append(f"{way.name} does not work here: {seen.trouble or _failing(seen)}.")
    return Sandbox(NOTHING, TrialResult(), passed_over=tuple(passed_over))


_JOIN = (
    "import os, sys; sys.path.append(sys.argv[1]); "
    "from gencode.sandbox.namespaces import enter_network; enter_network(); "
    "os.execv(sys.argv[2], sys.argv[2:])"
)


def _joined(enclose: Enclose, argv: Sequence[str], plan: SandboxProfile) -> list[str]:
    """The same wall around a command that is in a network namespace already, as those of a task are."""
    python = [sys.executable, "-I", "-S", "-E", "-c", _JOIN, str(Path(__file__).parents[2])]
    return [*python, *enclose(argv, replace(plan, joined=True))]


def _failing(seen: TrialResult) -> str:
    settings = seen.possible.isdisjoint({"create", "overwrite"}) and "kernel" in seen.possible
    return "commands in it can change kernel settings" if settings else "it does not restrict anything"


def candidates() -> Iterator[SandboxCandidate]:
    """Every way there could be here, the best one first."""
    if sys.platform == "darwin":
        yield SandboxCandidate("Seatbelt (sandbox-exec)", seatbelt.enclose)
    if sys.platform != "linux":
        return
    program, shell, env = _find("bwrap"), _find("bash"), _find("env")
    if program and shell:
        wall = partial(bubblewrap.enclose, program, shell)
        if env:
            yield SandboxCandidate(_BUBBLEWRAP, partial(wall, env=env))
        yield SandboxCandidate(f"{_BUBBLEWRAP} without time to clean up", wall)
    yield SandboxCandidate("Landlock with namespaces", partial(landlock.enclose, namespaces=True))
    yield SandboxCandidate("Landlock", partial(landlock.enclose, namespaces=False))


def program_paths() -> list[str]:
    """What builds walls here: bubblewrap and what it needs, our Python, and the modules of this package."""
    found = [path for name in ("bwrap", "bash", "env") if (path := _find(name))]
    return [*found, sys.executable, *(str(each) for each in sorted(Path(__file__).parent.glob("*.py")))]


def _find(name: str) -> str | None:
    """A program of the system. Not one that needs to become root: commands run without that right."""
    for folder in _PROGRAM_FOLDERS:
        path = Path(folder, name)
        if os.access(path, os.X_OK) and not path.stat().st_mode & stat.S_ISUID:
            return str(path)
    return None
