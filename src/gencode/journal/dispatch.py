"""Tasks that run in another process: the handover, and the queue of a database that workers share."""

import shlex
from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec
from msgspec import Struct

from gencode.core.errors import UnknownName, UserMistake
from gencode.core.events import DurableFact, Event, TaskCreated
from gencode.core.spec import Effort, ForkPoint
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.journal.store import Lease

if TYPE_CHECKING:
    from gencode.journal.folder_snapshot import SnapshotStore


Enqueue = Callable[[Any, str], Awaitable[None]]
"""Puts a task into a queue, on the connection whose transaction also writes the task."""

TRAVELLING = frozenset(
    {
        "model",
        "permission_mode",
        "allow",
        "ask",
        "deny",
        "max_turns",
        "max_seconds",
        "max_tokens_total",
        "max_usd",
        "max_spawns",
    }
)
"""The settings that go with a task to a worker; everything else is the worker's own."""
BUDGETS = ("max_tokens_total", "max_usd", "max_spawns")
"""Those that bound a whole session: of it each task gets a part, which is written down with it."""


NOT_HERE = "its folder is not on this machine"
_BY_ITSELF = ", and it continues by itself within about a minute"
"""What is said with a way out, for as long as a task waits."""
_MOST_NAMED = 5
"""Of so many workers it is said why they could not run a task."""


class MissingPart(StrEnum):
    """What a worker does not have that a task needs."""

    AGENT = "agent"
    """The file of its agent."""
    FOLDER = "folder"
    OTHER = "other"
    """What its own words say."""


def lacking(agent: str, mistake: UserMistake) -> tuple[str, MissingPart]:
    """Why a worker cannot run the tasks of an agent, without all those that it could run."""
    if not isinstance(mistake, UnknownName):
        return str(mistake), MissingPart.OTHER
    unread = f". {mistake.unread}" if mistake.unread else ""
    return f"it has no agent {agent}{unread}", MissingPart.OTHER if unread else MissingPart.AGENT


class _HandoverPrompt(Struct, frozen=True):
    prompt: str = ""


class _ResumeOrder(Struct, frozen=True):
    """The part of an order for a task that is resumed."""

    handover: _HandoverPrompt = _HandoverPrompt()


class DispatchedTask(Struct, frozen=True):
    """A task that was given to workers. `order` is their instruction, removed when the task has ended.

    `free`: nobody's lease runs. `takes` counts how often it was taken. `seen` is the task itself, of one
    that nobody has begun yet.
    """

    task: str
    agent: str
    status: Status
    order: bytes | None
    owner: str
    free: bool
    takes: int
    seen: Task | None = None

    @property
    def prompt(self) -> str:
        """The prompt with which a task is resumed; empty if it is in a message, or not known."""
        try:
            return msgspec.json.decode(self.order or b"{}", type=_ResumeOrder).handover.prompt
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return ""


class WorkerInfo(Struct, frozen=True):
    """A worker as others see it; `silent` is the number of seconds since its last heartbeat."""

    name: str
    agents: str
    workspace: str
    most: int
    running: int = 0
    draining: bool = False
    version: str = ""
    silent: float = 0.0


class WorkerProblem(Struct, frozen=True):
    """Why a worker could not run a task, as it said so many seconds ago, and what it lacks."""

    worker: str
    why: str
    seconds: float = 0.0
    lacks: MissingPart = MissingPart.OTHER


class NoWorkerReason(StrEnum):
    """Why no worker is at a task."""

    NOT_YET = "not_yet"
    """One may come at any time."""
    BUSY = "busy"
    """All that take it have enough to do."""
    NONE_THERE = "none_there"
    NO_TAKER = "no_taker"
    """None that is there takes tasks of its agent."""
    NO_AGENT = "no_agent"
    """None of those that looked has its agent."""
    HINDERED = "hindered"
    """Workers said why they cannot run it."""
    FOLDER = "folder"
    """Only one that shares its folder can run it."""


class MissingWorker(Struct, frozen=True):
    """Why no worker is at a task; `why` and `way` are empty while one may come at any time.

    `folder`: where a worker has to be started, if only one that has it will do, and `alone` why that is so.
    `near`: one says that it works there. `full`: others that may have its agent are busy. `told`: what
    workers said. It ends when no worker that is there can take it for `most` seconds; None while one may.
    `unclear`: one that could not may be able to by now, and has no room to look.
    """

    reason: NoWorkerReason = NoWorkerReason.NOT_YET
    agent: str = ""
    folder: str = ""
    alone: str = ""
    near: bool = False
    full: bool = False
    told: tuple[tuple[str, str], ...] = ()
    most: float | None = None
    unclear: bool = False

    @property
    def why(self) -> str:
        """Why no worker runs it, for the user."""
        match self.reason:
            case NoWorkerReason.NOT_YET:
                return ""
            case NoWorkerReason.BUSY:
                return "all workers are busy"
            case NoWorkerReason.NONE_THERE:
                return "no worker is running"
            case NoWorkerReason.NO_TAKER:
                return f"no running worker accepts tasks of {self.agent}"
            case NoWorkerReason.NO_AGENT:
                return f"no worker{' that is free' if self.full else ''} has the agent {self.agent}"
            case NoWorkerReason.HINDERED:
                return "; ".join(f"{worker}: {why.rstrip('.')}" for worker, why in self.told[:_MOST_NAMED])
            case NoWorkerReason.FOLDER:
                none = "" if self.near else ", and no running worker has it"
                return f"only a worker that shares its folder can run it, because {self.alone}{none}"

    @property
    def way(self) -> str:
        """The way out for as long as it waits."""
        way, by_itself = self._way()
        return f"{way}{_BY_ITSELF}" if by_itself else way

    @property
    def words(self) -> str:
        """What it waits for, for the user."""
        return f"a worker{self._because(self.way)}"

    @property
    def end(self) -> str:
        """Why it has ended, once it was waited for long enough; from then on nothing goes on by itself."""
        return f"no worker took it within {round(self.most or 0, 3):.10g} s{self._because(self._way()[0])}"

    def _way(self) -> tuple[str, bool]:
        """What helps, and whether the task goes on by itself then."""
        place = (
            f" --workspace {_typed(self.folder)}, on a machine that has this folder" if self.folder else ""
        )
        match self.reason:
            case NoWorkerReason.NOT_YET:
                return "", False
            case NoWorkerReason.NO_TAKER:
                return f"gen worker --agents {shlex.quote(self.agent)}{place}", False
            case NoWorkerReason.NO_AGENT:
                return f"put {self.agent}.md into ~/.gen/agents on a worker", True
            case NoWorkerReason.HINDERED:
                return "fix what the worker reported", True
            case NoWorkerReason.BUSY | NoWorkerReason.NONE_THERE | NoWorkerReason.FOLDER:
                return f"gen worker{place}", False

    def _because(self, way: str) -> str:
        why = f": {self.why}" if self.why else ""
        return f"{why}{f' (to fix this: {way})' if way else ''}"


class StuckTask(Struct, frozen=True):
    """A task that workers should be at and that nobody is, for so many seconds; and why, if that is known."""

    task: str
    agent: str
    cwd: str
    seconds: float
    takes: int
    missing_worker: MissingWorker = MissingWorker()


def _typed(path: str) -> str:
    """A path as a shell takes it, on one line and with no two spaces in a row, whatever is in it."""
    if path.isprintable() and " ".join(path.split()) == path:
        return shlex.quote(path)
    plain = {"\\": "\\\\", "'": "\\'"}
    return "$'" + "".join(plain.get(each, each) if _is_plain(each) else _octets(each) for each in path) + "'"


def _is_plain(sign: str) -> bool:
    return sign.isprintable() and not sign.isspace()


def _octets(sign: str) -> str:
    return "".join(f"\\x{octet:02x}" for octet in sign.encode(errors="surrogateescape"))


@runtime_checkable
class WorkerTask(Protocol):
    """A task that workers run, or will, as its parent sees it."""

    async def missing_worker(self) -> MissingWorker | None:
        """What it waits for that no worker is at; None where one is, or none is needed any more."""
        ...

    def comes_home(self) -> bool:
        """Of a task that has ended: whether what it changed is on its way here."""
        ...


@runtime_checkable
class SharedJournal(Protocol):
    """A journal that many workers share."""

    lease_seconds: float
    troubles: tuple[type[Exception], ...]
    """What a connection raises when the database is away."""

    @property
    def parcels(self) -> "SnapshotStore":
        """Where folders wait that travel with tasks, and what comes back of them."""
        ...

    async def submit(
        self, fact: TaskCreated, order: bytes, enqueue: Enqueue, named: str = "", session: str = ""
    ) -> str:
        """Write a new task for workers and put it into a queue, all or nothing; its id.

        Under the id that is `named`, the same task is there once, however often it is submitted.
        """
        ...

    async def submit_again(self, task: str, order: bytes, enqueue: Enqueue) -> None:
        """Give an earlier task to workers; UserMistake while somebody is at it."""
        ...

    async def submit_held(self, task: str, keeper: str, order: bytes, enqueue: Enqueue) -> None:
        """Give a task to workers that `keeper` had written down and not begun; UserMistake otherwise."""
        ...

    async def dispatched(self, task: str) -> DispatchedTask | None:
        """What is known of a task that was given to workers."""
        ...

    async def begin(
        self, seen: Task, owner: str, facts: Sequence[DurableFact], instead_of: str | None = None
    ) -> tuple[Lease, list[Event]]:
        """Lease a task and write its first facts as one; UserMistake while somebody else's lease runs.

        Fenced when it is not as it was `seen`. `instead_of` is an owner whose lease does not count.
        """
        ...

    async def overdue(self, seconds: float) -> list[StuckTask]:
        """The tasks of workers that nobody has been at for so long."""
        ...

    async def missing_worker(self, task: str) -> MissingWorker | None:
        """What a task waits for that no worker is at; None where one is, or none is needed."""
        ...

    async def missing_workers(self, tasks: Sequence[str]) -> dict[str, MissingWorker]:
        """The same for each of these tasks that has one."""
        ...

    async def over(self, tasks: Sequence[str]) -> set[str]:
        """Those of these tasks that workers have nothing more to do with."""
        ...

    async def on_connection(self, step: Callable[[Any], Awaitable[None]]) -> None:
        """Do something on a connection, in a transaction of its own that nobody else's may overlap."""
        ...

    async def new_pool(self, most: int, lost: Callable[[], None]) -> Any:
        """Connections of one's own; `lost` is called when one of them ends."""
        ...


class WorkerRegistry(Protocol):
    """Where workers report."""

    async def report(self, card: WorkerInfo) -> None:
        """Say that a worker is there."""
        ...

    async def leave(self, name: str) -> None:
        """Say that a worker is there no more."""
        ...

    async def workers(self) -> list[WorkerInfo]:
        """The workers that reported lately."""
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


class EngineProcess(Protocol):
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

    async def start(self, handover: Handover) -> EngineProcess:
        """Start a process for a task; UserMistake says why it could not even begin."""
        ...
