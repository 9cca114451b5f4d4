"""Relatives of a task: which tasks and background commands its agent may name in a call."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from gencode.agent.gate import Gate, Relation
from gencode.agent.prompt import messaging_section
from gencode.agent.recorder import Recorder
from gencode.core.errors import GenCodeError, Stopped
from gencode.core.ids import clean_id
from gencode.core.outcome import output_file
from gencode.core.task import Task
from gencode.journal.event_bus import EventBus
from gencode.journal.store import Store, TaskQuery, TaskSignal
from gencode.tasks.crash_recovery import close_if_orphan
from gencode.tasks.delivery import AgentInbox
from gencode.tasks.remote_task import FollowedTask
from gencode.tasks.running_task import GRACE_SECONDS, LocalTask
from gencode.tasks.supervisor import Supervisor
from gencode.tasks.watch import LOOK_SECONDS

if TYPE_CHECKING:
    from gencode.sandbox.shells import Shells

MOST_NAMED = 10
"""How many siblings an agent is told of."""
MOST_LISTED = 10
SHELL_PREFIX = "shell_"
"""The prefix of the ids of background commands."""


class TaskTree:
    """The tasks this process knows, each with its parent. Only whole ids are recognised."""

    __slots__ = ("_agents", "_parents")

    def __init__(self) -> None:
        self._parents: dict[str, str | None] = {}
        self._agents: dict[str, str] = {}

    def learn(self, task: str, parent: str | None, agent: str = "") -> None:
        """Record the parent and the agent of a task."""
        self._parents[task] = parent
        if agent:
            self._agents[task] = agent

    def knows(self, task: str) -> bool:
        """Whether the parent of a task is known."""
        return task in self._parents

    def named(self, task: str) -> str:
        """A task for a message: the name of its agent, and its id."""
        agent = self._agents.get(task)
        return f"{agent} (task {task})" if agent else f"task {task}"

    def reachable(self, task: str) -> list[str]:
        """Its parent and the latest of its siblings, for an agent that may send them messages."""
        parent = self._parents.get(task)
        if parent is None:
            return []
        beside = [self.named(each) for each in self.children(parent) if each != task]
        rest = len(beside) - MOST_NAMED
        more = [f"and {rest:,} earlier ones"] if rest > 0 else []
        return [f"{self.named(parent)}, your parent", *beside[:MOST_NAMED], *more]

    def children(self, task: str) -> list[str]:
        """The children of a task, the latest first."""
        return [child for child, parent in reversed(self._parents.items()) if parent == task]

    def relation(self, task: str, target: str) -> Relation:
        """The relation of `target` to `task`: its own child, its parent or a sibling, or somebody else's."""
        other = clean_id(target)
        if other is None or other not in self._parents or other == task:
            return "foreign"
        if self._parents[other] == task:
            return "own"
        parent = self._parents.get(task)
        if parent is not None and parent in (other, self._parents[other]):
            return "related"
        return "foreign"


class TaskRelatives:
    """The relatives of one task. `learn` looks in the store for a task that is not known here."""

    __slots__ = ("_learn", "_shells", "_task", "_tree")

    def __init__(
        self,
        tree: TaskTree,
        task: str,
        shells: Callable[[], "Shells"],
        learn: Callable[[str], Awaitable[None]],
    ) -> None:
        self._tree = tree
        self._task = task
        self._shells = shells
        self._learn = learn

    def relation(self, target: str) -> Relation:
        """The relation of a task or command to the agent; commands of its subagents are its own."""
        if target.startswith(SHELL_PREFIX):
            starter = self._shells().starter(target)
            known = starter == self._task or self._tree.relation(self._task, starter) == "own"
            return "own" if known else "foreign"
        return self._tree.relation(self._task, target)

    def own(self, target: str) -> Sequence[str]:
        """Its own latest tasks or commands, of the kind that `target` is of."""
        if target.startswith(SHELL_PREFIX):
            return list(self._shells().of_task(self._task))[::-1][:MOST_LISTED]
        return self._tree.children(self._task)[:MOST_LISTED]

    def reachable(self) -> Sequence[str]:
        """Its parent and the latest of its siblings, for an agent that may send them messages."""
        return self._tree.reachable(self._task)

    async def look_up(self, target: str) -> None:
        """Look up a task that another process may have started."""
        await self._learn(target)


class TaskFamily:
    """Loads the relatives of resumed tasks, and follows the subagents they still wait for."""

    def __init__(
        self, store: Store, bus: EventBus, supervisor: Supervisor, tree: TaskTree, outputs: Path | None
    ) -> None:
        self._store = store
        self._bus = bus
        self._supervisor = supervisor
        self._tree = tree
        self._outputs = outputs

    async def learn(self, task: Task) -> list[Task]:
        """Load the siblings and children of a task that an earlier process began; the children."""
        children = await self._store.tasks(TaskQuery(parent=task.id))
        for child in children:
            self._tree.learn(child.id, task.id, child.agent)
        if task.parent is not None:
            for sibling in await self._store.tasks(TaskQuery(parent=task.parent)):
                self._tree.learn(sibling.id, task.parent, sibling.agent)
            await self._load_parent(task.parent)
        return children

    async def load_parent(self, task: Task) -> None:
        """Load the parent of a new task, if that runs in another process."""
        if task.parent is not None and not self._tree.knows(task.parent):
            with suppress(GenCodeError):  # the task is written already, so it begins in any case
                await self._load_parent(task.parent)

    async def look_up(self, task: Task, target: str) -> None:
        """Look up a task that another process may have started; if it is not related, all that are.

        A task that cannot be looked up belongs to somebody else.
        """
        other = clean_id(target)
        with suppress(GenCodeError):
            found = await self._store.task(other) if other else None
            if found is not None and not found.imported:
                self._tree.learn(found.id, found.parent, found.agent)
            if self._tree.relation(task.id, target) == "foreign":
                await self.learn(task)

    def with_introduction(self, system: str, task: Task, gate: Gate) -> str:
        """The prompt of an agent, with a note about its task and its parent if it may send messages."""
        if task.parent is None or not gate.may_write:
            return system
        return f"{system}\n\n{messaging_section(task.id, self._tree.named(task.parent))}"

    async def _load_parent(self, parent: str) -> None:
        above = await self._store.task(parent)
        self._tree.learn(parent, above.parent if above else None, above.agent if above else "")

    def restore_inbox(
        self, record: Recorder, children: Sequence[Task], inbox: AgentInbox, gate: Gate
    ) -> None:
        """Expect background tasks that still run here; their outputs and those of commands may be read."""
        for each in record.task.evidence.commands:
            if each.shell and record.folder is not None:
                gate.allow_reading(record.folder / f"{each.shell}.txt")
        for child in children:
            if not child.terms.background:
                continue
            if self._outputs is not None:
                gate.allow_reading(output_file(self._outputs, child.id))
            if job := self._supervisor.find(child.id):
                inbox.expect(job)

    def rejoin(self, parent: Task, children: Sequence[Task], job: LocalTask) -> None:
        """Follow the subagents that an interrupted task waited for and that still run in other processes."""
        for child in children:
            if child.id not in parent.delivered.left or child.status.ended or self._supervisor.find(child.id):
                continue
            remote = RejoinedTask(child, job.stop.branch(), self._store, self._bus)
            self._supervisor.watch(remote, lambda remote=remote: remote.follow(self._supervisor.owner))
            job.inbox.expect(remote)


class RejoinedTask(FollowedTask):
    """A task that continues after its parent's process died; only the journal says which process runs it."""

    @property
    def queued(self) -> bool:
        """Whether it waits in the queue."""
        return False

    async def follow(self, owner: str) -> None:
        """Follow the journal until the task has ended; a task that nobody runs any more is ended here."""
        try:
            with self.stop.interruptible():
                await self._to_its_end(owner)
        except Stopped:
            await self._store.send_signal(self.id, TaskSignal.STOP)
            with suppress(TimeoutError):
                async with asyncio.timeout(GRACE_SECONDS):
                    await self._to_its_end(owner)

    async def _to_its_end(self, owner: str) -> None:
        while not self.task.status.ended:
            seen = self._store.changes.count
            await self.retry(lambda: close_if_orphan(self._store, self.id, owner))
            await self._hear()
            if not self.task.status.ended:
                await self._store.changes.after(seen, LOOK_SECONDS)
