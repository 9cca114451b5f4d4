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
        "max_tokens",
        "max_seconds",
        "max_tokens_total",
        "max_usd",
        "max_spawns",
    }
)
"""The settings that are sent with a task to a worker; for everything else the worker's own apply."""
BUDGETS = ("max_tokens_total", "max_usd", "max_spawns")
"""Those that limit a whole session: each task gets a part, which is written with it."""


NOT_HERE = "its folder is not on this machine"
_BY_ITSELF = ", and it continues by itself within about a minute"
"""Added to the remedy as long as a task waits."""
_MOST_NAMED = 5
"""For how many workers a message says why they could not run a task."""


class MissingPart(StrEnum):
    """What a worker lacks to run a task."""

    AGENT = "agent"
    """The file of its agent."""
    FOLDER = "folder"
    OTHER = "other"
    """Something else; its message says what."""


def lacking(agent: str, mistake: UserMistake) -> tuple[str, MissingPart]:
    """Why a worker cannot run the tasks of an agent, without the list of agents that it has."""
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
    """A task in the queue for workers. `order` is their instruction, removed when the task has ended.

    `free`: nobody has a valid lease. `takes` counts how often it was taken. `seen` is the task itself, if it
    has not begun.
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
        """The prompt of a resume; empty if it is in a message, or not known."""
        try:
            return msgspec.json.decode(self.order or b"{}", type=_ResumeOrder).handover.prompt
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            return ""


class WorkerInfo(Struct, frozen=True):
    """A worker as others see it; `silent` are the seconds since its last heartbeat."""

    name: str
    agents: str
    workspace: str
    most: int
    running: int = 0
    draining: bool = False
    version: str = ""
    silent: float = 0.0


class WorkerProblem(Struct, frozen=True):
    """Why a worker could not run a task, as it reported so many seconds ago, and what it lacks."""

    worker: str
    why: str
    seconds: float = 0.0
    lacks: MissingPart = MissingPart.OTHER


class NoWorkerReason(StrEnum):
    """Why no worker has taken a task."""

    NOT_YET = "not_yet"
    """One may take it at any time."""
    BUSY = "busy"
    """All that could take it are busy."""
    NONE_THERE = "none_there"
    NO_TAKER = "no_taker"
    """No running worker accepts tasks of its agent."""
    NO_AGENT = "no_agent"
    """No worker that looked has its agent."""
    HINDERED = "hindered"
    """Workers reported why they cannot run it."""
    FOLDER = "folder"
    """Only a worker that shares its folder can run it."""


class MissingWorker(Struct, frozen=True):
    """Why no worker has taken a task; `why` and `way` are empty while one may take it at any time.

    `folder`: where a worker has to be started if it needs the task's folder, and `alone` why it does. `near`:
    a worker reports that it works there. `full`: workers that may have its agent are busy. `told`: what
    workers reported. The task ends if no worker can take it for `most` seconds; None while one may.
    `unclear`: a worker that could not take it may be able to by now, and is too busy to look.
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
        """The remedy, as long as the task waits."""
        way, by_itself = self._way()
        return f"{way}{_BY_ITSELF}" if by_itself else way

    @property
    def words(self) -> str:
        """What it waits for, for the user."""
        return f"a worker{self._because(self.way)}"

    @property
    def end(self) -> str:
        """Why it has ended after waiting for too long; the remedy then no longer continues it by itself."""
        return f"no worker took it within {round(self.most or 0, 3):.10g} s{self._because(self._way()[0])}"

    def _way(self) -> tuple[str, bool]:
        """The remedy, and whether the task then continues by itself."""
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
    """A task that workers should run and none does, for so many seconds; and why, if that is known."""

    task: str
    agent: str
    cwd: str
    seconds: float
    takes: int
    missing_worker: MissingWorker = MissingWorker()


def _typed(path: str) -> str:
    """A path as shell input, on one line and without consecutive spaces, whatever it contains."""
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
    """A task that workers run or will run, as its parent sees it."""

    async def missing_worker(self) -> MissingWorker | None:
        """Why no worker has taken it; None if one has, or none is needed any more."""
        ...

    def comes_home(self) -> bool:
        """After its end: whether its changes are still being copied back."""
        ...


@runtime_checkable
class SharedJournal(Protocol):
    """A journal that many workers share."""

    lease_seconds: float
    troubles: tuple[type[Exception], ...]
    """The exceptions of a connection while the database is unavailable."""

    @property
    def snapshots(self) -> "SnapshotStore":
        """The folders that are sent with tasks, and the changes that come back."""
        ...

    async def submit(
        self, fact: TaskCreated, order: bytes, enqueue: Enqueue, named: str = "", session: str = ""
    ) -> str:
        """Write a new task for workers and put it into a queue, in one transaction; its id.

        With an id in `named`, repeated calls write the same task once.
        """
        ...

    async def submit_again(self, task: str, order: bytes, enqueue: Enqueue) -> None:
        """Give an earlier task to workers; UserMistake while somebody runs it."""
        ...

    async def submit_held(self, task: str, keeper: str, order: bytes, enqueue: Enqueue) -> None:
        """Give a task to workers that `keeper` had written and not begun; UserMistake otherwise."""
        ...

    async def dispatched(self, task: str) -> DispatchedTask | None:
        """The entry of a task in the queue."""
        ...

    async def begin(
        self, seen: Task, owner: str, facts: Sequence[DurableFact], instead_of: str | None = None
    ) -> tuple[Lease, list[Event]]:
        """Lease a task and write its first events in one transaction; UserMistake while another owner's lease
        is valid.

        Fenced if it is not as it was `seen`. `instead_of` is an owner whose lease does not count.
        """
        ...

    async def overdue(self, seconds: float) -> list[StuckTask]:
        """The tasks for workers that none has taken for so long."""
        ...

    async def missing_worker(self, task: str) -> MissingWorker | None:
        """Why no worker has taken a task; None if one has, or none is needed."""
        ...

    async def missing_workers(self, tasks: Sequence[str]) -> dict[str, MissingWorker]:
        """The same for several tasks; those without a reason are left out."""
        ...

    async def over(self, tasks: Sequence[str]) -> set[str]:
        """Those of these tasks that workers are done with."""
        ...

    async def on_connection(self, step: Callable[[Any], Awaitable[None]]) -> None:
        """Run a step on a connection, in its own transaction that no other overlaps."""
        ...

    async def new_pool(self, most: int, lost: Callable[[], None]) -> Any:
        """A separate connection pool; `lost` is called when one of its connections ends."""
        ...


class Handover(Struct, frozen=True, omit_defaults=True):
    """One task for another process: a new one that is to be `created`, or the earlier one with the id `task`.

    `model`, `effort` and `warnings` are those of the model chosen for it. A `bound` process ends its task
    when the process that started it is gone; any other outlives it. A task that waited in the queue is both
    created and has an id; it is leased to `keeper`, which the process replaces. The `account` of a session
    pays for a task without a conversation. A process that has `seen` the task begins it only if it is
    unchanged. A new task may be a `fork`. It gets the id in `named`, so that a repeated start writes it once.
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
    """The schema for results from now on; None: unchanged."""


class EngineProcess(Protocol):
    """A process that runs one task."""

    @property
    def task(self) -> str:
        """The id of its task, which is written and has begun."""
        ...

    @property
    def gone(self) -> bool:
        """Whether it has ended, with or without success."""
        ...

    def kill(self) -> None:
        """End it at once."""
        ...


class Engine(Protocol):
    """Starts other processes for tasks."""

    async def start(self, handover: Handover) -> EngineProcess:
        """Start a process for a task; UserMistake says why it could not begin."""
        ...
