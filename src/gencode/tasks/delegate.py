"""The delegate of an agent: starts subagents, waits for them, sends them messages and stops them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import to_builtins

from gencode.agent.ports import ControlResult, StartedTask, StopAction
from gencode.core.errors import StoreUnavailable, ToolError, UserMistake
from gencode.core.ids import clean_id
from gencode.core.messages import AssistantMessage, Message, ToolCall, ToolMessage
from gencode.core.outcome import Outcome
from gencode.core.questions import Hearing, Inquiry, InquiryResult
from gencode.core.spec import FORK, TaskRequest
from gencode.core.status import PARENT_STOPPED, EndReason, Status, StopCause, stop_cause
from gencode.core.structs import replace
from gencode.core.task import Task, whole_transcript
from gencode.core.text import disarmed, quoted
from gencode.journal.store import TaskQuery
from gencode.sessions.session import Caller
from gencode.tasks.control import MessageKept
from gencode.tasks.crash_recovery import restore_output_file
from gencode.tasks.deadline import ended_in_queue, report_by
from gencode.tasks.delivery import AgentInbox
from gencode.tasks.queries import readable_events, tasks_above, with_woken_as_pending
from gencode.tasks.running_task import RunningTask
from gencode.tasks.setup_builder import with_checked_schema

if TYPE_CHECKING:
    from gencode.tasks.task_parts import TaskParts


MOST_NAMED = 20
Wake = Callable[[Task], Awaitable[Task]]
"""Resumes a task that has ended with the messages that wait for it."""


class AgentDelegate:
    """Starts subagents for one agent, follows them, sends them messages and stops them."""

    def __init__(self, parts: "TaskParts", caller: Caller, inbox: AgentInbox) -> None:
        """`caller` is the agent, `inbox` receives results and messages for it."""
        self._parts = parts
        self._caller = caller
        self._inbox = inbox
        self._children: dict[str, RunningTask | StartedTask] = {}
        """The subagents started in this run; of those that have ended only how they did."""

    @property
    def _task(self) -> str:
        return self._caller.task or ""

    async def run(self, request: TaskRequest, call: ToolCall) -> Outcome:
        """Run an agent to its end and give its outcome; a background task's outcome is that at its start."""
        if not self._parts.setups.may_send(self._caller):
            raise ToolError("This agent cannot start subagents. Do the work here, or report back.")
        job = await (self._resumed(request) if request.resume else self._sent(request, call))
        self._look_after(job)
        if request.background or (job.task.terms.background and not request.resume):
            self._inbox.expect(job)
            return self._outcome(job)
        try:
            with ended_in_queue(job, report_by(self._task, self._parts.supervisor.find)):
                ended = await job.in_foreground()
            if ended:
                return await self._answered(job)
            job.stop.move(self._caller.session.stop)
            self._inbox.expect(job)
            return self._outcome(job)
        except asyncio.CancelledError:  # the parent was stopped or timed out, and its subagent ends first
            await job.halt(PARENT_STOPPED)
            self._inbox.cut_off(call, job)
            raise

    @property
    def approves_foreground_only(self) -> bool:
        """Whether a person can approve the calls of subagents, but not of those in the background."""
        session = self._caller.session
        background = self._caller.background or session.background_questions
        return session.asker is not None and not background

    async def _answered(self, job: RunningTask) -> Outcome:
        """The outcome of a foreground task; the last known one if the database stays unavailable."""
        try:
            await job.ended()
            return self._outcome(job)
        except StoreUnavailable:
            if not job.elsewhere:
                raise
            return self._outcome(job)

    async def look(self, task: str, seconds: float) -> Outcome:
        """The outcome of a task, after waiting at most so many seconds for its end.

        A message from it, such as a question, ends the wait: it is read before the next reply.
        """
        name = _id(task)
        if seconds > 0:
            ended = asyncio.ensure_future(self._seen(name, seconds))
            speaks = asyncio.ensure_future(self._inbox.wait_for_message(name, 0))
            try:
                await asyncio.wait([ended, speaks], return_when=asyncio.FIRST_COMPLETED)
            finally:
                ended.cancel()
                speaks.cancel()
                await asyncio.gather(ended, speaks, return_exceptions=True)
        outcome = await self._seen(name, 0)
        if outcome.status is Status.PENDING and (place := await self._parts.control.queue_position(name)):
            outcome = replace(outcome, queue_position=place)
        return replace(outcome, background=True) if self._inbox.is_later(outcome.agent_id) else outcome

    async def _seen(self, task: str, seconds: float) -> Outcome:
        """A task in any process, after waiting at most so many seconds for its end."""
        if job := self._parts.supervisor.find(task):
            await job.wait(seconds)
            return self._outcome(job)
        found = await self._parts.watcher.ended(task, seconds)
        await restore_output_file(self._parts.store, self._parts.outputs, found)
        return self._parts.watcher.outcome(found)

    async def apply_action(self, task: str, verb: StopAction) -> ControlResult:
        """Interrupt or stop a task in the background, and the work it waits for."""
        agent = self._caller.lineage[-1]
        why = stop_cause(f"the agent {agent} stopped it")
        if verb == "interrupt":
            why = StopCause(EndReason.INTERRUPTED, f"the agent {agent} interrupted it")
        name, control = _id(task), self._parts.control
        affected = (await control.apply_action(name, verb, why)).affected
        over = {name, *(each.id for each in affected)}
        left = [each for each in await control.affected(name, "tree") if each.id not in over]
        outcome = await self._seen(name, 0)
        return ControlResult(outcome, tuple(map(started_task, affected)), tuple(map(started_task, left)))

    async def affected(self, task: str, verb: StopAction) -> Sequence[StartedTask]:
        """What an action would affect at this moment, the task itself first."""
        return [started_task(each) for each in await self._parts.control.affected(_id(task), verb)]

    async def author(self, path: str, sha256: str) -> str:
        """Which other agent of any process brought a file of the workspace into this state."""
        cwd = str(self._caller.workspace.cwd)
        return await self._parts.watcher.author(cwd, path, sha256, self._caller.task)

    async def send(self, task: str, message: str) -> tuple[Outcome, Hearing]:
        """Send a message to a task: a running one reads it before its next reply, an ended one is resumed.

        Its outcome at that moment, and when it reads the message. A parent is never resumed.
        """
        found = await self._known(_id(task))
        name = self._caller.lineage[-1]
        # An agent follows what its parent says; what anybody else writes to it is information.
        if found.parent == self._caller.task:
            text = f"[{name} (task {self._caller.task}) says]\n{message}"
        else:
            text = f"[{name} (task {self._caller.task}) writes]\n{quoted(disarmed(message))}"
        now = await self._parts.control.send(found.id, text, self._task)
        if not now.status.ended:
            return self._parts.watcher.outcome(now), "soon"
        if not await self._parts.store.unread_messages(found.id):
            return self._parts.watcher.outcome(now), "heard"
        own = found.parent == self._caller.task
        wake = self.wake if own else await self._wake_sibling(now)
        if found.conversation or wake is None:
            return self._parts.watcher.outcome(now), "later"
        try:
            return self._parts.watcher.outcome(await wake(now)), "woken"
        except UserMistake as refused:
            await self._parts.starter.settled(found.id)  # somebody else may be resuming it at this moment
            now = await self._parts.watcher.task(found.id)
            if now.status.ended and await self._parts.store.unread_messages(found.id):
                if isinstance(refused, MessageKept):
                    raise
                raise MessageKept(
                    f"{refused} The message is kept and delivered when the task is resumed."
                ) from None
            return self._parts.watcher.outcome(now), "heard" if now.status.ended else "soon"

    async def wake(self, found: Task) -> Task:
        """Resume a subagent of this agent with the messages that wait for it; its result comes here."""
        job = await self._resumed(TaskRequest(found.agent, "", background=True, resume=found.id))
        self._look_after(job)
        self._inbox.expect(job)
        return job.task

    async def _wake_sibling(self, found: Task) -> Wake | None:
        """How to resume a sibling as if its parent had sent the message: the parent gets the result.

        None if this agent may not: it is no sibling, or was stopped, or its parent runs in another process,
        which would neither wait for it nor stop it.
        """
        own = await self._known(self._task)
        beside = found.parent is not None and found.parent == own.parent
        if not (beside and await self._parts.control.may_be_woken(found)):
            return None
        sender = self._parts.supervisor.local(found.parent or "")
        if sender is not None and not sender.over:
            return sender.delegate.wake
        above = await self._parts.watcher.task(found.parent or "")
        return self._parts.service.wake if above.status.ended else None

    async def ask_questions(self, inquiries: Sequence[Inquiry], call: ToolCall) -> InquiryResult:
        """Ask the parent first, then a person; without either nobody answers."""
        return await self._parts.questions.ask(self._caller, self._inbox, inquiries, call)

    async def own(self) -> Sequence[Outcome]:
        """The subagents that this agent has started in all its runs, oldest first."""
        store = self._parts.store
        found = await with_woken_as_pending(store, await store.tasks(TaskQuery(parent=self._task)))
        return [self._parts.watcher.outcome(child) for child in found]

    async def listed(self) -> Sequence[Outcome]:
        """The subagents of this agent's session, oldest first."""
        store = self._parts.store
        found = await with_woken_as_pending(store, await self._session_tasks())
        return [self._parts.watcher.outcome(task) for task in sorted(found, key=lambda task: task.created_at)]

    async def replay(self, task: str) -> Outcome:
        """One of those, or the agent's own task, with its transcript; UserMistake for any other.

        Of a task that is neither its own nor below it, only what was said and which tools were called: the
        arguments and results may hold what this agent may not read.
        """
        wanted, own = _id(task), self._task
        known = {each.id: each.parent for each in await self._session_tasks()}
        if wanted != own and wanted not in known:
            raise UserMistake(f"There is no task {wanted} in this session.")
        found = await self._known(wanted)
        events, _ = await readable_events(self._parts.store, wanted)
        messages = whole_transcript(events)
        above: str | None = wanted
        while above is not None and above != own:
            above = known.get(above)
        if above is None:
            messages = [_as_told(each) for each in messages if not isinstance(each, ToolMessage)]
        transcript: list[dict[str, Any]] = [to_builtins(message) for message in messages]
        return replace(self._parts.watcher.outcome(found), transcript=transcript)

    async def _session_tasks(self) -> list[Task]:
        """Every subagent of the session; the conversation itself is not among them."""
        own = await self._known(self._task)
        root = own
        async for above in tasks_above(self._parts.store, own):
            root = above
        below = await self._parts.records.below([root])
        found = [task for children in below.values() for task in children]
        return found if root.conversation else [root, *found]

    def sent(self) -> Sequence[StartedTask]:
        """The subagents that were started in this run, in order."""
        children = self._children.values()
        return [child if isinstance(child, StartedTask) else started_task(child.task) for child in children]

    def agents(self) -> Sequence[tuple[str, str]]:
        """Name and description of every agent that may be started."""
        return [(spec.name, spec.description) for spec in self._parts.setups.spawnable(self._caller)]

    def result_cap(self, agent: str) -> int:
        """How many characters of its result an agent returns to another agent's context."""
        return self._parts.setups.result_cap(agent)

    async def _known(self, task: str) -> Task:
        """A task by its whole id."""
        found = await self._parts.store.task(task)
        if found is None:
            raise UserMistake(f"There is no task {task}.")
        return found

    def _look_after(self, job: RunningTask) -> None:
        def ended(_: object) -> None:
            if self._children.get(job.id) is job:
                self._children[job.id] = started_task(job.task)

        self._children[job.id] = job
        self._inbox.has_sent = True
        if job.work is not None:
            job.work.add_done_callback(ended)

    def _outcome(self, job: RunningTask) -> Outcome:
        return self._parts.watcher.outcome(job.task)

    async def _sent(self, request: TaskRequest, call: ToolCall) -> RunningTask:
        return await self._parts.starter.start(
            await self._parts.planner.plan_new(request, self._here(), call)
        )

    def _here(self) -> Caller:
        """The agent as a caller, with the end time of the background tasks it starts."""
        live = self._parts.supervisor.find(self._task)
        return self._caller.ending(live.deadline.of_background if live is not None else None)

    async def _resumed(self, request: TaskRequest) -> RunningTask:
        if request.isolation:
            raise UserMistake("A resumed subagent runs in the process of its parent; leave isolation out.")
        wanted = _id(request.resume)
        task = await self._parts.store.task(wanted)
        if task is None:
            started = ", ".join(f"{each.task} ({each.agent})" for each in self.sent()[-MOST_NAMED:])
            known = f" In this run you have started: {started}." if started else ""
            raise UserMistake(f"There is no task {wanted}.{known}")
        if task.parent != self._caller.task:
            raise UserMistake(f"Task {task.id} has another parent; only that can resume it.")
        # The gate decided about the agent that the call names.
        if task.created.forks_parent is not (request.context == FORK):
            instead = 'context "fork"' if task.created.forks_parent else "its subagent_type"
            raise UserMistake(f"Task {task.id} is resumed with {instead}.")
        if request.context != FORK and self._parts.setups.find(request.agent).name != task.agent:
            raise UserMistake(f"Task {task.id} belongs to {task.agent}; use that as subagent_type.")
        request = await with_checked_schema(request)
        await self._parts.watcher.check_not_woken(task)
        plan = await self._parts.planner.plan_child_resume(task, request, self._here())
        return await self._parts.starter.start(plan)


def started_task(task: Task) -> StartedTask:
    """A task as its parent sees it."""
    return StartedTask(task.id, task.agent, task.status, task.end.error, task.terms.background)


def _as_told(message: Message) -> Message:
    """A message without the arguments of its calls."""
    if not isinstance(message, AssistantMessage):
        return message
    return replace(message, calls=tuple(replace(call, input={}) for call in message.calls), thinking=())


def _id(text: str) -> str:
    """A task id in any spelling; UserMistake for anything else."""
    found = clean_id(text)
    if found is None:
        raise UserMistake(f"{text[:40]!r} is not a task id; it is 8 hex digits, as Task gave it.")
    return found
