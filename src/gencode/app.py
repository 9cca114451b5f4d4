"""The Python API: `GenCode` with its methods (ask, task, resume, fork, send, stop, tasks, explain)."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import msgspec

from gencode.agent.models import Model
from gencode.agent.ports import Provider
from gencode.agent.toolbox import MCP, Tool, Toolbox
from gencode.agents.registry import MAIN, Registry
from gencode.agents.registry import AgentEntry as AgentEntry
from gencode.agents.skills import Skills
from gencode.api_objects import (
    Budgets,
    History,
    ImportedTask,
    Models,
    RunningTasks,
    SentMessage,
    TaskJournal,
    Workers,
)
from gencode.channels.address import Address
from gencode.core.budget import Budget
from gencode.core.events import Event
from gencode.core.messages import UserMessage
from gencode.core.outcome import Outcome
from gencode.core.questions import Asker, QuestionStore
from gencode.core.rules import Mode, Policy
from gencode.core.spec import AgentSpec, TaskRequest, Workspace
from gencode.core.status import EndReason, StopCause
from gencode.core.task import Task
from gencode.journal.dispatch import Handover, SharedJournal
from gencode.journal.event_bus import EventListener
from gencode.journal.store import Store, TaskQuery
from gencode.mcp.session_servers import SCREEN_WAIT as SCREEN_WAIT
from gencode.mcp.session_servers import Change as Change
from gencode.mcp.session_servers import ServerReport as ServerReport
from gencode.mcp.session_servers import ServerState as ServerState
from gencode.mcp.session_servers import SessionServers
from gencode.mcp.session_servers import describe_servers as describe_servers
from gencode.permissions.explanation import Explanation
from gencode.permissions.trust import FolderTrust
from gencode.settings import Settings
from gencode.stores.memory import MemoryStore
from gencode.stores.open_store import open_store as open_store
from gencode.stores.sqlite_schema import VERSION
from gencode.stores.sqlite_schema import migrate as migrate
from gencode.tasks.argument_checks import MESSAGE, TASK, checked_text
from gencode.tasks.control import MessageKept as MessageKept
from gencode.tasks.crash_recovery import close_task, recover_folder
from gencode.tasks.delivery import worth_a_turn
from gencode.tasks.explain_call import CallExplainer
from gencode.tasks.fork import EventNumber, Fork
from gencode.tasks.handle import (
    INTERRUPTED,
    STOPPED,
    ConversationTurn,
    Handle,
    StruckTask,
    TaskAction,
    TaskOptions,
    task_request,
)
from gencode.tasks.history import Replay
from gencode.tasks.liveness import FolderLiveness
from gencode.tasks.process_engine import WorkOrder as WorkOrder
from gencode.tasks.remote_task import DetachedTask
from gencode.tasks.running_task import LocalTask, RunningTask
from gencode.tasks.service import Prompt
from gencode.tasks.supervisor import CLOSING as CLOSING
from gencode.tasks.supervisor import REPORT_SECONDS as REPORT_SECONDS
from gencode.tasks.watch import readable_events
from gencode.tools.catalog import TOOLS as TOOLS
from gencode.tools.file_search import find_ripgrep as find_ripgrep
from gencode.wiring import Components, opened
from gencode.wiring import agents_if_trusted as agents_if_trusted
from gencode.wiring import started_if_trusted as started_if_trusted

if TYPE_CHECKING:
    from gencode.channels.outbox import Outbox
    from gencode.mcp.servers import ServerCandidate as ServerCandidate
    from gencode.schedule.scheduled_jobs import JobCalendar, ScheduledJob
    from gencode.tasks.history import Comparison
    from gencode.tasks.scheduler import OpenFolderOf, Scheduler

SCHEMA_VERSION = VERSION
CALLER_CANCELLED = StopCause(EndReason.CALLER_GONE, "whoever waited for it was cancelled")
forgetful: Callable[[], Store] = MemoryStore
"""A journal in memory, for what should leave no trace."""


def database_users(path: Path) -> list[str]:
    """The other processes that have a database open, as far as this system tells."""
    from gencode.stores.sqlite_upgrade import users_of

    return users_of(path)


class GenCode:
    """One open GenCode: a workspace, a journal, agents, models and tools. Use `GenCode.open`."""

    def __init__(self, parts: Components) -> None:
        """Use `GenCode.open` instead."""
        self._parts = parts
        self.history = History(parts)
        """Reads the journal: the tasks of every process."""
        self.running = RunningTasks(parts)
        """The tasks and background commands of this process."""
        self.models = Models(parts)
        """The models that can be used, and what they cost."""
        self.budgets = Budgets(parts)
        """What conversations and tasks may spend."""

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
        """Open a workspace. `model` is a name or a provider of your own, which then answers every agent.

        `settings` count like flags: over the environment and the settings files.
        """
        async with opened(cwd, model, tools, settings, store, asker) as parts:
            yield cls(parts)

    @property
    def settings(self) -> Settings:
        """The settings of this session."""
        return self._parts.settings

    @property
    def workspace(self) -> Workspace:
        """The folder that is worked in."""
        return self._parts.workspace

    @property
    def project(self) -> FolderTrust:
        """What the folder brings, and whether a person trusts it."""
        return self._parts.project

    @property
    def agents(self) -> Registry:
        """The agents there are, as their files are now."""
        return self._parts.library.agents

    @property
    def skills(self) -> Skills:
        """The skills there are, as their files are now."""
        return self._parts.library.skills

    @property
    def toolbox(self) -> Toolbox:
        """Every tool by its name, those of plugins and of this program included."""
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
        """The main agent's model: the one that was chosen, or named, or the usual one."""
        return self._parts.session.model.current

    @property
    def policy(self) -> Policy:
        """The permission mode and the rules of this session."""
        return self._parts.policy_root.policy

    def set_policy(self, policy: Policy) -> None:
        """Go on under another policy; it applies to running agents, too."""
        self._parts.policy_root.policy = policy

    def switch_mode(self, mode: Mode) -> None:
        """Go on in another permission mode; it applies to running agents, too."""
        self._parts.policy_root.switch(mode)

    @property
    def schedule(self) -> "JobCalendar":
        """The scheduled jobs."""
        return self._parts.messaging.calendar

    @property
    def outbox(self) -> "Outbox":
        """Sends messages to people through channels."""
        return self._parts.messaging.outbox

    def reply_through(self, session: str, address: Address) -> None:
        """Note the channel through which the person of a conversation speaks: it gets what agents send."""
        self._parts.messaging.comes_from(session, address)

    @property
    def questions(self) -> QuestionStore:
        """The questions of agents of every process that wait for an answer."""
        return self._parts.store.questions

    @property
    def workers(self) -> Workers | None:
        """The workers of a shared database; None where there can be none."""
        store = self._parts.store
        return Workers(store, store) if isinstance(store, SharedJournal) else None

    @property
    def uses_workers(self) -> bool:
        """Whether tasks in processes of their own run on the workers of a shared database."""
        return self._parts.other_processes.far

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
        """Run one subagent to its end and give its outcome, or in the background and give a handle."""
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
        """Go on with an earlier task of this folder, which keeps its identity, model and permissions."""
        job = await self.start_resume(task, task_request("", prompt, options, background=background))
        return self._handle(job) if background else await self.outcome(job)

    async def stop(
        self, task: str, *, keep: bool = False, tree: bool = False, why: StopCause = STOPPED
    ) -> StruckTask:
        """Stop a task, whichever process runs it, and what it waits for; its outcome, and all that stopped.

        With `keep` it first says in one turn what it has found; `tree` also stops what it sent to the
        background.
        """
        return await self._parts.actions.stop(task, keep=keep, tree=tree, why=why)

    async def interrupt(self, task: str, message: str = "", *, why: StopCause = INTERRUPTED) -> StruckTask:
        """Interrupt what a task does at this moment; its outcome, and all that was interrupted.

        An agent goes on from there, a conversation's turn is over.
        """
        return await self._parts.actions.interrupt(task, message, why=why)

    async def hits(self, task: str, verb: TaskAction) -> list[Outcome]:
        """What a verb (interrupt, steer, keep, stop or tree) would affect now, the task itself first."""
        return await self._parts.actions.hits(task, verb)

    async def send(self, task: str, message: str, *, here: bool = False) -> SentMessage:
        """Send a message to a task, whichever process runs it; the task then, and whether it was resumed.

        A running agent reads it before its next reply; one that has ended goes on with it, in a process of
        its own where that is possible, unless it should be `here`.
        """
        now, resumed = await self._parts.service.send(task, checked_text(MESSAGE, message), here=here)
        return SentMessage(await self.outcome_of(now), resumed)

    async def post(self, task: str, message: str) -> Task:
        """Leave a message for a task by its whole id, without resuming one that has ended; the task then."""
        return await self._parts.control.send(task, message)

    async def send_to_background(self, task: str) -> Outcome:
        """Let whoever waits for a task go on without it; its outcome then."""
        found = await self.find(task)
        return await self.history.outcome(await self._parts.control.move_to_background(found.id))

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
        """Run a new task that begins with what another one had said and heard up to fact number `at`."""
        job = await self._parts.service.fork(
            task, Fork(at), task_request("", prompt, options, background=background)
        )
        return self._handle(job) if background else await self.outcome(job)

    def ask(self, prompt: str, *, session: str | None = None, agent: str = "") -> ConversationTurn:
        """Say something in the main conversation: iterate over the events, or await `.outcome()`."""
        return ConversationTurn(
            self._parts.bus, lambda: self.start_turn(prompt, session, agent), self.outcome
        )

    async def set_budget(self, task: str, budget: Budget | Mapping[str, float | None]) -> Budget:
        """Let a task spend so much over its whole life, with everything below it, running or not.

        UserMistake when less is left above it.
        """
        return await self._parts.service.set_budget(task, budget)

    async def find(self, task: str, *, conversation: bool = False) -> Task:
        """The stored state of a task by its id, which may be shortened while it is unambiguous.

        UnknownName offers other tasks, or with `conversation` other conversations.
        """
        return await self._parts.records.find(task, conversation=conversation)

    async def outcome_of(self, task: Task) -> Outcome:
        """A stored task in its public shape, with the usage of everything below it."""
        return await self._parts.records.outcome_of(task)

    async def journal(self, task: str, after: int = 0) -> TaskJournal:
        """The events of a task by its whole id, after a sequence number, as far as they can be read."""
        events, problem = await readable_events(self._parts.store, checked_text(TASK, task), after)
        return TaskJournal(events, str(problem or ""))

    async def replay(self, task: str) -> Replay:
        """Replay a task and everything below it from the journal; whether that leads to the stored state."""
        return await self._parts.history.replay(task)

    async def difference(self, task: str, other: str) -> "Comparison":
        """Where two runs differ: in what was read, said, called and given, and in all below them."""
        return await self._parts.history.difference(task, other)

    async def tasks(self, parent: str | None = None) -> list[Outcome]:
        """The tasks of subagents, oldest first; with `parent`, those that it started."""
        return await self._parts.records.sent_by(parent)

    async def get(self, task: str) -> Outcome:
        """One task by its id, which may be shortened while it is unambiguous."""
        return await self.history.outcome(await self.find(task))

    async def show(self, task: str) -> Outcome:
        """One task with its transcript and permission decisions."""
        return await self.history.with_transcript(await self.find(task))

    async def delete(self, task: str) -> list[str]:
        """Delete a task that no other task started, with everything below it; the ids of what is gone."""
        return await self._parts.records.delete(await self.find(task))

    async def export(self, task: str) -> str:
        """The journal of one task as JSONL."""
        from gencode.stores.jsonl import export_task

        return export_task(await self._parts.store.lines((await self.find(task)).id))

    async def take_in(self, text: str) -> ImportedTask:
        """Import an exported task; its outcome, and what could not be read of it."""
        from gencode.stores.jsonl import import_task

        store = self._parts.store
        journal = import_task(checked_text("journal of a task", text))
        await store.adopt(journal.imported(str(self.workspace.cwd)))
        task = journal.events[0].task
        await close_task(store, task, self._parts.supervisor.owner)
        return ImportedTask(await self.get(task), journal.warnings)

    def listen(self) -> EventListener:
        """Everything that happens from now on; close the listener when done."""
        return self._parts.bus.listen()

    async def start_task(self, request: TaskRequest) -> RunningTask:
        """Start one subagent without a main conversation: the settings are its root policy."""
        return await self._parts.service.start(request)

    async def start_resume(self, task: str, request: TaskRequest) -> RunningTask:
        """Go on with an earlier task, as it was; with a conversation, as the settings are now."""
        found = await self.find(task)
        if found.conversation and request.output_schema is None:
            return await self.start_turn(request.prompt, found.id, found.agent)
        return await self._parts.service.resume(found.id, request)

    async def start_fork(self, task: str, fork: Fork, request: TaskRequest) -> RunningTask:
        """Start a new task that begins with what another one knew at some point."""
        return await self._parts.service.fork(task, fork, request)

    async def detach(self, request: TaskRequest) -> Outcome:
        """Start one subagent, or go on with an earlier one, in a process that outlives this one."""
        return await self.get(await self._parts.service.detach(request))

    async def detach_fork(self, task: str, fork: Fork, request: TaskRequest) -> DetachedTask:
        """Start a fork in a process that outlives this one, or on a worker that has its folder."""
        return await self._parts.service.fork_detached(task, fork, request)

    async def fork_in_background(self, task: str, fork: Fork, request: TaskRequest) -> Outcome:
        """Start a fork that nobody waits for: here, or on a worker where its folder is not here."""
        return await self.outcome_of(await self._parts.service.fork_in_background(task, fork, request))

    async def take_on(self, handover: Handover) -> RunningTask:
        """Start what another process handed over to this one."""
        return await self._parts.service.take_on(handover)

    async def start_turn(
        self,
        prompt: Prompt,
        session: str | None = None,
        agent: str = "",
        *,
        named: str = "",
        waits: bool = False,
    ) -> LocalTask:
        """Start a turn of the main conversation, or of one with `agent` in the main seat.

        A new conversation gets the id it is `named` by, if that is free. With `waits` it also waits for its
        background commands; else their end is told in the next turn.
        """
        return await self._parts.service.turn(self._leader(agent), prompt, session, named=named, waits=waits)

    async def start_follow_up(
        self, session: str, agent: str = "", said: UserMessage | None = None
    ) -> LocalTask | None:
        """Start a turn of an idle conversation for what has come to it: messages, results, or what is `said`.

        None when nothing waits that is worth a turn; `MessageKept` when the budget is spent.
        """
        return await self._parts.service.hear(self._leader(agent), session, said)

    async def has_news(self, session: Task) -> bool:
        """Whether something has come to an idle conversation that is worth a turn."""
        if await self.history.unread(session.id) or self._parts.service.commands_ended(session):
            return True
        return worth_a_turn(session, await self.history.tasks(TaskQuery(parent=session.id)))

    async def compact(self, session: str, agent: str = "") -> bool:
        """Summarise an idle conversation; False when there is too little of it."""
        return await self._parts.service.compact(self._leader(agent), session)

    async def recover(self, tell: Callable[[Event], Awaitable[None]] | None = None) -> None:
        """Until cancelled, close tasks of this folder whose process hangs; `tell` gets notices of them."""
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
        """What would be decided about a call of the main agent, or of one that it would start."""
        parts = self._parts
        spec = self.agents.find(agent) if checked_text("agent", agent) else None
        who = spec or self.agents.main(parts.named_tools)
        served = checked_text("tool", tool).startswith(MCP)
        foresight = CallExplainer(
            parts.setup_builder, parts.toolbox, parts.mcp_servers.tools(who) if served else ()
        )
        found = foresight.explain(tool, arguments, parts.session.caller(), spec, background=background)
        absent = parts.mcp_servers.absent(who, tool) if served else None
        return msgspec.structs.replace(found, notes=(*found.notes, absent.why)) if absent else found

    async def outcome(self, job: RunningTask) -> Outcome:
        """The outcome of a job, once it has ended; whoever is cancelled while waiting stops the job."""
        try:
            return await self.outcome_of(await job.ended())
        except asyncio.CancelledError:
            await job.halt(CALLER_CANCELLED)
            raise

    def _handle(self, job: RunningTask) -> Handle:
        return Handle(job, self._parts.bus, self._parts.store, self.outcome_of, self._parts.actions)

    def _leader(self, agent: str) -> AgentSpec:
        """The agent that leads a conversation."""
        if checked_text("agent", agent) not in ("", MAIN):
            return self.agents.find(agent)
        return self.agents.main(self._parts.named_tools)


def components(gen: GenCode) -> Components:
    """What an open GenCode is made of, for the worker that opens it for others and for tests of the parts."""
    return gen._parts  # pyright: ignore[reportPrivateUsage] the one door to it
