"""worktrees: those that are still there, for a person to merge or to remove. It changes nothing."""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct
from msgspec.structs import replace

from gencode.core.errors import UserMistake
from gencode.workspaces.worktrees.agent_work import begin_index, ignored_files, is_astray, noted_commits
from gencode.workspaces.worktrees.create import shown
from gencode.workspaces.worktrees.git import Git, quiet_git
from gencode.workspaces.worktrees.leftover import Leftover
from gencode.workspaces.worktrees.merge_preview import Dirty, dirty_files, is_merged
from gencode.workspaces.worktrees.unmerged_work import OnlyThere, filters_of, only_there
from gencode.workspaces.worktrees.worktree import BRANCHES, Worktree, all_paths, made_from, recorded

MOST = 200
REPOSITORY = ".git"
_AT_ONCE = 4
_MOST_STRAYS = 20


async def leftovers(home: Path) -> list[Leftover]:
    """Every worktree below a home, in order; at most so many as a person would read."""
    few = asyncio.Semaphore(_AT_ONCE)

    async def look(path: Path) -> Leftover | None:
        async with few:
            return await looked_at(path)

    found = await asyncio.gather(*(look(path) for path in all_paths(home)[:MOST]))
    return [each for each in found if each is not None]


async def looked_at(path: Path) -> Leftover | None:
    """What is left at a path; None when that is neither a folder nor a branch."""
    noted, there = recorded(path), _is_folder(path)
    if noted is None:
        return await _unknown(path) if there else None
    worktree = _in_what_is_left(noted)
    gone = not worktree.common_dir.is_dir() or not worktree.main_dir.is_dir()
    unseen = Leftover(str(path), str(worktree.repository), worktree.branch, None, merged=False, gone=gone)
    if gone or (worktree.away and not there):
        return unseen if there else None
    try:
        return await _compared(worktree)
    except UserMistake:
        return unseen


async def _unknown(path: Path) -> Leftover:
    """One that is not noted: an agent made it itself, or ours was cut off before it was."""
    git_dir = _pointed_at(path)
    repository = str(git_dir.parents[2]) if git_dir else ""
    found = Leftover(str(path), repository, "", None, merged=False, gone=False)
    if git_dir is None:
        return found
    try:
        git = (await quiet_git(path, path, git_dir)).at(git_dir, path)
        branch = await git.tell("symbolic-ref", "--quiet", "--short", "HEAD")
        on_any = await git.run("for-each-ref", "--count=1", "--contains=HEAD")
        half = branch == BRANCHES + path.name and await _is_half(git)
        ignored = "; ".join(await ignored_files(git, ""))
    except UserMistake:
        return found
    own = branch if branch in {path.name, BRANCHES + path.name} else ""
    loose = not branch and on_any.ok and not on_any.out
    return replace(found, own_branch=own, half=half, strays=loose, ignored=ignored)


async def _is_half(git: Git) -> bool:
    """Whether git takes files for changed that were only not written yet, and there is nothing else."""
    own = await dirty_files(git)
    with TemporaryDirectory(prefix="gencode-") as folder:
        index = str(Path(folder, "index"))
        read = await git.run("read-tree", "--reset", "HEAD", index=index)
        ours = await dirty_files(git, index)
        ignored = await ignored_files(git, index)
    nothing = ours.known and ours.files == ours.missing and not ours.folders and not ignored
    return bool(own.files or own.folders) and read.ok and nothing


def _pointed_at(path: Path) -> Path | None:
    """Git's folder of a worktree, by what git put into it; None where that is not known."""
    try:
        known = Path((path / REPOSITORY).read_text().removeprefix("gitdir: ").rstrip("\n"))
    except (OSError, UnicodeDecodeError):
        return None
    common = known.parent.parent
    return known if common.name == REPOSITORY and (common / "worktrees") == known.parent else None


def _in_what_is_left(worktree: Worktree) -> Worktree:
    """The same, compared with the repository itself where the checkout that it was made from is gone."""
    common = worktree.common_dir
    there = worktree.main_dir.is_dir() and worktree.repository.is_dir()
    if there or worktree.away or common.name != REPOSITORY or not common.is_dir():
        return worktree
    return replace(worktree, main_dir=common, repository=common.parent)


async def _compared(worktree: Worktree) -> Leftover | None:
    missing = not worktree.path.is_dir() or not worktree.git_dir.is_dir()
    git_dir = worktree.main_dir if missing else worktree.git_dir
    folder = worktree.common_dir if missing else worktree.path
    git = (await quiet_git(folder, folder, git_dir)).at(git_dir, folder)
    branch = await _commit(git, f"refs/heads/{worktree.branch}")
    if missing and not branch and not worktree.path.is_dir():
        return None
    head = "" if missing else await _commit(git, "HEAD")
    tips = await _newest(git, [each for each in (head, branch) if each])
    ours = await _commit(git.at(worktree.main_dir, folder), "HEAD")
    found = _Open(Dirty(known=True)) if missing else await _open_files(git, worktree, head)
    names = [await _changed(git, worktree.base, each) for each in tips]
    changed = found.dirty.files.union(*(each or () for each in names))
    clean = found.dirty.known and not found.dirty.files
    merged = bool(tips and ours) and clean and all([await is_merged(git, ours, each) for each in tips])
    strays = merged and not missing and await _has_strays(git, worktree, ours, tips)
    rest = merged and not strays
    only = OnlyThere() if missing else await only_there(git, worktree, ignored=rest)
    settled = rest and (bool(found.inside) or only.anything)
    within = rest and all([await _is_in(git, each, ours) for each in tips])
    at_branch = await git.tell("symbolic-ref", "--quiet", "HEAD") == f"refs/heads/{worktree.branch}"
    away = not missing and not at_branch and (not clean or (head in tips and head != branch))
    return Leftover(
        path=str(worktree.path),
        repository=str(worktree.repository),
        branch=worktree.branch,
        changed=len(changed) if found.dirty.known and None not in names else None,
        merged=rest and not settled,
        gone=False,
        missing=missing,
        away=worktree.away,
        dirty=not clean,
        tip=branch if rest and not within else "",
        listed=worktree.git_dir.is_dir(),
        mixed_since=worktree.first if worktree.mixed else "",
        ignored=only.ignored,
        strays=strays,
        aside=head if away else "",
        besides=away and branch in tips and branch != head,
        branched=bool(branch),
        hidden=found.hidden,
        inside=found.inside,
        submodules=only.submodules,
        modules=only.modules,
        filters=await filters_of(git) if rest and not missing else (),
        settled=settled,
        others=tuple(str(each) for each in await asyncio.to_thread(made_from, worktree.path)),
        astray=not missing and is_astray(worktree),
    )


class _Open(Struct, frozen=True):
    """What is not committed in a worktree, as its agent's index sees it or as ours does."""

    dirty: Dirty
    hidden: bool = False
    inside: tuple[str, ...] = ()


async def _open_files(git: Git, worktree: Worktree, head: str) -> _Open:
    """By our index, since an agent's may hide things, or be from before a commit that was cut off."""
    own = await dirty_files(git)
    with TemporaryDirectory(prefix="gencode-") as folder:
        index = Path(folder, "index")
        await begin_index(git, worktree, head or worktree.base, index)
        ours = await dirty_files(git, str(index))
        fresh = await git.run("ls-files", "--others", "--exclude-standard", "-z", index=str(index))
    inside = tuple(shown(name.rstrip(b"/")) for name in fresh.names if name.endswith(b"/"))
    files = ours.files | {name for name in fresh.names if not name.endswith(b"/")}
    hidden, staged = not files <= own.files | _under(own.folders, files), own.files - files
    if staged:
        words = ("diff-index", "--cached", "--quiet", "--ignore-submodules=all", worktree.base)
        hidden = (await git.run(*words)).ok
        files |= frozenset() if hidden else staged
    return _Open(Dirty(own.known and ours.known and fresh.ok, files), hidden=hidden, inside=inside)


def _under(folders: tuple[bytes, ...], files: frozenset[bytes]) -> frozenset[bytes]:
    return frozenset(each for each in files if each.startswith(folders))


async def _newest(git: Git, commits: list[str]) -> list[str]:
    """Those of two commits that are not in the other one."""
    if len({*commits}) < 2:
        return commits[:1]
    one, other = commits
    if await _is_in(git, one, other):
        return [other]
    return [one] if await _is_in(git, other, one) else [one, other]


async def _is_in(git: Git, commit: str, other: str) -> bool:
    return (await git.run("merge-base", "--is-ancestor", commit, other)).ok


async def _changed(git: Git, base: str, tip: str) -> list[bytes] | None:
    """The files in which two commits differ; None where that cannot be seen."""
    said = await git.run("diff-tree", "-r", "--name-only", "-z", "--no-renames", base, tip)
    return said.names if said.ok else None


async def _has_strays(git: Git, worktree: Worktree, ours: str, tips: list[str]) -> bool:
    """Whether a worktree was at commits that are neither on its branch nor merged, as far as can be seen."""
    try:
        commits = await asyncio.to_thread(noted_commits, worktree)
    except OSError:
        return True
    asked = "\n".join((*commits, f"^{ours}", *(f"^{each}" for each in tips), ""))
    said = await git.run("rev-list", f"--max-count={_MOST_STRAYS + 1}", "--stdin", stdin=asked.encode())
    found = said.out.decode().split()
    if not said.ok or len(found) > _MOST_STRAYS:
        return True
    return not all([await is_merged(git, ours, each) for each in found])


def _is_folder(path: Path) -> bool:
    return path.is_dir()


async def _commit(git: Git, name: str) -> str:
    return await git.tell("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
