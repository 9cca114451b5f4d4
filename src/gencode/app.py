"""The Python API: `GenCode` with its methods (ask, task, resume, fork, send, stop, tasks, explain)."""

import asyncio
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from msgspec import Struct

from gencode.agent.models import Model
from gencode.agent.ports import Provider
from gencode.agent.toolbox import MCP, Tool, Toolbox
from gencode.agents.command_files import CommandFiles
from gencode.agents.registry import AgentEntry as AgentEntry
from gencode.agents.registry import Registry
from gencode.agents.skills import Skills
from gencode.budgets.limits import Spent
from gencode.channels.address import Address
from gencode.core.budget import Budget, Price
from gencode.core.errors import UserMistake
from gencode.core.events import Event
from gencode.core.messages import UserMessage
from gencode.core.outcome import Outcome
from gencode.core.questions import Asker, QuestionStore
from gencode.core.rules import Action, Mode, Policy, Rule, RuleOrigin, RuleSource, merge
from gencode.core.spec import MAIN, AgentSpec, TaskRequest, Workspace
from gencode.core.status import EndReason, StopCause
from gencode.core.structs import replace
from gencode.core.task import Task
from gencode.journal.change_notifier import ChangeNotifier
from gencode.journal.dispatch import Handover, MissingWorker, SharedJournal
from gencode.journal.event_bus import EventListener
from gencode.journal.global_log import GlobalLog
from gencode.journal.store import Ownership, PostedMessage, Store, TaskQuery
from gencode.mcp.session_servers import SCREEN_WAIT as SCREEN_WAIT
from gencode.mcp.session_servers import STATE_CLAUSES as STATE_CLAUSES
from gencode.mcp.session_servers import Change as Change
from gencode.mcp.session_servers import ServerReport as ServerReport
from gencode.mcp.session_servers import ServerState as ServerState
from gencode.mcp.session_servers import SessionServers
from gencode.mcp.session_servers import describe_servers as describe_servers
from gencode.permissions.calls import names_agent, wider_mode_words
from gencode.permissions.chain import grant_for
from gencode.permissions.explanation import Explanation
from gencode.permissions.trust import FolderTrust
from gencode.settings import Settings
from gencode.stores.memory import MemoryStore
from gencode.stores.open_store import open_store as open_store
from gencode.stores.sqlite_schema import VERSION
from gencode.stores.sqlite_schema import migrate as migrate
from gencode.tasks import queries
from gencode.tasks.argument_checks import MESSAGE, TASK, checked_message, checked_text
from gencode.tasks.control import MessageKept as MessageKept
from gencode.tasks.crash_recovery import close_task, close_unclaimed, recover_folder
from gencode.tasks.delivery import worth_a_turn
from gencode.tasks.explain_call import CallExplainer
from gencode.tasks.fork import EventNumber, Fork
from gencode.tasks.handle import (
    INTERRUPTED,
    STOPPED,
    ActionResult,
    ConversationTurn,
    Handle,
    TaskAction,
    TaskOptions,
    task_request,
)
from gencode.tasks.history import Replay, ReplayedTasks
from gencode.tasks.leave_worktree import current_result
from gencode.tasks.liveness import FolderLiveness
from gencode.tasks.process_engine import WorkOrder as WorkOrder
from gencode.tasks.remote_task import DetachedTask
from gencode.tasks.running_task import LocalTask, RunningTask
from gencode.tasks.service import Prompt
from gencode.tasks.setup_builder import checked_schema
from gencode.tasks.supervisor import CLOSING as CLOSING
from gencode.tasks.supervisor import REPORT_SECONDS as REPORT_SECONDS
from gencode.tasks.watch import Tell, readable_events, tell_nobody
from gencode.tools.catalog import TOOLS as TOOLS
from gencode.tools.file_search import find_ripgrep as find_ripgrep
from gencode.wiring import Components, opened
from gencode.wiring import agents_if_trusted as agents_if_trusted
from gencode.wiring import started_if_trusted as started_if_trusted

if TYPE_CHECKING:
    from gencode.channels.outbox import Outbox
    from gencode.fleet.merge_changes import MergeResult
    from gencode.mcp.servers import ServerCandidate as ServerCandidate
    from gencode.sandbox.shells import BackgroundShell
    from gencode.schedule.scheduled_jobs import JobCalendar, ScheduledJob
    from gencode.tasks.history import Comparison
    from gencode.tasks.rewind import RewindPoint, RewindPreview, Rewound
    from gencode.tasks.scheduler import OpenFolderOf, Scheduler

SCHEMA_VERSION = VERSION
CALLER_CANCELLED = StopCause(EndReason.CALLER_GONE, "whoever waited for it was cancelled")
forgetful: Callable[[], Store] = MemoryStore
"""A journal in memory, for what should leave no trace."""


def database_users(path: Path) -> list[str]:
    """The other processes that have a database open, as far as the system can tell."""
    from gencode.stores.sqlite_upgrade import users_of

    return users_of(path)


class SentMessage(Struct, frozen=True):
    """The result of sending a message; `resumed`: the task had ended and was resumed for it."""

    outcome: Outcome
    resumed: bool = False


class ImportedTask(Struct, frozen=True):
    """An imported task; `problems` lists what of its file could not be read."""

    outcome: Outcome
    problems: list[str] = []


class TaskJournal(Struct, frozen=True):
    """The events of one task, up to the first unreadable one; `problem` says why it is unreadable."""

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
        """The state of a task now, by its whole id: ended if its process has died. UserMistake if unknown."""
        return await self._parts.tasks.watcher.task(task)

    async def ended(self, task: str, seconds: float | None = None, tell: Tell = tell_nobody) -> Task:
        """Wait for the end of a task, at most for so many seconds; the task as it is then."""
        return await self._parts.tasks.watcher.ended(task, seconds, tell)

    async def below(self, task: str) -> list[Task]:
        """All subagents below a task, parents before children."""
        return await queries.descendants(self._parts.store, task)

    async def outcome(self, task: Task) -> Outcome:
        """The public record of a task; its output file is brought up to date first."""
        return await self._parts.tasks.records.get(task)

    async def past_outcome(self, task: Task) -> Outcome:
        """The public record of an earlier state of a task."""
        return self._parts.tasks.watcher.outcome(task)

    async def outcomes(self, tasks: Sequence[Task]) -> list[Outcome]:
        """The public records of several tasks."""
        return await self._parts.tasks.records.outcomes(tasks)

    async def with_transcript(self, task: Task) -> Outcome:
        """The public record of a task, with its transcript and permission decisions."""
        return await self._parts.tasks.records.show(task)

    async def result(self, task: Task) -> str:
        """The result of a task, without the offers to merge changes that were merged since."""
        return await current_result(task, self._parts.store) if task.created.worktree else task.result

    async def events(self, task: str, after: int = 0) -> list[Event]:
        """The stored events of a task after a sequence number."""
        return await self._parts.store.events(task, after)

    def follow(self, task: str, after: int = 0, tell: Tell = tell_nobody) -> AsyncGenerator[Event, None]:
        """The stored events of a task as they are written, until it has ended."""
        return self._parts.tasks.watcher.events(task, after, tell)

    async def replayed(self, tasks: Sequence[Task]) -> ReplayedTasks:
        """The events of some tasks in order of time, and whether replaying them gives the stored state."""
        return await self._parts.tasks.history.played(tasks)

    async def unread(self, task: str) -> list[PostedMessage]:
        """The unread messages to a task."""
        return await self._parts.store.unread_messages(task)

    async def unresponsive(self) -> Mapping[str, Ownership]:
        """The process of each task whose process hangs or is suspended, by the id of the task."""
        return await self._parts.tasks.records.silent()

    async def spent(self, task: str) -> Spent:
        """The cost so far of a task and all its descendants."""
        return await queries.spent_by(self._parts.store, task)

    @property
    def log(self) -> GlobalLog:
        """The events of all tasks in the order of their commits."""
        return self._parts.store.global_log

    @property
    def changes(self) -> ChangeNotifier:
        """Notifies of the next write to the journal."""
        return self._parts.store.changes


class RunningTasks:
    """The tasks and background commands of this process, and the tasks elsewhere that it follows."""

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
        """The running task with an id; None if this process neither runs nor follows it."""
        return self._supervisor.find(task)

    def is_local(self, task: str) -> bool:
        """Whether a task runs in this process, and is not only followed by it."""
        return self._supervisor.local(task) is not None

    def commands(self) -> "Sequence[BackgroundShell]":
        """The background commands that have not ended."""
        return self._parts.session.shells.running()

    def stop(self, why: StopCause) -> None:
        """Stop everything, without waiting for its end."""
        self._supervisor.stop.stop(why)

    async def settle(self) -> None:
        """Wait until stopped tasks have ended; after a grace period they are cancelled."""
        await self._supervisor.settle()

    async def send_to_background(self, job: RunningTask) -> None:
        """Move a running task to the background: its parent continues without it."""
        if (local := self._supervisor.local(job.id)) is not None:
            await self._supervisor.move_to_background(local)
        else:
            await self._parts.tasks.control.move_to_background(job.id)

    def look_after(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Run something that is finished even when the program closes, at most for a grace period."""
        return self._supervisor.run_aside(work)


class Models:
    """The available models, and the one that leads conversations."""

    def __init__(self, parts: Components) -> None:
        self._registry = parts.models
        self._main = parts.session.model
        self._setups = parts.setup_builder
        self._providers = parts.providers
        self._context = parts.settings.context_tokens

    def names(self) -> list[str]:
        """Every model name that can be resolved, and the forms of those that take a model or a file."""
        return self._registry.names()

    def resolve(self, name: str, parent: Model | None = None, *, from_file: bool = False) -> Model:
        """The model for a name; UnknownName suggests others. `from_file`: an agent file names it."""
        return self._registry.resolve(name, parent, from_file=from_file)

    def of_agent(self, agent: AgentSpec) -> Model:
        """The model that an agent gets here: the settings', else its file's, else the main one."""
        return self._setups.model("", agent, self._main.current)

    def price(self, model: str) -> Price:
        """The price of a model, and its context size."""
        return self._providers.price(model)

    def context(self, model: str) -> int:
        """The context size of a model in tokens."""
        from gencode.agent.run_setup import USUAL_CONTEXT

        return self._context or self.price(model).context or USUAL_CONTEXT

    def about(self, provider: str) -> str:
        """How a provider is reached: its address, and whether its key is set."""
        return self._providers.about(provider)

    @property
    def usual(self) -> tuple[str, str]:
        """The default model of conversations, and why it is the default."""
        return self._main.usual

    def use(self, name: str) -> Model:
        """Use another model for conversations from the next turn on."""
        return self._main.use(name)


class Budgets:
    """The budgets of conversations and tasks."""

    def __init__(self, parts: Components) -> None:
        self._work = parts.tasks.service

    @property
    def default(self) -> Budget:
        """The budget of a new conversation."""
        return self._work.budget

    async def of_conversation(self, session: str | None) -> Budget:
        """The budget of a conversation, or of a new one if None."""
        return await self._work.budget_of(session)

    async def of_task(self, task: Task) -> Budget:
        """The budget of a task now."""
        return await self._work.current_budget(task)

    async def set_all(self, budget: Budget, session: str | None = None) -> None:
        """Set the budget of all further work of this process, and of one conversation."""
        await self._work.set_session_budget(budget, session)


class Workers:
    """The workers of a shared database, and the tasks that wait for a worker."""

    def __init__(self, store: Store, dispatch: SharedJournal) -> None:
        self._store = store
        self._dispatch = dispatch

    async def missing_worker(self, task: str) -> MissingWorker | None:
        """What a task waits for; None if a worker has started it."""
        return await self._dispatch.missing_worker(task)

    async def close_unclaimed(self, task: str, why: str) -> bool:
        """Time out a task that no worker could take; False if one has started it by now."""
        return await close_unclaimed(self._store, task, why)

    async def behind(self, task: Task) -> str:
        """Changes elsewhere that a person should know of before a task is resumed here; often empty."""
        from gencode.workspaces.transfer.apply_changes import missing_changes_notice

        return await missing_changes_notice(self._dispatch.snapshots, task)


class GenCode:
    """One open GenCode: a workspace, a journal, agents, models and tools. Use `GenCode.open`."""

    def __init__(self, parts: Components) -> None:
        """Use `GenCode.open` instead."""
        self._parts = parts

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        cwd: str | Path = ".",
        *,
        model: str | Provider = "",
        tools: Iterable[Tool] = (),
        settings: Mapping[str, Any] | None = None,
        store: Store | None = None,
        asker: Asker | None = None,
    ) -> AsyncGenerator["GenCode", None]:
        """Open a workspace.

        `model` is a name, or a provider of your own that answers for every agent. `settings` are applied like
        flags: over the environment and the settings files.
        """
        async with opened(cwd, model, tools, settings, store, asker) as parts:
            yield cls(parts)

    @cached_property
    def history(self) -> History:
        """Reads the journal: the tasks of every process."""
        return History(self._parts)

    @cached_property
    def running(self) -> RunningTasks:
        """The tasks and background commands of this process."""
        return RunningTasks(self._parts)

    @cached_property
    def models(self) -> Models:
        """The models that can be used, and what they cost."""
        return Models(self._parts)

    @cached_property
    def budgets(self) -> Budgets:
        """What conversations and tasks may spend."""
        return Budgets(self._parts)

    @property
    def settings(self) -> Settings:
        """The settings of this session."""
        return self._parts.settings

    @property
    def workspace(self) -> Workspace:
        """The working directory and its project."""
        return self._parts.workspace

    @property
    def project(self) -> FolderTrust:
        """What the folder contains that needs trust, and whether it is trusted."""
        return self._parts.project

    @property
    def agents(self) -> Registry:
        """The agents, reloaded when their files change."""
        return self._parts.library.agents

    @property
    def skills(self) -> Skills:
        """The skills, reloaded when their files change."""
        return self._parts.library.skills

    @property
    def commands(self) -> CommandFiles:
        """The slash commands from files, reloaded when these change."""
        return self._parts.library.commands

    @property
    def toolbox(self) -> Toolbox:
        """Every tool by its name, including those of plugins and of this program."""
        return self._parts.toolbox

    @property
    def plugin_warnings(self) -> Sequence[str]:
        """Why plugins could not be loaded."""
        return self._parts.plugins.warnings

    @property
    def mcp_servers(self) -> SessionServers:
        """The MCP servers of the settings, the folder and the agents."""
        return self._parts.mcp_servers

    @property
    def model(self) -> Model:
        """The main agent's model: the one you chose, or the default."""
        return self._parts.session.model.current

    @property
    def policy(self) -> Policy:
        """The permission mode and the rules of this session."""
        return self._parts.policy_root.policy

    def set_policy(self, policy: Policy) -> None:
        """Change the policy; the change applies to running agents, too."""
        self._parts.policy_root.policy = policy

    def switch_mode(self, mode: Mode) -> None:
        """Change the permission mode; the change applies to running agents, too."""
        self._parts.policy_root.switch(mode)

    def wider_mode(self, agent: str) -> str:
        """What an agent could do in the mode of its file; empty if that is not wider here, or was granted."""
        spec = self.agents.find(agent)
        mode = grant_for(self.policy, spec.mode)
        granted = any(names_agent(rule, spec.name) for rule in self.policy.rules)
        return "" if mode is None or granted else wider_mode_words(spec.name, mode)

    def grant_mode(self, agent: str) -> None:
        """Let an agent work in the mode of its file, as `--allow Task(NAME)` does."""
        name = self.agents.find(agent).name
        rule = Rule("Task", name, Action.ALLOW, RuleOrigin(RuleSource.FLAG, "--allow"))
        self.set_policy(replace(self.policy, rules=merge(self.policy.rules, [rule])))

    @property
    def schedule(self) -> "JobCalendar":
        """The scheduled jobs."""
        return self._parts.messaging().calendar

    @property
    def outbox(self) -> "Outbox":
        """Sends messages to people through channels."""
        return self._parts.messaging().outbox

    def reply_through(self, session: str, address: Address) -> None:
        """Set the channel of the person in a conversation: agents send their messages there."""
        self._parts.messaging().comes_from(session, address)

    @property
    def questions(self) -> QuestionStore:
        """The questions of agents, in every process, that wait for an answer."""
        return self._parts.store.questions

    @property
    def workers(self) -> Workers | None:
        """The workers of a shared database; None without one."""
        store = self._parts.store
        return Workers(store, store) if isinstance(store, SharedJournal) else None

    @property
    def uses_workers(self) -> bool:
        """Whether tasks in separate processes run on the workers of a shared database."""
        return self._parts.tasks.processes.far

    @overload
    async def task(
        self, agent: str, prompt: str, *, background: Literal[True], **options: Unpack[TaskOptions]
    ) -> Handle: ...
    @overload
    async def task(
        self, agent: str, prompt: str, *, background: bool = False, **options: Unpack[TaskOptions]
    ) -> Outcome: ...
    async def task(
        self, agent: str, prompt: str, *, background: bool = False, **options: Unpack[TaskOptions]
    ) -> Outcome | Handle:
        """Run one subagent to its end and return its outcome, or in the background and return a handle."""
        job = await self.start_task(task_request(agent, prompt, options, background=background))
        return self._handle(job) if background else await self.outcome(job)

    @overload
    async def resume(
        self, task: str, prompt: str, *, background: Literal[True], **options: Unpack[TaskOptions]
    ) -> Handle: ...
    @overload
    async def resume(
        self, task: str, prompt: str, *, background: bool = False, **options: Unpack[TaskOptions]
    ) -> Outcome: ...
    async def resume(
        self, task: str, prompt: str, *, background: bool = False, **options: Unpack[TaskOptions]
    ) -> Outcome | Handle:
        """Resume an earlier task of this folder; it keeps its agent, transcript, model and permissions."""
        job = await self.start_resume(task, task_request("", prompt, options, background=background))
        return self._handle(job) if background else await self.outcome(job)

    async def stop(
        self, task: str, *, keep: bool = False, tree: bool = False, why: StopCause = STOPPED
    ) -> ActionResult:
        """Stop a task in any process, and the subagents it waits for; its outcome, and all that stopped.

        With `keep` it first reports in one turn what it has found; `tree` also stops its background tasks.
        """
        return await self._parts.tasks.actions.stop(task, keep=keep, tree=tree, why=why)

    async def interrupt(self, task: str, message: str = "", *, why: StopCause = INTERRUPTED) -> ActionResult:
        """Interrupt the current step of a task; its outcome, and all that was interrupted.

        An agent continues with its next turn; the turn of a conversation is over.
        """
        return await self._parts.tasks.actions.interrupt(task, message, why=why)

    async def affected(self, task: str, verb: TaskAction) -> list[Outcome]:
        """The tasks that `interrupt`, `steer`, `keep`, `stop` or `tree` would affect now, itself first."""
        return await self._parts.tasks.actions.affected(task, verb)

    async def send(self, task: str, message: str, *, here: bool = False) -> SentMessage:
        """Send a message to a task in whichever process it runs; the task then, and whether it was resumed.

        A running agent reads it before its next reply. One that has ended is resumed, in a process of its own
        where possible, or in this one if `here`.
        """
        now, resumed = await self._parts.tasks.service.send(task, checked_text(MESSAGE, message), here=here)
        return SentMessage(await self.outcome_of(now), resumed)

    async def post(self, task: str, message: str) -> Task:
        """Leave a message for a task, by its whole id, without resuming it; the task then.

        A slash command from a file is expanded.
        """
        said, model = self._expanded(message)
        if said.runs or model:
            raise UserMistake(
                "This command has shell commands or a model of its own, so it has to begin a turn. Wait "
                "until the current one has finished, or interrupt it."
            )
        return await self._parts.tasks.control.send(task, said.text)

    async def send_to_background(self, task: str) -> Outcome:
        """Move a task to the background: its parent continues without it. Its outcome then."""
        found = await self.find(task)
        return await self.history.outcome(await self._parts.tasks.control.move_to_background(found.id))

    @overload
    async def fork(
        self,
        task: str,
        prompt: str,
        *,
        background: Literal[True],
        at: EventNumber = None,
        **options: Unpack[TaskOptions],
    ) -> Handle: ...
    @overload
    async def fork(
        self,
        task: str,
        prompt: str,
        *,
        background: bool = False,
        at: EventNumber = None,
        **options: Unpack[TaskOptions],
    ) -> Outcome: ...
    async def fork(
        self,
        task: str,
        prompt: str,
        *,
        background: bool = False,
        at: EventNumber = None,
        **options: Unpack[TaskOptions],
    ) -> Outcome | Handle:
        """Run a new task that starts with the transcript of another one up to event number `at`.

        That of a conversation is a subagent of it, and begins with all of its transcript.
        """
        job = await self._parts.tasks.service.fork(
            task, Fork(at), task_request("", prompt, options, background=background)
        )
        return self._handle(job) if background else await self.outcome(job)

    async def fork_session(self, session: str, *, at: EventNumber = None) -> Outcome:
        """A new conversation with the transcript of another one up to event number `at`; it is idle."""
        return await self.outcome_of(await self._parts.tasks.service.fork_conversation(session, Fork(at)))

    def ask(self, prompt: str, *, session: str | None = None, agent: str = "") -> ConversationTurn:
        """Start a turn of the main conversation: iterate over its events, or await `.outcome()`."""
        return ConversationTurn(
            self._parts.bus, lambda: self.start_turn(prompt, session, agent), self.outcome
        )

    async def set_budget(self, task: str, budget: Budget | Mapping[str, float | None]) -> Budget:
        """Set what a task may spend over its whole life, with all its descendants, running or not.

        UserMistake when less is left above it.
        """
        return await self._parts.tasks.service.set_budget(task, budget)

    async def find(self, task: str, *, conversation: bool = False) -> Task:
        """The stored state of a task by its id, which may be shortened while it is unambiguous.

        UnknownName offers other tasks, or with `conversation` other conversations.
        """
        return await self._parts.tasks.records.find(task, conversation=conversation)

    async def outcome_of(self, task: Task) -> Outcome:
        """The public record of a stored task, with the usage of all its descendants."""
        return await self._parts.tasks.records.outcome_of(task)

    async def journal(self, task: str, after: int = 0) -> TaskJournal:
        """The events of a task, by its whole id, after a sequence number, as far as they are readable."""
        events, problem = await readable_events(self._parts.store, checked_text(TASK, task), after)
        return TaskJournal(events, str(problem or ""))

    async def replay(self, task: str) -> Replay:
        """Replay a task and its descendants from the journal; whether that gives the stored state."""
        return await self._parts.tasks.history.replay(task)

    async def difference(self, task: str, other: str) -> "Comparison":
        """The differences between two runs and all their descendants: messages, replies, calls, results."""
        return await self._parts.tasks.history.difference(task, other)

    async def tasks(self, parent: str | None = None) -> list[Outcome]:
        """The tasks of subagents, oldest first; with `parent`, those that it started."""
        return await self._parts.tasks.records.sent_by(parent)

    async def get(self, task: str) -> Outcome:
        """One task by its id, which may be shortened while it is unambiguous."""
        return await self.history.outcome(await self.find(task))

    async def show(self, task: str) -> Outcome:
        """One task with its transcript and permission decisions."""
        return await self.history.with_transcript(await self.find(task))

    async def delete(self, task: str) -> list[str]:
        """Delete a task that no other task started, with all its descendants; their ids."""
        return await self._parts.tasks.records.delete(await self.find(task))

    async def merge(self, task: str, *, preview: bool = False, here: bool = False) -> "MergeResult":
        """Merge what a task changed on another machine into its checkout, or into a clone of it around `cwd`.

        A `preview` changes nothing. With `here` the checkout around `cwd` gets them in any case.
        """
        from gencode.fleet.merge_changes import merge_changes

        folder = Path(self.workspace.cwd)
        return await merge_changes(self._parts.store, self.find, task, folder, here=here, preview=preview)

    async def export(self, task: str) -> str:
        """The journal of one task as JSONL."""
        from gencode.stores.jsonl import export_task

        return export_task(await self._parts.store.lines((await self.find(task)).id))

    async def take_in(self, text: str) -> ImportedTask:
        """Import an exported task; its outcome, and what could not be read."""
        from gencode.stores.jsonl import import_task

        store = self._parts.store
        journal = import_task(checked_text("journal of a task", text))
        await store.adopt(journal.imported(str(self.workspace.cwd)))
        task = journal.events[0].task
        await close_task(store, task, self._parts.supervisor.owner)
        return ImportedTask(await self.get(task), journal.warnings)

    def listen(self) -> EventListener:
        """Listen to all events from now on; close the listener when done."""
        return self._parts.bus.listen()

    async def start_task(self, request: TaskRequest) -> RunningTask:
        """Start one subagent without a main conversation: the settings are its root policy."""
        return await self._parts.tasks.service.start(request)

    async def start_resume(self, task: str, request: TaskRequest) -> RunningTask:
        """Resume an earlier task with its own settings, or a conversation with the present ones."""
        found = await self.find(task)
        if found.conversation and request.output_schema is None:
            return await self.start_turn(request.prompt, found.id, found.agent)
        return await self._parts.tasks.service.resume(found.id, request)

    async def start_fork(self, task: str, fork: Fork, request: TaskRequest) -> RunningTask:
        """Start a new task with the transcript of another one up to some point."""
        return await self._parts.tasks.service.fork(task, fork, request)

    async def detach(self, request: TaskRequest) -> Outcome:
        """Start or resume one subagent in a process that outlives this one."""
        return await self.get(await self._parts.tasks.service.detach(request))

    async def detach_fork(self, task: str, fork: Fork, request: TaskRequest) -> DetachedTask:
        """Start a fork in a process that outlives this one, or on a worker that has its folder."""
        return await self._parts.tasks.service.fork_detached(task, fork, request)

    async def fork_in_background(self, task: str, fork: Fork, request: TaskRequest) -> Outcome:
        """Start a fork in the background: here, or on a worker if its folder is not here."""
        return await self.outcome_of(await self._parts.tasks.service.fork_in_background(task, fork, request))

    async def take_on(self, handover: Handover) -> RunningTask:
        """Start a task that another process handed over."""
        return await self._parts.tasks.service.take_on(handover)

    async def start_turn(
        self,
        prompt: Prompt,
        session: str | None = None,
        agent: str = "",
        *,
        named: str = "",
        waits: bool = False,
        output_schema: dict[str, Any] | None = None,
    ) -> LocalTask:
        """Start a turn of the main conversation, or of one that `agent` leads.

        A new conversation gets the id it is `named` by, if that is free. With `waits` the turn also waits for
        its background commands; else their end is reported in the next turn. The answer must match
        `output_schema`, if one is given. A prompt that begins with a slash command from a file is expanded.
        """
        prompt, model = self._expanded(prompt)
        spec = self._leader(agent)
        if output_schema is not None:
            spec = replace(spec, output_schema=await checked_schema(output_schema))
        return await self._parts.tasks.service.turn(
            spec, prompt, session, named=named, waits=waits, model=model
        )

    async def start_follow_up(
        self, session: str, agent: str = "", said: UserMessage | None = None
    ) -> LocalTask | None:
        """Start a turn of an idle conversation for new messages and results, or for what is `said`.

        None when nothing new needs a turn; `MessageKept` when the budget is spent.
        """
        return await self._parts.tasks.service.hear(self._leader(agent), session, said)

    async def has_news(self, session: Task) -> bool:
        """Whether an idle conversation has new messages or results that need a turn."""
        if await self.history.unread(session.id) or self._parts.tasks.service.commands_ended(session):
            return True
        return worth_a_turn(session, await self.history.tasks(TaskQuery(parent=session.id)))

    async def compact(self, session: str, agent: str = "") -> bool:
        """Compact an idle conversation; False when it is too short."""
        return await self._parts.tasks.service.compact(self._leader(agent), session)

    async def rewind_points(self, session: str) -> "list[RewindPoint]":
        """The points that a conversation can be rewound to: its prompts and earlier rewinds, oldest first."""
        return await self._parts.tasks.rewinder.points(await self.find(session, conversation=True))

    async def preview_rewind(self, session: str, to: int) -> "RewindPreview":
        """What rewinding to before a prompt, by its event number, would change."""
        return await self._parts.tasks.rewinder.preview(await self.find(session, conversation=True), to)

    async def rewind(
        self,
        session: str,
        to: int,
        *,
        conversation: bool = True,
        files: bool = True,
        overwrite: bool = False,
    ) -> "Rewound":
        """Rewind an idle conversation, and the files its agents changed, to before a prompt.

        Files that were changed by others since are left as they are, unless `overwrite`.
        """
        found = await self.find(session, conversation=True)
        return await self._parts.tasks.service.rewind(
            found, to, conversation=conversation, files=files, overwrite=overwrite
        )

    async def recover(self, tell: Callable[[Event], Awaitable[None]] | None = None) -> None:
        """Until cancelled, end tasks of this folder whose process hangs; `tell` gets notices of them."""
        parts = self._parts
        liveness = FolderLiveness(parts.store, self.workspace.root, parts.supervisor.timing, tell)
        await recover_folder(parts.store, liveness)

    def scheduler(
        self, opening: "OpenFolderOf", tell: Callable[[str], None], mine: "Callable[[ScheduledJob], bool]"
    ) -> "Scheduler":
        """Runs the scheduled jobs that are `mine`; `tell` gets a line about each that ended or was missed."""
        from gencode.tasks.scheduler import Scheduler

        return Scheduler(self._parts.store, self.outbox, opening, tell, mine)

    def explain(
        self, tool: str, arguments: dict[str, Any], *, agent: str = "", background: bool = False
    ) -> Explanation:
        """Explain what would be decided about a call of the main agent, or of one that it would start."""
        parts = self._parts
        spec = self.agents.find(agent) if checked_text("agent", agent) else None
        who = spec or parts.setup_builder.main()
        served = checked_text("tool", tool).startswith(MCP)
        foresight = CallExplainer(
            parts.setup_builder, parts.toolbox, parts.mcp_servers.tools(who) if served else ()
        )
        found = foresight.explain(tool, arguments, parts.session.caller(), spec, background=background)
        absent = parts.mcp_servers.absent(who, tool) if served else None
        return replace(found, notes=(*found.notes, absent.why)) if absent else found

    async def outcome(self, job: RunningTask) -> Outcome:
        """The outcome of a task, once it has ended; cancelling the wait stops the task."""
        try:
            return await self.outcome_of(await job.ended())
        except asyncio.CancelledError:
            await job.halt(CALLER_CANCELLED)
            raise

    def _handle(self, job: RunningTask) -> Handle:
        parts = self._parts
        return Handle(job, parts.bus, parts.store, self.outcome_of, parts.tasks.actions, parts.tasks.outputs)

    def _expanded(self, prompt: Prompt) -> tuple[UserMessage, str]:
        """A prompt with its slash command expanded, and the model that the command asks for."""
        said = checked_message(prompt)
        found = self.commands.message(said.text) if said.text.startswith("/") else None
        if found is None:
            return said, ""
        command, meant = found
        return replace(said, text=meant.text, runs=meant.runs), command.model

    def _leader(self, agent: str) -> AgentSpec:
        """The agent that leads a conversation."""
        if checked_text("agent", agent) not in ("", MAIN):
            return self.agents.find(agent)
        return self._parts.setup_builder.main()


def components(gen: GenCode) -> Components:
    """The internal parts of an open GenCode, for a worker that opens it for others and for tests."""
    return gen._parts  # pyright: ignore[reportPrivateUsage] the one door to it
