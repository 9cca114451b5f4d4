"""Delivers results of background tasks, messages and ends of background commands to agents, exactly once.

There is no queue that could lose anything. A result is owed as long as the journal of its task has the end of
that run and the journal of its parent does not say that it was delivered. A message waits as long as its
number is above that of the last one read. For a background command the agent's journal says that it was
started, and whether its end was delivered. The message that delivers something says so in the same event, so
that after a crash at any moment it is either owed or delivered.

Two things make an inbox look at what is owed: the end of a task of this process, and a change of the store
(`Delivery`). A parent that begins a run looks by itself; an idle one gets a turn from whoever leads it, if
something is `worth_a_turn`.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from gencode.agent.recorder import Recorder
from gencode.core.errors import GenCodeError
from gencode.core.events import ProgressMade
from gencode.core.ids import stamp
from gencode.core.messages import CommandRun, ToolCall, ToolResult, Trace, UserMessage
from gencode.core.outcome import how_ended, outcome_of, output_file, report_lines
from gencode.core.status import EndReason, Status, WaitFor
from gencode.core.structs import replace
from gencode.core.task import (
    Task,
    TaskReport,
    delivered_separately,
    in_background,
    last_run,
    receipt,
    repeats_report,
    undelivered_commands,
    was_delivered,
)
from gencode.core.text import code_span, disarmed_line, one_line
from gencode.files.file_versions import changed_under
from gencode.journal.store import PostedMessage, Store, TaskQuery
from gencode.tasks.running_task import RunningTask

if TYPE_CHECKING:
    from gencode.sandbox.shells import BackgroundShell
    from gencode.tasks.supervisor import Supervisor

log = logging.getLogger(__name__)
REST_SECONDS = 0.2
"""Ends in other processes that are written within this time are delivered together."""
MORE_SECONDS = 0.01
"""Added for each task that had to be read."""
SLACK = timedelta(minutes=1)
"""How far the clocks of machines may differ before an end could be overlooked."""
ENDED = tuple(each for each in Status if each.ended)
MOST_TOGETHER = 24_000
"""The most characters of results in one message; each gets its share, the rest can be paged."""
LEAST_EACH = 500
STOPPED_WITH = (
    "\nTask {task} ({agent}) was stopped as well. To resume it: "
    'Task(subagent_type="{agent}", prompt=…, resume="{task}").'
)
JUST_THEN = (
    "Interrupted. Task {task} ({agent}) has just ended ({status}). Its result is delivered separately."
)
LONGEST_COMMAND = 100
BEFORE_THE_END = 1.0
"""So many seconds before its deadline an agent stops waiting for its commands: it has answered already."""
WAITS = "waits up to {seconds:.4g} s for its background command{s}: {names}"
LONGEST_LABEL = 80
LONGEST_TASK = 500
TELL_THE_USER = (
    "Tell the user the result in one or two sentences of your own. Leave out ids and how the work was done."
)


def undelivered(parent: Task, task: Task) -> list[Task]:
    """A task as it was at each of its ends that were not delivered to its parent yet, oldest first.

    A task ends once for each of its runs, and each end is delivered separately, however often the task was
    resumed before that.
    """
    return undelivered_ends(parent, task, lambda each, at: was_delivered(parent, each, at))


WasDelivered = Callable[[str, str | None], bool]
"""Whether the end of a task at a time was delivered."""


def undelivered_ends(
    parent: Task, task: Task, was_delivered: WasDelivered, *, over: bool = True
) -> list[Task]:
    """The same with another source for what was delivered; the last end is included if the task is `over`."""
    if not task.past and not task.status.ended:
        return []
    owed = [*_past_ends(parent, task, was_delivered)]
    if over and task.status.ended and task.terms.background and not was_delivered(task.id, task.end.at):
        run = last_run(task)
        again = run is not None and repeats_report(task.past, run)
        owed.append(replace(task, report=TaskReport() if again else task.report, past=()))
    return owed


def _past_ends(parent: Task, task: Task, was_delivered: WasDelivered) -> Iterator[Task]:
    """Its earlier ends that are delivered by themselves.

    The end of a foreground run answered a call, unless that call was cut off.
    """
    left = next((each for each in reversed(task.past) if not each.background), None)
    for each in task.past:
        later = each.background or (each is left and task.id in parent.delivered.left)
        if later and not was_delivered(task.id, each.end.at):
            yield replace(task, status=each.status, report=each.report, end=each.end, past=())


def as_delivered(parent: Task, children: Sequence[Task]) -> list[Task]:
    """The children of a task; those whose foreground call was cut off count as background tasks."""
    return [
        in_background(each)
        if delivered_separately(parent, each.id, background=each.terms.background)
        else each
        for each in children
    ]


def worth_a_turn(parent: Task, children: Sequence[Task]) -> bool:
    """Whether an idle conversation should get a turn for the results that wait for it.

    Not for stopped tasks: whoever stopped them knows, and the conversation learns of it in its next turn.
    """
    return any(
        not _was_stopped(end) for each in as_delivered(parent, children) for end in undelivered(parent, each)
    )


def _was_stopped(task: Task) -> bool:
    if task.end.reason is EndReason.STOP_UNANSWERED:
        return True
    return task.status is Status.CANCELLED and task.end.reason is not EndReason.PARENT_GONE


def _no_shells() -> "Mapping[str, BackgroundShell]":
    return {}


def _no_limit() -> float | None:
    return None


class BackgroundCommands(Struct, frozen=True):
    """The background commands of one agent that this process started, by their ids.

    An agent that has answered waits `seconds` for them, within the time it has left (`remaining`).
    """

    here: "Callable[[], Mapping[str, BackgroundShell]]" = _no_shells
    seconds: float = 0.0
    remaining: Callable[[], float | None] = _no_limit


class AgentInbox:
    """The inbox of one agent: results of subagents, messages, and ends of background commands.

    `cap` limits the result of an agent, `earlier` are the children from before this run, and `stale` names
    the files that the agent had read and others have changed since.
    """

    def __init__(
        self,
        record: Recorder,
        *,
        cap: Callable[[str], int],
        earlier: Sequence[Task] = (),
        outputs: Path | None = None,
        stale: Callable[[], Sequence[str]] = tuple,
        commands: BackgroundCommands | None = None,
    ) -> None:
        self._record = record
        self._outputs = outputs
        self._cap = cap
        self._stale = stale
        self._commands = commands or BackgroundCommands()
        self._messages: dict[int, PostedMessage] = {}
        self._news = asyncio.Event()
        self._jobs: dict[str, RunningTask] = {}
        self._read: tuple[str, ...] = ()
        self._given: set[str] = set()
        """The receipts in the journal, as far as it was read."""
        self._earlier = {task.id: task for task in earlier if task.terms.background}
        """Those that this process does not run, as long as a result of theirs was not taken."""
        self.has_sent = bool(earlier)
        """Whether the agent ever started a subagent, which may be resumed elsewhere."""

    @property
    def expecting(self) -> bool:
        """Whether a result is still to come, or something has come and was not taken."""
        self._forget()
        if self._messages or self._jobs or self._earlier:
            return True
        ended, running = self._undelivered_commands()
        return bool(ended or (running and self._commands.seconds > 0))

    @property
    def only_commands_run(self) -> bool:
        """Whether nothing has come, and only running background commands are waited for."""
        ended, running = self._undelivered_commands()
        if ended or not running:
            return False
        self._forget()
        return not (self._messages or self._jobs or self._earlier)

    def put(self, posted: PostedMessage) -> None:
        """Add a message: the agent reads it before its next reply, and only once."""
        if posted.number > self._record.task.delivered.mailed:
            self._messages[posted.number] = posted
            self._news.set()

    def expect(self, job: RunningTask) -> None:
        """Expect the result of a background task here, and undelivered results of its earlier runs."""
        self._earlier.pop(job.id, None)
        self._jobs[job.id] = job
        if job.work is not None:
            job.work.add_done_callback(lambda _: self._news.set())
        self._news.set()  # somebody else may have resumed it while the agent waits for others

    def cut_off(self, call: ToolCall, job: RunningTask) -> None:
        """Record how a subagent ended whose foreground call was cut off, and deliver its own end later.

        For a stopped subagent the parent reads its last report, and the id for a resume.
        """
        task = job.task
        if not task.status.ended:
            return
        if task.status in (Status.CANCELLED, Status.INTERRUPTED):
            said = f"\n{report_lines(outcome_of(task), self._cap(task.agent))}" if task.result.strip() else ""
            self._record.remarks[call.id] = STOPPED_WITH.format(task=task.id, agent=task.agent) + said
            return
        text = JUST_THEN.format(task=task.id, agent=task.agent, status=task.status)
        left = Trace(left=(task.id,))
        self._record.answers[call.id] = ToolResult(call.id, call.name, text, error=True, trace=left)
        self.expect(job)

    def is_later(self, task: str) -> bool:
        """Whether the call that waited for a task was cut off: its result comes separately."""
        return delivered_separately(self._record.task, task, background=False)

    def arrived(self, task: Task) -> None:
        """Record the end of a task in another process; a task of this process is delivered by itself."""
        job = self._jobs.get(task.id)
        if job is not None and not job.over:
            return
        self._jobs.pop(task.id, None)
        self._earlier[task.id] = task
        self._news.set()

    def next_from(self, sender: str, after: int) -> int | None:
        """The number of the first unread message of a sender after another one; it stays in the inbox."""
        after = max(after, self._record.task.delivered.mailed)
        numbers = (number for number, posted in self._messages.items() if posted.sender == sender)
        return min((number for number in numbers if number > after), default=None)

    async def wait_for_message(self, sender: str, after: int) -> None:
        """Wait until there is such a message."""
        while self.next_from(sender, after) is None:
            self._news.clear()
            await self._news.wait()

    def take(self) -> list[UserMessage]:
        """Everything that has come since; it is removed once it is in the journal."""
        ended, _ = self._undelivered_commands()
        if not (self._messages or self._jobs or self._earlier or ended):
            return []  # called before every turn of every agent
        come = self._come()
        messages = [self._messages[number] for number in sorted(self._messages)]
        said = [posted.message for posted in messages]
        if not come and not ended:
            return said
        share = max(MOST_TOGETHER // max(len(come), 1), LEAST_EACH)
        texts = [self._text(task, min(self._cap(task.agent), share)) for task in come]
        if any(task.created.spawned for task in come):
            texts.append(TELL_THE_USER)
        texts += [self._command_text(each) for each in ended]
        delivers = (*(task.id for task in come), *(each.shell for each in ended))
        ends = tuple(task.end.at or "" for task in come)
        text = "\n\n".join(texts) + changed_under(self._stale())
        return [*said, UserMessage(text, "system", delivers, ends=ends, commands=tuple(ended))]

    def _undelivered_commands(self) -> "tuple[list[CommandRun], list[BackgroundShell]]":
        """The background commands whose end was not delivered, and those that still run."""
        task = self._record.task
        pending = task.evidence.commands and undelivered_commands(
            task
        )  # called before every turn of every agent
        if not pending:
            return [], []
        here = self._commands.here()
        running = [here[each.shell] for each in pending if each.shell in here and not here[each.shell].over]
        out = {each.id for each in running}
        ended = [here[each.shell].run if each.shell in here else each for each in pending]
        return [each for each in ended if each.shell not in out], running

    def _command_text(self, command: CommandRun) -> str:
        """The end of a background command; one of an earlier process ended with that at the latest."""
        shell = self._commands.here().get(command.shell)
        how = f"has ended. {shell.verdict}" if shell else "was lost: the process that ran it has ended."
        folder = self._record.folder
        file = shell.file if shell else folder / f"{command.shell}.txt" if folder else None
        where = f" Its output is in {file}." if file else ""
        text = code_span(command.command, LONGEST_COMMAND)
        return f"[The background command {command.shell} ({text}) {how}{where}]"

    def _text(self, task: Task, cap: int) -> str:
        file = str(output_file(self._outputs, task.id)) if self._outputs else f"gen task output {task.id}"
        if task.created.spawned:
            return spawned_result(task, cap, file)
        job = self._jobs.get(task.id)
        newest = job.task if job else self._earlier[task.id]
        last = newest.end.at == task.end.at
        return result_text(task, cap, "" if last else file)

    async def more(self) -> bool:
        """Wait until there is something to take; False if nothing is still to come."""
        until: float | None = None
        while not self._come() and not self._messages:
            out = any(job.work is not None and not job.work.done() for job in self._jobs.values())
            ended, running = self._undelivered_commands()
            if ended:
                return True
            if not out and running and until is None:
                until = self._waits_for(running)
            left = None if out or until is None else until - time.monotonic()
            if not out and (left is None or left <= 0):
                return False  # nothing is still to come, or its end could not be written
            self._news.clear()
            news = asyncio.ensure_future(self._news.wait())
            commands = [each.running.task for each in running]
            try:
                await asyncio.wait([*commands, news], timeout=left, return_when=asyncio.FIRST_COMPLETED)
            finally:
                news.cancel()
        return True

    def _waits_for(self, running: "Sequence[BackgroundShell]") -> float:
        """The time until which an agent waits for its commands alone; the wait is published."""
        left, most = self._commands.remaining(), self._commands.seconds
        seconds = most if left is None else min(most, max(left - BEFORE_THE_END, 0.0))
        if seconds > 0:
            told = [f"{each.id} ({code_span(each.order.text, LONGEST_COMMAND)})" for each in running]
            plural = "" if len(running) == 1 else "s"
            text = WAITS.format(s=plural, seconds=seconds, names=", ".join(told))
            self._record.tell(ProgressMade(text, note=True, waits_for=WaitFor.COMMANDS))
        return time.monotonic() + seconds

    def _come(self) -> list[Task]:
        self._forget()
        earlier = [end for task in self._earlier.values() for end in self._untold(task)]
        return [*earlier, *(end for job in self._jobs.values() for end in self._undelivered_ends_of(job))]

    def _undelivered_ends_of(self, job: RunningTask) -> list[Task]:
        """The undelivered ends of an expected task, whoever waited for it before."""
        if not job.over and not job.task.past:
            return []
        return self._untold(in_background(job.task), over=job.over)

    def _untold(self, task: Task, *, over: bool = True) -> list[Task]:
        return undelivered_ends(self._record.task, task, self._was_given, over=over)

    def _forget(self) -> None:
        """Drop what was delivered, by the journal."""
        if self._messages:
            taken = self._record.task.delivered.mailed
            self._messages = {each: posted for each, posted in self._messages.items() if each > taken}
        done, known = self._record.task.delivered.receipts, len(self._read)
        if done is not self._read:
            grown = known and len(done) >= known and done[known - 1] == self._read[-1]
            self._given = self._given if grown else set()
            self._given.update(done[known if grown else 0 :])
            self._read = done
        self._earlier = {each: task for each, task in self._earlier.items() if self._untold(task)}
        for job in [
            each for each in self._jobs.values() if each.over and not self._undelivered_ends_of(each)
        ]:
            del self._jobs[job.id]

    def _was_given(self, task: str, ended_at: str | None) -> bool:
        return task in self._given or receipt(task, ended_at) in self._given


def result_text(task: Task, cap: int, rest: str = "") -> str:
    """One result as the parent's model reads it; `rest` says where all of it is, if not in TaskOutput."""
    outcome = outcome_of(task)
    title = f" ({disarmed_line(task.created.description, LONGEST_LABEL)})" if task.created.description else ""
    how = "has finished" if outcome.success else how_ended(outcome)
    head = f"[The background task {task.id} of {task.agent}{title} {how}]"
    return f"{head}\n{report_lines(outcome, cap, rest=rest)}"


def spawned_result(task: Task, cap: int, rest: str) -> str:
    """The result of a task started with `spawn`, as a system message; `rest` says where all of it is."""
    outcome = outcome_of(task)
    label = one_line(task.created.description, LONGEST_LABEL) or task.id
    head = f"[Subagent '{label}' {'completed' if outcome.success else 'failed'}]"
    how = "" if outcome.success else f" {how_ended(outcome)}"
    report = report_lines(outcome, cap, rest=rest)
    return f"{head}\nTask: {one_line(task.created.prompt, LONGEST_TASK)}\nResult:{how}\n{report}"


class Delivery:
    """Delivers ends that other processes have written to running agents of this process.

    It serves every agent, whatever interface leads its conversation, if any does.
    """

    def __init__(self, store: Store, supervisor: "Supervisor") -> None:
        self._store = store
        self._supervisor = supervisor
        self._since = datetime.now(UTC)

    async def run(self) -> None:
        """Look after every write, until cancelled."""
        async for _ in self._store.changes.looks():
            read = 0
            try:
                read = await self._look()
            except GenCodeError as trouble:
                log.warning("it is not known what ended elsewhere: %s", trouble)
            await asyncio.sleep(REST_SECONDS + read * MORE_SECONDS)

    async def _look(self) -> int:
        """Deliver the new ends; how many tasks were read for that."""
        parents = {job.id: job for job in self._supervisor.local_tasks() if job.inbox.has_sent}
        now = datetime.now(UTC)
        ended: list[Task] = []
        if parents:
            since = stamp(self._since - SLACK)
            query = TaskQuery(parents=tuple(parents), statuses=ENDED, ended_after=since)
            ended = await self._store.tasks(query)
        self._since = now
        for task in ended:
            parent = parents.get(task.parent or "")
            if parent is None or self._supervisor.find(task.id) is not None:
                continue
            [known] = as_delivered(parent.task, [task])
            if undelivered(parent.task, known):
                parent.inbox.arrived(known)
        return len(ended)
