"""What became of the files that a task changed: records, and the sentences that describe them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from gencode.core.structs import replace

BRANCHES = "gencode/"
"""The prefix of all branches that GenCode makes."""
MOST_FILES = 50
MOST_TASKS = 5


FileStatus = Literal["added", "changed", "deleted", "renamed", "other kind"]


class ChangedFile(Struct, frozen=True):
    """One file; `added` and `removed` are lines, None for a binary file. `was` is its earlier name."""

    path: str
    status: FileStatus
    added: int | None
    removed: int | None
    was: str = ""


class NamedTask(Struct, frozen=True, gc=False):
    """A task as messages name it."""

    id: str
    agent: str


class WorktreeChanges(Struct, frozen=True, tag="worktree", omit_defaults=True):
    """The changes in a worktree when the last agent that works there has ended.

    `unknown`: they could not be read. `removed`: there were none, and the worktree was removed. `empty`: its
    branch has none, and it is kept because of the `notes`. `merged`: all are in the `repository` it was made
    from. `open`: `commands` merge them.
    """

    state: Literal["unknown", "removed", "empty", "merged", "open"]
    branch: str = ""
    path: str = ""
    repository: str = ""
    host: str = ""
    """The task that the worktree was made for, if it is another one."""
    last: NamedTask | None = None
    """The last task that worked there, if it is another one."""
    after: str = ""
    """The task whose changes it began with."""
    files: tuple[ChangedFile, ...] = ()
    more_files: int = 0
    diff: str = ""
    merges: Literal["clean", "conflicts", "unknown"] = "unknown"
    """What a merge would result in."""
    conflicts: tuple[str, ...] = ()
    overlaps: tuple[str, ...] = ()
    """Files that are also changed in the checkout, and not committed there."""
    blocked: str = ""
    """Why no merge can begin there now."""
    commands: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    withdrawn: bool = False
    """Whether they no longer have to be merged."""


class WorktreeInUse(Struct, frozen=True, tag="in_use", omit_defaults=True):
    """Other tasks still work in a worktree: its changes are reported when the last of them has ended."""

    tasks: tuple[NamedTask, ...]
    host: str
    """The task that the worktree was made for."""
    own: bool = False
    """Whether that is the task that has ended."""
    more: int = 0
    """How many tasks work there besides those that are named."""


class CopyChanges(Struct, frozen=True, tag="copy", omit_defaults=True):
    """What a task changed in a copy of its `folder` on a worker.

    `empty`: nothing that is copied back. `no_more`: nothing new since the last time, or for a `fork` since
    its original. `handed_in`: the changes are in the store and can be merged. `kept`: they could not be sent,
    for the reason `why`, and are in `path` on the worker.
    """

    state: Literal["empty", "no_more", "handed_in", "kept"]
    task: str
    folder: str = ""
    worker: str = ""
    path: str = ""
    fork: bool = False
    both: bool = False
    """Whether it includes the changes of the task that it is a fork of."""
    files: tuple[ChangedFile, ...] = ()
    more_files: int = 0
    left: tuple[str, ...] = ()
    """What git cannot carry and is only in the copy."""
    why: str = ""
    diff: str = ""
    withdrawn: bool = False
    """Whether they no longer have to be merged."""


class MergedChanges(Struct, frozen=True, tag="merge", omit_defaults=True):
    """What became of changes that came back from a worker.

    `applied`: they are in the files of the `checkout` now. `there`: they were already. `offered`: they are on
    the `branch`, and `commands` merge them.
    """

    state: Literal["applied", "there", "offered"]
    checkout: str
    branch: str = ""
    why: str = ""
    commands: tuple[str, ...] = ()
    withdrawn: bool = False
    """Whether they no longer have to be merged."""


class LostChanges(Struct, frozen=True, tag="lost", omit_defaults=True):
    """The changes of a task on a worker could not be copied back."""

    task: str
    why: str
    withdrawn: bool = False
    """Whether they were merged since."""


class OldChangeLine(Struct, frozen=True, gc=False, omit_defaults=True):
    """A line by which version 0.1 reported changes, and what it is about.

    An `offer` says how to merge what is on a `branch`; `mergeable` says only that it can be merged.
    """

    text: str
    about: Literal["", "offer", "mergeable", "in_use"] = ""
    branch: str = ""


class OldChanges(Struct, frozen=True, tag="told"):
    """Changes that version 0.1 reported only in words."""

    lines: tuple[OldChangeLine, ...]


Changes = WorktreeChanges | WorktreeInUse | CopyChanges | MergedChanges | LostChanges | OldChanges
Superseded = Literal["", "offers", "in_use"]
"""What no longer applies: that changes have to be merged, or that others work in a worktree."""


def after_move(
    before: Sequence[Changes], more: Changes, superseded: Superseded, task: str
) -> tuple[Changes, ...]:
    """The report on the changes of a task after they were merged, copied or lost."""
    kept = tuple(before)
    if superseded == "offers":
        kept = tuple(withdrawn(each, f"{BRANCHES}{task}") for each in kept)
    elif superseded == "in_use":
        kept = without_use(kept)
    return (*kept, more)


def offers(change: Changes, branch: str) -> bool:
    """Whether it says how to merge a branch, or another branch with the same changes."""
    match change:
        case WorktreeChanges(state="open", withdrawn=False) | MergedChanges(state="offered", withdrawn=False):
            return _is_of(change.branch, branch)
        case CopyChanges(state="handed_in", withdrawn=False) | LostChanges(withdrawn=False):
            return f"{BRANCHES}{change.task}" == branch
        case OldChanges(lines):
            return any(each.about == "offer" and _is_of(each.branch, branch) for each in lines)
        case _:
            return False


def withdrawn(change: Changes, branch: str) -> Changes:
    """The same changes without the offer to merge a branch."""
    if not offers(change, branch):
        return change
    match change:
        case OldChanges(lines):
            kept = (each for each in lines if each.about != "mergeable")
            return OldChanges(
                tuple(each for each in kept if each.about != "offer" or not _is_of(each.branch, branch))
            )
        case WorktreeInUse():
            return change
        case _:
            return replace(change, withdrawn=True)


def is_in_use(change: Changes) -> bool:
    """Whether other tasks still worked in a worktree."""
    if isinstance(change, OldChanges):
        return any(each.about == "in_use" for each in change.lines)
    return isinstance(change, WorktreeInUse)


def without_use(changes: Iterable[Changes]) -> tuple[Changes, ...]:
    """The same changes once no other task works in the worktree."""
    found: list[Changes] = []
    for each in changes:
        if isinstance(each, OldChanges):
            found.append(OldChanges(tuple(line for line in each.lines if line.about != "in_use")))
        elif not isinstance(each, WorktreeInUse):
            found.append(each)
    return tuple(found)


def _is_of(found: str, branch: str) -> bool:
    """Whether a branch has the changes of another: it is the same, or has its name with a commit appended."""
    if found == branch:
        return True
    commit = found.removeprefix(f"{branch}-")
    return commit != found and len(commit) == 8 and all(each in "0123456789abcdef" for each in commit)


def with_changes(report: str, changes: Sequence[Changes]) -> str:
    """A report with the descriptions of its changes."""
    texts = [text for each in changes if (text := describe_changes(each))]
    return "\n\n".join(filter(None, (report.strip(), *texts))) if texts else report


def describe_changes(change: Changes) -> str:
    """The description of changes."""
    match change:
        case WorktreeChanges():
            return "\n".join(_in_worktree(change))
        case WorktreeInUse(tasks, host, own, more):
            whose = "its worktree" if own else f"the worktree of task {host}"
            return (
                f"[{named(tasks, more)} still at work in {whose}. When the last task there has ended, the "
                f"changes are committed and reported with the result of task {host}.]"
            )
        case CopyChanges():
            return "\n".join(_in_copy(change))
        case MergedChanges():
            return "\n".join(_merged(change))
        case LostChanges(task, why, gone):
            return "" if gone else f"[The changes of task {task} could not be copied back: {why}.]"
        case OldChanges(lines):
            return "\n".join(each.text for each in lines).strip()


def listed(files: Sequence[ChangedFile], more: int = 0) -> Iterator[str]:
    """A line for each changed file."""
    for file in files[:MOST_FILES]:
        lines = "" if file.added is None else f" +{file.added} -{file.removed}"
        yield f"{file.status} {file.path}{lines}"
    rest = max(0, len(files) - MOST_FILES) + more
    if rest:
        yield f"and {rest} more files"


def named(tasks: Sequence[NamedTask], more: int = 0) -> str:
    """The subject and verb of a sentence about some tasks."""
    some = [f"task {each.id} of {each.agent}" for each in tasks[:MOST_TASKS]]
    more += max(0, len(tasks) - MOST_TASKS)
    some += [f"{more} more"] if more else []
    said = f"{', '.join(some[:-1])} and {some[-1]}" if len(some) > 1 else some[0]
    return f"{said[0].upper()}{said[1:]} {'is' if len(some) == 1 else 'are'}"


def _in_worktree(work: WorktreeChanges) -> Iterator[str]:
    if work.host:
        yield f"[It was the last task at work in the worktree of task {work.host}.]"
    if work.last is not None:
        ended = f"task {work.last.id} of {work.last.agent}"
        yield f"[The last task at work in its worktree has ended: {ended}.]"
    match work.state:
        case "unknown":
            pass
        case "removed":
            yield "[It changed no file in its worktree, which was removed.]"
        case "empty":
            yield f"[There are no changes on its branch {work.branch}; {'; '.join(work.notes)}.]"
        case "merged":
            yield f"[Its changes, on the branch {work.branch}, in {work.path}, are all in {work.repository}.]"
            yield from _after(work)
        case "open":
            if not work.withdrawn:
                where = f"on the branch {work.branch}, in {work.path}"
                yield f"[Its changes are {where}, and not in your checkout.]"
            yield from _after(work)
            yield from _merge(work)
            if not work.withdrawn:
                yield from _commands(work.commands)
    if work.diff:
        yield f"```diff\n{work.diff.rstrip()}\n```"


def _after(work: WorktreeChanges) -> Iterator[str]:
    if work.after:
        yield f"[It began with the work of task {work.after}, which is on its branch as well.]"
    yield from listed(work.files, work.more_files)


def _merge(work: WorktreeChanges) -> Iterator[str]:
    """What a merge would result in."""
    if work.blocked:
        yield f"{work.blocked}: finish or abort that before you merge."
        return
    committed = f"once your own changes of {', '.join(work.overlaps)} are committed" if work.overlaps else ""
    match work.merges:
        case "clean" if committed:
            yield f"It can be merged {committed}."
        case "clean":
            yield from () if work.withdrawn else ("It can be merged without conflicts.",)
        case "conflicts":
            merge = f"A merge {committed}" if committed else "A merge"
            yield f"{merge} would conflict in: {', '.join(work.conflicts)}."
        case _:
            yield "GenCode could not check whether it can be merged."


def _commands(commands: Sequence[str]) -> Iterator[str]:
    """The commands that merge the changes."""
    for number, command in enumerate(commands):
        yield f"{'or' if number else 'To take it over'}: {command}"


def _in_copy(work: CopyChanges) -> Iterator[str]:
    left = [f"Not copied back, {note}, in {work.path}." for note in work.left]
    match work.state:
        case "empty":
            yield "[It changed no file that is copied back.]"
            yield from left
            return
        case "no_more":
            than = " beyond those of the task it is a fork of" if work.fork else ""
            yield f"[It made no further changes{than}.]"
            yield from left
            return
        case _:
            pass
    began = ", with the work of the task it is a fork of" if work.both else ""
    what = "What both changed" if work.both else "What it changed"
    yield f"[It worked in a copy of {work.folder}{began} on {work.worker}. {what} there:]"
    yield from listed(work.files, work.more_files)
    yield from left
    if work.state == "kept":
        yield f"These changes could not be copied back, because {work.why}. They are in {work.path}."
    elif not work.withdrawn:
        yield f"To take it over, if that was not done yet: gen task merge {work.task}"
    if work.diff:
        yield f"```diff\n{work.diff.rstrip()}\n```"


def _merged(work: MergedChanges) -> Iterator[str]:
    match work.state:
        case "applied":
            yield f"[Its changes are in the files of {work.checkout} now.]"
        case "there":
            yield f"[All of its changes were in the files of {work.checkout} already.]"
        case "offered" if not work.withdrawn:
            where = f"on the branch {work.branch} of {work.checkout}"
            yield f"[Its changes are {where} and not in the files there.]"
            yield f"They were not applied: {work.why}."
            yield from _commands(work.commands)
        case _:
            pass
