"""Which ends of the tasks that somebody sent it has not heard of, as the journals of both say.

A task ends once for each of its runs, and whoever sent it is told each end by itself, however often the task
was woken before that. Nothing is counted here that could be lost.
"""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from gencode.core.receipts import is_said_again
from gencode.core.task import Task, last_end, was_given

WasGiven = Callable[[str, str | None], bool]
"""Whether the end of a task at a moment was told."""


def unheard(sender: Task, task: Task) -> list[Task]:
    """A task as it was at each of its ends that its sender has still to be told, oldest first."""
    return ends_untold(sender, task, lambda each, at: was_given(sender, each, at))


def ends_untold(sender: Task, task: Task, was_given: WasGiven, *, over: bool = True) -> list[Task]:
    """The same for who knows by other means what was given; its last end counts when it is `over`."""
    if not task.past and not task.status.ended:
        return []
    told = [*_past(sender, task, was_given)]
    if over and task.status.ended and task.background and not was_given(task.id, task.ended_at):
        end = last_end(task)
        again = end is not None and is_said_again(task.past, end)
        told.append(replace(task, report="", changes=(), past=()) if again else replace(task, past=()))
    return told


def _past(sender: Task, task: Task, was_given: WasGiven) -> Iterator[Task]:
    """Its earlier ends that are told by themselves.

    What it came to while it was waited for was the answer to a call, unless its sender was cut off from it.
    """
    left = next((each for each in reversed(task.past) if not each.background), None)
    for each in task.past:
        later = each.background or (each is left and task.id in sender.left)
        if later and not was_given(task.id, each.at):
            end = replace(task, status=each.status, report=each.text, changes=each.changes)
            yield replace(end, error=each.error, reason=each.reason, ended_at=each.at, past=())
