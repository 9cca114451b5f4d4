"""Notices: one line for what happens outside the view, and lists of tasks that a stop will end."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from gencode.core.errors import GenCodeError
from gencode.core.events import (
    CallDecided,
    CommandEnded,
    Event,
    MessageAdded,
    ProgressMade,
    TaskBackgrounded,
    TaskCreated,
    TaskEnded,
    TaskStalled,
    TranscriptCompacted,
)
from gencode.core.messages import UserMessage
from gencode.core.outcome import Outcome, title_of
from gencode.core.rules import Action, DecidedBy
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.core.text import visible, visible_line
from gencode.interfaces.log_file import logged_fault
from gencode.interfaces.render.agent_view import AgentView, View, name_of
from gencode.interfaces.render.plain_text import command_end, ending, noted
from gencode.tasks.delivery import as_delivered, undelivered

if TYPE_CHECKING:
    from gencode.sandbox.shells import BackgroundShell

MAX_LISTED = 10
MAX_TEXT = 800
MAX_COMMAND = 60
NoticeKind = Literal["note", "result", "warning", "error"]


class Notice(Struct, frozen=True):
    """One line for the user, and the task it is about, if any.

    `asks`: it says that this task asks something elsewhere, and is of no use once that is shown or answered.
    `started`: it says that work in the background has begun, which a screen that lists such work need not.
    """

    text: str
    kind: NoticeKind = "note"
    task: str = ""
    asks: bool = False
    started: bool = False


async def report_errors(action: Awaitable[object], tell: Callable[[Notice], None]) -> None:
    """Run an action of the user. An error is shown in one line; a bug is also logged with its traceback.

    This is the border of every surface that has a person: nothing that fails here is lost in a task that
    nobody awaits. Requests and messages of protocols have borders of their own, with the same line.
    """
    try:
        await action
    except GenCodeError as trouble:
        tell(Notice(visible(str(trouble)), "error"))
    except Exception as bug:  # noqa: BLE001 (a border; `logged_fault` logs it)
        tell(Notice(logged_fault(bug), "error"))


def notice_of(view: View, event: Event) -> Notice | None:
    """The notice for an event that `view` has already applied; None where none is needed."""
    agent = view.agents.get(event.task)
    told = TranscriptCompacted | MessageAdded | ProgressMade | CommandEnded
    if agent is None or (agent.conversation and not isinstance(event.fact, told)):
        return None
    match event.fact:
        case TaskCreated(background=True):
            return Notice(
                f"[Task running in background: agent-{agent.id}] {_status_hint(agent.id)}",
                task=agent.id,
                started=True,
            )
        case TaskBackgrounded():
            return Notice(
                f"{name_of(agent)} moved to the background. {_status_hint(agent.id)}", task=agent.id
            )
        case TaskEnded() as fact if agent.background:
            kind: NoticeKind = "result" if fact.status is Status.COMPLETED else "error"
            why = f": {visible_line(fact.error, 200)}" if fact.error else ""
            text = f"{name_of(agent)} ({agent.id}) {ending(agent, event.at)}{why}"
            return Notice(text, kind, agent.id)
        case TaskStalled(seconds):
            text = f"{name_of(agent)} ({agent.id}) has been silent for {seconds:.0f} s."
            return Notice(text, "warning", agent.id)
        case ProgressMade(text, note=True):
            return Notice(noted(view, event.task, text), "warning", agent.id)
        case CallDecided(decision=decision) if decision.action is Action.DENY:
            return _refusal(agent) if decision.by.lacks_approval or decision.by is DecidedBy.HOOK else None
        case CommandEnded() as fact:
            kind = "result" if fact.exit == 0 else "warning"
            return Notice(noted(view, event.task, command_end(fact)), kind, agent.id)
        case MessageAdded(UserMessage(unseen=count, text=text)) if count:
            return Notice(visible_line(text, MAX_TEXT), "warning", agent.id)
        case TranscriptCompacted():
            return Notice(
                f"{visible_line(agent.agent)} summarised the conversation to free up context.", task=agent.id
            )
        case _:
            return None


def _refusal(agent: AgentView) -> Notice:
    """The notice of a call that was refused although nobody here declined it."""
    last = agent.refused[-1]
    call = visible_line(f"{last.tool}({last.summary})", 80)
    text = f"{name_of(agent)} ({agent.id}) was refused {call}: {visible_line(last.why, 200)}"
    return Notice(text, "warning", agent.id)


def _status_hint(task: str) -> str:
    return f"You can continue working. Use /task-status {task} to check progress."


def undelivered_results(session: Task, children: Sequence[Task]) -> list[Task]:
    """Finished children whose results an idle conversation has not received."""
    untold = (undelivered(session, each) for each in as_delivered(session, children) if each.status.ended)
    return [ends[-1] for ends in untold if ends]


def results_while_closed(session: Task, children: Sequence[Task]) -> list[Notice]:
    """Notices of what finished while a conversation was closed."""
    return [
        Notice(
            f"While this conversation was closed: {visible_line(each.agent)} {each.id} "
            f"({visible_line(title_of(each), 60)}) finished: {each.status}. "
            "The main agent receives the result with your next message.",
            "result" if each.status is Status.COMPLETED else "error",
            each.id,
        )
        for each in undelivered_results(session, children)
    ]


def task_list(tasks: Sequence[Task | Outcome], commands: Sequence["BackgroundShell"] = ()) -> str:
    """A list of tasks by id and agent, and of commands by id and text: the first few."""
    return _joined(tasks, commands, MAX_LISTED)


def full_task_list(tasks: Sequence[Task | Outcome], commands: Sequence["BackgroundShell"] = ()) -> str:
    """The same without a limit, where nobody can look them up later."""
    return _joined(tasks, commands, len(tasks) + len(commands))


def _joined(tasks: Sequence[Task | Outcome], commands: Sequence["BackgroundShell"], most: int) -> str:
    ids = [each.agent_id if isinstance(each, Outcome) else each.id for each in tasks]
    names = [f"{name} ({visible_line(each.agent)})" for name, each in zip(ids, tasks, strict=True)]
    names += [f"the command {each.id} ({visible_line(each.order.text, MAX_COMMAND)})" for each in commands]
    few = ", ".join(names[:most])
    return f"{few} and {len(names) - most} more" if len(names) > most else few
