"""Where an earlier task goes on: in its folder or a clone of it, with its model, depth and permissions."""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from gencode.agent.models import OWN, Model, ModelRegistry
from gencode.core.errors import UserMistake
from gencode.core.events import TaskCreated
from gencode.core.rules import Policy
from gencode.core.spec import AgentSpec, Workspace
from gencode.core.task import Task
from gencode.journal.dispatch import SharedJournal
from gencode.journal.handover import Handover
from gencode.journal.store import Store
from gencode.permissions.chain import Chain, ChainLink, Root, narrowed, rebuilt
from gencode.sessions.caller import Caller, chain_link
from gencode.sessions.session import Session
from gencode.tasks.fork import kept_policies
from gencode.tasks.other_process import OtherProcesses
from gencode.tasks.resume_messages import is_here
from gencode.tasks.seat_builder import SeatBuilder
from gencode.tasks.spawned_agents import spawned
from gencode.tasks.task_folders import TaskFolders

if TYPE_CHECKING:
    from gencode.journal.folder_snapshot import FolderSnapshot
    from gencode.workspaces.transfer.checkout import Clone

IN_CLONE = (
    "{cwd} is a clone of the repository of {folder}; in it, task {task} can only run in your own process: "
    "leave --background out."
)


class CallerFactory:
    """Finds the places of earlier tasks: the same folder, depth, model and permissions.

    Permissions that were named for this session take the place of the stored ones; without them, today's
    rules can only narrow what the task may do.
    """

    def __init__(
        self,
        store: Store,
        models: ModelRegistry,
        seating: SeatBuilder,
        session: Session,
        folders: TaskFolders,
        processes: OtherProcesses,
    ) -> None:
        self._store = store
        self._models = models
        self._seating = seating
        self._session = session
        self._folders = folders
        self._processes = processes
        self._root = session.root if session.own_policy else None

    @property
    def person(self) -> Caller:
        """Where the person sits."""
        return self._session.caller()

    @property
    def far(self) -> bool:
        """Whether tasks that leave this process may run on other machines."""
        return self._processes.far

    def is_far(self, task: Task) -> bool:
        """Whether the folder of a task is on another machine only."""
        return self.far and not task.imported and bool(task.cwd) and not is_here(task.cwd)

    def agent_of(self, task: Task | TaskCreated) -> AgentSpec:
        """The agent of a task, as its file is now."""
        try:
            spec = self._seating.find(task.agent)
        except UserMistake as mistake:
            name = f"Task {task.id}" if isinstance(task, Task) else "The task"
            raise UserMistake(f"{name} cannot run without its agent. {mistake}") from None
        created = task.created if isinstance(task, Task) else task
        if created.tools is not None and not (isinstance(task, Task) and task.imported):
            kept = replace(created.tools, deny=(*created.tools.deny, *spec.tools.deny))
            spec = replace(spec, tools=kept)  # what its file gained meanwhile is for new tasks
        return spawned(spec) if created.spawned else spec

    def for_received(self, created: TaskCreated, handover: Handover) -> Caller:
        """The place of a new task that another process prepared."""
        spec, here = self.agent_of(created), self.person
        model = replace(
            here.model, asked=created.asked_model, effort=handover.effort, warnings=handover.warnings
        )
        place = _place(created.depth, here, model, _chain(created, spec, here.chain, None), spec)
        return replace(place, background=created.background, account=handover.account)

    def for_remote_fork(self, task: Task, asked: str) -> tuple[Caller, tuple[Policy, ...]]:
        """Who asks for a fork of a task whose folder is not here, and the policies of that fork."""
        if self._root is not None:
            raise UserMistake(
                f"The folder {task.cwd} of task {task.id} is not on this machine, so a fork has the "
                "permissions of that task; leave --permission-mode, --allow, --ask and --deny out."
            )
        here = self.person
        model = self._model(task, asked, here.model)
        return replace(here, model=model), kept_policies(task, here.chain[0])

    async def for_detached(self, task: Task, asked: str, *, here: bool) -> Caller:
        """The place of a task that goes on in another process, which has its folder."""
        if self.is_far(task):
            sits = self.person
            return replace(sits, model=self._model(task, asked, sits.model))
        place = await self.for_task(task, asked, here=here, apart=True)
        place.stop.fall()
        return place

    async def for_task(
        self, task: Task, asked: str, *, here: bool = False, apart: bool = False, verb: str = "resume"
    ) -> Caller:
        """Where a task goes on in this process, or in one `apart` on this machine: in its folder.

        A clone of that counts where its folder is not on this machine, or where it is to be `here`.
        """
        sits = self.person
        clone = await self._clone(task, sits.workspace, named=here, verb=verb)
        if clone is not None and apart:
            raise UserMistake(IN_CLONE.format(task=task.id, cwd=sits.workspace.cwd, folder=task.cwd))
        spec = self.agent_of(task)
        model = self._model(task, asked, sits.model)
        if clone is None:
            return _place(task.created.depth, sits, model, _chain(task, spec, sits.chain, self._root), spec)
        copied = clone.copied(self._folders.home)
        sits = replace(sits, workspace=replace(sits.workspace, copied=copied))
        return _place(task.created.depth, sits, model, _chain_in_clone(task, spec, sits.chain), spec)

    async def _clone(self, task: Task, here: Workspace, *, named: bool, verb: str) -> "Clone | None":
        """The clone that a task goes on in; None for its own folder, UserMistake for any other one."""
        if task.id in self._folders.prepared or task.imported or not task.cwd:
            return None
        if task.cwd == str(here.cwd):
            return None
        if is_here(task.cwd) and not named:
            raise UserMistake(_elsewhere(task, verb, far=self.is_far(task)))
        from gencode.workspaces.transfer.checkout import NotAClone, clone_at

        try:
            return await clone_at(here.cwd, task.cwd, await self._sent_with(task))
        except NotAClone as why:
            words = _elsewhere(task, verb, far=self.is_far(task))
            raise UserMistake(f"{words} {why}".rstrip()) from None

    async def _sent_with(self, task: Task) -> "FolderSnapshot | None":
        """How the folder of a task was that went to another machine, or of the one that it is a fork of."""
        if not isinstance(self._store, SharedJournal):
            return None
        for name in filter(None, (task.id, task.created.forked)):
            if found := await self._store.parcels.returned(name):
                return found[0].parcel
        return None

    def _model(self, task: Task, asked: str, usual: Model) -> Model:
        """The model that goes on with a task: the one that is asked for, else the one it had."""
        if usual.asked == OWN:
            return usual
        if asked:
            return self._models.resolve(asked)
        if task.imported or not task.terms.model:
            return usual
        try:
            return self._models.again(task.terms.model)
        except UserMistake as mistake:
            raise UserMistake(
                f"Task {task.id} cannot go on with its model; name another. {mistake}"
            ) from None


def _place(depth: int, here: Caller, model: Model, chain: Chain, spec: AgentSpec) -> Caller:
    return replace(
        here,
        chain=chain,
        model=model,
        stop=here.session.stop.branch(),
        depth=depth,
        lineage=(spec.name,),
        sends=spec.sends or (),
    ).afresh()


def _elsewhere(task: Task, verb: str, *, far: bool) -> str:
    """Why a task does not go on in this folder, and where it does."""
    if far:
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
    created = task.created if isinstance(task, Task) else task
    foreign = isinstance(task, Task) and task.imported
    if foreign or len(created.policies) < 2:
        return today.below(chain_link(spec))
    if root is not None:
        return rebuilt(created.policies, created.grant, root, follows=spec.mode is None)
    first, *links = created.policies
    return rebuilt((narrowed(first, today[0]), *links), created.grant)


def _chain_in_clone(task: Task, spec: AgentSpec, today: Chain) -> Chain:
    """What counts in this folder, and below it what counted in the other one, which can only narrow that.

    Nobody has granted anything here. Permissions that were named now belong to this folder, so they lift
    nothing that the other one refuses.
    """
    if len(task.created.policies) < 2:
        return today.below(chain_link(spec))
    for policy in task.created.policies:
        today = today.below(ChainLink(policy.owner, policy.mode, policy.rules))
    return today
