"""Budgets of seconds: all runs of a task count, in whatever process they were (delegation)."""

from gencode.budgets.ledger import BudgetSpent
from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.ids import moment
from gencode.core.task import Task

SPENT = (
    "The budget of {seconds:g} {unit} of {owner} is spent. A bigger one lets it go on: "
    "gen task budget {task} seconds N."
)


class TimeSpent(BudgetSpent):
    """A task has been at work for as long as its budget lets it, and nobody else has more of that."""

    def __init__(self, message: str) -> None:
        UserMistake.__init__(self, message)

    @property
    def kind(self) -> str:
        """Of what too little is left."""
        return "seconds"


def worked_seconds(task: Task) -> float:
    """For how long a task was at work, in all its runs; in one that has no end up to its last fact."""
    if task.running_since is None:
        return task.worked_ms / 1000
    return task.worked_ms / 1000 + (moment(task.touched_at) - moment(task.running_since)).total_seconds()


def time_left(task: Task | None, budget: Budget, *, over: bool = False) -> float | None:
    """How long a task may still be at work by its budget; None where that has no limit.

    TimeSpent when it has been for as long as that already; but one that is taken `over` in the middle of a
    run has a moment, in which that ends. What nobody has begun with has all of it.
    """
    if budget.seconds is None or task is None:
        return budget.seconds
    left = budget.seconds - worked_seconds(task)
    if over:
        return max(left, 0.001)
    if left <= 0:
        raise TimeSpent(spent_words(task, budget))
    return left


def spent_words(task: Task, budget: Budget | None = None) -> str:
    """That a task was at work for all the seconds of its budget, or of this one, and the way out."""
    seconds = (budget or task.budget).seconds or 0.0
    owner = "the session" if task.conversation else f"agent {task.agent}"
    unit = "second" if seconds == 1 else "seconds"
    return SPENT.format(seconds=seconds, unit=unit, owner=owner, task=task.id)
