"""What an earlier task brings along when it goes on: why it had ended, what it hears, which tools it had."""

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from gencode.core.errors import Conflict
from gencode.core.events import Event, MessageAdded, TaskQueued, TaskStarted
from gencode.core.messages import Message, NoticeKind, SystemNotice, UserMessage, place_told
from gencode.core.place import ClonePlace, FolderPlace, TaskPlace, WorkerCopy, WorktreePlace
from gencode.core.spec import Workspace
from gencode.core.status import EndReason, Status
from gencode.core.task import Task, transcript_of
from gencode.journal.store import PostedMessage
from gencode.tasks.task_folders import TaskFolder

_CUT = {
    Status.CANCELLED: "You were stopped",
    Status.INTERRUPTED: "You were cut off",
    Status.TIMED_OUT: "You were stopped, because your time was up",
    Status.FAILED: "Your last run failed",
}
_PLACES = {WorktreePlace: "worktree", WorkerCopy: "copy", ClonePlace: "clone"}
_TO_ITSELF = {
    EndReason.PROCESS_DIED: "the process that ran you died",
    EndReason.PROCESS_LOST: "the process that ran you died, or could not reach the database",
    EndReason.WORKER_LOST: "the worker that ran you died, was told to end, or could not reach the database",
}
"""Why it ended, as its own agent is told it."""


def busy_error(task: str, *, waits: bool) -> Conflict:
    """Why nobody goes on with a task now: somebody is at it, or it `waits` for its turn."""
    does = "waits for its turn; say more to it, wait for it" if waits else "is running; wait for it"
    return Conflict(f"Task {task} {does} or stop it first.")


def is_here(folder: str) -> bool:
    """Whether the folder of an earlier task is on this machine."""
    return bool(folder) and Path(folder).is_dir()


def ended_notice(task: Task) -> list[UserMessage]:
    """What an agent hears before anything else when its last run did not end by itself."""
    if task.status not in _CUT:
        return []
    error = _TO_ITSELF.get(task.end.reason, task.end.error) if task.end.reason else task.end.error
    why = f": {error.rstrip('.')}" if error else ""
    text = f"{_CUT[task.status]}{why}. Go on from there; calls that were cut are marked as interrupted."
    notice = SystemNotice(NoticeKind.ENDED, reason=task.end.reason)
    return [UserMessage(text, sender="system", notice=notice)]


def trailing_notices(transcript: Sequence[Message]) -> list[UserMessage]:
    """What an agent was told by nobody in particular, after all that it said itself and that others said."""
    found: list[UserMessage] = []
    for message in reversed(transcript):
        if not isinstance(message, UserMessage) or message.sender != "system":
            break
        found.append(message)
    return found


def has_messages(events: Sequence[Event]) -> bool:
    """Whether an agent was told anything in a run of its own; a copy may remember what another one heard."""
    return any(isinstance(event.fact, MessageAdded) for event in events)


def has_unanswered_messages(task: Task, events: Sequence[Event]) -> bool:
    """Whether an agent was told something that it has not answered, and so can go on with nothing new."""
    transcript = transcript_of(events)
    answered = bool(transcript) and not isinstance(transcript[-1], UserMessage)
    return not task.conversation and not (answered and has_messages(events))


def resume_messages(
    task: Task, said: UserMessage, letters: Sequence[PostedMessage], events: Sequence[Event]
) -> list[UserMessage]:
    """What a task hears when it goes on: why it had ended, what it is asked, and what came meanwhile.

    Why it had ended it hears once, also where that happens again before anybody else has said anything.
    """
    asked = [said] if said.text.strip() else []
    if not has_messages(events) and task.created.prompt:
        asked = [UserMessage(task.created.prompt), *asked]
    mail = [letter.message for letter in letters]
    known = [each.notice for each in trailing_notices(transcript_of(events))]
    why = (
        ended_notice(task) if task.run.started_at else ()
    )  # else it was stopped before it had begun: no news to it
    return [*(each for each in why if each.notice not in known), *asked, *mail]


def place_notice(earlier: TaskPlace | None, here: Workspace) -> list[UserMessage]:
    """What an agent hears that last worked in a copy or a worktree and goes on in the folder itself."""
    if here.copied is not None or earlier is None or isinstance(earlier, FolderPlace):
        return []
    where = _PLACES[type(earlier)]
    text = (
        f"You are back in the folder itself, {here.cwd}. What you changed in your {where} is in it only if "
        "somebody took it over, so look."
    )
    return [place_told(text, FolderPlace(str(here.cwd)))]


def with_place_notice(
    task: Task,
    heard: Sequence[UserMessage],
    workplace: TaskFolder | None,
    here: Workspace,
    events: Sequence[Event],
) -> list[UserMessage]:
    """What a task hears when it goes on, with where it is; one that was never told so is told all of it."""
    if workplace is not None and not has_messages(events):
        return [*heard, *workplace.introduction()]
    place = workplace.change_notice() if workplace else place_notice(task.delivered.place, here)
    return [*place, *heard]


def queued_start(started: TaskStarted) -> tuple[TaskQueued, tuple[TaskStarted]]:
    """What is written of a task that has to wait for its turn to go on: at once, and when it is its turn."""
    queued = TaskQueued(started.model, started.budget, started.output_schema)
    return queued, (replace(started, budget=None, output_schema=None),)


def last_tools(events: Sequence[Event]) -> tuple[str, ...]:
    """The tools an agent had when it last began to work."""
    started = (event.fact for event in reversed(events) if isinstance(event.fact, TaskStarted))
    last = next(started, None)
    return last.tools if last else ()
