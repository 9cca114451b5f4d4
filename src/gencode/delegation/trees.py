"""Agents in git worktrees of their own: made before they start, summed up when they have ended.

What makes worktrees is loaded when the first one is wanted.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gencode.core.errors import GenCodeError, UserMistake
from gencode.core.ids import new_id
from gencode.core.messages import UserMessage
from gencode.core.spec import Workspace
from gencode.core.task import Task
from gencode.delegation.earlier import TREE
from gencode.runtime.seat import Ending

if TYPE_CHECKING:
    from gencode.runtime.worktrees.place import Worktree
    from gencode.runtime.worktrees.work import Work

NO_HOME = "A worktree needs a folder of GenCode's own, and there is none here; leave isolation out."
MOST_FILES = 50
CLEAN = "It can be merged as things are."
THERE = (
    "{tree} of your own, {cwd}, on the branch {branch}, which was made from the last commit of {repository}. "
    "What you change in it, committed or not, is on that branch only until somebody merges it."
)


class Workplace:
    """The worktree of one agent."""

    def __init__(self, tree: "Worktree") -> None:
        self._tree = tree

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
        tree = self._tree
        place = {"cwd": tree.workspace.cwd, "branch": tree.branch, "repository": tree.repository}
        return [UserMessage(THERE.format(tree=TREE, **place), sender="system")]

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

    async def make(self, workspace: Workspace) -> Workplace:
        """A worktree for a new agent, called as its task will be; UserMistake where there can be none."""
        from gencode.runtime.worktrees.making import make

        if self.home is None:
            raise UserMistake(NO_HOME)
        name = new_id()
        while await self._ids(name):
            name = new_id()
        return Workplace(await make(workspace, self.home, name))

    def again(self, task: Task) -> Workplace | None:
        """The worktree for a task that goes on, if it has one; UserMistake when that is gone."""
        if task.id in self.given or not task.worktree:
            return self.given.get(task.id)
        from gencode.runtime.worktrees.place import recorded

        tree = recorded(Path(task.worktree))
        if tree is None or not tree.path.is_dir():
            gone = f"The worktree {task.worktree} of the task is gone, so it cannot go on there"
            raise UserMistake(f"{gone}; send the agent anew.")
        return Workplace(tree)


def told(tree: "Worktree", work: "Work") -> Iterator[str]:
    """What the sender reads about the worktree of an agent that has ended."""
    if not work.kept:
        yield "[It changed no file in its worktree, which was removed.]"
        return
    yield f"[Its changes are on the branch {tree.branch}, in {tree.path}, and not in your checkout.]"
    yield from listed(work)
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
    withdrawn = offers(task.result, tree.branch) if tree is not None and task.status.ended else ()
    if tree is None or not withdrawn:
        return task.result
    left = await looked_at(tree.path)
    if left is not None and not left.merged:
        return task.result
    kept = "\n".join(line for line in task.result.split("\n") if line not in {*withdrawn, CLEAN})
    where = (
        f"All of it is in {tree.repository}"
        if left
        else f"Its worktree and its branch {tree.branch} are gone"
    )
    return f"{kept.rstrip()}\n\n[{where} by now.]"


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
