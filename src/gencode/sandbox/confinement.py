"""What the sandbox enforces for the commands of a task: facts for agents, and hints below failures."""

import errno
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from gencode.sandbox.choose_sandbox import Sandbox
    from gencode.sandbox.profile import SandboxProfile


_READ_ONLY = tuple(os.strerror(number) for number in (errno.EROFS, errno.EBUSY))
_UNREACHABLE = tuple(os.strerror(number) for number in (errno.ENETUNREACH, errno.EHOSTUNREACH))
_UNRESOLVED = ("Could not resolve host", "Temporary failure in name resolution", "Name or service not known")
LONGEST_LOOKED_AT = 20_000


class NetworkAccess(StrEnum):
    """Whom commands reach beyond this machine."""

    NONE = "none"
    NO_TCP = "no_tcp"
    """No TCP connections to anybody; datagrams, such as DNS lookups, go out."""
    ALL = "all"


class Localhost(StrEnum):
    """Which servers commands reach on 127.0.0.1."""

    TASK = "task"
    """Those that commands of the same task started; the machine's own servers are not there."""
    COMMAND = "command"
    """Only those that the same command started."""
    MACHINE = "machine"
    """All of this machine."""
    NONE = "none"
    """No TCP at all."""


class Confinement(Struct, frozen=True):
    """What holds for every command of a task that is not given more by a person.

    `sandbox` is its name, empty where there is none: then a command can do whatever the user can.
    """

    sandbox: str
    network: NetworkAccess
    localhost: Localhost
    network_on_request: bool
    """Whether a person can let a single command reach the network."""
    writable: tuple[str, ...] = ()
    """The folders that can be written, beside the temporary ones; empty where everything can be."""
    temp: str = ""
    """The folder that commands find in $TMPDIR; empty where it is the system's own."""
    private_tmp: bool = False
    """Whether that folder is also /tmp to them, so that they write and see no other."""
    guarded: bool = False
    """Whether the hooks and settings of git and of GenCode in those folders are read-only."""


def confinement(sandbox: "Sandbox | None", profile: "SandboxProfile") -> Confinement:
    """What a sandbox does of a profile; None is no sandbox."""
    if sandbox is None or not sandbox.exists:
        return Confinement("", NetworkAccess.ALL, Localhost.MACHINE, network_on_request=False)
    open_to = sandbox.seen.possible
    if profile.network or "tcp" in open_to:
        network, localhost = NetworkAccess.ALL, Localhost.MACHINE
    else:
        network = NetworkAccess.NO_TCP if "udp" in open_to else NetworkAccess.NONE
        shared = Localhost.TASK if sandbox.shares_network else Localhost.COMMAND
        localhost = shared if "localhost" in open_to else Localhost.NONE
    private_tmp = profile.private_tmp and "tmp" in open_to
    return Confinement(
        sandbox.name,
        network,
        localhost,
        network_on_request=network is not NetworkAccess.ALL,
        writable=tuple(str(place) for place in _outermost(profile.writable)),
        temp="/tmp" if private_tmp else str(profile.temp),  # noqa: S108
        private_tmp=private_tmp,
        guarded="guarded" not in open_to,
    )


def _outermost(places: tuple[Path, ...]) -> list[Path]:
    return [place for place in places if not any(other in place.parents for other in places)]


def sandbox_hint(found: Confinement, output: str, *, approver: bool) -> str:
    """A hint below a command that failed in a way the sandbox causes; empty where nothing points to it.

    `approver` says whether somebody can give a command access to the network.

    A wall says nothing: the command's own programs say what the kernel or the resolver answered them.
    """
    if not found.sandbox:
        return ""
    said = output[-LONGEST_LOOKED_AT:]
    parts: list[str] = []
    if any(words in said for words in _READ_ONLY):
        places = " and ".join((", ".join(found.writable), "$TMPDIR")) if found.writable else "$TMPDIR"
        kept = (
            ", but not .git/config, .git/hooks and .gen in there" if found.guarded and found.writable else ""
        )
        parts.append(f"write only in {places}{kept}")
    if found.network is not NetworkAccess.ALL and any(
        words in said for words in (*_UNREACHABLE, *_UNRESOLVED)
    ):
        asked = "; ask for it with `network`" if found.network_on_request and approver else ""
        parts.append(f"have no network{asked}")
    return f"This may be the sandbox: commands {', and '.join(parts)}." if parts else ""
