"""Names the process that holds a lease, so that others on the machine can tell whether it still lives."""

import os
import socket
from pathlib import Path
from typing import Literal

from gencode.core.ids import new_id

OwnerState = Literal["alive", "dead", "unknown"]
"""What became of an owner; `unknown` for a process of another machine or container."""

LEASE_SECONDS = 15.0
"""So long a lease runs that is not renewed, where nothing else is said."""
QUEUE = "queue"
"""The owner, for everybody else, of a task that is given to workers: only they end it."""
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def new_owner() -> str:
    """A name for this process start: where it runs, its process id, when it began, and a random end."""
    return "|".join((_place(), boot_id(), str(os.getpid()), _began(os.getpid()), new_id()))


def owner_state(owner: str) -> OwnerState:
    """Whether the process behind an owner's name still lives."""
    match owner.split("|"):
        case [place, boot, process, began, _] if place == _place() and process.isdigit():
            if boot != boot_id() or not _exists(int(process)):
                return "dead"
            return "alive" if began == _began(int(process)) and not _buried(int(process)) else "dead"
        case _:
            return "unknown"


def machine_of(owner: str) -> str:
    """The machine on which the process behind an owner's name runs; the name itself where it says none."""
    place, rest, _ = owner.partition("|")
    return place.split(" ")[0] if rest else owner


def process_label(owner: str) -> str:
    """The process behind an owner's name as a person finds it; the name itself where it says none."""
    match owner.split("|"):
        case [_, _, process, _, _]:
            return f"process {process} on {machine_of(owner)}"
        case _:
            return owner


def process_of(owner: str) -> int:
    """The process behind an owner's name, if it is, or was, one of this machine; 0 else."""
    match owner.split("|"):
        case [place, boot, process, _, _] if (place, boot) == (_place(), boot_id()) and process.isdigit():
            return int(process)
        case _:
            return 0


def suspended(owner: str) -> bool:
    """Whether the process behind an owner's name is suspended, as by Ctrl-Z, where that can be told."""
    return owner_state(owner) == "alive" and _state(process_of(owner)) in ("T", "t")


def _place() -> str:
    """This machine and, on Linux, the container: process ids mean something only within it."""
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        space = ""
    return f"{socket.gethostname()} {space}".strip()


def boot_id() -> str:
    """Which start of this machine it is; empty where that cannot be told."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


def _began(process: int) -> str:
    """When a process began, in ticks since the machine did; empty where that cannot be told."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[19]


def _buried(process: int) -> bool:
    """Whether a process has ended and only its parent has not looked yet."""
    return _state(process) in ("Z", "X")


def _state(process: int) -> str:
    """The letter that the system has for what a process does; empty where that cannot be told."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return ""
    return stat.rpartition(")")[2].split()[0]


def _exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
