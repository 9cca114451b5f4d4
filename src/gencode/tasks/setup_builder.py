"""Builds the setup of a run: its tools, prompt, gate and hooks, and the schema of its result."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct

from gencode.agent.agent_environment import AgentEnvironment, EnvironmentReader
from gencode.agent.call_budget import NO_PRICE
from gencode.agent.final_answer import Form
from gencode.agent.gate import Approvals, CallingAgent, Gate, RelatedTasks
from gencode.agent.instructions import no_instructions
from gencode.agent.models import Model, ModelRegistry
from gencode.agent.ports import AgentSource
from gencode.agent.prompt import changed_conditions, system_prompt
from gencode.agent.toolbox import MissingTool, Tool, Toolbox
from gencode.core.budget import Budget, Price
from gencode.core.errors import UserMistake
from gencode.core.events import Event, TaskCreated, TaskQueued, TaskStarted
from gencode.core.messages import NoticeKind, RunConditions, SystemNotice, ToolCall, Usage, UserMessage
from gencode.core.rules import SERVERS, Mode, Policy
from gencode.core.spec import (
    DEEPEST,
    MAIN,
    AgentSpec,
    TaskRequest,
    ToolChoice,
    Workspace,
    earlier_version,
    same_name,
)
from gencode.core.structs import replace
from gencode.core.task import Task
from gencode.permissions.calls import AgentKind, agent_key
from gencode.permissions.tool_table import MEMORY_TOOLS
from gencode.sessions.session import Caller

if TYPE_CHECKING:
    from gencode.agent.hooks import Hooks
    from gencode.sandbox.processes.command import Command, CommandOutcome

SHALLOWEST = 1
"""The smallest limit of nesting: the main agent may start agents, those may not."""
STARTS = ("Task", "spawn", "spawn_subagent")
FOLLOWS = ("TaskOutput", "TaskStop", "KillShell")
STOPS = ("TaskStop", "KillShell")
MAINS_OWN = ("message", "cron", "spawn", "spawn_subagent")
"""Tools only for the agent that leads a conversation, whatever files of others name."""
MEMORY = ("memory_list", "memory_read", "memory_write", "memory_append", "memory_patch")
NOTES = (
    "You keep notes for your later tasks: list and read them (memory_list, memory_read, scope `{scope}`) "
    "before you begin, and add what will be useful again (memory_append, memory_write)."
)
BASH = "Bash"
SKILL = "Skill"
SKILLS = "### Skills\nInstructions for kinds of work. Load one with Skill before you begin such work:"


class PreloadedText(Protocol):
    """Text for an agent, and warnings for its receipt."""

    @property
    def text(self) -> str: ...
    @property
    def warnings(self) -> tuple[str, ...]: ...


class AgentSkills(Protocol):
    """The port for skills."""

    def skill_lines(self) -> str:
        """The skills that an agent may choose from, a line each; empty if there are none."""
        ...

    def preloaded(self, names: Sequence[str]) -> PreloadedText:
        """The text of the skills that an agent's file preloads."""
        ...

    def equivalent_call(self, call: ToolCall) -> ToolCall | None:
        """The call of Task that the use of a skill results in; None if it starts no agent."""
        ...


class ServerTools(Protocol):
    """The port for tools of servers."""

    async def ready(self, spec: AgentSpec) -> None:
        """Wait for the servers that an agent would use."""
        ...

    def serves(self, spec: AgentSpec) -> bool:
        """Whether there are servers whose tools an agent may get, now or later."""
        ...

    def tools(self, spec: AgentSpec) -> Sequence[Tool]:
        """The tools that an agent gets."""
        ...

    def warnings(self, spec: AgentSpec) -> Sequence[str]:
        """Warnings about servers, for an agent's receipt."""
        ...

    def absent(self, spec: AgentSpec, tool: str) -> MissingTool | None:
        """Why a tool is missing now; None if no server explains it."""
        ...


class RunSetupDefaults(Struct, frozen=True, eq=False):
    """Settings for every run: how deep agents are nested, what models cost, instructions.

    `agent_models` are the models that the settings give to agents, by `agent_key`. `hooks` are those of the
    settings; `skills` is the source of skills, if there are any. `appended` is the end of the prompt of an
    agent that leads a conversation.
    """

    depth: int = SHALLOWEST
    price: Callable[[str], Price] = lambda _: Price()
    instructions: Callable[[Workspace, Sequence[Policy]], str] = no_instructions
    skills: AgentSkills | None = None
    hooks: Mapping[str, Any] = {}
    outside: ServerTools | None = None
    appended: str = ""
    agent_models: Mapping[str, str] = {}
    named_tools: tuple[str, ...] = ()
    """The tools that the settings add to those of the agent that leads conversations."""


class RunSetupBuilder:
    """Builds the setup of a run from the known agents, models and tools."""

    def __init__(
        self,
        agents: AgentSource,
        models: ModelRegistry,
        toolbox: Toolbox,
        defaults: RunSetupDefaults | None = None,
    ) -> None:
        self._defaults = defaults or RunSetupDefaults()
        self._agents = agents
        self._models = models
        self._toolbox = toolbox
        self._toolboxes: dict[tuple[ToolChoice, bool, bool, bool, tuple[str, ...]], Toolbox] = {}
        self._environments = EnvironmentReader()

    def find(self, name: str) -> AgentSpec:
        """An agent by name; UnknownName suggests the nearest."""
        return self._agents.find(name)

    def main(self) -> AgentSpec:
        """The agent that leads conversations, unless another one is named."""
        return self._agents.main(self._defaults.named_tools)

    def agent_of(self, name: str) -> AgentSpec:
        """The agent of a task, by the name in its journal; a fork of a conversation has the main one."""
        return self.main() if name == MAIN else self._agents.find(name)

    def result_cap(self, agent: str) -> int:
        """How many characters of its result an agent returns to another agent's context."""
        return self.agent_of(agent).result_cap

    def spawnable(self, caller: Caller) -> Sequence[AgentSpec]:
        """Every agent that a caller may start."""
        if not self.may_send(caller):
            return ()
        named = None if caller.sends is None else {same_name(name) for name in caller.sends}
        return [spec for spec in self._agents.spawnable() if named is None or same_name(spec.name) in named]

    def may_send(self, caller: Caller) -> bool:
        """Whether a caller may start subagents: it is not too deep, and its agent's file names some."""
        return caller.depth < self._defaults.depth and (caller.depth == 0 or bool(caller.sends))

    def agent_kind(self, name: str) -> AgentKind:
        """Whether an agent is a built-in one that only reads, and so needs no approval to be started."""
        spec = self._known(name)
        return "builtin-reader" if spec and spec.builtin and spec.mode is Mode.PLAN else "other"

    def agent_mode(self, name: str) -> Mode | None:
        """The mode in an agent's file; None if it takes its parent's."""
        spec = self._known(name)
        return spec.mode if spec else None

    def equivalent_call(self, call: ToolCall) -> ToolCall | None:
        """The call that another one results in: a skill may start an agent."""
        return self._defaults.skills.equivalent_call(call) if self._defaults.skills else None

    def model(self, asked: str, spec: AgentSpec, parent: Model) -> Model:
        """The model of an agent: that of the call, else that of the settings, else that of its file."""
        if named := asked or self._defaults.agent_models.get(agent_key(spec.name), ""):
            return self._models.resolve(named, parent)
        return self._models.resolve(spec.model, parent, from_file=True)

    async def ready(self, spec: AgentSpec) -> None:
        """Wait a little for what an agent needs and is not available yet."""
        if self._defaults.outside is not None:
            await self._defaults.outside.ready(spec)

    def tools(self, spec: AgentSpec, caller: Caller) -> Toolbox:
        """The tools an agent sees. Those it may not use are hidden here and refused again at the gate."""
        plans = any(policy.mode is Mode.PLAN for policy in caller.chain)
        own, shown = self._own_tools(spec, caller, plans=plans), None
        if caller.fork:
            shown = self._own_tools(spec, caller.forked_from(spec), plans=plans)
        outside = self._defaults.outside
        if outside is None or not outside.serves(spec):
            return own if shown is None else Toolbox(own.values(), shown=shown)

        def come() -> list[Tool]:
            return [tool for tool in outside.tools(spec) if tool.effect == "read" or not plans]

        from gencode.agent.server_toolbox import ServerToolbox

        return ServerToolbox(own.values(), come, partial(outside.absent, spec), shown)

    def _own_tools(self, spec: AgentSpec, caller: Caller, *, plans: bool) -> Toolbox:
        deepest, sent = not self.may_send(caller), caller.depth > 0
        choice = spec.tools
        if spec.memory:
            choice = replace(choice, also=(*choice.also, *memory_tools(spec, plans=plans)))
        if not sent and choice.allow is None and self._skill_lines():
            choice = replace(choice, also=(*choice.also, SKILL))
        offered = tuple(each.name for each in self.spawnable(caller))
        key = (choice, deepest, plans, sent, offered)
        if key not in self._toolboxes:  # agents of a kind share one, and its encoded form
            toolbox = self._toolbox.chosen(choice)
            toolbox = toolbox.without(self._kept_back(caller, toolbox, plans=plans))
            if sent and spec.tools.allow is None:  # an agent sends messages only if its file says so
                toolbox = toolbox.without(("SendMessage",))
            written = [name for name, tool in toolbox.items() if tool.effect == "write"] if plans else ()
            toolbox = toolbox.without(name for name in written if name not in MEMORY_TOOLS)
            toolbox = toolbox.hiding(BASH, "network") if plans else toolbox
            if plans or not any(name in toolbox for name in STOPS):
                toolbox = toolbox.hiding(BASH, "run_in_background")
            self._toolboxes[key] = toolbox.offering(offered)
        return self._toolboxes[key]

    def started(
        self, spec: AgentSpec, toolbox: Toolbox, caller: Caller, system: str, had: Sequence[str] = ()
    ) -> TaskStarted:
        """The event that an agent begins, with what is missing for it; `had` are its earlier tools."""
        outside = self._defaults.outside
        missing = self._toolbox.missing(spec.tools)
        if outside is not None:
            missing = [name for name in missing if not name.startswith(SERVERS)]
        warnings = [f"the tool {name} is not available" for name in missing] + list(caller.model.warnings)
        lost = [name for name in had if name not in self._toolbox and name not in missing]
        warnings += [f"the tool {name}, which it had before, is no longer available" for name in lost]
        warnings += self._withheld(spec, caller, toolbox)
        warnings += [earlier_version(spec.outdated)] if spec.outdated else []
        warnings += self._preloaded(spec)[1]
        warnings += outside.warnings(spec) if outside is not None else ()
        warnings += _odd_hooks(spec)
        if self._unpriced(spec, caller.model.name):
            warnings.append(f"its limit of ${spec.budget.usd:g} does not apply. {NO_PRICE}")
        warnings += [note.text for note in caller.notes()]
        return TaskStarted(
            caller.model.name, system, tuple(toolbox), tuple(warnings), conditions=self.conditions(caller)
        )

    def budget_of(self, spec: AgentSpec, model: Model) -> Budget:
        """The budget in an agent's file.

        Dollars in a file of another product apply only if the price of the model is known: its author could
        not know which model would be used here.
        """
        return replace(spec.budget, usd=None) if self._unpriced(spec, model.name) else spec.budget

    def _unpriced(self, spec: AgentSpec, model: str) -> bool:
        foreign = spec.budget.usd is not None and spec.dialect != AgentSpec("", "").dialect
        return foreign and self._defaults.price(model).of(Usage()) is None

    def check_model(self, model: str) -> None:
        """UserMistake for a model with an unknown price, where the price is needed."""
        if self._defaults.price(model).of(Usage()) is None:
            raise UserMistake(f"{model}: {NO_PRICE}")

    async def environment(self, toolbox: Toolbox, caller: Caller, *, anew: bool) -> AgentEnvironment:
        """The environment of an agent; `anew` if a conversation begins."""
        workspace = caller.workspace
        confined = partial(caller.session.shells.all().confinement, workspace) if BASH in toolbox else None
        return await self._environments.read(workspace.cwd, confined, anew=anew)

    def conditions(self, caller: Caller) -> RunConditions:
        """The conditions of a run, for its agent."""
        asked = caller.session.asker is not None
        reached = not caller.background or caller.spawned or caller.session.background_questions
        approver = asked and reached
        day = datetime.now().astimezone().date().isoformat()
        return RunConditions(caller.chain.mode, approver, day, caller.model.name)

    def changes(
        self, before: TaskStarted, toolbox: Toolbox, caller: Caller, *, leads: bool
    ) -> list[UserMessage]:
        """The message about what has changed since an agent's last start; usually none."""
        now = datetime.now().astimezone()
        conditions = self.conditions(caller)
        text = "\n".join(changed_conditions(before, conditions, tuple(toolbox), now, leads=leads))
        notice = SystemNotice(NoticeKind.REMARK)
        return [UserMessage(text, "system", notice=notice)] if text else []

    def system(
        self, spec: AgentSpec, toolbox: Toolbox, caller: Caller, environment: AgentEnvironment, *, leads: bool
    ) -> str:
        """The system prompt of an agent; one that `leads` talks with the user."""
        sends = "Task" in toolbox or "spawn_subagent" in toolbox
        more = [self._defaults.instructions(caller.workspace, caller.chain)] if spec.instructions else []
        scope = spec.memory if spec.memory in ("user", "project") else "agent"
        keeps = spec.memory and "memory_append" in toolbox
        more += [self._preloaded(spec)[0], NOTES.format(scope=scope) if keeps else ""]
        if SKILL in toolbox and (lines := self._skill_lines()):
            more.append(f"{SKILLS}\n{lines}")
        if leads:
            more.append(self._defaults.appended)
        return system_prompt(
            spec,
            leads=leads,
            tools=toolbox,
            conditions=self.conditions(caller),
            environment=environment,
            agents=[(each.name, each.description) for each in self.spawnable(caller)] if sends else (),
            more=more,
            timed=caller.spawned,
        )

    def gate(
        self, spec: AgentSpec, task: Task, toolbox: Toolbox, caller: Caller, relatives: RelatedTasks
    ) -> Gate:
        """The gate of an agent."""
        return Gate(
            chain=caller.chain,
            toolbox=toolbox,
            workspace=caller.workspace,
            agent=CallingAgent(task.id, spec.name, caller.lineage, _named(spec, toolbox), spec.project),
            approvals=Approvals(
                once=caller.approved.once,
                given=caller.approved.rules,
                asker=caller.session.asker,
                background=caller.background,
                disturbs=caller.session.background_questions or caller.spawned,
                spawning=caller.session.spawn_approval,
                web_read_hosts=caller.session.web_read_hosts,
            ),
            agents=self,
            relatives=relatives,
            registered=self._toolbox if task.conversation else Toolbox(),
        )

    def price(self, model: Model) -> Price:
        """What a model costs, and its context."""
        return self._defaults.price(model.name)

    def hooked(self, spec: AgentSpec) -> bool:
        """Whether hooks may run for an agent."""
        return bool(spec.hooks or self._defaults.hooks)

    def hooks(self, spec: AgentSpec, task: Task, toolbox: Toolbox, caller: Caller) -> "Hooks | None":
        """The hooks of an agent; nothing is loaded without any."""
        if not self.hooked(spec):
            return None
        from gencode.agent.hook_settings import parse_hooks
        from gencode.agent.hooks import HookContext, hooks_for

        own = parse_hooks(spec.hooks, of_agent=True).hooks
        everybodys = parse_hooks(self._defaults.hooks, of_agent=False).hooks
        around = HookContext(task.id, spec.name, caller.workspace, toolbox, main=task.conversation)
        run = partial(self._enclosed, caller)
        return hooks_for(around, run, (*own, *everybodys))

    async def _enclosed(self, caller: Caller, command: "Command") -> "CommandOutcome":
        plan = caller.chain.mode is Mode.PLAN
        return await caller.session.shells.all().run_enclosed(command, caller.workspace, reads_only=plan)

    def _skill_lines(self) -> str:
        return self._defaults.skills.skill_lines() if self._defaults.skills else ""

    def _preloaded(self, spec: AgentSpec) -> tuple[str, tuple[str, ...]]:
        """The preloaded skills of an agent, and what is wrong with them."""
        if not spec.skills or self._defaults.skills is None:
            return "", ()
        found = self._defaults.skills.preloaded(spec.skills)
        return found.text, found.warnings

    def _kept_back(self, caller: Caller, toolbox: Toolbox, *, plans: bool) -> tuple[str, ...]:
        """Those of these tools that no agent of this caller gets."""
        own = MAINS_OWN if caller.depth > 0 else ()
        return own if self.may_send(caller) else (*not_without_subagents(toolbox, plans=plans), *own)

    def _withheld(self, spec: AgentSpec, caller: Caller, toolbox: Toolbox) -> list[str]:
        """Warnings for tools in an agent's file that this agent does not get."""
        plans = any(policy.mode is Mode.PLAN for policy in caller.chain)
        kept = self._kept_back(caller, toolbox, plans=plans)
        there = [name for name in spec.tools.allow or () if name in self._toolbox] if kept else []
        names = [name for name in dict.fromkeys(there) if self._toolbox[name].name in kept]
        if not names:
            return []
        what = f"tool {names[0]} is" if len(names) == 1 else f"tools {', '.join(names)} are"
        deeper = f"to start the agents that its file names, set max_depth = {caller.depth + 1}"
        deepest = f"agents can be nested at most {DEEPEST} deep"
        why = f"; {deepest if caller.depth >= DEEPEST else deeper}" if spec.sends else ""
        return [f"the {what} not available to a subagent{why}"]

    def _known(self, name: str) -> AgentSpec | None:
        try:
            return self._agents.find(name)
        except UserMistake:
            return None


def not_without_subagents(toolbox: Toolbox, *, plans: bool) -> tuple[str, ...]:
    """The tools that an agent which starts no other does not get; it may follow commands of its own."""
    return STARTS if BASH in toolbox and not plans else (*STARTS, *FOLLOWS)


def memory_tools(spec: AgentSpec, *, plans: bool) -> tuple[str, ...]:
    """The tools that `memory` in an agent's file adds: never more than its other tools may do.

    An agent with all tools or Write keeps notes; one that plans reads them. A list without any of these, or
    an empty one, adds nothing.
    """
    allow = spec.tools.allow
    writes = allow is None or any(name in allow for name in ("Write", "Edit"))
    if not spec.memory or not (writes or any(name in (allow or ()) for name in MEMORY)):
        return ()
    return (
        MEMORY[:2] if plans else MEMORY if writes else tuple(each for each in MEMORY if each in (allow or ()))
    )


def _named(spec: AgentSpec, toolbox: Toolbox) -> frozenset[str]:
    """The tools that an agent's file names; with `*`, all that it has."""
    return frozenset(toolbox if "*" in spec.tools.also else spec.tools.allow or ())


def _odd_hooks(spec: AgentSpec) -> Sequence[str]:
    """What is wrong with the hooks of an agent's file."""
    if not spec.hooks:
        return ()
    from gencode.agent.hook_settings import parse_hooks

    return parse_hooks(spec.hooks, of_agent=True).lost


def output_schema_of(task: Task | TaskCreated, spec: AgentSpec, asked: Form = None) -> Form:
    """The requested schema, else that of the task; a conversation has that of the agent which leads it."""
    if task.conversation:
        return spec.output_schema
    if asked is not None:
        return asked
    return task.terms.output_schema if isinstance(task, Task) else task.output_schema


def output_schema_at(events: Sequence[Event], at: int) -> Form:
    """The schema of a task after its event number `at`."""
    facts = [event.fact for event in events if (event.seq or 0) <= at]
    said = [each.output_schema for each in facts if isinstance(each, TaskCreated | TaskStarted | TaskQueued)]
    return next((each for each in reversed(said) if each is not None), None)


async def checked_schema(schema: Form) -> Form:
    """The same schema; UserMistake for an invalid one. It is checked in a thread."""
    if schema is None:
        return None
    from gencode.agent.output_schema import aside, check_schema

    return await aside(partial(check_schema, schema))


async def checked_agent_schema(spec: AgentSpec) -> Form:
    """The schema in an agent's file; UserMistake names the file if it is invalid."""
    try:
        return await checked_schema(spec.output_schema)
    except UserMistake as wrong:
        raise UserMistake(f"The output-schema of the agent {spec.name}, in {spec.source}: {wrong}") from None


async def with_agent_schema(request: TaskRequest, spec: AgentSpec) -> TaskRequest:
    """A request with a checked schema: its own, or that of the agent's file."""
    if request.output_schema is not None:
        return await with_checked_schema(request)
    return replace(request, output_schema=await checked_agent_schema(spec))


async def with_checked_schema(request: TaskRequest, usual: Form = None) -> TaskRequest:
    """A request with a checked schema: its own, or the `usual` one."""
    own = request.output_schema
    return replace(request, output_schema=await checked_schema(usual if own is None else own))
