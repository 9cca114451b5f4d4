"""Renderers of transcript entries: one function for each kind."""

import json
from collections.abc import Sequence
from typing import ClassVar

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markdown import Heading, Markdown, MarkdownElement
from rich.padding import Padding
from rich.syntax import Syntax
from rich.text import Text

from gencode.core.text import visible, visible_line
from gencode.interfaces.render.number_format import counted
from gencode.interfaces.render.transcript import (
    Call,
    IncomingMessage,
    Remark,
    Reply,
    Thought,
    diff_of,
    kind_of,
)

RESULT_LINES = 200
MAX_CODE = 60_000
MAX_MESSAGE = 20_000
_SIGNS = {
    "asked": ("?", "warn"),
    "waiting": ("○", "faint"),
    "running": ("●", "busy"),
    "done": ("●", "good"),
    "failed": ("✗", "bad"),
    "denied": ("⊘", "bad"),
}
_SENDERS = {"user": "You", "system": "GenCode", "summary": "Summary"}


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


def message(entry: IncomingMessage, names: dict[str, str]) -> RenderableType:
    """Something that was said to the agent, and by whom."""
    if entry.sender == "user":
        text, rest = _shortened(entry.text)
        shown = visible(text).rstrip("\n").replace("\n", "\n  ")
        return Text.assemble(("› ", "you"), (shown, "you"), (rest, "faint"))
    text = visible(entry.text).rstrip("\n")
    sender = _SENDERS.get(entry.sender) or names.get(entry.sender, entry.sender)
    lines = text.splitlines()
    head = Text.assemble((f"⋮ {visible_line(sender, 40)}: ", "system"), (lines[0] if lines else "", "system"))
    if len(lines) > 1:
        head.append(f" (+{counted(len(lines) - 1, 'line')})", "faint")
    return head


def _shortened(text: str) -> tuple[str, str]:
    """The beginning of a text that somebody pasted, and how much more there was."""
    kept = text[:MAX_MESSAGE]
    lines = kept.split("\n")
    kept = "\n".join(lines[:RESULT_LINES])
    left = len(text) - len(kept)
    return kept, f"\n  … {counted(left, 'more character')} (sent in full)" if left else ""


def full_message(entry: IncomingMessage, names: dict[str, str]) -> RenderableType:
    """The full text of a message from GenCode or another agent."""
    sender = _SENDERS.get(entry.sender) or names.get(entry.sender, entry.sender)
    return Group(
        Text(f"⋮ {visible_line(sender, 40)}:", "system"),
        Padding(Text(visible(entry.text).rstrip("\n"), "system"), (0, 0, 0, 2)),
    )


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


def call(entry: Call, *, opened: bool) -> RenderableType:
    """A call as one line; opened, with everything it said and what came of it."""
    sign, style = _SIGNS[entry.state]
    line = Text(no_wrap=not opened, overflow="ellipsis")
    line.append(f"{sign} ", style)
    line.append(visible_line(entry.line, 200), "call")
    if remark := _remark(entry):
        line.append(f"  {remark}", "bad" if entry.state in ("failed", "denied") else "faint")
    parts: list[RenderableType] = [line]
    if diff := diff_of(entry.tool, entry.input):
        shown = diff if opened else diff[:8]
        parts.append(Padding(diff_lines(shown), (0, 0, 0, 2)))
        if len(diff) > len(shown):
            parts.append(Text(f"  … {counted(len(diff) - len(shown), 'more line')} (Enter opens)", "faint"))
    if opened:
        parts += _details(entry, with_input=not diff)
    return parts[0] if len(parts) == 1 else Group(*parts)


def _remark(entry: Call) -> str:
    match entry.state:
        case "asked":
            return "waiting for an answer"
        case "denied":
            return "You declined this" if entry.declined else f"refused: {visible_line(entry.why, 160)}"
        case "running":
            return visible_line(entry.step, 100)
        case "failed":
            return visible_line(entry.result or entry.step, 160)
        case _:
            lines = entry.result.count("\n") + 1 if entry.result.strip() else 0
            return (
                ""
                if not lines
                else f"→ {lines} lines"
                if lines > 1
                else f"→ {visible_line(entry.result, 80)}"
            )


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


def diff_lines(lines: Sequence[str]) -> Text:
    """Lines of a diff, each in its colour; what is added and removed is also marked by its sign."""
    drawn = Text()
    for number, line in enumerate(lines):
        drawn.append("\n" if number else "")
        drawn.append(visible(line), kind_of(line))
    return drawn


def remark(entry: Remark) -> RenderableType:
    """A remark of GenCode about the run."""
    return Text(f"— {visible_line(entry.text, 500)}", "bad" if entry.bad else "warn")


def queued_message(text: str) -> RenderableType:
    """A message that is queued."""
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append("› ", "you")
    line.append(visible_line(text, 200), "faint")
    line.append("  (queued)", "warn")
    return line
