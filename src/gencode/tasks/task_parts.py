"""The objects that start and handle the tasks of one open GenCode."""

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from gencode.agent.models import ModelRegistry
from gencode.journal.dispatch import Engine
from gencode.journal.event_bus import EventBus
from gencode.journal.store import Store
from gencode.sessions.session import Session
from gencode.tasks.ask_parent import QuestionRouter
from gencode.tasks.control import TaskControl
from gencode.tasks.handle import TaskActions
from gencode.tasks.history import TaskHistory
from gencode.tasks.plan import TaskPlanner
from gencode.tasks.records import TaskRecords
from gencode.tasks.remote_task import OtherProcesses
from gencode.tasks.resume import CallerFactory
from gencode.tasks.service import SessionLimits, TaskService
from gencode.tasks.setup_builder import RunSetupBuilder
from gencode.tasks.start import TaskStarter
from gencode.tasks.supervisor import Supervisor
from gencode.tasks.task_folders import TaskFolders
from gencode.tasks.watch import TaskWatcher

if TYPE_CHECKING:
    from gencode.tasks.rewind import Rewinder


class TaskSettings(Struct, frozen=True, kw_only=True):
    """The settings for all tasks of a session. `command_seconds` limit the wait for background commands."""

    task_seconds: float | None
    command_seconds: float
    question_seconds: float
    answer_seconds: float
    stall_seconds: float
    agent_caps: Mapping[str, int]
    result_cache: bool


class TaskParts:
    """The objects that start, watch, control and read the tasks of a session.

    Each is built when it is first used: most sessions never delegate, look back or leave their process.
    """

    def __init__(
        self,
        session: Session,
        *,
        store: Store,
        supervisor: Supervisor,
        bus: EventBus,
        setups: RunSetupBuilder,
        models: ModelRegistry,
        settings: TaskSettings,
        limits: SessionLimits,
        home: Path,
        outputs: Path,
        cwd: Path,
        engine: Callable[[], Engine | None],
    ) -> None:
        """`home` is the per-user folder, `outputs` has the output files; `engine` starts other processes."""
        self.session = session
        self.store = store
        self.supervisor = supervisor
        self.bus = bus
        self.setups = setups
        self.settings = settings
        self.limits = limits
        self.outputs = outputs
        self._models = models
        self._home = home
        self._cwd = cwd
        self._engine = engine

    @cached_property
    def service(self) -> TaskService:
        """Starts, resumes and forks tasks for a person or a program."""
        return TaskService(self)

    @cached_property
    def planner(self) -> TaskPlanner:
        """Makes plans of requests."""
        return TaskPlanner(self)

    @cached_property
    def starter(self) -> TaskStarter:
        """Starts planned tasks."""
        return TaskStarter(self)

    @cached_property
    def rewinder(self) -> "Rewinder":
        """Rewinds conversations and files to an earlier prompt."""
        from gencode.tasks.rewind import Rewinder

        return Rewinder(self)

    @cached_property
    def watcher(self) -> TaskWatcher:
        """Watches tasks of every process."""
        return TaskWatcher(self.store, self.supervisor.owner, self.outputs)

    @cached_property
    def control(self) -> TaskControl:
        """Stops, interrupts and messages tasks of every process."""
        return TaskControl(self.store, self.supervisor, self.watcher)

    @cached_property
    def questions(self) -> QuestionRouter:
        """Brings the questions of agents to whoever can answer them."""
        seconds = self.settings.question_seconds, self.settings.answer_seconds
        return QuestionRouter(self.store, self.supervisor, self.watcher, self.control, *seconds)

    @cached_property
    def folders(self) -> TaskFolders:
        """The worktrees and copies of tasks."""
        return TaskFolders(self._home, self.store)

    @cached_property
    def processes(self) -> OtherProcesses:
        """Hands tasks over to other processes."""
        return OtherProcesses(self.store, self.bus, self.supervisor, self._engine())

    @cached_property
    def callers(self) -> CallerFactory:
        """Finds the callers of earlier tasks."""
        return CallerFactory(
            self.store,
            models=self._models,
            setups=self.setups,
            session=self.session,
            folders=self.folders,
            processes=self.processes,
        )

    @cached_property
    def records(self) -> TaskRecords:
        """Finds and deletes tasks."""
        settings = self.settings
        return TaskRecords(self.store, self.outputs, self._cwd, settings.agent_caps, settings.stall_seconds)

    @cached_property
    def actions(self) -> TaskActions:
        """Acts on tasks for a person or a program."""
        return TaskActions(self.records, self.control, self.service.send)

    @cached_property
    def history(self) -> TaskHistory:
        """Replays and compares earlier tasks."""
        return TaskHistory(self.records, self.store)
