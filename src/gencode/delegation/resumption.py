"""Going on with tasks that only the journal knows: a person's, and those another process hands over."""

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from gencode.core.errors import UserMistake
from gencode.core.events import TaskCreated
from gencode.core.rules import Action, Policy, merge
from gencode.core.spec import AgentSpec, TaskRequest, Workspace
from gencode.core.task import Task
from gencode.delegation.forks import Fork
from gencode.delegation.launcher import Launcher
from gencode.delegation.live import Job
from gencode.delegation.origin import Origin, link_of
from gencode.delegation.treasury import Funds
from gencode.permissions.chain import Chain, Root, rebuilt
from gencode.permissions.given import Given
from gencode.runtime.models import OWN, Model, ModelRegistry
from gencode.runtime.ports import Handover


class Resumption:
    """Puts tasks back where they were: the same folder, depth, model and permissions.

    `here` is where the person sits. A `root` (because permissions were named with the wish to go on) takes
    the place of the stored one; without it, today's rules can only narrow what the task may do.
    """

    def __init__(
        self, launcher: Launcher, models: ModelRegistry, here: Callable[[], Origin], root: Root | None
    ) -> None:
        self._launcher = launcher
        self._models = models
        self._here = here
        self._root = root

    async def start(self, task: Task, request: TaskRequest, seconds: float | None, funds: Funds) -> Job:
        """Go on with a task in this process, paid from these funds."""
        if request.isolation:
            raise UserMistake(f"Task {task.id} goes on in this process; leave isolation out.")
        spot = replace(self._place(task, request.model), background=request.background, purse=funds.purse)
        return await self._launcher.resume(task, request, spot, seconds, woken=funds.woken)

    async def fork(
        self, task: Task, fork: Fork, request: TaskRequest, seconds: float | None, funds: Funds
    ) -> Job:
        """Begin a new task with what an earlier one had said and heard, at the place of that one."""
        if _is_far(task, far=self._launcher.apart.far):
            raise UserMistake(
                f"The folder {task.cwd} of task {task.id} is not on this machine; fork it where that is, or "
                f"let a worker go on with the task itself: gen task resume {task.id} --background"
            )
        spot = replace(self._place(task, request.model), background=request.background, purse=funds.purse)
        return await self._launcher.fork(task, fork, request, spot, seconds, woken=funds.woken)

    async def detach(self, task: Task, request: TaskRequest, seconds: float | None) -> str:
        """Go on with a task in a process that outlives this one; its id."""
        if task.conversation:
            raise UserMistake(f"{task.id} is a conversation; go on with it here: gen -p --session {task.id}")
        if not task.status.ended:
            raise UserMistake(f"Task {task.id} is running; wait for it or stop it first.")
        handover = Handover(
            model=self._model_there(task, request.model).lasting,
            task=task.id,
            prompt=request.prompt,
            max_turns=request.max_turns,
            seconds=seconds,
            background=True,
        )
        return await self._launcher.apart.detach(handover)

    async def take_on(self, created: TaskCreated, handover: Handover) -> Job:
        """Start a new task that another process prepared."""
        spec = self._launcher.agent_of(created)
        here = self._here()
        model = replace(
            here.model, asked=created.asked_model, effort=handover.effort, warnings=handover.warnings
        )
        spot = _place(created, here, model, _chain(created, spec, here.chain, None), spec)
        spot = replace(spot, background=created.background)
        return await self._launcher.take_on(created, spot, handover)

    async def take_over(self, task: Task, handover: Handover, funds: Funds) -> Job:
        """Go on with a task in the place of a process that died with it; who waits for it goes on waiting."""
        behind = task.background or not handover.bound
        spot = replace(self._place(task, handover.model), background=behind, purse=funds.purse)
        request = TaskRequest("", "", max_turns=handover.max_turns, background=behind)
        seconds = handover.seconds
        return await self._launcher.resume(task, request, spot, seconds, over=True, woken=funds.woken)

    def _model_there(self, task: Task, asked: str) -> Model:
        """The model for a task that goes on in another process, which has its folder."""
        if _is_far(task, far=self._launcher.apart.far):
            return self._model(task, asked, self._here().model)
        spot = self._place(task, asked)
        spot.stop.fall()
        return spot.model

    def _place(self, task: Task, asked: str) -> Origin:
        here = self._here()
        if task.id not in self._launcher.workplaces.given:
            _check_folder(task, here.workspace, far=self._launcher.apart.far)
        spec = self._launcher.agent_of(task)
        model = self._model(task, asked, here.model)
        return _place(task, here, model, _chain(task, spec, here.chain, self._root), spec)

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
        given=Given(here.given),
        lineage=(spec.name,),
        sends=spec.sends or (),
        # Where the person is far away, what is open here belongs to many sessions: a yes stays in its own.
        answered={*here.answered} if getattr(here.asker, "far", False) else here.answered,
    )


def _is_far(task: Task, *, far: bool) -> bool:
    """Whether the folder of a task is on another machine only."""
    return far and not task.imported and bool(task.cwd) and not Path(task.cwd).is_dir()


def _check_folder(task: Task, here: Workspace, *, far: bool) -> None:
    """Refuse to go on with a task anywhere but in its own folder; one that was imported goes on here."""
    if task.imported or not task.cwd or task.cwd == str(here.cwd):
        return
    if _is_far(task, far=far):
        raise UserMistake(
            f"The folder {task.cwd} of task {task.id} is not on this machine; let a worker go on with it: "
            f"gen task resume {task.id} --background"
        )
    if not Path(task.cwd).is_dir():
        raise UserMistake(f"The folder {task.cwd} of task {task.id} is gone; make it again to go on with it.")
    raise UserMistake(
        f"Task {task.id} belongs to the folder {task.cwd}; go on with it there (cwd, or --cwd)."
    )


def _chain(task: Task | TaskCreated, spec: AgentSpec, today: Chain, root: Root | None) -> Chain:
    """The policies as they were written, together with what is asked about or refused today."""
    foreign = isinstance(task, Task) and task.imported
    if foreign or len(task.policies) < 2:
        return today.below(link_of(spec))
    if root is not None:
        return rebuilt(task.policies, task.grant, root, follows=spec.mode is None)
    first, *links = task.policies
    return rebuilt((_narrowed(first, today[0]), *links), task.grant)


def _narrowed(stored: Policy, today: Policy) -> Policy:
    strict = (rule for rule in today.rules if rule.action is not Action.ALLOW)
    return replace(stored, rules=merge(stored.rules, strict))
