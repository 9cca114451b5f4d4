"""Relatives of a task: which tasks and background commands its agent may name, and whose they are."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from gencode.agent.gate import Relation
from gencode.agent.prompt import kin_words
from gencode.agent.run_setup import RunSetup
from gencode.core.errors import GenCodeError, Stopped
from gencode.core.ids import clean_id
from gencode.core.outcome import output_file
from gencode.core.task import Task
from gencode.journal.event_bus import EventBus
from gencode.journal.store import Store, TaskQuery, TaskSignal
from gencode.sandbox.shells import Shells
from gencode.tasks.crash_recovery import close_if_orphan
from gencode.tasks.delivery import AgentInbox
from gencode.tasks.remote_task import FollowedTask
from gencode.tasks.running_task import GRACE_SECONDS, LocalTask
from gencode.tasks.supervisor import Supervisor
from gencode.tasks.watch import LOOK_SECONDS

MOST_NAMED = 10
"""So many siblings an agent is told of."""
MOST_LISTED = 10
SHELL_PREFIX = "shell_"
"""What the ids of commands in the background begin with."""


class TaskTree:
    """The tasks this process knows, each with the one that asked for it. Only whole ids are recognised."""

    __slots__ = ("_agents", "_parents")

    def __init__(self) -> None:
        self._parents: dict[str, str | None] = {}
        self._agents: dict[str, str] = {}

    def learn(self, task: str, parent: str | None, agent: str = "") -> None:
        """Remember who asked for a task, and whose agent's it is."""
        self._parents[task] = parent
        if agent:
            self._agents[task] = agent

    def knows(self, task: str) -> bool:
        """Whether the parent of a task is known."""
        return task in self._parents

    def named(self, task: str) -> str:
        """A task in a sentence: the name of its agent, and its id."""
        agent = self._agents.get(task)
        return f"{agent} (task {task})" if agent else f"task {task}"

    def reachable(self, task: str) -> list[str]:
        """Its parent and the latest of its siblings, for an agent that may write to them."""
        parent = self._parents.get(task)
        if parent is None:
            return []
        beside = [self.named(each) for each in self.children(parent) if each != task]
        rest = len(beside) - MOST_NAMED
        more = [f"and {rest:,} earlier ones"] if rest > 0 else []
        return [f"{self.named(parent)}, your parent", *beside[:MOST_NAMED], *more]

    def children(self, task: str) -> list[str]:
        """The tasks that a task asked for, the latest first."""
        return [child for child, parent in reversed(self._parents.items()) if parent == task]

    def relation(self, task: str, target: str) -> Relation:
        """What `target` is to `task`: its own child, its parent or a sibling, or none of its business."""
        other = clean_id(target)
        if other is None or other not in self._parents or other == task:
            return "foreign"
        if self._parents[other] == task:
            return "own"
        parent = self._parents.get(task)
        if parent is not None and parent in (other, self._parents[other]):
            return "kin"
        return "foreign"


class TaskRelatives:
    """The relatives of one task. `learn` looks in the store for a task that is not known here."""

    __slots__ = ("_learn", "_shells", "_task", "_tree")

    def __init__(
        self,
        tree: TaskTree,
        task: str,
        shells: Callable[[], Shells],
        learn: Callable[[str], Awaitable[None]],
    ) -> None:
        self._tree = tree
        self._task = task
        self._shells = shells
        self._learn = learn

    def relation(self, target: str) -> Relation:
        """What a task or command is to the agent."""
        if target.startswith(SHELL_PREFIX):
            return "own" if target in self._shells().of_task(self._task) else "foreign"
        return self._tree.relation(self._task, target)

    def own(self, target: str) -> Sequence[str]:
        """The latest of its own, tasks or commands, whichever kind `target` is of."""
        if target.startswith(SHELL_PREFIX):
            return list(self._shells().of_task(self._task))[::-1][:MOST_LISTED]
        return self._tree.children(self._task)[:MOST_LISTED]

    def reachable(self) -> Sequence[str]:
        """Its parent and the latest of its siblings, for an agent that may write to them."""
        return self._tree.reachable(self._task)

    async def meet(self, target: str) -> None:
        """Learn of a task that another process may have started."""
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
        """Who belongs to a task that an earlier process began: its siblings and, given back, its children."""
        children = await self._store.tasks(TaskQuery(parent=task.id))
        for child in children:
            self._tree.learn(child.id, task.id, child.agent)
        if task.parent is not None:
            for sibling in await self._store.tasks(TaskQuery(parent=task.parent)):
                self._tree.learn(sibling.id, task.parent, sibling.agent)
            await self._learn_sender(task.parent)
        return children

    async def greet(self, task: Task) -> None:
        """Load the parent of a new task, where that runs in another process."""
        if task.parent is not None and not self._tree.knows(task.parent):
            with suppress(GenCodeError):  # it is written down already, so it begins in any case
                await self._learn_sender(task.parent)

    async def meet(self, task: Task, target: str) -> None:
        """Learn of a task that another process may have begun; where it is no relative, of those there are.

        What cannot be looked up is nobody's.
        """
        other = clean_id(target)
        with suppress(GenCodeError):
            found = await self._store.task(other) if other else None
            if found is not None and not found.imported:
                self._tree.learn(found.id, found.parent, found.agent)
            if self._tree.relation(task.id, target) == "foreign":
                await self.learn(task)

    def introduced(self, setup: RunSetup, task: Task) -> RunSetup:
        """The setup of an agent with a note who it is and who its parent is, if it may write to others."""
        if task.parent is None or not setup.gate.may_write:
            return setup
        words = kin_words(task.id, self._tree.named(task.parent))
        return replace(setup, system=f"{setup.system}\n\n{words}")

    async def _learn_sender(self, sender: str) -> None:
        above = await self._store.task(sender)
        self._tree.learn(sender, above.parent if above else None, above.agent if above else "")

    def take_up(self, children: Sequence[Task], inbox: AgentInbox, setup: RunSetup) -> None:
        """Expect the background tasks that still run here, and allow the output files of all of them."""
        for child in children:
            if not child.terms.background:
                continue
            if self._outputs is not None:
                setup.gate.allow_reading(output_file(self._outputs, child.id))
            if job := self._supervisor.find(child.id):
                inbox.expect(job)

    def rejoin(self, sender: Task, children: Sequence[Task], job: LocalTask) -> None:
        """Follow the subagents that an interrupted task waited for and that still run in other processes."""
        for child in children:
            if child.id not in sender.delivered.left or child.status.ended or self._supervisor.find(child.id):
                continue
            remote = RejoinedTask(child, job.stop.branch(), self._store, self._bus)
            self._supervisor.watch(remote, lambda remote=remote: remote.follow(self._supervisor.owner))
            if isinstance(job.setup.inbox, AgentInbox):
                job.setup.inbox.expect(remote)


class RejoinedTask(FollowedTask):
    """A task that goes on after its parent died; only the journal says which process runs it."""

    @property
    def queued(self) -> bool:
        """Whether it waits for its turn to begin."""
        return False

    async def follow(self, owner: str) -> None:
        """Hear what is written until the task has ended; one that nobody runs any more is ended here."""
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
