"""Starts `gen` without starting Python: a process that has imported GenCode forks for each run.

What a test gets is the real program in a process of its own: a child of the process that asked, with the
arguments, environment, folder and streams it was given. Before the fork, modules were imported and nothing
else done. Once `install` was called, `subprocess` does this by itself for `python -m gencode …`, for the
process of a single task, and for nothing else.

A start stays cold where the interpreter itself would read something other than the server did (PYTHONPATH),
where there is more to do before it begins (`preexec_fn`, `pass_fds`, a shell), in tests marked `cold`, with
GEN_COLD=1, and on systems whose calls this does not know.
"""

import atexit
import ctypes
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import platform
import runpy
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Literal, NoReturn

GEN = [sys.executable, "-m", "gencode"]
TASK_PROCESS = [sys.executable, "-P", "-m", "gencode.interfaces.task_process"]
OWN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
"""Makes its stdin the terminal whose Ctrl-C reaches it, and becomes the program it is given."""

ARGUMENTS = (
    *("args", "executable", "preexec_fn", "close_fds", "pass_fds", "cwd", "env", "startupinfo"),
    *("creationflags", "shell", "p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite"),
    *("restore_signals", "gid", "gids", "uid", "umask", "start_new_session", "process_group"),
)
"""What `Popen` hands to the method that starts a process, in order."""
USUAL: dict[str, Any] = {
    **{"executable": None, "preexec_fn": None, "close_fds": True, "pass_fds": (), "shell": False},
    **{"restore_signals": True, "gid": None, "gids": None, "uid": None, "umask": -1, "process_group": -1},
}
WARNINGS = {"PYTHONWARNINGS": "error"}
"""Whoever says nothing else is started so."""
READ_AT_START = ("PYTHON", "LC_", "LANG", "LD_", "MALLOC_", "TEXTUAL")
"""So begin the variables that Python, the C library and imported packages read when they are loaded."""
LENGTH = struct.Struct("!I")

SYS_CLONE = 56
CLONE_PARENT, CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID = 0x8000, 0x200000, 0x1000000
PR_GET_TID_ADDRESS = 40
C = ctypes.PyDLL(None)


class WarmStarts:
    """The one server of a process that runs tests, started when it is needed first."""

    def __init__(self) -> None:
        self.wanted = True
        self._fits = (sys.platform, platform.machine()) == ("linux", "x86_64")
        self._cold = bool(os.environ.get("GEN_COLD"))
        self._environ = {"PATH": os.defpath, **_interpreter(os.environ), **WARNINGS}
        self._lock = threading.Lock()
        self._server: subprocess.Popen[bytes] | None = None
        self._link: socket.socket | None = None

    def install(self) -> None:
        """Let every `subprocess.Popen` of this process start `gen` warm."""
        cold: Any = subprocess.Popen._execute_child  # pyright: ignore

        def execute_child(popen: Any, *values: Any) -> None:
            if (number := self.start(dict(zip(ARGUMENTS, values, strict=True)))) is None:
                cold(popen, *values)
                return
            popen.pid = number
            popen._child_created = True
            popen._close_pipe_fds(*values[10:16])

        subprocess.Popen._execute_child = execute_child  # pyright: ignore

    def start(self, asked: Mapping[str, Any]) -> int | None:
        """The number of a process that was started as asked; None if it has to be started cold."""
        words = _words(asked["args"])
        terminal = words[1:3] == ["-c", OWN_TERMINAL]
        words = words[3:] if terminal else words
        given: Any = os.environ if asked["env"] is None else asked["env"]
        environ = {os.fsdecode(name): os.fsdecode(value) for name, value in given.items()}
        folder = os.fspath(asked["cwd"] or Path.cwd())
        if not (
            (self.wanted and self._fits and not self._cold)
            and (words[:3] == GEN or words[:4] == TASK_PROCESS)
            and all(asked[name] == value for name, value in USUAL.items())
            and WARNINGS | _interpreter(environ) == _interpreter(self._environ)
            and Path(folder).is_dir()
        ):
            return None
        request = {
            "words": words,
            "environ": environ,
            "folder": folder,
            "session": asked["start_new_session"],
            "terminal": terminal,
        }
        streams = [
            standard if asked[name] == -1 else asked[name]
            for standard, name in enumerate(("p2cread", "c2pwrite", "errwrite"))
        ]
        content = json.dumps(request).encode()
        with self._lock:
            link = self._link or self._begun()
            socket.send_fds(link, [LENGTH.pack(len(content))], streams)
            link.sendall(content)
            return LENGTH.unpack(link.recv(LENGTH.size))[0]

    def close(self) -> None:
        """End the server."""
        if self._server is not None and self._link is not None:
            self._link.close()
            self._server.wait()

    def _begun(self) -> socket.socket:
        self._link, theirs = socket.socketpair()
        with theirs:
            command = [*(sys.executable, __file__, str(theirs.fileno())), "-" * 8000]
            self._server = subprocess.Popen(command, env=self._environ, pass_fds=(theirs.fileno(),))
        return self._link


def _words(given: Any) -> list[str]:
    return [] if isinstance(given, str | bytes | os.PathLike) else [os.fsdecode(word) for word in given]


def _interpreter(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name.startswith(READ_AT_START)}


def serve(link: socket.socket) -> None:
    """Fork for each request until nobody asks any more; returns in each process that shall become a `gen`."""
    sys.path.pop(0)
    import gencode

    for module in pkgutil.walk_packages(gencode.__path__, "gencode."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):
                importlib.import_module(module.name)
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()
    while True:
        head, streams, _, _ = socket.recv_fds(link, LENGTH.size, 3)
        if not head:
            os._exit(0)
        content = b""
        while len(content) < LENGTH.unpack(head)[0]:
            content += link.recv(1 << 20)
        if (number := fork_sibling()) == 0:
            link.close()
            become(json.loads(content), streams)
            return
        link.sendall(LENGTH.pack(number))
        for stream in streams:
            os.close(stream)


def fork_sibling() -> int:
    """`os.fork`, but the new process is a child of our parent: who asks for it waits for it."""
    own_number = ctypes.c_void_p()
    C.prctl(PR_GET_TID_ADDRESS, ctypes.byref(own_number), 0, 0, 0)
    flags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID | signal.SIGCHLD
    ctypes.pythonapi.PyOS_BeforeFork()
    number = C.syscall(*map(ctypes.c_long, (SYS_CLONE, flags, 0, 0)), own_number, ctypes.c_long(0))
    if number == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    assert number >= 0
    return number


def become(asked: dict[str, Any], streams: list[int]) -> None:
    """Give this process what a new one would have been started with."""
    if asked["session"]:
        os.setsid()
    for standard, stream in enumerate(streams):
        os.dup2(stream, standard)
    for descriptor in [int(each.name) for each in Path("/proc/self/fd").iterdir()]:
        if descriptor > 2:
            with suppress(OSError):  # the folder itself was open while it was read
                os.close(descriptor)
    if asked["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environ"])
    time.tzset()
    sys.stdin = sys.__stdin__ = _stream(0, "r", sys.__stdin__)
    sys.stdout = sys.__stdout__ = _stream(1, "w", sys.__stdout__)
    sys.stderr = sys.__stderr__ = _stream(2, "w", sys.__stderr__)
    sys.orig_argv[:] = asked["words"]
    sys.argv[:] = asked["words"][asked["words"].index("-m") + 1 :]
    if "-P" not in asked["words"][:2]:
        sys.path.insert(0, asked["folder"])
    _show(asked["words"])


def _stream(number: int, mode: Literal["r", "w"], like: Any) -> TextIOWrapper:
    """A standard stream as Python makes it when it starts, buffered as the server's own."""
    through: bool = like.write_through
    binary: Any = open(number, f"{mode}b", 0 if through and mode == "w" else -1, closefd=False)  # noqa: SIM115
    lines = not through and mode == "w" and (number == 2 or binary.isatty())
    getattr(binary, "raw", binary).name = like.name
    stream: Any = TextIOWrapper(binary, like.encoding, like.errors, "\n", lines, through)
    stream.mode = mode
    return stream


def _show(words: list[str]) -> None:
    """Have the system list this process under its own command line, not under the server's."""
    first, after = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
    line = b"".join(os.fsencode(word) + b"\0" for word in words)
    ctypes.memset(first, 0, after - first)
    ctypes.memmove(first, line, min(len(line), after - first - 1))


def main() -> NoReturn:
    serve(socket.socket(fileno=int(sys.argv[1])))
    sys.modules.pop(sys.argv[0] if "." in sys.argv[0] else "", None)  # it is run as `__main__`
    try:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    except SystemExit as done:
        end(done.code if isinstance(done.code, int) else 0)
        raise
    raise SystemExit


def end(code: int) -> None:
    """End as Python does, but leave the modules: to take them apart takes longer than most runs.

    Where the last output cannot be written this comes back, and Python shall end it.
    """
    threading._shutdown()  # pyright: ignore
    atexit._run_exitfuncs()  # pyright: ignore
    gc.collect()  # whatever was not closed or awaited says so
    with suppress(OSError, ValueError):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code & 0xFF)


if __name__ == "__main__":
    main()
