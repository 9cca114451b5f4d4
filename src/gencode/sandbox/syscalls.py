"""Linux system calls that Python has no function for, through ctypes. Each raises OSError."""

import ctypes
import os
import signal

AT_FDCWD = -100
AT_EMPTY_PATH = 0x1000
AT_RECURSIVE = 0x8000
NEW_MOUNTS = 0x00020000
NEW_CONTROL_GROUPS = 0x02000000
NEW_HOST_NAME = 0x04000000
NEW_PROCESSES = 0x20000000
NEW_IPC = 0x08000000
NEW_USER = 0x10000000
NEW_NETWORK = 0x40000000
READ_ONLY = 1
MOUNT_SAFE = 0x2 | 0x4
"""No setuid programs, no devices."""
MOUNT_BIND = 4096
MOUNT_PRIVATE = 16384 | (1 << 18)
"""Mounts made outside do not show up here, nor ours there; for the whole tree."""

_OPEN_TREE = 428
_MOVE_MOUNT = 429
_MOUNT_SETATTR = 442
_LANDLOCK_CREATE_RULESET = 444
_LANDLOCK_ADD_RULE = 445
_LANDLOCK_RESTRICT_SELF = 446

_CLONE_TREE = 1 | os.O_CLOEXEC
_FROM_EMPTY_PATH = 4
_LANDLOCK_VERSION = 1
_LANDLOCK_BENEATH = 1
_NO_NEW_PRIVILEGES = 38
_DROP_FROM_BOUNDING_SET = 24
_AMBIENT_CAPABILITIES = 47
_CLEAR_AMBIENT = 4
_PARENT_DEATH_SIGNAL = 1
_SET_SECCOMP = 22
_FILTER_MODE = 2
_SET_INTERFACE_FLAGS = 0x8914
_UP = 1
_LAST_CAPABILITY = 63


class _MountAttributes(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


class _InterfaceFlags(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char * 16), ("flags", ctypes.c_short), ("rest", ctypes.c_char * 22))


class _FilterProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)
    return result


def _call(what: str, number: int, *arguments: object) -> int:
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return _checked(_libc.syscall(ctypes.c_long(number), *wide), what)


def unshare(flags: int) -> None:
    """Get spaces of our own."""
    _checked(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """mount(2)."""
    words = [os.fsencode(each) for each in (source, target, kind)]
    _checked(_libc.mount(*words, ctypes.c_ulong(flags), options.encode()), f"mount {target}")


def clone_tree(path: str) -> int:
    """A copy of what is mounted at a path and below, not yet visible anywhere."""
    flags = _CLONE_TREE | AT_RECURSIVE
    return _call(f"open_tree {path}", _OPEN_TREE, AT_FDCWD, os.fsencode(path), flags)


def attach(tree: int, path: str) -> None:
    """Let a copied tree appear at a path."""
    _call(f"move_mount {path}", _MOVE_MOUNT, tree, b"", AT_FDCWD, os.fsencode(path), _FROM_EMPTY_PATH)


def make_read_only(place: int | str, *, below: bool) -> None:
    """A tree, or what is mounted at a path, can no longer be written."""
    handle, path, flags = (
        (place, b"", AT_EMPTY_PATH) if isinstance(place, int) else (AT_FDCWD, os.fsencode(place), 0)
    )
    wanted = _MountAttributes(attr_set=READ_ONLY)
    flags |= AT_RECURSIVE if below else 0
    _call(
        f"mount_setattr {place}",
        _MOUNT_SETATTR,
        handle,
        path,
        flags,
        ctypes.byref(wanted),
        ctypes.sizeof(wanted),
    )


def raise_loopback() -> None:
    """A network of our own begins with its loopback interface down."""
    handle = _checked(_libc.socket(2, 2 | os.O_CLOEXEC, 0), "socket")
    wanted = _InterfaceFlags(name=b"lo", flags=_UP)
    try:
        _checked(_libc.ioctl(handle, ctypes.c_ulong(_SET_INTERFACE_FLAGS), ctypes.byref(wanted)), "ioctl lo")
    finally:
        os.close(handle)


def landlock_version() -> int:
    """What the kernel's Landlock can do; an OSError where there is none."""
    return _call("landlock", _LANDLOCK_CREATE_RULESET, None, 0, _LANDLOCK_VERSION)


def landlock_ruleset(version: int, files: int, network: int, scopes: int) -> int:
    """A set of rules: what it handles is forbidden unless a rule allows it."""
    wanted = _Ruleset(files, network, scopes)
    known = 8 if version < 4 else 16 if version < 6 else 24
    return _call("landlock", _LANDLOCK_CREATE_RULESET, ctypes.byref(wanted), known, 0)


def landlock_allow(ruleset: int, access: int, folder: int) -> None:
    """Allow something at and below an opened file or folder."""
    rule = _PathBeneath(access, folder)
    _call("landlock", _LANDLOCK_ADD_RULE, ruleset, _LANDLOCK_BENEATH, ctypes.byref(rule), 0)


def landlock_restrict(ruleset: int) -> None:
    """From here on the rules hold, for us and for all that we start."""
    _call("landlock", _LANDLOCK_RESTRICT_SELF, ruleset, 0)


def end_with_parent() -> None:
    """This process is killed when the one that started it ends."""
    _checked(_prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL), "parent death signal")


def filter_system_calls(program: bytes) -> None:
    """From here on a filter decides about every call, for us and for all that we start."""
    code = ctypes.create_string_buffer(program, len(program))
    wanted = _FilterProgram(len(program) // 8, ctypes.addressof(code))
    zero = ctypes.c_ulong(0)
    _checked(
        _libc.prctl(_SET_SECCOMP, ctypes.c_ulong(_FILTER_MODE), ctypes.byref(wanted), zero, zero), "seccomp"
    )


def forbid_new_privileges() -> None:
    """No program started from here on gets more rights than we have."""
    _checked(_prctl(_NO_NEW_PRIVILEGES, 1), "no_new_privs")


def keep_capabilities(kept: frozenset[int]) -> None:
    """Root's powers end, for every program started from here on, except these."""
    _prctl(_AMBIENT_CAPABILITIES, _CLEAR_AMBIENT)
    for number in range(_LAST_CAPABILITY + 1):
        if number not in kept:
            _prctl(
                _DROP_FROM_BOUNDING_SET, number
            )  # fails for those the kernel does not know or we do not have


def _prctl(option: int, value: int) -> int:
    zero = ctypes.c_ulong(0)
    return _libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero)
