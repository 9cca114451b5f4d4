"""Where everything is put together by hand: the only file that imports every room, and the Python door."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast, overload

import msgspec

from gencode.agent.hook_settings import parse_hooks
from gencode.agent.instructions import Instructions, no_instructions
from gencode.agent.models import OFFLINE, Model, ModelRegistry
from gencode.agent.outgoing_mail import Business, Secretary
from gencode.agent.ports import Provider
from gencode.agent.toolbox import MCP, Tool, Toolbox
from gencode.agent.work_queue import Slots
from gencode.agents.library import Library
from gencode.agents.registry import MAIN, Registry
from gencode.agents.registry import AgentEntry as AgentEntry
from gencode.core.errors import UserMistake
from gencode.core.outcome import Outcome
from gencode.core.prices import Price
from gencode.core.questions import Asker
from gencode.core.reasons import Cause, EndReason
from gencode.core.rules import Policy
from gencode.core.spec import AgentSpec, TaskRequest, Workspace
from gencode.core.task import Task
from gencode.files.file_versions import FileVersions
from gencode.journal.dispatch import Dispatching
from gencode.journal.event_bus import Bus, Listener
from gencode.journal.handover import Engine, Handover
from gencode.journal.store import Store
from gencode.mcp.session_servers import FILES, SessionServers, Tables, server_commands
from gencode.mcp.session_servers import SCREEN_WAIT as SCREEN_WAIT
from gencode.mcp.session_servers import Change as Change
from gencode.mcp.session_servers import ServerReport as ServerReport
from gencode.mcp.session_servers import ServerState as ServerState
from gencode.mcp.session_servers import describe_servers as describe_servers
from gencode.permissions.calls import Approval
from gencode.permissions.chain import Root
from gencode.permissions.decision import check_tool
from gencode.permissions.explanation import Explanation
from gencode.permissions.project_files import SETTINGS
from gencode.permissions.started_files import StartedFiles, started_by
from gencode.permissions.trust import FolderTrust, standing
from gencode.places import database, outputs, workspace_at
from gencode.providers.vendors import ProviderFactory
from gencode.sessions.caller import Approved
from gencode.sessions.session import MainModel, Session, SessionShells
from gencode.settings import (
    Settings,
    folders_above,
    gen_home,
    layers,
    merged,
    policy_named,
    project_values,
    root_policy,
    server_tables,
)
from gencode.stores.memory import MemoryStore
from gencode.stores.open_store import open_store
from gencode.stores.sqlite_schema import VERSION
from gencode.stores.sqlite_schema import migrate as migrate
from gencode.tasks.actions import AnyVerb, StruckTask, Verbs
from gencode.tasks.argument_checks import a_text, check_opening, own_tools
from gencode.tasks.ask_parent import AskParent
from gencode.tasks.control import Reach
from gencode.tasks.crash_recovery import close_orphans, close_task
from gencode.tasks.delegate import Delegation
from gencode.tasks.explain_call import Foresight
from gencode.tasks.fork import At, Fork
from gencode.tasks.handle import Asking, Handle, Words, request
from gencode.tasks.history import History
from gencode.tasks.liveness import Timing
from gencode.tasks.other_process import Apart
from gencode.tasks.plan import TaskPlanner
from gencode.tasks.process_engine import ProcessEngine
from gencode.tasks.process_engine import WorkOrder as WorkOrder
from gencode.tasks.records import Records
from gencode.tasks.resume import EarlierPlaces
from gencode.tasks.running_task import Job, Live
from gencode.tasks.seat_builder import Customs, Seating
from gencode.tasks.service import Prompt, Terms, Work
from gencode.tasks.start import TaskStarter
from gencode.tasks.supervisor import Supervisor
from gencode.tasks.task_folders import Workplaces
from gencode.tasks.watch import Watch
from gencode.telemetry.otel_setup import Telemetry
from gencode.tools.catalog import TOOLS as TOOLS
from gencode.tools.catalog import Plugins, on_request
from gencode.tools.file_search import find_ripgrep as find_ripgrep
from gencode.tools.skill import as_task_call, skill_tool

if TYPE_CHECKING:
    from gencode.mcp.servers import ServerCandidate as ServerCandidate
    from gencode.questions.question_desk import QuestionDesk

SCHEMA_VERSION = VERSION
CALLER_CANCELLED = Cause(EndReason.CALLER_GONE, "whoever waited for it was cancelled")
forgetful: Callable[[], Store] = MemoryStore
"""A journal in memory, for what should leave no trace."""


def database_users(path: Path) -> list[str]:
    """The other processes that have a database open, as far as this system tells."""
    from gencode.stores.sqlite_upgrade import users_of

    return users_of(path)


def agents_if_trusted(project: FolderTrust) -> Registry:
    """The agents there would be if a folder were trusted as it was looked at."""
    return Registry.load(gen_home(), msgspec.structs.replace(project, state="trusted"))


def started_if_trusted(project: FolderTrust) -> StartedFiles:
    """The files of a folder that hooks and servers would start, of all that it brings."""
    entries = (entry for entry in agents_if_trusted(project).listing() if entry.project)
    texts = project.brought.texts
    try:
        servers: dict[str, Any] = project_values(project).get("mcp_servers") or {}
    except UserMistake:  # it cannot be trusted like this, and whoever shows it says why
        servers = {}
    tables: Tables = [(SETTINGS, servers, False)] if servers else []
    files = {path: texts[path] for path in FILES if path in texts}
    return _started(project.folder, (entry.spec for entry in entries), tables, files)


def _started(
    folder: Path,
    specs: Iterable[AgentSpec | None],
    tables: Tables,
    files: Mapping[str, bytes],
    hooks: object = None,
) -> StartedFiles:
    """What agents, servers and `hooks` for everybody start of a folder."""
    lines = [] if hooks is None else [(each.command, "") for each in parse_hooks(hooks, of_agent=False).hooks]
    with suppress(UserMistake):  # a table of servers that cannot be read starts nothing
        lines += server_commands(tables, files)
    for spec in specs:
        if spec is not None and (spec.hooks or spec.mcp_servers):
            own = parse_hooks(spec.hooks, of_agent=True).hooks
            lines += [(each.command, "") for each in own if not each.broken]
            lines += server_commands((), {}, spec.mcp_servers)
    return started_by(lines, folder) if lines else StartedFiles()


def _desk(asker: Asker | None) -> "QuestionDesk | None":
    """The question desk, where people are asked; nothing of it is loaded where nobody can be."""
    if asker is None:
        return None
    from gencode.questions.question_desk import QuestionDesk

    return asker if isinstance(asker, QuestionDesk) else None


class GuardedWorkspace:
    """The folder of a session, with the files in it that hooks and servers start."""

    def __init__(
        self,
        workspace: Workspace,
        library: Library,
        hooks: Mapping[str, Any],
        tables: Tables,
        files: Mapping[str, bytes],
    ) -> None:
        self._workspace = workspace
        self._library = library
        self._hooks = hooks or None
        self._tables = tables
        self._files = files
        self._known: tuple[Registry, Workspace] | None = None

    def current(self) -> Workspace:
        """The folder as it is now; agents that changed may start other files."""
        agents = self._library.last_agents
        if self._known is None or self._known[0] is not agents:
            specs = (entry.spec for entry in agents.listing())
            found = _started(self._workspace.root, specs, self._tables, self._files, self._hooks)
            self._known = agents, msgspec.structs.replace(self._workspace, started=found.files)
        return self._known[1]


class Surroundings(msgspec.Struct, frozen=True, eq=False):
    """What one open GenCode is given from outside."""

    settings: Settings
    policy: Policy
    workspace: Workspace
    project: FolderTrust
    store: Store
    asker: Asker | None = None
    provider: Provider | None = None
    engine: Engine | None = None
    flags: Mapping[str, Any] = {}
    servers: Tables = ()


class GenCode:
    """One open GenCode: a workspace, a journal, agents, models and tools. Use `GenCode.open`."""

    def __init__(self, around: Surroundings, supervisor: Supervisor, tools: Iterable[Tool] = ()) -> None:
        self.settings = told = around.settings
        self.workspace = around.workspace
        self.store = around.store
        self.supervisor = supervisor
        self.bus = Bus(around.store.events)
        self.project = around.project
        """How the folder stands: what it brings counts only when a person trusts it."""
        above = [standing(each, gen_home()) for each in folders_above(self.workspace.root)]
        self.library = Library(gen_home(), [around.project, *above], as_task_call, self.settings.agents)
        """The agents and skills there are, as their files are now."""
        self.switchboard = ProviderFactory(told.prices, store=self.store, rates=told.fleet_rates)
        self.models = ModelRegistry(self.switchboard.makers(), self.switchboard.tiers(told.models))
        self.plugins = Plugins()
        skill = skill_tool(lambda: self.library.skills, delegates=True)
        self.secretary = self._secretary()
        self.toolbox = Toolbox((*TOOLS, skill, *on_request(gen_home, self.secretary), *tools), self.plugins)
        self._named = self.toolbox.matching(self.settings.tools)
        for rule in (rules := around.policy.rules):
            check_tool(rule.tool, self.toolbox)
        self.root = Root(around.policy)
        """The policy of the session; a change of it reaches every agent that runs."""
        kept = Instructions(gen_home()) if told.instructions else no_instructions
        once: set[Approval] = set()
        brought = around.project.brought.texts if around.project.trusted else {}
        files = {name: brought[name] for name in FILES if name in brought}
        self.servers = SessionServers(gen_home(), self.workspace.root, around.servers, files, once, rules)
        outside = (told.hooks, self.servers, told.append_system_prompt)
        customs = Customs(told.max_depth, self._price, kept, self.library, *outside)
        self.seating = seating = Seating(self.library, self.models, self.toolbox, customs)
        self.watch = Watch(self.store, supervisor.owner, outputs())
        self.reach = Reach(self.store, supervisor, self.watch)
        self.records = Records(self.store, outputs(), self.workspace.cwd, told.agent_caps, told.stall_seconds)
        self.find, self.outcome_of = self.records.find, self.records.outcome_of
        self.session = Session(
            root=self.root,
            model=MainModel(self.models, told.model, self.switchboard.own(around.provider)),
            workspace=GuardedWorkspace(self.workspace, self.library, told.hooks, around.servers, files),
            stop=supervisor.stop,
            shells=SessionShells(gen_home(), told.sandbox, network=told.sandbox_network, bus=self.bus),
            files=FileVersions(),
            approved=Approved(once),
            asker=around.asker,
            own_policy=policy_named(around.flags),
            background_questions=told.background_questions,
        )
        self.workplaces = Workplaces(gen_home(), self.store)
        self.processes = Apart(self.store, self.bus, supervisor, around.engine)
        places = EarlierPlaces(
            self.store, self.models, seating, self.session, self.workplaces, self.processes
        )
        planner = TaskPlanner(self.store, seating, self.workplaces, places, supervisor.find, told)
        self.delegation = Delegation(
            self.store,
            supervisor,
            seating,
            planner,
            self.watch,
            self.reach,
            AskParent(self.store, supervisor, self.watch, told.question_seconds, told.answer_seconds),
            self._rouse,
            outputs(),
        )
        starter = TaskStarter(
            self.store,
            self.bus,
            seating,
            self.workplaces,
            self.processes,
            self.delegation,
            outputs(),
            told.command_seconds,
        )
        bounds = (self.settings.budget, self.settings.named_budget(around.flags))
        terms = Terms(self.settings.max_turns, self.settings.max_seconds, *bounds)
        self.work = Work(
            self.session, terms, self.store, self.records, self.delegation, starter, self.processes
        )
        self.verbs = Verbs(self.records, self.reach, self.work.send)
        self.set_budget = self.work.set_budget
        """Another budget for a task."""
        self.history = past = History(self.records, self.store)
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
        check_opening(cwd, model, settings, store, asker)
        workspace = workspace_at(Path(cwd))
        flags = {**(settings or {}), **({"model": model} if isinstance(model, str) and model else {})}
        project = standing(workspace.root, gen_home())
        chosen = merged(found := layers(workspace.root, flags, project=project))
        policy, tools = root_policy(found, chosen), own_tools(tools)
        alone = store is None and isinstance(model, str) and all(tool.source == "builtin" for tool in tools)
        async with AsyncExitStack() as stack:
            if store is None:
                store = await open_store(database(), chosen.durability, chosen.database_url)
                stack.push_async_callback(store.close)
            engine = _engine_for(store, gen_home(), workspace.cwd, flags, policy) if alone else None
            telling = await stack.enter_async_context(Telemetry(chosen.telemetry, chosen.telemetry_content))
            timing = Timing(chosen.stall_seconds, chosen.silence_seconds)
            supervising = Supervisor(store, Slots(chosen.max_agents, chosen.agent_caps), timing)
            desk = _desk(asker)
            if desk is not None:
                await stack.enter_async_context(desk.open(store, supervising.owner))
            supervisor = await stack.enter_async_context(supervising)
            await close_orphans(store, supervisor.owner, outputs())
            own = None if isinstance(model, str) else model
            given = (workspace, project, store, asker, own, engine, flags, server_tables(found))
            gen = cls(Surroundings(chosen, policy, *given), supervisor, tools)
            telling.follow(gen.bus, store, supervisor.elsewhere)
            stack.push_async_callback(gen.servers.close)
            gen.servers.start()
            stack.push_async_callback(gen.session.shells.close)
            if own is None and not chosen.model:
                gen.session.model.usual = await gen.switchboard.usual()
            if desk is not None:
                background = chosen.background_questions
                await stack.enter_async_context(desk.attend(str(workspace.cwd), background=background))
            yield gen

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
        self, agent: str, prompt: str, *, background: Literal[True], **words: Unpack[Words]
    ) -> Handle: ...
    @overload
    async def task(
        self, agent: str, prompt: str, *, background: bool = False, **words: Unpack[Words]
    ) -> Outcome: ...
    async def task(
        self, agent: str, prompt: str, *, background: bool = False, **words: Unpack[Words]
    ) -> Outcome | Handle:
        """Run one subagent to its end and give its outcome, or in the background and give a handle."""
        job = await self.start_task(request(agent, prompt, words, background=background))
        return self._handle(job) if background else await self.outcome(job)

    @overload
    async def resume(
        self, task: str, prompt: str, *, background: Literal[True], **words: Unpack[Words]
    ) -> Handle: ...
    @overload
    async def resume(
        self, task: str, prompt: str, *, background: bool = False, **words: Unpack[Words]
    ) -> Outcome: ...
    async def resume(
        self, task: str, prompt: str, *, background: bool = False, **words: Unpack[Words]
    ) -> Outcome | Handle:
        """Go on with an earlier task of this folder, which keeps its identity, model and permissions."""
        job = await self.start_resume(task, request("", prompt, words, background=background))
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

    async def hits(self, task: str, verb: AnyVerb) -> list[Outcome]:
        """What a verb (interrupt, steer, keep, stop or tree) would hit now, the task itself first."""
        return await self.verbs.hits(task, verb)

    @overload
    async def fork(
        self, task: str, prompt: str, *, background: Literal[True], at: At = None, **words: Unpack[Words]
    ) -> Handle: ...
    @overload
    async def fork(
        self, task: str, prompt: str, *, background: bool = False, at: At = None, **words: Unpack[Words]
    ) -> Outcome: ...
    async def fork(
        self, task: str, prompt: str, *, background: bool = False, at: At = None, **words: Unpack[Words]
    ) -> Outcome | Handle:
        """Run a new task that begins with what another one had said and heard up to fact number `at`."""
        job = await self.work.fork(task, Fork(at), request("", prompt, words, background=background))
        return self._handle(job) if background else await self.outcome(job)

    def ask(self, prompt: str, *, session: str | None = None, agent: str = "") -> Asking:
        """Say something in the main conversation: iterate over the events, or await `.outcome()`."""
        return Asking(self.bus, lambda: self.start_turn(prompt, session, agent), self.outcome)

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

        journal = import_task(a_text("journal of a task", text))
        await self.store.adopt(journal.imported(str(self.workspace.cwd)))
        task = journal.events[0].task
        await close_task(self.store, task, self.supervisor.owner)
        return await self.get(task), journal.warnings

    def listen(self) -> Listener:
        """Everything that happens from now on; close the listener when done."""
        return self.bus.listen()

    async def start_task(self, request: TaskRequest) -> Live:
        """Start one subagent without a main conversation: the settings are its root policy."""
        return await self.work.start(request)

    async def start_resume(self, task: str, request: TaskRequest) -> Live:
        """Go on with an earlier task, as it was; with a conversation, as the settings are now."""
        found = await self.find(task)
        if found.conversation and request.output_schema is None:
            return await self.start_turn(request.prompt, found.id, found.agent)
        return await self.work.resume(found.id, request)

    async def detach(self, request: TaskRequest) -> Outcome:
        """Start one subagent, or go on with an earlier one, in a process that outlives this one."""
        return await self.get(await self.work.detach(request))

    async def take_on(self, handover: Handover) -> Live:
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
    ) -> Job:
        """Start a turn of the main conversation, or of one with `agent` in the main seat.

        A new conversation gets the id it is `named` by, if that is free. With `waits` it also waits for its
        background commands; else their end is told in the next turn.
        """
        other = a_text("agent", agent) not in ("", MAIN)
        spec = self.agents.find(agent) if other else self.agents.main(self._named)
        return await self.work.turn(spec, prompt, session, named=named, waits=waits)

    def explain(
        self, tool: str, arguments: dict[str, Any], *, agent: str = "", background: bool = False
    ) -> Explanation:
        """What would be decided about a call of the main agent, or of one that it would send."""
        spec = self.agents.find(agent) if a_text("agent", agent) else None
        who = spec or self.agents.main(self._named)
        served = a_text("tool", tool).startswith(MCP)
        foresight = Foresight(self.seating, self.toolbox, self.servers.tools(who) if served else ())
        found = foresight.explain(tool, arguments, self.session.caller(), spec, background=background)
        absent = self.servers.absent(who, tool) if served else None
        return msgspec.structs.replace(found, notes=(*found.notes, absent.why)) if absent else found

    async def outcome(self, job: Live) -> Outcome:
        """The outcome of a job, once it has ended; whoever is cancelled while waiting stops the job."""
        try:
            return await self.outcome_of(await job.ended())
        except asyncio.CancelledError:
            await job.halt(CALLER_CANCELLED)
            raise

    async def _rouse(self, task: Task) -> Task:
        """Let an agent that has ended go on with the messages that wait for it."""
        return await self.work.rouse(task)

    def _handle(self, job: Live) -> Handle:
        return Handle(job, self.bus, self.store, self.outcome_of, self.verbs)

    def _secretary(self) -> Secretary:
        told = self.settings
        here = (gen_home(), self.workspace.cwd, lambda: self.root.policy, told.model, self.library.find)
        business = Business(*here, lambda task: self.supervisor.find(task) is not None, told.channels)
        return Secretary(self.store, self.bus, business)

    def _price(self, model: str) -> Price:
        """What a model costs and holds; what the user says that all hold counts."""
        price, room = self.switchboard.price(model), self.settings.context_tokens
        return price if room is None or model == OFFLINE else msgspec.structs.replace(price, context=room)


def _engine_for(store: Store, home: Path, cwd: Path, flags: Mapping[str, Any], policy: Policy) -> Engine:
    """The engine for a journal: processes beside a file, workers beside a database.

    What a queue needs is loaded only with a shared database. `policy` is what applies here: by the `flags`
    and by the settings that only this machine has.
    """
    if isinstance(store, Dispatching):
        from gencode.fleet.fleet_engine import FleetEngine
        from gencode.fleet.workspace_transfer import Shared

        return FleetEngine(cast(Shared, store), cwd, flags, home, policy)
    return ProcessEngine(home, cwd, flags)
