"""`gen task …`: runs, lists, shows, stops, resumes and forks tasks, from any process."""

import argparse
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain
from typing import Any

import msgspec
from msgspec import UNSET

from gencode.agent.models import elsewhere
from gencode.agent.ports import StopAction
from gencode.app import REPORT_SECONDS, GenCode, MessageKept, ServerReport
from gencode.core.changes import listed as listed_files
from gencode.core.errors import UserMistake
from gencode.core.ids import moment, stamp
from gencode.core.outcome import Outcome, RunOutcome, page_of, refusals, titled
from gencode.core.spec import TaskRequest
from gencode.core.status import Status
from gencode.core.structs import replace
from gencode.core.task import Task
from gencode.core.text import visible_line
from gencode.interfaces.chat.notices import full_task_list
from gencode.interfaces.chat.task_controls import (
    INTERRUPTED,
    STOPPED,
    InterruptedTask,
    StoppedTask,
    budget_usage_page,
    changed_budget,
    widened,
)
from gencode.interfaces.cli import task_journal, task_questions
from gencode.interfaces.cli.claude_code_options import add_agents
from gencode.interfaces.cli.command_input import schema, text_or_input
from gencode.interfaces.cli.foreground_run import (
    RunRenderer,
    all_awaited,
    aloud,
    awaited,
    follow,
    handing_over,
    refused_of,
    renderer_for,
    tell_ending,
    tell_refused,
    tell_work,
    ways_out,
)
from gencode.interfaces.cli.open_session import check, not_trusted, opened
from gencode.interfaces.cli.parser import (
    USUAL_LIMIT,
    Commands,
    add,
    add_about_task,
    add_group,
    add_limit,
    add_model,
    add_policy,
    add_schema,
    count,
    whole,
)
from gencode.interfaces.cli.terminal_questions import asker_for, somebody_is_there
from gencode.interfaces.render.number_format import counted, local_time, local_zone, ordinal, seconds, turns
from gencode.interfaces.render.plain_text import (
    answer,
    answer_json,
    newest,
    note,
    print_record,
    table,
)
from gencode.interfaces.render.transcript import transcript_text
from gencode.journal.store import TaskQuery
from gencode.tasks.control import SENT_BACK, STOP_SECONDS, MessageState
from gencode.tasks.fork import Fork
from gencode.tasks.handle import ActionResult
from gencode.tasks.resume import is_here
from gencode.tasks.running_task import RunningTask
from gencode.workspaces.transfer.apply_changes import describe_result

RECENT = timedelta(hours=24)
USUAL_MS = 30_000
LONGEST_MS = 600_000
GO_ON = "Continue where you stopped."


EXAMPLES = (
    'gen task run Explore "Where is the configuration read?" --max-turns 5',
    'gen task run Explore "Map the whole repository" --background',
    "gen task output 9f3a",
    "gen task events 9f3a --follow",
    'gen task send 9f3a "Leave the tests out"',
    "gen task stop 9f3a --keep",
    'gen task resume 9f3a "And where is it tested?"',
    'gen task fork 9f3a --at 12 "Look into the other module instead"',
    "gen task list --all --json",
    "gen task replay 9f3a",
    "gen task export 9f3a1c2e - | gzip > task.jsonl.gz",
)


def add_command(commands: Commands, does: str) -> None:
    """`gen task …`, in the order of the help."""
    tasks = add_group(commands, "task", does, EXAMPLES)
    _add_run(tasks)
    _add_list(tasks)
    add_about_task(tasks, "show", show, "show a task with its transcript and permission decisions")
    _add_output(tasks)
    _add_stop(tasks)
    _add_send(tasks)
    _add_resume(tasks)
    _add_fork(tasks)
    _add_budget(tasks)
    task_questions.add_commands(tasks)
    add_about_task(tasks, "background", background, "move a task to the background; its parent continues")
    task_journal.add_events(tasks)
    taking = add_about_task(
        tasks, "merge", merge, "apply what a task changed on another machine", "", "--preview"
    )
    taking.add_argument("--preview", action="store_true", help="only show what would change")
    task_journal.add_replay_and_files(tasks)


def _add_run(tasks: Commands) -> None:
    parser = add(
        tasks,
        "run",
        run,
        "run one subagent, without a main conversation",
        (
            'gen task run Explore "Where is the configuration read?"',
            'gen task run Plan "Plan the migration" --max-turns 20 --json',
            'gen task run general-purpose "Fix the typo in README.md" --permission-mode acceptEdits',
        ),
    )
    parser.add_argument("subagent", metavar="AGENT", help="the agent, for example Explore")
    _add_work(parser, "the whole task; - reads it from stdin")
    parser.add_argument("--description", metavar="TEXT", help="the task in three to five words")
    parser.add_argument("--resume", metavar="ID", help="resume this task of the agent")
    parser.add_argument(
        "--isolation", choices=("process", "worktree"), help="run it in its own process or git worktree"
    )
    add_agents(parser)


def _add_work(parser: argparse.ArgumentParser, prompt: str) -> None:
    """What every command takes that lets an agent work."""
    parser.add_argument("task", metavar="PROMPT", help=prompt)
    parser.add_argument(
        "--background", action="store_true", help="print its id and return; it keeps running without you"
    )
    add_schema(parser)
    add_model(parser)
    add_policy(parser)


def _add_list(tasks: Commands) -> None:
    parser = add(
        tasks,
        "list",
        listed,
        "list the tasks of this folder that are unfinished or ended in the last 24 hours",
        ("gen task list", "gen task list --all --tree"),
    )
    parser.add_argument("--all", action="store_true", help="all tasks, of all folders")
    parser.add_argument("--tree", action="store_true", help="show them below their parents and conversations")
    add_limit(parser)


def _add_output(tasks: Commands) -> None:
    parser = add_about_task(
        tasks, "output", output, "print the result of a task once it has ended", "", "--no-block --page 2"
    )
    parser.add_argument("--no-block", action="store_true", help="do not wait for the end")
    parser.add_argument(
        "--timeout", type=whole, metavar="MS", help="wait this long (default 30000, at most 600000)"
    )
    parser.add_argument("--page", type=count, metavar="N", help="one page of a long result")


def _add_stop(tasks: Commands) -> None:
    parser = add_about_task(
        tasks,
        "stop",
        stop,
        "stop a task and the subagents it waits for; its replies are kept",
        "",
        "--tree --keep",
    )
    parser.add_argument("--tree", action="store_true", help="also stop its background tasks")
    parser.add_argument("--keep", action="store_true", help="let it report in one last turn what it found")
    does = "interrupt what a task is doing; it continues with its next turn"
    parser = add_about_task(tasks, "interrupt", interrupt, does, '--message "Leave the tests out"')
    parser.add_argument("--message", metavar="TEXT", help="a message for it to continue with")


def _add_send(tasks: Commands) -> None:
    does = "send a message to a task; one that has ended is resumed"
    parser = add_about_task(tasks, "send", send, does, '"Look at the tests as well"')
    parser.add_argument("text", metavar="TEXT", help="the message; - reads it from stdin")


def _add_resume(tasks: Commands) -> None:
    does = "resume a task with the same agent, folder and permissions"
    parser = add_about_task(tasks, "resume", resume, does, '"And where is it tested?"')
    _add_work(parser, "what to do now; - reads it from stdin")


def _add_fork(tasks: Commands) -> None:
    does = "start a new task from the transcript of another one"
    parser = add_about_task(tasks, "fork", fork, does, '--at 12 "Look into the other module instead"')
    _add_work(parser, "what to do now; - reads it from stdin")
    parser.add_argument(
        "--at", type=whole, metavar="SEQ", help="copy up to this event of gen task events (default: the last)"
    )
    parser.add_argument("--description", metavar="TEXT", help="the task in three to five words")
    parser.add_argument("--isolation", choices=("worktree",), help="run it in its own git worktree")
    parser.add_argument(
        "--budget",
        nargs=2,
        action="append",
        metavar=("KIND", "AMOUNT"),
        help="limit only the fork, as gen task budget does; AMOUNT none removes a limit of the original; may "
        "be repeated (--max-tokens-total, --max-usd and --max-spawns limit the whole run)",
    )


def _add_budget(tasks: Commands) -> None:
    parser = add_about_task(
        tasks, "budget", budget, "show or set the budget of a task", "", "tokens 60000", "none"
    )
    parser.add_argument(
        "amounts",
        nargs="*",
        metavar="KIND AMOUNT",
        help="turns, tokens, usd, seconds or spawns, and the new limit or none; only none removes all limits",
    )


def run(args: argparse.Namespace) -> Coroutine[Any, Any, int]:
    """Run one subagent and print its report."""
    prompt = text_or_input(args.task, "write the prompt after the agent's name")
    request = _request(args, prompt, agent=args.subagent, resume=getattr(args, "resume", ""))
    return _resumed(args, request) if request.resume else _run(args, request)


def _request(args: argparse.Namespace, prompt: str, *, agent: str = "", resume: str = "") -> TaskRequest:
    return TaskRequest(
        agent=agent,
        prompt=prompt,
        description=getattr(args, "description", ""),
        model=getattr(args, "model", ""),
        max_turns=getattr(args, "max_turns", None),
        background="background" in args,
        resume=resume,
        here="cwd" in args,
        isolation=getattr(args, "isolation", ""),
        output_schema=schema(args),
    )


async def _run(args: argparse.Namespace, request: TaskRequest) -> int:
    async with _working(args) as (gen, renderer):
        apart = request.background or request.isolation == "process"
        with elsewhere(far=apart and gen.uses_workers):
            told = check(gen, args)
        if "json" not in args and somebody_is_there():
            offer_mode(gen, request.agent)
        if request.background:  # it has a process of its own in any case
            return await _begun(args, gen, await handing_over(gen, gen.detach(request)), told)
        return await _followed(args, gen, renderer, partial(gen.start_task, request), told)


@asynccontextmanager
async def _working(args: argparse.Namespace) -> AsyncGenerator[tuple[GenCode, RunRenderer], None]:
    """GenCode for a command that lets an agent work, and what shows the work here."""
    output = "json" if "json" in args else "text"
    renderer = renderer_for(output, verbose="verbose" in args)
    async with opened(args, without=("max_turns",), asker=asker_for(output, renderer)) as gen:
        yield gen, renderer


async def _followed(
    args: argparse.Namespace,
    gen: GenCode,
    renderer: RunRenderer,
    start: Callable[[], Awaitable[RunningTask]],
    told: str,
) -> int:
    """Start a task here, and print its report."""

    async def begin() -> RunningTask:
        job = await start()
        if job.folder_notice:
            note(f"Task {job.id}: {job.folder_notice}")
        return job

    outcome, code = await follow(gen, begin, renderer, told, leaving(gen))
    return tell_outcome(outcome, code, gen.mcp_servers.reports(), as_json="json" in args)


async def _begun(args: argparse.Namespace, gen: GenCode, outcome: Outcome, *told: str) -> int:
    """Print the id of a task that was handed over to a process of its own."""
    awaits = "" if "json" in args else await awaited(gen, outcome)
    return tell_begun(outcome, "\n".join(filter(None, told)), awaits, as_json="json" in args)


def offer_mode(gen: GenCode, agent: str) -> None:
    """Ask the person at the terminal whether an agent may have the mode of its file, if that is wider."""
    if words := gen.wider_mode(agent):
        note(f"{words[:1].upper()}{words[1:]}. Approve? [y/N]")
        if sys.stdin.readline().strip().casefold() in ("y", "yes"):
            gen.grant_mode(agent)


async def listed(args: argparse.Namespace) -> int:
    """The tasks, as a table, a tree or JSON."""
    async with opened(args) as gen:
        tasks = await _wanted(gen, everything="all" in args, conversations="tree" in args)
        if "json" in args:
            answer_json({"tasks": tasks[-args.limit :] if "limit" in args else tasks})
        elif not tasks:
            where = "" if "all" in args else " in this folder from the last 24 hours (--all lists all)"
            answer(f"There are no tasks{where}.")
        else:
            rows = list(_tree(tasks)) if "tree" in args else [_row(task) for task in reversed(tasks)]
            created = f"CREATED ({local_zone()})"
            head = ("ID", "AGENT", "STATUS", "TURNS", "TIME", created, "TASK")
            shown = newest(rows, getattr(args, "limit", USUAL_LIMIT))
            answer(table(head, shown, spare=("TURNS", "TIME", created)))
            for line in (*await all_awaited(gen, tasks), *await ways_out(gen, tasks)):
                note(line)
    return 0


async def _wanted(gen: GenCode, *, everything: bool, conversations: bool) -> list[Outcome]:
    query = TaskQuery(conversations=None if conversations else False)
    if not everything:
        since = stamp(datetime.now(UTC) - RECENT)
        query = TaskQuery(
            cwd=str(gen.workspace.cwd), ended_after=since, conversations=None if conversations else False
        )
    return await gen.history.outcomes(await gen.history.tasks(query))


def _row(task: Outcome, depth: int = 0) -> list[str]:
    name = f"{'  ' * depth}{task.agent}"
    text = titled(task.description, task.prompt, task.forked_from)
    created = local_time(task.created_at)
    return [task.agent_id, name, _status(task), str(task.turns), _time(task), created, text[:200]]


def _time(task: Outcome) -> str:
    """How long a task took, or has been running so far."""
    if task.duration_ms is not None:
        return seconds(task.duration_ms / 1000)
    if task.status.ended or task.started_at is None:
        return ""
    return seconds(max((datetime.now(UTC) - moment(task.started_at)).total_seconds(), 0.0))


def _status(task: Outcome) -> str:
    more = [] if task.queue_position is UNSET else [f"{ordinal(task.queue_position)} in the queue"]
    if task.stalled_seconds is not UNSET:
        more.append(f"stalled, no activity for {task.stalled_seconds:.0f} s")
    if refused := len(task.evidence.refused):
        more.append(f"{refused} refused")
    return f"{task.status} ({', '.join(more)})" if more else task.status


def _tree(tasks: Sequence[Outcome]) -> Iterator[list[str]]:
    """Every task below the one that asked for it; the newest of those that no task asked for first."""
    known = {task.agent_id for task in tasks}

    def branch(parent: str | None, depth: int) -> Iterator[list[str]]:
        for task in tasks if depth else reversed(tasks):
            above = task.parent_id if task.parent_id in known else None
            if above == parent:
                yield _row(task, depth)
                yield from branch(task.agent_id, depth + 1)

    return branch(None, 0)


async def show(args: argparse.Namespace) -> int:
    """One task with its transcript."""
    async with opened(args) as gen:
        task = await gen.show(args.id)
        if "json" in args:
            answer_json(task)
            return 0
        awaits = await awaited(gen, task)
        facts = _facts(task, awaits, await ways_out(gen, [task]))
        answer("\n".join((*facts, "", await transcript_text(gen, task.agent_id))))
    return 0


def _facts(task: Outcome, awaits: str, stalled: Sequence[str]) -> Iterator[str]:
    took = f" in {time}" if (time := _time(task)) else ""
    yield f"{visible_line(task.agent)} {task.agent_id}: {_status(task)} after {turns(task.turns)}{took}"
    if task.parent_id:
        yield f"  parent        {task.parent_id}"
    if task.forked_from:
        yield f"  forked from   {task.forked_from}"
    if task.description:
        yield f"  description   {visible_line(task.description)}"
    if awaits:
        yield f"  waiting for   {awaits}"
    for line in stalled:
        yield f"  stalled       {line}"
    yield f"  model         {visible_line(task.model)}"
    yield f"  folder        {visible_line(task.cwd)}"
    if task.imported_from:
        yield f"  imported from {visible_line(task.imported_from)}"
    yield f"  created       {local_time(task.created_at)} {local_zone()}"
    yield f"  tokens        {task.usage.tree.input_tokens} in, {task.usage.tree.output_tokens} out"
    if task.error:
        yield f"  error         {visible_line(task.error)}"
    for label, values in (
        ("files read", task.evidence.files_read),
        ("subagents", task.evidence.children),
        ("refused", refusals(task.evidence)),
        ("warnings", task.evidence.warnings),
    ):
        for value in values:
            yield f"  {label:13} {visible_line(value)}"


async def output(args: argparse.Namespace) -> int:
    """The result of a task, once it has ended or the time is up."""
    wanted: int = getattr(args, "timeout", USUAL_MS)
    if wanted > LONGEST_MS:
        note(f"The timeout was reduced to {LONGEST_MS} ms, the maximum.")
    seconds = 0.0 if "no_block" in args else min(wanted, LONGEST_MS) / 1000
    async with opened(args) as gen:
        found = await gen.find(args.id)
        async with aloud(gen, found) as tell:
            found = await gen.history.ended(found.id, seconds, tell)
        outcome = await gen.history.outcome(found)
        waits = found.status is Status.PENDING
        if found.created.worktree and not waits:
            outcome = replace(outcome, result=await gen.history.result(found))
        awaits = await awaited(gen, outcome, 0.0)
    if "page" in args:
        outcome = replace(outcome, result=page_of(outcome.result, args.page))
    if "json" in args:
        answer_json(outcome)
        return 0
    if outcome.result:
        answer(outcome.result)
    tell_work(outcome)
    tell_refused(refused_of(outcome))
    if outcome.status.ended:
        tell_ending(outcome)
    elif awaits:
        note(f"{_named(outcome)} has not started; it is waiting for {awaits}.")
    elif waits:
        place = f" ({ordinal(outcome.queue_position)})" if outcome.queue_position else ""
        note(f"{_named(outcome)} is waiting in the queue{place}.")
    else:
        said = "this is its last reply" if outcome.result else "it has not replied yet"
        note(f"{_named(outcome)} is still running after {turns(outcome.turns)}; {said}.")
    return 0


async def stop(args: argparse.Namespace) -> int:
    """Stop a task, and say which tasks that affected."""
    async with opened(args) as gen:
        found = await gen.find(args.id)
        verb: StopAction = "tree" if "tree" in args else "keep" if "keep" in args else "stop"
        await announce(gen, found.id, verb, "stops")
        if "keep" in args and not found.status.ended:
            most = REPORT_SECONDS + STOP_SECONDS
            note(f"Waiting up to {most:.0f} s for the last report of task {found.id}.")
        result = await gen.stop(found.id, keep="keep" in args, tree="tree" in args, why=STOPPED)
    if "json" in args:
        answer_json(widened(StoppedTask, result, stopped=tuple(each.agent_id for each in result.affected)))
    else:
        _tell_stop(result)
    if result.affected and not result.status.ended:
        why = "its process did not answer, or somebody resumed it"
        again = f"gen task stop {result.agent_id}"
        note(f"{_named(result)} is still {result.status}: {why}. Try again: {again}")
    return 0 if result.status.ended else 1


async def announce(gen: GenCode, task: str, verb: StopAction, does: str) -> None:
    """Say which tasks an action will affect, before it does."""
    if affected := await gen.affected(task, verb):
        note(f"This {does} {counted(len(affected), 'task')}: {full_task_list(affected)}.")


def _tell_stop(result: ActionResult) -> None:
    if not result.affected:
        now = f"has already finished ({result.status})" if result.status.ended else "does not answer"
        answer(f"Nothing to stop: {_named(result)} {now}.")
    for each in result.affected:
        answer(f"{_named(each)} was stopped after {turns(each.turns)} and is now {each.status}.")
    if result.result and result.agent_id in [each.agent_id for each in result.affected]:
        note(f"Its result so far: gen task output {result.agent_id}")


async def background(args: argparse.Namespace) -> int:
    """Move a task to the background: its parent continues without it."""
    async with opened(args) as gen:
        outcome = await gen.send_to_background(args.id)
    ended = outcome.status.ended
    where = f"has already finished ({outcome.status})" if ended else "is running in the background now"
    print_record(args, outcome, f"{_named(outcome)} {where}.")
    return 0


def resume(args: argparse.Namespace) -> Coroutine[Any, Any, int]:
    """Resume a task and print its report."""
    prompt = text_or_input(args.task, "write the prompt after the id")
    return _resumed(args, _request(args, prompt, resume=args.id))


async def _resumed(args: argparse.Namespace, request: TaskRequest) -> int:
    """Resume the task that a request names, in its own folder; outcome and exit code as for a new one."""
    task = await move(args, request.resume)
    if request.agent and request.agent.casefold() != task.agent.casefold():
        raise UserMistake(f"Task {task.id} is a task of {task.agent}, not of {request.agent}.")
    async with _working(args) as (gen, renderer):
        told = check(gen, args) if "no_offline" in args else not_trusted(gen)
        if request.background:
            return await _begun(args, gen, await handing_over(gen, gen.detach(request)), told)
        told = "\n".join(filter(None, (told, in_clone(gen, task))))
        start = partial(gen.start_resume, request.resume, request)
        return await _followed(args, gen, renderer, start, told)


def leaving(gen: GenCode) -> Callable[[RunningTask], Awaitable[Outcome]]:
    """How a task of this terminal moves to the background: this process ends, the task goes on."""

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
    """The notice about a task that is resumed in this process, but not in its own folder."""
    here = str(gen.workspace.cwd)
    if task.imported or task.conversation or not task.cwd or here == task.cwd:
        return ""
    return (
        f"Task {task.id} resumes in {here}, a clone of the repository of its folder {task.cwd}. It may "
        "only do what both folders allow, and trust in that folder does not apply here."
    )


async def merge(args: argparse.Namespace) -> int:
    """Take over what a task changed on another machine; 1 when it is offered as a branch instead."""
    preview = "preview" in args
    async with opened(args) as gen:
        merged = await gen.merge(args.id, preview=preview, here="cwd" in args)
    if merged.notice:
        note(merged.notice)
    result = merged.result
    lines = [*listed_files(result.files, result.more_files), merged.left_behind, *describe_result(result)]
    lines += [result.diff.rstrip()] if preview else []
    print_record(args, result, "\n".join(filter(None, lines)))
    return 0 if result.state in ("applied", "there", "fits") else 1


def tell_begun(outcome: Outcome, told: str, awaits: str = "", *, as_json: bool) -> int:
    """Print the id of a task that runs without this process, and the commands for it."""
    if told:
        note(told)
    if as_json:
        answer_json(outcome)
        return 0
    answer(outcome.agent_id)
    if awaits:
        note(f"{_named(outcome)} is waiting for {awaits}.")
        note(f"Show its result with: gen task output {outcome.agent_id}")
    else:
        note(f"{_named(outcome)} runs in the background. Its result: gen task output {outcome.agent_id}")
    return 0


def tell_outcome(outcome: RunOutcome, code: int, servers: Sequence[ServerReport], *, as_json: bool) -> int:
    """Print the outcome of a task, and return the exit code; `servers` are those of MCP at its end."""
    if not outcome.status.ended and not code:
        return tell_begun(outcome, "", as_json=as_json)
    if as_json:
        answer_json({**msgspec.to_builtins(outcome), "servers": servers} if servers else outcome)
        return code
    if not outcome.status.ended:
        note(f"{_named(outcome)} is stopping. Check it with: gen task output {outcome.agent_id}")
        return code
    if outcome.result and not sys.stdout.isatty():  # a terminal has seen it in its panel
        answer(outcome.result)
    if earlier := outcome.answered_from:
        note(f"This is the cached result of task {earlier}; nothing it depends on has changed.")
    tell_refused(outcome.refused or ())
    tell_ending(outcome)
    return code


def _named(outcome: Outcome) -> str:
    return f"Task {outcome.agent_id} of {outcome.agent}"


def send(args: argparse.Namespace) -> Coroutine[Any, Any, int]:
    """Send a message to a task, and print what became of it."""
    return _send(args, text_or_input(args.text, "write the message after the id"))


async def _send(args: argparse.Namespace, text: str) -> int:
    async with opened(args) as gen:
        found = await gen.history.current((await gen.find(args.id)).id)
        ended = found.status.ended and not found.conversation
        does = f"has finished ({found.status})" if ended else f"is {found.status}"
        note(f"Sending to task {found.id} of {visible_line(found.agent)}, which {does}.")
        kept, behind = "", await gen.workers.behind(found) if gen.workers else ""
        try:
            sent = await handing_over(gen, gen.send(found.id, text))
            outcome, woken = sent.outcome, sent.resumed
        except MessageKept as refused:
            outcome, woken, kept = await gen.get(found.id), False, str(refused)
    if "json" in args:
        answer_json({**msgspec.to_builtins(outcome), "woken": woken})
    if woken and behind:
        note(f"Note: {behind}.")
    if kept:
        note(f"{kept} It reads the message when you resume it: gen task resume {outcome.agent_id}")
        return 1
    if "json" in args:
        return 0
    if woken:
        answer(f"Resumed {_named(outcome)} with your message. Its result: gen task output {outcome.agent_id}")
    elif outcome.status.ended:
        answer(f"{_named(outcome)} reads your message on resume: gen -p --session {outcome.agent_id}")
    else:
        answer(f"{_named(outcome)} reads your message before its next reply.")
    return 0


async def interrupt(args: argparse.Namespace) -> int:
    """Interrupt a task, and say which tasks that affected."""
    async with opened(args) as gen:
        found = await gen.find(args.id)
        await announce(gen, found.id, "interrupt", "interrupts")
        message: str = getattr(args, "message", "")
        result = await gen.interrupt(found.id, message, why=INTERRUPTED)
    if "json" in args:
        answer_json(
            widened(InterruptedTask, result, interrupted=tuple(each.agent_id for each in result.affected))
        )
    elif not result.affected:
        ended = (
            f"has already finished ({result.status})" if result.status.ended else "is waiting in the queue"
        )
        answer(f"Nothing to interrupt: {_named(result)} {ended}.")
    else:
        after = "its turn has ended" if found.conversation else "it continues with its next turn"
        waited = full_task_list(result.affected[1:])
        also = f" Also stopped: {waited}." if waited else ""
        answer(f"Interrupted {_named(result)}; {after}.{also}")
    match result.message:
        case MessageState.KEPT:
            way = f"gen -p --session {found.id}" if found.conversation else f"gen task resume {found.id}"
            note(f"Your message is kept; it is read on resume: {way}")
        case MessageState.WAITING if not result.affected:
            note("It reads your message when it starts.")
        case MessageState.NOT_SENT:
            note(f"Your message was not sent. To send it: gen task send {found.id}")
        case _:
            pass
    return 0


def fork(args: argparse.Namespace) -> Coroutine[Any, Any, int]:
    """Start a fork of a task and print its report."""
    return _fork(args, text_or_input(args.task, "write the prompt after the id"))


async def _fork(args: argparse.Namespace, prompt: str) -> int:
    request = replace(_request(args, prompt), background=False)
    source = await move(args, args.id)
    amounts: list[list[str]] = getattr(args, "budget", [])
    budget = changed_budget(source.terms.budget, [*chain.from_iterable(amounts)])
    async with _working(args) as (gen, renderer):
        told = check(gen, args) if "no_offline" in args else ""
        point = Fork(getattr(args, "at", None), budget)
        if "background" in args:
            task, begins = await handing_over(gen, gen.detach_fork(args.id, point, request))
            return await _begun(args, gen, await gen.get(task), told, begins)
        told = "\n".join(filter(None, (told, in_clone(gen, source))))
        start = partial(gen.start_fork, args.id, point, request)
        return await _followed(args, gen, renderer, start, told)


async def budget(args: argparse.Namespace) -> int:
    """Set the budget of a task if one is named, and say what it may spend."""
    async with opened(args) as gen:
        found = await gen.find(args.id)
        now, words = await gen.budgets.of_task(found), getattr(args, "amounts", [])
        if words:
            now = await gen.set_budget(found.id, changed_budget(now, words))
        spent = await gen.history.spent(found.id)
    values = msgspec.to_builtins({"budget": now, "spent": spent})
    record = {"agentId": found.id, "agent": found.agent, **values}
    named = f"Task {found.id} of {visible_line(found.agent)}"
    text = f"{named} and its subagents:\n{budget_usage_page(now, spent)}"
    print_record(args, record, text)
    return 0
