"""The worktree of a task that goes on or is copied: the one it had, or one with what is known of its work.

That may be in a worktree here, in one that another machine made of the same repository (what is on its branch
can be had here, too), or in the database, as it came back from a worker. What its agent was last told about
where it is says which of them is the newest.
"""

from contextlib import suppress
from pathlib import Path
from shlex import quote

from msgspec import Struct
from msgspec.structs import replace

from gencode.core.errors import GenCodeError, UserMistake
from gencode.core.spec import Workspace
from gencode.core.task import Task, whole_transcript
from gencode.runtime.away.homecoming import Homecoming, catch_up
from gencode.runtime.away.parcel import Parcels, Returned, as_reason
from gencode.runtime.fleet import Dispatching
from gencode.runtime.ports import Store
from gencode.runtime.whereabouts import TREE, is_away, last_branch
from gencode.runtime.worktrees.making import Source, make, make_of, source_of
from gencode.runtime.worktrees.merging import is_merged
from gencode.runtime.worktrees.place import (
    BRANCHES,
    Worktree,
    name_here,
    recorded,
    repository_folder,
    tree_here,
    tree_name,
    write_record,
)
from gencode.runtime.worktrees.work import state_of

LAST = "the last commit of {repository}"
WORK = "the work of task {task}, as it was when the fork began"
FIRST = "the commit that task {task} began with"
BEGAN = f"{FIRST}: what that task changed is not in it"
MERGED = f"{LAST}: what task {{task}} changed is in it only if somebody merged that"
CAME = "the work of task {task}, as it came back from {worker}"
BRANCH = (
    "the work of task {task} that is on the branch {branch}: its worktree is on another machine, and what it "
    "did since its last run there ended is not in it"
)
GONE = (
    "The worktree {path} of task {task} is gone, so it cannot go on there. Its branch {branch} is still "
    "there; check it out again: git -C {top} worktree add -f {quoted} {branch}"
)
REMOVED = "was removed"
AWAY = "was on a worker"
LEFT = " Of what you changed, this was too large to travel and is only where you were then: {left}."


class Told(Struct, frozen=True):
    """What an agent and a person hear of a worktree that is not just the one that the agent had."""

    agent: str
    person: str


ANEW = Told(
    "{tree}, {cwd}, that was made anew, on a new branch {branch}, from the last commit of {repository}: the "
    "one you had {lost}. What you changed in that is in it only if somebody took it over, so look.",
    "Its worktree {path} was made anew from the last commit of {repository}, because the one it had {lost}.",
)
ALL_THERE = Told(
    "{tree}, {cwd}, that was made anew, on a new branch {branch}, from the last commit of {repository}, "
    "which has all that you changed {where}.",
    "Its worktree {path} was made anew from the last commit of {repository}, which has all that it changed "
    "{where}.",
)
RETURNED = Told(
    "{tree} of your own, {cwd}, on a new branch {branch}, which was made with what you changed {where}.",
    "Its worktree {path} was made with what it changed {where}.",
)
ELSEWHERE = Told(
    "{tree} of your own, {cwd}, on a new branch {branch}, which was made from the branch {was}, because the "
    "worktree you had is on another machine: what you did since your last run there ended is only there.",
    "Its worktree {path} was made from the branch {was}, because the one it had is on another machine; what "
    "is not on that branch is only there.",
)
CAUGHT_UP = Told(
    "{tree} of your own, {cwd}, on the branch {branch}, as before; what you changed {where} since was "
    "brought into it.",
    "What it changed {where} was brought into its worktree {path}.",
)
BEHIND = Told(
    "{tree} of your own, {cwd}, on the branch {branch}, as you left it; what you changed {where} since is "
    "not in it, because {why}, so look.",
    "It goes on in its worktree {path}, without what it changed {where} since, because {why}.",
)
UNKNOWN = Told(
    "{tree} of your own, {cwd}, on the branch {branch}, as you left it; what you changed {where} since, if "
    "anything, is not in it, so look.",
    "It goes on in its worktree {path}, without what it may have changed {where} since.",
)


class Ground(Struct, frozen=True):
    """A task, whether it last worked on a worker, or else the branch that it last worked on, and what of its
    work came back.
    """

    task: Task
    away: bool = False
    branch: str = ""
    back: tuple[Returned, bytes] | None = None
    parcels: Parcels | None = None

    @property
    def name(self) -> str:
        """What its worktree is called."""
        return tree_name(self.task.id, self.task.worktree)

    def here(self, home: Path | None, source: Source | None) -> Worktree | None:
        """Its worktree on this machine, if there is one."""
        if home is None or source is None:
            tree = recorded(Path(self.task.worktree)) if self.task.worktree else None
            return tree if tree is not None and tree.path.is_dir() else None
        return tree_here(home, source.top, self.name, self.task.worktree, self.branch)


class Stand(Struct, frozen=True):
    """A worktree for a task, whether it is `fresh`, and what is told of it."""

    tree: Worktree
    fresh: bool = False
    told: Told | None = None


async def ground_of(store: Store, task: Task) -> Ground:
    """What is known of a task."""
    said = whole_transcript(await store.events(task.id))
    away, branch = is_away(said), last_branch(said, tree_name(task.id, task.worktree))
    if not away or not isinstance(store, Dispatching):
        return Ground(task, away, branch)
    return Ground(task, away, branch, await store.parcels.returned(task.id), store.parcels)


async def stand(ground: Ground, workspace: Workspace, home: Path) -> Stand:
    """The worktree in which a task goes on here; UserMistake if there can be none."""
    tree = ground.here(None, None)
    if tree is not None and not ground.away and ground.branch in ("", tree.branch):
        return Stand(tree)
    source = await source_of(workspace.cwd)
    tree = ground.here(home, source)
    if ground.away:
        return await _after_worker(ground, source, tree, workspace, home)
    was = ground.branch or f"{BRANCHES}{ground.name}"
    if tree is not None and was == tree.branch:
        return Stand(tree)
    tip = await _commit(source, was)
    if tree is None:
        return await _elsewhere(ground, source, was, tip, workspace, home)
    since = await source.git.tell("merge-base", tip, f"refs/heads/{tree.branch}") if tip else ""
    why = await catch_up(tree, tip, since) if since else f"its branch {was} is not here"
    told = BEHIND if why else CAUGHT_UP
    return Stand(tree, told=_filled(told, tree, where="on another machine", why=why))


async def _after_worker(
    ground: Ground, source: Source, tree: Worktree | None, workspace: Workspace, home: Path
) -> Stand:
    """The worktree here of a task that was last on a worker, with what came back of it."""
    work = ground.back[0] if ground.back is not None else None
    where, left = f"on {work.worker}" if work else "on a worker", work.left if work else ""
    why = await _taken_in(ground, source)
    if work is None or work.nothing or (why and tree is None):
        if tree is not None:
            return Stand(tree, told=_filled(UNKNOWN, tree, where=where))
        made = await _made(ground, source, workspace, home)
        return Stand(made, fresh=True, told=_filled(ANEW, made, lost=AWAY))
    if tree is not None:
        why = why or await catch_up(tree, work.commit, work.parcel.start or work.parcel.tip)
        why = f"{as_reason(why)} (gen task merge {ground.task.id} offers it)" if why else ""
        return Stand(tree, told=_filled(BEHIND if why else CAUGHT_UP, tree, left, where=where, why=why))
    if await is_merged(source.git, source.base, work.commit):
        made = await _made(ground, source, workspace, home)
        return Stand(made, fresh=True, told=_filled(ALL_THERE, made, left, where=where))
    begun = replace(source, base=work.parcel.tip, start=work.commit)
    made = await _made(ground, begun, workspace, home)
    made = replace(made, mixed=_is_mixed(work))
    write_record(made)
    return Stand(made, told=_filled(RETURNED, made, left, where=where))


async def _elsewhere(
    ground: Ground, source: Source, was: str, tip: str, workspace: Workspace, home: Path
) -> Stand:
    """A worktree for a task that had one which is not here: on another machine, or removed."""
    lost = AWAY if ground.task.isolated and not ground.branch else REMOVED
    if not tip:
        made = await _made(ground, source, workspace, home)
        return Stand(made, fresh=True, told=_filled(ANEW, made, lost=lost))
    path = repository_folder(home, source.top) / was.removeprefix(BRANCHES)
    if recorded(path) is not None:
        named = {"path": path, "quoted": quote(str(path)), "top": quote(str(source.top)), "branch": was}
        raise UserMistake(GONE.format(task=ground.task.id, **named))
    base = await source.git.tell("merge-base", source.base, tip) or tip
    made = await _made(ground, replace(source, base=base, start=tip), workspace, home)
    return Stand(made, told=_filled(ELSEWHERE, made, was=was))


async def _made(ground: Ground, source: Source, workspace: Workspace, home: Path) -> Worktree:
    """A worktree that is called like that of the task, or else like it and this machine."""
    name = ground.name
    if await _commit(source, f"{BRANCHES}{name}"):
        name = name_here(name, home)
    return await make_of(source, workspace, home, name)


async def copied(ground: Ground, workspace: Workspace, home: Path, name: str) -> Worktree:
    """A worktree that begins with the work of a task; else where that began, else at the last commit."""
    task, source = ground.task, await source_of(workspace.cwd)
    work = ground.back[0] if ground.back is not None and not ground.back[0].nothing else None
    if work is not None and not await _taken_in(ground, source):
        if await is_merged(source.git, source.base, work.commit):
            return await make(workspace, home, name)
        made = await make(workspace, home, name, work.commit)
        begun = CAME.format(task=task.id, worker=work.worker)
        return _noted(replace(made, origin=work.parcel.tip, mixed=_is_mixed(work)), begun, task.id)
    before = ground.here(home, source) or (recorded(Path(task.worktree)) if task.worktree else None)
    far = bool(ground.branch) and (before is None or before.branch != ground.branch)
    if far and (tip := await _commit(source, ground.branch)):
        made = await make(workspace, home, name, tip)
        origin = await source.git.tell("merge-base", source.base, tip)
        begun = BRANCH.format(task=task.id, branch=ground.branch)
        return _noted(replace(made, origin=origin), begun, task.id)
    return await _copy_of(before, task, workspace, home, name)


async def _copy_of(
    before: Worktree | None, task: Task, workspace: Workspace, home: Path, name: str
) -> Worktree:
    """The same where only a worktree of this machine is known, or none."""
    state = ""
    if before is not None:
        with suppress(GenCodeError):
            state = await state_of(before)
    start = state or (before.base if before is not None else "")
    made = await make(workspace, home, name, start)
    words, after = LAST, ""
    if before is not None and made.base == start:
        made = replace(made, origin=before.first, mixed=before.mixed)
        unchanged = state == before.base
        words, after = (FIRST, "") if unchanged else (WORK, task.id) if state else (BEGAN, "")
    elif task.evidence.files_changed:
        words = MERGED
    return _noted(made, words.format(task=task.id, repository=made.repository), after)


def _noted(made: Worktree, begun: str, after: str) -> Worktree:
    made = replace(made, begun=begun, after=after)
    write_record(made)
    return made


def _is_mixed(work: Returned) -> bool:
    """Whether a task was sent with what a person had not committed."""
    return work.parcel.head != work.parcel.tip


async def _taken_in(ground: Ground, source: Source) -> str:
    """Have what came back of a task in the repository; why not, where that fails."""
    if ground.back is None or ground.parcels is None:
        return "nothing came back"
    try:
        await Homecoming(source.top, ground.parcels).take_in(*ground.back)
    except GenCodeError as why:
        return str(why)
    return ""


async def _commit(source: Source, branch: str) -> str:
    return await source.git.tell("rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}")


def _filled(told: Told, tree: Worktree, left: str = "", **words: str) -> Told:
    place = {"cwd": tree.workspace.cwd, "branch": tree.branch, "repository": tree.repository}
    named = {"tree": TREE, "path": tree.path, **place, **words}
    more = LEFT.format(left=left) if left else ""
    return Told(told.agent.format(**named) + more, told.person.format(**named))
