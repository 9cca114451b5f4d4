"""Lists worktrees that were not removed, with commands to merge, save or remove them. Changes nothing."""

import asyncio
import re
import shlex
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.structs import replace
from gencode.workspaces.worktrees.agent_work import (
    begin_index,
    ignored_files,
    is_filled,
    is_redirected,
    patch_command,
    submodules_of,
    visited_commits,
)
from gencode.workspaces.worktrees.compare_commits import UncommittedChanges, is_merged, uncommitted_changes
from gencode.workspaces.worktrees.create import MOST_ENTRIES, filtered_files, printable
from gencode.workspaces.worktrees.git import Git, safe_git
from gencode.workspaces.worktrees.worktree import (
    BRANCHES,
    Worktree,
    all_worktrees,
    derived_worktrees,
    read_record,
)


class LeftoverWorktree(Struct, frozen=True, rename="camel"):
    """A worktree that was not removed. `changed` are the files that differ from its base, None if they could
    not be read. `merged`: all of it is in the checkout it came from. `gone`: its repository is deleted.
    """

    path: str
    repository: str
    branch: str
    changed: int | None
    merged: bool
    gone: bool
    missing: bool = False
    """The folder was deleted; the commits are still on the branch."""
    away: bool = False
    """It was made for a task of another machine, and not all of it could be sent back."""
    dirty: bool = False
    """It has uncommitted changes."""
    tip: str = ""
    """Its last commit, if the checkout has all its changes without that commit."""
    listed: bool = True
    """Git still lists it as a worktree."""
    mixed_since: str = ""
    """The last commit that has uncommitted changes of a person; later ones are its own."""
    ignored: str = ""
    """Ignored files, if all else is merged: they would be deleted with it."""
    strays: bool = False
    """Commits were made in it that are on no branch and not merged; all else is merged."""
    aside: str = ""
    """The commit it is at, if it is not at its branch and may have more than that."""
    besides: bool = False
    """The branch has changes that are not in that commit."""
    branched: bool = True
    """Its branch exists."""
    at_work: tuple[str, ...] | None = None
    """The running tasks that use it; None if that was not checked."""
    hidden: bool = False
    """Git does not see its uncommitted changes: its index was told not to look."""
    inside: tuple[str, ...] = ()
    """Repositories that were made in it. Git would merge only that they exist."""
    submodules: tuple[str, ...] = ()
    """Submodules with changes. Git would merge only their commits' names."""
    modules: str = ""
    """Where git keeps the commits of those, for this worktree only."""
    filters: tuple[str, ...] = ()
    """Filters of its files, if it is merged: they did not run in it, and would change the files."""
    settled: bool = False
    """All is merged except what is only in it and cannot be merged."""
    others: tuple[str, ...] = ()
    """Worktrees that were made from it: they are merged into it, so it has to stay as long as they do."""
    astray: bool = False
    """Its `.git` does not lead to its repository any more."""
    own_branch: str = ""
    """Without a record: the branch that was made with it."""
    half: bool = False
    """Without a record: it was not completed, and has nothing that is not in its commit."""

    @property
    def unmergeable(self) -> str:
        """What is only in it, even when everything else is merged; usually nothing."""
        modules = ", ".join(self.submodules) or self.modules
        found = [f"repositories that were made in it: {', '.join(self.inside)}"] * bool(self.inside)
        found += [f"what is in submodules: {modules}"] * bool(modules)
        found += [f"what is {self.ignored}"] * bool(self.ignored)
        return ", ".join(found)

    @property
    def merge_command(self) -> str:
        """The command that merges it with its uncommitted changes, without a person's."""
        command, in_worktree = self._taking
        return f"{self._mending}{command}" if in_worktree else command

    @property
    def _mending(self) -> str:
        """The command that makes git work in it again, if it does not."""
        there = f"git -C {shlex.quote(self.repository)}"
        return f"{there} worktree repair && " if self.astray else ""  # with a path it reports failures

    @property
    def _taking(self) -> tuple[str, bool]:
        """How to merge it, and whether git has to work in it for that."""
        path, there = shlex.quote(self.path), f"git -C {shlex.quote(self.repository)}"
        if self.strays:
            return f"git -C {path} reflog (shows them; git -C {path} branch NAME COMMIT keeps one)", True
        if self.settled:
            return self._saving, not (self.inside or self.submodules or self.modules)
        but = " ".join(shlex.quote(f":(top,exclude,literal){name}") for name in self.inside)
        add = f"git -C {path} add -A{f' -- :/ {but}' if but else ''}"
        add = f"git -C {path} read-tree HEAD && {add}" if self.hidden else add
        commit = f"{add} && git -C {path} commit -m 'What the agent left' && "
        before = commit if self.dirty else ""
        before += f"git -C {path} merge {self.branch} && " if self.aside and self.besides else ""
        reads = bool(self.aside and before)
        what = f'"$(git -C {path} rev-parse HEAD)"' if reads else self.aside[:12] or self.branch
        merge = f"{there} merge {what}"
        if self.mixed_since:
            merge = patch_command(self.repository, self.mixed_since, what)
        return f"{before}{merge}", bool(before)

    @property
    def _saving(self) -> str:
        """How to see what is only in it, and what to do if that is not needed."""
        path, needed = shlex.quote(self.path), "when you have what you need"
        if self.inside:
            inner = shlex.quote(f"{self.path}/{self.inside[0]}")
            return f"git -C {inner} log (shows what is in it; {needed}: rm -rf {inner})"
        if self.submodules or self.modules:
            inner = [shlex.quote(f"{self.path}/{name}") for name in self.submodules]
            kept = [shlex.quote(self.modules)] if self.modules else []
            look = [f"ls -A {' '.join(inner or kept)}", *(f"git -C {each} status" for each in inner)]
            clear = f"rm -rf {' '.join([*inner, *kept])}"  # git removes no worktree that has them
            clear += f" && mkdir {' '.join(inner)}" if inner else ""
            return f"{' && '.join(look)} (shows what is in it; {needed}: {clear})"
        look = f"git -C {path} ls-files --others --ignored --exclude-standard"
        return f"{look} (shows them; {needed}: {self.remove_command})" if self.remove_command else look

    @property
    def remove_command(self) -> str:
        """The command that removes a merged worktree; it refuses if something was changed since.

        None if it has to stay.
        """
        if self.others:
            return ""
        there = f"git -C {shlex.quote(self.repository)}"
        path = shlex.quote(self.path)
        folder = f"{self._mending}{there} {_without(self.filters)}worktree remove {path}"
        folder = f"{self._mending}git -C {path} read-tree HEAD && {folder}" if self.hidden else folder
        branch = f"{there} branch -d {self.branch}"
        if self.tip:  # git only treats its own commits as merged
            branch = f"{there} update-ref -d refs/heads/{self.branch} {self.tip}"
        return " && ".join([folder] * self.listed + [branch] * self.branched)

    @property
    def cleanup_advice(self) -> str:
        """How to remove a worktree without a record or a repository; changed ones are refused, too."""
        path = shlex.quote(self.path)
        if not self.repository or self.gone:
            return f"look into it, then rm -r {path}"
        there = f"git -C {shlex.quote(self.repository)}"
        look = "look into it"
        if self.strays:
            keep = f"git -C {path} branch NAME keeps them"
            look = f"git -C {path} log (its commits are on no branch; {keep})"
        remove = f"{there} worktree remove{' --force' if self.half else ''} {path}"
        branch = f" && {there} branch -d {shlex.quote(self.own_branch)}" if self.own_branch else ""
        return f"{look}, then {remove}{branch}"


def _without(filters: tuple[str, ...]) -> str:
    """Git options that show files as git stores them, as the agent saw them."""
    off = ("clean=", "process=", "required=false")
    return "".join(f"-c {shlex.quote(f'filter.{name}.{each}')} " for name in filters for each in off)


_FILTER = re.compile(r"filter\.(?P<name>.+)\.(?:clean|process)", re.IGNORECASE | re.DOTALL)
_MODULES = "modules"


class UnmergeableContents(Struct, frozen=True):
    """Submodules, where git keeps them, and ignored files, as in LeftoverWorktree."""

    submodules: tuple[str, ...] = ()
    modules: str = ""
    ignored: str = ""

    @property
    def anything(self) -> bool:
        return bool(self.submodules or self.modules or self.ignored)


async def unmergeable_contents(git: Git, worktree: Worktree, *, ignored: bool) -> UnmergeableContents:
    """The submodules of a worktree and, if requested, its ignored files."""
    filled = [name for name in await submodules_of(git) if is_filled(worktree.path, name)]
    return UnmergeableContents(
        submodules=tuple(map(printable, filled)),
        modules=_kept(worktree.git_dir),
        ignored="; ".join(await ignored_files(git, "")) if ignored else "",
    )


def _kept(git_dir: Path) -> str:
    """Git's folder for the submodules of a worktree."""
    return str(git_dir / _MODULES) if (git_dir / _MODULES).is_dir() else ""


async def used_filters(git: Git) -> tuple[str, ...]:
    """The configured filters that files in a worktree have."""
    listing = await git.run("config", "--null", "--name-only", "--list", "--includes")
    found = [_FILTER.fullmatch(name.decode(errors="replace")) for name in listing.names]
    known = {each["name"] for each in found if each}
    if not known:
        return ()
    names = (await git.run("ls-files", "-z", most=MOST_ENTRIES)).names
    used = {value.decode(errors="replace") for _, value in await filtered_files(git, names)}
    return tuple(sorted(known & used))


MOST = 200
REPOSITORY = ".git"
_AT_ONCE = 4
_MOST_STRAYS = 20


async def find_leftovers(home: Path) -> list[LeftoverWorktree]:
    """The worktrees below a home, in order, as many as a person would read."""
    few = asyncio.Semaphore(_AT_ONCE)

    async def look(path: Path) -> LeftoverWorktree | None:
        async with few:
            return await inspect_worktree(path)

    found = await asyncio.gather(*(look(path) for path in all_worktrees(home)[:MOST]))
    return [each for each in found if each is not None]


async def inspect_worktree(path: Path) -> LeftoverWorktree | None:
    """The worktree at a path; None if there is neither a folder nor a branch."""
    noted, there = read_record(path), _is_folder(path)
    if noted is None:
        return await _unknown(path) if there else None
    worktree = _in_what_is_left(noted)
    gone = not worktree.common_dir.is_dir() or not worktree.main_dir.is_dir()
    unseen = LeftoverWorktree(
        str(path), str(worktree.repository), worktree.branch, None, merged=False, gone=gone
    )
    if gone or (worktree.away and not there):
        return unseen if there else None
    try:
        return await _compared(worktree)
    except UserMistake:
        return unseen


async def _unknown(path: Path) -> LeftoverWorktree:
    """A worktree without a record: made by an agent, or interrupted before it was recorded."""
    git_dir = _pointed_at(path)
    repository = str(git_dir.parents[2]) if git_dir else ""
    found = LeftoverWorktree(str(path), repository, "", None, merged=False, gone=False)
    if git_dir is None:
        return found
    try:
        git = (await safe_git(path, path, git_dir)).for_checkout(git_dir, path)
        branch = await git.output_line("symbolic-ref", "--quiet", "--short", "HEAD")
        on_any = await git.run("for-each-ref", "--count=1", "--contains=HEAD")
        half = branch == BRANCHES + path.name and await _is_half(git)
        ignored = "; ".join(await ignored_files(git, ""))
    except UserMistake:
        return found
    own = branch if branch in {path.name, BRANCHES + path.name} else ""
    loose = not branch and on_any.ok and not on_any.out
    return replace(found, own_branch=own, half=half, strays=loose, ignored=ignored)


async def _is_half(git: Git) -> bool:
    """Whether its only changes are files that were not checked out yet."""
    own = await uncommitted_changes(git)
    with TemporaryDirectory(prefix="gencode-") as folder:
        index = str(Path(folder, "index"))
        read = await git.run("read-tree", "--reset", "HEAD", index=index)
        ours = await uncommitted_changes(git, index)
        ignored = await ignored_files(git, index)
    nothing = ours.known and ours.files == ours.missing and not ours.folders and not ignored
    return bool(own.files or own.folders) and read.ok and nothing


def _pointed_at(path: Path) -> Path | None:
    """Git's folder of a worktree, as git recorded it; None if that is not known."""
    try:
        known = Path((path / REPOSITORY).read_text().removeprefix("gitdir: ").rstrip("\n"))
    except (OSError, UnicodeDecodeError):
        return None
    common = known.parent.parent
    return known if common.name == REPOSITORY and (common / "worktrees") == known.parent else None


def _in_what_is_left(worktree: Worktree) -> Worktree:
    """The same worktree, compared with the repository if the checkout it was made from is gone."""
    common = worktree.common_dir
    there = worktree.main_dir.is_dir() and worktree.repository.is_dir()
    if there or worktree.away or common.name != REPOSITORY or not common.is_dir():
        return worktree
    return replace(worktree, main_dir=common, repository=common.parent)


async def _compared(worktree: Worktree) -> LeftoverWorktree | None:
    missing = not worktree.path.is_dir() or not worktree.git_dir.is_dir()
    git_dir = worktree.main_dir if missing else worktree.git_dir
    folder = worktree.common_dir if missing else worktree.path
    git = (await safe_git(folder, folder, git_dir)).for_checkout(git_dir, folder)
    branch = await _commit(git, f"refs/heads/{worktree.branch}")
    if missing and not branch and not worktree.path.is_dir():
        return None
    head = "" if missing else await _commit(git, "HEAD")
    tips = await _newest(git, [each for each in (head, branch) if each])
    ours = await _commit(git.for_checkout(worktree.main_dir, folder), "HEAD")
    found = _Open(UncommittedChanges(known=True)) if missing else await _open_files(git, worktree, head)
    names = [await _changed(git, worktree.base, each) for each in tips]
    changed = found.dirty.files.union(*(each or () for each in names))
    clean = found.dirty.known and not found.dirty.files
    merged = bool(tips and ours) and clean and all([await is_merged(git, ours, each) for each in tips])
    strays = merged and not missing and await _has_strays(git, worktree, ours, tips)
    rest = merged and not strays
    only = UnmergeableContents() if missing else await unmergeable_contents(git, worktree, ignored=rest)
    settled = rest and (bool(found.inside) or only.anything)
    within = rest and all([await _is_in(git, each, ours) for each in tips])
    at_branch = await git.output_line("symbolic-ref", "--quiet", "HEAD") == f"refs/heads/{worktree.branch}"
    away = not missing and not at_branch and (not clean or (head in tips and head != branch))
    return LeftoverWorktree(
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
        filters=await used_filters(git) if rest and not missing else (),
        settled=settled,
        others=tuple(str(each) for each in await asyncio.to_thread(derived_worktrees, worktree.path)),
        astray=not missing and is_redirected(worktree),
    )


class _Open(Struct, frozen=True):
    """The uncommitted changes of a worktree, by the agent's index or by ours."""

    dirty: UncommittedChanges
    hidden: bool = False
    inside: tuple[str, ...] = ()


async def _open_files(git: Git, worktree: Worktree, head: str) -> _Open:
    """The uncommitted changes by our index: the agent's may hide some, or be outdated."""
    own = await uncommitted_changes(git)
    with TemporaryDirectory(prefix="gencode-") as folder:
        index = Path(folder, "index")
        await begin_index(git, worktree, head or worktree.base, index)
        ours = await uncommitted_changes(git, str(index))
        fresh = await git.run("ls-files", "--others", "--exclude-standard", "-z", index=str(index))
    inside = tuple(printable(name.rstrip(b"/")) for name in fresh.names if name.endswith(b"/"))
    files = ours.files | {name for name in fresh.names if not name.endswith(b"/")}
    hidden, staged = not files <= own.files | _under(own.folders, files), own.files - files
    if staged:
        words = ("diff-index", "--cached", "--quiet", "--ignore-submodules=all", worktree.base)
        hidden = (await git.run(*words)).ok
        files |= frozenset() if hidden else staged
    return _Open(
        UncommittedChanges(own.known and ours.known and fresh.ok, files), hidden=hidden, inside=inside
    )


def _under(folders: tuple[bytes, ...], files: frozenset[bytes]) -> frozenset[bytes]:
    return frozenset(each for each in files if each.startswith(folders))


async def _newest(git: Git, commits: list[str]) -> list[str]:
    """Those of two commits that are not ancestors of the other one."""
    if len({*commits}) < 2:
        return commits[:1]
    one, other = commits
    if await _is_in(git, one, other):
        return [other]
    return [one] if await _is_in(git, other, one) else [one, other]


async def _is_in(git: Git, commit: str, other: str) -> bool:
    return (await git.run("merge-base", "--is-ancestor", commit, other)).ok


async def _changed(git: Git, base: str, tip: str) -> list[bytes] | None:
    """The files that differ between two commits; None if they cannot be read."""
    said = await git.run("diff-tree", "-r", "--name-only", "-z", "--no-renames", base, tip)
    return said.names if said.ok else None


async def _has_strays(git: Git, worktree: Worktree, ours: str, tips: list[str]) -> bool:
    """Whether a worktree was at commits that are neither on its branch nor merged, as far as known."""
    try:
        commits = await asyncio.to_thread(visited_commits, worktree)
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
    return await git.output_line("rev-parse", "--verify", "--quiet", f"{name}^{{commit}}")
