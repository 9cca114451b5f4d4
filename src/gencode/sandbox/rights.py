"""sandbox: Landlock's rules for one command, taken on by the process that becomes it."""

import os
import stat

from gencode.sandbox import syscalls

_WRITE_FILE = 1 << 1
_REMOVE = 1 << 4 | 1 << 5
_MAKE_DEVICES = 1 << 6 | 1 << 11
_MAKE_OTHERS = 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 12
_MOVE = 1 << 13
_TRUNCATE = 1 << 14
_CONTROL_DEVICES = 1 << 15
_LISTEN_AND_CONNECT = 1 << 0 | 1 << 1
_SCOPES = 1 << 0 | 1 << 1
"""Abstract sockets and signals stay among the enclosed."""

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx")


def restrict(writable: list[str], *, network: bool) -> None:
    """Take on the rules: only these places can be written; where it can be forbidden, no TCP."""
    version = syscalls.landlock_version()
    files = _known_by(version)
    connections = _LISTEN_AND_CONNECT if version >= 4 and not network else 0
    ruleset = syscalls.landlock_ruleset(version, files, connections, _SCOPES if version >= 6 else 0)
    for path in (*writable, *(f"/dev/{name}" for name in _DEVICES)):
        _allow(ruleset, path, files & ~_MAKE_DEVICES)
    syscalls.landlock_restrict(ruleset)
    os.close(ruleset)


def _known_by(version: int) -> int:
    """All rights to change something that this kernel knows."""
    rights = _WRITE_FILE | _REMOVE | _MAKE_DEVICES | _MAKE_OTHERS
    rights |= _MOVE if version >= 2 else 0
    rights |= _TRUNCATE if version >= 3 else 0
    return rights | (_CONTROL_DEVICES if version >= 5 else 0)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # a device this machine does not have
    if not stat.S_ISDIR(os.fstat(place).st_mode):
        rights &= _WRITE_FILE | _TRUNCATE | _CONTROL_DEVICES
    syscalls.landlock_allow(ruleset, rights, place)
    os.close(place)
