"""`gen task run | list | show`: the life of tasks."""

import argparse
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial

from msgspec import UNSET

from gencode.agent.models import elsewhere
from gencode.app import GenCode
from gencode.core.ids import stamp
from gencode.core.outcome import Outcome, refusals, titled
from gencode.core.spec import TaskRequest
from gencode.core.text import visible_line
from gencode.interfaces.cli.foreground_run import follow, painter_for
from gencode.interfaces.cli.open_session import check, opened
from gencode.interfaces.cli.piped_input import whole_input
from gencode.interfaces.cli.queued_tasks import all_awaited, awaited, handing_over
from gencode.interfaces.cli.schema_file import schema
from gencode.interfaces.cli.silent_tasks import ways_out
from gencode.interfaces.cli.task_life import go_on, leaving, tell_begun, tell_outcome
from gencode.interfaces.cli.task_transcript import transcript_text
from gencode.interfaces.cli.terminal_questions import asker_for
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.plain_text import answer, answer_json, note, seconds, table, turns
from gencode.journal.store import TaskQuery

RECENT = timedelta(hours=24)


def run(args: argparse.Namespace) -> int:
    """Send one agent and print what it says."""
    typed: str = args.task
    prompt = whole_input("write the task after the agent's name") if typed == "-" else typed
    return run_to_end(_run(args, prompt))


async def _run(args: argparse.Namespace, prompt: str) -> int:
    request = TaskRequest(
        agent=args.subagent,
        prompt=prompt,
        description=getattr(args, "description", ""),
        model=getattr(args, "model", ""),
        max_turns=getattr(args, "max_turns", None),
        background="background" in args,
        resume=getattr(args, "resume", ""),
        here="cwd" in args,
        isolation=getattr(args, "isolation", ""),
        output_schema=schema(args),
    )
    if request.resume:
        return await go_on(args, request)
    output = "json" if "json" in args else "text"
    painter = painter_for(output, verbose="verbose" in args)
    async with opened(args, without=("max_turns",), asker=asker_for(output, painter)) as gen:
        apart = request.background or request.isolation == "process"
        with elsewhere(far=apart and gen.processes.far):
            told = check(gen, args)
        if request.background:  # it has a process of its own in any case
            outcome = await handing_over(gen, gen.detach(request))
            awaits = "" if output == "json" else await awaited(gen, outcome)
            return tell_begun(outcome, told, awaits, as_json=output == "json")
        start = partial(gen.start_task, request)
        outcome, code = await follow(gen, start, painter, told, leaving(gen))
        servers = gen.servers.reports()
    return tell_outcome(outcome, code, servers, as_json=output == "json")


def listed(args: argparse.Namespace) -> int:
    """The tasks, as a table, a tree or JSON."""
    return run_to_end(_listed(args))


async def _listed(args: argparse.Namespace) -> int:
    async with opened(args) as gen:
        tasks = await _wanted(gen, everything="all" in args, conversations="tree" in args)
        if "json" in args:
            answer_json({"tasks": tasks})
        elif not tasks:
            where = "" if "all" in args else " of this folder in the last 24 hours (--all shows every one)"
            answer(f"There are no tasks{where}.")
        else:
            rows = list(_tree(tasks)) if "tree" in args else [_row(task) for task in tasks]
            answer(table(("ID", "AGENT", "STATUS", "TURNS", "TIME", "CREATED", "TASK"), rows))
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
    return await gen.records.outcomes(await gen.store.tasks(query))


def _row(task: Outcome, depth: int = 0) -> list[str]:
    took = "" if task.duration_ms is None else seconds(task.duration_ms / 1000)
    name = f"{'  ' * depth}{task.agent}"
    created = task.created_at[:19].replace("T", " ")
    text = titled(task.description, task.prompt, task.forked_from)
    return [task.agent_id, name, _status(task), str(task.turns), took, created, text[:200]]


def _status(task: Outcome) -> str:
    more = [] if task.queue_position is UNSET else [f"{task.queue_position}. in line"]
    if task.stalled_seconds is not UNSET:
        more.append(f"stalled, silent for {task.stalled_seconds:.0f} s")
    if refused := len(task.evidence.refused):
        more.append(f"{refused} refused")
    return f"{task.status} ({', '.join(more)})" if more else task.status


def _tree(tasks: Sequence[Outcome]) -> Iterator[list[str]]:
    """Every task below the one that asked for it."""
    known = {task.agent_id for task in tasks}

    def branch(parent: str | None, depth: int) -> Iterator[list[str]]:
        for task in tasks:
            above = task.parent_id if task.parent_id in known else None
            if above == parent:
                yield _row(task, depth)
                yield from branch(task.agent_id, depth + 1)

    return branch(None, 0)


def show(args: argparse.Namespace) -> int:
    """One task with everything that was said."""
    return run_to_end(_show(args))


async def _show(args: argparse.Namespace) -> int:
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
    took = "" if task.duration_ms is None else f" in {seconds(task.duration_ms / 1000)}"
    yield f"{visible_line(task.agent)} {task.agent_id}: {_status(task)} after {turns(task.turns)}{took}"
    if task.parent_id:
        yield f"  asked for by  {task.parent_id}"
    if task.forked_from:
        yield f"  forked from   {task.forked_from}"
    if task.description:
        yield f"  description   {visible_line(task.description)}"
    if awaits:
        yield f"  waits for     {awaits}"
    for line in stalled:
        yield f"  stalled       {line}"
    yield f"  model         {visible_line(task.model)}"
    yield f"  folder        {visible_line(task.cwd)}"
    if task.imported_from:
        yield f"  imported from {visible_line(task.imported_from)}"
    yield f"  created       {task.created_at}"
    yield f"  tokens        {task.usage.tree.input_tokens} in, {task.usage.tree.output_tokens} out"
    if task.error:
        yield f"  error         {visible_line(task.error)}"
    for label, values in (
        ("files read", task.evidence.files_read),
        ("agents sent", task.evidence.children),
        ("refused", refusals(task.evidence)),
        ("warnings", task.evidence.warnings),
    ):
        for value in values:
            yield f"  {label:13} {visible_line(value)}"
