"""Task plans: what is decided before a task runs, wherever it is requested and wherever it will run."""

from typing import TYPE_CHECKING

from msgspec import Struct

from gencode.agent.final_answer import Form
from gencode.agent.models import Model, elsewhere
from gencode.agent.run_setup import RunLimits
from gencode.budgets.limits import NO_BUDGET, check_budget, tightest
from gencode.core.budget import Budget, allowed, amount_of
from gencode.core.errors import UserMistake
from gencode.core.events import DurableFact, TaskCreated
from gencode.core.messages import Image, SystemNotice, ToolCall, UserMessage
from gencode.core.spec import COLOURS, FORK, AgentSpec, ForkPoint, TaskRequest, Workspace, same_name
from gencode.core.status import Status
from gencode.core.structs import replace
from gencode.core.task import Task
from gencode.journal.dispatch import Handover
from gencode.sessions.session import Caller, chain_link
from gencode.tasks.deadline import (
    TimeLimit,
    TimeLimits,
    handed_limits,
    report_by,
    seconds_left,
    time_limits,
)
from gencode.tasks.fork import (
    Fork,
    ForkPlace,
    check_fork_begun,
    context_of,
    fork_created,
    fork_facts,
    remembered_facts,
)
from gencode.tasks.queries import current_budget
from gencode.tasks.resume import busy_error
from gencode.tasks.setup_builder import checked_agent_schema, with_agent_schema, with_checked_schema
from gencode.tasks.task_folders import TaskFolder, has_own_folder, in_worktree

if TYPE_CHECKING:
    from gencode.tasks.task_parts import TaskParts

NOTHING_SAID = "The prompt is empty; say what the agent should do."
NOTHING_ASKED = "The prompt is empty; say what you want to know or have done."


class NewTaskPlan(Struct, frozen=True, eq=False):
    """The plan of a new task.

    `memory` are events between its creation and its start: the transcript of a fork. A `fork` that begins in
    another process gets them there. `reusable`: an earlier result may be reused, and its own later.
    `received` comes from a process that requested it, and may have written it already.
    """

    created: TaskCreated
    named: str = ""
    """The id of the task, if it was announced before the task begins."""
    memory: tuple[DurableFact, ...] = ()
    fork: ForkPoint | None = None
    reusable: bool = False
    received: Handover | None = None
    worktree: bool = False
    """Whether it gets a git worktree, ..."""
    copies: Task | None = None
    """... which begins with the changes of this task."""


class EarlierTask(Struct, frozen=True, eq=False):
    """An earlier task that is resumed with a prompt; `takes_over`: in place of a process that died."""

    task: Task
    prompt: str = ""
    notice: SystemNotice | None = None
    """What the prompt is about, if GenCode wrote it."""
    to_background: bool = False
    budget: Budget | None = None
    takes_over: bool = False
    schema: Form = None
    """The schema for results from now on; None: unchanged."""


class TaskPlan(Struct, frozen=True, eq=False, kw_only=True):
    """One run of a task: its agent, its place, its limits, and how it begins.

    `place` is the agent as the caller of its subagents. `isolated`: it runs in its own process.
    """

    agent: AgentSpec
    place: Caller
    run: NewTaskPlan | EarlierTask
    limits: RunLimits = RunLimits()
    time: TimeLimits = TimeLimits()
    images: tuple[Image, ...] = ()
    runs: tuple[str, ...] = ()
    """The shell commands of its prompt."""
    isolated: bool = False
    workplace: TaskFolder | None = None
    """The worktree or the copy it works in, once that exists."""

    @property
    def detached(self) -> "DetachedPlan":
        """The same plan for a process that outlives this one."""
        self.place.stop.fall()
        return DetachedPlan(self.run, self.place.model, self.place.workspace, self.time.most)

    @property
    def task(self) -> Task | TaskCreated:
        """The task before this run."""
        return self.run.created if isinstance(self.run, NewTaskPlan) else self.run.task

    @property
    def budget(self) -> Budget:
        """The budget of the task."""
        if isinstance(self.run, NewTaskPlan):
            return self.run.created.budget
        return self.run.task.terms.budget if self.run.budget is None else self.run.budget

    def settled(self) -> "TaskPlan":
        """The plan with the model settings of the agent's file and the task, which its subagents inherit."""
        model, task = self.place.model.for_agent(self.agent), self.task
        created = task.created if isinstance(task, Task) else task
        if created.max_tokens is not None:
            model = replace(model, max_tokens=created.max_tokens)
        place = replace(self.place, model=model, spawned=created.spawned, fork=created.forks_parent)
        return replace(self, place=place)

    def working_in(self, workplace: TaskFolder) -> "TaskPlan":
        """The plan with a worktree or a copy as its folder."""
        workspace = workplace.workspace.as_clone(self.task.clone)
        return replace(self, workplace=workplace, place=replace(self.place, workspace=workspace))


class DetachedPlan(Struct, frozen=True, eq=False):
    """One run of a task in a process that outlives this one; the `account` of a session may pay for it."""

    run: NewTaskPlan | EarlierTask
    model: Model
    workspace: Workspace
    seconds: float | None
    account: str = ""
    turns: int | None = None


class TaskPlanner:
    """Makes plans from requests; UserMistake for an invalid one. Nothing is written or started."""

    def __init__(self, parts: "TaskParts") -> None:
        self._parts = parts
        self._store = parts.store
        self._setups = parts.setups
        self._find = parts.supervisor.find
        self._limits = parts.settings

    async def plan_new(
        self,
        request: TaskRequest,
        caller: Caller,
        call: ToolCall | None = None,
        seconds: float | None = None,
    ) -> TaskPlan:
        """A new subagent of a caller; as a fork, a copy of the caller that begins with its transcript."""
        source = caller.task if request.context == FORK else None
        if source is None:
            spec, request = await self._startable(request, caller)
            memory = ()
        else:
            spec, request = await self._forkable(request, source)
            memory = (context_of(source, await self._store.events(source)),)
        check_prompt(request.prompt)
        check_turns(request.max_turns)
        check_tokens(request.max_tokens)
        check_budget(request.budget)
        isolation = request.isolation or spec.isolation
        background = request.background or spec.background
        with elsewhere(far=isolation == "process" and self._parts.callers.far):
            model = self._setups.model(request.model, spec, caller.model)
        grant = caller.grant(spec)
        place = caller.below(spec, model, background=background, link=chain_link(spec, grant))
        budget = tightest(request.budget, self._setups.budget_of(spec, model))
        asked = request if caller.task is None else request.within(spec)
        turns = asked.max_turns or spec.max_turns
        created = TaskCreated(
            agent=spec.name,
            prompt=request.prompt,
            description=request.description,
            parent=caller.task,
            call=call.id if call else None,
            background=background,
            cwd=str(caller.workspace.cwd),
            asked_model=model.asked,
            max_turns=turns,
            depth=place.depth,
            policies=place.policies,
            grant=grant,
            spawned=request.spawned,
            budget=budget,
            output_schema=request.output_schema,
            tools=spec.tools,
            model=model.lasting,
            colour=spec.colour if spec.colour.casefold() in COLOURS else "",
            display_name="" if spec.builtin else spec.display_name,  # built-in ones are known by their names
            max_tokens=asked.max_tokens or model.for_agent(spec).max_tokens,
            forked=source or "",
            clone=caller.workspace.clone,
        )
        tree = in_worktree(spec, request.isolation)
        reusable = self._limits.result_cache and not (tree or memory or self._setups.hooked(spec))
        return TaskPlan(
            agent=spec,
            place=place,
            run=NewTaskPlan(created, memory=memory, reusable=reusable, worktree=tree),
            limits=RunLimits(turns),
            time=self._time(place, budget.seconds, seconds, waited=not background),
            isolated=isolation == "process",
        )

    async def plan_turn(
        self,
        spec: AgentSpec,
        said: UserMessage,
        caller: Caller,
        limits: RunLimits,
        time: TimeLimits,
        budget: Budget,
        session: Task | None,
        named: str = "",
    ) -> TaskPlan:
        """A turn of a conversation; a new one gets the id in `named`, if that is free."""
        spec = replace(spec, output_schema=await checked_agent_schema(spec))
        if session is not None:
            run = EarlierTask(session, said.text, said.notice, budget=budget)
        elif not said.text.strip():
            raise UserMistake(NOTHING_ASKED)
        else:
            created = TaskCreated(
                agent=spec.name,
                prompt=said.text,
                conversation=True,
                cwd=str(caller.workspace.cwd),
                asked_model=caller.model.asked,
                max_turns=limits.turns,
                policies=caller.chain.bare,
                budget=budget,
            )
            run = NewTaskPlan(created, named)
        place = caller.leading(spec)
        return TaskPlan(
            agent=spec, place=place, run=run, limits=limits, time=time, images=said.images, runs=said.runs
        )

    async def plan_resume(
        self, task: Task, request: TaskRequest, seconds: float | None, account: str
    ) -> TaskPlan:
        """An earlier task of an agent, resumed by a person where it was; a session's `account` may pay."""
        if request.isolation:
            raise UserMistake(f"Task {task.id} is resumed in this process; leave isolation out.")
        place = await self._parts.callers.for_task(task, request.model, here=request.here)
        place = replace(place, background=request.background, account=account)
        return await self._resumed(task, request, place, seconds)

    async def plan_child_resume(self, task: Task, request: TaskRequest, caller: Caller) -> TaskPlan:
        """An earlier subagent of a caller, resumed by it."""
        spec = self._parts.callers.agent_of(task)
        model = self._setups.model(request.model or task.created.asked_model, spec, caller.model)
        link = chain_link(spec, task.created.grant)
        place = caller.below(spec, model, background=request.background, link=link)
        return await self._resumed(task, request.within(spec), replace(place, depth=task.created.depth), None)

    async def plan_takeover(self, task: Task, handover: Handover) -> TaskPlan:
        """A task in place of a process that died; whoever waits for it keeps waiting."""
        background = task.terms.background or not handover.bound
        place = replace(
            await self._parts.callers.for_task(task, handover.model), background=background, account=""
        )
        request = TaskRequest("", "", max_turns=handover.max_turns, background=background)
        return await self._resumed(task, request, place, handover.seconds, takes_over=True)

    async def _resumed(
        self,
        task: Task,
        request: TaskRequest,
        place: Caller,
        seconds: float | None,
        *,
        takes_over: bool = False,
    ) -> TaskPlan:
        """A task that keeps its id, agent and transcript; `place` is below the caller that resumes it.

        Without a prompt it continues with the messages that wait for it.
        """
        await check_fork_begun(self._store, task)
        check_turns(request.max_turns)
        check_budget(request.budget)
        spec = self._parts.callers.agent_of(task)
        named = None if request.budget == NO_BUDGET else request.budget
        budget = named or await current_budget(self._store, task)
        left = seconds_left(task, budget, over=takes_over)
        return TaskPlan(
            agent=spec,
            place=replace(place, workspace=place.workspace.as_clone(task.clone)),
            run=EarlierTask(
                task,
                request.prompt,
                request.notice,
                to_background=request.background and not task.terms.background,
                budget=named,
                takes_over=takes_over,
                schema=request.output_schema,
            ),
            limits=RunLimits(request.max_turns or task.created.max_turns or spec.max_turns),
            time=self._time(place, left, seconds, waited=not request.background),
        )

    async def plan_detached_resume(
        self, task: Task, request: TaskRequest, seconds: float | None, account: str
    ) -> DetachedPlan:
        """An earlier task, resumed in a process that outlives this one."""
        if task.conversation:
            raise UserMistake(f"{task.id} is a conversation; resume it here: gen -p --session {task.id}")
        if not task.status.ended:
            raise busy_error(task.id, waits=task.status is Status.PENDING)
        await check_fork_begun(self._store, task)
        place = await self._parts.callers.for_detached(task, request.model, here=request.here)
        run = EarlierTask(task, request.prompt, schema=request.output_schema)
        left = seconds_left(task, await current_budget(self._store, task))
        most = self._time(place, left, seconds, waited=False).most
        return DetachedPlan(run, place.model, place.workspace, most, account, request.max_turns)

    async def plan_fork(
        self, task: Task, fork: Fork, request: TaskRequest, seconds: float | None, account: str
    ) -> TaskPlan:
        """A fork of an earlier task, in the same folder."""
        if request.isolation == "process":
            raise UserMistake(f"A fork of task {task.id} begins in this process; leave isolation out.")
        check_prompt(request.prompt)
        check_turns(request.max_turns)
        place = await self._parts.callers.for_task(task, request.model, here=request.here, verb="fork")
        place = replace(place, background=request.background, account=account)
        place = replace(place, workspace=place.workspace.as_clone(task.clone))
        spec, events = self._parts.callers.agent_of(task), await self._store.events(task.id)
        tree = in_worktree(spec, request.isolation, task)
        created, memory = fork_facts(task, events, fork, request, place, tree=tree)
        check_budget(created.budget)
        return TaskPlan(
            agent=spec,
            place=place,
            run=NewTaskPlan(created, memory=memory, worktree=tree, copies=task),
            limits=RunLimits(created.max_turns),
            time=self._time(place, created.budget.seconds, seconds, waited=False),
        )

    async def plan_detached_fork(
        self, task: Task, point: ForkPoint, request: TaskRequest, seconds: float | None
    ) -> DetachedPlan:
        """A fork in a process that outlives this one, or on a worker that can have its folder.

        If the folder is not here, its permissions stay as they were, narrowed by today's rules.
        """
        check_prompt(request.prompt)
        check_turns(request.max_turns)
        if self._parts.callers.is_far(task):
            place, policies = self._parts.callers.for_remote_fork(task, request.model)
            tree = request.isolation == "worktree" or has_own_folder(task)
        else:
            place = await self._parts.callers.for_detached(task, request.model, here=request.here)
            policies, tree = (
                place.policies,
                in_worktree(self._parts.callers.agent_of(task), request.isolation, task),
            )
        created = fork_created(task, request, ForkPlace(task.cwd, place.model.asked, policies))
        run = NewTaskPlan(created, fork=point, worktree=tree, copies=task)
        most = self._time(place, created.budget.seconds, seconds, waited=False).most
        return DetachedPlan(run, place.model, self._parts.callers.person.workspace, most)

    async def plan_received(self, created: TaskCreated, handover: Handover) -> TaskPlan:
        """A new task that another process requested, and may have written already."""
        spec = self._parts.callers.agent_of(created)
        workplace = self._parts.folders.received(created, handover.task)
        memory = await remembered_facts(
            self._store, created, handover, lodged=workplace is not None and not created.worktree
        )
        place = self._parts.callers.for_received(created, handover)
        plan = TaskPlan(
            agent=spec,
            place=replace(place, workspace=place.workspace.as_clone(created.clone)),
            run=NewTaskPlan(created, memory=memory, received=handover),
            limits=RunLimits(created.max_turns),
            time=handed_limits(created, handover, self._limits.task_seconds),
        )
        return plan if workplace is None else plan.working_in(workplace)

    async def _startable(self, request: TaskRequest, caller: Caller) -> tuple[AgentSpec, TaskRequest]:
        """The agent that a request names, if the caller may start it, and the request with its schema."""
        spec = self._setups.find(request.agent)
        if caller.sends is not None and caller.task is not None:
            named = {same_name(name) for name in caller.sends}
            if same_name(spec.name) not in named:
                there = ", ".join(caller.sends) or "none"
                raise UserMistake(f"{spec.name} cannot be started from here; available agents: {there}.")
        return spec, await with_agent_schema(request, spec)

    async def _forkable(self, request: TaskRequest, source: str) -> tuple[AgentSpec, TaskRequest]:
        """The agent of a task as that of its fork, which works in the same folder of this process."""
        if request.isolation == "process":
            raise UserMistake("A fork begins in the process of its parent; leave isolation out.")
        task = await self._store.task(source)
        if task is None:
            raise UserMistake(f"There is no task {source}.")
        spec = self._parts.callers.agent_of(task)
        own = replace(spec, isolation="", background=False, output_schema=None)
        return own, await with_checked_schema(request)

    def _time(self, place: Caller, left: float | None, seconds: float | None, *, waited: bool) -> TimeLimits:
        """The time limits of a run: with so much `left` of its budget, and perhaps a waiting parent."""
        limits = {
            TimeLimit.BUDGET: left,
            TimeLimit.AGENT: self._limits.task_seconds,
            TimeLimit.RUN: seconds,
        }
        return time_limits(
            limits,
            until=place.until if place.background else None,  # a foreground task ends with its parent
            parent=place.task,
            report_by=report_by(place.task, self._find) if waited else None,
        )


def check_prompt(prompt: str) -> None:
    """UserMistake for an empty prompt."""
    if not prompt.strip():
        raise UserMistake(NOTHING_SAID)


def check_turns(turns: int | None) -> None:
    """UserMistake for an invalid limit of turns."""
    if turns is not None and amount_of("turns", turns) is not turns:  # a program may pass a text
        raise UserMistake(f"max_turns must be {allowed('turns')}, not {turns!r}.")


def check_tokens(tokens: int | None) -> None:
    """UserMistake for a limit of tokens that can be none."""
    if tokens is not None and amount_of("tokens", tokens) is not tokens:
        raise UserMistake(f"max_tokens must be {allowed('tokens')}, not {tokens!r}.")
