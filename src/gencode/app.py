"""Where everything is put together by hand: the only file that imports every room, and the Python door."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from gencode.agents.registry import Registry
from gencode.core.errors import CorruptFact, UnknownName, UserMistake
from gencode.core.events import CallDecided, Event, plain
from gencode.core.ids import clean_id
from gencode.core.messages import Usage
from gencode.core.outcome import Outcome, outcome_of
from gencode.core.rules import Policy
from gencode.core.spec import AgentSpec, TaskRequest, Workspace
from gencode.core.task import Task, transcript_of
from gencode.delegation.foresight import Foresight
from gencode.delegation.launcher import Launcher
from gencode.delegation.origin import Origin, link_of
from gencode.delegation.orphans import close_orphans, close_task
from gencode.delegation.seating import Seating
from gencode.delegation.supervisor import Job, Supervisor
from gencode.permissions.chain import Chain, Root
from gencode.permissions.decision import check_tool
from gencode.permissions.explain import Explanation
from gencode.permissions.given import Given
from gencode.permissions.trust import Standing, standing
from gencode.providers.vendors import Switchboard
from gencode.runtime.bus import Bus, Listener
from gencode.runtime.limits import Limits
from gencode.runtime.models import Model, ModelRegistry
from gencode.runtime.ports import Asker, Provider, Store, TaskQuery
from gencode.runtime.toolbox import Tool, Toolbox
from gencode.settings import Settings, gen_home, layers, merged, root_policy
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
from gencode.tools.task import TASK
from gencode.tools.task_output import TASK_OUTPUT, TASK_STOP
from gencode.tools.todo import TODO_WRITE
from gencode.tools.write import WRITE

if TYPE_CHECKING:
    from gencode.runtime.shells import Shells

SCHEMA_VERSION = VERSION
TOOLS = (TASK, TASK_OUTPUT, TASK_STOP, READ, GLOB, GREP, LS, WRITE, EDIT, BASH, KILL_SHELL, TODO_WRITE)


def database() -> Path:
    """Where the journal is kept."""
    return gen_home() / "gencode.db"


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
        self.launcher = Launcher(self.store, self.bus, supervisor, seating)
        self._asker = around.asker
        self._answered: set[str] = set()
        self._given = Given()
        self._shells: Shells | None = None
        self.usual = ("offline", "")
        """The model that answers when none is named, and why it is that one."""
        own = around.provider
        self._model = None if own is None else Model("own", type(own).__name__, own, binding=True)

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
        named = {"model": model} if isinstance(model, str) and model else {}
        project = standing(workspace.root, gen_home())
        found = layers(workspace.root, {**(settings or {}), **named}, project=project)
        chosen = merged(found)
        async with AsyncExitStack() as stack:
            if store is None:
                store = await SqliteStore.open(database(), durability=chosen.durability)
                stack.push_async_callback(store.close)
            supervisor = await stack.enter_async_context(Supervisor(store))
            await close_orphans(store, supervisor.owner)
            own = None if isinstance(model, str) else model
            policy = root_policy(found, chosen)
            around = Surroundings(chosen, policy, workspace, project, store, asker, own)
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

    async def task(
        self, agent: str, prompt: str, *, description: str = "", model: str = "", max_turns: int | None = None
    ) -> Outcome:
        """Run one subagent to its end and give its outcome."""
        job = await self.start_task(TaskRequest(agent, prompt, description, model, max_turns))
        return await self.outcome(job)

    def ask(self, prompt: str, *, session: str | None = None, agent: str = "") -> "Asking":
        """Say something in the main conversation: iterate over the events, or await `.outcome()`."""
        return Asking(self, prompt, session, agent)

    async def tasks(self, parent: str | None = None) -> list[Outcome]:
        """The tasks of subagents, oldest first; with `parent`, those that it asked for."""
        found = await self.store.tasks(TaskQuery(parent=parent, conversations=False))
        return [await self.outcome_of(task) for task in found]

    async def get(self, task: str) -> Outcome:
        """One task by its id, which may be shortened while it is unambiguous."""
        return await self.outcome_of(await self.find(task))

    async def show(self, task: str) -> Outcome:
        """One task with its transcript and the gate's decisions."""
        found = await self.find(task)
        events, problem = await self.journal(found.id)
        if problem:
            warnings = (*found.evidence.warnings, f"{problem} Nothing after it is shown.")
            evidence = msgspec.structs.replace(found.evidence, warnings=warnings)
            found = msgspec.structs.replace(found, evidence=evidence)
        return msgspec.structs.replace(
            await self.outcome_of(found),
            transcript=[msgspec.to_builtins(message) for message in transcript_of(events)],
            decisions=[plain(event) for event in events if isinstance(event.fact, CallDecided)],
        )

    async def journal(self, task: str) -> tuple[list[Event], str]:
        """The facts of a task as far as they can be read, and what is wrong with the next one."""
        try:
            return await self.store.events(task), ""
        except CorruptFact as corrupt:
            return [event for event in corrupt.before if isinstance(event, Event)], str(corrupt)

    async def find(self, task: str) -> Task:
        """The folded task behind an id or the beginning of one."""
        beginning = clean_id(task)
        ids = await self.store.ids(beginning) if beginning else []
        if len(ids) > 1 and beginning not in ids:
            raise UserMistake(f"{task!r} is the beginning of several ids: {', '.join(ids)}.")
        found = await self.store.task(beginning if beginning in ids else ids[0]) if ids else None
        if found is None:
            known = await self.store.tasks(TaskQuery(cwd=str(self.workspace.cwd)))
            raise UnknownName("task", task, (each.id for each in known[-20:]))
        return found

    async def export(self, task: str) -> str:
        """The journal of one task as JSONL."""
        from gencode.stores.jsonl import export_task

        return export_task(await self.store.events((await self.find(task)).id))

    async def take_in(self, text: str) -> tuple[Outcome, list[str]]:
        """Keep an exported task; its outcome, and what could not be read of it."""
        from gencode.stores.jsonl import import_task

        journal = import_task(text)
        await self.store.adopt(journal.events)
        await close_task(self.store, journal.events[0].task, self.supervisor.owner)
        return await self.get(journal.events[0].task), journal.warnings

    def listen(self) -> Listener:
        """Everything that happens from now on; close the listener when done."""
        return self.bus.listen()

    async def start_task(self, request: TaskRequest) -> Job:
        """Start one subagent without a main conversation: the settings are its root policy."""
        return await self.launcher.launch(request, self._origin(), seconds=self.settings.max_seconds)

    async def start_turn(self, prompt: str, session: str | None = None, agent: str = "") -> Job:
        """Start a turn of the main conversation, or of one with `agent` in the main seat."""
        spec = self.agents.find(agent) if agent else self.agents.main()
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

    async def outcome(self, job: Job) -> Outcome:
        """The outcome of a job, once it has ended; whoever is cancelled while waiting stops the job."""
        try:
            return await self.outcome_of(await job.ended())
        except asyncio.CancelledError:
            await job.halt("whoever waited for it was cancelled")
            raise

    async def outcome_of(self, task: Task) -> Outcome:
        """A folded task in its public shape, with the usage of everything below it."""
        children = await self.store.tasks(TaskQuery(parent=task.id))
        sent = tuple(dict.fromkeys((*task.evidence.children, *(child.id for child in children))))
        evidence = msgspec.structs.replace(task.evidence, children=sent)
        tree = task.usage + await self._usage(children)
        return outcome_of(msgspec.structs.replace(task, evidence=evidence), tree)

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
            given=self._given,
            shells=self._running_shells,
            answered=self._answered,
        )

    def _tiers(self) -> dict[str, str]:
        """A model for each tier: the settings', else those of the vendor that has a key."""
        vendor = self.switchboard.configured()
        usual = {tier: vendor.model(tier) for tier in vendor.tiers} if vendor else {}
        return {**usual, **self.settings.models}

    async def _usage(self, tasks: Iterable[Task]) -> Usage:
        """The usage of these tasks and of everything below them."""
        total = Usage()
        for task in tasks:
            below = await self._usage(await self.store.tasks(TaskQuery(parent=task.id)))
            total = total + task.usage + below
        return total


class Asking:
    """One turn of the main conversation: an async iterator over its events and those of its agents.

    Leaving the iteration early stops the turn.
    """

    def __init__(self, gen: GenCode, prompt: str, session: str | None, agent: str) -> None:
        self._gen = gen
        self._words = (prompt, session, agent)
        self._job: Job | None = None

    async def start(self) -> Job:
        """Begin, if it has not begun, and give the live job."""
        if self._job is None:
            self._job = await self._gen.start_turn(*self._words)
        return self._job

    async def outcome(self) -> Outcome:
        """The outcome of the conversation's turn, once it has ended."""
        return await self._gen.outcome(await self.start())

    async def __aiter__(self) -> AsyncIterator[Event]:
        listener = self._gen.listen()
        try:
            job = await self.start()
            if job.work is not None:
                job.work.add_done_callback(lambda _: listener.close())
            async for event in listener:
                yield event
        finally:
            listener.close()
            if self._job is not None:
                self._job.stop.stop("nobody listened any more")


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
