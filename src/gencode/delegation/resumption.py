"""Going on with tasks that only the journal knows: a person's, and those another process hands over."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gencode.core.budget import Budget
from gencode.core.errors import UserMistake
from gencode.core.events import TaskCreated
from gencode.core.spec import AgentSpec, ForkPoint, TaskRequest, Workspace
from gencode.core.status import Status
from gencode.core.task import Task
from gencode.delegation.apart import new_task
from gencode.delegation.deadline import seconds_left
from gencode.delegation.earlier import busy, is_here
from gencode.delegation.forks import Fork, Whereabouts, born, check_begun, kept_policies
from gencode.delegation.launcher import Launcher
from gencode.delegation.live import Job
from gencode.delegation.origin import Origin, link_of
from gencode.delegation.session import Session
from gencode.delegation.trees import had_own, in_worktree
from gencode.permissions.chain import Chain, Link, Root, narrowed, rebuilt
from gencode.runtime.fleet import Dispatching
from gencode.runtime.models import OWN, Model, ModelRegistry
from gencode.runtime.ports import Handover, Store

if TYPE_CHECKING:
    from gencode.runtime.away.clones import Clone
    from gencode.runtime.away.parcel import Parcel

IN_CLONE = (
    "{cwd} is a clone of the repository of {folder}; in it, task {task} goes on in your own process only: "
    "leave --background out."
)


class Resumption:
    """Puts tasks back where they were: the same folder, depth, model and permissions.

    `here` is where the person sits. Permissions that were named for this session take the place of the stored
    ones; without them, today's rules can only narrow what the task may do.
    """

    def __init__(
        self,
        launcher: Launcher,
        store: Store,
        models: ModelRegistry,
        session: Session,
        here: Callable[[], Origin],
    ) -> None:
        self._launcher = launcher
        self._store = store
        self._models = models
        self._here = here
        self._root = session.root if session.own_policy else None

    async def start(self, task: Task, request: TaskRequest, seconds: float | None, account: str) -> Job:
        """Go on with a task in this process; the `account` of a session may pay for it."""
        if request.isolation:
            raise UserMistake(f"Task {task.id} goes on in this process; leave isolation out.")
        spot = await self._place(task, request.model, here=request.here)
        spot = replace(spot, background=request.background, account=account)
        return await self._launcher.resume(task, request, spot, seconds)

    async def fork(
        self, task: Task, fork: Fork, request: TaskRequest, seconds: float | None, account: str
    ) -> Job:
        """Begin a new task with what an earlier one had said and heard, at the place of that one."""
        if request.isolation == "process":
            raise UserMistake(f"A fork of task {task.id} begins in this process; leave isolation out.")
        spot = await self._place(task, request.model, here=request.here, verb="fork")
        spot = replace(spot, background=request.background, account=account)
        return await self._launcher.fork(task, fork, request, spot, seconds)

    def is_far(self, task: Task) -> bool:
        """Whether the folder of a task is on another machine only."""
        return _is_far(task, far=self._launcher.apart.far)

    async def fork_apart(
        self, task: Task, point: ForkPoint, request: TaskRequest, seconds: float | None
    ) -> tuple[str, str]:
        """Begin a fork in a process that outlives this one; its id, and what to know of its folder.

        The folder need not be here: then its permissions stay as they were, and today's rules narrow them.
        """
        far = self._launcher.apart.far
        if self.is_far(task):
            where, model = self._whereabouts_there(task, request.model)
            tree = request.isolation == "worktree" or had_own(task)
        else:
            tree = in_worktree(self._launcher.agent_of(task), request.isolation, task)
            spot = await self._place(task, request.model, here=request.here, apart=True)
            spot.stop.fall()
            where, model = Whereabouts(task.cwd, spot.model.asked, spot.policies), spot.model
        created = born(task, request, where)
        most = self._most(seconds, created.budget)
        here, workplaces = self._here().workspace, self._launcher.workplaces
        async with workplaces.lent(created, here, task, wanted=tree, far=far) as (created, news):
            handover = new_task(created, model, most, bound=False)
            begun, begins = await self._launcher.apart.fork(replace(handover, fork=point))
        return begun, begins or news

    def _whereabouts_there(self, task: Task, asked: str) -> tuple[Whereabouts, Model]:
        if self._root is not None:
            raise UserMistake(
                f"The folder {task.cwd} of task {task.id} is not on this machine, so the permissions of a "
                "fork are those the task had; leave --permission-mode, --allow, --ask and --deny out."
            )
        here = self._here()
        model = self._model(task, asked, here.model)
        return Whereabouts(task.cwd, model.asked, kept_policies(task, here.chain[0])), model

    async def detach(self, task: Task, request: TaskRequest, seconds: float | None, account: str) -> str:
        """Go on with a task in a process that outlives this one; its id. A session's `account` may pay."""
        if task.conversation:
            raise UserMistake(f"{task.id} is a conversation; go on with it here: gen -p --session {task.id}")
        if not task.status.ended:
            raise busy(task.id, waits=task.status is Status.PENDING)
        await check_begun(self._store, task)
        handover = Handover(
            model=(await self._model_there(task, request)).lasting,
            task=task.id,
            prompt=request.prompt,
            max_turns=request.max_turns,
            seconds=self._most(seconds, replace(task.budget, seconds=seconds_left(task, task.budget))),
            background=True,
            account=account,
            output_schema=request.output_schema,
        )
        return await self._launcher.apart.detach(handover)

    def _most(self, seconds: float | None, budget: Budget) -> float | None:
        """How long a task may take in another process, and be waited for while nobody can take it."""
        times = (seconds, budget.seconds, self._launcher.seconds)
        return min((each for each in times if each is not None), default=None)

    async def take_on(self, created: TaskCreated, handover: Handover) -> Job:
        """Start a new task that another process prepared."""
        spec = self._launcher.agent_of(created)
        here = self._here()
        model = replace(
            here.model, asked=created.asked_model, effort=handover.effort, warnings=handover.warnings
        )
        spot = _place(created, here, model, _chain(created, spec, here.chain, None), spec)
        spot = replace(spot, background=created.background, account=handover.account)
        return await self._launcher.take_on(created, spot, handover)

    async def take_over(self, task: Task, handover: Handover) -> Job:
        """Go on with a task in the place of a process that died with it; who waits for it goes on waiting."""
        behind = task.background or not handover.bound
        spot = await self._place(task, handover.model)
        spot = replace(spot, background=behind, account="")
        request = TaskRequest("", "", max_turns=handover.max_turns, background=behind)
        return await self._launcher.resume(task, request, spot, handover.seconds, over=True)

    async def _model_there(self, task: Task, request: TaskRequest) -> Model:
        """The model for a task that goes on in another process, which has its folder."""
        if self.is_far(task):
            return self._model(task, request.model, self._here().model)
        spot = await self._place(task, request.model, here=request.here, apart=True)
        spot.stop.fall()
        return spot.model

    async def _place(
        self, task: Task, asked: str, *, here: bool = False, apart: bool = False, verb: str = "resume"
    ) -> Origin:
        """Where a task goes on in this process, or in one `apart` on this machine: in its folder.

        A clone of that counts where its folder is not on this machine, or where it is to be `here`.
        """
        sits = self._here()
        clone = await self._clone(task, sits.workspace, named=here, verb=verb)
        if clone is not None and apart:
            raise UserMistake(IN_CLONE.format(task=task.id, cwd=sits.workspace.cwd, folder=task.cwd))
        spec = self._launcher.agent_of(task)
        model = self._model(task, asked, sits.model)
        if clone is None:
            return _place(task, sits, model, _chain(task, spec, sits.chain, self._root), spec)
        copied = clone.copied(self._launcher.workplaces.home)
        sits = replace(sits, workspace=replace(sits.workspace, copied=copied))
        return _place(task, sits, model, _chain_in_clone(task, spec, sits.chain), spec)

    async def _clone(self, task: Task, here: Workspace, *, named: bool, verb: str) -> "Clone | None":
        """The clone that a task goes on in; None for its own folder, UserMistake for any other one."""
        if task.id in self._launcher.workplaces.given or task.imported or not task.cwd:
            return None
        if task.cwd == str(here.cwd):
            return None
        if is_here(task.cwd) and not named:
            raise UserMistake(_elsewhere(task, verb, far=self._launcher.apart.far))
        from gencode.runtime.away.clones import NoClone, clone_at

        try:
            return await clone_at(here.cwd, task.cwd, await self._sent_with(task))
        except NoClone as why:
            words = _elsewhere(task, verb, far=self._launcher.apart.far)
            raise UserMistake(f"{words} {why}".rstrip()) from None

    async def _sent_with(self, task: Task) -> "Parcel | None":
        """How the folder of a task was that went to another machine, or of the one that it is a fork of."""
        if not isinstance(self._store, Dispatching):
            return None
        for name in filter(None, (task.id, task.forked)):
            if found := await self._store.parcels.returned(name):
                return found[0].parcel
        return None

    def _model(self, task: Task, asked: str, usual: Model) -> Model:
        """The model that goes on with a task: the one that is asked for, else the one it had."""
        if usual.asked == OWN:
            return usual
        if asked:
            return self._models.resolve(asked)
        if task.imported or not task.chosen_model:
            return usual
        try:
            return self._models.again(task.chosen_model)
        except UserMistake as mistake:
            raise UserMistake(
                f"Task {task.id} cannot go on with its model; name another. {mistake}"
            ) from None


def _place(task: Task | TaskCreated, here: Origin, model: Model, chain: Chain, spec: AgentSpec) -> Origin:
    return replace(
        here,
        chain=chain,
        model=model,
        stop=here.session.branch(),
        depth=task.depth,
        lineage=(spec.name,),
        sends=spec.sends or (),
    ).afresh()


def _is_far(task: Task, *, far: bool) -> bool:
    """Whether the folder of a task is on another machine only."""
    return far and not task.imported and bool(task.cwd) and not is_here(task.cwd)


def _elsewhere(task: Task, verb: str, *, far: bool) -> str:
    """Why a task does not go on in this folder, and where it does."""
    if _is_far(task, far=far):
        does = "run the fork" if verb == "fork" else "go on with it"
        return (
            f"The folder {task.cwd} of task {task.id} is not on this machine; let a worker {does}: "
            f"gen task {verb} {task.id} --background"
        )
    if not is_here(task.cwd):
        return f"The folder {task.cwd} of task {task.id} is gone; make it again to go on with it."
    return f"Task {task.id} belongs to the folder {task.cwd}; go on with it there (cwd, or --cwd)."


def _chain(task: Task | TaskCreated, spec: AgentSpec, today: Chain, root: Root | None) -> Chain:
    """The policies as they were written, together with what is asked about or refused today."""
    foreign = isinstance(task, Task) and task.imported
    if foreign or len(task.policies) < 2:
        return today.below(link_of(spec))
    if root is not None:
        return rebuilt(task.policies, task.grant, root, follows=spec.mode is None)
    first, *links = task.policies
    return rebuilt((narrowed(first, today[0]), *links), task.grant)


def _chain_in_clone(task: Task, spec: AgentSpec, today: Chain) -> Chain:
    """What counts in this folder, and below it what counted in the other one, which can only narrow that.

    Nobody has granted anything here. Permissions that were named now belong to this folder, so they lift
    nothing that the other one refuses.
    """
    if len(task.policies) < 2:
        return today.below(link_of(spec))
    for policy in task.policies:
        today = today.below(Link(policy.owner, policy.mode, policy.rules))
    return today
