"""Makes a virtual environment, once, also when two ask for it at the same moment.

    environment.py WHO ROOT VENV STAMP EXTRAS INSTALL_ARGUMENT…

Run by environment.sh with a bare Python, so it uses the standard library only. An environment is used from
the moment its stamp is written, which is the last thing that happens; whatever has no stamp is made anew.
Extras are added to an environment that others may be using: only their packages are installed, and they are
written down in a file beside the stamp, so that an environment that is made anew has them as well.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, NoReturn

SHOWN_LINES = 25
PIP_WITH_PYTHON_OPTION = (22, 3)
TESTED = ["-c", "requirements/runtime.txt", "-c", "requirements/test.txt"]
"""The versions of the packages of extras are those that the tests ran with."""

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
    extras: tuple[str, ...]
    lock: int

    @property
    def python(self) -> str:
        return str(self.venv / "bin" / "python")

    def run(self, *command: str, tick: Callable[[], None] = lambda: None) -> "Result":
        """Run an installer. It inherits the lock: if we are killed, the next set-up waits for it to end."""
        env = {name: value for name, value in os.environ.items() if name not in NOT_OURS}
        env |= {"PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "UV_PYTHON_DOWNLOADS": "never"}
        try:
            running = subprocess.Popen(
                command,
                cwd=self.root,
                env=env,
                pass_fds=(self.lock,),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            return Result(False, f"{command[0]} does not start: {error.strerror}")
        said = b""
        while running.returncode is None:
            try:
                said, _ = running.communicate(timeout=1)
            except subprocess.TimeoutExpired:
                tick()
        return Result(running.returncode == 0, said.decode(errors="replace"))


class Result(NamedTuple):
    """How an installer ended, and all it said."""

    ok: bool
    said: str


@contextmanager
def progress(line: str) -> Generator[Callable[[], None], None, None]:
    """Say what goes on; what this gives, called now and then, says on a terminal how long it has taken."""
    begun = time.monotonic()
    live = sys.stderr.isatty()

    def tick() -> None:
        if live:
            print(f"\r{line} {time.monotonic() - begun:.0f} s", end="", file=sys.stderr, flush=True)

    print(line, end="" if live else "\n", file=sys.stderr, flush=True)
    try:
        yield tick
    finally:
        if live:
            print(file=sys.stderr, flush=True)


def main() -> None:
    who, root, venv, stamp, asked, *arguments = sys.argv[1:]
    try:
        with locked(who, Path(root) / "pyproject.toml") as lock:
            there = optional_packages(Path(root))
            if unknown := named(asked) - there.keys():
                give_up(who, f"there is no extra {min(unknown)!r}; there are: {', '.join(there)}.", 2)
            extras = sorted(named(asked) | (had_extras(Path(venv)) & there.keys()))
            wanted = Wanted(who, Path(root), Path(venv), tuple(arguments), tuple(extras), lock)
            if not is_ready(wanted, stamp):
                make(wanted)
                point_at_source(wanted)
                write_whole(wanted.venv / "extras", ",".join(extras))
                write_whole(wanted.venv / "stamp", stamp)
            elif missing := set(extras) - had_extras(wanted.venv):
                add(wanted, sorted(missing))
                write_whole(wanted.venv / "extras", ",".join(extras))
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


def named(extras: str) -> set[str]:
    """The names in a list with commas between them."""
    return {name.strip() for name in extras.split(",") if name.strip()}


def had_extras(venv: Path) -> set[str]:
    """The extras that were added to an environment."""
    try:
        return named((venv / "extras").read_text())
    except OSError:
        return set()


def optional_packages(root: Path) -> dict[str, list[str]]:
    """The packages of each extra; one that names others has theirs."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    there: dict[str, list[str]] = project["optional-dependencies"]
    ours = re.compile(re.escape(project["name"]) + r"\[(.*)\]")

    def packages(extra: str) -> list[str]:
        found: list[str] = []
        for package in there[extra]:
            others = ours.fullmatch(package)
            found += [each for other in named(others[1]) for each in packages(other)] if others else [package]
        return sorted(found)

    return {extra: packages(extra) for extra in there}


def is_ready(wanted: Wanted, stamp: str) -> bool:
    """Whether somebody else has made it while we waited for the lock."""
    try:
        written = (wanted.venv / "stamp").read_bytes()
        return written == os.fsencode(stamp) and wanted.run(wanted.python, "-I", "-S", "-c", "").ok
    except OSError:
        return False


class Installer(NamedTuple):
    """A program that installs packages: the steps before it can, in a new environment and in an old one."""

    make: list[str]
    prepare: list[list[str]]
    install: list[str]


def make(wanted: Wanted) -> None:
    """Make the environment anew, with its extras."""
    *options, ourselves = wanted.arguments
    if wanted.extras:
        options = [*TESTED, *options]
        ourselves = ourselves.replace("]", f",{','.join(wanted.extras)}]")
    result = Result(False, "")
    with progress(f"{wanted.who}: setting up (once)…") as tick:
        for installer in installers(wanted):
            clear(wanted.venv)
            result = run_all(wanted, [installer.make, [*installer.install, *options, ourselves]], tick)
            if result.ok:
                return
    give_up_after(wanted, result)


def add(wanted: Wanted, extras: list[str]) -> None:
    """Add the packages of extras, and touch nothing else."""
    there = optional_packages(wanted.root)
    packages = [package for extra in extras for package in there[extra]]
    result = Result(False, "")
    with progress(f"{wanted.who}: adding {', '.join(extras)} (once)…") as tick:
        for installer in installers(wanted):
            result = run_all(wanted, [*installer.prepare, [*installer.install, *TESTED, *packages]], tick)
            if result.ok:
                return
    give_up_after(wanted, result)


def run_all(wanted: Wanted, steps: list[list[str]], tick: Callable[[], None]) -> Result:
    """Run steps up to the first that fails."""
    result = Result(True, "")
    for step in steps:
        result = wanted.run(*step, tick=tick)
        if not result.ok:
            break
    return result


def installers(wanted: Wanted) -> list[Installer]:
    """Those that work here, the fastest first; pip follows the person's own settings."""
    found = [installer for installer in (uv(wanted), pip(wanted)) if installer]
    if not found:
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        give_up(
            wanted.who,
            f"Python {version} cannot make a virtual environment here because it lacks ensurepip; install "
            f"the package python{version}-venv (Debian, Ubuntu), or uv, and try again.",
            2,
        )
    return found


def uv(wanted: Wanted) -> Installer | None:
    """uv, where it is installed."""
    found = shutil.which("uv")
    if found is None or not wanted.run(found, "--version").ok:
        return None
    making = [found, "venv", "--quiet", "--python", sys.executable, str(wanted.venv)]
    return Installer(making, [], [found, "pip", "install", "--quiet", "--python", wanted.python])


def pip(wanted: Wanted) -> Installer | None:
    """A pip from outside (fastest), or the one that Python carries for this."""
    bare = [sys.executable, "-I", "-m", "venv", "--without-pip", str(wanted.venv)]
    on_path = [[found] for found in map(shutil.which, ("pip3", "pip")) if found]
    for command in ([sys.executable, "-I", "-m", "pip"], *on_path):
        version = re.match(r"pip (\d+)\.(\d+)", wanted.run(*command, "--version").said)
        if version and tuple(map(int, version.groups())) >= PIP_WITH_PYTHON_OPTION:
            return Installer(bare, [], [*command, "--python", wanted.python, "install", "--quiet"])
    if wanted.run(sys.executable, "-I", "-c", "import ensurepip; ensurepip.version()").ok:
        whole = [sys.executable, "-I", "-m", "venv", str(wanted.venv)]
        own = [wanted.python, "-I", "-m"]
        return Installer(whole, [[*own, "ensurepip"]], [*own, "pip", "install", "--quiet"])
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


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    fresh = path.with_suffix(".new")
    fresh.write_bytes(os.fsencode(text))
    fresh.replace(path)


def give_up_after(wanted: Wanted, result: Result) -> NoReturn:
    print("\n".join(result.said.rstrip().splitlines()[-SHOWN_LINES:]), file=sys.stderr)
    give_up(wanted.who, "the installation failed; the installer's last words are above.", 1)


def give_up(who: str, sentence: str, code: int) -> NoReturn:
    print(f"{who}: {sentence}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
