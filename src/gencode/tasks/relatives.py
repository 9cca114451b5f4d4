"""The relatives of a task: which tasks and background commands an agent may name, and whose they are."""

from collections.abc import Awaitable, Callable, Sequence

from gencode.agent.gate import Relation
from gencode.core.ids import clean_id
from gencode.sandbox.shells import Shells

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
        """Whether it was heard who asked for a task."""
        return task in self._parents

    def named(self, task: str) -> str:
        """A task as an agent is told of it: the name of its agent, and its id."""
        agent = self._agents.get(task)
        return f"{agent} (task {task})" if agent else f"task {task}"

    def in_reach(self, task: str) -> list[str]:
        """Its parent and the latest of its siblings, as an agent is told that may write to them."""
        parent = self._parents.get(task)
        if parent is None:
            return []
        beside = [self.named(each) for each in self.children(parent) if each != task]
        rest = len(beside) - MOST_NAMED
        more = [f"and {rest:,} earlier ones"] if rest > 0 else []
        return [f"{self.named(parent)}, which sent you", *beside[:MOST_NAMED], *more]

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

    def in_reach(self) -> Sequence[str]:
        """Its parent and its latest siblings, to whom it may write if its file says so."""
        return self._tree.in_reach(self._task)

    async def meet(self, target: str) -> None:
        """Learn of a task that another process may have started."""
        await self._learn(target)
