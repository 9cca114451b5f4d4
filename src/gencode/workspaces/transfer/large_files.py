"""away: what is left out of the work of a copy, the heaviest first, where all of it is too much to travel."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from gencode.journal.folder_snapshot import MOST_PACK
from gencode.workspaces.transfer.file_differences import RAW, Change, changes, put_back
from gencode.workspaces.worktrees.git import Git, trouble

_SIZE = "--batch-check=%(objectsize:disk)"
MOST_TRIES = 20
"""So often one more is left out than a guess says; then it is given up."""


class Heavy(Struct, frozen=True):
    """Contents that were made or changed, with what each file that has them was before."""

    size: int
    files: tuple[Change, ...]

    @property
    def names(self) -> list[bytes]:
        """The names of the files."""
        return [each.name for each in self.files]


async def heaviest(git: Git, before: str, after: str) -> list[Heavy]:
    """What two commits differ in, the heaviest contents first. Files that were removed weigh nothing."""
    said = await git.run("diff-tree", "-r", *RAW, "--end-of-options", before, after)
    if not said.ok:
        raise trouble(said, "What was changed cannot be listed")
    found: dict[str, list[Change]] = {}
    for change in changes(said.out):
        if change.has_contents:
            found.setdefault(change.new, []).append(change)
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
    await put_back(git, (change for each in heavy for change in each.files), index)
