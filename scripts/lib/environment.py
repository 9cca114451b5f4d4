"""Makes a virtual environment, once, also when two ask for it at the same moment.

    environment.py WHO ROOT VENV STAMP INSTALL_ARGUMENT…

Run by environment.sh with a bare Python, so it uses the standard library only. An environment counts from
the moment its stamp is written, which is the last thing that happens; whatever has no stamp is made anew.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, NoReturn

SHOWN_LINES = 25
PIP_WITH_PYTHON_OPTION = (22, 3)

# What a person sets for their own work would send the packages elsewhere.
NOT_OURS = {
    *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "PYTHONPLATLIBDIR", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__"),
    *("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PIP_REQUIRE_VIRTUALENV", "PIP_NO_DEPS"),
    *("UV_SYSTEM_PYTHON", "UV_PROJECT_ENVIRONMENT", "UV_PYTHON", "UV_TARGET", "UV_PREFIX"),
}


class Wanted(NamedTuple):
    """What is asked for; `lock` stays open in every process that writes into the environment."""

    who: str
    root: Path
    venv: Path
    arguments: tuple[str, ...]
    lock: int

    @property
    def python(self) -> str:
        return str(self.venv / "bin" / "python")

    def run(self, *command: str) -> "Result":
        """Run an installer. It inherits the lock: if we are killed, the next set-up waits for it to end."""
        env = {name: value for name, value in os.environ.items() if name not in NOT_OURS}
        env |= {"PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "UV_PYTHON_DOWNLOADS": "never"}
        try:
            ended = subprocess.run(
                command,
                cwd=self.root,
                env=env,
                pass_fds=(self.lock,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                check=False,
            )
        except OSError as error:
            return Result(False, f"{command[0]} does not start: {error.strerror}")
        return Result(ended.returncode == 0, ended.stdout.decode(errors="replace"))


class Result(NamedTuple):
    """How an installer ended, and all it said."""

    ok: bool
    said: str


def main() -> None:
    who, root, venv, stamp, *arguments = sys.argv[1:]
    try:
        with locked(who, Path(root) / "pyproject.toml") as lock:
            wanted = Wanted(who, Path(root), Path(venv), tuple(arguments), lock)
            if not is_ready(wanted, stamp):
                make(wanted)
                point_at_source(wanted)
                write_stamp(wanted.venv / "stamp", stamp)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:
        give_up(who, f"{venv} cannot be made: {error.strerror or error}.", 2)


@contextmanager
def locked(who: str, path: Path) -> Generator[int, None, None]:
    """Hold the clone's lock; the system lets go of it when the last process that has it ends."""
    with path.open("r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{who}: waiting for a set-up that is under way…", file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def is_ready(wanted: Wanted, stamp: str) -> bool:
    """Whether somebody else has made it while we waited for the lock."""
    try:
        written = (wanted.venv / "stamp").read_bytes()
        return written == os.fsencode(stamp) and wanted.run(wanted.python, "-I", "-S", "-c", "").ok
    except OSError:
        return False


def make(wanted: Wanted) -> None:
    """Make the environment with the first installer that can; pip follows the person's own settings."""
    installers = [installer for installer in (uv(wanted), pip(wanted)) if installer]
    if not installers:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        give_up(
            wanted.who,
            f"Python {version} cannot make a virtual environment here because it lacks ensurepip; install "
            f"the package python{version}-venv (Debian, Ubuntu), or uv, and try again.",
            2,
        )
    print(f"{wanted.who}: setting up (once)…", file=sys.stderr, flush=True)
    result = Result(False, "")
    for steps in installers:
        clear(wanted.venv)
        for step in steps:
            result = wanted.run(*step)
            if not result.ok:
                break
        else:
            return
    print("\n".join(result.said.rstrip().splitlines()[-SHOWN_LINES:]), file=sys.stderr)
    give_up(wanted.who, "the installation failed; the installer's last words are above.", 1)


Steps = list[list[str]]


def uv(wanted: Wanted) -> Steps | None:
    """The steps with uv, where it is installed."""
    found = shutil.which("uv")
    if found is None or not wanted.run(found, "--version").ok:
        return None
    return [
        [found, "venv", "--quiet", "--python", sys.executable, str(wanted.venv)],
        [found, "pip", "install", "--quiet", "--python", wanted.python, *wanted.arguments],
    ]


def pip(wanted: Wanted) -> Steps | None:
    """The steps with a pip from outside (fastest), or with the one that Python carries for this."""
    install = ["install", "--quiet", *wanted.arguments]
    bare = [sys.executable, "-I", "-m", "venv", "--without-pip", str(wanted.venv)]
    on_path = [[found] for found in map(shutil.which, ("pip3", "pip")) if found]
    for command in ([sys.executable, "-I", "-m", "pip"], *on_path):
        version = re.match(r"pip (\d+)\.(\d+)", wanted.run(*command, "--version").said)
        if version and tuple(map(int, version.groups())) >= PIP_WITH_PYTHON_OPTION:
            return [bare, [*command, "--python", wanted.python, *install]]
    if wanted.run(sys.executable, "-I", "-c", "import ensurepip; ensurepip.version()").ok:
        whole = [sys.executable, "-I", "-m", "venv", str(wanted.venv)]
        return [whole, [wanted.python, "-I", "-m", "pip", *install]]
    return None


def point_at_source(wanted: Wanted) -> None:
    """Name our source relatively: Python reads the absolute path of a clone with the locale's eyes."""
    source = wanted.root / "src"
    for pointer in wanted.venv.glob("lib/python*/site-packages/*.pth"):
        if pointer.read_bytes().strip() == os.fsencode(source):
            pointer.write_text(os.path.relpath(source, pointer.parent) + "\n")


def clear(venv: Path) -> None:
    """Take the old environment away, its stamp first."""
    (venv / "stamp").unlink(missing_ok=True)
    if venv.is_symlink():
        venv.unlink()
    elif venv.exists():
        shutil.rmtree(venv)


def write_stamp(path: Path, stamp: str) -> None:
    """Write the stamp whole or not at all."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(os.fsencode(stamp))
    fresh.replace(path)


def give_up(who: str, sentence: str, code: int) -> NoReturn:
    print(f"{who}: {sentence}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
