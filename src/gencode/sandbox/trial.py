"""Tries out what a sandbox really enforces: runs forbidden operations inside it."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from msgspec import Struct

from gencode.sandbox.call_filter import UNNEEDED_CALLS
from gencode.sandbox.profile import SandboxProfile, needed_of_tmp

Enclose = Callable[[Sequence[str], SandboxProfile], list[str]]
"""From a command line to one that runs it enclosed."""

SECONDS = 20.0

# Runs inside. Each line tries one thing and prints its name if it could be done.
_ATTEMPTS = """
import ctypes, os, resource, socket, sys
base, tcp, udp, abstract, outsider, *calls = sys.argv[1:]
def attempt(name, deed):
    try:
        deed()
    except OSError:
        return
    print(name, flush=True)
def write(path):
    with open(base + path, "a") as file:
        file.write("x")
def open_only(path):  # what is written there is for the whole machine
    os.close(os.open(path, os.O_WRONLY))
def connect(family, address):
    with socket.socket(family) as client:
        client.settimeout(2)
        client.connect(address)
def send():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"x", ("127.0.0.1", int(udp)))
def serve():
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect(socket.AF_INET, server.getsockname())
def work():
    write("/workspace/file")
    with open(os.environ["TMPDIR"] + "/file", "w") as file:
        file.write("x")
attempt("work", work)
def tmp():
    name = os.path.basename(base) + ".mark"
    os.close(os.open("/tmp/" + name, os.O_CREAT | os.O_EXCL))
    try:
        os.stat(base + "/temp/" + name)
    finally:
        os.unlink("/tmp/" + name)
attempt("tmp", tmp)
attempt("create", lambda: write("/outside/new"))
attempt("overwrite", lambda: write("/outside/old"))
attempt("truncate", lambda: os.truncate(base + "/outside/old", 0))
attempt("change", lambda: os.chmod(base + "/outside/old", 0o600))
attempt("guarded", lambda: write("/workspace/.git/hooks/new"))
attempt("guarded", lambda: write("/workspace/.git/config"))
attempt("guarded", lambda: os.rename(base + "/workspace/.git", base + "/workspace/moved"))
attempt("missing", lambda: write("/workspace/later"))
attempt("hidden", lambda: open(base + "/home/secret").close())
attempt("kernel", lambda: open_only("/proc/sys/kernel/core_pattern"))
attempt("kernel", lambda: open_only("/proc/sysrq-trigger"))
attempt("tcp", lambda: connect(socket.AF_INET, ("127.0.0.1", int(tcp))))
attempt("udp", send)
attempt("localhost", serve)
attempt("abstract", lambda: connect(socket.AF_UNIX, "\\0" + abstract))
attempt("socket", lambda: connect(socket.AF_UNIX, base + "/outside/socket"))
attempt("signal", lambda: os.kill(int(outsider), 0))
if hasattr(resource, "prlimit"):
    attempt("limits", lambda: resource.prlimit(int(outsider), resource.RLIMIT_CORE))
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *words):
    if getattr(libc, name)(*words) < 0:
        raise OSError(ctypes.get_errno())
if calls:  # the numbers of keyctl and io_uring_setup
    attempt("calls", lambda: call("syscall", int(calls[0]), 0, -4, 0))
    attempt("calls", lambda: call("syscall", int(calls[1]), 1, ctypes.create_string_buffer(256)))
if sys.platform == "linux":
    attempt("calls", lambda: socket.socket(40).close())  # vsock
    attempt("calls", lambda: call("unshare", 0x10000000))  # last: it is another user afterwards
"""


class TrialResult(Struct, frozen=True):
    """What came of a trial: what an enclosed command could do, or why there was none."""

    possible: frozenset[str] = frozenset()
    trouble: str = ""

    @property
    def works(self) -> bool:
        """Whether a command can work in it and cannot write elsewhere, nor change how the kernel works."""
        return "work" in self.possible and self.possible.isdisjoint({"create", "overwrite", "kernel"})


def try_sandbox(enclose: Enclose) -> TrialResult:
    """Run one command that tries everything it should not be able to do."""
    with ExitStack() as stack:
        base = stack.enter_context(_stage())
        listening = stack.enter_context(_server(socket.AF_INET, ("127.0.0.1", 0)))
        datagrams = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        datagrams.bind(("127.0.0.1", 0))
        datagrams.setblocking(False)
        abstract = f"gencode-trial-{os.getpid()}-{base.name}"
        if sys.platform == "linux":
            stack.enter_context(_server(socket.AF_UNIX, "\0" + abstract))
        with suppress(OSError):  # a path that is too long for a socket
            stack.enter_context(_server(socket.AF_UNIX, str(base / "outside" / "socket")))
        ports = [str(each.getsockname()[1]) for each in (listening, datagrams)]
        told = [str(base), *ports, abstract, str(os.getpid()), *map(str, UNNEEDED_CALLS)]
        seen = _run([sys.executable, "-I", "-S", "-E", "-c", _ATTEMPTS, *told], base, enclose)
        arrived = _arrived(datagrams)
    return seen if arrived else TrialResult(seen.possible - {"udp"}, seen.trouble)


def _run(command: list[str], base: Path, enclose: Enclose) -> TrialResult:
    workspace = base / "workspace"
    guarded = tuple(workspace / name for name in (".git/hooks", ".git/config", "later"))
    seen = needed_of_tmp([base])
    plan = SandboxProfile(
        (workspace,),
        base / "temp",
        guarded,
        hidden=(base / "home",),
        private_tmp=seen is not None,
        of_tmp=tuple(seen or ()),
    )
    try:
        ended = subprocess.run(
            enclose(command, plan),
            cwd=workspace,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return TrialResult(trouble=str(error))
    said = ended.stderr.decode(errors="replace").strip().splitlines()
    trouble = "" if ended.returncode == 0 else (said[-1] if said else f"exit status {ended.returncode}")
    return TrialResult(frozenset(ended.stdout.decode(errors="replace").split()), trouble)


@contextmanager
def _stage() -> Generator[Path]:
    """A small world: a workspace, a folder outside of it, and something hidden."""
    base = Path(os.path.realpath(tempfile.mkdtemp(prefix="gen-trial-")))
    try:
        for name in ("workspace/.git/hooks", "outside", "home", "temp"):
            (base / name).mkdir(parents=True)
        for name in ("workspace/.git/config", "outside/old", "home/secret"):
            (base / name).write_text("x")
        yield base
    finally:
        shutil.rmtree(base, ignore_errors=True)


@contextmanager
def _server(family: socket.AddressFamily, address: tuple[str, int] | str) -> Generator[socket.socket]:
    with socket.socket(family) as listening:
        listening.bind(address)
        listening.listen()
        yield listening


def _arrived(datagrams: socket.socket) -> bool:
    try:
        return bool(datagrams.recv(16))
    except OSError:
        return False


_GUARDED = ".git/hooks, .git/config and .gen of the workspace"
_LOOKED_AT = "GenCode checks after each command and reports it"


def restrictions(possible: frozenset[str]) -> Iterator[str]:
    """What commands cannot do, by what a trial found possible."""
    yield "Commands can write only in the workspace and in a temporary folder of their own."
    if "kernel" not in possible:
        yield "They cannot change kernel settings, such as those in /proc/sys."
    if "guarded" not in possible:
        yield f"They cannot change {_GUARDED}."
    if "hidden" not in possible:
        yield "They cannot read GenCode's database and settings."
    if possible.isdisjoint({"tcp", "udp"}):
        yield "They have no network unless you allow it."
    elif "tcp" not in possible:
        yield "They have no TCP connections unless you allow the network."
    if possible.isdisjoint({"signal", "limits"}):
        yield "They cannot signal or limit processes outside."
    if "calls" not in possible:
        yield "They cannot use kernel keyrings, io_uring, vsock or user namespaces."


def unenforced(possible: frozenset[str]) -> Iterator[str]:
    """What commands can do although one might think otherwise."""
    if "guarded" in possible:
        yield f"Commands can change {_GUARDED}; {_LOOKED_AT}."
    elif "missing" in possible:
        yield f"Commands can make .git and .gen in the workspace where there is none yet; {_LOOKED_AT}."
    if "truncate" in possible:
        yield "Commands can empty files outside the workspace."
    if "change" in possible:
        yield "Commands can change the permissions and times of your files outside the workspace."
    if "tcp" in possible:
        yield "Commands can use the network."
    elif "udp" in possible:
        yield "Commands can use the network except for TCP, for example for DNS lookups."
    if "abstract" in possible:
        yield "Commands can talk to other programs through abstract sockets."
    if "socket" in possible:
        hidden = "" if "hidden" in possible else ", except those in /run and a few other well-known ones"
        yield f"Commands can talk to programs whose sockets lie in a folder{hidden}."
    if not possible.isdisjoint({"signal", "limits"}):
        yield "Commands can stop your other programs."
    if "calls" in possible:
        yield "Commands can use kernel keyrings, io_uring, vsock or user namespaces."
    if "hidden" in possible:
        yield "Commands can read GenCode's database and settings."
    yield "Commands can read whatever else you can."
    yield "Commands can make repositories in the workspace, with hooks of their own."
