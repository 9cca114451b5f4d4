"""Lists the descendants of a process, and ends them all.

On Linux the root of a family adopts its orphans, so whoever is left is always reachable from it, and when the
kernel says that it has no child, nobody is left. Where orphans cannot be adopted (macOS) a family is what
still hangs together by parent or by process group: a process that left both behind is not found.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

TERM_SECONDS = 0.2
"""How long a family has to end by itself after SIGTERM."""
KILL_SECONDS = 1.3
"""How long SIGKILL is repeated before those who are left are reported: they sleep in the kernel."""
_ROUND_SECONDS = 0.02
_FREEZING_PASSES = 50

Members = dict[int, int]
"""Process ids, each with its process group."""

ProcessTable = dict[int, tuple[int, int]]
"""All processes of the machine: id, parent, process group."""


def descendants(root: int, proc: str = "/proc") -> Members:
    """Everybody below a process."""
    if sys.platform == "linux" and os.access(f"{proc}/{root}/task/{root}/children", os.R_OK):
        return _by_children_files(root, proc)
    return below((root,), list_processes(proc))


def below(roots: Iterable[int], all_processes: ProcessTable) -> Members:
    """Everybody below some processes, without those themselves."""
    children: dict[int, list[int]] = {}
    for process, (parent, _) in all_processes.items():
        children.setdefault(parent, []).append(process)
    found: Members = {}
    waiting = list(roots)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found[child] = all_processes[child][1]
                waiting.append(child)
    return found


def list_processes(proc: str = "/proc") -> ProcessTable:
    """Every process there is."""
    if sys.platform != "linux":
        return _processes_by_ps()
    found: ProcessTable = {}
    for name in _names(proc):
        if name.isdigit() and (stat := _read(f"{proc}/{name}/stat")):
            _, parent, group, _ = stat[stat.rindex(b")") + 2 :].split(None, 3)
            found[int(name)] = (int(parent), int(group))
    return found


def _processes_by_ps() -> ProcessTable:
    import subprocess  # only here: on Linux the fork server never loads it

    with subprocess.Popen(["/bin/ps", "-axo", "pid=,ppid=,pgid="], stdout=subprocess.PIPE) as listing:
        text, _ = listing.communicate()
    rows = [[int(word) for word in line.split()] for line in text.splitlines()]
    return {pid: (parent, group) for pid, parent, group in rows if pid != listing.pid}


def _by_children_files(root: int, proc: str) -> Members:
    found: Members = {}
    waiting = [root]
    while waiting:
        for child in _children(waiting.pop(), proc):
            if child not in found:
                found[child] = _group(child)
                waiting.append(child)
    return found


def _children(process: int, proc: str) -> list[int]:
    folder = f"{proc}/{process}/task"
    texts = [_read(f"{folder}/{thread}/children") for thread in _names(folder)]
    return [int(word) for text in texts for word in text.split()]


def _group(process: int) -> int:
    try:
        return os.getpgid(process)
    except OSError:
        return 0


def _names(folder: str) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries]
    except OSError:
        return []


def _read(path: str) -> bytes:
    """A small file of /proc, all of it; nothing when its process has gone."""
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError:
        return b""
    try:
        text = b""
        while piece := os.read(file, 65536):
            text += piece
        return text
    except OSError:
        return b""
    finally:
        os.close(file)


def stop(members: Callable[[], Members], gone: Callable[[float], bool]) -> int:
    """End a family: SIGTERM, 200 ms, SIGKILL until nobody is left. Who cannot be ended is counted.

    `gone` waits at most so many seconds for the last one to end.
    """
    family = members()
    send_signal(family, signal.SIGTERM)
    send_signal(family, signal.SIGCONT)
    return 0 if gone(TERM_SECONDS) else kill(members, gone)


def kill(members: Callable[[], Members], gone: Callable[[float], bool]) -> int:
    """SIGKILL until nobody is left. Who cannot be ended is counted."""
    limit = time.monotonic() + KILL_SECONDS
    while True:
        kill_once(members)
        if gone(_ROUND_SECONDS):
            return 0
        if time.monotonic() > limit:
            return max(1, len(members()))


def kill_once(members: Callable[[], Members]) -> None:
    """One round of SIGKILL."""
    send_signal(_frozen(members), signal.SIGKILL)


def _frozen(members: Callable[[], Members]) -> Members:
    """A family in which nobody can fork any more, so that a fork bomb cannot outrun the killing."""
    stopped: set[int] = set()
    for _ in range(_FREEZING_PASSES):
        family = members()
        running = family.keys() - stopped
        if not running:
            return family
        send_signal({process: family[process] for process in running}, signal.SIGSTOP)
        stopped |= running
    return members()


def send_signal(members: Members, number: int) -> None:
    """Signal everybody once, group by group: the kernel lets nobody fork out of a signal to a group."""
    for group in {group for group in members.values() if group > 1}:
        _signal(-group, number)
    for process, group in members.items():
        if group <= 1:
            _signal(process, number)


def _signal(target: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(target, number)
