"""Delivers results of background tasks, messages and ends of background commands to agents, exactly once.

Nothing is queued that could be lost. A result is owed as long as the journal of its task has the end of that
run and the journal of its parent does not say that it was delivered. A message waits as long as its number is
above that of the last one taken. For a background command the agent's journal says that it was started, and
whether its end was delivered. The message that delivers something says so in the same event, so that a crash
at any moment leaves it either waiting or delivered, never both and never neither.

Two things make an inbox look at what is owed: the end of a task that this process looks after, and a change
of the store (`Delivery`). A parent that begins to work looks by itself; an idle one gets a turn from whoever
leads it, where something is `worth_a_turn`.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from gencode.agent.recorder import Recorder
from gencode.core.errors import GenCodeError
from gencode.core.events import ProgressMade
from gencode.core.ids import stamp
from gencode.core.messages import CommandRun, ToolCall, ToolResult, Trace, UserMessage
from gencode.core.outcome import how_ended, outcome_of, output_file, report_lines
from gencode.core.status import EndReason, Status, WaitFor
from gencode.core.task import (
    Task,
    TaskReport,
    comes_later,
    in_background,
    is_said_again,
    last_run,
    receipt,
    untold_commands,
    was_given,
)
from gencode.core.text import code_span, disarmed_line, one_line
from gencode.files.file_versions import changed_under
from gencode.journal.store import PostedMessage, Store, TaskQuery
from gencode.tasks.running_task import LocalTask, RunningTask

if TYPE_CHECKING:
    from gencode.sandbox.shells import BackgroundShell
    from gencode.tasks.supervisor import Supervisor

log = logging.getLogger(__name__)
REST_SECONDS = 0.2
"""Ends of other processes that are written within so long are delivered together."""
MORE_SECONDS = 0.01
"""So much longer for each task that had to be read."""
SLACK = timedelta(minutes=1)
"""So far the clocks of machines may differ before an end could be overlooked."""
ENDED = tuple(each for each in Status if each.ended)
MOST_TOGETHER = 24_000
"""So many characters of results come in one message; each gets its share, the rest is paged."""
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
"""So many seconds before its time is up an agent stops to wait for its commands: it has answered already."""
WAITS = "waits up to {seconds:.4g} s for its background command{s}: {names}"
LONGEST_LABEL = 80
LONGEST_TASK = 500
TELL_THE_USER = (
    "Tell the user the result in one or two sentences of your own. Leave out ids and how the work was done."
)


def undelivered(parent: Task, task: Task) -> list[Task]:
    """A task as it was at each of its ends that were not delivered to its parent yet, oldest first.

    A task ends once for each of its runs, and its parent is told each end by itself, however often the task
    was woken before that.
    """
    return undelivered_ends(parent, task, lambda each, at: was_given(parent, each, at))


WasGiven = Callable[[str, str | None], bool]
"""Whether the end of a task at a moment was handed over."""


def undelivered_ends(parent: Task, task: Task, was_given: WasGiven, *, over: bool = True) -> list[Task]:
    """The same for who knows by other means what was given; the last end is one when the task is `over`."""
    if not task.past and not task.status.ended:
        return []
    owed = [*_past_ends(parent, task, was_given)]
    if over and task.status.ended and task.terms.background and not was_given(task.id, task.end.at):
        run = last_run(task)
        again = run is not None and is_said_again(task.past, run)
        owed.append(replace(task, report=TaskReport() if again else task.report, past=()))
    return owed


def _past_ends(parent: Task, task: Task, was_given: WasGiven) -> Iterator[Task]:
    """Its earlier ends that are delivered by themselves.

    What it came to while it was waited for was the answer to a call, unless its parent was cut off from it.
    """
    left = next((each for each in reversed(task.past) if not each.background), None)
    for each in task.past:
        later = each.background or (each is left and task.id in parent.delivered.left)
        if later and not was_given(task.id, each.end.at):
            yield replace(task, status=each.status, report=each.report, end=each.end, past=())


def as_delivered(parent: Task, children: Sequence[Task]) -> list[Task]:
    """The children of a task; those whose foreground call was interrupted count as background tasks."""
    return [
        in_background(each) if comes_later(parent, each.id, background=each.terms.background) else each
        for each in children
    ]


def worth_a_turn(parent: Task, children: Sequence[Task]) -> bool:
    """Whether results wait for an idle conversation that are worth a turn nobody asked for.

    What somebody stopped is not: whoever did so knows, and the conversation is told in its next turn.
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
    """The background commands of one agent: those that run or ran in this process, by their ids.

    An agent that has answered waits `seconds` for them, and no longer than it may still work (`remaining`).
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
        self._letters: dict[int, PostedMessage] = {}
        self._news = asyncio.Event()
        self._jobs: dict[str, RunningTask] = {}
        self._read: tuple[str, ...] = ()
        self._given: set[str] = set()
        """The receipts in the journal, as far as it was read."""
        self._earlier = {task.id: task for task in earlier if task.terms.background}
        """Those that nobody runs here, as far as something of them was not taken yet."""
        self.has_sent = bool(earlier)
        """Whether the agent has ever sent one, which somebody may wake elsewhere."""

    @property
    def expecting(self) -> bool:
        """Whether anything is out, or has come and was not taken."""
        self._forget()
        if self._letters or self._jobs or self._earlier:
            return True
        ended, running = self._untold_commands()
        return bool(ended or (running and self._commands.seconds > 0))

    def put(self, letter: PostedMessage) -> None:
        """A message came: the agent reads it before its next reply, and only once."""
        if letter.number > self._record.task.delivered.mailed:
            self._letters[letter.number] = letter
            self._news.set()

    def expect(self, job: RunningTask) -> None:
        """A task went to the background; its result will come here, and what it came to before as well."""
        self._earlier.pop(job.id, None)
        self._jobs[job.id] = job
        if job.work is not None:
            job.work.add_done_callback(lambda _: self._news.set())
        self._news.set()  # somebody else may have woken it while the agent waits for others

    def cut_off(self, call: ToolCall, job: RunningTask) -> None:
        """Record how a subagent ended whose foreground call was interrupted, and deliver its own end later.

        Of one that was stopped the sender reads what it said until then, and by which id it goes on.
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
        """Whether the call that waited for a task was interrupted: its result comes separately."""
        return comes_later(self._record.task, task, background=False)

    def arrived(self, task: Task) -> None:
        """A task that another process resumed has ended; one that runs here is delivered by itself."""
        job = self._jobs.get(task.id)
        if job is not None and not job.over:
            return
        self._jobs.pop(task.id, None)
        self._earlier[task.id] = task
        self._news.set()

    def next_from(self, sender: str, after: int) -> int | None:
        """The number of the first message of a sender after another one; it stays in the inbox."""
        numbers = (number for number, letter in self._letters.items() if letter.sender == sender)
        return min((number for number in numbers if number > after), default=None)

    async def wait_for_letter(self, sender: str, after: int) -> None:
        """Wait until there is such a message."""
        while self.next_from(sender, after) is None:
            self._news.clear()
            await self._news.wait()

    def take(self) -> list[UserMessage]:
        """All that has come since; it is taken once it is in the journal."""
        ended, _ = self._untold_commands()
        if not (self._letters or self._jobs or self._earlier or ended):
            return []  # asked before every turn of every agent
        come = self._come()
        letters = [self._letters[number] for number in sorted(self._letters)]
        said = [letter.message for letter in letters]
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

    def _untold_commands(self) -> "tuple[list[CommandRun], list[BackgroundShell]]":
        """The background commands whose end was not delivered, and those that still run."""
        task = self._record.task
        untold = task.evidence.commands and untold_commands(task)  # asked before every turn of every agent
        if not untold:
            return [], []
        here = self._commands.here()
        running = [here[each.shell] for each in untold if each.shell in here and not here[each.shell].over]
        out = {each.id for each in running}
        ended = [here[each.shell].run if each.shell in here else each for each in untold]
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
        """Wait until there is something to take; False when nothing is out any more."""
        until: float | None = None
        while not self._come() and not self._letters:
            out = any(job.work is not None and not job.work.done() for job in self._jobs.values())
            ended, running = self._untold_commands()
            if ended:
                return True
            if not out and running and until is None:
                until = self._waits_for(running)
            left = None if out or until is None else until - time.monotonic()
            if not out and (left is None or left <= 0):
                return False  # nothing is out, or what was could not even be written down
            self._news.clear()
            news = asyncio.ensure_future(self._news.wait())
            commands = [each.running.task for each in running]
            try:
                await asyncio.wait([*commands, news], timeout=left, return_when=asyncio.FIRST_COMPLETED)
            finally:
                news.cancel()
        return True

    def _waits_for(self, running: "Sequence[BackgroundShell]") -> float:
        """The moment until which an agent waits for its commands alone; the wait is reported."""
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
        return [*earlier, *(end for job in self._jobs.values() for end in self._untold_of(job))]

    def _untold_of(self, job: RunningTask) -> list[Task]:
        """The undelivered ends of a task that is expected, whoever waited for it before."""
        if not job.over and not job.task.past:
            return []
        return self._untold(in_background(job.task), over=job.over)

    def _untold(self, task: Task, *, over: bool = True) -> list[Task]:
        return undelivered_ends(self._record.task, task, self._was_given, over=over)

    def _forget(self) -> None:
        """Let go of what was handed over; the journal remembers it."""
        if self._letters:
            taken = self._record.task.delivered.mailed
            self._letters = {each: letter for each, letter in self._letters.items() if each > taken}
        done, known = self._record.task.delivered.receipts, len(self._read)
        if done is not self._read:
            grown = known and len(done) >= known and done[known - 1] == self._read[-1]
            self._given = self._given if grown else set()
            self._given.update(done[known if grown else 0 :])
            self._read = done
        self._earlier = {each: task for each, task in self._earlier.items() if self._untold(task)}
        for job in [each for each in self._jobs.values() if each.over and not self._untold_of(each)]:
            del self._jobs[job.id]

    def _was_given(self, task: str, ended_at: str | None) -> bool:
        return task in self._given or receipt(task, ended_at) in self._given


def result_text(task: Task, cap: int, rest: str = "") -> str:
    """One result as the parent's model reads it; `rest` says where a long one is, if not in TaskOutput."""
    outcome = outcome_of(task)
    title = f" ({disarmed_line(task.created.description, LONGEST_LABEL)})" if task.created.description else ""
    how = "has finished" if outcome.success else how_ended(outcome)
    head = f"[The background task {task.id} of {task.agent}{title} {how}]"
    return f"{head}\n{report_lines(outcome, cap, rest=rest)}"


def spawned_result(task: Task, cap: int, rest: str) -> str:
    """The result of a spawned task as the system message of its spawner says it; `rest` is where all is."""
    outcome = outcome_of(task)
    label = one_line(task.created.description, LONGEST_LABEL) or task.id
    head = f"[Subagent '{label}' {'completed' if outcome.success else 'failed'}]"
    how = "" if outcome.success else f" {how_ended(outcome)}"
    report = report_lines(outcome, cap, rest=rest)
    return f"{head}\nTask: {one_line(task.created.prompt, LONGEST_TASK)}\nResult:{how}\n{report}"


class Delivery:
    """Delivers ends that other processes have written to running agents of this process.

    That holds for every agent, whatever surface leads its conversation, if anybody does.
    """

    def __init__(self, store: Store, supervisor: "Supervisor") -> None:
        self._store = store
        self._supervisor = supervisor
        self._since = datetime.now(UTC)

    async def run(self) -> None:
        """Look whenever something was written, until cancelled."""
        async for _ in self._store.changes.looks():
            read = 0
            try:
                read = await self._look()
            except GenCodeError as trouble:
                log.warning("it is not known what ended elsewhere: %s", trouble)
            await asyncio.sleep(REST_SECONDS + read * MORE_SECONDS)

    async def _look(self) -> int:
        """Deliver what has ended since; how many tasks were read for that."""
        parents = {job.id: job for job in self._supervisor.local_tasks() if _has_sent(job)}
        now = datetime.now(UTC)
        ended: list[Task] = []
        if parents:
            since = stamp(self._since - SLACK)
            query = TaskQuery(parents=tuple(parents), statuses=ENDED, ended_after=since)
            ended = await self._store.tasks(query)
        self._since = now
        for task in ended:
            parent = parents.get(task.parent or "")
            if parent is not None and self._supervisor.find(task.id) is None:
                _deliver(parent, task)
        return len(ended)


def _has_sent(job: LocalTask) -> bool:
    return isinstance(job.setup.inbox, AgentInbox) and job.setup.inbox.has_sent


def _deliver(parent: LocalTask, task: Task) -> None:
    """Put an undelivered end into the inbox of its parent."""
    [known], inbox = as_delivered(parent.task, [task]), parent.setup.inbox
    if isinstance(inbox, AgentInbox) and undelivered(parent.task, known):
        inbox.arrived(known)
