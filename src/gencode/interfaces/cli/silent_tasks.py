"""Tasks whose process gives no sign of life, in words: which process that is, and what helps."""

from collections.abc import Iterable, Iterator, Sequence

from msgspec import UNSET

from gencode.app import GenCode
from gencode.core.outcome import Outcome
from gencode.core.text import visible_line
from gencode.interfaces.render.plain_text import seconds
from gencode.journal.owner import process_of, suspended
from gencode.tasks.one_task_process import runs_one_task


async def ways_out(gen: GenCode, tasks: Sequence[Outcome]) -> list[str]:
    """A line for each process that hangs with some of these tasks, and for each that is silent by itself."""
    stalled = [task for task in tasks if task.stalled_seconds is not UNSET]
    if not stalled:
        return []
    silent = await gen.records.silent()
    owners = {task.agent_id: silent[task.agent_id].owner for task in stalled if task.agent_id in silent}
    return [
        *(_of_process(each, list(_top(stalled, owners, each))) for each in dict.fromkeys(owners.values())),
        *(_of_task(task, gen.settings.silence_seconds) for task in stalled if task.agent_id not in owners),
    ]


def _top(stalled: Iterable[Outcome], owners: dict[str, str], owner: str) -> Iterator[Outcome]:
    """The tasks of a process, without those that others of it sent: these end with them."""
    for task in stalled:
        if owners.get(task.agent_id) == owner and owners.get(task.parent_id or "") != owner:
            yield task


def _of_process(owner: str, tasks: Sequence[Outcome]) -> str:
    first, more = tasks[0], f" and {len(tasks) - 1} more" if tasks[1:] else ""
    named = f"{first.agent_id} ({visible_line(first.agent)}){more}"
    process, stop = process_of(owner) or "elsewhere", f"gen task stop {first.agent_id}"
    if suspended(owner):
        way = f"kill -CONT {process}" if runs_one_task(owner) else "fg in its terminal"
        return f"{named}: process {process} is suspended. Let it go on: {way}. Or end it: {stop}"
    length = seconds(float(first.stalled_seconds or 0.0))
    return f"{named}: process {process} gives no sign of life for {length}. End it: {stop}"


def _of_task(task: Outcome, most: float) -> str:
    named = f"{task.agent_id} ({visible_line(task.agent)})"
    stop = f"gen task stop {task.agent_id}"
    return f"{named} is silent; after {seconds(most)} of it, its time is up. End it now: {stop}"
