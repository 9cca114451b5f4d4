"""The delegate of an agent: starts subagents, waits for them, sends them messages and stops them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from gencode.agent.ports import ControlResult, StartedTask, StopAction
from gencode.core.errors import StoreUnavailable, ToolError, UserMistake
from gencode.core.ids import clean_id
from gencode.core.messages import ToolCall
from gencode.core.outcome import Outcome
from gencode.core.questions import Hearing, Inquiry, InquiryResult
from gencode.core.spec import TaskRequest
from gencode.core.status import PARENT_STOPPED, EndReason, Status, StopCause, stop_cause
from gencode.core.task import Task, whole_transcript
from gencode.core.text import disarmed, quoted
from gencode.journal.store import Store, TaskQuery
from gencode.sessions.caller import Caller
from gencode.tasks.ask_parent import QuestionRouter
from gencode.tasks.control import MessageKept, TaskControl
from gencode.tasks.crash_recovery import restore_output_file
from gencode.tasks.deadline import ended_in_queue, report_by
from gencode.tasks.delivery import AgentInbox
from gencode.tasks.plan import TaskPlanner
from gencode.tasks.queries import readable_events, with_woken_as_pending
from gencode.tasks.running_task import RunningTask
from gencode.tasks.setup_builder import RunSetupBuilder, with_checked_schema
from gencode.tasks.supervisor import Supervisor
from gencode.tasks.watch import TaskWatcher

if TYPE_CHECKING:
    from gencode.tasks.start import TaskStarter


Wake = Callable[[Task], Awaitable[Task]]
"""Lets a task that has ended go on with the messages that wait for it."""


class Delegation(Struct, frozen=True, eq=False, kw_only=True):
    """What the delegates of all agents of a session share."""

    store: Store
    supervisor: Supervisor
    setups: RunSetupBuilder
    planner: TaskPlanner
    watch: TaskWatcher
    reach: TaskControl
    questions: QuestionRouter
    wake: Wake
    outputs: Path

    async def apply_action(self, task: str, verb: StopAction, why: StopCause) -> ControlResult:
        """Interrupt or stop a task, and the work it waits for."""
        hit = (await self.reach.apply_action(task, verb, why)).hit
        over = {task, *(each.id for each in hit)}
        left = [each for each in await self.reach.hits(task, "tree") if each.id not in over]
        outcome = await self.look(task, 0)
        return ControlResult(outcome, tuple(map(started_task, hit)), tuple(map(started_task, left)))

    async def look(self, task: str, seconds: float) -> Outcome:
        """The outcome of a task, after at most so many seconds of waiting for its end."""
        if job := self.supervisor.find(task):
            await job.wait(seconds)
            return self.watch.outcome(job.task)
        found = await self.watch.ended(task, seconds)
        await restore_output_file(self.store, self.outputs, found)
        return self.watch.outcome(found)

    async def hits(self, task: str, verb: StopAction) -> list[StartedTask]:
        """What a verb would affect at this moment, the task itself first."""
        return [started_task(each) for each in await self.reach.hits(task, verb)]

    async def known(self, task: str) -> Task:
        """A task by its whole id."""
        found = await self.store.task(task)
        if found is None:
            raise UserMistake(f"There is no task {task}.")
        return found


class AgentDelegate:
    """Starts subagents for one agent, looks after them, writes to them and stops them."""

    def __init__(
        self, delegation: Delegation, starter: "TaskStarter", caller: Caller, inbox: AgentInbox
    ) -> None:
        """`caller` is the agent at its place, `inbox` what comes to it."""
        self._delegation = delegation
        self._starter = starter
        self._caller = caller
        self._inbox = inbox
        self._find = delegation.supervisor.find
        self._children: dict[str, RunningTask | StartedTask] = {}
        """What was started in this run; of what has ended only how it did."""

    @property
    def _task(self) -> str:
        return self._caller.task or ""

    async def run(self, request: TaskRequest, call: ToolCall) -> Outcome:
        """Run an agent to its end and give its outcome; one in the background as it is at its start."""
        if not self._delegation.setups.may_send(self._caller):
            raise ToolError("This agent cannot start subagents. Do the work here, or report back.")
        job = await (self._resumed(request) if request.resume else self._sent(request, call))
        self._look_after(job)
        if request.background or (job.task.terms.background and not request.resume):
            self._inbox.expect(job)
            return self._outcome(job)
        try:
            with ended_in_queue(job, report_by(self._task, self._find)):
                ended = await job.in_foreground()
            if ended:
                return await self._answered(job)
            job.stop.move(self._caller.session.stop)
            self._inbox.expect(job)
            return self._outcome(job)
        except asyncio.CancelledError:  # the sender was stopped or ran out of time, and its agent ends first
            await job.halt(PARENT_STOPPED)
            self._inbox.cut_off(call, job)
            raise

    async def _answered(self, job: RunningTask) -> Outcome:
        """The outcome of an agent that was waited for; as it was, where the database did not come back."""
        try:
            await job.ended()
            return self._outcome(job)
        except StoreUnavailable:
            if not job.elsewhere:
                raise
            return self._outcome(job)

    async def look(self, task: str, seconds: float) -> Outcome:
        """The outcome of a task, after at most so many seconds of waiting for its end.

        What it says meanwhile, a question say, ends the wait: it is read before the next reply.
        """
        name = _id(task)
        if seconds > 0:
            ended = asyncio.ensure_future(self._delegation.look(name, seconds))
            speaks = asyncio.ensure_future(self._inbox.wait_for_letter(name, 0))
            try:
                await asyncio.wait([ended, speaks], return_when=asyncio.FIRST_COMPLETED)
            finally:
                ended.cancel()
                speaks.cancel()
                await asyncio.gather(ended, speaks, return_exceptions=True)
        outcome = await self._delegation.look(name, 0)
        if outcome.status is Status.PENDING and (place := await self._delegation.reach.queue_position(name)):
            outcome = replace(outcome, queue_position=place)
        return replace(outcome, background=True) if self._inbox.is_later(outcome.agent_id) else outcome

    async def apply_action(self, task: str, verb: StopAction) -> ControlResult:
        """Interrupt or stop a task in the background, and the work it waits for."""
        agent = self._caller.lineage[-1]
        why = stop_cause(f"the agent {agent} stopped it")
        if verb == "interrupt":
            why = StopCause(EndReason.INTERRUPTED, f"the agent {agent} interrupted it")
        return await self._delegation.apply_action(_id(task), verb, why)

    async def hits(self, task: str, verb: StopAction) -> Sequence[StartedTask]:
        """What a verb would affect at this moment, the task itself first."""
        return await self._delegation.hits(_id(task), verb)

    async def author(self, path: str, sha256: str) -> str:
        """Which other agent brought a file of the workspace into this state, in any process."""
        cwd = str(self._caller.workspace.cwd)
        return await self._delegation.watch.author(cwd, path, sha256, self._caller.task)

    async def send(self, task: str, message: str) -> tuple[Outcome, Hearing]:
        """Send a message to a task: a running one reads it before its next reply, an ended one is woken.

        Its outcome as it is then, and when it hears it. Nobody wakes who sent them.
        """
        found = await self._delegation.known(_id(task))
        name = self._caller.lineage[-1]
        # What its own parent says is an instruction to an agent; what anybody else says is quoted.
        said = message if found.parent == self._caller.task else quoted(disarmed(message))
        text = f"[{name} (task {self._caller.task}) says]\n{said}"
        now = await self._delegation.reach.send(found.id, text, self._task)
        if not now.status.ended:
            return self._delegation.watch.outcome(now), "soon"
        if not await self._delegation.store.unread_messages(found.id):
            return self._delegation.watch.outcome(now), "heard"
        own = found.parent == self._caller.task
        wake = self.wake if own else await self._wake_sibling(now)
        if found.conversation or wake is None:
            return self._delegation.watch.outcome(now), "later"
        try:
            return self._delegation.watch.outcome(await wake(now)), "woken"
        except UserMistake as refused:
            await self._starter.settled(found.id)  # somebody else may be waking it at this moment
            now = await self._delegation.watch.task(found.id)
            if now.status.ended and await self._delegation.store.unread_messages(found.id):
                if isinstance(refused, MessageKept):
                    raise
                raise MessageKept(
                    f"{refused} The message is kept and delivered when the task is resumed."
                ) from None
            return self._delegation.watch.outcome(now), "heard" if now.status.ended else "soon"

    async def wake(self, found: Task) -> Task:
        """Resume a subagent of this agent with the messages that wait for it; its result comes here."""
        job = await self._resumed(TaskRequest(found.agent, "", background=True, resume=found.id))
        self._look_after(job)
        self._inbox.expect(job)
        return job.task

    async def _wake_sibling(self, found: Task) -> Wake | None:
        """How to resume a sibling as if its parent had sent the message: the parent gets the result.

        None if it does not go on for this agent: it is none of its siblings, or was stopped, or its sender is
        at work in another process, which would neither wait for it nor stop it.
        """
        own = await self._delegation.known(self._task)
        beside = found.parent is not None and found.parent == own.parent
        if not (beside and await self._delegation.reach.may_be_woken(found)):
            return None
        sender = self._delegation.supervisor.local(found.parent or "")
        if sender is not None and not sender.over and isinstance(sender.setup.delegate, AgentDelegate):
            return sender.setup.delegate.wake
        above = await self._delegation.watch.task(found.parent or "")
        return self._delegation.wake if above.status.ended else None

    async def ask_questions(self, inquiries: Sequence[Inquiry], call: ToolCall) -> InquiryResult:
        """Ask whoever can answer; the agent above first, then a person, and in the end nobody."""
        return await self._delegation.questions.ask(self._caller, self._inbox, inquiries, call)

    async def own(self) -> Sequence[Outcome]:
        """The subagents that this agent has started in all its runs, oldest first."""
        store = self._delegation.store
        found = await with_woken_as_pending(store, await store.tasks(TaskQuery(parent=self._task)))
        return [self._delegation.watch.outcome(child) for child in found]

    async def replay(self, task: str) -> Outcome:
        """One of those, or the agent's own, with its transcript; UserMistake for anybody else's."""
        wanted, own = _id(task), self._caller.task
        if wanted != own and wanted not in [child.agent_id for child in await self.own()]:
            raise UserMistake(f"You have no task {wanted}.")
        found = await self._delegation.known(wanted)
        events, _ = await readable_events(self._delegation.store, wanted)
        transcript: list[dict[str, Any]] = [to_builtins(message) for message in whole_transcript(events)]
        return replace(self._delegation.watch.outcome(found), transcript=transcript)

    def sent(self) -> Sequence[StartedTask]:
        """The subagents that were started in this run, in the order they were launched."""
        children = self._children.values()
        return [child if isinstance(child, StartedTask) else started_task(child.task) for child in children]

    def agents(self) -> Sequence[tuple[str, str]]:
        """Name and description of every agent that may be started."""
        return [(spec.name, spec.description) for spec in self._delegation.setups.spawnable(self._caller)]

    def result_cap(self, agent: str) -> int:
        """How much of its result an agent hands to another agent's context."""
        return self._delegation.setups.result_cap(agent)

    def _look_after(self, job: RunningTask) -> None:
        def ended(_: object) -> None:
            if self._children.get(job.id) is job:
                self._children[job.id] = started_task(job.task)

        self._children[job.id] = job
        self._inbox.has_sent = True
        if job.work is not None:
            job.work.add_done_callback(ended)

    def _outcome(self, job: RunningTask) -> Outcome:
        return self._delegation.watch.outcome(job.task)

    async def _sent(self, request: TaskRequest, call: ToolCall) -> RunningTask:
        return await self._starter.start(await self._delegation.planner.plan_new(request, self._here(), call))

    def _here(self) -> Caller:
        """The agent as a caller, and when what it starts in the background has to end with it."""
        live = self._find(self._task)
        return self._caller.ending(live.deadline.of_background if live is not None else None)

    async def _resumed(self, request: TaskRequest) -> RunningTask:
        if request.isolation:
            raise UserMistake("A resumed subagent runs in the process of its parent; leave isolation out.")
        task = await self._delegation.known(_id(request.resume))
        if task.parent != self._caller.task:
            raise UserMistake(f"Task {task.id} has another parent; only that can resume it.")
        if self._delegation.setups.find(request.agent).name != task.agent:  # the gate has judged this one
            raise UserMistake(f"Task {task.id} belongs to {task.agent}; use that as subagent_type.")
        request = await with_checked_schema(request)
        await self._delegation.watch.check_not_woken(task)
        plan = await self._delegation.planner.plan_child_resume(task, request, self._here())
        return await self._starter.start(plan)


def started_task(task: Task) -> StartedTask:
    """A task as its caller sees it."""
    return StartedTask(task.id, task.agent, task.status, task.end.error, task.terms.background)


def _id(text: str) -> str:
    """A whole id, however it was written; UserMistake for what is none."""
    found = clean_id(text)
    if found is None:
        raise UserMistake(f"{text[:40]!r} is not a task id; it is 8 hex digits, as Task gave it.")
    return found
