"""Rules of the journal, the same in every store: how it grows, and which imported one is valid."""

from collections.abc import Callable, Iterator, Sequence
from functools import reduce

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
"""How often an id is drawn again before the store says that something else is wrong."""
_TURNS_STATUS = (TaskStarted, TaskQueued, TaskEnded)

LONGEST_LETTER = 100_000
"""So many characters a letter may have."""
MOST_WAITING = 100
"""So many letters may wait for one task; whoever writes more is not being heard."""
_MOST_LETTERS = 10**9


class Growth:
    """Some facts about to be written after `before`: their events, their JSON, and the task they lead to."""

    __slots__ = ("before", "bodies", "events", "state")

    def __init__(self, before: Task | None, events: list[Event], bodies: Sequence[bytes]) -> None:
        self.before = before
        self.events = events
        self.bodies = bodies
        folded = reduce(fold, self.events, before)
        if folded is None:
            raise UserMistake("There are no facts to write.")
        self.state = folded

    @property
    def turns_status(self) -> bool:
        """Whether the task got another status here."""
        return any(isinstance(event.fact, _TURNS_STATUS) for event in self.events)


def drawn(draw: Callable[[], str], named: str = "") -> Iterator[str]:
    """Ids for a new task, to be tried one after the other: the one that is named, if any, before others."""
    if named:
        yield named
    for _ in range(DRAWS):
        yield draw()


def first(task: str, facts: Sequence[DurableFact]) -> Growth:
    """The journal of a new task; all its facts have the same time."""
    return _growth(None, task, 0, facts)


def grown(before: Task, facts: Sequence[DurableFact]) -> Growth:
    """A journal with these facts after `before`; CorruptFact if one of them cannot stand there."""
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


def adopted(events: Sequence[Event]) -> Growth:
    """A whole foreign journal, checked: one task with a proper id and facts that follow each other."""
    if not events:
        raise UserMistake("There are no facts to import.")
    task = events[0].task
    if len(task) != ID_LENGTH or clean_id(task) != task:
        raise UserMistake(f"{task!r} is not a task id; it must be {ID_LENGTH} hex digits.")
    whole: list[Event] = []
    bodies: list[bytes] = []
    for event in events:
        if not isinstance(event.fact, DurableFact):
            raise UserMistake(f"{kind_of(event.fact)} is a passing fact and cannot be imported.")
        if not is_moment(event.at):
            raise UserMistake(
                f"{event.at!r}, the time of fact {event.seq}, is not a moment with a time zone."
            )
        fact, body = settle(event.fact)
        whole.append(Event(event.task, event.seq, event.at, fact))
        bodies.append(body)
    growth = Growth(None, whole, bodies)
    if growth.state.delivered.mailed > _MOST_LETTERS:
        raise UserMistake(
            f"Nobody was ever sent {growth.state.delivered.mailed} letters, as this journal says."
        )
    return growth


def is_moment(at: str) -> bool:
    """Whether this can be read back as a moment."""
    try:
        return moment(at).tzinfo is not None
    except ValueError:
        return False


def letter_text(text: str) -> str:
    """The text of a letter as it is stored; UserMistake if it is nothing or too much."""
    if not text.strip():
        raise UserMistake("There is nothing in this message.")
    if len(text) > LONGEST_LETTER:
        raise UserMistake(
            f"This message has {len(text):,} characters, and at most {LONGEST_LETTER:,} are taken; "
            "write the rest to a file and name it."
        )
    return unicode_text(text)


def unheard(task: str) -> UserMistake:
    """What somebody hears who writes to a task that reads nothing."""
    return UserMistake(
        f"Task {task} has not read the last {MOST_WAITING} messages yet; wait until it has, or stop it."
    )


def lost(task: str) -> Fenced:
    """What an owner hears when its lease is gone."""
    return Fenced(f"Task {task} now belongs to another process; nothing was written.")


def held(task: str) -> Conflict:
    """What somebody hears who wants a task while another owner's lease runs."""
    return Conflict(f"Task {task} is being worked on by another process; wait for it, or stop it first.")


def busy(tasks: Sequence[str]) -> UserMistake:
    """What somebody hears who wants to delete what is being worked on."""
    them = "it" if len(tasks) == 1 else "them"
    return UserMistake(
        f"{', '.join(tasks)} is being worked on; wait for {them}, or stop {them} first with gen task stop. "
        "Nothing was deleted."
    )


def missing(task: str) -> UserMistake:
    """What somebody hears who wants a task that is not there."""
    return UserMistake(f"There is no task {task}.")


def taken(task: str) -> UserMistake:
    """What somebody hears who imports a task whose id is there already."""
    return UserMistake(f"There is already a task {task} in this database; nothing was imported.")


def crowded(most: int) -> UserMistake:
    """What somebody hears who plans more than there is room for."""
    return UserMistake(
        f"There are {most} scheduled jobs already; remove some first: gen cron list --all; gen cron remove ID"
    )


def full() -> UserMistake:
    """What somebody hears who sends more messages than anybody takes."""
    return UserMistake(
        "Too many messages wait to be delivered already; nothing more is taken until some are."
    )
