"""The composition root: builds everything that one open GenCode is made of, and opens and closes it."""

from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec

from gencode.agent.hook_settings import check_hooks, parse_hooks
from gencode.agent.instructions import Instructions, no_instructions
from gencode.agent.models import OFFLINE, ModelRegistry
from gencode.agent.ports import Provider
from gencode.agent.toolbox import LazyTool, Tool, Toolbox
from gencode.agent.trace_settings import is_wanted
from gencode.agent.work_queue import SlotPool
from gencode.agents.library import Library
from gencode.agents.registry import Registry
from gencode.core.budget import Price
from gencode.core.errors import StoreTrouble, UserMistake
from gencode.core.questions import Asker
from gencode.core.rules import Mode, Policy
from gencode.core.spec import AgentSpec, Workspace
from gencode.core.structs import replace
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
from gencode.sessions.session import Approved, MainModel, Session, SessionShells
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
from gencode.tasks.crash_recovery import close_orphans
from gencode.tasks.liveness import LivenessTimeouts
from gencode.tasks.process_engine import ProcessEngine
from gencode.tasks.service import SessionLimits
from gencode.tasks.setup_builder import RunSetupBuilder, RunSetupDefaults
from gencode.tasks.supervisor import Supervisor
from gencode.tasks.task_parts import TaskParts, TaskSettings
from gencode.tools.catalog import TOOLS, Plugins, on_request
from gencode.tools.skill import as_task_call, skill_tool

if TYPE_CHECKING:
    from gencode.agent.messaging import Messaging
    from gencode.mcp.definition import ServerDefinition
    from gencode.questions.question_desk import QuestionDesk
    from gencode.sandbox.shells import ServerWall


def agents_if_trusted(project: FolderTrust) -> Registry:
    """The agents there would be if a folder were trusted as it was looked at."""
    return Registry.load(gen_home(), replace(project, state="trusted"))


def started_if_trusted(project: FolderTrust) -> StartedFiles:
    """The files of a folder that its hooks and servers would start."""
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
            self._known = agents, replace(self._workspace, started=found.files)
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
    messaging: "Callable[[], Messaging]"
    """The outbox and the calendar, once one of them is used."""
    toolbox: Toolbox
    policy_root: Root
    """The policy of the session; a change of it reaches every agent that runs."""
    mcp_servers: SessionServers
    setup_builder: RunSetupBuilder
    session: Session
    tasks: TaskParts
    """What starts, watches, controls and reads tasks."""


class Surroundings(msgspec.Struct, frozen=True, eq=False, kw_only=True):
    """What one open GenCode is given from outside."""

    settings: Settings
    policy: Policy
    workspace: Workspace
    project: FolderTrust
    store: Store
    supervisor: Supervisor
    engine: Callable[[], Engine | None]
    """Makes what starts other processes, once one is needed."""
    providers: ProviderFactory
    usual_model: tuple[str, str]
    """The model that answers when none is named, and why it is that one."""
    tools: Iterable[Tool] = ()
    asker: Asker | None = None
    provider: Provider | None = None
    flags: Mapping[str, Any] = {}
    servers: Tables = ()


def build(around: Surroundings) -> Components:
    """Put together what one open GenCode is made of; nothing is started yet."""
    settings, store, supervisor = around.settings, around.store, around.supervisor
    workspace, policy = around.workspace, around.policy
    home, bus, root = gen_home(), EventBus(store.events), Root(policy)
    above = [standing(each, home) for each in folders_above(workspace.root)]
    library = Library(home, [around.project, *above], as_task_call, settings.agents)
    providers = around.providers
    models = ModelRegistry(providers.makers(), providers.tiers(settings.models), settings.max_tokens)
    own = providers.own(around.provider)
    own = replace(own, max_tokens=settings.max_tokens) if own is not None else None
    messaging = cache(partial(_messaging, around, root, bus, library))
    if settings.channels:  # a mistake in them is told at once
        messaging()
    plugins = Plugins()
    skill = LazyTool("Skill", lambda: skill_tool(lambda: library.skills, delegates=True))
    toolbox = Toolbox((*TOOLS, skill, *on_request(gen_home, messaging), *around.tools), plugins)
    for rule in policy.rules:
        check_tool(rule.tool, toolbox)
    if settings.hooks:
        check_hooks(settings.hooks)
    brought = around.project.brought.texts if around.project.trusted else {}
    files = {name: brought[name] for name in FILES if name in brought}
    once: set[Approval] = set()
    guarded = GuardedWorkspace(workspace, library, settings.hooks, around.servers, files)
    shells = SessionShells(home, settings.sandbox, network=settings.sandbox_network, bus=bus)
    walls = partial(_server_wall, shells, guarded, root)
    servers = SessionServers(home, workspace.root, around.servers, files, once, policy.rules, walls)
    session = Session(
        root=root,
        model=MainModel(models, settings.model, around.usual_model, own),
        workspace=guarded,
        stop=supervisor.stop,
        shells=shells,
        files=FileVersions(),
        approved=Approved(once),
        asker=around.asker,
        own_policy=policy_named(around.flags),
        background_questions=settings.background_questions,
        spawn_approval=settings.spawn_approval,
        web_read_hosts=settings.web_read_hosts,
    )
    defaults = RunSetupDefaults(
        depth=settings.max_depth,
        price=partial(_price, providers, settings),
        instructions=Instructions(home) if settings.instructions else no_instructions,
        skills=library,
        hooks=settings.hooks,
        outside=servers,
        appended=settings.append_system_prompt,
        agent_models=settings.models_of_agents,
        named_tools=toolbox.matching(settings.tools),
    )
    setups = RunSetupBuilder(library, models, toolbox, defaults)
    tasks = TaskParts(
        session,
        store=store,
        supervisor=supervisor,
        bus=bus,
        setups=setups,
        models=models,
        settings=TaskSettings(
            task_seconds=settings.task_seconds,
            command_seconds=settings.command_seconds,
            question_seconds=settings.question_seconds,
            answer_seconds=settings.answer_seconds,
            stall_seconds=settings.stall_seconds,
            agent_caps=settings.agent_caps,
            result_cache=settings.result_cache,
        ),
        limits=SessionLimits(
            turns=settings.max_turns,
            seconds=settings.max_seconds,
            budget=settings.budget,
            named=settings.named_budget(around.flags),
        ),
        home=home,
        outputs=outputs(),
        cwd=workspace.cwd,
        engine=around.engine,
    )
    return Components(
        settings=settings,
        workspace=workspace,
        project=around.project,
        store=store,
        supervisor=supervisor,
        bus=bus,
        library=library,
        providers=providers,
        models=models,
        plugins=plugins,
        messaging=messaging,
        toolbox=toolbox,
        policy_root=root,
        mcp_servers=servers,
        setup_builder=setups,
        session=session,
        tasks=tasks,
    )


async def _server_wall(
    shells: SessionShells, workspace: GuardedWorkspace, root: Root, definition: "ServerDefinition"
) -> "ServerWall | None":
    """What encloses an MCP server: nothing but the user's own outside of plan mode runs without it."""
    plan = root.policy.mode is Mode.PLAN
    if not (definition.sandboxed or plan):
        return None
    return await shells.all().wall_for_server(
        workspace.current(),
        network=definition.network or (plan and not definition.sandboxed),
        writes=definition.write,
        reads_only=plan,
        project=definition.sandboxed,
    )


def _messaging(around: Surroundings, root: Root, bus: EventBus, library: Library) -> "Messaging":
    from gencode.agent.messaging import Messaging, MessagingContext

    context = MessagingContext(
        home=gen_home(),
        cwd=around.workspace.cwd,
        policy=lambda: root.policy,
        model=around.settings.model,
        find=library.find,
        is_open=lambda task: around.supervisor.find(task) is not None,
        channels=around.settings.channels,
    )
    return Messaging(around.store, bus, context)


def _price(providers: ProviderFactory, settings: Settings, model: str) -> Price:
    """What a model costs and holds; what the user says that all hold counts."""
    price, room = providers.price(model), settings.context_tokens
    return price if room is None or model == OFFLINE else replace(price, context=room)


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
        cleaned: list[TaskParts] = []
        stack.push_async_callback(_delete_failed, cleaned)
        telemetry = None
        if is_wanted(chosen.telemetry):
            from gencode.telemetry.otel_setup import Telemetry

            # It is left after the supervisor, so that it exports how work ended that was stopped by that.
            telemetry = Telemetry(chosen.telemetry, chosen.telemetry_content)
            await stack.enter_async_context(telemetry)
        timing = LivenessTimeouts(chosen.stall_seconds, chosen.silence_seconds)
        supervisor = Supervisor(store, SlotPool(chosen.max_agents, chosen.agent_caps), timing)
        desk = _desk(asker)
        if desk is not None:
            await stack.enter_async_context(desk.open(store, supervisor.owner))
        await stack.enter_async_context(supervisor)
        await close_orphans(store, supervisor.owner, outputs())
        providers = ProviderFactory(chosen.prices, store=store, rates=chosen.fleet_rates)
        named = provider is not None or bool(chosen.model)
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
                engine=partial(_engine_for, store, gen_home(), workspace.cwd, flags, policy, alone=alone),
                providers=providers,
                usual_model=("offline", "") if named else await providers.usual(),
                flags=flags,
                servers=server_tables(found),
            )
        )
        if chosen.failed_tasks == "delete":
            cleaned.append(built.tasks)
        if telemetry is not None:
            telemetry.follow(built.bus, store, supervisor.elsewhere)
        stack.push_async_callback(built.mcp_servers.close)
        built.mcp_servers.start()
        stack.push_async_callback(built.session.shells.close)
        if desk is not None:
            await stack.enter_async_context(
                desk.attend(str(workspace.cwd), background=chosen.background_questions)
            )
        yield built


async def _delete_failed(sessions: Iterable[TaskParts]) -> None:
    """Delete what failed or was cancelled in sessions that close; a store that is away keeps it."""
    for tasks in sessions:
        with suppress(StoreTrouble):
            await tasks.service.delete_failed()


def _engine_for(
    store: Store, home: Path, cwd: Path, flags: Mapping[str, Any], policy: Policy, *, alone: bool
) -> Engine | None:
    """The engine for a journal: processes beside a file, workers beside a database.

    There is none where something is not `alone` ours, because no other process would have it. What a queue
    needs is loaded only with a shared database. `policy` is what applies here: by the `flags` and by the
    settings that only this machine has.
    """
    if not alone:
        return None
    if isinstance(store, SharedJournal):
        from gencode.fleet.fleet_engine import FleetEngine
        from gencode.fleet.workspace_transfer import SharedStore

        return FleetEngine(cast(SharedStore, store), cwd, flags, home, policy)
    return ProcessEngine(home, cwd, flags)
