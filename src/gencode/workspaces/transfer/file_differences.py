"""away: the files that two states differ in, with their contents before and after, and the way back."""

from collections.abc import Iterable, Iterator

from msgspec import Struct

from gencode.workspaces.worktrees.git import Git, trouble

RAW = ("--raw", "-z", "--no-abbrev", "--no-renames", "--ignore-submodules=none")
"""How git is asked for what `changes` reads."""
NONE = "000000"
_REPOSITORY = "160000"
_LINK = "120000"


class Change(Struct, frozen=True):
    """A file that is new, changed or gone: its mode and contents, `old` and now. `NONE`: there is none."""

    name: bytes
    old_mode: str
    old: str
    mode: str
    new: str

    @property
    def is_new(self) -> bool:
        """Whether there was nothing of that name before."""
        return self.old_mode == NONE

    @property
    def has_contents(self) -> bool:
        """Whether there is something now that would travel; a repository of its own does not."""
        return self.mode not in {NONE, _REPOSITORY}

    @property
    def is_file(self) -> bool:
        """Whether it is a file now, and no link."""
        return self.has_contents and self.mode != _LINK


def changes(out: bytes) -> Iterator[Change]:
    """What git said, whatever the names are."""
    words = iter(out.split(b"\0"))
    for word in words:
        if word.startswith(b":"):
            old_mode, mode, old, new, _ = word[1:].decode("ascii").split(" ")
            yield Change(next(words), old_mode, old, mode, new)


async def put_back(git: Git, changed: Iterable[Change], index: str) -> None:
    """Let files be in an index as they were before."""
    lines = [f"{_was(each)} {each.old}\t".encode() + each.name + b"\0" for each in changed]
    said = await git.run("update-index", "-z", "--index-info", stdin=b"".join(lines), index=index)
    if not said.ok:
        raise trouble(said, "What does not travel cannot be left out")


def _was(change: Change) -> str:
    return "0" if change.is_new else change.old_mode
