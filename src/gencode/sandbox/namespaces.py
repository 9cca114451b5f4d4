"""Linux namespaces: a file system and a network of the command's own, set up by the process that becomes it.

Not every machine lets a user do this. Where it does, Landlock's rules, which can only allow, get what they
lack: folders that are read-only inside a writable one, places that are hidden, and no network of any kind.
"""

import os
import stat

from gencode.sandbox import syscalls

_SHARED_MEMORY = "/dev/shm"  # noqa: S108  (a new one is mounted there)
_TERMINALS = "/dev/pts"
_NEW_TERMINAL = "/dev/ptmx"
OWN_DEVICES = (_SHARED_MEMORY, _TERMINALS)
"""Writable without harm, because they are the command's own."""
_OF_THE_KERNEL = ("/proc", "/sys")
"""Where files are settings of the whole machine: they are never the command's, whatever else is."""
COMES_AND_GOES = "/.git/worktrees/"
"""Where others make and remove folders meanwhile; all else that is missing is a reason not to start."""


def enter_namespaces(layers: list[tuple[str, str]], *, network: bool) -> None:
    """Move into spaces of our own where only what the layers say can be written."""
    _leave(network=network)
    syscalls.mount("none", "/", "none", syscalls.MOUNT_PRIVATE)
    trees = {path: _tree(access, path) for access, path in layers if not _is_gone(path)}
    everything = ("write", "/") in layers
    if not everything:
        syscalls.make_read_only("/", below=True)
        _own_devices()
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
    for path in _OF_THE_KERNEL:
        if os.path.ismount(path):
            syscalls.make_read_only(path, below=True)
    for path in masks:
        syscalls.make_read_only(path, below=False)
    if not network:
        syscalls.raise_loopback()


def _leave(*, network: bool) -> None:
    """Root may simply go; everybody else needs a user space in which they may."""
    spaces = syscalls.NEW_MOUNTS | syscalls.NEW_IPC | (0 if network else syscalls.NEW_NETWORK)
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
