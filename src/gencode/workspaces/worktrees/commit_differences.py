"""worktrees: the difference of two commits, as a list of files and as text, both bounded."""

from gencode.core.changes import ChangedFile, FileStatus
from gencode.workspaces.worktrees.create import shown
from gencode.workspaces.worktrees.git import Git, trouble

MOST_FILES = 500
MOST_DIFF = 100_000
_MOST_BYTES = 32 << 20
_PLAINLY = (
    *("--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short", "--ignore-submodules=none"),
    *("-r", "--find-renames", "--end-of-options"),
)

_STATUS: dict[bytes, FileStatus] = {b"A": "added", b"D": "deleted", b"R": "renamed", b"T": "other kind"}


async def changed_files(git: Git, old: str, new: str) -> tuple[list[tuple[bytes, ChangedFile]], int]:
    """The files that differ with their real names, and how many more there are than are told."""
    said = await git.run("diff-tree", "--raw", "--numstat", "-z", *_PLAINLY, old, new, most=_MOST_BYTES)
    if not said.ok:
        raise trouble(said, "The changed files cannot be listed")
    words = iter(said.out.split(b"\0"))
    statuses: dict[bytes, bytes] = {}
    found: list[tuple[bytes, ChangedFile]] = []
    for word in words:
        if word.startswith(b":"):
            status, path = word.rpartition(b" ")[2][:1], next(words)
            statuses[next(words) if status == b"R" else path] = status
        elif word:
            added, removed, path = word.split(b"\t", 2)
            was = b"" if path else next(words)
            path = path or next(words)
            status = _STATUS.get(statuses.get(path, b""), "changed")
            found.append((path, ChangedFile(shown(path), status, _count(added), _count(removed), shown(was))))
    return found[:MOST_FILES], max(len(found) - MOST_FILES, 0)


async def diff_text(git: Git, old: str, new: str) -> str:
    """The difference as a patch, cut at a line with a note where it is too long."""
    prefixes = ("--src-prefix=a/", "--dst-prefix=b/")
    said = await git.run("diff-tree", "-p", "-U3", *prefixes, *_PLAINLY, old, new, most=MOST_DIFF)
    if not said.ok and not said.cut:
        raise trouble(said, "The difference cannot be shown")
    if not said.cut:
        return said.out.decode(errors="replace")
    whole = said.out[: said.out.rfind(b"\n") + 1]
    note = f"[… the rest was left out; git diff {old[:12]} {new[:12]} shows all of it]\n"
    return whole.decode(errors="replace") + note


def _count(word: bytes) -> int | None:
    return None if word == b"-" else int(word)
