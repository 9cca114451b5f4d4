"""The objects that a `GenCode` gives: its history, running tasks, models, budgets and workers."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from gencode.agent.models import Model
from gencode.budgets.limits import Spent
from gencode.core.budget import Budget, Price
from gencode.core.events import Event
from gencode.core.outcome import Outcome
from gencode.core.status import StopCause
from gencode.core.task import Task
from gencode.journal.change_notifier import ChangeNotifier
from gencode.journal.dispatch import MissingWorker, SharedJournal
from gencode.journal.folder_snapshot import SnapshotStore
from gencode.journal.global_log import GlobalLog
from gencode.journal.store import Ownership, PostedMessage, Store, TaskQuery
from gencode.tasks import queries
from gencode.tasks.crash_recovery import close_unclaimed
from gencode.tasks.history import ReplayedTasks
from gencode.tasks.leave_worktree import at_work
from gencode.tasks.running_task import RunningTask
from gencode.tasks.task_folders import current_result
from gencode.tasks.watch import Tell, tell_nobody
from gencode.wiring import Components

if TYPE_CHECKING:
    from gencode.sandbox.shells import BackgroundShell
    from gencode.workspaces.transfer.apply_changes import ApplyResult


class SentMessage(Struct, frozen=True):
    """What came of a message to a task; `resumed`: the task had ended, and goes on because of it."""

    outcome: Outcome
    resumed: bool = False


class ImportedTask(Struct, frozen=True):
    """A task that was imported; `problems` says what of its file could not be read."""

    outcome: Outcome
    problems: list[str] = []


class TaskJournal(Struct, frozen=True):
    """The events of one task, up to the first that cannot be read; `problem` says why it cannot."""

    events: list[Event]
    problem: str = ""


class History:
    """Reads the journal: the tasks of every process, finished or not."""

    def __init__(self, parts: Components) -> None:
        self._parts = parts

    async def tasks(self, query: TaskQuery) -> list[Task]:
        """The tasks that match a query, oldest first."""
        return await self._parts.store.tasks(query)

    async def task(self, task: str) -> Task | None:
        """A task by its whole id, as it is stored."""
        return await self._parts.store.task(task)

    async def current(self, task: str) -> Task:
        """A task by its whole id as it is now: it has ended if its process died. UserMistake if unknown."""
        return await self._parts.watcher.task(task)

    async def ended(self, task: str, seconds: float | None = None, tell: Tell = tell_nobody) -> Task:
        """Wait for the end of a task; the task as it is then, or after so many seconds."""
        return await self._parts.watcher.ended(task, seconds, tell)

    async def below(self, task: str) -> list[Task]:
        """All subagents below a task, parents before children."""
        return await queries.descendants(self._parts.store, task)

    async def outcome(self, task: Task) -> Outcome:
        """A task in its public shape; its output file is completed first."""
        return await self._parts.records.get(task)

    async def past_outcome(self, task: Task) -> Outcome:
        """An earlier state of a task in its public shape, without anything that was written after it."""
        return self._parts.watcher.outcome(task)

    async def outcomes(self, tasks: Sequence[Task]) -> list[Outcome]:
        """Several tasks in their public shape."""
        return await self._parts.records.outcomes(tasks)

    async def with_transcript(self, task: Task) -> Outcome:
        """A task in its public shape, with its transcript and permission decisions."""
        return await self._parts.records.show(task)

    async def result(self, task: Task) -> str:
        """The result of a task without offers of changes that were merged since."""
        return await current_result(task, self._parts.store) if task.created.worktree else task.result

    async def at_work_in(self, folder: Path) -> list[Task]:
        """The tasks that run, or wait to run, in a worktree or in one inside of it."""
        return await at_work(self._parts.store, folder)

    async def note_merged(self, task: str, arrival: "ApplyResult") -> None:
        """Write down what became of the changes of a task, so that they are not offered again."""
        from gencode.workspaces.transfer.apply_changes import record_result

        await record_result(self._parts.store, task, arrival)

    async def events(self, task: str, after: int = 0) -> list[Event]:
        """The durable events of a task after a sequence number."""
        return await self._parts.store.events(task, after)

    def follow(self, task: str, after: int = 0, tell: Tell = tell_nobody) -> AsyncGenerator[Event, None]:
        """The durable events of a task as they are written, until it has ended."""
        return self._parts.watcher.events(task, after, tell)

    async def replayed(self, tasks: Sequence[Task]) -> ReplayedTasks:
        """The events of some tasks in order of time, and whether they lead to the stored state."""
        return await self._parts.history.played(tasks)

    async def unread(self, task: str) -> list[PostedMessage]:
        """The messages that were sent to a task and that it has not read yet."""
        return await self._parts.store.unread_messages(task)

    async def unresponsive(self) -> Mapping[str, Ownership]:
        """Which process has each task whose process hangs or is suspended, by the ids of the tasks."""
        return await self._parts.records.silent()

    async def spent(self, task: str) -> Spent:
        """What a task and everything below it have cost so far."""
        return await queries.spent_by(self._parts.store, task)

    @property
    def log(self) -> GlobalLog:
        """The events of all tasks in the order in which they were committed."""
        return self._parts.store.global_log

    @property
    def changes(self) -> ChangeNotifier:
        """Notifies whoever waits for the next write to the journal."""
        return self._parts.store.changes


class RunningTasks:
    """The tasks and background commands that this process runs or looks after."""

    def __init__(self, parts: Components) -> None:
        self._parts = parts
        self._supervisor = parts.supervisor

    def __iter__(self) -> Iterator[RunningTask]:
        return iter(self._supervisor)

    def __len__(self) -> int:
        return len(self._supervisor)

    def __contains__(self, task: object) -> bool:
        return isinstance(task, str) and self._supervisor.find(task) is not None

    def find(self, task: str) -> RunningTask | None:
        """The running task of an id; None if this process does not look after it."""
        return self._supervisor.find(task)

    def is_local(self, task: str) -> bool:
        """Whether a task runs in this process, not only is looked after by it."""
        return self._supervisor.local(task) is not None

    def commands(self) -> "Sequence[BackgroundShell]":
        """The background commands that have not ended."""
        return self._parts.session.shells.running()

    def stop(self, why: StopCause) -> None:
        """Tell everything to stop, without waiting for it."""
        self._supervisor.stop.stop(why)

    async def settle(self) -> None:
        """Wait until stopped tasks have ended; what takes too long is cancelled."""
        await self._supervisor.settle()

    async def send_to_background(self, job: RunningTask) -> None:
        """Let whoever waits for a running task go on without it."""
        if (local := self._supervisor.local(job.id)) is not None:
            await self._supervisor.move_to_background(local)
        else:
            await self._parts.control.move_to_background(job.id)

    def look_after(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run something that is still finished when the program closes, at most for a grace period."""
        return self._supervisor.run_aside(work)


class Models:
    """The models that can be used, and the one that leads conversations."""

    def __init__(self, parts: Components) -> None:
        self._registry = parts.models
        self._main = parts.session.model
        self._providers = parts.providers

    def names(self) -> list[str]:
        """Every name that can be resolved, and the forms of those that take a model or a file."""
        return self._registry.names()

    def resolve(self, name: str, parent: Model | None = None, *, from_file: bool = False) -> Model:
        """The model of a name; UnknownName offers the nearest. `from_file`: an agent file names it."""
        return self._registry.resolve(name, parent, from_file=from_file)

    def price(self, model: str) -> Price:
        """What a model costs, and how much it can read."""
        return self._providers.price(model)

    def about(self, provider: str) -> str:
        """How a provider is reached: its address, and whether its key is set."""
        return self._providers.about(provider)

    @property
    def usual(self) -> tuple[str, str]:
        """The model that leads conversations when none is named, and why it is that one."""
        return self._main.usual

    def use(self, name: str) -> Model:
        """Let another model lead conversations from the next turn on."""
        return self._main.use(name)


class Budgets:
    """What conversations and tasks may spend."""

    def __init__(self, parts: Components) -> None:
        self._work = parts.service

    @property
    def default(self) -> Budget:
        """What a new conversation may spend."""
        return self._work.budget

    async def of_conversation(self, session: str | None) -> Budget:
        """What a conversation may spend, a new one if None."""
        return await self._work.budget_of(session)

    async def of_task(self, task: Task) -> Budget:
        """What a task may spend at this moment."""
        return await self._work.current_budget(task)

    async def set_all(self, budget: Budget, session: str | None = None) -> None:
        """Set what all work of this process may spend from now on, and one conversation."""
        await self._work.set_session_budget(budget, session)


class Workers:
    """The workers of a shared database, and the tasks that wait for one of them."""

    def __init__(self, store: Store, dispatch: SharedJournal) -> None:
        self._store = store
        self._dispatch = dispatch

    @property
    def returned(self) -> SnapshotStore:
        """What agents have changed on other machines."""
        return self._dispatch.parcels

    async def missing_worker(self, task: str) -> MissingWorker | None:
        """What a task waits for; None if a worker has begun with it."""
        return await self._dispatch.missing_worker(task)

    async def close_unclaimed(self, task: str, why: str) -> bool:
        """Time out a task that no worker could take; False if one has it by now."""
        return await close_unclaimed(self._store, task, why)

    async def behind(self, task: Task) -> str:
        """What a person should know before a task that ran elsewhere is resumed here; mostly nothing."""
        from gencode.workspaces.transfer.apply_changes import missing_changes_notice

        return await missing_changes_notice(self._dispatch.parcels, task)
