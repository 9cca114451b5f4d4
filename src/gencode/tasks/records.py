"""Reads stored tasks for people and programs: finds, shows, lists and deletes them."""

import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from gencode.agent.work_queue import NO_CAPS
from gencode.core.errors import Conflict, UnknownName, UserMistake
from gencode.core.events import CallDecided, plain
from gencode.core.ids import clean_id
from gencode.core.messages import Usage
from gencode.core.outcome import Outcome, outcome_of, output_file
from gencode.core.status import Status
from gencode.core.structs import replace
from gencode.core.task import Task, whole_transcript
from gencode.journal.store import Ownership, Store, TaskQuery
from gencode.tasks.argument_checks import TASK, checked_text
from gencode.tasks.crash_recovery import restore_output_file
from gencode.tasks.liveness import LivenessTimeouts, silent_tasks
from gencode.tasks.queries import queue_positions, readable_events, with_woken_as_pending

MOST_NAMED = 8
"""How many ids are suggested for an unknown one."""

ChildrenOf = Mapping[str, Sequence[Task]]
"""The children of tasks, by the ids of the parents."""


class TaskRecords:
    """Reads tasks. `outputs` is the folder of output files, `cwd` the one whose tasks are suggested.

    `caps` limit how many agents of a provider or a model run at once, `stalled` is after how many seconds
    without a sign of life a process counts as stalled.
    """

    def __init__(
        self,
        store: Store,
        outputs: Path,
        cwd: Path,
        caps: Mapping[str, int] = NO_CAPS,
        stalled: float = LivenessTimeouts().stalled,
    ) -> None:
        self._store = store
        self._outputs = outputs
        self._cwd = cwd
        self._caps = caps
        self._stalled = stalled

    async def find(self, task: str, *, conversation: bool = False) -> Task:
        """The task with an id or the beginning of one.

        With `conversation`, conversations are suggested for an unknown id.
        """
        beginning = clean_id(checked_text(TASK, task))
        ids = await self._store.ids(beginning) if beginning else []
        if len(ids) > 1 and beginning not in ids:
            raise Conflict(f"{task!r} matches several ids: {', '.join(ids[:MOST_NAMED])}.")
        found = await self._store.task(beginning if beginning in ids else ids[0]) if ids else None
        if found is None:
            query = TaskQuery(cwd=str(self._cwd), conversations=True if conversation else None)
            known = [each.id for each in await self._store.tasks(query)]
            what, listing = (
                ("conversation", "sessions list") if conversation else ("task", "task list --tree")
            )
            raise UnknownName(what, task, known[-MOST_NAMED:], listing=f"gen {listing}")
        return found

    async def get(self, task: Task) -> Outcome:
        """The outcome of a task, whose output file is completed first."""
        await restore_output_file(self._store, self._outputs, task)
        [outcome] = await self.outcomes([task])
        return outcome

    async def show(self, task: Task) -> Outcome:
        """One task with its transcript and the gate's decisions."""
        events, problem = await readable_events(self._store, task.id)
        if problem:
            warnings = (*task.evidence.warnings, f"{problem} Nothing after it is shown.")
            task = replace(task, evidence=replace(task.evidence, warnings=warnings))
        [outcome] = await self.outcomes([task])
        return replace(
            outcome,
            transcript=[msgspec.to_builtins(message) for message in whole_transcript(events)],
            decisions=[plain(event) for event in events if isinstance(event.fact, CallDecided)],
        )

    async def sent_by(self, parent: str | None) -> list[Outcome]:
        """The tasks of agents, oldest first; with `parent`, its children."""
        above = None if parent is None else checked_text(TASK, parent)
        return await self.outcomes(await self._store.tasks(TaskQuery(parent=above, conversations=False)))

    async def outcomes(self, tasks: Sequence[Task]) -> list[Outcome]:
        """Tasks in their public shape, as they are now."""
        told = await self._told(await with_woken_as_pending(self._store, tasks))
        if all(each.status.ended for each in told):
            return told
        silent = await self.silent()
        return [
            replace(each, stalled_seconds=round(silent[each.agent_id].silent, 1))
            if not each.status.ended and each.agent_id in silent
            else each
            for each in told
        ]

    async def silent(self) -> dict[str, Ownership]:
        """The leases of tasks whose process, another one, hangs or has been suspended for too long."""
        return await silent_tasks(self._store, self._stalled)

    async def _told(self, tasks: Sequence[Task]) -> list[Outcome]:
        waiting = [task.id for task in tasks if task.status is Status.PENDING]
        queued = await queue_positions(self._store, waiting, self._caps)
        below = await self.below(tasks)
        return [self._outcome(task, below, queued) for task in tasks]

    async def outcome_of(self, task: Task) -> Outcome:
        """The outcome of a task, with the usage of all its subagents."""
        [outcome] = await self._told([task])
        return outcome

    def _outcome(self, task: Task, below: ChildrenOf, queued: Mapping[str, int]) -> Outcome:
        children = below.get(task.id, ())
        sent = tuple(dict.fromkeys((*task.evidence.children, *(child.id for child in children))))
        tree = task.totals.usage + _usage(children, below, {task.id})
        whole = replace(task, evidence=replace(task.evidence, children=sent))
        outcome = outcome_of(whole, tree, self._outputs)
        place = queued.get(task.id)
        return replace(outcome, queue_position=place) if place else outcome

    async def below(self, tasks: Iterable[Task]) -> ChildrenOf:
        """All descendants of these tasks, by parent; each generation is read at once."""
        family: dict[str, list[Task]] = {}
        level = [task.id for task in tasks]
        while level := [each for each in dict.fromkeys(level) if each not in family]:
            family |= {each: [] for each in level}
            found = await self._store.tasks(TaskQuery(parents=tuple(level)))
            for child in found:
                family[child.parent or ""].append(child)
            level = [child.id for child in found]
        return family

    async def delete(self, task: Task) -> list[str]:
        """Delete a task that a person started, with all its subagents and output files; the ids."""
        above = await self._store.task(task.parent) if task.parent else None
        if above is not None:
            raise UserMistake(
                f"Task {task.id} belongs to {above.id} and can only be deleted together with it."
            )
        return await self.remove(task.id)

    async def remove(self, task: str) -> list[str]:
        """Delete a task with everything below it and all output files; the ids."""
        gone = await self._store.delete(task)
        for each in gone:
            with suppress(FileNotFoundError):
                output_file(self._outputs, each).unlink()
            shutil.rmtree(self._outputs / each, ignore_errors=True)
        return gone


def _usage(tasks: Iterable[Task], below: ChildrenOf, seen: set[str]) -> Usage:
    """The usage of these tasks and all their subagents, each counted once."""
    total = Usage()
    for task in tasks:
        if task.id not in seen:
            seen.add(task.id)
            total = total + task.totals.usage + _usage(below.get(task.id, ()), below, seen)
    return total
