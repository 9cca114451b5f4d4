"""The process that restricts itself with namespaces, Landlock and a filter, and then becomes the command.

`landlock.enclose` writes its command line. It runs on the bare standard library, because every sandboxed
command pays for what is imported here.
"""

import os
import signal
import stat
import sys

from gencode.sandbox import namespaces, syscalls
from gencode.sandbox.call_filter import call_filter

NAMESPACES = "--namespaces"
NETWORK = "--network"
TEMP = "temp"
TMP = "tmp"
"""The folder that the command finds at /tmp."""
JOINED = "--joined"
"""It starts in a network namespace of its task, which it keeps."""
NO_WALL = 125
"""The exit status when the wall could not be built; the command did not run."""
KEPT_OF_ROOT = frozenset({0, 1, 3, 4})
"""CHOWN, DAC_OVERRIDE, FOWNER, FSETID: what root still may, with files as with its own."""

_LAST_STANDARD_FILE = 2


def main(words: list[str]) -> None:
    """Wall in, then run. The words are options, `--`, and the command."""
    end = words.index("--")
    options, command = words[:end], words[end + 1 :]
    try:
        _enclose_self(options)
    except OSError as error:
        _give_up(NO_WALL, f"The sandbox could not be set up ({error}), so the command did not run.")
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it, and so would every command
    try:
        os.execvp(command[0], command)  # noqa: S606
    except FileNotFoundError:
        _give_up(127, f"{command[0]}: not found")
    except OSError as error:
        _give_up(126, f"{command[0]}: {error.strerror}")


def _enclose_self(options: list[str]) -> None:
    switches = {word for word in options if word.startswith("--")}
    pairs = [word.split("=", 1) for word in options if not word.startswith("--")]
    layers = [(access, path) for access, path in pairs if access not in (TEMP, TMP)]
    tmp = "".join(path for access, path in pairs if access == TMP)
    for _, path in [pair for pair in pairs if pair[0] == TEMP]:
        os.environ["TMPDIR"] = path
    network = NETWORK in switches or JOINED in switches
    writable = [path for access, path in layers if access == "write"]
    here = os.getcwd()  # noqa: PTH109
    _close_files()
    own_processes = NAMESPACES in switches
    if own_processes:
        namespaces.enter_namespaces(layers, network=network, tmp=tmp)
        os.chdir(here)
        network = True  # its own has nobody to talk to
        writable += [namespaces.TMP] if tmp else []
        writable += [path for path in namespaces.OWN_DEVICES if os.path.isdir(path)]  # noqa: PTH112
    syscalls.keep_capabilities(KEPT_OF_ROOT)
    syscalls.forbid_new_privileges()
    restrict_with_landlock(writable, network=network)
    if program := call_filter(own_processes=own_processes):
        syscalls.filter_system_calls(program)


def _close_files() -> None:
    """A folder that was opened outside would be a way around every wall in the file system."""
    for name in os.listdir("/proc/self/fd"):  # noqa: PTH208
        if int(name) > _LAST_STANDARD_FILE:
            try:  # noqa: SIM105  (contextlib takes longer to import than all else here)
                os.close(int(name))
            except OSError:
                pass  # the folder that was listed is in its own listing


def _give_up(status: int, sentence: str) -> None:
    sys.stderr.write(sentence + "\n")
    sys.stderr.flush()
    os._exit(status)


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


def restrict_with_landlock(writable: list[str], *, network: bool) -> None:
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
