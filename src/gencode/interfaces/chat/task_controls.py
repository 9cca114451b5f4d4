"""Actions on tasks as a person types and reads them: confirmation, report, and budgets."""

from collections.abc import Sequence
from typing import Any, TypeVar

from gencode.agent.ports import StopAction
from gencode.budgets.limits import Spent, no_budget
from gencode.core.budget import Budget, amount_of
from gencode.core.errors import UserMistake
from gencode.core.messages import Usage
from gencode.core.outcome import Outcome
from gencode.core.status import EndReason, Status, StopCause, stop_cause
from gencode.core.structs import replace
from gencode.core.task import Task
from gencode.core.text import visible_line
from gencode.interfaces.chat.notices import task_list
from gencode.interfaces.render.number_format import BudgetBar, bar_text, bars, counted

STOPPED = stop_cause("the user stopped it")
INTERRUPTED = StopCause(EndReason.INTERRUPTED, "the user interrupted it")
_DONE = {
    "interrupt": "Interrupted",
    "keep": "Stopped after a last report",
    "stop": "Stopped",
    "tree": "Stopped",
}
KINDS = Budget.__struct_fields__
Kind = TypeVar("Kind", bound=Outcome)


class StoppedTask(Outcome, frozen=True, rename="camel"):
    """A task after a stop, and all tasks that were stopped."""

    stopped: tuple[str, ...] = ()


class InterruptedTask(Outcome, frozen=True, rename="camel"):
    """A task after an interrupt, and all tasks that were interrupted."""

    interrupted: tuple[str, ...] = ()


class SteeredTask(Outcome, frozen=True, rename="camel"):
    """A task after a message to it, and whether the message resumed it."""

    woken: bool = False


TASK_ACTIONS: dict[StopAction, str] = {
    "interrupt": "Interrupt: end its current step and the agents it waits for; it continues",
    "keep": "Stop with report: let it report what it found in one last turn",
    "stop": "Stop: end it and the agents it waits for",
    "tree": "Stop tree: end it and all its subagents, in the background too",
}
"""What can be done to a task that works, and what each of it means."""


def confirmation_text(verb: StopAction, task: Task, affected: Sequence[Outcome]) -> str:
    """What an action will affect, for a confirmation."""
    effect = "interrupt" if verb == "interrupt" else "stop"
    if not affected:
        why = "is still waiting in the queue" if task.status is Status.PENDING else "has already finished"
        return f"Nothing to {effect}: {task.id} {why}."
    report = " after a last report" if verb == "keep" else ""
    return f"This will {effect} {counted(len(affected), 'agent')}{report}: {task_list(affected)}."


def action_report(
    verb: StopAction, task: Task, affected: Sequence[Outcome], behind: Sequence[str] = ()
) -> str:
    """What an action stopped, and what still runs in the background."""
    if not affected:
        why = "is still waiting in the queue" if task.status is Status.PENDING else "had already finished"
        return f"Nothing was stopped: {visible_line(task.agent)} {task.id} {why}."
    after = ""
    if verb == "interrupt":
        after = " The turn has ended." if task.conversation else " It continues from there."
    going = f" Still running in the background: {', '.join(behind)}." if behind else ""
    return f"{_DONE[verb]}: {task_list(affected)}.{after}{going}"


def widened(kind: type[Kind], outcome: Outcome, **more: Any) -> Kind:
    """A task in its public shape with further fields."""
    own = {name: getattr(outcome, name) for name in Outcome.__struct_fields__}
    return kind(**own, **more)


def changed_budget(now: Budget, words: Sequence[str]) -> Budget:
    """A budget with these kinds set and the others as they are; UserMistake for anything else."""
    if [*words] == ["none"]:
        return Budget()
    amounts: dict[str, Any] = {}
    for kind, amount in zip(words[::2], words[1::2], strict=False):
        if kind not in KINDS:
            raise UserMistake(f"Unknown budget kind {kind!r}. Use one of: {', '.join(KINDS)}.")
        if kind in amounts:
            raise UserMistake(f"{kind} is given twice. Give it once.")
        amounts[kind] = None if amount == "none" else amount_of(kind, amount)
        if amounts[kind] is None and amount != "none":
            raise no_budget(kind, amount)
    if len(words) % 2:
        raise UserMistake(f"No amount after {words[-1]!r}. Example: tokens 50000, or just none.")
    return replace(now, **amounts)


def budget_usage_page(budget: Budget, spent: Spent) -> str:
    """What a task may spend, and what of it is spent."""
    used = bars(budget, Usage(spent.tokens, usd=spent.usd), spent.turns, spent.spawns)
    if budget.seconds is not None:
        used.append(BudgetBar("seconds", spent.seconds, budget.seconds))
    return "\n".join(bar_text(bar, 20) for bar in used) or "No budget of its own."
