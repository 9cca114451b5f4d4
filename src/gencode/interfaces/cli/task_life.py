"""`gen task output | stop | background | resume | events`: tasks that run, from any process."""

import argparse
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from gencode.agent.ports import StopAction
from gencode.app import GenCode, ServerReport
from gencode.core.errors import UserMistake
from gencode.core.events import Event
from gencode.core.outcome import Outcome, RunOutcome, page_of
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.core.subsession_events import wire, wire_line
from gencode.core.task import Task
from gencode.core.text import visible_line
from gencode.interfaces.chat.notices import all_named
from gencode.interfaces.chat.task_controls import STOPPED, with_ids
from gencode.interfaces.cli.foreground_run import follow, painter_for, refused_of, tell_ending, tell_refused
from gencode.interfaces.cli.open_session import check, not_trusted, opened
from gencode.interfaces.cli.piped_input import whole_input
from gencode.interfaces.cli.queued_tasks import aloud, awaited, handing_over
from gencode.interfaces.cli.schema_file import schema
from gencode.interfaces.cli.terminal_questions import asker_for
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.plain_text import answer, answer_json, answer_raw, note, turns
from gencode.tasks.actions import StruckTask
from gencode.tasks.control import SENT_BACK, STOP_SECONDS
from gencode.tasks.resume_messages import is_here
from gencode.tasks.running_task import RunningTask
from gencode.tasks.supervisor import REPORT_SECONDS
from gencode.tasks.task_folders import current_result

USUAL_MS = 30_000
LONGEST_MS = 600_000
GO_ON = "Go on where you were."


def output(args: argparse.Namespace) -> int:
    """The result of a task, once it has ended or the time is up."""
    return run_to_end(_output(args))


async def _output(args: argparse.Namespace) -> int:
    wanted: int = getattr(args, "timeout", USUAL_MS)
    if wanted > LONGEST_MS:
        note(f"The timeout was cut to {LONGEST_MS} ms.")
    seconds = 0.0 if "no_block" in args else min(wanted, LONGEST_MS) / 1000
    async with opened(args) as gen:
        found = await gen.find(args.id)
        async with aloud(gen, found) as tell:
            found = await gen.watch.ended(found.id, seconds, tell)
        outcome = await gen.records.get(found)
        waits = found.status is Status.PENDING
        if found.created.worktree and not waits:
            outcome = msgspec.structs.replace(outcome, result=await current_result(found, gen.store))
        awaits = await awaited(gen, outcome, 0.0)
    if "page" in args:
        outcome = msgspec.structs.replace(outcome, result=page_of(outcome.result, args.page))
    if "json" in args:
        answer_json(outcome)
        return 0
    if outcome.result:
        answer(outcome.result)
    tell_refused(refused_of(outcome))
    if outcome.status.ended:
        tell_ending(outcome)
    elif awaits:
        note(f"{_named(outcome)} has not begun; it waits for {awaits}.")
    elif waits:
        place = f"; it is {outcome.queue_position}. in line" if outcome.queue_position else ""
        note(f"{_named(outcome)} waits for its turn{place}.")
    else:
        said = "this is what it said last" if outcome.result else "it has said nothing yet"
        note(f"{_named(outcome)} is still running after {turns(outcome.turns)}; {said}.")
    return 0


def stop(args: argparse.Namespace) -> int:
    """Stop a task, and say what that hit."""
    return run_to_end(_stop(args))


async def _stop(args: argparse.Namespace) -> int:
    async with opened(args) as gen:
        found = await gen.find(args.id)
        verb: StopAction = "tree" if "tree" in args else "keep" if "keep" in args else "stop"
        await announce(gen, found.id, verb, "stops")
        if "keep" in args and not found.status.ended:
            most = REPORT_SECONDS + STOP_SECONDS
            note(f"Waiting for the last report of task {found.id}, at most {most:.0f} s.")
        struck = await gen.verbs.stop(found.id, keep="keep" in args, tree="tree" in args, why=STOPPED)
    if "json" in args:
        answer_json(with_ids(struck, "stopped"))
    else:
        _tell_stop(struck)
    if struck.hit and not struck.status.ended:
        why = "its process did not answer, or somebody let it go on"
        again = f"gen task stop {struck.agent_id}"
        note(f"{_named(struck)} is {struck.status} all the same: {why}. Stop it again: {again}")
    return 0 if struck.status.ended else 1


async def announce(gen: GenCode, task: str, verb: StopAction, does: str) -> None:
    """Say what a verb will hit, before it does."""
    if hit := await gen.hits(task, verb):
        note(f"This {does} {'1 task' if len(hit) == 1 else f'{len(hit)} tasks'}: {all_named(hit)}.")


def _tell_stop(struck: StruckTask) -> None:
    if not struck.hit:
        now = f"had already ended as {struck.status}" if struck.status.ended else "does not answer"
        answer(f"{_named(struck)} {now}; nothing was stopped.")
    for each in struck.hit:
        answer(f"{_named(each)} was stopped after {turns(each.turns)} and is now {each.status}.")
    if struck.result and struck.agent_id in [each.agent_id for each in struck.hit]:
        note(f"What it has said is kept: gen task output {struck.agent_id}")


def background(args: argparse.Namespace) -> int:
    """Let the agent that waits for a task go on without it."""
    return run_to_end(_background(args))


async def _background(args: argparse.Namespace) -> int:
    async with opened(args) as gen:
        task = await gen.reach.move_to_background((await gen.find(args.id)).id)
        outcome = await gen.records.get(task)
    if "json" in args:
        answer_json(outcome)
    else:
        where = f"ended as {outcome.status}" if outcome.status.ended else "works in the background now"
        answer(f"{_named(outcome)} {where}.")
    return 0


def resume(args: argparse.Namespace) -> int:
    """Go on with a task and print what it says."""
    typed: str = args.task
    prompt = whole_input("write what to do after the id") if typed == "-" else typed
    request = TaskRequest(
        agent="",
        prompt=prompt,
        model=getattr(args, "model", ""),
        max_turns=getattr(args, "max_turns", None),
        resume=args.id,
        background="background" in args,
        here="cwd" in args,
        output_schema=schema(args),
    )
    return run_to_end(go_on(args, request))


async def go_on(args: argparse.Namespace, request: TaskRequest) -> int:
    """Go on with the task that a request names, in its own folder; outcome and exit code as for a new one."""
    output = "json" if "json" in args else "text"
    painter = painter_for(output, verbose="verbose" in args)
    task = await move(args, request.resume)
    if request.agent and request.agent.casefold() != task.agent.casefold():
        raise UserMistake(f"Task {task.id} belongs to the agent {task.agent}, not to {request.agent}.")
    async with opened(args, without=("max_turns",), asker=asker_for(output, painter)) as gen:
        told = check(gen, args) if "no_offline" in args else not_trusted(gen)
        if request.background:
            outcome = await handing_over(gen, gen.detach(request))
            awaits = "" if "json" in args else await awaited(gen, outcome)
            return tell_begun(outcome, told, awaits, as_json="json" in args)
        told = "\n".join(filter(None, (told, in_clone(gen, task))))
        start = partial(with_news, partial(gen.start_resume, request.resume, request))
        outcome, code = await follow(gen, start, painter, told, leaving(gen))
        servers = gen.servers.reports()
    return tell_outcome(outcome, code, servers, as_json=output == "json")


async def with_news(start: Callable[[], Awaitable[RunningTask]]) -> RunningTask:
    """Start a job, and tell what a person should know of the folder it works in."""
    job = await start()
    if job.folder_notice:
        note(f"Task {job.id}: {job.folder_notice}")
    return job


def leaving(gen: GenCode) -> Callable[[RunningTask], Awaitable[Outcome]]:
    """How a task of this terminal goes to the background: it ends here and goes on without it."""

    async def leave(job: RunningTask) -> Outcome:
        await job.halt(SENT_BACK)
        task = await job.ended()
        if task.status is not Status.CANCELLED:
            return await gen.outcome_of(task)
        return await gen.detach(TaskRequest(task.agent, GO_ON, resume=task.id))

    return leave


async def move(args: argparse.Namespace, name: str) -> Task:
    """To the folder of a task, unless another one was typed: its agents and rules are there. The task."""
    async with opened(args) as gen:
        found = await gen.find(name)
    if "cwd" not in args and not found.imported and is_here(found.cwd):
        args.cwd = found.cwd
    return found


def in_clone(gen: GenCode, task: Task) -> str:
    """What to tell about a task that goes on in this process, but not in its own folder."""
    here = str(gen.workspace.cwd)
    if task.imported or task.conversation or not task.cwd or here == task.cwd:
        return ""
    return (
        f"Task {task.id} goes on in {here}, a clone of the repository of its folder {task.cwd}: it may do "
        "what both allow, and nothing that is trusted there counts here."
    )


def events(args: argparse.Namespace) -> int:
    """The facts of a task, one per line; with --follow until it ends."""
    return run_to_end(_events(args))


async def _events(args: argparse.Namespace) -> int:
    after: int = getattr(args, "after", 0)
    async with opened(args) as gen:
        task = await gen.find(args.id)
        if "follow" in args:
            async with aloud(gen, task) as tell:
                async for event in gen.watch.events(task.id, after, tell):
                    _show(event, task.parent, as_json="json" in args)
            return 0
        found, problem = await gen.journal(task.id)
        for event in found:
            if (event.seq or 0) > after:
                _show(event, task.parent, as_json="json" in args)
    if problem:
        note(f"{problem} Nothing after it is shown.")
    return 1 if problem else 0


def _show(event: Event, parent: str | None, *, as_json: bool) -> None:
    if as_json:
        answer_raw(wire_line(event, parent))
    else:
        told = wire(event, parent)
        answer(f"{event.seq:>5}  {event.at[11:23]}  {told['type']:23}  {_brief(told)}".rstrip())


def _brief(told: dict[str, Any]) -> str:
    """What a fact says, in a line."""
    message = told.get("message", {})
    said = [call["name"] for call in message.get("calls", ())]
    said += [f"← {result['name']}" for result in message.get("results", ())]
    words = (
        *(told.get(name) for name in ("agentType", "description", "newStatus", "status", "tool", "error")),
        told.get("decision", {}).get("action"),
        message.get("role"),
        ", ".join(said),
        message.get("text"),
        told.get("model"),
    )
    return visible_line(" · ".join(str(word) for word in words if word), 160)


def tell_begun(outcome: Outcome, told: str, awaits: str = "", *, as_json: bool) -> int:
    """What is known of a task that goes on without this process: its id, and how to get at it."""
    if told:
        note(told)
    if as_json:
        answer_json(outcome)
        return 0
    answer(outcome.agent_id)
    if awaits:
        note(f"{_named(outcome)} waits for {awaits}.")
        note(f"Its result: gen task output {outcome.agent_id}")
    else:
        note(f"{_named(outcome)} runs on its own; wait for it with: gen task output {outcome.agent_id}")
    return 0


def tell_outcome(outcome: RunOutcome, code: int, servers: Sequence[ServerReport], *, as_json: bool) -> int:
    """What came of a task, and the exit code; `servers` are those of MCP at its end."""
    if not outcome.status.ended and not code:
        return tell_begun(outcome, "", as_json=as_json)
    if as_json:
        answer_json({**msgspec.to_builtins(outcome), "servers": servers} if servers else outcome)
        return code
    if not outcome.status.ended:
        note(
            f"{_named(outcome)} was told to stop and has not answered yet: gen task output {outcome.agent_id}"
        )
        return code
    if outcome.result and not sys.stdout.isatty():  # a terminal has seen it in its panel
        answer(outcome.result)
    if earlier := outcome.answered_from:
        note(f"It was answered from the journal: task {earlier}; nothing it rests on has changed.")
    tell_refused(outcome.refused or ())
    tell_ending(outcome)
    return code


def _named(outcome: Outcome) -> str:
    return f"Task {outcome.agent_id} of {outcome.agent}"
