"""processes: programs that a repository's own configuration would have git start, taken away from it.

A command that was allowed because it only reads must not run what a repository names: filters, diff drivers,
what its submodules name in theirs. Git itself tells which there are; that starts nothing. These calls block.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Timer

from gencode.core.errors import ToolError

SECONDS = 2.0
MOST_BYTES = 1 << 20

_PROGRAM = re.compile(
    r"diff\.external|diff\..+\.(?:command|textconv)|filter\..+\.(?:clean|smudge|process)"
    r"|gpg\.(?:.+\.)?program|core\.alternaterefscommand|merge\..+\.driver|hook\..+\.command|core\.gitproxy",
    re.IGNORECASE | re.DOTALL,
)
_REQUIRED = re.compile(r"filter\..+\.required", re.IGNORECASE | re.DOTALL)
_SUBMODULE = re.compile(r"(?P<name>submodule\..+)\.[^.]+", re.IGNORECASE | re.DOTALL)
_QUOTES = str.maketrans("", "", "\"'\\\n")
_MODULES = ".gitmodules"


def may_run_git(text: str) -> bool:
    """Whether a command could start git, however it is spelled; rather yes than no."""
    return "git" in text.translate(_QUOTES) or "$'" in text


def neutral_settings(cwd: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Settings that take away what the repository around `cwd` would have git start; they win over its own.

    Git says so where it would have started something, and shows the content as it is.
    """
    git = _find(environ)
    if git is None or not _is_inside(cwd):
        return {}
    found: dict[str, str] = {}
    for name in _names([git, "config", "--null", "--name-only", "--list"], cwd, environ):
        if _PROGRAM.fullmatch(name):
            found[name] = ""
        elif _REQUIRED.fullmatch(name):
            found[name] = "false"
        elif submodule := _SUBMODULE.fullmatch(name):
            found[f"{submodule['name']}.ignore"] = "all"
    return found


def _find(environ: Mapping[str, str]) -> str | None:
    folders = [each for each in environ.get("PATH", os.defpath).split(os.pathsep) if each.startswith("/")]
    return shutil.which("git", path=os.pathsep.join(folders)) if folders else None


def _is_inside(cwd: Path) -> bool:
    """Whether git could take a folder for a repository: it or one above has a `.git` or is one itself."""
    return any((each / ".git").exists() or (each / "HEAD").exists() for each in (cwd, *cwd.parents))


def _names(listing: list[str], cwd: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """The names of all settings of the repository, and of its submodules wherever git may read them from."""
    top = _said([listing[0], "rev-parse", "--show-toplevel"], cwd, environ).removesuffix("\n")
    places = [("--local", "--includes"), ("--worktree", "--includes")]
    places += [("--blob", f":{_MODULES}"), ("--blob", f"HEAD:{_MODULES}")]
    if top:
        places.append(("--file", str(Path(top, _MODULES))))
    for place in places:
        yield from filter(None, _said([*listing, *place], cwd, environ).split("\0"))


def _said(command: list[str], cwd: Path, environ: Mapping[str, str]) -> str:
    """What git says, or nothing where it refuses; ToolError where it does not end or says too much."""
    try:
        process = subprocess.Popen(
            command,
            cwd=cwd,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
    except OSError:
        return ""
    timer = Timer(SECONDS, process.kill)
    timer.start()
    with process:
        said = process.stdout.read(MOST_BYTES + 1) if process.stdout else b""
        if len(said) > MOST_BYTES:
            process.kill()
    timer.cancel()
    if process.returncode < 0:
        raise ToolError("The configuration of this git repository cannot be read; git is not run in it.")
    return os.fsdecode(said) if process.returncode == 0 else ""
