"""Where everything is put together by hand: the only file that imports every room, and the Python door."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import msgspec

from gencode.agents.registry import MAIN, Registry
from gencode.agents.registry import Entry as Entry
from gencode.core.errors import UserMistake
from gencode.core.events import Event, TaskImported
from gencode.core.outcome import Outcome
from gencode.core.rules import Policy
from gencode.core.spec import AgentSpec, TaskRequest, Workspace
from gencode.core.task import Task
from gencode.delegation.foresight import Foresight
from gencode.delegation.handle import Asking, Handle, Words, request
from gencode.delegation.launcher import Launcher
from gencode.delegation.live import Job, Live
from gencode.delegation.origin import Origin, link_of
from gencode.delegation.orphans import close_orphans, close_task
from gencode.delegation.records import Records
from gencode.delegation.resumption import Resumption
from gencode.delegation.seating import Seating
from gencode.delegation.supervisor import Supervisor
from gencode.delegation.watch import Watch, facts_of
from gencode.engines.process import ProcessEngine
from gencode.engines.process import WorkOrder as WorkOrder
from gencode.permissions.chain import Chain, Root
from gencode.permissions.decision import check_tool
from gencode.permissions.explain import Explanation
from gencode.permissions.given import Given
from gencode.permissions.trust import Standing, standing
from gencode.providers.vendors import Switchboard
from gencode.runtime.bus import Bus, Listener
from gencode.runtime.limits import Limits
from gencode.runtime.models import OWN, Model, ModelRegistry
from gencode.runtime.ports import Asker, Engine, Handover, Provider, Store, TaskQuery
from gencode.runtime.toolbox import Tool, Toolbox
from gencode.settings import Settings, gen_home, layers, merged, policy_named, root_policy
from gencode.stores.memory import MemoryStore
from gencode.stores.schema import VERSION
from gencode.stores.schema import migrate as migrate
from gencode.stores.sqlite import SqliteStore
from gencode.tools.bash import BASH, KILL_SHELL
from gencode.tools.edit import EDIT
from gencode.tools.glob import GLOB
from gencode.tools.grep import GREP
from gencode.tools.ls import LS
from gencode.tools.read import READ
from gencode.tools.ripgrep import find_ripgrep as find_ripgrep
from gencode.tools.spawn import SPAWN, SPAWN_SUBAGENT
from gencode.tools.task import TASK
from gencode.tools.task_output import TASK_OUTPUT, TASK_STOP
from gencode.tools.todo import TODO_WRITE
from gencode.tools.web_fetch import WEB_FETCH
from gencode.tools.web_search import WEB_SEARCH
from gencode.tools.write import WRITE

if TYPE_CHECKING:
    from gencode.runtime.shells import Shells

SCHEMA_VERSION = VERSION
TOOLS = (
    *(TASK, TASK_OUTPUT, TASK_STOP, READ, GLOB, GREP, LS, WRITE, EDIT, BASH, KILL_SHELL),
    *(WEB_FETCH, WEB_SEARCH, TODO_WRITE),
    *(SPAWN, SPAWN_SUBAGENT),
)


def database() -> Path:
    """Where the journal is kept."""
    return gen_home() / "gencode.db"


def outputs() -> Path:
    """Where background tasks and commands have their output files."""
    return gen_home() / "outputs"


def forgetful() -> Store:
    """A journal in memory, for what should leave no trace."""
    return MemoryStore()


def agents_if_trusted(project: Standing) -> Registry:
    """The agents there would be if a folder were trusted as it was looked at."""
    return Registry.load(gen_home(), msgspec.structs.replace(project, state="trusted"))


class Surroundings(msgspec.Struct, frozen=True, eq=False):
    """What one open GenCode is given from outside."""

    settings: Settings
    policy: Policy
    workspace: Workspace
    project: Standing
    store: Store
    asker: Asker | None = None
    provider: Provider | None = None
    engine: Engine | None = None
    flags: Mapping[str, Any] = {}


class GenCode:
    """One open GenCode: a workspace, a journal, agents, models and tools. Use `GenCode.open`."""

    def __init__(self, around: Surroundings, supervisor: Supervisor, tools: Iterable[Tool] = ()) -> None:
        self.settings = around.settings
        self.workspace = around.workspace
        self.store = around.store
        self.supervisor = supervisor
        self.bus = Bus(around.store.events)
        self.project = around.project
        """How the folder stands: what it brings counts only when a person trusts it."""
        self.agents = Registry.load(gen_home(), around.project)
        self.switchboard = Switchboard(around.settings.prices)
        makers = {"offline": _offline, "scripted": _scripted, **self.switchboard.makers()}
        self.models = ModelRegistry(makers, self._tiers())
        self.toolbox = Toolbox((*TOOLS, *tools))
        for rule in around.policy.rules:
            check_tool(rule.tool, self.toolbox)
        self.root = Root(around.policy)
        """The policy of the session; a change of it reaches every agent that runs."""
        seating = Seating(self.agents, self.models, self.toolbox)
        self.launcher = Launcher(self.store, self.bus, supervisor, seating, outputs(), around.engine)
        self.records = Records(self.store, outputs(), self.workspace.cwd)
        self.watch = Watch(self.store, supervisor.owner, outputs())
        root = self.root if policy_named(around.flags) else None
        self._resumption = Resumption(self.launcher, self.models, self._origin, root)
        self._asker = around.asker
        self._answered: set[str] = set()
        self._given = Given()
        self._shells: Shells | None = None
        self.usual = ("offline", "")
        """The model that answers when none is named, and why it is that one."""
        own = around.provider
        self._model = None if own is None else Model(OWN, type(own).__name__, own, binding=True)

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
        workspace = workspace_at(Path(cwd))
        flags = {**(settings or {}), **({"model": model} if isinstance(model, str) and model else {})}
        project = standing(workspace.root, gen_home())
        found = layers(workspace.root, flags, project=project)
        chosen = merged(found)
        tools = tuple(tools)
        alone = store is None and isinstance(model, str) and not tools
        engine = ProcessEngine(gen_home(), workspace.cwd, flags) if alone else None
        async with AsyncExitStack() as stack:
            if store is None:
                store = await SqliteStore.open(database(), durability=chosen.durability)
                stack.push_async_callback(store.close)
            supervisor = await stack.enter_async_context(Supervisor(store))
            await close_orphans(store, supervisor.owner, outputs())
            own = None if isinstance(model, str) else model
            policy = root_policy(found, chosen)
            around = Surroundings(chosen, policy, workspace, project, store, asker, own, engine, flags)
            gen = cls(around, supervisor, tools)
            stack.push_async_callback(gen._close_shells)
            if own is None and not chosen.model:
                gen.usual = await gen.switchboard.usual()
            yield gen

    @property
    def model(self) -> Model:
        """The main agent's model: the one that was named, or the usual one."""
        if self._model is None:
            self._model = self.models.resolve(self.settings.model or self.usual[0])
        return self._model

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

    async def stop(self, task: str) -> Outcome:
        """Stop a task, whichever process runs it; its outcome."""
        stops = await self.launcher.reach.stop((await self.find(task)).id, "it was stopped")
        return await self.outcome_of(stops.task)

    def ask(self, prompt: str, *, session: str | None = None, agent: str = "") -> Asking:
        """Say something in the main conversation: iterate over the events, or await `.outcome()`."""
        return Asking(self.bus, lambda: self.start_turn(prompt, session, agent), self.outcome)

    async def tasks(self, parent: str | None = None) -> list[Outcome]:
        """The tasks of subagents, oldest first; with `parent`, those that it asked for."""
        found = await self.store.tasks(TaskQuery(parent=parent, conversations=False))
        return [await self.outcome_of(task) for task in found]

    async def get(self, task: str) -> Outcome:
        """One task by its id, which may be shortened while it is unambiguous."""
        return await self.records.get(await self.find(task))

    async def show(self, task: str) -> Outcome:
        """One task with its transcript and the gate's decisions."""
        return await self.records.show(await self.find(task))

    async def journal(self, task: str) -> tuple[list[Event], str]:
        """The facts of a task as far as they can be read, and what is wrong with the next one."""
        events, problem = await facts_of(self.store, task)
        return events, str(problem or "")

    async def find(self, task: str) -> Task:
        """The folded task behind an id or the beginning of one."""
        return await self.records.find(task)

    async def export(self, task: str) -> str:
        """The journal of one task as JSONL."""
        from gencode.stores.jsonl import export_task

        return export_task(await self.store.events((await self.find(task)).id))

    async def take_in(self, text: str) -> tuple[Outcome, list[str]]:
        """Keep an exported task; its outcome, and what could not be read of it."""
        from gencode.stores.jsonl import import_task

        journal = import_task(text)
        await self.store.adopt(journal.events)
        task = journal.events[0].task
        await close_task(self.store, task, self.supervisor.owner, and_also=TaskImported())
        return await self.get(task), journal.warnings

    def listen(self) -> Listener:
        """Everything that happens from now on; close the listener when done."""
        return self.bus.listen()

    async def start_task(self, request: TaskRequest) -> Live:
        """Start one subagent without a main conversation: the settings are its root policy."""
        return await self.launcher.launch(request, self._origin(), seconds=self.settings.max_seconds)

    async def start_resume(self, task: str, request: TaskRequest) -> Live:
        """Go on with an earlier task, as it was; with a conversation, as the settings are now."""
        found = await self.find(task)
        if found.conversation:
            return await self.start_turn(request.prompt, found.id, found.agent)
        return await self._resumption.start(found, request, self.settings.max_seconds)

    async def detach(self, request: TaskRequest) -> Outcome:
        """Start one subagent, or go on with an earlier one, in a process that outlives this one."""
        seconds = self.settings.max_seconds
        if request.resume:
            earlier = await self.find(request.resume)
            return await self.get(await self._resumption.detach(earlier, request, seconds))
        return await self.get(await self.launcher.detach(request, self._origin(), seconds))

    async def take_on(self, handover: Handover) -> Live:
        """Start what another process handed over to this one."""
        if handover.created is not None:
            return await self._resumption.take_on(handover.created, handover)
        words: Words = {"model": handover.model, "max_turns": handover.max_turns}
        return await self.start_resume(handover.task, request("", handover.prompt, words, background=True))

    async def start_turn(self, prompt: str, session: str | None = None, agent: str = "") -> Job:
        """Start a turn of the main conversation, or of one with `agent` in the main seat."""
        spec = self.agents.find(agent) if agent not in ("", MAIN) else self.agents.main()
        limits = Limits(self.settings.max_turns or spec.max_turns, self.settings.max_seconds)
        if session is not None:
            session = (await self.find(session)).id
        return await self.launcher.converse(spec, prompt, self._origin(spec), limits, session)

    def explain(
        self, tool: str, arguments: dict[str, Any], *, agent: str = "", background: bool = False
    ) -> Explanation:
        """What would be decided about a call of the main agent, or of one that it would send."""
        spec = self.agents.find(agent) if agent else None
        foresight = Foresight(self.launcher, self.toolbox)
        return foresight.explain(tool, arguments, self._origin(), spec, background=background)

    async def outcome(self, job: Live) -> Outcome:
        """The outcome of a job, once it has ended; whoever is cancelled while waiting stops the job."""
        try:
            return await self.outcome_of(await job.ended())
        except asyncio.CancelledError:
            await job.halt("whoever waited for it was cancelled")
            raise

    async def outcome_of(self, task: Task) -> Outcome:
        """A folded task in its public shape, with the usage of everything below it."""
        return await self.records.outcome_of(task)

    def _handle(self, job: Live) -> Handle:
        return Handle(job, self.bus, self.store, self.outcome_of)

    def _running_shells(self) -> "Shells":
        """The commands of this session; nothing of them is loaded before the first."""
        if self._shells is None:
            from gencode.runtime.shells import Shells

            self._shells = Shells(gen_home(), self.settings.sandbox, network=self.settings.sandbox_network)
        return self._shells

    async def _close_shells(self) -> None:
        if self._shells is not None:
            await self._shells.close()

    def _origin(self, spec: AgentSpec | None = None) -> Origin:
        chain = Chain(self.root)
        bound = spec is not None and (spec.mode is not None or spec.rules)
        return Origin(
            chain=chain.below(link_of(spec)) if spec and bound else chain,
            model=self.model,
            workspace=self.workspace,
            stop=self.supervisor.stop,
            session=self.supervisor.stop,
            asker=self._asker,
            disturb=self.settings.background_questions,
            given=self._given,
            shells=self._running_shells,
            answered=self._answered,
        )

    def _tiers(self) -> dict[str, str]:
        """A model for each tier: the settings', else those of the vendor that has a key."""
        vendor = self.switchboard.configured()
        usual = {tier: vendor.model(tier) for tier in vendor.tiers} if vendor else {}
        return {**usual, **self.settings.models}


def workspace_at(folder: Path) -> Workspace:
    """The workspace at a folder; UserMistake when it is none."""
    try:
        root = folder.expanduser().absolute()
    except OSError:
        raise UserMistake("The folder you are in does not exist any more; go to another one.") from None
    if not root.is_dir():
        raise UserMistake(f"{folder} is not a folder; name the folder to work in (cwd, or --cwd).")
    root = root.resolve()
    return Workspace(root, root, Path.home())


def _offline(_: str) -> Provider:
    from gencode.providers.offline import OfflineProvider

    return OfflineProvider()


def _scripted(file: str) -> Provider:
    from gencode.providers.scripted import ScriptedProvider

    return ScriptedProvider.load(file)
