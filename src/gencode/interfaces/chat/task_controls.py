"""The five verbs as a person says and reads them: what each would hit, and what it did hit."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from gencode.agent.ports import StopAction
from gencode.budgets.limits import Spent, no_budget
from gencode.core.budget import Budget, amount_of
from gencode.core.errors import UserMistake
from gencode.core.messages import Usage
from gencode.core.outcome import Outcome
from gencode.core.status import EndReason, Status, StopCause, stop_cause
from gencode.core.task import Task
from gencode.core.text import visible_line
from gencode.interfaces.chat.notices import named
from gencode.interfaces.render.number_format import BudgetBar, bar_text, bars
from gencode.tasks.handle import StruckTask, TaskAction

STOPPED = stop_cause("a person stopped it")
INTERRUPTED = StopCause(EndReason.INTERRUPTED, "a person interrupted it")
_DID = {"interrupt": "Interrupted", "keep": "Stopped, with a last word", "stop": "Stopped", "tree": "Stopped"}
KINDS = Budget.__struct_fields__


class VerbWords(Struct, frozen=True):
    """One verb: its name, the key that means it in the tree, and what it does."""

    verb: TaskAction
    name: str
    key: str
    says: str


VERBS = (
    VerbWords("interrupt", "Interrupt", "i", "cuts what it does now and the agents it waits for; it goes on"),
    VerbWords("steer", "Steer", "m", "hits nothing: it hears your words before its next reply"),
    VerbWords("keep", "Stop and keep", "k", "stops it after one turn in which it says what it found"),
    VerbWords("stop", "Abort", "x", "stops it and the agents it waits for, at once"),
    VerbWords("tree", "Abort the tree", "X", "stops it and everything below it, the background too"),
)


BY_VERB = {each.verb: each for each in VERBS}


def would_hit(verb: StopAction, task: Task, hit: Sequence[Outcome]) -> str:
    """What a verb would hit at this moment, before it does."""
    name = BY_VERB[verb].name
    if not hit:
        why = "waits for its turn" if task.status is Status.PENDING else "has ended already"
        return f"{name} would hit nothing: {task.id} {why}."
    return f"{name} hits {'1 task' if len(hit) == 1 else f'{len(hit)} tasks'}: {named(hit)}."


def was_hit(verb: StopAction, task: Task, hit: Sequence[Outcome], behind: Sequence[str] = ()) -> str:
    """What a verb did hit, and what goes on in the background."""
    if not hit:
        why = "waits for its turn" if task.status is Status.PENDING else "had ended already"
        return f"{visible_line(task.agent)} {task.id} {why}; nothing was hit."
    after = ""
    if verb == "interrupt":
        after = " Its turn is over." if task.conversation else " It goes on from there."
    going = f" In the background goes on: {', '.join(behind)}." if behind else ""
    return f"{_DID[verb]}: {named(hit)}.{after}{going}"


def with_ids(struck: StruckTask, hit: str) -> dict[str, Any]:
    """A task after a verb as `--json` prints it: everything that was hit by its id, under this name."""
    told: dict[str, Any] = msgspec.to_builtins(struck)
    ids = [each["agentId"] for each in told.pop("hit")]
    return {**told, hit: ids}


def bounded(now: Budget, words: Sequence[str]) -> Budget:
    """A budget with these kinds set and the others as they are; UserMistake for anything else."""
    if [*words] == ["none"]:
        return Budget()
    amounts: dict[str, float | None] = {}
    for kind, amount in zip(words[::2], words[1::2], strict=False):
        if kind not in KINDS:
            raise UserMistake(f"A budget has no {kind!r}; it bounds {', '.join(KINDS)}.")
        if kind in amounts:
            raise UserMistake(f"{kind} is named twice; say once how much it should be.")
        amounts[kind] = None if amount == "none" else amount_of(kind, amount)
        if amounts[kind] is None and amount != "none":
            raise no_budget(kind, amount)
    if len(words) % 2:
        raise UserMistake(f"Say how much after {words[-1]!r}, for example tokens 50000, or only none.")
    return replace(now, **amounts)


def bounds_page(budget: Budget, spent: Spent) -> str:
    """What a task may spend, and what of it is spent."""
    used = bars(budget, Usage(spent.tokens, usd=spent.usd), spent.turns, spent.spawns)
    if budget.seconds is not None:
        used.append(BudgetBar("seconds", spent.seconds, budget.seconds))
    return "\n".join(bar_text(bar, 20) for bar in used) or "It has no budget of its own."
