"""Linux namespaces: a file system, processes and a network of the command's own, set up by what becomes it.

Not every machine lets a user do this. Where it does, Landlock's rules, which can only allow, get what they
lack: folders that are read-only inside a writable one, places that are hidden, and no network of any kind.
"""

import os
import signal
import stat
from collections.abc import Callable
from contextlib import suppress

from gencode.sandbox import syscalls

TMP = "/tmp"  # noqa: S108  (the command's own is mounted there)
_SHARED_MEMORY = "/dev/shm"  # noqa: S108  (a new one is mounted there)
_TERMINALS = "/dev/pts"
_NO_PROGRAMS = 0x8
_FOR_THE_COMMAND = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_NEW_TERMINAL = "/dev/ptmx"
OWN_DEVICES = (_SHARED_MEMORY, _TERMINALS)
"""Writable without harm, because they are the command's own."""
_OF_THE_KERNEL = ("/proc", "/sys")
"""Where files are settings of the whole machine: they are never the command's, whatever else is."""
_SPACES = (
    syscalls.NEW_MOUNTS
    | syscalls.NEW_IPC
    | syscalls.NEW_PROCESSES
    | syscalls.NEW_HOST_NAME
    | syscalls.NEW_CONTROL_GROUPS
)
COMES_AND_GOES = "/.git/worktrees/"
"""Where others make and remove folders meanwhile; all else that is missing is a reason not to start."""


def enter_network() -> bool:
    """Move into a network of our own, where only loopback is; whether that took a user space of our own."""
    apart = _leave(syscalls.NEW_NETWORK)
    syscalls.raise_loopback()
    return apart


def enter_namespaces(layers: list[tuple[str, str]], *, network: bool, tmp: str = "") -> None:
    """Move into spaces of our own where only what the layers say can be written.

    With `network` that stays as it is. `tmp` is a folder that is seen at /tmp.
    """
    _leave(_SPACES | (0 if network else syscalls.NEW_NETWORK))
    _become_inner_process()
    syscalls.mount("none", "/", "none", syscalls.MOUNT_PRIVATE)
    own_tmp = syscalls.clone_tree(tmp) if tmp else None
    trees = {path: _tree(access, path) for access, path in layers if not _is_gone(path)}
    everything = ("write", "/") in layers
    if not everything:
        syscalls.make_read_only("/", below=True)
        _own_devices()
    if own_tmp is not None:
        syscalls.attach(own_tmp, TMP)
        os.close(own_tmp)
    masks: list[str] = []
    for path, tree in trees.items():
        if path == "/":
            continue
        if tree is None:
            masks.append(path)
            syscalls.mount("tmpfs", path, "tmpfs", syscalls.MOUNT_SAFE, "mode=0755")
        else:
            _make_room(path, tree)
            syscalls.attach(tree, path)
            os.close(tree)
    _own_proc()
    for path in _OF_THE_KERNEL:
        if os.path.ismount(path):
            syscalls.make_read_only(path, below=True)
    for path in masks:
        syscalls.make_read_only(path, below=False)
    if not network:
        syscalls.raise_loopback()


def _become_inner_process() -> None:
    """Go on as a process in the new process space; those around it wait for it and give its end.

    The first one there has to stay, because signals do nothing to it that it does not handle, and it is
    whom all that lose their parent are given to.
    """
    _go_on_inside(_wait_for)
    syscalls.end_with_parent()
    _go_on_inside(_reap)


def _go_on_inside(wait: Callable[[int], int]) -> None:
    child = os.fork()
    if child:
        status = wait(child)
        if os.WIFSIGNALED(status):
            os._exit(128 + os.WTERMSIG(status))
        os._exit(os.WEXITSTATUS(status))


def _wait_for(child: int) -> int:
    for number in _FOR_THE_COMMAND:
        signal.signal(number, signal.SIG_IGN)  # the command gets it as well, and may take its time
    return os.waitpid(child, 0)[1]


def _reap(child: int) -> int:
    """Wait for everybody until the child itself has ended; all others end with this process."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Python has a handler for it
    while True:
        ended, status = os.wait()
        if ended == child:
            return status


def _own_proc() -> None:
    """A /proc that shows the own processes only. Where the kernel does not let us, the machine's stays."""
    with suppress(OSError):
        syscalls.mount("proc", "/proc", "proc", syscalls.MOUNT_SAFE | _NO_PROGRAMS)


def _leave(spaces: int) -> bool:
    """Root may simply go; everybody else needs a user space in which they may. Whether that was made."""
    user, group = os.geteuid(), os.getegid()
    try:
        syscalls.unshare(spaces)
    except PermissionError:
        syscalls.unshare(spaces | syscalls.NEW_USER)
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{user} {user} 1"),
            ("gid_map", f"{group} {group} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:  # noqa: PTH123  (pathlib costs 3 ms)
                file.write(text)
        return True
    return False


def _tree(access: str, path: str) -> int | None:
    """What will be seen at a path; nothing for a hidden folder, which gets an empty one."""
    if access == "hide" and os.path.isdir(path):  # noqa: PTH112
        return None
    tree = syscalls.clone_tree(os.devnull if access == "hide" else path)
    if access != "write":
        syscalls.make_read_only(tree, below=True)
    return tree


def _is_gone(path: str) -> bool:
    return COMES_AND_GOES in path and not os.path.lexists(path)


def _make_room(path: str, tree: int) -> None:
    """In a hidden folder nothing is left to mount on, so it is made there."""
    if os.path.lexists(path):
        return
    if stat.S_ISDIR(os.fstat(tree).st_mode):
        os.makedirs(path)  # noqa: PTH103
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o444))


def _own_devices() -> None:
    """Shared memory and terminals that nobody else has."""
    if os.path.isdir(_SHARED_MEMORY):  # noqa: PTH112
        syscalls.mount("tmpfs", _SHARED_MEMORY, "tmpfs", syscalls.MOUNT_SAFE, "mode=1777")
    if os.path.isdir(_TERMINALS):  # noqa: PTH112
        syscalls.mount("devpts", _TERMINALS, "devpts", 0x2 | 0x8, "newinstance,ptmxmode=0666,mode=0620")
        if not os.path.islink(_NEW_TERMINAL):  # noqa: PTH114
            syscalls.mount(f"{_TERMINALS}/ptmx", _NEW_TERMINAL, "none", syscalls.MOUNT_BIND)
