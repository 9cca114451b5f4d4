"""away: what became of work from elsewhere, written down and told to whoever asked for it."""

import logging
from collections.abc import Iterator

from gencode.core import changes
from gencode.core.changes import LostChanges, MergedChanges, Superseded
from gencode.core.errors import Fenced, UserMistake
from gencode.core.events import ChangesMoved
from gencode.core.task import Task
from gencode.journal.folder_snapshot import SnapshotStore, as_reason, begins_behind, mark_of
from gencode.journal.owner import new_owner
from gencode.journal.store import Journal
from gencode.workspaces.transfer.apply_changes import Arrival

log = logging.getLogger(__name__)

TAKEN = frozenset({"applied", "there"})
"""The states of work that nobody has to take over any more."""


def told(arrival: Arrival) -> Iterator[str]:
    """Where the changes are now, and what to do about those that could not be applied."""
    match arrival.state:
        case "applied" | "there" | "offered":
            yield from changes.told(_moved(arrival)).splitlines()
        case "fits":
            yield f"Its changes can be applied in {arrival.checkout} as things are."
        case _:
            known = f"A merge would conflict in: {', '.join(arrival.conflicts)}."
            unknown = "Whether it can be merged could not be found out."
            yield known if arrival.state == "conflicts" else unknown
            for command in arrival.how:
                yield f"To have it on the branch {arrival.branch}, with the commands that merge it: {command}"


def _moved(arrival: Arrival) -> MergedChanges:
    where, why = arrival.checkout, as_reason(arrival.why)
    match arrival.state:
        case "applied" | "there":
            return MergedChanges(arrival.state, where)
        case _:
            return MergedChanges("offered", where, arrival.branch, why, arrival.how)


async def begins_behind_of(parcels: SnapshotStore, task: Task) -> str:
    """What a person should know before a task is woken here; mostly nothing."""
    found = await parcels.returned(task.id) if task.status.ended else None
    behind = begins_behind(found[0], mark_of(task.cwd)) if found else None
    return behind.told() if behind is not None else ""


async def noted(journal: Journal, task: str, arrival: Arrival) -> None:
    """Write down what became of the changes of a task; what was taken over is offered no more."""
    await _written(journal, task, _moved(arrival), "offers" if arrival.state in TAKEN else "")


async def not_brought(journal: Journal, task: str, why: str) -> None:
    """Write down why the changes of a task did not come; they are offered as before."""
    await _written(journal, task, LostChanges(task, as_reason(why)), "")


async def _written(
    journal: Journal, task: str, change: MergedChanges | LostChanges, supersedes: Superseded
) -> None:
    try:
        lease = await journal.take(task, new_owner())
        await journal.append(lease, [ChangesMoved(change, supersedes)], last=True)
    except (UserMistake, Fenced) as busy:
        log.info("what became of the changes of task %s was not noted: %s", task, busy)
