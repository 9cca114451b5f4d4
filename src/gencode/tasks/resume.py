"""Resuming a task: where it runs, with which permissions and model, and which messages it reads first."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gencode.agent.models import OWN, Model, ModelRegistry
from gencode.core.errors import Conflict, UserMistake
from gencode.core.events import Event, MessageAdded, SessionRewound, TaskCreated, TaskQueued, TaskStarted
from gencode.core.messages import (
    AssistantMessage,
    Message,
    NoticeKind,
    SystemNotice,
    UserMessage,
)
from gencode.core.rules import Policy
from gencode.core.spec import AgentSpec, Workspace
from gencode.core.status import Status
from gencode.core.structs import replace
from gencode.core.task import Task, transcript_of
from gencode.journal.dispatch import Handover, SharedJournal
from gencode.journal.store import PostedMessage, Store
from gencode.permissions.chain import Chain, ChainLink, Root, narrowed, rebuilt
from gencode.sessions.session import Caller, Session, chain_link
from gencode.tasks.fork import kept_policies
from gencode.tasks.remote_task import OtherProcesses
from gencode.tasks.setup_builder import RunSetupBuilder
from gencode.tasks.task_folders import TaskFolder, TaskFolders, place_notice

if TYPE_CHECKING:
    from gencode.journal.folder_snapshot import FolderSnapshot
    from gencode.workspaces.transfer.checkout import Clone

IN_CLONE = (
    "{cwd} is a clone of the repository of {folder}; in it, task {task} can only run in your own process: "
    "leave --background out."
)
_CUT = {
    Status.CANCELLED: "Your last run was stopped",
    Status.INTERRUPTED: "Your last run was interrupted",
    Status.TIMED_OUT: "Your last run ran out of time",
    Status.FAILED: "Your last run failed",
}
TOOLS_AGAIN = "[Your tools are available again.]"
_AS_TOLD = "Do what the user says now; continue the earlier work only if that follows from it."


class CallerFactory:
    """Finds the callers of earlier tasks: the same folder, depth, model and permissions.

    Permissions that were given for this session replace the stored ones; otherwise today's rules can only
    narrow what the task may do.
    """

    def __init__(
        self,
        store: Store,
        *,
        models: ModelRegistry,
        setups: RunSetupBuilder,
        session: Session,
        folders: TaskFolders,
        processes: OtherProcesses,
    ) -> None:
        self._store = store
        self._models = models
        self._setups = setups
        self._session = session
        self._folders = folders
        self._processes = processes
        self._root = session.root if session.own_policy else None

    @property
    def person(self) -> Caller:
        """The person of this session."""
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
            spec = self._setups.agent_of(task.agent)
        except UserMistake as mistake:
            name = f"Task {task.id}" if isinstance(task, Task) else "The task"
            raise UserMistake(f"{name} cannot run without its agent. {mistake}") from None
        created = task.created if isinstance(task, Task) else task
        if created.tools is not None and not (isinstance(task, Task) and task.imported):
            kept = replace(created.tools, deny=(*created.tools.deny, *spec.tools.deny))
            spec = replace(spec, tools=kept)  # additions to its file are for new tasks
        return spec

    def for_received(self, created: TaskCreated, handover: Handover) -> Caller:
        """The caller of a new task that another process prepared."""
        spec, here = self.agent_of(created), self.person
        model = replace(
            here.model, asked=created.asked_model, effort=handover.effort, warnings=handover.warnings
        )
        place = _place(created.depth, here, model, _chain(created, spec, here.chain, None), spec)
        return replace(place, background=created.background, account=handover.account)

    def for_remote_fork(self, task: Task, asked: str) -> tuple[Caller, tuple[Policy, ...]]:
        """The caller of a fork whose original's folder is not here, and the policies of that fork."""
        if self._root is not None:
            raise UserMistake(
                f"The folder {task.cwd} of task {task.id} is not on this machine, so a fork has the "
                "permissions of that task; leave --permission-mode, --allow, --ask and --deny out."
            )
        here = self.person
        model = self._model(task, asked, here.model)
        return replace(here, model=model), kept_policies(task, here.chain[0])

    async def for_detached(self, task: Task, asked: str, *, here: bool) -> Caller:
        """The caller of a task that is resumed in another process, which has its folder."""
        if self.is_far(task):
            sits = self.person
            return replace(sits, model=self._model(task, asked, sits.model))
        place = await self.for_task(task, asked, here=here, apart=True)
        place.stop.fall()
        return place

    async def for_task(
        self, task: Task, asked: str, *, here: bool = False, apart: bool = False, verb: str = "resume"
    ) -> Caller:
        """The caller of a task that is resumed in this process, or in one `apart` on this machine.

        A clone may be used if the task's folder is not on this machine, or if it is to run `here`.
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
        """The clone in which a task is resumed; None for its own folder, UserMistake for any other one."""
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
        """The snapshot of the folder that was sent with a task, or with its fork's original."""
        if not isinstance(self._store, SharedJournal):
            return None
        for name in filter(None, (task.id, task.created.forked)):
            if found := await self._store.snapshots.returned(name):
                return found[0].snapshot
        return None

    def _model(self, task: Task, asked: str, usual: Model) -> Model:
        """The model of a resumed task: the requested one, else the one it had."""
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
                f"Task {task.id} cannot be resumed with its model; name another one. {mistake}"
            ) from None


def is_here(folder: str) -> bool:
    """Whether the folder of an earlier task is on this machine."""
    return bool(folder) and Path(folder).is_dir()


def busy_error(task: str, *, waits: bool) -> Conflict:
    """Why a task cannot be resumed now: it is running, or it `waits` in the queue."""
    does = "is waiting in the queue; send it a message, wait for it" if waits else "is running; wait for it"
    return Conflict(f"Task {task} {does} or stop it first.")


def resume_messages(
    task: Task, said: UserMessage, unread: Sequence[PostedMessage], events: Sequence[Event]
) -> list[UserMessage]:
    """The messages of a resumed task: why it had ended, new messages, and its prompt.

    Messages of the user are in the order in which they were sent. The reason of an end is told once, even if
    the same happens again before any other message.
    """
    asked = [said] if said.text.strip() else []
    mail = [posted.message for posted in unread]
    asked = [*mail, *asked] if said.sender == "user" else [*asked, *mail]
    if not has_messages(events) and task.created.prompt:
        asked = [UserMessage(task.created.prompt), *asked]
    transcript = transcript_of(events)
    known = [each.notice for each in trailing_notices(transcript)]
    last = events[-1].fact if events else None
    gone = isinstance(last, SessionRewound) and last.conversation  # and with it the run that was interrupted
    begun = task.run.started_at and not gone  # else it was stopped before it began
    why = ended_notice(task) if begun else ()
    return [*(each for each in why if each.notice not in known), *_tools_again(transcript), *asked]


def _tools_again(transcript: Sequence[Message]) -> list[UserMessage]:
    """The notice for an agent whose last reply was a report in a turn without tools."""
    replies = (each for each in reversed(transcript) if isinstance(each, AssistantMessage))
    last = next(replies, None)
    if last is None or not last.closing:
        return []
    return [UserMessage(TOOLS_AGAIN, sender="system", notice=SystemNotice(NoticeKind.REMARK))]


def has_messages(events: Sequence[Event]) -> bool:
    """Whether an agent got any message in a run of its own; a fork has messages of its original."""
    return any(isinstance(event.fact, MessageAdded) for event in events)


def has_unanswered_messages(task: Task, events: Sequence[Event]) -> bool:
    """Whether an agent has unanswered messages, and so can be resumed without a new one."""
    transcript = transcript_of(events)
    answered = bool(transcript) and not isinstance(transcript[-1], UserMessage)
    return not task.conversation and not (answered and has_messages(events))


def ended_notice(task: Task) -> list[UserMessage]:
    """The notice for an agent whose last run was stopped, interrupted or failed."""
    if task.status not in _CUT:
        return []
    why = f": {task.end.error.rstrip('.')}" if task.end.error else ""
    by_user = task.conversation and task.status is Status.CANCELLED
    text = f"[{_CUT[task.status]}{why}. Calls that did not finish are marked as interrupted. "
    text += f"{_AS_TOLD if by_user else 'Continue from there.'}]"
    notice = SystemNotice(NoticeKind.ENDED, reason=task.end.reason)
    return [UserMessage(text, sender="system", notice=notice)]


def trailing_notices(transcript: Sequence[Message]) -> list[UserMessage]:
    """The notices of GenCode at the end of a transcript, after all other messages."""
    found: list[UserMessage] = []
    for message in reversed(transcript):
        if not isinstance(message, UserMessage) or message.sender != "system":
            break
        found.append(message)
    return found


def with_place_notice(
    task: Task,
    heard: Sequence[UserMessage],
    workplace: TaskFolder | None,
    here: Workspace,
    events: Sequence[Event],
) -> list[UserMessage]:
    """The messages of a resumed task with a notice about its folder, if that has changed."""
    if workplace is not None and not has_messages(events):
        return [*heard, *workplace.introduction()]
    place = workplace.change_notice() if workplace else place_notice(task.delivered.place, here)
    return [*place, *heard]


def queued_start(started: TaskStarted) -> tuple[TaskQueued, tuple[TaskStarted]]:
    """The events of a resumed task that waits in the queue: those of now, and those of its start."""
    queued = TaskQueued(started.model, started.budget, started.output_schema)
    return queued, (replace(started, budget=None, output_schema=None),)


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
    """Why a task cannot be resumed in this folder, and where it can."""
    if far:
        does = "run the fork" if verb == "fork" else "resume it"
        return (
            f"The folder {task.cwd} of task {task.id} is not on this machine; let a worker {does}: "
            f"gen task {verb} {task.id} --background"
        )
    if not is_here(task.cwd):
        return f"The folder {task.cwd} of task {task.id} is gone; create it again to resume the task."
    return f"Task {task.id} belongs to the folder {task.cwd}; resume it there (cwd, or --cwd)."


def _chain(task: Task | TaskCreated, spec: AgentSpec, today: Chain, root: Root | None) -> Chain:
    """The stored policies, together with the ask and deny rules of today."""
    created = task.created if isinstance(task, Task) else task
    foreign = isinstance(task, Task) and task.imported
    if foreign or len(created.policies) < 2:
        return today.below(chain_link(spec))
    if root is not None:
        return rebuilt(created.policies, created.grant, root, follows=spec.mode is None)
    first, *links = created.policies
    return rebuilt((narrowed(first, today[0]), *links), created.grant)


def _chain_in_clone(task: Task, spec: AgentSpec, today: Chain) -> Chain:
    """The policies of this folder, and below them those of the original one, which can only narrow them.

    Nothing was granted here. Permissions that were given for this session belong to this folder, so they
    allow nothing that the original one refuses.
    """
    if len(task.created.policies) < 2:
        return today.below(chain_link(spec))
    for policy in task.created.policies:
        today = today.below(ChainLink(policy.owner, policy.mode, policy.rules))
    return today
