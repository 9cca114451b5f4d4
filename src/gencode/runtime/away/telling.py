"""away: what became of work from elsewhere, in words for whoever asked for it."""

import logging
import re
from collections.abc import Iterator

from gencode.core.errors import Fenced, UserMistake
from gencode.core.events import WorkReturned
from gencode.core.task import Task
from gencode.runtime.away.homecoming import Arrival
from gencode.runtime.away.parcel import Parcels, as_reason, begins_behind, mark_of
from gencode.runtime.owner import new_owner
from gencode.runtime.ports import Journal
from gencode.runtime.worktrees.place import BRANCHES

log = logging.getLogger(__name__)

MOST_FILES = 50
OFFER = "To take it over, where that was not done: gen task merge "
TAKEN = frozenset({"applied", "there"})
"""The states of work that nobody has to take over any more."""
_COMMAND = re.compile(r"(?:To take it over|or): git -C \S.* ")


def told(arrival: Arrival) -> Iterator[str]:
    """Where the changes are now, and what to do about those that could not be applied."""
    where = arrival.checkout
    match arrival.state:
        case "applied":
            yield f"[Its changes are in the files of {where} now.]"
        case "there":
            yield f"[All of its changes were in the files of {where} already.]"
        case "offered":
            yield f"[Its changes are on the branch {arrival.branch} of {where} and not in the files there.]"
            yield f"They were not applied: {as_reason(arrival.why)}."
            words = ("To take it over", *["or"] * (len(arrival.how) - 1))
            yield from (f"{word}: {command}" for word, command in zip(words, arrival.how, strict=True))
        case "fits":
            yield f"Its changes can be applied in {where} as things are."
        case _:
            known = f"A merge would conflict in: {', '.join(arrival.conflicts)}."
            unknown = "Whether it can be merged could not be found out."
            yield known if arrival.state == "conflicts" else unknown
            for command in arrival.how:
                yield f"To have it on the branch {arrival.branch}, with the commands that merge it: {command}"


async def begins_behind_of(parcels: Parcels, task: Task) -> str:
    """What a person should know before a task is woken here; mostly nothing."""
    found = await parcels.returned(task.id) if task.status.ended else None
    return begins_behind(found[0], mark_of(task.cwd)) if found else ""


async def noted(journal: Journal, task: str, arrival: Arrival) -> None:
    """Write down what became of the changes of a task; what was taken over is offered no more."""
    await _written(journal, task, "\n".join(told(arrival)), withdraw=arrival.state in TAKEN)


async def not_brought(journal: Journal, task: str, why: str) -> None:
    """Write down why the changes of a task did not come; they are offered as before."""
    await _written(journal, task, f"{_not_brought(task)}{as_reason(why)}.]", withdraw=False)


def _not_brought(task: str) -> str:
    return f"[The changes of task {task} were not brought here: "


async def _written(journal: Journal, task: str, text: str, *, withdraw: bool) -> None:
    try:
        lease = await journal.take(task, new_owner())
        withdrawn = offers(lease.state.result, f"{BRANCHES}{task}") if withdraw else ()
        await journal.append(lease, [WorkReturned(text, withdrawn)], last=True)
    except (UserMistake, Fenced) as busy:
        log.info("what became of the changes of task %s was not noted: %s", task, busy)


def offers(result: str, branch: str) -> tuple[str, ...]:
    """The lines of a result that say how work on a branch can be taken over, or that it was not."""
    lines = result.split("\n")
    task = branch.removeprefix(BRANCHES)
    found = [line for line in lines if line == f"{OFFER}{task}" or line.startswith(_not_brought(task))]
    named = re.compile(rf"{re.escape(branch)}(?:-[0-9a-f]{{8}})?(?![A-Za-z0-9._-]*[A-Za-z0-9])")
    found += [line for line in lines if _COMMAND.match(line) and named.search(line)]
    for at, line in enumerate(lines):
        if line.startswith("[Its changes are on the branch ") and named.match(line, 31):
            found.append(line)
            found += [each for each in lines[at + 1 : at + 2] if each.startswith("They were not applied: ")]
    return tuple(dict.fromkeys(found))


def listed(arrival: Arrival) -> Iterator[str]:
    """The files that were changed."""
    for file in arrival.files[:MOST_FILES]:
        lines = "" if file.added is None else f" +{file.added} -{file.removed}"
        yield f"{file.status} {file.path}{lines}"
    rest = len(arrival.files) - MOST_FILES + arrival.more_files
    if rest > 0:
        yield f"and {rest} more files"
