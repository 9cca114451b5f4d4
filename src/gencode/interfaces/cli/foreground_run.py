"""Follows one task to its end in the foreground: renders its events, and turns signals into stops."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import UNSET, Struct
from msgspec.structs import asdict, replace

from gencode.app import CLOSING, GenCode, ServerReport
from gencode.core.errors import GenCodeError, StoreTrouble
from gencode.core.events import Event
from gencode.core.ids import stamp
from gencode.core.outcome import Outcome, RefusedCall, RunOutcome, StoppedWork
from gencode.core.status import TOLD_TO_END, EndReason, Status, StopCause, stop_cause
from gencode.core.task import Task
from gencode.core.text import visible_line
from gencode.interfaces.chat.notices import all_named, guarded, named
from gencode.interfaces.cli.open_session import telling_of_servers
from gencode.interfaces.render import plain_text
from gencode.interfaces.render.agent_view import View
from gencode.interfaces.render.number_format import counted
from gencode.journal.store import TaskQuery
from gencode.tasks.running_task import RunningTask

if TYPE_CHECKING:
    from gencode.sandbox.shells import BackgroundShell

STOPPING = "Stopping {names}. Their results so far are kept."
LONGEST_TOLD = 1_000
NOT_APPROVED = 3
"""The exit code of a run that completed, but was refused calls which nobody could approve."""
MOST_REFUSED = 20
APPROVE = (
    "To allow such calls, use --allow RULE (see gen permissions explain) or --permission-mode MODE, or run "
    "this in a terminal where you can approve them."
)
LOOK_SECONDS = 1.0
"""So long it may take to find out who is below agents in other processes."""

SIGNALS = {
    signal.SIGINT: stop_cause("interrupted by the user"),
    signal.SIGTERM: TOLD_TO_END,
    signal.SIGHUP: StopCause(EndReason.CLOSING, "the terminal was closed"),
}


def start_beside(work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
    """Run something that nobody awaits: what goes wrong is a line on stderr, and a bug is logged."""
    return asyncio.get_running_loop().create_task(guarded(work, lambda notice: plain_text.note(notice.text)))


class RunRenderer(Protocol):
    """Shows events as they come, and keeps the view they add up to."""

    view: View

    def hear(self, event: Event) -> None:
        """Take in one event."""
        ...

    def hold(self, still: bool) -> None:
        """Let nothing move while a person is asked something."""
        ...

    def close(self) -> None:
        """Leave the screen as a shell expects it."""
        ...


class SignalStop:
    """What came from outside while a job ran. The first signal stops softly, the second at once."""

    def __init__(self, gen: GenCode, renderer: RunRenderer) -> None:
        self._gen = gen
        self._renderer = renderer
        self._settling: asyncio.Task[None] | None = None
        self.code: int | None = None
        self.stopped_at_exit: StoppedAtExit | None = None
        """What is stopped, once that was said."""

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
        self.stopped_at_exit = self.stopped_at_exit or tell_stopped(self._gen, beside=beside)
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
    """Start a job, tell something once it runs, paint it until it has ended; outcome and exit code.

    MCP servers that its agents could have used and that do not work are told of when it runs, and at its end.
    `leave` sees to a job that somebody in another process sends to the background.
    """
    listener = gen.listen()
    try:
        with signals(gen, renderer) as heard:
            with telling_of_servers(gen):
                job = await start()
            heard.heed_time(job)
            if told:
                plain_text.note(told)
            for problem in gen.mcp_servers.problems:
                plain_text.note(visible_line(f"{problem.rstrip('.')}.", LONGEST_TOLD))
            broken = _tell_servers(gen, {})
            left = job.background_signal() if leave else None
            if left is not None:
                left.add_done_callback(lambda _: listener.close())
            ending = start_beside(_ended(gen, job))
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
                await asyncio.wait([stopped_at_exit.looking], timeout=LOOK_SECONDS)
    finally:
        listener.close()
        renderer.close()
    refused, stopped = refused_in(renderer.view) or UNSET, tuple(stopped_at_exit.work) or UNSET
    ran = RunOutcome(**asdict(outcome), refused=refused, stopped=stopped)
    return ran, code_of(ran) if heard.code is None else heard.code


def code_of(outcome: RunOutcome) -> int:
    """The exit code of a run that ended by itself."""
    if outcome.status is not Status.COMPLETED:
        return 1
    lacking = any(each.by.lacks_approval for each in outcome.refused or ())
    return NOT_APPROVED if lacking else 0


def refused_in(view: View) -> tuple[RefusedCall, ...]:
    """The calls that were refused in what was heard here, of every agent."""
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
    """Say which MCP servers do not work, but what was said `before`; all of them by name."""
    for each in gen.mcp_servers.troubles():
        known = before.get(each.name)
        if known is None or (known.state == "starting" and each.state != "starting"):
            plain_text.note(visible_line(each.problem(), LONGEST_TOLD))
    return {each.name: each for each in gen.mcp_servers.troubles()}


async def _ended(gen: GenCode, job: RunningTask) -> None:
    """Wait for the end of a job, and for what goes on in the background without it.

    That is what it had sent where another process cut only the job; and where the job came to its own end,
    what an agent below it had sent before somebody stopped that agent.
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
        plain_text.note(f"{cut}. Still running in the background: {named(behind)}. Ctrl-C stops it.")
    while behind := [live.work for live in gen.running if live.work is not None]:
        await asyncio.wait(behind)


class StoppedAtExit(Struct):
    """What is stopped because a process ends.

    While `looking` goes on, what is below agents in other processes is still to be added.
    """

    work: list[StoppedWork]
    looking: "asyncio.Task[None] | None" = None


def tell_stopped(gen: GenCode, *, conversations: bool = False, beside: str = "") -> StoppedAtExit:
    """Say what is stopped because this process ends, if anything is: tasks, and commands in the background.

    What was stopped before is not told, nor the task `beside` which they are. Those below an agent in a
    process of its own are looked for in the journal, so that is told a moment later.
    """
    working = [live for live in gen.running if not live.stop.stopped and not live.task.status.ended]
    running = [each.task for each in working if each.id != beside]
    running = [each for each in running if conversations or not each.conversation]
    commands = gen.running.commands()
    apart = [each.id for each in working if each.elsewhere]
    stopped_at_exit = StoppedAtExit(_work(running, commands))
    if apart:
        telling = _tell_all(gen, running, commands, apart, stopped_at_exit)
        stopped_at_exit.looking = gen.running.look_after(telling)
    elif running or commands:
        plain_text.note(STOPPING.format(names=all_named(running, commands)))
    return stopped_at_exit


def _work(tasks: Iterable[Task], commands: Sequence["BackgroundShell"]) -> list[StoppedWork]:
    agents = [StoppedWork(each.id, agent=each.agent) for each in tasks]
    return [*agents, *(StoppedWork(each.id, command=each.order.text) for each in commands)]


async def _tell_all(
    gen: GenCode,
    running: Sequence[Task],
    commands: Sequence["BackgroundShell"],
    apart: Sequence[str],
    stopped_at_exit: StoppedAtExit,
) -> None:
    """Say what is stopped, with all that is at work below the tasks that are `apart`, or was until now."""
    known, since = {each.id: each for each in running}, stamp()
    above = tuple(apart)
    with suppress(TimeoutError, GenCodeError):
        async with asyncio.timeout(LOOK_SECONDS):
            while above:
                found = await gen.history.tasks(TaskQuery(parents=above))
                at_work = [each for each in found if (each.end.at or since) >= since]
                above = tuple(each.id for each in found)
                known.update((each.id, each) for each in at_work if each.id not in known)
    stopped_at_exit.work = _work(known.values(), commands)
    plain_text.note(STOPPING.format(names=all_named([*known.values()], commands)))


async def _outcome(gen: GenCode, job: RunningTask) -> Outcome:
    """How a job ended; one whose end could not be written down keeps what it has said."""
    try:
        return await gen.outcome(job)
    except StoreTrouble as trouble:
        so_far = await gen.outcome_of(job.task)
        return replace(so_far, success=False, status=Status.INTERRUPTED, error=str(trouble))


def renderer_for(output: str, *, verbose: bool, kept: bool = True) -> RunRenderer:
    """Who shows the run: lines of events, panels on a terminal, steps when asked for, or nobody."""
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
