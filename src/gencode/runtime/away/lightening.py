"""away: what is left out of the work of a copy, the heaviest first, where all of it is too much to travel."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from gencode.runtime.away.parcel import MOST_PACK
from gencode.runtime.worktrees.git import Git, trouble

_NONE = "0"
_NO_FILE = frozenset({"000000", "160000"})
"""What has no contents that would travel: nothing at all, and a repository of its own."""
_RAW = ("diff-tree", "--raw", "-r", "-z", "--no-abbrev", "--no-renames", "--ignore-submodules=none")
_SIZE = "--batch-check=%(objectsize:disk)"
MOST_TRIES = 20
"""So often one more is left out than a guess says; then it is given up."""


class Heavy(Struct, frozen=True):
    """Contents that were made or changed, with what each file that has them was before."""

    size: int
    files: tuple[tuple[bytes, str, str], ...]
    """Names, each with the mode and the contents from before; a mode of 0 means that there was none."""

    @property
    def names(self) -> list[bytes]:
        """The names of the files."""
        return [name for name, _, _ in self.files]


async def heaviest(git: Git, before: str, after: str) -> list[Heavy]:
    """What two commits differ in, the heaviest contents first. Files that were removed weigh nothing."""
    said = await git.run(*_RAW, "--end-of-options", before, after)
    if not said.ok:
        raise trouble(said, "What was changed cannot be listed")
    found: dict[str, list[tuple[bytes, str, str]]] = {}
    words = iter(said.out.split(b"\0"))
    for word in words:
        if word.startswith(b":"):
            old_mode, mode, old, new, _ = word[1:].decode("ascii").split(" ")
            name = next(words)
            if mode not in _NO_FILE:
                was = _NONE if old_mode == "000000" else old_mode
                found.setdefault(new, []).append((name, was, old))
    sizes = await git.run("cat-file", _SIZE, stdin="".join(f"{each}\n" for each in found).encode())
    told = [int(line) if line.isdigit() else 0 for line in sizes.out.decode("ascii").splitlines()]
    heavy = [Heavy(size, tuple(files)) for size, files in zip(told, found.values(), strict=False)]
    return sorted(heavy, key=lambda each: -each.size)


def leaving_out(heavy: list[Heavy]) -> Iterator[list[Heavy]]:
    """What to leave out, more each time: first as much as must be by its size, then one by one."""
    weight, count = sum(each.size for each in heavy), 0
    while count < len(heavy) and weight > MOST_PACK:
        weight -= heavy[count].size
        count += 1
    for more in range(max(count, 1), min(len(heavy), count + MOST_TRIES) + 1):
        yield heavy[:more]


async def leave_out(git: Git, heavy: Iterable[Heavy], index: str) -> None:
    """Let files be in an index as they were before."""
    lines = [f"{mode} {contents}\t".encode() + name for each in heavy for name, mode, contents in each.files]
    said = await git.run(
        "update-index", "-z", "--index-info", stdin=b"".join(line + b"\0" for line in lines), index=index
    )
    if not said.ok:
        raise trouble(said, "What is too large cannot be left out")
