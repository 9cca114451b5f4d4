"""What a copy of a folder on a worker costs: the first one of a repository, and each one after it.

    PYTHONPATH=. python bench/away.py [FILES]

A repository with so many files of 4 KiB (5,000) and ten commits is sent; snapshots wait in memory, so the
database is not in it.
"""

import asyncio
import random
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from tests.workspaces.transfer.post import Office, arrived, sent
from tests.workspaces.worktrees.yard import commit, git

FILES = 5_000
COMMITS = 10
ROUNDS = 5

T = TypeVar("T")


def built(folder: Path, files: int) -> Path:
    """A repository in which every commit changes a tenth of the files."""
    folder.mkdir()
    git(folder, "init", "--quiet")
    chance = random.Random(1)
    for number in range(COMMITS):
        for file in range(files if number == 0 else files // 10):
            path = folder / f"folder{file % 50}" / f"file{file}.txt"
            path.parent.mkdir(exist_ok=True)
            path.write_text(chance.randbytes(2048).hex())
        commit(folder)
    return folder


def size(folder: Path) -> str:
    return f"{sum(path.lstat().st_size for path in folder.rglob('*') if path.is_file()) / 2**20:.1f} MiB"


async def timed(what: str, work: Coroutine[Any, Any, T]) -> T:
    begun = time.perf_counter()
    done = await work
    print(f"{what:<40} {1000 * (time.perf_counter() - begun):8.0f} ms")
    return done


async def main(files: int) -> None:
    with TemporaryDirectory() as folder:
        repo, home, office = built(Path(folder, "repo"), files), Path(folder, "home"), Office()
        snapshot = await timed("pack, the first time", sent(repo, office))
        copy = await timed("first copy, with the mirror", arrived(snapshot, office, home, "00000000"))
        for number in range(1, ROUNDS):
            copy = await timed("another copy", arrived(snapshot, office, home, f"{number:08x}"))
        git_own = copy.cwd / ".git"
        print(f"a copy: {size(copy.cwd)}, of it .git {size(git_own)}; mirror: {size(copy.tree.repository)}")
        (copy.cwd / "new.txt").write_text("new\n")
        await timed("hand in one new file, remove the copy", copy.hand_in(office, "me", "worker"))
        await timed("remove one that was not touched", office.lodgings[0].hand_in(office, "me", "worker"))
        for lodging in office.lodgings:
            lodging.release(home)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else FILES))
