"""sandbox: bubblewrap, which builds a file system, a process space and a network of the command's own."""

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from gencode.runtime.sandbox.guards import kind
from gencode.runtime.sandbox.namespaces import COMES_AND_GOES
from gencode.runtime.sandbox.plan import Access, Enclosure, layers

KEPT_OF_ROOT = ("CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID")
"""What root still may inside: with files as with its own. All else goes, or it could take the wall down."""


def enclose(program: str, argv: Sequence[str], plan: Enclosure, *, patient: str | None = None) -> list[str]:
    """The command line that runs another one enclosed.

    `patient` is GNU env. A SIGTERM to everybody would end bubblewrap at once, and with it, by SIGKILL, a
    command that wanted to clean up. So bubblewrap ignores it, and the command does not.
    """
    wall = [program, *_options(plan)]
    if patient is None or "=" in argv[0]:
        return [*wall, "--", *argv]
    return [patient, "--ignore-signal=TERM", *wall, "--", patient, "--default-signal=TERM", *argv]


def _options(plan: Enclosure) -> Iterator[str]:
    yield from ("--die-with-parent", "--new-session", "--unshare-pid", "--unshare-ipc")
    if not plan.network:
        yield "--unshare-net"
    if os.geteuid() == 0:
        yield from ("--cap-drop", "ALL")
        for name in KEPT_OF_ROOT:
            yield from ("--cap-add", name)
    places = layers(plan)
    root = Path("/")
    yield from ("--bind" if (root, Access.WRITE) in places else "--ro-bind", "/", "/")
    yield from ("--dev", "/dev", "--proc", "/proc")
    masks: list[str] = []
    for place, access in places:
        path = str(place)
        match access:
            case Access.WRITE if place != root:
                yield from (f"--bind{_if_there(path)}", path, path)
            case Access.READ:
                yield from (f"--ro-bind{_if_there(path)}", path, path)
            case Access.HIDE if stat.S_ISDIR(kind(place)):
                masks.append(path)
                yield from ("--tmpfs", path)
            case Access.HIDE:
                yield from ("--ro-bind", os.devnull, path)
            case Access.WRITE:
                pass
    for path in masks:
        yield from ("--remount-ro", path)
    yield from ("--setenv", "TMPDIR", str(plan.temp))


def _if_there(path: str) -> str:
    """What git knows of a linked worktree may be gone by the time the command starts."""
    return "-try" if COMES_AND_GOES in path else ""
