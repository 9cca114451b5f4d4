"""Rules of the journal, the same in every store: how it grows, and which imported one is valid."""

from collections.abc import Callable, Iterator, Sequence

from gencode.core.errors import Conflict, Fenced, UserMistake
from gencode.core.events import (
    DurableFact,
    Event,
    TaskEnded,
    TaskQueued,
    TaskStarted,
    kind_of,
    settle,
    unicode_text,
)
from gencode.core.ids import ID_LENGTH, clean_id, moment, stamp
from gencode.core.task import Task, fold

DRAWS = 100
"""How many random ids are tried before the store gives up."""
_TURNS_STATUS = (TaskStarted, TaskQueued, TaskEnded)

LONGEST_MESSAGE = 100_000
"""Characters of one message."""
MOST_WAITING = 100
"""Unread messages of one task; more are refused."""
_MOST_MESSAGES = 10**9


class Growth:
    """Events to be written after `before`, with their JSON and the task they lead to."""

    __slots__ = ("before", "bodies", "events", "state", "turns_status")

    def __init__(self, before: Task | None, events: list[Event], bodies: Sequence[bytes]) -> None:
        self.before = before
        self.events = events
        self.bodies = bodies
        self.turns_status = False
        """Whether these events change the status of the task."""
        state = before
        for event in events:
            state = fold(state, event)
            if isinstance(event.fact, _TURNS_STATUS):
                self.turns_status = True
        if state is None:
            raise UserMistake("There are no events to write.")
        self.state = state


def task_ids(draw: Callable[[], str], named: str = "") -> Iterator[str]:
    """Ids to try for a new task: the requested one first, if there is one."""
    if named:
        yield named
    for _ in range(DRAWS):
        yield draw()


def new_journal(task: str, facts: Sequence[DurableFact]) -> Growth:
    """The journal of a new task; all its facts have the same time."""
    return _growth(None, task, 0, facts)


def extended_journal(before: Task, facts: Sequence[DurableFact]) -> Growth:
    """The facts that follow `before`; CorruptFact if one of them is not possible there."""
    return _growth(before, before.id, before.seq, facts)


def _growth(before: Task | None, task: str, seq: int, facts: Sequence[DurableFact]) -> Growth:
    now = stamp()
    events: list[Event] = []
    bodies: list[bytes] = []
    for number, fact in enumerate(facts, start=seq + 1):
        settled, body = settle(fact)
        events.append(Event(task, number, now, settled))
        bodies.append(body)
    return Growth(before, events, bodies)


def imported_journal(events: Sequence[Event]) -> Growth:
    """A complete journal to import, checked: one task with a valid id and events in order."""
    if not events:
        raise UserMistake("There are no events to import.")
    task = events[0].task
    if len(task) != ID_LENGTH or clean_id(task) != task:
        raise UserMistake(f"{task!r} is not a task id; it must be {ID_LENGTH} hex digits.")
    whole: list[Event] = []
    bodies: list[bytes] = []
    for event in events:
        if not isinstance(event.fact, DurableFact):
            raise UserMistake(f"{kind_of(event.fact)} events are not stored, so they cannot be imported.")
        if not is_moment(event.at):
            raise UserMistake(f"{event.at!r}, the time of event {event.seq}, is not a time with a time zone.")
        fact, body = settle(event.fact)
        whole.append(Event(event.task, event.seq, event.at, fact))
        bodies.append(body)
    growth = Growth(None, whole, bodies)
    if growth.state.delivered.mailed > _MOST_MESSAGES:
        raise UserMistake(
            f"The journal counts {growth.state.delivered.mailed:,} messages, which is not possible."
        )
    return growth


def is_moment(at: str) -> bool:
    """Whether a text is a time with a time zone."""
    try:
        return moment(at).tzinfo is not None
    except ValueError:
        return False


def message_text(text: str) -> str:
    """The text of a message as it is stored; UserMistake if it is empty or too long."""
    if not text.strip():
        raise UserMistake("The message is empty.")
    if len(text) > LONGEST_MESSAGE:
        raise UserMistake(
            f"The message has {len(text):,} characters; the limit is {LONGEST_MESSAGE:,}. "
            "Write the rest to a file and name the file."
        )
    return unicode_text(text)


def mailbox_full(task: str) -> UserMistake:
    """The error for a message to a task with too many unread ones."""
    return UserMistake(
        f"Task {task} has {MOST_WAITING} unread messages; wait until it has read them, or stop it."
    )


def lease_lost(task: str) -> Fenced:
    """The error for an owner whose lease was taken over."""
    return Fenced(f"Task {task} now belongs to another process; nothing was written.")


def lease_held(task: str) -> Conflict:
    """The error for claiming a task that another process has leased."""
    return Conflict(f"Task {task} is running in another process; wait for it, or stop it first.")


def tasks_running(tasks: Sequence[str]) -> UserMistake:
    """The error for deleting tasks that are running."""
    are, them = ("is", "it") if len(tasks) == 1 else ("are", "them")
    return UserMistake(
        f"Nothing was deleted: {', '.join(tasks)} {are} running. "
        f"Wait for {them}, or stop {them} first with: gen task stop"
    )


def task_missing(task: str) -> UserMistake:
    """The error for a task that does not exist."""
    return UserMistake(f"There is no task {task}.")


def id_taken(task: str) -> UserMistake:
    """The error for importing a task whose id exists already."""
    return UserMistake(f"There is already a task {task} in this database; nothing was imported.")


def schedule_full(most: int) -> UserMistake:
    """The error for too many scheduled jobs."""
    return UserMistake(
        f"There are {most:,} scheduled jobs already. To remove some: gen cron list --all, gen cron remove ID"
    )


def outbox_full() -> UserMistake:
    """The error for too many undelivered messages."""
    return UserMistake("Too many messages are waiting to be delivered; try again later.")
