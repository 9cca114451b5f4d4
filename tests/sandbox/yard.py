"""A yard for commands: a workspace, a home, a temporary folder and what lies outside, all real."""

import os
import socket
import subprocess
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gencode.sandbox.choose_sandbox import SandboxCandidate
from gencode.sandbox.profile import SandboxProfile, workspace_profile

BASH = ("/bin/bash", "--noprofile", "--norc", "-c")
SECONDS = 120


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class Yard:
    """`workspace` has a `.git` and a `.gen`; `outside` and `home` hold something worth protecting."""

    base: Path
    wall: SandboxCandidate

    @classmethod
    def build(cls, base: Path, wall: SandboxCandidate) -> "Yard":
        for name in (
            "workspace/.git/hooks",
            "workspace/.gen",
            "workspace/src",
            "home/.gen",
            "outside",
            "temp",
        ):
            (base / name).mkdir(parents=True)
        for name in ("workspace/.git/config", "workspace/.gen/settings.toml", "home/.gen/gencode.db"):
            (base / name).write_text("settled\n")
        (base / "outside" / "old").write_text("old\n")
        return cls(base, wall)

    @property
    def workspace(self) -> Path:
        return self.base / "workspace"

    @property
    def outside(self) -> Path:
        return self.base / "outside"

    def plan(self, *, network: bool = False) -> SandboxProfile:
        return workspace_profile(
            self.workspace, self.base / "temp", self.base / "home" / ".gen", network=network, environ={}
        )

    def argv(self, *command: str, network: bool = False) -> list[str]:
        return self.wall.enclose(command, self.plan(network=network))

    def environment(self) -> dict[str, str]:
        return {**os.environ, "HOME": str(self.base / "home")}

    def bash(self, text: str, *, network: bool = False, files: Sequence[int] = (), stdin: str = "") -> Ended:
        """Run a text the way the Bash tool does, enclosed, in the workspace."""
        ended = subprocess.run(
            self.argv(*BASH, text, network=network),
            cwd=self.workspace,
            env=self.environment(),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            pass_fds=files,
            check=False,
        )
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def everything(self) -> dict[str, str]:
        """Every file and link, with its text or target."""
        return {
            str(path.relative_to(self.base)): f"-> {path.readlink()}"
            if path.is_symlink()
            else path.read_text()
            for path in sorted(self.base.rglob("*"))
            if path.is_symlink() or path.is_file()
        }


@contextmanager
def listening() -> Generator[int]:
    """The port of a TCP server on this machine; the kernel accepts for it."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(16)
        yield server.getsockname()[1]
