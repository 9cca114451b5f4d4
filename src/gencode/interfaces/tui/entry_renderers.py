"""Renderers of transcript entries: one function for each kind."""

import json
from collections.abc import Sequence
from typing import ClassVar

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from gencode.core.ids import moment
from gencode.core.messages import NoticeKind
from gencode.core.text import visible, visible_line
from gencode.interfaces.render.agent_view import gist
from gencode.interfaces.render.file_diff import DiffLine, change_counts, diff_of_call
from gencode.interfaces.render.number_format import counted, seconds
from gencode.interfaces.render.transcript import (
    Call,
    IncomingMessage,
    Remark,
    Reply,
    Step,
    Thought,
    todos_of,
)
from gencode.interfaces.tui.agent_rows import refusal_text
from gencode.interfaces.tui.diff_view import DiffView

RESULT_LINES = 200
DIFF_LINES = 12
LIVE_LINES = 5
LAST_LINES = 3
FAILED_LINES = 8
ANSWER_LINES = 6
"""So many lines of a difference, of a running command, of one that went well or failed, and of an answer."""
SLOW_SECONDS = 1.0
"""The time of a call that took less is not shown."""
BRANCH = "  └ "
OUTPUT = "│"
SHOWN_RESULTS = frozenset({"AskUserQuestion"})
"""The tools whose result is what the person said."""
MAX_CODE = 60_000
MAX_MESSAGE = 20_000
MOST_QUEUED_LINES = 12
_SIGNS = {
    "asked": ("?", "warn"),
    "waiting": ("○", "faint"),
    "running": ("●", "busy"),
    "done": ("●", "good"),
    "failed": ("✗", "bad"),
    "denied": ("⊘", "bad"),
}
_SENDERS = {"user": "You", "system": "GenCode", "summary": "Summary of the conversation so far"}


class _Heading(Heading):
    """A heading at the left edge, without a box around it."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.text


class _Markdown(Markdown):
    """Markdown whose lines end where their author ended them."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": _Heading}

    def __init__(self, text: str, code: str) -> None:
        super().__init__(text, code_theme=code, hyperlinks=False)
        for token in self.parsed:
            for part in token.children or ():
                if part.type == "softbreak":
                    part.type = "hardbreak"


def markdown(text: str, code: str, *, verbatim: bool = False) -> RenderableType:
    """Markdown as it is read: no links that act, code in colours; or a text just as it is."""
    return Text(visible(text)) if verbatim else _Markdown(visible(text), code)


def prompt(entry: IncomingMessage) -> RenderableType:
    """What the person said, on a band of its own."""
    text, rest = _shortened(entry.text)
    shown = visible(text).rstrip("\n").replace("\n", "\n  ")
    return Padding(Text.assemble(("› ", "you"), shown, (rest, "faint")), 0, style="prompt")


def message(entry: IncomingMessage, names: dict[str, str], *, opened: bool) -> RenderableType:
    """A message of GenCode or of another agent: its first line, or all of it."""
    text = visible(entry.text).strip("\n")
    lines = text.splitlines()
    if opened:
        head = Text(f"▾ {_sender(entry, names)}", "system")
        return Group(head, Padding(Text(text, "system"), (0, 0, 0, 2)))
    if (
        entry.sender == "system" and (entry.results or entry.notice is NoticeKind.FILES)
    ) or entry.sender == "summary":
        return Text(f"▸ {_sender(entry, names)} ({counted(len(lines), 'line')})", "system")
    head = Text.assemble((f"⋮ {_sender(entry, names)}: ", "system"), (lines[0] if lines else "", "system"))
    if len(lines) > 1:
        head.append(f" (+{counted(len(lines) - 1, 'line')})", "faint")
    return head


def _sender(entry: IncomingMessage, names: dict[str, str]) -> str:
    """Who sent a message; of what GenCode sends, what it brings."""
    if entry.sender == "system" and entry.results:
        found = [names[each] for each in entry.results if each in names]
        commands = len(entry.results) - len(found)
        if commands:
            found.append(counted(commands, "background command"))
        return visible_line(f"Result of {', '.join(found)}", 200)
    if entry.sender == "system" and entry.notice is NoticeKind.FILES:
        return "Attached files"
    return visible_line(_SENDERS.get(entry.sender) or names.get(entry.sender, entry.sender), 40)


def _shortened(text: str) -> tuple[str, str]:
    """The beginning of a text that somebody pasted, and how much more there was."""
    kept = text[:MAX_MESSAGE]
    lines = kept.split("\n")
    kept = "\n".join(lines[:RESULT_LINES])
    left = len(text) - len(kept)
    return kept, f"\n  … {counted(left, 'more character')} (sent in full)" if left else ""


def thought(entry: Thought, *, opened: bool) -> RenderableType:
    """What the model thought: a line, or all of it."""
    words = len(entry.text.split())
    head = Text(f"{'▾' if opened else '▸'} Thinking ({counted(words, 'word')})", "thought")
    if not opened:
        return head
    return Group(head, Padding(Text(visible(entry.text).strip(), "thought"), (0, 0, 0, 2)))


CUT = Text("(incomplete)", "warn")


def reply(entry: Reply) -> RenderableType:
    """What the model said, just as it is."""
    said = Text(visible(entry.text.strip("\n")))
    return Group(said, CUT) if entry.partial else said


def call(entry: Call, now: str, code: str, *, opened: bool) -> RenderableType:
    """A call in a line with how it ended, and below it what a person should see of it; opened, all of it."""
    sign, style = _SIGNS[entry.state]
    line = Text(no_wrap=not opened, overflow="ellipsis")
    line.append(f"{sign} ", style)
    line.append(visible_line(entry.tool, 40), "bold")
    ended, ended_style = _how_it_ended(entry, now)
    diff = diff_of_call(entry.tool, entry.input, entry.lines)
    steps = todos_of(entry.tool, entry.input)
    about = _progress_of(steps) if steps else entry.about
    line.append(f" {visible_line(about, 200)}" if about else "", "call")
    if diff and entry.state != "denied":
        line.append(f" {change_counts(diff)}", "faint")
    line.append(f" · {ended}" if ended else "", ended_style)
    parts: list[RenderableType] = [line]
    if why := _why_not(entry):
        parts.append(Text(f"{BRANCH}{why}", "bad"))
    if diff:
        shown = diff if opened else diff[:DIFF_LINES]
        parts.append(Padding(DiffView(shown, changed_file(entry), code), (0, 0, 0, 2)))
        if len(diff) > len(shown):
            parts.append(Text(f"  … {counted(len(diff) - len(shown), 'more line')} (Enter opens)", "faint"))
    if opened:
        parts += [step_lines(steps, len(steps))] if steps else _details(entry, with_input=not diff)
    elif output := _last_lines(entry):
        parts.append(
            Text(
                "\n".join(f"  {OUTPUT} {each}" for each in output), "faint", no_wrap=True, overflow="ellipsis"
            )
        )
    return parts[0] if len(parts) == 1 else Group(*parts)


def changed_file(entry: Call) -> str:
    """The file that a call changes, as the model named it."""
    return str(next((value for name in ("file_path", "path") if (value := entry.input.get(name))), ""))


def long_diff(entry: Call) -> list[DiffLine]:
    """What a call changes, where the transcript has no room for all of it."""
    diff = diff_of_call(entry.tool, entry.input, entry.lines)
    return diff if len(diff) > DIFF_LINES else []


def _how_it_ended(entry: Call, now: str) -> tuple[str, str]:
    """The state of a call in a few words, and their style: time and exit code of a command, or a result."""
    time = ""
    if entry.state == "running" and entry.since:
        elapsed = (moment(now) - moment(entry.since)).total_seconds()
        time = seconds(elapsed, whole=True) if elapsed >= SLOW_SECONDS else ""
    elif entry.seconds is not None and entry.seconds >= SLOW_SECONDS:
        time = seconds(entry.seconds)
    match entry.state:
        case "asked":
            return "needs your approval", "warn"
        case "denied":
            return ("declined" if entry.declined else "refused"), "bad"
        case "running":
            return " · ".join(filter(None, (visible_line(entry.step, 100), time))), "busy"
        case "waiting":
            return "", "faint"
        case _ if entry.ran:
            code = "stopped" if entry.exit is None else f"exit {entry.exit}"
            found = gist(entry.result) if _is_short(entry) else ""
            return " · ".join(filter(None, (code, time, found))), "bad" if entry.exit != 0 else "faint"
        case "failed":
            return "failed", "bad"
        case _ if entry.tool in SHOWN_RESULTS or entry.lines or todos_of(entry.tool, entry.input):
            return time, "faint"
        case _:
            found = gist(entry.result) if entry.result.strip() else ""
            return " · ".join(filter(None, (found, time))), "faint"


def _why_not(entry: Call) -> str:
    """Why a call was refused or failed, on a line of its own."""
    if entry.state == "denied":
        return refusal_text(entry)
    if entry.state == "failed" and not entry.ran:
        return visible_line(entry.result or entry.step, 300)
    return ""


def _last_lines(entry: Call) -> list[str]:
    """The last lines that a command wrote, and the answer of the person to a question."""
    if entry.tool in SHOWN_RESULTS and entry.state == "done":
        return visible(entry.result).strip().splitlines()[:ANSWER_LINES]
    if entry.state == "running":
        return visible(entry.tail).rstrip().splitlines()[-LIVE_LINES:]
    if entry.ran and not _is_short(entry):
        lines = visible(entry.result).strip().splitlines()
        most = LAST_LINES if entry.exit == 0 else FAILED_LINES
        more = len(lines) - most
        hidden = [f"… {counted(more, 'earlier line')} (Enter opens)"] if more > 0 else []
        return [*hidden, *lines[-most:]]
    return []


def _is_short(entry: Call) -> bool:
    """Whether the output of a command that went well is a single line, which stands behind it."""
    return entry.exit == 0 and "\n" not in entry.result.strip()


def _progress_of(steps: Sequence[Step]) -> str:
    return f"{sum(step.done for step in steps)} of {counted(len(steps), 'step')} done"


def step_lines(steps: Sequence[Step], most: int) -> Text:
    """The steps of an agent from the one it works on: the first of these, and how many follow."""
    first = next((place for place, step in enumerate(steps) if not step.done), 0)
    first = max(min(first - 1, len(steps) - most), 0)
    drawn = Text(no_wrap=True, overflow="ellipsis")
    for number, step in enumerate(steps[first : first + most]):
        sign, style = ("✓", "faint") if step.done else ("▸", "bold") if step.active else ("○", "call")
        drawn.append("\n" if number else "")
        drawn.append(f"  {sign} {step.text}", style)
    if (left := len(steps) - first - most) > 0:
        drawn.append(f"  … {left} more", "faint")
    return drawn


def _details(entry: Call, *, with_input: bool) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if with_input and entry.input:
        text = visible(json.dumps(entry.input, ensure_ascii=False, indent=1))[:MAX_CODE]
        parts.append(
            Padding(Syntax(text, "json", theme="ansi_dark", background_color="default"), (0, 0, 0, 2))
        )
    if entry.result:
        lines = visible(entry.result).splitlines()
        more = [f"… {counted(len(lines) - RESULT_LINES, 'more line')}"] if len(lines) > RESULT_LINES else []
        body = Text("\n".join((*lines[:RESULT_LINES], *more)), "bad" if entry.state == "failed" else "faint")
        parts.append(Padding(body, (0, 0, 0, 2)))
    if entry.why:
        parts.append(Text(f"  {visible_line(entry.why, 400)}", "faint"))
    return parts


def remark(entry: Remark) -> RenderableType:
    """A remark of GenCode about the run."""
    return Text(f"— {visible_line(entry.text, 500)}", "bad" if entry.bad else "faint")


def queued_message(text: str) -> RenderableType:
    """A message that is queued."""
    first, *others = text.strip().splitlines()[:MOST_QUEUED_LINES]
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append("› ", "you")
    line.append(visible_line(first, 200), "faint")
    line.append("  (queued)", "warn")
    for other in others:
        line.append(f"\n  {visible_line(other, 200)}", "faint")
    if (left := text.strip().count("\n") + 1 - MOST_QUEUED_LINES) > 0:
        line.append(f"\n  … {counted(left, 'more line')}", "faint")
    return line
