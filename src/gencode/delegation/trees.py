"""Agents in git worktrees of their own: made before they start, summed up when they have ended.

What makes worktrees is loaded when the first one is wanted.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gencode.core.errors import GenCodeError, UserMistake
from gencode.core.events import TaskCreated
from gencode.core.ids import new_id
from gencode.core.messages import UserMessage
from gencode.core.spec import AgentSpec, Workspace
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.delegation.earlier import TREE
from gencode.runtime.seat import Ending

if TYPE_CHECKING:
    from gencode.runtime.worktrees.leftovers import Leftover
    from gencode.runtime.worktrees.place import Worktree
    from gencode.runtime.worktrees.work import Work

NO_HOME = "A worktree needs a folder of GenCode's own, and there is none here; leave isolation out."
MOST_FILES = 50
CLEAN = "It can be merged as things are."
THERE = (
    "{tree} of your own, {cwd}, on the branch {branch}, which was made from {begun}. "
    "What you change in it, committed or not, is on that branch only until somebody merges it."
)
ANEW = (
    "{tree}, {cwd}, that was made anew, on a new branch {branch}, from the last commit of {repository}: the "
    "one you had {lost}. What you changed in that is in it only if somebody took it over, so look."
)
LAST = "the last commit of {repository}"
WORK = "the work of task {task}, as it was when the fork began"
FIRST = "the commit that task {task} began with"
REMOVED = "was removed"
AWAY = "was on a worker"
BEGAN = f"{FIRST}: what that task changed is not in it"
MERGED = "the last commit of {repository}: what task {task} changed is in it only if somebody merged that"
GONE = "The worktree {path} of task {task} is gone, so it cannot go on there"


class Workplace:
    """The worktree of one agent. One that is `fresh` was made just now; `lost` says what became of an earlier
    one that the agent had.
    """

    def __init__(self, tree: "Worktree", *, fresh: bool = False, lost: str = "") -> None:
        self._tree = tree
        self._fresh = fresh
        self._lost = lost

    @property
    def workspace(self) -> Workspace:
        """Where the agent works."""
        return self._tree.workspace

    @property
    def path(self) -> str:
        """The folder of the whole worktree."""
        return str(self._tree.path)

    @property
    def named(self) -> str:
        """The id that its task should have: the branch and the folder are called like it."""
        return self._tree.name

    def heard(self) -> list[UserMessage]:
        """What an agent should know about its folder before it begins."""
        return [UserMessage(self._said(THERE), sender="system")]

    def heard_anew(self) -> list[UserMessage]:
        """What an agent should know before it goes on: that it is not in the worktree it had."""
        return [UserMessage(self._said(ANEW), sender="system")] if self._lost else []

    @property
    def news(self) -> str:
        """What a person should know when the agent begins; mostly nothing."""
        tree = self._tree
        if self._lost:
            made = f"from the last commit of {tree.repository}, because the one it had {self._lost}"
            return f"Its worktree {tree.path} was made anew {made}."
        if self._fresh and tree.begun:
            return f"It works in a git worktree of its own, {tree.path}, made from {tree.begun}."
        return ""

    def _said(self, words: str) -> str:
        tree = self._tree
        begun = tree.begun or LAST.format(repository=tree.repository)
        place = {"cwd": tree.workspace.cwd, "branch": tree.branch, "repository": tree.repository}
        return words.format(tree=TREE, begun=begun, lost=self._lost, **place)

    async def given_up(self) -> None:
        """Remove it, where it was made for an agent that did not begin after all."""
        from gencode.runtime.worktrees.work import result

        if self._fresh:
            with suppress(GenCodeError):
                await result(self._tree)

    async def summed_up(self, ending: Ending) -> Ending:
        """How the agent ended, with what it changed and how that can be taken over."""
        from gencode.runtime.worktrees.work import result

        try:
            work = await result(self._tree)
        except GenCodeError as trouble:
            kept = f"its worktree {self.path} is kept as it is: {trouble}"
            return replace(ending, warnings=(*ending.warnings, kept))
        text = "\n\n".join(part for part in (ending.text.strip(), "\n".join(told(self._tree, work))) if part)
        notes = (*self._tree.notes, *work.notes)
        return replace(ending, text=text, warnings=(*ending.warnings, *notes))


class Workplaces:
    """Makes worktrees below the folder `home`. `ids` are those of tasks that begin in some way."""

    def __init__(self, home: Path | None, ids: Callable[[str], Awaitable[Sequence[str]]]) -> None:
        self.home = home
        self._ids = ids
        self.given: dict[str, Workplace] = {}
        """Those that were prepared for tasks which are about to begin here."""

    async def make(self, workspace: Workspace, source: Task | None = None) -> Workplace:
        """A worktree for a new agent, called as its task will be; UserMistake where there can be none.

        That of a fork begins with what the `source` has changed, where that is known.
        """
        from gencode.runtime.worktrees.making import make

        if self.home is None:
            raise UserMistake(NO_HOME)
        name = new_id()
        while await self._ids(name):
            name = new_id()
        if source is None:
            return Workplace(await make(workspace, self.home, name), fresh=True)
        return Workplace(await _copied(source, workspace, self.home, name), fresh=True)

    @asynccontextmanager
    async def lent(
        self,
        created: TaskCreated,
        workspace: Workspace,
        source: Task | None = None,
        *,
        wanted: bool,
        far: bool,
    ) -> AsyncGenerator[tuple[TaskCreated, str]]:
        """The first fact of a task for another process, with a worktree where one is `wanted`; its news.

        A process that may be on a machine that is `far` makes a copy itself.
        """
        if far or not wanted:
            yield replace(created, isolated=wanted), ""
            return
        workplace = await self.make(workspace, source)
        async with kept_if_begun(workplace):
            yield replace(created, worktree=workplace.path), workplace.news

    def handed(self, created: TaskCreated, task: str) -> Workplace | None:
        """The worktree that another process has made for a task that begins here, if there is one."""
        if task or not created.worktree:
            return self.given.get(task)
        tree = _there(created.worktree)
        if tree is None:
            raise UserMistake(f"The worktree {created.worktree} that was made for the task is gone.")
        return Workplace(tree)

    async def again(self, task: Task, workspace: Workspace) -> Workplace | None:
        """The worktree for a task that goes on, if it has one. One that is gone is made anew."""
        if task.id in self.given or not (task.worktree or task.isolated):
            return self.given.get(task.id)
        if tree := _there(task.worktree):
            return Workplace(tree)
        if self.home is None:
            raise UserMistake(NO_HOME)
        if task.isolated:
            return await _at_home(task, workspace, self.home)
        return Workplace(await _anew(task, workspace, self.home), fresh=True, lost=REMOVED)


@asynccontextmanager
async def kept_if_begun(workplace: Workplace | None) -> AsyncGenerator[None]:
    """A worktree that was made for an agent is removed again where it does not begin inside this block."""
    begun = False
    try:
        yield
        begun = True
    finally:
        if workplace is not None and not begun:
            await workplace.given_up()


def in_worktree(spec: AgentSpec, asked: str, source: Task | None = None) -> bool:
    """Whether an agent gets a worktree: it was asked for, its file says so, or it copies one who had one."""
    return (asked or spec.isolation) == "worktree" or (source is not None and had_own(source))


def had_own(task: Task) -> bool:
    """Whether a task works in a worktree or a copy of its own, wherever it is run."""
    return bool(task.worktree) or task.isolated


def _there(path: str) -> "Worktree | None":
    from gencode.runtime.worktrees.place import recorded

    tree = recorded(Path(path)) if path else None
    return tree if tree is not None and tree.path.is_dir() else None


async def _copied(source: Task, workspace: Workspace, home: Path, name: str) -> "Worktree":
    """A worktree that begins as the one of a task is; else where that began, else at the last commit."""
    from gencode.runtime.worktrees.making import make
    from gencode.runtime.worktrees.place import recorded, write_record
    from gencode.runtime.worktrees.work import state_of

    before = recorded(Path(source.worktree)) if source.worktree else None
    state = ""
    if before is not None:
        with suppress(GenCodeError):
            state = await state_of(before)
    start = state or (before.base if before is not None else "")
    made = await make(workspace, home, name, start)
    words, after, origin = LAST, "", made.origin
    if before is not None and made.base == start:
        origin = before.first
        work, unchanged = bool(state), state == before.base
        words, after = (FIRST, "") if unchanged else (WORK, source.id) if work else (BEGAN, "")
    elif source.evidence.files_changed:
        words = MERGED
    begun = words.format(task=source.id, repository=made.repository)
    made = replace(made, begun=begun, after=after, origin=origin)
    write_record(made)
    return made


async def _anew(task: Task, workspace: Workspace, home: Path) -> "Worktree":
    """The worktree of a task that was removed, made again under its name; UserMistake if it cannot be."""
    from gencode.runtime.worktrees.making import make, source_of
    from gencode.runtime.worktrees.place import BRANCHES, repository_folder

    path, gone = Path(task.worktree), GONE.format(path=task.worktree, task=task.id)
    source = await source_of(workspace.cwd)
    if repository_folder(home, source.top) / path.name != path:
        raise UserMistake(f"{gone}; send the agent anew.")
    branch = f"{BRANCHES}{path.name}"
    if await source.git.tell("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}"):
        there = f"git -C {quote(str(source.top))} worktree add -f {quote(str(path))} {branch}"
        raise UserMistake(f"{gone}. Its branch {branch} is still there; check it out again: {there}")
    return await make(workspace, home, path.name)


async def _at_home(task: Task, workspace: Workspace, home: Path) -> Workplace:
    """The worktree for a task that had copies on workers and goes on here."""
    from gencode.runtime.worktrees.making import make, source_of
    from gencode.runtime.worktrees.place import repository_folder

    name, source = f"{task.id}-home", await source_of(workspace.cwd)
    if tree := _there(str(repository_folder(home, source.top) / name)):
        return Workplace(tree)
    return Workplace(await make(workspace, home, name), fresh=True, lost=AWAY)


def told(tree: "Worktree", work: "Work") -> Iterator[str]:
    """What the sender reads about the worktree of an agent that has ended."""
    if not work.kept:
        yield "[It changed no file in its worktree, which was removed.]"
        return
    if work.merged:
        yield f"[Its changes, on the branch {tree.branch}, in {tree.path}, are all in {tree.repository}.]"
    else:
        yield f"[Its changes are on the branch {tree.branch}, in {tree.path}, and not in your checkout.]"
    if tree.after:
        yield f"[It began with the work of task {tree.after}, which is on its branch as well.]"
    yield from listed(work)
    if not work.merged:
        yield _merge_words(work)
    for number, command in enumerate(work.how):
        yield f"{'or' if number else 'To take it over'}: {command}"
    if work.diff:
        yield f"```diff\n{work.diff.rstrip()}\n```"


async def told_now(task: Task) -> str:
    """The result of a task, without the offer of work in its worktree that was taken over since."""
    from gencode.runtime.away.telling import offers
    from gencode.runtime.worktrees.leftovers import looked_at
    from gencode.runtime.worktrees.place import recorded

    tree = recorded(Path(task.worktree))
    if tree is None or not task.status.ended:
        return task.result
    withdrawn = offers(task.result, tree.branch)
    left = await looked_at(tree.path)
    cut = left is not None and task.status is Status.INTERRUPTED and (left.changed or left.dirty)
    if not cut and (not withdrawn or (left is not None and not left.merged)):
        return task.result
    kept = "\n".join(line for line in task.result.split("\n") if line not in {*withdrawn, CLEAN})
    if left is not None and cut:
        return f"{kept.rstrip()}\n\n{_found(left)}".lstrip()
    where = (
        f"All of it is in {tree.repository}"
        if left
        else f"Its worktree and its branch {tree.branch} are gone"
    )
    return f"{kept.rstrip()}\n\n[{where} by now.]"


def _found(left: "Leftover") -> str:
    """What is in the worktree of an agent that was cut off before anybody could sum that up."""
    files = "1 file" if left.changed == 1 else f"{'?' if left.changed is None else left.changed} files"
    where = f"on the branch {left.branch}, in {left.path}"
    if left.merged:
        return f"[What it changed, {files}, is {where}, and all of it is in {left.repository}.]"
    open_too = ", partly not committed" if left.dirty else ""
    said = f"[It was cut off. What it had changed, {files}, is {where}{open_too}, and not in your checkout.]"
    return f"{said}\nTo take it over: {left.taking_over}"


def listed(work: "Work") -> Iterator[str]:
    """The files that were changed."""
    for file in work.files[:MOST_FILES]:
        lines = "" if file.added is None else f" +{file.added} -{file.removed}"
        yield f"{file.status} {file.path}{lines}"
    rest = len(work.files) - MOST_FILES + work.more_files
    if rest > 0:
        yield f"and {rest} more files"


def _merge_words(work: "Work") -> str:
    match work.merges:
        case "clean":
            if work.overlaps:
                return f"It can be merged once your own changes of {', '.join(work.overlaps)} are committed."
            return CLEAN
        case "conflicts":
            return f"A merge would conflict in: {', '.join(work.conflicts)}."
        case _:
            return "Whether it can be merged could not be found out."
