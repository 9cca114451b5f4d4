"""`gen task replay|export|import`: replays, compares, exports and imports the journal of a task."""

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec import to_builtins

from gencode.core.errors import CorruptFact, UserMistake
from gencode.core.events import Event, TaskCreated
from gencode.core.outcome import Outcome
from gencode.core.subsession_events import wire
from gencode.core.text import exact_line
from gencode.interfaces.cli.command_input import whole_input
from gencode.interfaces.cli.foreground_run import tell_ending
from gencode.interfaces.cli.open_session import opened
from gencode.interfaces.event_loop_runner import run_to_end
from gencode.interfaces.render.number_format import counted
from gencode.interfaces.render.plain_text import (
    StepRenderer,
    answer,
    answer_json,
    answer_raw,
    has_terminal,
    note,
)
from gencode.tasks.history import Comparison, Pair

LARGEST_FILE = 200_000_000


def replayed(args: argparse.Namespace) -> int:
    """Play a task and everything below it again, and check that the journal tells the stored state."""
    return run_to_end(_compared(args) if "against" in args else _replayed(args))


async def _compared(args: argparse.Namespace) -> int:
    """Show where two runs went apart, with all below them; 0 when they did not."""
    async with opened(args) as gen:
        one, other = [await gen.find(task) for task in (args.id, args.against)]
        found = await gen.difference(one.id, other.id)
    if "json" in args:
        answer_json({"one": one.id, "other": other.id, "same": found.same, **to_builtins(found)})
    else:
        answer("\n".join(_comparison_lines(one.id, other.id, found)))
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
            above = {
                each.task: each.fact.parent for each in found.events if isinstance(each.fact, TaskCreated)
            }
            above[found.task.agent_id] = None
            lines = [wire(event, above.get(event.task)) for event in found.events]
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
    if "json" in args:
        answer_json({"file": str(path), "lines": text.count("\n")})
    else:
        answer(f"Wrote {path}. Import it with: gen task import {path}")
    return 0


async def _exported(args: argparse.Namespace) -> str:
    async with opened(args) as gen:
        try:
            return await gen.export(args.id)
        except CorruptFact as corrupt:
            raise CorruptFact(
                f"{corrupt} Nothing was exported. Show the events before it with: gen task show {args.id}"
            ) from None


def imported(args: argparse.Namespace) -> int:
    """Read the journal of one task into the database."""
    text = whole_input("name a file to import") if args.file == "-" else _read(Path(args.file).expanduser())
    return run_to_end(_imported(args, text))


async def _imported(args: argparse.Namespace, text: str) -> int:
    async with opened(args) as gen:
        imported = await gen.take_in(text)
    task, warnings = imported.outcome, imported.problems
    for warning in warnings:
        note(warning)
    if "json" in args:
        answer_json({"task": task, "warnings": warnings})
    else:
        answer(f"Imported task {task.agent_id}. Show it with: gen task show {task.agent_id}")
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
