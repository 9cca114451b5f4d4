"""`gen task events|replay|export|import`: shows, replays, compares, exports and imports journals."""

import argparse
import os
from collections.abc import Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import to_builtins

from gencode.core.errors import CorruptFact, UserMistake
from gencode.core.events import Event, TaskCreated
from gencode.core.outcome import Outcome
from gencode.core.subsession_events import ALONE, Lineage, lineage_of, wire, wire_line
from gencode.core.text import exact_line, visible_line
from gencode.interfaces.cli.command_input import whole_input
from gencode.interfaces.cli.foreground_run import aloud, tell_ending
from gencode.interfaces.cli.open_session import opened
from gencode.interfaces.cli.parser import Commands, add, add_about_task, whole
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.number_format import counted
from gencode.interfaces.render.plain_text import (
    StepRenderer,
    answer,
    answer_json,
    answer_raw,
    has_terminal,
    note,
    print_record,
)
from gencode.tasks.history import Comparison, Pair

LARGEST_FILE = 200_000_000


def add_events(tasks: Commands) -> None:
    """`gen task events`."""
    parser = add_about_task(
        tasks, "events", events, "print the events of a task, one per line", "--follow", "--after 12 --json"
    )
    parser.add_argument("--follow", action="store_true", help="keep printing until the task has ended")
    parser.add_argument("--after", type=whole, metavar="SEQ", help="only events after this number")


def add_replay_and_files(tasks: Commands) -> None:
    """`gen task replay|export|import`."""
    again = add_about_task(
        tasks, "replay", replayed, "replay a task from its journal, without a model", "", "--against 1c2e"
    )
    again.add_argument("--against", metavar="ID", help="show where another run differs from it")
    does, piped = "write the journal of a task as JSONL", "- | gzip > task.jsonl.gz"
    writing = add_about_task(tasks, "export", exported, does, "task.jsonl", piped)
    writing.add_argument("file", metavar="FILE", help="the file to write; - is stdout")
    reading = add(tasks, "import", imported, "read a task from a JSONL file", ("gen task import task.jsonl",))
    reading.add_argument("file", metavar="FILE", help="the file to read; - is stdin")


def replayed(args: argparse.Namespace) -> Coroutine[Any, Any, int]:
    """Replay a task and all its descendants, and check that this gives the stored state."""
    return _compared(args) if "against" in args else _replayed(args)


async def _compared(args: argparse.Namespace) -> int:
    """Show where two runs went apart, with all below them; 0 when they did not."""
    async with opened(args) as gen:
        one, other = [await gen.find(task) for task in (args.id, args.against)]
        found = await gen.difference(one.id, other.id)
    record = {"one": one.id, "other": other.id, "same": found.same, **to_builtins(found)}
    text = "\n".join(_comparison_lines(one.id, other.id, found))
    print_record(args, record, text)
    return 0 if found.same else 1


def _comparison_lines(one: str, other: str, found: Comparison) -> Iterator[str]:
    yield f"{one} and {other} have {counted(found.same_steps, 'step')} in common."
    yield from _difference_lines(found)
    for pair in found.below:
        if pair.one is None or pair.other is None:
            yield f"only {one if pair.one else other} started the subagent {pair.one or pair.other}:"
        elif not pair.same:
            yield f"subagents {pair.one} and {pair.other} have {counted(pair.same_steps, 'step')} in common."
        yield from _difference_lines(pair)
    if found.below:
        same = sum(pair.same for pair in found.below)
        yield f"{same} of {len(found.below)} subagents took the same steps in both."


def _difference_lines(found: Comparison | Pair) -> Iterator[str]:
    for name, left, right in found.facts:
        yield f"{name}:"
        yield f"  - {exact_line(left)}"
        yield f"  + {exact_line(right)}"
    for difference in found.differences:
        yield f"at step {difference.step}:"
        yield from (f"  - {exact_line(line)}" for line in difference.one)
        yield from (f"  + {exact_line(line)}" for line in difference.other)


async def _replayed(args: argparse.Namespace) -> int:
    async with opened(args) as gen:
        found = await gen.replay(args.id)
        for problem in found.problems:
            note(f"{problem} The events after it are not replayed.")
        if "json" in args:
            lineages = {
                each.task: lineage_of(each.fact)
                for each in found.events
                if isinstance(each.fact, TaskCreated)
            }
            lines = [wire(event, lineages.get(event.task, ALONE)) for event in found.events]
            answer_json({"task": found.task, "events": lines, "same": found.same})
        else:
            _play(found.events, found.task)
            _tell(len(found.events), len({each.task for each in found.events}), found.different)
        return 0 if found.same else 1


def _play(events: Sequence[Event], outcome: Outcome) -> None:
    """Show the events as they were shown when they happened."""
    if has_terminal():
        from gencode.interfaces.render.rich_panels import RichRenderer

        renderer = RichRenderer(live=False)
    else:
        renderer = StepRenderer()
    for event in events:
        renderer.hear(event)
    renderer.close()
    answer(outcome.result)
    tell_ending(outcome)


def _tell(events: int, tasks: int, different: Sequence[str]) -> None:
    if different:
        note(f"The replay does not match the stored state of {', '.join(different)}.")
    else:
        replayed = f"Replayed {counted(events, 'event')} of {counted(tasks, 'task')}"
        note(f"{replayed}: replay matches the journal.")


def exported(args: argparse.Namespace) -> int:
    """Write the journal of one task."""
    text = run_to_end(_exported(args))
    if args.file == "-":
        answer_raw(text)
        return 0
    path = Path(args.file).expanduser()
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise UserMistake(f"Cannot write {path}: {error.strerror}.") from None
    record = {"file": str(path), "lines": text.count("\n")}
    told = f"Wrote {path}. Import it with: gen task import {path}"
    print_record(args, record, told)
    return 0


async def _exported(args: argparse.Namespace) -> str:
    async with opened(args) as gen:
        try:
            return await gen.export(args.id)
        except CorruptFact as corrupt:
            raise CorruptFact(
                f"{corrupt} Nothing was exported. Show the events before it with: gen task show {args.id}"
            ) from None


def imported(args: argparse.Namespace) -> Coroutine[Any, Any, int]:
    """Read the journal of one task into the database."""
    text = whole_input("name a file to import") if args.file == "-" else _read(Path(args.file).expanduser())
    return _imported(args, text)


async def _imported(args: argparse.Namespace, text: str) -> int:
    async with opened(args) as gen:
        imported = await gen.take_in(text)
    task, warnings = imported.outcome, imported.problems
    for warning in warnings:
        note(warning)
    text = f"Imported task {task.agent_id}. Show it with: gen task show {task.agent_id}"
    print_record(args, {"task": task, "warnings": warnings}, text)
    return 0


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_size > LARGEST_FILE:
                raise UserMistake(f"{path} is larger than {LARGEST_FILE:,} bytes, the maximum for one task.")
            return file.read().decode("utf-8")
    except OSError as error:
        raise UserMistake(f"Cannot read {path}: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise UserMistake(f"{path} is not an exported task: it is not UTF-8 text.") from None


async def events(args: argparse.Namespace) -> int:
    """The facts of a task, one per line; with --follow until it ends."""
    after: int = getattr(args, "after", 0)
    async with opened(args) as gen:
        task = await gen.find(args.id)
        if "follow" in args:
            async with aloud(gen, task) as tell:
                async for event in gen.history.follow(task.id, after, tell):
                    _print_event(event, lineage_of(task), as_json="json" in args)
            return 0
        journal = await gen.journal(task.id, after)
        for event in journal.events:
            _print_event(event, lineage_of(task), as_json="json" in args)
    if journal.problem:
        note(f"{journal.problem} The events after it are not shown.")
    return 1 if journal.problem else 0


def _print_event(event: Event, of: Lineage, *, as_json: bool) -> None:
    if as_json:
        answer_raw(wire_line(event, of))
    else:
        told = wire(event, of)
        answer(f"{event.seq:>5}  {event.at[11:23]}  {told['type']:23}  {_event_summary(told)}".rstrip())


def _event_summary(told: dict[str, Any]) -> str:
    """One event as a line."""
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
        ", ".join(each["path"] for each in told.get("files", ())),
        f"back to before event {told['to']}" if "to" in told else "",
    )
    return visible_line(" · ".join(str(word) for word in words if word), 160)
