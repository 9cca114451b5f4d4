"""A real bash in an empty folder that writes down every program it tries to start, with its arguments.

No program is on its PATH, so each one is "not found" and ends up in bash's own hook for that, which logs it.
Names that begin with `no` fail, all others succeed and print a word.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from signal import SIGKILL
from typing import NamedTuple

from gencode.permissions.bash.parts import Part, ShellWord

LOGGED = r"""((SECONDS < 3)) || kill -KILL 0; printf '%s\0' "$#" "${{@//$'\n'/␤}}" >> '{log}'"""
LIMITED = 'ulimit -t 2 -f 2048; exec "$@"'
PATIENCE = 10


class Observed(NamedTuple):
    """What a command line did: the programs it started and the files it left behind."""

    started: list[list[str]]
    files: set[str]
    complaints: str


class RealBash:
    """Runs command lines as the executor does."""

    def __init__(self, root: Path) -> None:
        self._bash = shutil.which("bash") or "bash"
        self._root = root
        self._log = root / "log"
        self._scratch = root / "scratch"
        self._nothing = root / "nothing"
        self._nothing.mkdir()
        # Bash writes line by line, and others write too: without newlines each program is one write.
        hook = "() { " + LOGGED.format(log=self._log) + "; echo out; [[ $1 != no* ]]; }"
        self._environment = {
            "PATH": str(self._nothing),
            "HOME": str(self._nothing),
            "LC_ALL": "C.UTF-8",
            "FUNCNEST": "3",
            "BASH_FUNC_command_not_found_handle%%": hook,
        }

    def refuses(self, text: str) -> bool:
        """Whether bash says that this is no command line."""
        code, complaints = self._run([self._bash], ["-n", "-c", text], self._nothing)
        return code != 0 or any("warning:" not in line for line in complaints.splitlines())

    def observe(self, text: str) -> Observed:
        """Run a command line in an empty folder."""
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir()
        self._log.write_bytes(b"")
        limited = [self._bash, "-c", LIMITED, "limits", self._bash]
        _, complaints = self._run(limited, ["-c", text], self._scratch)
        files = {str(path.relative_to(self._scratch)) for path in self._scratch.rglob("*")}
        return Observed(self._started(), files, complaints)

    def _run(self, bash: list[str], arguments: list[str], where: Path) -> tuple[int, str]:
        process = subprocess.Popen(
            [*bash, "--noprofile", "--norc", *arguments],
            cwd=where,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            _, complaints = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            complaints = b"it took too long"
        finally:
            kill_group(process.pid)
            process.communicate()
        return process.returncode, complaints.decode(errors="replace")

    def _started(self) -> list[list[str]]:
        fields = [field.decode(errors="surrogateescape") for field in self._log.read_bytes().split(b"\0")]
        started: list[list[str]] = []
        while len(fields) > 1:
            count = int(fields[0])
            started.append([self._as_typed(field) for field in fields[1 : count + 1]])
            fields = fields[count + 1 :]
        return started

    def _as_typed(self, argument: str) -> str:
        return argument.replace(str(self._nothing), "~").replace("␤", "\n")


def kill_group(leader: int) -> None:
    """End what may still run in the background."""
    try:
        os.killpg(leader, SIGKILL)
    except ProcessLookupError:
        return


def overlooked(parts: Sequence[Part], seen: Observed) -> list[object]:
    """What bash did although no part says so."""
    commands = [part.words for part in parts if part.kind == "command" and part.words]
    missed: list[object] = []
    if all(words[0].literal for words in commands) and not any(runs_code(part) for part in parts):
        missed += [argv for argv in seen.started if not any(may_become(words, argv) for words in commands)]
    targets = [part.words[0] for part in parts if part.kind == "write"]
    if all(target.literal for target in targets):
        missed += sorted(seen.files - {target.value.removeprefix("./") for target in targets})
    return missed


def runs_code(part: Part) -> bool:
    """Arithmetic and the target of `>&` may run the text they are given; other opaque parts here do not."""
    return bool(part.opaque) and (part.kind == "write" or "arithmetic" in part.opaque)


def may_become(words: Sequence[ShellWord], argv: list[str]) -> bool:
    """Whether the words can turn into these arguments; a dynamic word stands for any number of them."""
    if not words:
        return not argv
    if words[0].literal:
        return argv[:1] == [words[0].value] and may_become(words[1:], argv[1:])
    return any(may_become(words[1:], argv[taken:]) for taken in range(len(argv) + 1))
