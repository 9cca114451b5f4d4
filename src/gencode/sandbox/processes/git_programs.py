"""Keeps git commands that only read from starting programs of a repository, and from showing passwords.

A command that was allowed because it only reads must not run what a repository names: filters, diff drivers,
what its submodules name in theirs. It shows the URLs of remotes without the passwords in them. Git itself
tells which there are; that starts nothing. These calls block.
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
MOST_SETTINGS = 1 << 17
"""The most bytes of settings in an environment. Linux starts nothing with a longer variable."""
_BYTES_OF_A_SETTING = 48
"""For the two names under which an environment has one."""

_OVERRULED = "command"
"""Git's name for the scope of settings that come from the environment."""
_SCOPES_OF_REPOSITORY = frozenset({"local", "worktree"})
_USUAL_FOLDERS = ("/usr/bin", "/bin")
_MODULES = ".gitmodules"

# The name between two dots may be empty: `[diff ""]` is the driver of the attribute `diff=`.
_EMPTIED = re.compile(
    r"filter\..*\.(?:clean|smudge|process)|core\.alternaterefscommand|merge\..*\.driver|hook\..*\.command"
    r"|core\.gitproxy|gpg\..*\.program",
    re.IGNORECASE | re.DOTALL,
)
_DIFFERENCE = re.compile(r"diff\.external|diff\..*\.command", re.IGNORECASE | re.DOTALL)
_CONVERSION = re.compile(r"diff\..*\.textconv", re.IGNORECASE | re.DOTALL)
_SWITCHED_OFF = re.compile(r"filter\..*\.required", re.IGNORECASE | re.DOTALL)
_CACHED_CONVERSION = re.compile(r"diff\..*\.cachetextconv", re.IGNORECASE | re.DOTALL)
_SUBMODULE = re.compile(r"(?P<name>submodule\..+)\.[^.]+", re.IGNORECASE | re.DOTALL)
_REMOTE = re.compile(
    r"(?:remote\..*\.(?:url|(?P<push>pushurl))|branch\..*\.(?:pushremote|remote))", re.IGNORECASE | re.DOTALL
)
_PASSWORD = re.compile(r"(?<=://)(?:[^/@]*:[^/]*|(?<=https://)[^/]+|(?<=http://)[^/]+)@")
"""A name and a password in a URL; over HTTP a name alone may be a token."""
_QUOTES = str.maketrans("", "", "\"'\\\n")

# Git has no value of `diff.external` that means none, so it gets one that prints the plain difference. Git
# hands over: path, old file, id and mode, new file, id and mode, and for a renamed file its name and a text.
PLAIN_DIFFERENCE = """plain() {
  if [ $# -lt 7 ]; then printf '* Unmerged path %s\\n' "$1"; return; fi
  old=a/$1 new=b/${8:-$1} file=$5
  printf 'diff --git %s %s\\n' "$old" "$new"
  if [ "$2" = /dev/null ]; then printf 'new file mode %s\\n' "$7"; old=/dev/null
  elif [ "$5" = /dev/null ]; then printf 'deleted file mode %s\\n' "$4"; new=/dev/null
  elif [ "$4" != "$7" ]; then printf 'old mode %s\\nnew mode %s\\n' "$4" "$7"; fi
  printf '%s' "${9-}"
  case $file in /*) ;; *) file=./$file ;; esac
  diff -u -L "$old" -L "$new" -- "$2" "$file"
  return 0
}; plain"""

# The same for `textconv`: text as it is. Git would print the bytes of any other file, so it gets a checksum.
PLAIN_TEXT = """plain() {
  if [ "$(head -c 8000 <"$1" | tr -d '\\000' | wc -c)" -eq "$(head -c 8000 <"$1" | wc -c)" ]; then cat <"$1"
  else printf 'Binary file, checksum and size: '; cksum <"$1"; fi
}; plain"""


def may_run_git(text: str) -> bool:
    """Whether a command could start git, however it is spelled; rather yes than no."""
    return "git" in text.translate(_QUOTES) or "$'" in text


def neutral_settings(cwd: Path, environ: Mapping[str, str]) -> dict[str, str]:
    """Settings that take away what the repository around `cwd` would have git start; they win over its own.

    `environ` is the environment that git will have, without them. ToolError where the configuration cannot be
    read as a whole, or where this git would not obey: what is not known cannot be taken away.
    """
    if not _is_inside(cwd):
        return {}
    found: dict[str, str] = {}
    for git in _programs(environ):
        repository = _Repository(git, cwd, environ)
        for scope, name, value in repository.settings():
            found |= _neutral(scope, name)
            if (remote := _REMOTE.fullmatch(name)) and (shown := _PASSWORD.sub("***@", value)) != value:
                while f"url.{shown}.insteadOf" in found:
                    shown = shown.replace("***", "****", 1)
                found[f"url.{shown}.insteadOf"] = value
                found |= {} if remote["push"] else {name: shown}  # what `git config --get` shows
        for name in repository.submodules():
            found[f"{name}.ignore"] = "all"
    sizes = (_BYTES_OF_A_SETTING + len(os.fsencode(name)) + len(value) for name, value in found.items())
    if sum(sizes) > MOST_SETTINGS:
        raise _refusal("names too many programs or submodules")
    return found


def _neutral(scope: str, name: str) -> dict[str, str]:
    """What replaces one setting. Those of the person stay, except for one that has git write something."""
    if _CACHED_CONVERSION.fullmatch(name):
        return {name: "false"}
    if scope not in _SCOPES_OF_REPOSITORY:
        return {}
    if _EMPTIED.fullmatch(name):
        return {name: ""}
    if _DIFFERENCE.fullmatch(name):
        return {name: PLAIN_DIFFERENCE}
    if _CONVERSION.fullmatch(name):
        return {name: PLAIN_TEXT}
    if _SWITCHED_OFF.fullmatch(name):
        return {name: "false"}
    return {}


def _programs(environ: Mapping[str, str]) -> list[str]:
    """Every git that a command could start by its bare name or from the usual folders; mostly one."""
    folders = [each for each in environ.get("PATH", os.defpath).split(os.pathsep) if each.startswith("/")]
    found = [shutil.which("git", path=os.pathsep.join(folders)) if folders else None]
    found += [shutil.which("git", path=folder) for folder in _USUAL_FOLDERS]
    return list({os.path.realpath(each): each for each in reversed(found) if each}.values())


def _is_inside(cwd: Path) -> bool:
    """Whether git could take a folder for a repository: it or one above has a `.git` or is one itself."""
    here = Path(os.path.realpath(cwd))
    return any(os.path.lexists(each / name) for each in (here, *here.parents) for name in (".git", "HEAD"))


class _Repository:
    """What one git says of the repository around a folder."""

    def __init__(self, git: str, cwd: Path, environ: Mapping[str, str]) -> None:
        self._git = git
        self._cwd = cwd
        self._environ = dict(environ)

    def settings(self) -> Iterator[tuple[str, str, str]]:
        """The scope, the name and the value of every setting that git reads here."""
        listed, whole = self._said("config", "--null", "--show-scope", "--list")
        if not whole:
            raise _refusal("cannot be read as a whole")
        words = listed.split("\0")
        pairs = list(zip(words[::2], words[1::2], strict=False))
        if _OVERRULED not in (scope for scope, _ in pairs):
            raise _refusal("cannot be overruled, because this git is older than 2.31")
        for scope, setting in pairs:
            name, _, value = setting.partition("\n")
            yield scope, name, value

    def submodules(self) -> Iterator[str]:
        """The sections of all submodules, wherever git may read them from.

        Git reads one of three: the file, else what is staged, else what was committed. The others are looked
        at as well, because the file may come or go meanwhile; they may be broken. Git ignores a submodule
        that none of them names, because of `diff.ignoreSubmodules`.
        """
        top = self._said("rev-parse", "--show-toplevel")[0].removesuffix("\n")
        file = Path(top, _MODULES)
        places = [("--file", str(file))] if top and os.path.lexists(file) else []
        blobs = [f":{_MODULES}", f"HEAD:{_MODULES}"]
        checked = self._said("cat-file", "--batch-check", told="\n".join(blobs))[0].splitlines()
        there = [blob for blob, line in zip(blobs, checked, strict=False) if not line.endswith(" missing")]
        places += [("--blob", blob) for blob in there]
        for number, place in enumerate(places):
            listed, whole = self._said("config", "--null", "--name-only", "--list", *place)
            if not whole and number == 0 and not self._is_in_conflict():
                raise _refusal(f"cannot be read as a whole: {_MODULES} is broken")
            for name in listed.split("\0"):
                if section := _SUBMODULE.fullmatch(name):
                    yield section["name"]

    def _is_in_conflict(self) -> bool:
        """Whether `.gitmodules` has a merge conflict: then git does not read it."""
        return bool(self._said("ls-files", "--unmerged", "--", f":(top){_MODULES}")[0])

    def _said(self, *words: str, told: str = "") -> tuple[str, bool]:
        """What git says and whether it went well; ToolError where it does not end or says too much."""
        try:
            process = subprocess.Popen(
                [self._git, *words],
                cwd=self._cwd,
                env=self._environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        except OSError:
            return "", False
        timer = Timer(SECONDS, process.kill)
        timer.start()
        with process:
            try:
                if process.stdin:
                    process.stdin.write(told.encode())
                    process.stdin.close()
            except BrokenPipeError:
                pass
            said = process.stdout.read(MOST_BYTES + 1) if process.stdout else b""
            if len(said) > MOST_BYTES:
                process.kill()
        timer.cancel()
        if process.returncode < 0:
            raise _refusal("takes too long to read or is too large")
        return os.fsdecode(said), process.returncode == 0


def _refusal(why: str) -> ToolError:
    return ToolError(
        f"Refused: the configuration of this git repository {why}. Git could start programs that it names, "
        "so it is not run here as a command that only reads. Look at .git/config and .gitmodules with the "
        "user. `git -c gc.auto=0 COMMAND` asks the user to approve git as it is."
    )
