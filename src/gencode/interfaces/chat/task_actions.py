"""The five verbs as a person says and reads them: what each would hit, and what it did hit."""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from gencode.core.reasons import Cause, EndReason, stop_cause
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.core.visible import visible_line
from gencode.interfaces.chat.notices import named
from gencode.tasks.actions import StruckTask, TaskAction
from gencode.tasks.control import Verb

STOPPED = stop_cause("a person stopped it")
INTERRUPTED = Cause(EndReason.INTERRUPTED, "a person interrupted it")


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
_DID = {"interrupt": "Interrupted", "keep": "Stopped, with a last word", "stop": "Stopped", "tree": "Stopped"}


def would_hit(verb: Verb, task: Task, hit: Sequence[Task]) -> str:
    """What a verb would hit at this moment, before it does."""
    name = BY_VERB[verb].name
    if not hit:
        why = "waits for its turn" if task.status is Status.PENDING else "has ended already"
        return f"{name} would hit nothing: {task.id} {why}."
    return f"{name} hits {'1 task' if len(hit) == 1 else f'{len(hit)} tasks'}: {named(hit)}."


def was_hit(verb: Verb, task: Task, hit: Sequence[Task], behind: Sequence[str] = ()) -> str:
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
