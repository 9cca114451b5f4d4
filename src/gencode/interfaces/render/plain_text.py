"""Plain output: answers and records to stdout, notes and progress to stderr."""

import os
import shutil
import sys
from collections.abc import Container, Sequence
from contextlib import suppress
from typing import TextIO

from gencode.core.events import CommandEnded, Event, ProgressMade, TaskCreated, TaskEnded, TaskStalled
from gencode.core.outcome import as_json, work_done
from gencode.core.subsession_events import wire_line
from gencode.core.text import safe_json, visible, visible_line
from gencode.interfaces.render.agent_view import AgentView, View, fold
from gencode.interfaces.render.number_format import counted, seconds, turns
from gencode.interfaces.render.stdout_guard import answers

LEAST_LAST = 30
"""The room that the last column of a table should have: it says what a row is about."""
LEAST_OTHER = 8
"""The room that a column before it keeps, so that names can still be told apart."""
WIDE = 400
"""Longer lines of a table are wrapped by whoever shows it as a page."""
MOST_REFUSED = 3
MOST_WARNINGS = 3
"""So many refused calls of an agent are named where there is little room."""


def answer(text: str) -> None:
    """What was asked for, to stdout."""
    _write(answers(), visible(text))


def note(text: str) -> None:
    """A word to the person, to stderr; an answer is not lost because nobody can be told about it."""
    with suppress(OSError, ValueError):
        _write(sys.stderr, visible(text))


def answer_json(value: object, *, line: bool = False) -> None:
    """One record to stdout: a line for programs, indented on a terminal unless a line is wanted."""
    answer_raw(as_json(value, indent=0 if line or not answers().isatty() else 2))


def print_record(options: Container[str], record: object, text: str) -> None:
    """What a command gives: its record as JSON with the option for that, or the text that says the same."""
    if "json" in options:
        answer_json(record)
    else:
        answer(text)


def answer_raw(text: str) -> None:
    """Lines of JSON to stdout as they are; every acting character in them is escaped."""
    _write(answers(), safe_json(text), "utf-8")


def _write(stream: TextIO, text: str, encoding: str = "") -> None:
    """All of the text, also where Python was told not to buffer and a pipe takes only a part at a time."""
    line = text if text.endswith("\n") else f"{text}\n"
    rest = memoryview(line.encode(encoding or stream.encoding, "backslashreplace"))
    stream.flush()
    while rest:
        rest = rest[stream.buffer.write(rest) :]
    stream.buffer.flush()


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    width: int | None = None,
    spare: Sequence[str] = (),
) -> str:
    """Columns under a head; the last one is cut where the terminal ends.

    The columns in `spare` are left out, in this order, where the last one would have too little room; then
    the widest of the others are cut.
    """
    width = width or (shutil.get_terminal_size().columns if sys.stdout.isatty() else 10_000)
    cells = [[_cell(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(head))]
    for name in spare:
        if width - sum(each + 2 for each in widths[:-1]) >= min(widths[-1], LEAST_LAST):
            break
        place = cells[0].index(name)
        cells = [[*row[:place], *row[place + 1 :]] for row in cells]
        del widths[place]
    others = range(len(widths) - 1)
    while (short := min(widths[-1], LEAST_LAST) + sum(widths[each] + 2 for each in others) - width) > 0:
        widest = max(others, key=widths.__getitem__, default=-1)
        if widest < 0 or widths[widest] <= LEAST_OTHER:
            break
        widths[widest] = max(widths[widest] - short, LEAST_OTHER)
        for row in cells:
            if len(row[widest]) > widths[widest]:
                row[widest] = f"{row[widest][: widths[widest] - 1]}…"
    lines: list[str] = []
    for row in cells:
        line = "  ".join(cell.ljust(wide) for cell, wide in zip(row, widths, strict=True)).rstrip()
        lines.append(line if len(line) <= width else f"{line[: width - 1]}…")
    return "\n".join(lines)


def newest(rows: Sequence[Sequence[str]], most: int) -> Sequence[Sequence[str]]:
    """The first rows of a list whose newest are first, all with 0; what is left out is said."""
    if most and len(rows) > most:
        note(f"{len(rows) - most:,} older ones are not shown; --limit 0 shows all.")
        return rows[:most]
    return rows


def _cell(text: str) -> str:
    """A cell is one line; spaces at its beginning are kept, because they show depth."""
    return " " * (len(text) - len(text.lstrip(" "))) + visible_line(text)


def ending(agent: AgentView, now: str) -> str:
    """How an agent stands: status, turns, time."""
    parts = (str(agent.status), turns(agent.turns), seconds(agent.elapsed(now)), refused_count(agent))
    return " · ".join(filter(None, parts))


def refused_count(agent: AgentView) -> str:
    """How many calls of an agent were refused; empty where none was."""
    count = len(agent.refused)
    return f"{counted(count, 'call')} refused" if count else ""


def receipt_lines(agent: AgentView) -> list[str]:
    """What GenCode saw an agent do: its work, the warnings of its receipt, its refused calls."""
    work = ["; ".join(work_done(agent.saw))] if agent.saw.tool_calls else []
    return [*work, *warning_lines(agent)]


def warning_lines(agent: AgentView) -> list[str]:
    """The warnings of an agent's receipt, and its refused calls."""
    warned = [f"Warning: {visible_line(each, 240)}" for each in agent.warnings[:MOST_WARNINGS]]
    return [*warned, *_refused_lines(agent)]


def _refused_lines(agent: AgentView, most: int = MOST_REFUSED) -> list[str]:
    """Every refused call of an agent in a line: the call, and why."""
    told = [
        f"Refused: {visible_line(f'{each.tool}({each.summary})', 80)}: {visible_line(each.why, 240)}"
        for each in agent.refused[:most]
    ]
    rest = len(agent.refused) - most
    return [*told, f"… and {counted(rest, 'more refused call')}"] if rest > 0 else told


def has_terminal() -> bool:
    """Whether anybody can watch."""
    return sys.stderr.isatty() or sys.stdout.isatty()


def bare_terminal() -> bool:
    """Whether the terminal was said to know no colours, or knows none."""
    return bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "dumb") in ("dumb", "unknown")


class ViewOnly:
    """Paints nothing, and remembers the view."""

    def __init__(self) -> None:
        self.view = View()

    def hear(self, event: Event) -> None:
        """Take in one event."""
        self.view = fold(self.view, event)

    def note(self, text: str) -> None:
        """Say something to the person."""
        note(text)

    def hold(self, still: bool) -> None:
        """Nothing moves here."""

    def close(self) -> None:
        """Leave the screen as a shell expects it."""


class NoteRenderer(ViewOnly):
    """Paints nothing but what an agent wants the person to see at once, and that it is silent."""

    def hear(self, event: Event) -> None:
        """Show a note; remember the rest."""
        super().hear(event)
        match event.fact:
            case ProgressMade(text, note=True):
                note(noted(self.view, event.task, text))
            case CommandEnded() as fact:
                note(noted(self.view, event.task, command_end(fact)))
            case TaskStalled(seconds):
                note(noted(self.view, event.task, f"no activity for {seconds:.0f} s"))
            case _:
                pass


def command_end(fact: CommandEnded) -> str:
    """The end of a background command in a line."""
    how = "was stopped" if fact.exit is None else f"exited with code {fact.exit}"
    return f"background command {fact.shell} ({visible_line(fact.command, 60)}) {how}"


def noted(view: View, task: str, text: str) -> str:
    """The line of an agent to the person."""
    agent = view.agents.get(task)
    return f"[{visible_line(agent.agent if agent and agent.agent else task)}] {visible_line(text, 500)}"


class StepRenderer(ViewOnly):
    """One line on stderr for every launch, step and end."""

    def hear(self, event: Event) -> None:
        """Say what is new in this event."""
        before = self.view.agents.get(event.task)
        super().hear(event)
        agent = self.view.agents[event.task] if event.task in self.view.agents else AgentView(event.task)
        name = f"[{visible_line(agent.agent or event.task)}]"
        match event.fact:
            case TaskCreated() if agent.parent:
                note(f"{name} {visible_line(agent.title, 120)}")
            case TaskEnded():
                note(f"{name} {ending(agent, event.at)}")
            case ProgressMade(text, note=True):
                note(noted(self.view, event.task, text))
            case CommandEnded() as fact:
                note(noted(self.view, event.task, command_end(fact)))
            case _ if agent.step and (before is None or before.step != agent.step):
                note(f"{name} {visible_line(agent.step, 120)}")
            case _:
                pass


class JsonLineRenderer(ViewOnly):
    """Every event as one line of JSON on stdout, as it happens."""

    def hear(self, event: Event) -> None:
        """Write the event down."""
        super().hear(event)
        answer_raw(wire_line(event, self.view.lineage(event.task)))
