"""Names the process that holds a lease, so that others on the machine can tell whether it still runs."""

import os
import socket
from pathlib import Path
from typing import Literal

from gencode.core.ids import new_id

OwnerState = Literal["alive", "dead", "unknown"]
"""The state of an owner; `unknown` for a process of another machine or container."""

LEASE_SECONDS = 15.0
"""How long a lease lasts without renewal, by default."""
QUEUE = "queue"
"""The owner of a task that is in the queue for workers: only workers end it."""
_EXITING = 0x4
"""PF_EXITING among the flags of a process."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def new_owner() -> str:
    """A name for this process: its machine, its process id, its start time, and a random end."""
    return "|".join((_place(), boot_id(), str(os.getpid()), _began(os.getpid()), new_id()))


def owner_state(owner: str) -> OwnerState:
    """Whether the process of an owner still runs; what cannot be read does not count as dead."""
    match owner.split("|"):
        case [place, boot, process, began, _] if place == _place() and process.isdigit():
            number = int(process)
            another = boot_id() not in (boot, "") or _began(number) not in (began, "")
            return "dead" if another or _ending(number) or not _exists(number) else "alive"
        case _:
            return "unknown"


def machine_of(owner: str) -> str:
    """The machine of an owner's process; the name itself if it says none."""
    place, rest, _ = owner.partition("|")
    return place.split(" ")[0] if rest else owner


def process_label(owner: str) -> str:
    """The process of an owner, for a person; the name itself if it says none."""
    match owner.split("|"):
        case [_, _, process, _, _]:
            return f"process {process} on {machine_of(owner)}"
        case _:
            return owner


def process_of(owner: str) -> int:
    """The process id of an owner, if it is, or was, a process of this machine; 0 otherwise."""
    match owner.split("|"):
        case [place, boot, process, _, _] if (place, boot) == (_place(), boot_id()) and process.isdigit():
            return int(process)
        case _:
            return 0


def suspended(owner: str) -> bool:
    """Whether the process of an owner is suspended, as by Ctrl-Z, if that can be read."""
    return owner_state(owner) == "alive" and _state(process_of(owner)) in ("T", "t")


def _place() -> str:
    """This machine and, on Linux, the container: process ids are only valid within it."""
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        space = ""
    return f"{socket.gethostname()} {space}".strip()


def boot_id() -> str:
    """An id of the current boot of this machine; empty if it cannot be read."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def _began(process: int) -> str:
    """When a process began, in ticks since boot; empty if it cannot be read."""
    return _stat(process, 22)


def _ending(process: int) -> bool:
    """Whether a process is exiting or a zombie.

    A reader of a closed pipe may look before the system calls the process a zombie.
    """
    flags = _stat(process, 9)
    return _state(process) in ("Z", "X") or (flags.isdigit() and bool(int(flags) & _EXITING))


def _state(process: int) -> str:
    """The state letter of a process; empty if it cannot be read."""
    return _stat(process, 3)


def _stat(process: int, field: int) -> str:
    """A field of /proc/PID/stat by its number in proc(5), from 3 on; empty if it cannot be read."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[field - 3]


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
