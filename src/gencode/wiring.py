"""The composition root: builds everything that one open GenCode is made of, and opens and closes it."""

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from gencode.agent.hook_settings import parse_hooks
from gencode.agent.instructions import Instructions, no_instructions
from gencode.agent.messaging import Messaging, MessagingContext
from gencode.agent.models import OFFLINE, ModelRegistry
from gencode.agent.ports import Provider
from gencode.agent.toolbox import Tool, Toolbox
from gencode.agent.work_queue import SlotPool
from gencode.agents.library import Library
from gencode.agents.registry import Registry
from gencode.core.budget import Price
from gencode.core.errors import UserMistake
from gencode.core.questions import Asker
from gencode.core.rules import Policy
from gencode.core.spec import AgentSpec, Workspace
from gencode.core.task import Task
from gencode.files.file_versions import FileVersions
from gencode.journal.dispatch import Engine, SharedJournal
from gencode.journal.event_bus import EventBus
from gencode.journal.store import Store
from gencode.mcp.session_servers import FILES, SessionServers, Tables, server_commands
from gencode.permissions.calls import Approval
from gencode.permissions.chain import Root
from gencode.permissions.decision import check_tool
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
from gencode.stores.open_store import open_store
from gencode.tasks.argument_checks import check_open_arguments, checked_tools
from gencode.tasks.ask_parent import QuestionRouter
from gencode.tasks.control import TaskControl
from gencode.tasks.crash_recovery import close_orphans
from gencode.tasks.delegate import Delegation
from gencode.tasks.handle import TaskActions
from gencode.tasks.history import TaskHistory
from gencode.tasks.liveness import LivenessTimeouts
from gencode.tasks.plan import TaskPlanner
from gencode.tasks.process_engine import ProcessEngine
from gencode.tasks.records import TaskRecords
from gencode.tasks.remote_task import OtherProcesses
from gencode.tasks.resume import CallerFactory
from gencode.tasks.service import SessionLimits, TaskService
from gencode.tasks.setup_builder import RunSetupBuilder, RunSetupDefaults
from gencode.tasks.start import TaskStarter
from gencode.tasks.supervisor import Supervisor
from gencode.tasks.task_folders import TaskFolders
from gencode.tasks.watch import TaskWatcher
from gencode.telemetry.otel_setup import Telemetry
from gencode.tools.catalog import TOOLS, Plugins, on_request
from gencode.tools.skill import as_task_call, skill_tool

if TYPE_CHECKING:
    from gencode.questions.question_desk import QuestionDesk


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


class Components(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What one open GenCode is made of."""

    settings: Settings
    workspace: Workspace
    project: FolderTrust
    """How the folder stands: what it brings counts only when a person trusts it."""
    store: Store
    supervisor: Supervisor
    bus: EventBus
    library: Library
    """The agents and skills there are, as their files are now."""
    providers: ProviderFactory
    models: ModelRegistry
    plugins: Plugins
    messaging: Messaging
    toolbox: Toolbox
    named_tools: tuple[str, ...]
    policy_root: Root
    """The policy of the session; a change of it reaches every agent that runs."""
    mcp_servers: SessionServers
    setup_builder: RunSetupBuilder
    session: Session
    watcher: TaskWatcher
    control: TaskControl
    records: TaskRecords
    task_folders: TaskFolders
    other_processes: OtherProcesses
    delegation: Delegation
    service: TaskService
    actions: TaskActions
    history: TaskHistory


class Surroundings(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What one open GenCode is given from outside."""

    settings: Settings
    policy: Policy
    workspace: Workspace
    project: FolderTrust
    store: Store
    supervisor: Supervisor
    tools: Iterable[Tool] = ()
    asker: Asker | None = None
    provider: Provider | None = None
    engine: Engine | None = None
    flags: Mapping[str, Any] = {}
    servers: Tables = ()


def build(around: Surroundings) -> Components:
    """Put together what one open GenCode is made of; nothing is started yet."""
    settings, store, supervisor = around.settings, around.store, around.supervisor
    workspace, policy = around.workspace, around.policy
    home, bus, root = gen_home(), EventBus(store.events), Root(policy)
    above = [standing(each, home) for each in folders_above(workspace.root)]
    library = Library(home, [around.project, *above], as_task_call, settings.agents)
    switchboard = ProviderFactory(settings.prices, store=store, rates=settings.fleet_rates)
    models = ModelRegistry(switchboard.makers(), switchboard.tiers(settings.models))
    secretary = _secretary(around, root, bus, library)
    plugins = Plugins()
    skill = skill_tool(lambda: library.skills, delegates=True)
    toolbox = Toolbox((*TOOLS, skill, *on_request(gen_home, secretary), *around.tools), plugins)
    named_tools = toolbox.matching(settings.tools)
    for rule in policy.rules:
        check_tool(rule.tool, toolbox)
    brought = around.project.brought.texts if around.project.trusted else {}
    files = {name: brought[name] for name in FILES if name in brought}
    once: set[Approval] = set()
    servers = SessionServers(home, workspace.root, around.servers, files, once, policy.rules)
    session = Session(
        root=root,
        model=MainModel(models, settings.model, switchboard.own(around.provider)),
        workspace=GuardedWorkspace(workspace, library, settings.hooks, around.servers, files),
        stop=supervisor.stop,
        shells=SessionShells(home, settings.sandbox, network=settings.sandbox_network, bus=bus),
        files=FileVersions(),
        approved=Approved(once),
        asker=around.asker,
        own_policy=policy_named(around.flags),
        background_questions=settings.background_questions,
    )
    defaults = RunSetupDefaults(
        depth=settings.max_depth,
        price=partial(_price, switchboard, settings),
        instructions=Instructions(home) if settings.instructions else no_instructions,
        skills=library,
        hooks=settings.hooks,
        outside=servers,
        appended=settings.append_system_prompt,
    )
    setups = RunSetupBuilder(library, models, toolbox, defaults)
    watch = TaskWatcher(store, supervisor.owner, outputs())
    reach = TaskControl(store, supervisor, watch)
    records = TaskRecords(store, outputs(), workspace.cwd, settings.agent_caps, settings.stall_seconds)
    workplaces = TaskFolders(home, store)
    processes = OtherProcesses(store, bus, supervisor, around.engine)
    callers = CallerFactory(
        store,
        models=models,
        setups=setups,
        session=session,
        folders=workplaces,
        processes=processes,
    )

    async def wake(task: Task) -> Task:
        return await work.wake(task)

    delegation = Delegation(
        store=store,
        supervisor=supervisor,
        setups=setups,
        planner=TaskPlanner(
            store,
            setups=setups,
            folders=workplaces,
            callers=callers,
            find=supervisor.find,
            limits=settings,
        ),
        watch=watch,
        reach=reach,
        questions=QuestionRouter(
            store, supervisor, watch, settings.question_seconds, settings.answer_seconds
        ),
        wake=wake,
        outputs=outputs(),
    )
    starter = TaskStarter(
        delegation,
        bus=bus,
        folders=workplaces,
        processes=processes,
        command_seconds=settings.command_seconds,
    )
    limits = SessionLimits(
        turns=settings.max_turns,
        seconds=settings.max_seconds,
        budget=settings.budget,
        named=settings.named_budget(around.flags),
    )
    work = TaskService(session, limits=limits, records=records, delegation=delegation, starter=starter)
    return Components(
        settings=settings,
        workspace=workspace,
        project=around.project,
        store=store,
        supervisor=supervisor,
        bus=bus,
        library=library,
        providers=switchboard,
        models=models,
        plugins=plugins,
        messaging=secretary,
        toolbox=toolbox,
        named_tools=named_tools,
        policy_root=root,
        mcp_servers=servers,
        setup_builder=setups,
        session=session,
        watcher=watch,
        control=reach,
        records=records,
        task_folders=workplaces,
        other_processes=processes,
        delegation=delegation,
        service=work,
        actions=TaskActions(records, reach, work.send),
        history=TaskHistory(records, store),
    )


def _secretary(around: Surroundings, root: Root, bus: EventBus, library: Library) -> Messaging:
    business = MessagingContext(
        home=gen_home(),
        cwd=around.workspace.cwd,
        policy=lambda: root.policy,
        model=around.settings.model,
        find=library.find,
        is_open=lambda task: around.supervisor.find(task) is not None,
        channels=around.settings.channels,
    )
    return Messaging(around.store, bus, business)


def _price(switchboard: ProviderFactory, settings: Settings, model: str) -> Price:
    """What a model costs and holds; what the user says that all hold counts."""
    price, room = switchboard.price(model), settings.context_tokens
    return price if room is None or model == OFFLINE else msgspec.structs.replace(price, context=room)


@asynccontextmanager
async def opened(
    cwd: str | Path,
    model: str | Provider,
    tools: Iterable[Tool],
    settings: Mapping[str, Any] | None,
    store: Store | None,
    asker: Asker | None,
) -> AsyncGenerator[Components, None]:
    """Open a workspace: read its settings, open its journal and start what runs beside the agents."""
    check_open_arguments(cwd, model, settings, store, asker)
    workspace = workspace_at(Path(cwd))
    flags = {**(settings or {}), **({"model": model} if isinstance(model, str) and model else {})}
    project = standing(workspace.root, gen_home())
    chosen = merged(found := layers(workspace.root, flags, project=project))
    policy, tools = root_policy(found, chosen), checked_tools(tools)
    provider = None if isinstance(model, str) else model
    alone = store is None and provider is None and all(tool.source == "builtin" for tool in tools)
    async with AsyncExitStack() as stack:
        if store is None:
            store = await open_store(database(), chosen.durability, chosen.database_url)
            stack.push_async_callback(store.close)
        engine = _engine_for(store, gen_home(), workspace.cwd, flags, policy) if alone else None
        telemetry = await stack.enter_async_context(Telemetry(chosen.telemetry, chosen.telemetry_content))
        timing = LivenessTimeouts(chosen.stall_seconds, chosen.silence_seconds)
        supervisor = Supervisor(store, SlotPool(chosen.max_agents, chosen.agent_caps), timing)
        desk = _desk(asker)
        if desk is not None:
            await stack.enter_async_context(desk.open(store, supervisor.owner))
        await stack.enter_async_context(supervisor)
        await close_orphans(store, supervisor.owner, outputs())
        built = build(
            Surroundings(
                settings=chosen,
                policy=policy,
                workspace=workspace,
                project=project,
                store=store,
                supervisor=supervisor,
                tools=tools,
                asker=asker,
                provider=provider,
                engine=engine,
                flags=flags,
                servers=server_tables(found),
            )
        )
        telemetry.follow(built.bus, store, supervisor.elsewhere)
        stack.push_async_callback(built.mcp_servers.close)
        built.mcp_servers.start()
        stack.push_async_callback(built.session.shells.close)
        if provider is None and not chosen.model:
            built.session.model.usual = await built.providers.usual()
        if desk is not None:
            await stack.enter_async_context(
                desk.attend(str(workspace.cwd), background=chosen.background_questions)
            )
        yield built


def _engine_for(store: Store, home: Path, cwd: Path, flags: Mapping[str, Any], policy: Policy) -> Engine:
    """The engine for a journal: processes beside a file, workers beside a database.

    What a queue needs is loaded only with a shared database. `policy` is what applies here: by the `flags`
    and by the settings that only this machine has.
    """
    if isinstance(store, SharedJournal):
        from gencode.fleet.fleet_engine import FleetEngine
        from gencode.fleet.workspace_transfer import SharedStore

        return FleetEngine(cast(SharedStore, store), cwd, flags, home, policy)
    return ProcessEngine(home, cwd, flags)
