"""away: what looks like a key stays where it is, however it came there: as a file, staged, or committed.

What was there before travels in any case, so only what differs from that is looked at.
"""

from collections.abc import AsyncGenerator, Collection, Iterable, Iterator, Sequence

from gencode.workspaces.transfer.file_differences import NONE, RAW, Change, changes, put_back
from gencode.workspaces.transfer.secret_files import LARGEST_KEY, has_key, is_key
from gencode.workspaces.worktrees.agent_work import some
from gencode.workspaces.worktrees.git import Git, trouble

_SIZES = "--batch-check=%(objectname) %(objecttype) %(objectsize)"
_MOST_NAMED = 50_000
_MOST_READ = 4 << 20
_MOST_TOLD = 64 << 20
_UNSEEN = "What looks like a key cannot be looked for"


async def withhold(git: Git, since: str, index: str) -> list[str]:
    """Let new keys be out of an index, and files with a new private key in it as they were; what that is.

    Where a key is left out, one that is gone stays in: it may have been moved and changed.
    """
    said = await git.run("diff-index", "--cached", *RAW, since, index=index, most=_MOST_TOLD)
    if not said.ok:
        raise trouble(said, _UNSEEN)
    found = [*changes(said.out)]
    keys = await _keys(git, found, {each.old for each in found})  # what was only moved is nothing new
    new = sorted(each.name for each in keys if each.is_new)
    await put_back(git, [*keys, *(await _gone(git, found) if new else ())], index)
    changed = sorted(each.name for each in keys if not each.is_new)
    notes = [f"new files that may hold secrets: {some(new)}"] if new else []
    told = "what was changed in files since a private key came into them"
    return [*notes, f"{told}: {some(changed)}"] if changed else notes


async def brought_keys(git: Git, first: str, head: str) -> bool:
    """Whether what looks like a key was committed since a commit, also if it is gone again.

    True as well where that cannot be told, because there is too much.
    """
    whole = await git.run("diff-tree", "-r", *RAW, first, head, most=_MOST_TOLD)
    listed = await git.run("rev-list", f"{first}..{head}") if whole.ok else whole
    words = ("diff-tree", "--stdin", "-r", "-m", "--root", "--no-commit-id", *RAW)
    said = await git.run(*words, stdin=listed.out, most=_MOST_TOLD) if listed.ok else listed
    known = {each.old for each in changes(whole.out)} if said.ok else set[str]()
    return not said.ok or bool(await _keys(git, [*changes(said.out)], known))


async def _keys(git: Git, found: Sequence[Change], known: Collection[str] = ()) -> list[Change]:
    """Those that are new with a name like that of a key, and those into which a private key came.

    Contents that are `known` are not looked at.
    """
    fresh = [each for each in found if each.has_contents and each.new not in known]
    named = {each for each in fresh if each.is_new and is_key(each.name)}
    files = [each for each in fresh if each.is_file and each not in named]
    holding = {contents async for contents in _holding(git, {each.new for each in files})}
    keys = [each for each in files if each.new in holding]
    before = {contents async for contents in _holding(git, {each.old for each in keys if not each.is_new})}
    return [*named, *(each for each in keys if each.old not in before)]


async def _gone(git: Git, found: Sequence[Change]) -> list[Change]:
    """The keys that are there no more, under no name."""
    now = {each.new for each in found}
    gone = [each for each in found if each.mode == NONE and each.old not in now]
    holding = {contents async for contents in _holding(git, {each.old for each in gone})}
    return [each for each in gone if is_key(each.name) or each.old in holding]


async def _holding(git: Git, contents: Iterable[str]) -> AsyncGenerator[str]:
    """Which contents have a private key in them; large ones are not looked into."""
    wanted = sorted(contents)
    for start in range(0, len(wanted), _MOST_NAMED):
        sizes = await _asked(git, _SIZES, wanted[start : start + _MOST_NAMED])
        small = [words for line in sizes.decode("ascii").splitlines() if len(words := line.split()) == 3]
        blobs = [(words[0], int(words[2])) for words in small if words[1] == "blob"]
        for some_of_them in _portions([each for each in blobs if each[1] <= LARGEST_KEY]):
            out, at = await _asked(git, "--batch", [name for name, _ in some_of_them]), 0
            for name, size in some_of_them:
                at = out.index(b"\n", at) + 1
                if has_key(out[at : at + size]):
                    yield name
                at += size + 1


def _portions(blobs: Iterable[tuple[str, int]]) -> Iterator[list[tuple[str, int]]]:
    """As many at a time as fit into what is read at once."""
    portion: list[tuple[str, int]] = []
    weight = 0
    for name, size in blobs:
        if weight + size > _MOST_READ:
            yield portion
            portion, weight = [], 0
        portion.append((name, size))
        weight += size
    if portion:
        yield portion


async def _asked(git: Git, how: str, names: Sequence[str]) -> bytes:
    said = await git.run("cat-file", how, stdin="".join(f"{name}\n" for name in names).encode())
    if not said.ok:
        raise trouble(said, _UNSEEN)
    return said.out
