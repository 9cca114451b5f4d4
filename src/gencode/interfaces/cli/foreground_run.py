"""Follows a task in the foreground: renders its events, stops it on signals, names what exit stops."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from msgspec import UNSET, Struct
from msgspec.structs import asdict

from gencode.app import CLOSING, GenCode, ServerReport
from gencode.core.errors import GenCodeError, StoreTrouble
from gencode.core.events import Event, PassingFact, ProgressMade
from gencode.core.ids import stamp
from gencode.core.outcome import Outcome, RefusedCall, RunOutcome, StoppedWork, work_done
from gencode.core.status import TOLD_TO_END, EndReason, Status, StopCause, stop_cause
from gencode.core.structs import replace
from gencode.core.task import Task
from gencode.core.text import visible_line
from gencode.interfaces.chat.notices import full_task_list, report_errors, task_list
from gencode.interfaces.cli.open_session import telling_of_servers
from gencode.interfaces.render import plain_text
from gencode.interfaces.render.agent_view import View
from gencode.interfaces.render.number_format import counted, seconds
from gencode.journal.dispatch import MissingWorker, NoWorkerReason
from gencode.journal.owner import process_of, suspended
from gencode.journal.store import TaskQuery
from gencode.tasks.process_engine import runs_one_task
from gencode.tasks.running_task import RunningTask
from gencode.tasks.watch import Tell, WorkerWait, tell_nobody

if TYPE_CHECKING:
    from gencode.sandbox.shells import BackgroundShell

T = TypeVar("T")

STOPPING = "Stopping {names}. Their results so far are kept."
LONGEST_TOLD = 1_000
NOT_APPROVED = 3
"""The exit code of a run that completed, although calls were refused for want of approval."""
MOST_REFUSED = 20
MOST_WARNINGS = 5
APPROVE = (
    "To allow such calls, use --allow RULE (see gen permissions explain) or --permission-mode MODE, or run "
    "this in a terminal where you can approve them."
)
BELOW_SECONDS = 1.0
"""So long it may take to find out who is below agents in other processes."""

MOST_ASKED = 20
"""Of so many tasks it is found out what they wait for."""
PATIENCE = 2.0
"""So many seconds workers have to look at a task for which one of them is free."""
LOOK_SECONDS = 0.5
"""Workers come and go without a change in the journal, so it is looked so often besides."""

SIGNALS = {
    signal.SIGINT: stop_cause("interrupted by the user"),
    signal.SIGTERM: TOLD_TO_END,
    signal.SIGHUP: StopCause(EndReason.CLOSING, "the terminal was closed"),
}


def start_beside(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Run something in the background of the command: an error is a line on stderr, and a bug is logged."""
    return asyncio.get_running_loop().create_task(
        report_errors(work, lambda notice: plain_text.note(notice.text))
    )


class RunRenderer(Protocol):
    """Shows events as they come, and keeps the view they add up to."""

    view: View

    def hear(self, event: Event) -> None:
        """Take in one event."""
        ...

    def note(self, text: str) -> None:
        """Say something to the person, beside what moves."""
        ...

    def hold(self, still: bool) -> None:
        """Pause the display while a person is asked something."""
        ...

    def close(self) -> None:
        """Leave the screen as a shell expects it."""
        ...


class SignalStop:
    """Signals during a run: the first one stops it softly, the second at once."""

    def __init__(self, gen: GenCode, renderer: RunRenderer) -> None:
        self._gen = gen
        self._renderer = renderer
        self._settling: asyncio.Task[None] | None = None
        self.code: int | None = None
        self.stopped_at_exit: StoppedAtExit | None = None
        """What is stopped by the first signal."""

    def come(self, number: signal.Signals) -> None:
        """Stop everything softly; when that was already asked for, end the process."""
        if self.code is not None:
            self._renderer.close()
            _leave(number)
        self.code = 128 + number
        self.tell()
        self._gen.mcp_servers.hurry()
        self._gen.running.stop(SIGNALS[number])
        self._settling = start_beside(self._gen.running.settle())

    def tell(self, beside: str = "") -> "StoppedAtExit":
        """Say what is stopped, once."""
        self.stopped_at_exit = self.stopped_at_exit or tell_stopped(
            self._gen, self._renderer.note, beside=beside
        )
        return self.stopped_at_exit

    def heed_time(self, job: RunningTask) -> None:
        """Say what is stopped already when the time of a job is up: what it waits for ends before it does."""

        def late() -> None:
            self.tell(job.id)

        job.deadline.when_passed(late)


@contextmanager
def signals(gen: GenCode, renderer: RunRenderer) -> Generator[SignalStop, None, None]:
    """Signals become stops inside this block; one that the parent process ignores stays ignored.

    After a signal the next one ends the process at once, also while it is closing.
    """
    loop = asyncio.get_running_loop()
    heard = SignalStop(gen, renderer)
    ours = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in ours:
        loop.add_signal_handler(number, heard.come, number)
    try:
        yield heard
    finally:
        for number in ours:
            loop.remove_signal_handler(number)
            if heard.code is not None:
                signal.signal(number, _leave)


def _leave(number: int, _: object = None) -> None:
    os._exit(128 + number)


async def follow(
    gen: GenCode,
    start: Callable[[], Awaitable[RunningTask]],
    renderer: RunRenderer,
    told: str = "",
    leave: Callable[[RunningTask], Awaitable[Outcome]] | None = None,
) -> tuple[RunOutcome, int]:
    """Start a task, display it until it has ended; its outcome and exit code.

    MCP servers that its agents could have used and that do not work are reported when it runs, and at its
    end. `leave` handles a task that another process moves to the background.
    """
    listener = gen.listen()
    try:
        with signals(gen, renderer) as heard:
            with telling_of_servers(gen):
                job = await start()
            heard.heed_time(job)
            if told:
                renderer.note(told)
            for problem in gen.mcp_servers.problems:
                renderer.note(visible_line(f"{problem.rstrip('.')}.", LONGEST_TOLD))
            broken = _tell_servers(gen, {})
            left = job.background_signal() if leave else None
            if left is not None:
                left.add_done_callback(lambda _: listener.close())
            ending = start_beside(_ended(gen, job, renderer.note))
            ending.add_done_callback(lambda _: listener.close())
            async for event in listener:
                renderer.hear(event)
            ending.cancel()
            if leave and left and left.done():
                return RunOutcome(**asdict(await leave(job))), 0
            outcome = await _outcome(gen, job)
            _tell_servers(gen, broken)
            stopped_at_exit = heard.tell()
            if heard.code is None:
                gen.running.stop(CLOSING)
                await gen.running.settle()
            if stopped_at_exit.looking is not None:
                await asyncio.wait([stopped_at_exit.looking], timeout=BELOW_SECONDS)
    finally:
        listener.close()
        renderer.close()
    refused, stopped = refused_in(renderer.view) or UNSET, tuple(stopped_at_exit.work) or UNSET
    ran = RunOutcome(**asdict(outcome), refused=refused, stopped=stopped)
    return ran, code_of(ran) if heard.code is None else heard.code


def code_of(outcome: RunOutcome) -> int:
    """The exit code of a run that was not interrupted."""
    if outcome.status is not Status.COMPLETED:
        return 1
    lacking = any(each.by.lacks_approval for each in outcome.refused or ())
    return NOT_APPROVED if lacking else 0


def refused_in(view: View) -> tuple[RefusedCall, ...]:
    """The refused calls in the events seen here, of every agent."""
    return tuple(
        RefusedCall(agent.id, agent.agent, each.tool, each.summary, each.by, each.why)
        for agent in view.agents.values()
        for each in agent.refused
    )


def refused_of(task: Outcome) -> list[RefusedCall]:
    """The calls that one task was ever refused."""
    return [
        RefusedCall(task.agent_id, task.agent, each.tool, each.summary, each.by, each.why)
        for each in task.evidence.refused
    ]


def tell_work(outcome: Outcome) -> None:
    """Print what a task changed and ran, beside what its report says."""
    if outcome.evidence.files_changed or outcome.evidence.commands:
        work = "; ".join(work_done(outcome.evidence))
        plain_text.note(f"{visible_line(outcome.agent, 40)} {outcome.agent_id}: {work}.")
    for each in outcome.evidence.warnings[:MOST_WARNINGS]:
        plain_text.note(f"Warning: {visible_line(each, 300)}")


def tell_refused(calls: Sequence[RefusedCall]) -> None:
    """Name the refused calls, and what a person can do about those that only lacked approval."""
    if not calls:
        return
    plain_text.note(f"{counted(len(calls), 'call was', 'calls were')} refused:")
    for each in calls[:MOST_REFUSED]:
        call = visible_line(f"{each.tool}({each.summary})", 80)
        plain_text.note(
            f"  {visible_line(each.agent, 40)} {each.task}: {call}: {visible_line(each.why, 300)}"
        )
    if len(calls) > MOST_REFUSED:
        plain_text.note(f"  and {len(calls) - MOST_REFUSED} more")
    if any(each.by.lacks_approval for each in calls):
        plain_text.note(APPROVE)


def _tell_servers(gen: GenCode, before: Mapping[str, ServerReport]) -> dict[str, ServerReport]:
    """Print which MCP servers do not work, except those reported `before`."""
    for each in gen.mcp_servers.troubles():
        known = before.get(each.name)
        if known is None or (known.state == "starting" and each.state != "starting"):
            plain_text.note(visible_line(each.problem(), LONGEST_TOLD))
    return {each.name: each for each in gen.mcp_servers.troubles()}


async def _ended(gen: GenCode, job: RunningTask, say: Callable[[str], None]) -> None:
    """Wait for the end of a task, and for its background work that goes on without it.

    That is its own background work where another process stopped only the task itself, and else that of a
    stopped subagent.
    """
    if job.work is not None:
        await asyncio.wait([job.work])
    interrupted = job.interrupted
    completed = job.task.status is Status.COMPLETED
    if not interrupted and not job.stopped_elsewhere and not completed:
        return
    if behind := [live.task for live in gen.running if not live.stop.stopped and live is not job]:
        cut = "The turn was interrupted" if interrupted else f"Task {job.id} was stopped"
        cut = f"Task {job.id} has finished" if completed else cut
        say(f"{cut}. Still running in the background: {task_list(behind)}. Ctrl-C stops it.")
    while behind := [live.work for live in gen.running if live.work is not None]:
        await asyncio.wait(behind)


class StoppedAtExit(Struct):
    """What is stopped because the process ends.

    While `looking` is running, subagents in other processes are still being added.
    """

    work: list[StoppedWork]
    looking: "asyncio.Task[None] | None" = None


def tell_stopped(
    gen: GenCode,
    say: Callable[[str], None] = plain_text.note,
    *,
    conversations: bool = False,
    beside: str = "",
) -> StoppedAtExit:
    """Print what is stopped because this process ends: tasks and background commands.

    What was stopped before is left out, and so is the task `beside`. Subagents of a task in a process of its
    own are looked up in the journal, so they are printed a moment later.
    """
    working = [live for live in gen.running if not live.stop.stopped and not live.task.status.ended]
    running = [each.task for each in working if each.id != beside]
    running = [each for each in running if conversations or not each.conversation]
    commands = gen.running.commands()
    apart = [each.id for each in working if each.elsewhere]
    stopped_at_exit = StoppedAtExit(_work(running, commands))
    if apart:
        telling = _tell_all(gen, say, running, commands, apart, stopped_at_exit)
        stopped_at_exit.looking = gen.running.look_after(telling)
    elif running or commands:
        say(STOPPING.format(names=full_task_list(running, commands)))
    return stopped_at_exit


def _work(tasks: Iterable[Task], commands: Sequence["BackgroundShell"]) -> list[StoppedWork]:
    agents = [StoppedWork(each.id, agent=each.agent) for each in tasks]
    return [*agents, *(StoppedWork(each.id, command=each.order.text) for each in commands)]


async def _tell_all(
    gen: GenCode,
    say: Callable[[str], None],
    running: Sequence[Task],
    commands: Sequence["BackgroundShell"],
    apart: Sequence[str],
    stopped_at_exit: StoppedAtExit,
) -> None:
    """Say what is stopped, with all that is at work below the tasks that are `apart`, or was until now."""
    known, since = {each.id: each for each in running}, stamp()
    above = tuple(apart)
    with suppress(TimeoutError, GenCodeError):
        async with asyncio.timeout(BELOW_SECONDS):
            while above:
                found = await gen.history.tasks(TaskQuery(parents=above))
                at_work = [each for each in found if (each.end.at or since) >= since]
                above = tuple(each.id for each in found)
                known.update((each.id, each) for each in at_work if each.id not in known)
    stopped_at_exit.work = _work(known.values(), commands)
    say(STOPPING.format(names=full_task_list([*known.values()], commands)))


async def _outcome(gen: GenCode, job: RunningTask) -> Outcome:
    """The outcome of a task; if its end could not be written, it keeps its last reply."""
    try:
        return await gen.outcome(job)
    except StoreTrouble as trouble:
        so_far = await gen.outcome_of(job.task)
        return replace(so_far, success=False, status=Status.INTERRUPTED, error=str(trouble))


def renderer_for(output: str, *, verbose: bool, kept: bool = True) -> RunRenderer:
    """The display of the run: lines of events, panels on a terminal, steps when asked for, or none."""
    if output == "stream-json":
        return plain_text.JsonLineRenderer()
    if output == "text" and plain_text.has_terminal():
        from gencode.interfaces.render.rich_panels import RichRenderer

        return RichRenderer(kept=kept)
    return plain_text.StepRenderer() if verbose else plain_text.NoteRenderer()


def tell_ending(outcome: Outcome) -> None:
    """How it ended, when that was not well, or that it has not."""
    if not outcome.status.ended:
        plain_text.note(f"Task {outcome.agent_id} is {outcome.status}; it has not finished.")
    elif outcome.status is not Status.COMPLETED:
        why = f": {outcome.error.rstrip('.')}" if outcome.error else ""
        plain_text.note(f"Task {outcome.agent_id}: {outcome.status}{why}.")


async def awaited(gen: GenCode, task: Outcome, patience: float = PATIENCE) -> str:
    """What a task waits for that no worker has begun with; empty where one has, or none is needed."""
    seen = await _outlook(gen, task, patience)
    return visible_line(seen.words) if seen is not None else ""


async def _outlook(gen: GenCode, task: Outcome, patience: float) -> MissingWorker | None:
    workers, changes = gen.workers, gen.history.changes
    if task.status is not Status.PENDING or workers is None:
        return None
    until = time.monotonic() + patience
    changed = changes.count
    seen = await workers.missing_worker(task.agent_id)
    while seen == MissingWorker() and time.monotonic() < until:  # a worker starts it or reports what it lacks
        changed = await changes.after(changed, LOOK_SECONDS)
        seen = await workers.missing_worker(task.agent_id)
    return seen


@asynccontextmanager
async def aloud(gen: GenCode, task: Task) -> AsyncGenerator[Tell, None]:
    """While this process waits for a task: print what it waits for, and end it if no worker can take it.

    The result can be used to print other notices of the wait.
    """
    workers = gen.workers
    if workers is None:
        yield tell_nobody
        return
    find_outlook = partial(workers.missing_worker, task.id)

    def tell(fact: PassingFact) -> None:
        if isinstance(fact, ProgressMade):
            plain_text.note(f"[{visible_line(task.agent)}] {visible_line(fact.text)}")

    async def look() -> None:
        waits = WorkerWait(tell)
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if why := await waits.look(find_outlook, quiet=True):
                await workers.close_unclaimed(task.id, why)

    looking = start_beside(look())
    try:
        yield tell
    finally:
        looking.cancel()
        await asyncio.wait([looking])


async def handing_over(gen: GenCode, doing: Awaitable[T]) -> T:
    """Hand over a task that this process does not follow; print what the person should know meanwhile."""
    listener, notes = gen.listen(), plain_text.NoteRenderer()

    async def tell() -> None:
        async for event in listener:
            notes.hear(event)

    telling = start_beside(tell())
    try:
        return await doing
    finally:
        listener.close()
        await asyncio.wait([telling])


async def all_awaited(gen: GenCode, tasks: Sequence[Outcome]) -> list[str]:
    """What these tasks wait for, one line for each reason."""
    seen = Counter([await _outlook(gen, task, 0.0) for task in tasks[-MOST_ASKED:]])
    return [
        f"{counted(count, 'task is waiting', 'tasks are waiting')} for {visible_line(each.words)}"
        for each, count in seen.items()
        if each is not None and each.reason is not NoWorkerReason.NOT_YET
    ]


async def ways_out(gen: GenCode, tasks: Sequence[Outcome]) -> list[str]:
    """One line for each process that hangs with some of these tasks, and for each silent task."""
    stalled = [task for task in tasks if task.stalled_seconds is not UNSET]
    if not stalled:
        return []
    silent = await gen.history.unresponsive()
    owners = {task.agent_id: silent[task.agent_id].owner for task in stalled if task.agent_id in silent}
    return [
        *(_of_process(each, list(_top(stalled, owners, each))) for each in dict.fromkeys(owners.values())),
        *(_of_task(task, gen.settings.silence_seconds) for task in stalled if task.agent_id not in owners),
    ]


def _top(stalled: Iterable[Outcome], owners: dict[str, str], owner: str) -> Iterator[Outcome]:
    """The tasks of a process, without those that others of it sent: these end with them."""
    for task in stalled:
        if owners.get(task.agent_id) == owner and owners.get(task.parent_id or "") != owner:
            yield task


def _of_process(owner: str, tasks: Sequence[Outcome]) -> str:
    first, more = tasks[0], f" and {len(tasks) - 1} more" if tasks[1:] else ""
    named = f"{first.agent_id} ({visible_line(first.agent)}){more}"
    process, stop = process_of(owner) or "elsewhere", f"gen task stop {first.agent_id}"
    if suspended(owner):
        way = f"kill -CONT {process}" if runs_one_task(owner) else "fg in its terminal"
        return f"{named}: process {process} is suspended. Continue it: {way}. Or stop it: {stop}"
    length = seconds(float(first.stalled_seconds or 0.0))
    return f"{named}: no heartbeat from process {process} for {length}. Stop it: {stop}"


def _of_task(task: Outcome, most: float) -> str:
    named = f"{task.agent_id} ({visible_line(task.agent)})"
    stop = f"gen task stop {task.agent_id}"
    return f"{named} has no activity; it times out after {seconds(most)} without any. Stop it now: {stop}"
