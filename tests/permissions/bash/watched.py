"""A scratch tree in which commands are really run, and in which every change is seen."""

import hashlib
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

FILES = {
    "a.py": "import os\n\n\ndef main():\n    print('TODO')\n",
    "b.txt": "b\na\n\nTODO one\n\tc  d\n",
    "sizes.txt": "10 ten\n9 nine\n9 nine\n100 hundred\n",
    "data.json": '{"deps": {"x": 1}, "list": [3, 1, 2]}\n',
    "coded.txt": "aGVsbG8K\n",
    "src/x.c": "int main(void) { return 0; } /* TODO */\n",
    "src/deep/y.md": "# y\n\nTODO\n",
    ".ignore": "ignored.log\n",
    "a.py=x": "named like an assignment\n",
    "-e": "named like an option of sed\n",
    "--checkpoint-action=exec=thief": "named like an option of tar\n",
    'BEGIN{system("thief")}': "named like a program of awk\n",
    ".gitignore": "*.log\n",
    "-o": "a file that is named like an option\n",
    "--output=stolen": "another one\n",
    "+1": "a third\n",
}
PROGRAM = "thief"
"""A program in the tree and on the PATH: it leaves a file behind wherever it is run."""


class ScratchTree:
    """A workspace with a git repository whose settings are hostile, and a home folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.workspace = root / "ws"
        self._environment = self._make_environment()
        self._fill()

    def run(self, commands: list[str], prefix: tuple[str, ...] = ()) -> None:
        """Run each command as the executor would; their answers do not matter."""
        text = "\n".join(f"({command}\n)" for command in commands)
        subprocess.run(
            [*prefix, "bash", "--noprofile", "--norc", "-c", text],
            cwd=self.workspace,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=120,
            start_new_session=True,
            check=False,
        )

    def changes(self, commands: list[str]) -> dict[str, tuple[object, object]]:
        """What is different after these commands have run: before and after, by name."""
        before = self.seen()
        self.run(commands)
        after = self.seen()
        return {
            name: (before.get(name), after.get(name))
            for name in before.keys() | after.keys()
            if before.get(name) != after.get(name)
        }

    def seen(self) -> dict[str, object]:
        """Every file and folder, with what can change about it."""
        found: dict[str, object] = {}
        for folder, folders, names in os.walk(self.root):
            if folder == str(self.root):
                folders.remove("tmp")
            for name in (*folders, *names, "."):
                path = Path(folder, name)
                found[str(path.relative_to(self.root))] = _facts(path)
        return found

    def _make_environment(self) -> dict[str, str]:
        """What the executor sets for calls that are allowed as read-only."""
        settings = {
            "core.fsmonitor": "false",
            "core.pager": "cat",
            "core.hooksPath": str(self.root / "no-hooks"),
            "diff.autoRefreshIndex": "false",
        }
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:{self.workspace}",
            "HOME": str(self.root / "home"),
            "TMPDIR": str(self.root / "tmp"),
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_CONFIG_COUNT": str(len(settings)),
        }
        for index, (key, value) in enumerate(settings.items()):
            environment[f"GIT_CONFIG_KEY_{index}"] = key
            environment[f"GIT_CONFIG_VALUE_{index}"] = value
        return environment

    def _fill(self) -> None:
        for folder in ("ws", "home", "tmp", "no-hooks"):
            (self.root / folder).mkdir()
        for name, text in FILES.items():
            path = self.workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        thief = self.workspace / PROGRAM
        thief.write_text(f'#!/bin/sh\necho "$0 $*" >> {self.root}/ws/stolen\n')
        thief.chmod(0o755)
        (self.workspace / "link").symlink_to("a.py")
        (self.workspace / "dangling").symlink_to("nowhere")
        (self.workspace / "src" / "up").symlink_to("..")
        if shutil.which("git"):
            self._fill_repository()

    def _fill_repository(self) -> None:
        self._git("init", "-q", "-b", "main")
        for key, value in {
            "user.name": "me",
            "user.email": "me@example.com",
            "remote.origin.url": "https://example.com/x.git",
            "branch.main.remote": "origin",
        }.items():
            self._git("config", key, value)
        self._git("add", "-A")
        self._git("commit", "-q", "-m", "one")
        self._git("tag", "-a", "v1", "-m", "first")
        self._git("mv", "b.txt", "c.txt")
        self._git("commit", "-q", "-m", "two")
        self._git("branch", "wip")
        (self.workspace / "a.py").write_text("print('stashed')\n")
        self._git("stash", "-q")
        (self.workspace / "b.txt").write_text("b is back\n")
        (self.workspace / "src" / "x.c").write_text("int main;\n")
        for key in (
            "core.fsmonitor",
            "core.pager",
            "pager.log",
            "gpg.program",
            "core.editor",
            "alias.status",
        ):
            self._git("config", key, PROGRAM)
        # What git knows of these files is stale now, so that it would like to write its index anew.
        for name in ("a.py", "data.json", "sizes.txt"):
            os.utime(self.workspace / name, (1_600_000_000, 1_600_000_000))

    def _git(self, *words: str) -> None:
        subprocess.run(
            ["git", *words],
            cwd=self.workspace,
            env=self._environment,
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=60,
        )


def _facts(path: Path) -> object:
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        content = str(path.readlink())
    elif stat.S_ISREG(status.st_mode):
        content = hashlib.sha256(path.read_bytes()).hexdigest()
    else:
        content = ""
    return (stat.filemode(status.st_mode), status.st_uid, status.st_size, status.st_mtime_ns, content)
