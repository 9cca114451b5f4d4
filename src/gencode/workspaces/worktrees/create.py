"""Creates git worktrees. One that cannot be completed is removed again.

It also removes what a killed git left while it added a worktree: git then cannot fetch, or add other
worktrees. Only the holder of a folder's lock does so, since nobody else adds a worktree there then.
"""

import asyncio
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from gencode.core.errors import UserMistake
from gencode.core.spec import Workspace
from gencode.core.structs import replace
from gencode.workspaces.worktrees.git import Git, git_error, run_to_end, safe_git
from gencode.workspaces.worktrees.worktree import (
    BRANCHES,
    Worktree,
    checked_name,
    folder_lock,
    private_folder,
    read_record,
    repository_folder,
    write_record,
)

CHECKOUT_SECONDS = 300.0
_SHOWN = 5
GITLINK = b"160000 "
"""The mode of a submodule in git's list of entries."""
MOST_ENTRIES = 64 << 20
"""The largest such list in bytes."""
_WHOSE = ("rev-parse", "--absolute-git-dir")


class WorktreeSource(Struct, frozen=True):
    """The checkout that a worktree is made from, or the mirror of one that is `away`.

    The branch begins at `start`, by default `base`. The rest is recorded with the worktree.
    """

    git: Git
    top: Path
    main_dir: Path
    base: str
    start: str = ""
    away: bool = False
    begun: str = ""
    after: str = ""
    origin: str = ""
    mixed: bool = False
    holds: str = ""

    @property
    def first(self) -> str:
        return self.start or self.base

    @property
    def common_dir(self) -> Path:
        """Git's folder that all checkouts of the repository share."""
        linked = (self.main_dir / "commondir").is_file()
        return self.main_dir.parents[1] if linked else self.main_dir


async def create_worktree(workspace: Workspace, home: Path, name: str) -> Worktree:
    """A worktree of the repository around `workspace.cwd` at HEAD, with its own branch.

    UserMistake, and nothing left behind, if there is no repository or no worktree can be made.
    """
    checked_name(name)
    return await create_from(await find_source(workspace.cwd), workspace, home, name)


async def create_from(source: WorktreeSource, workspace: Workspace, home: Path, name: str) -> Worktree:
    """The same for a known source."""
    folder = repository_folder(home, source.top)
    path = folder / checked_name(name)
    _must_be_text(path, source.top, workspace.root, workspace.cwd, workspace.home)
    git_dirs: list[Path] = []
    whole = False
    try:
        with private_folder(folder):
            await run_to_end(_in_turn(source, path, git_dirs))
        branch, git_dir = BRANCHES + name, git_dirs[0]
        above = read_record(source.top)
        origin = source.origin or (above.first if above is not None and not source.away else "")
        begun = Worktree(
            path=path,
            repository=source.top,
            base=source.base,
            branch=branch,
            workspace=workspace,
            notes=(),
            git_dir=git_dir,
            main_dir=source.main_dir,
            away=source.away,
            begun=source.begun,
            after=source.after,
            origin=origin,
            mixed=source.mixed,
            holds=source.holds,
        )
        finished = await _filled(begun, source, workspace)
        with private_folder(folder):
            write_record(finished)
        whole = True
        return finished
    finally:
        if git_dirs and not whole:
            await run_to_end(_undo(source, path, folder))


async def find_source(cwd: Path) -> WorktreeSource:
    """The checkout around a folder; UserMistake without one, or without a commit."""
    cwd = _real(cwd)
    none = f"{cwd} is not in a git repository, so there is nothing to make a worktree of"
    git = await safe_git(cwd, _repository_around(cwd))
    inside = await git.run("rev-parse", "--is-inside-work-tree")
    if not inside.ok and ("not a git repository" in inside.error):
        raise UserMistake(f"{none}; run git init there and commit, or run without isolation.")
    if not inside.ok and "bare repository" not in inside.error:
        raise git_error(inside, f"No worktree can be made of the repository around {cwd}")
    if inside.line != "true":
        raise UserMistake(f"{cwd} is in a bare repository or in git's own folder; go to a checkout of it.")
    top = Path(await git.output_line("rev-parse", "--show-toplevel"))
    main_dir = Path(await git.output_line("rev-parse", "--absolute-git-dir"))
    if not top.is_absolute() or not cwd.is_relative_to(top):
        raise UserMistake(f"{none}: git takes it for a part of {top}.")
    base = await git.output_line("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    if not base:
        raise UserMistake(f"The repository {top} has no commit yet; commit something and try again.")
    return WorktreeSource(replace(git, folder=top), top, main_dir, base)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _is_taken(path: Path) -> bool:
    return os.path.lexists(path)


def _repository_around(cwd: Path) -> Path:
    return next((each for each in (cwd, *cwd.parents) if os.path.lexists(each / ".git")), cwd)


def _must_be_text(*paths: Path) -> None:
    for path in paths:
        try:
            str(path).encode()
        except UnicodeEncodeError:
            shown = os.fsencode(path).decode("ascii", "backslashreplace")
            raise UserMistake(f"No worktree can be made: the name {shown} is not UTF-8.") from None


async def _in_turn(source: WorktreeSource, path: Path, git_dirs: list[Path]) -> None:
    """Add the worktree; its git folder is reported even if the caller was cancelled."""
    async with folder_lock(path.parent) as held:
        await remove_half_made(source.git, source.common_dir, path.parent, held)
        note = mark_begun(path)
        git_dirs.append(await _added(source, path, held))
        note.unlink(missing_ok=True)


async def _added(source: WorktreeSource, path: Path, held: tuple[int, ...]) -> Path:
    """Add the branch and an empty worktree on it; the worktree's git folder."""
    branch, what = BRANCHES + path.name, f"No worktree can be made of {source.top}"
    if _is_taken(path):
        raise UserMistake(f"There already is a worktree at {path}; take another name.")
    nothing = "0" * len(source.base)
    born = await source.git.run_uninterrupted("update-ref", f"refs/heads/{branch}", source.first, nothing)
    if "already exists" in born.error:
        raise UserMistake(f"The repository {source.top} already has a branch {branch}; take another name.")
    if "exists; cannot create" in born.error:
        way = f"Rename that one: git branch -m {BRANCHES[:-1]} OTHER"
        raise UserMistake(
            f"{what}: it has a branch {BRANCHES[:-1]}, so there can be none called {branch}. {way}"
        )
    if not born.ok:
        raise git_error(born, what)
    done = False
    try:
        adding = replace(source.git, held=held)
        said = await adding.run_uninterrupted("worktree", "add", "--no-checkout", str(path), branch)
        if not said.ok:
            raise git_error(said, what, path.parent)
        git_dir = Path(await replace(source.git, folder=path, where=()).output_line(*_WHOSE))
        if not git_dir.is_absolute():
            raise UserMistake(f"{what}: it was made and is not there.")
        done = True
        return git_dir
    finally:
        if not done:
            await _forget(source, path)


async def _filled(begun: Worktree, source: WorktreeSource, workspace: Workspace) -> Worktree:
    """Add the files; the workspace in it, and notes for a person."""
    git = source.git.for_checkout(begun.git_dir, begun.path)
    said = await git.run("reset", "--hard", "--quiet", "--no-recurse-submodules", seconds=CHECKOUT_SECONDS)
    if not said.ok:
        raise git_error(said, f"The worktree {begun.path} cannot be filled", begun.path)
    try:
        shutil.copy2(begun.git_dir / "index", begun.snapshot)
    except OSError as error:
        raise UserMistake(f"The worktree {begun.path} cannot be made: {error.strerror}.") from None
    place, moved = _same_place(workspace, source.top, begun.path)
    left_out = [] if source.away else await _left_out(source)
    notes = [*moved, *left_out, *await _not_filled(git)]
    return replace(begun, workspace=place, notes=tuple(notes))


def _same_place(workspace: Workspace, top: Path, path: Path) -> tuple[Workspace, list[str]]:
    """The folders of a workspace in the worktree. A folder that is not in git is created."""
    below = _real(workspace.cwd).relative_to(top)
    cwd, notes = path / below, list[str]()
    copied = replace(workspace.copied, top=str(path)) if workspace.copied else None
    with suppress(OSError):
        if _real(cwd) == cwd and not cwd.exists():
            cwd.mkdir(parents=True)
            notes.append(f"the folder {below} is not in the commit and was made empty")
    if _real(cwd) != cwd or not cwd.is_dir():
        notes.append(f"{below} is not a folder in the commit; the worktree begins at its top")
        return Workspace(path, path, workspace.home, copied, workspace.started), notes
    root = _real(workspace.root)
    inner = path / root.relative_to(top) if root.is_relative_to(top) else path
    root = inner if cwd.is_relative_to(inner) else path
    return Workspace(root, cwd, workspace.home, copied, workspace.started), notes


async def _left_out(source: WorktreeSource) -> list[str]:
    """What is in the checkout and not in its commit."""
    said = await source.git.run(
        *(
            "status",
            "--porcelain",
            "-z",
            "--no-renames",
            "--untracked-files=normal",
            "--ignore-submodules=all",
        )
    )
    if said.code != 0:
        return [f"it holds the last commit of {source.top}; whether more was changed there could not be seen"]
    count = len(said.names)
    changes = "1 uncommitted change" if count == 1 else f"{count} uncommitted changes"
    if not count:
        return []
    verb, names = "is" if count == 1 else "are", _some([entry[3:] for entry in said.names])
    return [f"it holds the last commit; {changes} of {source.top} {verb} not in it: {names}"]


async def _not_filled(git: Git) -> list[str]:
    """What is in the commit and not in the worktree as people expect it."""
    notes: list[str] = []
    entries = (await git.run("ls-files", "--stage", "-z", most=MOST_ENTRIES)).names
    names = [entry.partition(b"\t")[2] for entry in entries]
    modules = [name for name, entry in zip(names, entries, strict=True) if entry.startswith(GITLINK)]
    if modules:
        notes.append(f"submodules are not checked out: {_some(modules)}")
    if not any(name.endswith(b".gitattributes") for name in names):
        return notes
    if filtered := [name for name, _ in await filtered_files(git, names)]:
        notes.append(f"filters such as LFS were not run; as git keeps them are: {_some(filtered)}")
    return notes


async def filtered_files(git: Git, names: list[bytes]) -> list[tuple[bytes, bytes]]:
    """Those of some files that have a filter, each with its filter."""
    asked = b"".join(name + b"\0" for name in names)
    said = await git.run("check-attr", "-z", "--stdin", "filter", stdin=asked, most=MOST_ENTRIES)
    told = said.out.split(b"\0")
    return [each for each in zip(told[::3], told[2::3], strict=False) if each[1] not in _NO_FILTER]


_NO_FILTER = frozenset({b"unspecified", b"unset", b"set"})


def _some(names: list[bytes]) -> str:
    said = ", ".join(printable(name) for name in names[:_SHOWN])
    return said if len(names) <= _SHOWN else f"{said} and {len(names) - _SHOWN} more"


def printable(name: bytes) -> str:
    """A file name of any bytes as one line of plain text."""
    text = name.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


async def _undo(source: WorktreeSource, path: Path, folder: Path) -> None:
    """Remove a worktree that nobody has worked in."""
    async with folder_lock(folder):
        await _forget(source, path)


async def _forget(source: WorktreeSource, path: Path) -> None:
    await source.git.run_uninterrupted("worktree", "remove", "--force", "--force", str(path))
    await asyncio.to_thread(shutil.rmtree, path, ignore_errors=True)
    await source.git.run_uninterrupted("update-ref", "-d", f"refs/heads/{BRANCHES}{path.name}", source.first)


_ADDING = b"initializing"
"""Git's own word, in the file `locked`, until a worktree is complete."""
_BEGUN = ".{}.begun"
_SHARED = "../..\n"
_MOST = 8 << 10
_PLAIN = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


async def remove_half_made(git: Git, common: Path, folder: Path, held: tuple[int, ...]) -> None:
    """Remove incomplete worktrees in a folder of ours; none has changes of an agent.

    Their branches are removed if another one leads to the same commit. Nothing is touched without the lock in
    `held`: somebody may be making one.
    """
    begun = _begun(folder) if held else []
    swept: list[str] = []
    for entry, path in _entries_in(common / "worktrees", folder) if held else ():
        with suppress(OSError):
            if _text(entry / "locked") == _ADDING and _is_unused(path, entry):
                _remove_entry(entry, path)
                swept.append(BRANCHES + path.name)
            elif _text(entry / "commondir") == b"":  # the machine crashed before it was written
                (entry / "commondir").write_text(_SHARED)
    swept += [BRANCHES + name for name in begun if not _is_there(folder / name)]
    for branch in dict.fromkeys(swept):
        await _delete_contained_branch(git, branch)
    for name in begun:
        (folder / _BEGUN.format(name)).unlink(missing_ok=True)


def mark_begun(path: Path) -> Path:
    """Record that a worktree is being made on this machine, until it is complete or removed."""
    note = path.parent / _BEGUN.format(path.name)
    note.touch()
    return note


def _begun(folder: Path) -> list[str]:
    """The names of the worktrees that were begun here and not completed."""
    before, after = _BEGUN.split("{}")
    found = folder.glob(_BEGUN.format("*"))
    return [each.name.removeprefix(before).removesuffix(after) for each in found]


def _is_there(path: Path) -> bool:
    return os.path.lexists(path)


def _entries_in(entries: Path, folder: Path) -> Iterator[tuple[Path, Path]]:
    """Git's data about each worktree in a folder. Git ignores data that names no worktree."""
    real = Path(os.path.realpath(folder))
    with suppress(OSError):
        if not stat.S_ISDIR(entries.lstat().st_mode):
            return
        for found in sorted(os.scandir(entries), key=lambda each: each.name):
            entry = Path(found.path)
            if found.is_dir(follow_symlinks=False) and (said := _text(entry / "gitdir")):
                path = _resolved(entry, said).parent
                if path.parent == real and not path.name.startswith("."):
                    yield entry, path


def _is_unused(path: Path, entry: Path) -> bool:
    """Whether a folder has only the file that names git's data about it.

    A missing folder may be on another machine with the same repository, unless it was begun here.
    """
    try:
        found = list(path.iterdir()) if stat.S_ISDIR(path.lstat().st_mode) else [path]
    except FileNotFoundError:
        return (path.parent / _BEGUN.format(path.name)).exists()
    if found != [path / ".git"]:
        return not found
    said = _text(path / ".git")
    return said == b"" or (
        said is not None and _resolved(path, said.removeprefix(b"gitdir: ")) == Path(os.path.realpath(entry))
    )


def _remove_entry(entry: Path, path: Path) -> None:
    """Remove git's data in an order that is safe to interrupt: the rest is removed later, or harmless.

    Git ignores data that names no worktree.
    """
    (path / ".git").unlink(missing_ok=True)
    (entry / "gitdir").unlink()
    with suppress(FileNotFoundError):
        path.rmdir()
    shutil.rmtree(entry)


async def _delete_contained_branch(git: Git, branch: str) -> None:
    """Delete a branch if another one has all its commits; git refuses if it is checked out."""
    wanted = ("--count=2", "--format=%(refname)", f"--contains=refs/heads/{branch}")
    said = await git.run("for-each-ref", *wanted)
    if said.ok and len(said.out.splitlines()) > 1:
        await git.run_uninterrupted("branch", "--quiet", "-D", "--", branch)


def _resolved(start: Path, said: bytes) -> Path:
    return Path(os.path.normpath(start / os.fsdecode(said)))


def _text(path: Path) -> bytes | None:
    """The text of a regular file without its last line end; None without one."""
    try:
        with os.fdopen(os.open(path, _PLAIN), "rb") as file:
            plain = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            return file.read(_MOST).removesuffix(b"\n") if plain else None
    except OSError:
        return None
