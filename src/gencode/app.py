"""The Python API: `GenCode`, and what the interfaces use beside it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import msgspec

from gencode.agent.models import Model
from gencode.agent.ports import Provider
from gencode.agent.toolbox import MCP, Tool
from gencode.agents.registry import MAIN, Registry
from gencode.agents.registry import AgentEntry as AgentEntry
from gencode.core.outcome import Outcome
from gencode.core.questions import Asker
from gencode.core.spec import TaskRequest
from gencode.core.status import EndReason, StopCause
from gencode.journal.dispatch import Handover
from gencode.journal.event_bus import EventListener
from gencode.journal.store import Store
from gencode.mcp.session_servers import SCREEN_WAIT as SCREEN_WAIT
from gencode.mcp.session_servers import Change as Change
from gencode.mcp.session_servers import ServerReport as ServerReport
from gencode.mcp.session_servers import ServerState as ServerState
from gencode.mcp.session_servers import describe_servers as describe_servers
from gencode.permissions.explanation import Explanation
from gencode.stores.memory import MemoryStore
from gencode.stores.open_store import open_store as open_store
from gencode.stores.sqlite_schema import VERSION
from gencode.stores.sqlite_schema import migrate as migrate
from gencode.tasks.actions import StruckTask, TaskAction
from gencode.tasks.argument_checks import checked_text
from gencode.tasks.crash_recovery import close_task
from gencode.tasks.explain_call import CallExplainer
from gencode.tasks.fork import EventNumber, Fork
from gencode.tasks.handle import ConversationTurn, Handle, TaskOptions, task_request
from gencode.tasks.process_engine import WorkOrder as WorkOrder
from gencode.tasks.running_task import LocalTask, RunningTask
from gencode.tasks.service import Prompt
from gencode.tools.catalog import TOOLS as TOOLS
from gencode.tools.file_search import find_ripgrep as find_ripgrep
from gencode.wiring import Components, opened
from gencode.wiring import agents_if_trusted as agents_if_trusted
from gencode.wiring import started_if_trusted as started_if_trusted

if TYPE_CHECKING:
    from gencode.mcp.servers import ServerCandidate as ServerCandidate

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
        self.settings = parts.settings
        self.workspace = parts.workspace
        self.store = parts.store
        self.supervisor = parts.supervisor
        self.bus = parts.bus
        self.project = parts.project
        self.library = parts.library
        self.switchboard = parts.switchboard
        self.models = parts.models
        self.plugins = parts.plugins
        self.secretary = parts.secretary
        self.toolbox = parts.toolbox
        self._named = parts.named_tools
        self.root = parts.root
        self.servers = parts.servers
        self.seating = parts.seating
        self.watch = parts.watch
        self.reach = parts.reach
        self.records = parts.records
        self.session = parts.session
        self.workplaces = parts.workplaces
        self.processes = parts.processes
        self.delegation = parts.delegation
        self.work = parts.work
        self.verbs = parts.verbs
        self.history = parts.history
        self.find, self.outcome_of = self.records.find, self.records.outcome_of
        self.set_budget = self.work.set_budget
        past = self.history
        self.journal, self.replay, self.difference = past.journal, past.replay, past.difference

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
    def agents(self) -> Registry:
        """The agents there are, as their files are now."""
        return self.library.agents

    @property
    def model(self) -> Model:
        """The main agent's model: the one that was chosen, or named, or the usual one."""
        return self.session.model.current

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

    async def stop(self, task: str, *, keep: bool = False, tree: bool = False) -> StruckTask:
        """Stop a task, whichever process runs it, and what it waits for; its outcome, and all that was hit.

        With `keep` it first says in one turn what it has found; `tree` also stops what it sent to the
        background.
        """
        return await self.verbs.stop(task, keep=keep, tree=tree)

    async def send(self, task: str, message: str) -> tuple[Outcome, bool]:
        """Say something to a task, whichever process runs it; its outcome, and whether that woke it.

        A running agent hears it before its next reply, one that has ended goes on with it.
        """
        return await self.verbs.steer(task, message)

    async def interrupt(self, task: str, message: str = "") -> StruckTask:
        """Cut what a task does at this moment; its outcome, and all that was hit.

        An agent goes on from there, a conversation's turn is over.
        """
        return await self.verbs.interrupt(task, message)

    async def hits(self, task: str, verb: TaskAction) -> list[Outcome]:
        """What a verb (interrupt, steer, keep, stop or tree) would hit now, the task itself first."""
        return await self.verbs.hits(task, verb)

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
        job = await self.work.fork(task, Fork(at), task_request("", prompt, options, background=background))
        return self._handle(job) if background else await self.outcome(job)

    def ask(self, prompt: str, *, session: str | None = None, agent: str = "") -> ConversationTurn:
        """Say something in the main conversation: iterate over the events, or await `.outcome()`."""
        return ConversationTurn(self.bus, lambda: self.start_turn(prompt, session, agent), self.outcome)

    async def tasks(self, parent: str | None = None) -> list[Outcome]:
        """The tasks of subagents, oldest first; with `parent`, those that it asked for."""
        return await self.records.sent_by(parent)

    async def get(self, task: str) -> Outcome:
        """One task by its id, which may be shortened while it is unambiguous."""
        return await self.records.get(await self.find(task))

    async def show(self, task: str) -> Outcome:
        """One task with its transcript and the gate's decisions."""
        return await self.records.show(await self.find(task))

    async def export(self, task: str) -> str:
        """The journal of one task as JSONL."""
        from gencode.stores.jsonl import export_task

        return export_task(await self.store.lines((await self.find(task)).id))

    async def take_in(self, text: str) -> tuple[Outcome, list[str]]:
        """Keep an exported task; its outcome, and what could not be read of it."""
        from gencode.stores.jsonl import import_task

        journal = import_task(checked_text("journal of a task", text))
        await self.store.adopt(journal.imported(str(self.workspace.cwd)))
        task = journal.events[0].task
        await close_task(self.store, task, self.supervisor.owner)
        return await self.get(task), journal.warnings

    def listen(self) -> EventListener:
        """Everything that happens from now on; close the listener when done."""
        return self.bus.listen()

    async def start_task(self, request: TaskRequest) -> RunningTask:
        """Start one subagent without a main conversation: the settings are its root policy."""
        return await self.work.start(request)

    async def start_resume(self, task: str, request: TaskRequest) -> RunningTask:
        """Go on with an earlier task, as it was; with a conversation, as the settings are now."""
        found = await self.find(task)
        if found.conversation and request.output_schema is None:
            return await self.start_turn(request.prompt, found.id, found.agent)
        return await self.work.resume(found.id, request)

    async def detach(self, request: TaskRequest) -> Outcome:
        """Start one subagent, or go on with an earlier one, in a process that outlives this one."""
        return await self.get(await self.work.detach(request))

    async def take_on(self, handover: Handover) -> RunningTask:
        """Start what another process handed over to this one."""
        return await self.work.take_on(handover)

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
        other = checked_text("agent", agent) not in ("", MAIN)
        spec = self.agents.find(agent) if other else self.agents.main(self._named)
        return await self.work.turn(spec, prompt, session, named=named, waits=waits)

    def explain(
        self, tool: str, arguments: dict[str, Any], *, agent: str = "", background: bool = False
    ) -> Explanation:
        """What would be decided about a call of the main agent, or of one that it would send."""
        spec = self.agents.find(agent) if checked_text("agent", agent) else None
        who = spec or self.agents.main(self._named)
        served = checked_text("tool", tool).startswith(MCP)
        foresight = CallExplainer(self.seating, self.toolbox, self.servers.tools(who) if served else ())
        found = foresight.explain(tool, arguments, self.session.caller(), spec, background=background)
        absent = self.servers.absent(who, tool) if served else None
        return msgspec.structs.replace(found, notes=(*found.notes, absent.why)) if absent else found

    async def outcome(self, job: RunningTask) -> Outcome:
        """The outcome of a job, once it has ended; whoever is cancelled while waiting stops the job."""
        try:
            return await self.outcome_of(await job.ended())
        except asyncio.CancelledError:
            await job.halt(CALLER_CANCELLED)
            raise

    def _handle(self, job: RunningTask) -> Handle:
        return Handle(job, self.bus, self.store, self.outcome_of, self.verbs)
