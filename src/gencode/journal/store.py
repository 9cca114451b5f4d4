"""The ports: every place where one part can be exchanged for another, on one page."""

from collections.abc import AsyncGenerator, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Literal, Protocol

from msgspec import Struct

from gencode.budgets.ledger import Ledger
from gencode.core.events import DurableFact, Event, TaskCreated
from gencode.core.messages import Message, ToolCall, UserMessage
from gencode.core.old_events import translated_message
from gencode.core.outcome import Outcome
from gencode.core.spec import AgentSpec, Effort, ForkPoint, TaskRequest
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.core.questions import Hearing, Inquiry, QuestionStore, Reply
from gencode.core.reply_parts import AgainPart as AgainPart
from gencode.core.reply_parts import CallPart as CallPart
from gencode.core.reply_parts import EndPart as EndPart
from gencode.core.reply_parts import Part as Part
from gencode.core.reply_parts import TextPart as TextPart
from gencode.core.reply_parts import ThinkingPart as ThinkingPart
from gencode.core.reply_parts import WaitPart as WaitPart
from gencode.journal.task_query import TaskQuery as TaskQuery

if TYPE_CHECKING:
    from gencode.schedule.appointments import Agenda
    from gencode.journal.store_changes import Changes
    from gencode.channels.outbox import Tray
    from gencode.journal.global_log import Chronicle


class ToolSchema(Struct, frozen=True):
    """A tool as a model sees it."""

    name: str
    description: str
    parameters: dict[str, Any]


class Request(Struct, frozen=True, gc=False):
    """Everything a model is told for one turn; a limit, temperature or effort of None is the provider's.

    One that `sums_up` asks for a summary of a conversation; who cannot write one raises a ProviderError. Who
    asks was `sent` by an agent, which asks again when it has its result.
    """

    model: str
    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSchema]
    agent: str = "main"
    task: str = ""
    temperature: float | None = None
    max_tokens: int | None = None
    effort: Effort | None = None
    sums_up: bool = False
    sent: bool = False


class Provider(Protocol):
    """Who answers."""

    def stream(self, request: Request) -> AsyncGenerator[Part, None]:
        """Yield the parts of one reply in order, EndPart last; raise ProviderError and nothing else."""
        ...


class Lease:
    """The right to write to one task, and how far its journal is. Only a store makes or moves one."""

    __slots__ = ("epoch", "owner", "path", "state", "task", "unlimited")

    def __init__(self, owner: str, epoch: int, state: Task, path: tuple[str, ...]) -> None:
        self.owner = owner
        self.epoch = epoch
        self.state = state
        self.path = path
        """The accounts that the task spends from, as ids: its own, those above it, that of its session."""
        self.task = state.id
        self.unlimited = False
        """Whether there was no such account when facts were last appended; a store need not know."""


class Ownership(Struct, frozen=True):
    """Who leases a task; `over` when the lease has run out, `silent` seconds after its last sign of life."""

    task: str
    owner: str
    over: bool
    silent: float = 0.0


class Wish(IntEnum):
    """What can be asked of the process that runs a task, from any other."""

    STOP = 1
    BACKGROUND = 2
    REPORT = 3
    """Stop, but first say in one turn without tools what was found."""
    INTERRUPT = 4
    """Cut what it is doing at this moment and let it go on from there."""


class Letter(Struct, frozen=True):
    """Something said to a task while it works; `number` counts the letters to it, from 1."""

    task: str
    number: int
    text: str
    sender: str
    at: str

    @property
    def message(self) -> UserMessage:
        """What the task hears; version 0.1 may have left letters that say where it works."""
        return translated_message(UserMessage(self.text, self.sender, mail=self.number))


class Journal(Protocol):
    """Where facts are written. Every append is guarded by the lease's epoch and number."""

    async def create(
        self,
        fact: TaskCreated,
        owner: str,
        then: Sequence[DurableFact] = (),
        named: str = "",
        session: str = "",
    ) -> Lease:
        """Write a new task under a free id (the one it is `named` by, if it is), and lease it to `owner`.

        `session` is the account of the session that pays for a task of no conversation; where none is given,
        that of its parent. BudgetSpent when too little is left above it.
        """
        ...

    async def take(
        self, task: str, owner: str, instead_of: str | None = None, session: str | None = None
    ) -> Lease:
        """Lease an existing task with a new epoch; UserMistake while somebody else's lease runs.

        `instead_of` is an owner known to be dead, whose lease does not count. From now on the account of
        `session` pays for it and those below it that are not at work; None leaves that as it is.
        """
        ...

    async def append(self, lease: Lease, facts: Sequence[DurableFact], *, last: bool = False) -> list[Event]:
        """Write all facts in one transaction, or raise Fenced and write none; `last` gives the lease back.

        What they cost is settled in the ledger. BudgetSpent when a task is to go on that nothing is left for.
        """
        ...

    async def renew(self, owner: str) -> set[str]:
        """Extend every lease of `owner`; the tasks that it has."""
        ...

    async def release(self, lease: Lease) -> None:
        """Give the lease back at once, whatever the task's status."""
        ...

    async def owned(self) -> list[Ownership]:
        """Every task that is leased or has not ended, its owner (empty: nobody), and whether that is over."""
        ...

    async def ask(self, task: str, wish: Wish) -> bool:
        """Ask something of whoever holds the lease of a task; False when nobody does.

        The last wish counts, but a stop is never taken back.
        """
        ...

    async def asked(self, owner: str) -> list[tuple[str, Wish]]:
        """What somebody asked of the tasks of `owner`."""
        ...

    async def post(self, task: str, text: str, sender: str) -> int:
        """Leave a letter for a task, whoever runs it; its number. UserMistake when there is no such task."""
        ...

    async def letters(self, owner: str) -> list[Letter]:
        """The letters to the tasks of `owner` that these have not taken yet, in order."""
        ...


class Archive(Protocol):
    """Where facts are read."""

    async def task(self, task: str) -> Task | None:
        """The fold of a task's facts."""
        ...

    async def tasks(self, query: TaskQuery) -> list[Task]:
        """The folds of all tasks that match, oldest first."""
        ...

    async def ids(self, beginning: str) -> list[str]:
        """Every task id that starts so (at most 20)."""
        ...

    async def events(self, task: str, after: int = 0) -> list[Event]:
        """The facts of a task with a number above `after`, in order."""
        ...

    async def lines(self, task: str) -> list[dict[str, Any]]:
        """All facts of a task as objects for an export, also those of kinds that are not known here."""
        ...

    async def waiting(self, task: str) -> list[Letter]:
        """The letters that a task has not taken yet, in order."""
        ...

    async def adopt(self, events: Sequence[Event]) -> None:
        """Write a whole foreign journal of one task as it is; UserMistake if its id is taken."""
        ...

    async def delete(self, task: str) -> list[str]:
        """Delete a task with everything below it, all or nothing; the ids that are gone.

        UserMistake while anything of it is being worked on.
        """
        ...


class Store(Journal, Archive, Protocol):
    """A journal that can be read, and closed, and what is planned and on its way beside it."""

    @property
    def agenda(self) -> "Agenda":
        """What is planned for later."""
        ...

    @property
    def tray(self) -> "Tray":
        """Messages that are not delivered yet."""
        ...

    @property
    def questions(self) -> QuestionStore:
        """Where questions wait until a person answers them."""
        ...

    @property
    def chronicle(self) -> "Chronicle":
        """The facts of all tasks in one order."""
        ...

    @property
    def ledger(self) -> Ledger:
        """What tasks may spend, and have spent."""
        ...

    @property
    def changes(self) -> "Changes":
        """Wakes whoever waits for something new, whichever process writes it."""
        ...

    async def close(self) -> None:
        """Let go of files and connections; nothing that was appended is lost."""
        ...


class Handover(Struct, frozen=True, omit_defaults=True):
    """One task for a process of its own: one that is to be `created`, or the earlier one with the id `task`.

    `model`, `effort` and `warnings` are those of the model that was chosen for it. A `bound` process ends its
    task when the one that started it is gone; any other outlives it. A task that waited for its turn is both
    created and has an id; it is leased to `keeper`, in whose place the process takes it. The `account` of a
    session pays for a task of no conversation. Whoever takes it may have `seen` it just before, and then
    begins it only as it was. What is created may be a `fork`. It gets the id `named` from whoever can write
    it down from here, so that the same can be tried again.
    """

    model: str
    created: TaskCreated | None = None
    task: str = ""
    prompt: str = ""
    max_turns: int | None = None
    seconds: float | None = None
    effort: Effort | None = None
    warnings: tuple[str, ...] = ()
    background: bool = False
    bound: bool = False
    account: str = ""
    keeper: str = ""
    seen: Task | None = None
    fork: ForkPoint | None = None
    named: str = ""
    output_schema: dict[str, Any] | None = None
    """What the results of an earlier task have to fit from now on; None: what they had to before."""


class Elsewhere(Protocol):
    """A process that runs one task."""

    @property
    def task(self) -> str:
        """The id of its task, which is written down and has begun."""
        ...

    @property
    def gone(self) -> bool:
        """Whether it has ended, well or not."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...


class Engine(Protocol):
    """Where a task executes when it does not do so here."""

    async def start(self, handover: Handover) -> Elsewhere:
        """Start a process for a task; UserMistake says why it could not even begin."""
        ...


class Sent(Struct, frozen=True):
    """A task that an agent sent, as it is now."""

    task: str
    agent: str
    status: Status
    error: str | None = None
    background: bool = False


Verb = Literal["interrupt", "keep", "stop", "tree"]
"""Cut what it does now; stop it after a last word; stop it; stop it and everything below it."""


class Struck(Struct, frozen=True):
    """What a verb came to: the task as it is now, all that was hit, and what goes on below the task."""

    outcome: Outcome
    hit: tuple[Sent, ...] = ()
    left: tuple[Sent, ...] = ()


class Delegate(Protocol):
    """How a tool hands work to an agent without knowing who starts it."""

    async def run(self, request: TaskRequest, call: ToolCall) -> Outcome:
        """Run the work to its end and give its outcome; UserMistake when it cannot even start.

        Work in the background, and work that is sent there meanwhile, gives its outcome as it is then.
        """
        ...

    async def look(self, task: str, seconds: float) -> Outcome:
        """The outcome of a task, after at most so many seconds of waiting for its end."""
        ...

    async def strike(self, task: str, verb: Verb) -> Struck:
        """Cut or stop a task in the background, and the work it waits for."""
        ...

    async def hits(self, task: str, verb: Verb) -> Sequence[Sent]:
        """What a verb would hit at this moment, the task itself first."""
        ...

    async def author(self, path: str, sha256: str) -> str:
        """Which agent brought a file of the workspace into this state, in any process; empty if none did."""
        ...

    async def own(self) -> Sequence[Outcome]:
        """The tasks that this agent has sent in all its runs, oldest first."""
        ...

    async def replay(self, task: str) -> Outcome:
        """One of those, or the agent's own, with its transcript; UserMistake for anybody else's."""
        ...

    async def send(self, task: str, message: str) -> tuple[Outcome, Hearing]:
        """Say something to a task of the same family; its outcome as it is, and when it hears that."""
        ...

    async def inquire(self, inquiries: Sequence[Inquiry], call: ToolCall) -> Reply:
        """Ask whoever can answer; the agent above first, then a person, and in the end nobody."""
        ...

    def sent(self) -> Sequence[Sent]:
        """The tasks that were sent in this run, in the order they were launched."""
        ...

    def agents(self) -> Sequence[tuple[str, str]]:
        """Name and description of every agent that may be sent."""
        ...

    def result_cap(self, agent: str) -> int:
        """How many characters of its result an agent hands to its sender's context."""
        ...


class Inbox(Protocol):
    """What comes to an agent while it works: letters, and the results of its background tasks."""

    @property
    def expecting(self) -> bool:
        """Whether anything is out, or has come and was not taken."""
        ...

    def take(self) -> Sequence[UserMessage]:
        """Everything that has come since; it counts as taken once it is in the journal."""
        ...

    async def more(self) -> bool:
        """Wait until there is something to take; False when nothing is out any more."""
        ...

    def put(self, letter: Letter) -> None:
        """Something was said to the agent; it hears it before its next reply."""
        ...


class AgentSource(Protocol):
    """Where agents come from."""

    def find(self, name: str) -> AgentSpec:
        """An agent by name, without regard to case and separators; UnknownName offers the nearest."""
        ...

    def spawnable(self) -> Sequence[AgentSpec]:
        """Every agent that may be sent, by name."""
        ...
