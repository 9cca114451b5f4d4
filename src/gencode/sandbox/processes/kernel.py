"""processes: what only Linux offers and Python has no function for. Elsewhere every answer is "no"."""

import ctypes
import sys

_PARENT_DEATH_SIGNAL = 1
_NAME = 15
_SUBREAPER = 36
_NO_NEW_PRIVILEGES = 38


def adopt_orphans() -> bool:
    """Whether children whose parent dies become ours from now on, however often they forked."""
    return _prctl(_SUBREAPER, 1)


def signal_when_parent_dies(number: int) -> bool:
    """Whether we get this signal when our parent ends. Who calls this looks at its parent's id afterwards."""
    return _prctl(_PARENT_DEATH_SIGNAL, number)


def forbid_new_privileges() -> bool:
    """Whether no program started from here on can become somebody we may not stop (sudo, setuid)."""
    return _prctl(_NO_NEW_PRIVILEGES, 1)


def be_called(name: str) -> bool:
    """Whether `ps` and `top` now show this name."""
    return _prctl(_NAME, ctypes.create_string_buffer(name.encode()[:15]))


def _prctl(option: int, value: "int | ctypes.Array[ctypes.c_char]") -> bool:
    if sys.platform != "linux":
        return False
    argument = ctypes.c_ulong(value) if isinstance(value, int) else value
    zero = ctypes.c_ulong(0)
    return ctypes.CDLL(None).prctl(option, argument, zero, zero, zero) == 0
