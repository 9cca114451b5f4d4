"""The ports of a store: the journal of tasks, signals and messages to them, and the tables beside it."""

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from gencode.budgets.ledger import Ledger
from gencode.core.events import DurableFact, Event, TaskCreated
from gencode.core.messages import UserMessage
from gencode.core.old_events import translated_message
from gencode.core.questions import QuestionStore
from gencode.core.status import Status
from gencode.core.task import Task

if TYPE_CHECKING:
    from gencode.channels.outbox import OutboxStore
    from gencode.journal.change_notifier import ChangeNotifier
    from gencode.journal.global_log import GlobalLog
    from gencode.schedule.scheduled_jobs import JobStore


class TaskQuery(Struct, frozen=True):
    """Which tasks to list; every field that is set narrows the list.

    `roots` are those without a parent; `before` is a task that all of them are older than; `unheard` are idle
    tasks with messages they have not read.
    """

    parent: str | None = None
    cwd: str | None = None
    statuses: tuple[Status, ...] = ()
    ended_after: str | None = None
    conversations: bool | None = None
    limit: int | None = None
    roots: bool = False
    agent: str | None = None
    before: str | None = None
    unheard: bool = False
    parents: tuple[str, ...] = ()


class Lease:
    """The right to write to one task, and the state of its journal. Only a store makes or moves one."""

    __slots__ = ("epoch", "owner", "path", "state", "task", "unlimited")

    def __init__(self, owner: str, epoch: int, state: Task, path: tuple[str, ...]) -> None:
        self.owner = owner
        self.epoch = epoch
        self.state = state
        self.path = path
        """The ids of the accounts that the task spends from: its own, those above it, that of its session."""
        self.task = state.id
        self.unlimited = False
        """Whether there was no such account at the last append; a store need not know."""


class Ownership(Struct, frozen=True):
    """Who leases a task; `over` if the lease has expired, `silent` seconds after its last renewal."""

    task: str
    owner: str
    over: bool
    silent: float = 0.0


class TaskSignal(IntEnum):
    """Signals to the process that runs a task, from any other."""

    STOP = 1
    BACKGROUND = 2
    REPORT = 3
    """Stop, but first report in one turn without tools."""
    INTERRUPT = 4
    """Interrupt the current step; the task continues."""
    BUDGET = 5
    """The budget was set: read it from the ledger, as with any other signal. It replaces no other signal."""

    @property
    def once(self) -> bool:
        """Whether it is delivered once, and not for as long as the task exists."""
        return self in (TaskSignal.INTERRUPT, TaskSignal.BUDGET)


class PostedMessage(Struct, frozen=True):
    """A message to a task; `number` counts its messages, from 1."""

    task: str
    number: int
    text: str
    sender: str
    at: str

    @property
    def message(self) -> UserMessage:
        """The message as the task reads it; version 0.1 may have left messages that say where it works."""
        return translated_message(UserMessage(self.text, self.sender, mail=self.number))


class Journal(Protocol):
    """The port for writing events. Every append is guarded by the lease's epoch and number."""

    async def create(
        self,
        fact: TaskCreated,
        owner: str,
        then: Sequence[DurableFact] = (),
        named: str = "",
        session: str = "",
    ) -> Lease:
        """Write a new task under a free id (or the one in `named`, if that is free), and lease it to `owner`.

        `session` is the account of the session that pays for a task without a conversation; by default that
        of its parent. BudgetSpent if too little is left above it.
        """
        ...

    async def take(
        self, task: str, owner: str, instead_of: str | None = None, session: str | None = None
    ) -> Lease:
        """Lease an existing task with a new epoch; UserMistake while another owner's lease is valid.

        `instead_of` is an owner known to be dead, whose lease does not count. From now on the account of
        `session` pays for it and its idle subagents; None leaves that as it is.
        """
        ...

    async def append(self, lease: Lease, facts: Sequence[DurableFact], *, last: bool = False) -> list[Event]:
        """Write all events in one transaction, or raise Fenced and write none; `last` releases the lease.

        Their cost is settled in the ledger. BudgetSpent if they resume a task and nothing is left for it.
        """
        ...

    async def renew(self, owner: str) -> set[str]:
        """Extend every lease of `owner`; the tasks that it has."""
        ...

    async def release(self, lease: Lease) -> None:
        """Release the lease at once, whatever the task's status."""
        ...

    async def owned(self) -> list[Ownership]:
        """Every task that is leased or has not ended, with its owner (empty: nobody)."""
        ...

    async def send_signal(self, task: str, signal: TaskSignal) -> bool:
        """Send a signal to the process that holds the lease of a task; False if none does.

        The last signal applies, but a stop is never taken back.
        """
        ...

    async def signals(self, owner: str) -> list[tuple[str, TaskSignal]]:
        """The signals to the tasks of `owner`."""
        ...

    async def post(self, task: str, text: str, sender: str) -> int:
        """Post a message to a task, whoever runs it; its number. UserMistake if there is no such task."""
        ...

    async def posted_messages(self, owner: str) -> list[PostedMessage]:
        """The unread messages to the tasks of `owner`, in order."""
        ...


class JournalReader(Protocol):
    """The port for reading events."""

    async def task(self, task: str) -> Task | None:
        """The state of a task, replayed from its events."""
        ...

    async def tasks(self, query: TaskQuery) -> list[Task]:
        """The states of all tasks that match, oldest first."""
        ...

    async def ids(self, beginning: str) -> list[str]:
        """Every task id with this beginning (at most 20)."""
        ...

    async def events(self, task: str, after: int = 0) -> list[Event]:
        """The events of a task with a number above `after`, in order."""
        ...

    async def lines(self, task: str) -> list[dict[str, Any]]:
        """All events of a task as objects for an export, including unknown kinds."""
        ...

    async def unread_messages(self, task: str) -> list[PostedMessage]:
        """The unread messages of a task, in order."""
        ...

    async def adopt(self, events: Sequence[Event]) -> None:
        """Write a whole imported journal of one task as it is; UserMistake if its id is taken."""
        ...

    async def delete(self, task: str) -> list[str]:
        """Delete a task with all its subagents, all or nothing; the deleted ids.

        UserMistake while any of them is running.
        """
        ...


class Store(Journal, JournalReader, Protocol):
    """A journal that can be read and closed, and the tables beside it."""

    @property
    def schedule(self) -> "JobStore":
        """The scheduled jobs."""
        ...

    @property
    def outbox(self) -> "OutboxStore":
        """The messages to channels that are not delivered yet."""
        ...

    @property
    def questions(self) -> QuestionStore:
        """The questions that wait for an answer."""
        ...

    @property
    def global_log(self) -> "GlobalLog":
        """The events of all tasks in one order."""
        ...

    @property
    def ledger(self) -> Ledger:
        """What tasks may spend, and have spent."""
        ...

    @property
    def changes(self) -> "ChangeNotifier":
        """Notifies waiters of changes, whichever process writes them."""
        ...

    async def close(self) -> None:
        """Close files and connections; nothing that was appended is lost."""
        ...


class SharedRateLimit(Protocol):
    """A rate limit that all processes share; a model is named as `PROVIDER/MODEL`."""

    async def turn(self, model: str, rate: float | None) -> None:
        """Wait until a model may be called: after its pause, and at most `rate` times a second."""
        ...

    async def refuse(self, model: str, pause: float) -> None:
        """Record a refused call: no process calls the model for so many seconds (0: an estimate)."""
        ...
