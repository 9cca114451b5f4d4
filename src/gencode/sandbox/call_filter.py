"""A seccomp filter: system calls that reach beyond a wall of files and networks, and that no build needs.

Written by hand as classic BPF, because every sandboxed command pays for what is imported here.
"""

import errno
import os
import struct

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _MACHINE, _ARGUMENTS = 0, 4, 16
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_NEW_USER = 0x10000000
_VSOCK = 40
_OTHER_NUMBERS = 0x40000000
"""From here on x86_64 has a second set of numbers, for x32."""

_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NUMBERS = {
    "x86_64": {
        "socket": 41,
        "clone": 56,
        "setpriority": 141,
        "sched_setparam": 142,
        "sched_setscheduler": 144,
        "sched_setaffinity": 203,
        "add_key": 248,
        "request_key": 249,
        "keyctl": 250,
        "ioprio_set": 251,
        "unshare": 272,
        "prlimit64": 302,
        "sched_setattr": 314,
        "io_uring_setup": 425,
        "io_uring_enter": 426,
        "io_uring_register": 427,
        "clone3": 435,
    },
    "aarch64": {
        "ioprio_set": 30,
        "unshare": 97,
        "sched_setparam": 118,
        "sched_setscheduler": 119,
        "sched_setaffinity": 122,
        "setpriority": 140,
        "socket": 198,
        "add_key": 217,
        "request_key": 218,
        "keyctl": 219,
        "clone": 220,
        "prlimit64": 261,
        "sched_setattr": 274,
        "io_uring_setup": 425,
        "io_uring_enter": 426,
        "io_uring_register": 427,
        "clone3": 435,
    },
}
_MACHINE_NAME = os.uname().machine
UNNEEDED_CALLS = tuple(
    _NUMBERS[_MACHINE_NAME][name] for name in ("keyctl", "io_uring_setup") if _MACHINE_NAME in _NUMBERS
)
"""The numbers of two calls that the filter refuses, for a trial; none where they are not known."""
_NEVER = ("add_key", "request_key", "keyctl", "io_uring_setup", "io_uring_enter", "io_uring_register")
_OF_OTHERS = {
    "prlimit64": 0,
    "sched_setparam": 0,
    "sched_setscheduler": 0,
    "sched_setaffinity": 0,
    "sched_setattr": 0,
    "setpriority": 1,
    "ioprio_set": 1,
}
"""Calls that change another process, with the argument that names it; 0 is the caller itself."""


def call_filter(*, own_processes: bool) -> bytes:
    """The filter for this machine; empty where its numbers are not known.

    `own_processes`: the command has a process space of its own, so that it can name no other process.
    """
    numbers = _NUMBERS.get(_MACHINE_NAME)
    if numbers is None:
        return b""
    refuse = _REFUSE | errno.EPERM
    missing = _REFUSE | errno.ENOSYS
    code = [
        *_load(_MACHINE),
        _jump(_EQUAL, _MACHINES[_MACHINE_NAME], 1, 0),
        _give(missing),
        *_load(_NUMBER),
        *([_jump(_AT_LEAST, _OTHER_NUMBERS, 0, 1), _give(missing)] if _MACHINE_NAME == "x86_64" else []),
    ]
    for name in _NEVER:
        code += _when(numbers[name], [_give(refuse)])
    code += _when(numbers["clone3"], [_give(missing)])  # its flags lie in memory; the C library takes clone
    code += _when(numbers["socket"], _if_argument(0, _EQUAL, _VSOCK, refuse))
    for name in ("unshare", "clone"):
        code += _when(numbers[name], _if_argument(0, _ANY_BIT, _NEW_USER, refuse))
    for name, argument in () if own_processes else _OF_OTHERS.items():
        code += _when(numbers[name], _unless_argument(argument, 0, refuse))
    code.append(_give(_ALLOW))
    return b"".join(code)


def _when(number: int, then: list[bytes]) -> list[bytes]:
    """Instructions for one call; each of them ends with an answer."""
    return [_jump(_EQUAL, number, 0, len(then)), *then]


def _if_argument(argument: int, test: int, value: int, answer: int) -> list[bytes]:
    return [*_load(_ARGUMENTS + 8 * argument), _jump(test, value, 0, 1), _give(answer), _give(_ALLOW)]


def _unless_argument(argument: int, value: int, answer: int) -> list[bytes]:
    return [*_load(_ARGUMENTS + 8 * argument), _jump(_EQUAL, value, 1, 0), _give(answer), _give(_ALLOW)]


def _load(offset: int) -> list[bytes]:
    return [struct.pack("HBBI", _LOAD, 0, 0, offset)]


def _jump(test: int, value: int, if_true: int, if_false: int) -> bytes:
    return struct.pack("HBBI", test, if_true, if_false, value)


def _give(answer: int) -> bytes:
    return struct.pack("HBBI", _RETURN, 0, 0, answer)
