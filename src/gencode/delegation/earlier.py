"""Earlier tasks that a person goes on with: where they sit, what they may do, and what they are told first."""

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from gencode.core.errors import UserMistake
from gencode.core.events import Event, TaskCreated, TaskStarted
from gencode.core.messages import UserMessage
from gencode.core.rules import Action, Policy, merge
from gencode.core.spec import AgentSpec, Workspace
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.delegation.origin import Origin, link_of
from gencode.permissions.chain import Chain, Root, rebuilt
from gencode.permissions.given import Given
from gencode.runtime.models import Model

_CUT = {
    Status.CANCELLED: "You were stopped",
    Status.INTERRUPTED: "You were cut off",
    Status.TIMED_OUT: "You were stopped, because your time was up",
    Status.FAILED: "Your last run failed",
}


def place(
    task: Task | TaskCreated, spec: AgentSpec, here: Origin, model: Model, root: Root | None = None
) -> Origin:
    """Where a task sits that its journal tells of: with the permissions and at the depth it had.

    `here` is where the person sits, in the same folder; a `root` takes the place of the stored one.
    """
    return replace(
        here,
        chain=_chain(task, spec, here.chain, root),
        model=model,
        stop=here.session.branch(),
        depth=task.depth,
        given=Given(here.given),
        lineage=(spec.name,),
    )


def check_folder(task: Task, here: Workspace) -> None:
    """Refuse to go on with a task anywhere but in its own folder; one that was imported goes on here."""
    if task.imported or not task.cwd or task.cwd == str(here.cwd):
        return
    if not Path(task.cwd).is_dir():
        raise UserMistake(f"The folder {task.cwd} of task {task.id} is gone; make it again to go on with it.")
    raise UserMistake(
        f"Task {task.id} belongs to the folder {task.cwd}; go on with it there (cwd, or --cwd)."
    )


def told_first(task: Task) -> list[UserMessage]:
    """What an agent hears before anything else when its last run did not end by itself."""
    if task.status not in _CUT:
        return []
    why = f": {task.error.rstrip('.')}" if task.error else ""
    text = f"{_CUT[task.status]}{why}. Go on from there; calls that were cut are marked as interrupted."
    return [UserMessage(text, sender="system")]


def tools_of(events: Sequence[Event]) -> tuple[str, ...]:
    """The tools an agent had when it last began to work."""
    started = (event.fact for event in reversed(events) if isinstance(event.fact, TaskStarted))
    last = next(started, None)
    return last.tools if last else ()


def _chain(task: Task | TaskCreated, spec: AgentSpec, today: Chain, root: Root | None) -> Chain:
    """The policies as they were written, together with what is asked about or refused today."""
    foreign = isinstance(task, Task) and task.imported
    if foreign or len(task.policies) < 2:
        return today.below(link_of(spec))
    if root is not None:
        return rebuilt(task.policies, task.grant, root, follows=spec.mode is None)
    first, *links = task.policies
    return rebuilt((_narrowed(first, today[0]), *links), task.grant)


def _narrowed(stored: Policy, today: Policy) -> Policy:
    strict = (rule for rule in today.rules if rule.action is not Action.ALLOW)
    return replace(stored, rules=merge(stored.rules, strict))
