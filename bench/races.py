"""Check and use: how often a file ends elsewhere when folders and files are swapped while tools open them.

    python bench/races.py [ATTEMPTS]

Another process swaps one component of a path again and again, as fast as it can, for something that leads out
of the workspace. Meanwhile the path is judged and then read or replaced, ATTEMPTS times for each kind of swap
(10,000 unless told). The exit code is 1 when a single one ended outside. The same with a plain `open` of the
judged path shows that the swaps do hit.
"""

import os
import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from gencode.core.errors import ToolError
from gencode.core.rules import Action, Mode, Policy
from gencode.core.spec import Workspace
from gencode.files.safe_files import open_for_reading, replace_file
from gencode.permissions.paths import Resolved, decide_path, resolve

Deed = Literal["read", "replace", "plain read", "plain write"]
DEEDS: tuple[Deed, ...] = ("read", "replace", "plain read", "plain write")
OURS = "ours"
THEIRS = "not ours"
POLICY = Policy(Mode.ACCEPT_EDITS)


class Scene:
    """A workspace with one file at a/b/f, and a file of the same name outside that must not be touched."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.inside = self.root / "ws"
        self.outside = self.root / "outside"
        self.file = self.inside / "a" / "b" / "f"
        self.workspace = Workspace(self.inside, self.inside, self.root / "home")

    def build(self) -> None:
        """Both files, with what they hold."""
        self.file.parent.mkdir(parents=True)
        self.file.write_text(OURS)
        (self.outside / "b").mkdir(parents=True)
        self.build_outside()

    def build_outside(self) -> None:
        """The files outside, with what they hold."""
        for each in ("f", "b/f"):
            (self.outside / each).write_text(THEIRS)

    def untouched(self) -> bool:
        """Whether everything outside is as it was built."""
        found = {str(path.relative_to(self.outside)): path for path in self.outside.rglob("*")}
        texts = {path.read_text() for path in found.values() if path.is_file()}
        return (set(found), texts) == ({"f", "b", "b/f"}, {THEIRS})


def swap_folder(scene: Scene, folder: Path, target: Path) -> None:
    """A folder away, a link out in its place, and back."""
    aside = folder.with_name("aside")
    with suppress(OSError):
        folder.rename(aside)
        folder.symlink_to(target)
        pause()
    with suppress(OSError):
        folder.unlink()
    if aside.exists() and folder.is_dir():
        shutil.rmtree(folder, ignore_errors=True)
    with suppress(OSError):
        aside.rename(folder)
    if not scene.file.exists():
        with suppress(OSError):
            scene.file.parent.mkdir(parents=True, exist_ok=True)
            scene.file.write_text(OURS)
    pause()


def swap_file(scene: Scene, put: Callable[[Path], object]) -> None:
    """Something else in place of the file, then a file again."""
    new = scene.inside / "new"
    for place in (put, put_file):
        new.unlink(missing_ok=True)
        with suppress(OSError):
            place(new)
            new.rename(scene.file)
        pause()


def put_file(path: Path) -> None:
    """An ordinary file."""
    path.write_text(OURS)


def pause() -> None:
    """Long enough to be met, short enough to be missed."""
    time.sleep(random.random() * 0.0001)


SWAPS: dict[str, Callable[[Scene], None]] = {
    "folder for a link": lambda scene: swap_folder(scene, scene.file.parent, scene.outside),
    "folder above for a link": lambda scene: swap_folder(scene, scene.inside / "a", scene.outside),
    "file for a link": lambda scene: swap_file(scene, lambda path: path.symlink_to(scene.outside / "f")),
    "file for a hard link": lambda scene: swap_file(
        scene, lambda path: path.hardlink_to(scene.outside / "f")
    ),
    "file for a pipe": lambda scene: swap_file(scene, os.mkfifo),
}


def swap_for_ever(kind: str, root: Path) -> None:
    """The attacker's process; it ends when the one that started it does."""
    scene, parent = Scene(root), os.getppid()
    print("swapping", flush=True)
    while os.getppid() == parent:
        SWAPS[kind](scene)


@contextmanager
def attacker(kind: str, root: Path) -> Generator[None]:
    """Another process that swaps as long as the block runs."""
    command = [sys.executable, __file__, "--swap", kind, str(root)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"swapping\n"
            yield
        finally:
            process.kill()


def attempt(scene: Scene, deed: Deed) -> str:
    """Judge the path, then do it: what came of it."""
    judged = resolve("a/b/f", scene.workspace)
    tool = "Read" if deed.endswith("read") else "Write"
    if decide_path(tool, judged, POLICY, scene.workspace).action is not Action.ALLOW:
        return "not allowed"
    try:
        if tool == "Read":
            # A hard link that was there when the path was judged is no secret way: reading it is allowed.
            theirs = _read(judged, deed) == THEIRS.encode()
            return "outside" if theirs and judged.hard_links < 2 else "done"
        _write(judged, deed)
    except (ToolError, OSError):
        return "refused"
    if scene.untouched():
        return "done"
    scene.build_outside()
    return "outside"


def _read(judged: Resolved, deed: Deed) -> bytes:
    if deed == "plain read":
        return Path(judged.real).read_bytes()
    with open_for_reading(judged) as file:
        return file.read()


def _write(judged: Resolved, deed: Deed) -> None:
    if deed == "plain write":
        Path(judged.real).write_text(OURS)
    else:
        replace_file(judged, OURS.encode())


def race(kind: str, deed: Deed, attempts: int, root: Path) -> Counter[str]:
    """How many attempts ended how, while the path was being swapped."""
    scene = Scene(root)
    scene.build()
    with attacker(kind, scene.root):
        counts = Counter(attempt(scene, deed) for _ in range(attempts))
    if not scene.untouched():
        counts["outside"] += 1
    return counts


def main() -> int:
    """Every kind of swap against reading and replacing, as a table."""
    attempts = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    columns = ("done", "refused", "not allowed", "outside")
    print(f"{'swapped':<26}{'deed':<12}" + "".join(f"{each:>13}" for each in columns))
    outside = 0
    for kind in SWAPS:
        for deed in DEEDS:
            plain = deed.startswith("plain")
            if plain and kind == "file for a pipe":
                continue  # it would wait for ever
            with TemporaryDirectory(prefix="races") as folder:
                counts = race(kind, deed, attempts, Path(folder))
            outside += 0 if plain else counts["outside"]
            print(f"{kind:<26}{deed:<12}" + "".join(f"{counts[each]:>13,}" for each in columns), flush=True)
    return 1 if outside else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--swap"]:
        swap_for_ever(sys.argv[2], Path(sys.argv[3]))
    else:
        sys.exit(main())
