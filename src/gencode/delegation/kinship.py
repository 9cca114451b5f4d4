"""Who asked for which task: the family tree by which an agent's own tasks are told from everybody else's."""

from gencode.core.ids import clean_id
from gencode.runtime.gate import Relation


class Kinship:
    """The tasks this process knows, each with the one that asked for it. Only whole ids are recognised."""

    __slots__ = ("_parents",)

    def __init__(self) -> None:
        self._parents: dict[str, str | None] = {}

    def learn(self, task: str, parent: str | None) -> None:
        """Remember who asked for a task."""
        self._parents[task] = parent

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
