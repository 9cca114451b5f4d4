"""Panels of agents: launch, status side by side, and result."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.box import ROUNDED
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from gencode.core.spec import same_name
from gencode.core.status import Status
from gencode.core.text import visible, visible_line
from gencode.interfaces.render.agent_view import SIGNS, AgentView, figures, name_of, progress_line, state
from gencode.interfaces.render.number_format import counted
from gencode.interfaces.render.plain_text import receipt_lines, refused_count
from gencode.interfaces.render.transcript import Call

RESULT_LINES = 8
CARD_WIDTH = 35
CARD_LINES = 3
MAX_WIDTH = 100
NOBODY = AgentView("")


def launched_agents(
    calls: Sequence[Call], agents: Sequence[AgentView | None], now: str, width: int
) -> RenderableType:
    """The agents that one reply sent: a panel for one, cards side by side for several."""
    if len(calls) == 1:
        return _single_agent(calls[0], agents[0], now, min(width, MAX_WIDTH))
    kinds = {same_name(_kind(each)) for each in calls}
    kind = f"{visible_line(_kind(calls[0]), 40)} " if len(kinds) == 1 else ""
    columns = max(1, min(width // CARD_WIDTH, len(calls), 4))
    cards = [_card(each, agent, now) for each, agent in zip(calls, agents, strict=True)]
    head = Text(f"[Launching {calls[0].group} {kind}agents in parallel…]", "busy")
    first, last = calls[0].number, calls[-1].number
    if last - first + 1 < calls[0].group:
        above = f" (1 to {first - 1} are further up)" if first > 1 else ""
        head.append(f" Showing agents {first} to {last}{above}", "faint")
    return Group(head, CardRows(cards, columns))


def _kind(call: Call) -> str:
    return str(call.input.get("subagent_type") or call.input.get("type") or "general-purpose")


def _title(call: Call) -> str:
    words = call.input.get("description") or call.input.get("label") or call.input.get("prompt")
    return visible_line(str(words or call.input.get("task") or call.input.get("input") or ""), 120)


def _single_agent(call: Call, agent: AgentView | None, now: str, width: int) -> RenderableType:
    parts: list[RenderableType] = [_launch(call, agent, width)]
    if agent is None:
        parts.append(_not_started(call))
    elif not agent.status.ended:
        parts.append(_progress(agent, now))
    else:
        parts.append(result_panel(agent, now, width))
    return Group(*parts)


def _launch(call: Call, agent: AgentView | None, width: int) -> RenderableType:
    rows = Table.grid(padding=(0, 1))
    rows.add_column(no_wrap=True, min_width=6)
    rows.add_column(no_wrap=True, overflow="ellipsis")
    model = (agent.model if agent else "") or str(call.input.get("model") or "")
    for label, value in (("Type", _kind(call)), ("Task", _title(call)), ("Model", model or "inherit")):
        rows.add_row(Text(f"{label}:", "bold"), Text(visible_line(value)))
    panel = _panel(rows, "Launching Subagent", "busy", width)
    if agent is not None and agent.background:
        panel.subtitle = Text(f"in the background: agent-{agent.id}")
        panel.subtitle_align = "left"
    return panel


def _not_started(call: Call) -> Text:
    if call.state == "denied":
        why = "You declined this" if call.declined else visible_line(call.why or call.result, 200)
        return Text(f"✗ {why}", "bad")
    if call.state == "failed":  # `why` says then why it was allowed
        return Text(f"✗ {visible_line(call.result or call.step, 200)}", "bad")
    return Text("? waiting for an answer" if call.state == "asked" else "○ starting", "warn")


def _progress(agent: AgentView, now: str) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"[{visible_line(agent.agent, 40)} agent working…] ", "busy")
    line.append(f"{progress_line(agent)} · {figures(agent, now)}", "faint")
    return line


def result_panel(agent: AgentView, now: str, width: int, most: int = RESULT_LINES) -> Panel:
    """What came back: green when it completed, red when it did not."""
    well = agent.status is Status.COMPLETED
    text = agent.result.strip() or agent.error or "(no output)"
    lines = visible(text).splitlines()
    body = Text("\n".join(lines[:most]))
    if len(lines) > most:
        body.append(f"\n… {counted(len(lines) - most, 'more line')} (Enter opens)", "faint")
    if not well and agent.error and agent.result.strip():
        body.append(f"\n{visible_line(agent.error)}", "bad")
    for line in receipt_lines(agent):
        body.append(f"\n{line}", "warn")
    panel = _panel(body, f"Subagent Result · {name_of(agent, 50)}", "good" if well else "bad", width)
    parts = (state(agent), figures(agent, now), refused_count(agent))
    panel.subtitle = Text(" · ".join(filter(None, parts)))
    panel.subtitle_align = "right"
    return panel


StyledLine = tuple[tuple[str, str], ...]
"""Parts of a line, each with its style."""


class Card(NamedTuple):
    """One of several agents: a title, some lines, and the colour of the frame."""

    title: str
    lines: tuple[StyledLine, ...]
    style: str

    def render(self, width: int) -> Iterator[StyledLine]:
        """Its lines with a frame around them."""
        inside = max(width - 4, 1)
        title = fit_cells(f" {self.title} ", max(width - 4, 1), pad=False)
        yield ((f"╭─{title}{'─' * (width - 3 - cell_len(title))}╮", self.style),)
        for number in range(CARD_LINES):
            parts = self.lines[number] if number < len(self.lines) else ()
            parts = tuple((drop_unit(text, inside), style) for text, style in parts)
            yield (("│ ", self.style), *_cut(parts, inside), (" │", self.style))
        yield ((f"╰{'─' * (width - 2)}╯", self.style),)


class CardRows:
    """Cards in rows. They are drawn line by line, because all of them change every second."""

    def __init__(self, cards: Sequence[Card], columns: int) -> None:
        self._cards = cards
        self._columns = columns

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The rows, as wide as there is room."""
        width = max((options.max_width - self._columns + 1) // self._columns, 6)
        styles: dict[str, Style] = {}
        for at in range(0, len(self._cards), self._columns):
            row = [tuple(card.render(width)) for card in self._cards[at : at + self._columns]]
            for lines in zip(*row, strict=True):
                for number, line in enumerate(lines):
                    if number:
                        yield Segment(" ")
                    for text, name in line:
                        if name not in styles:
                            styles[name] = console.get_style(name)
                        yield Segment(text, styles[name])
                yield Segment.line()


def fit_cells(text: str, width: int, *, pad: bool = True) -> str:
    """A text of exactly so many cells, or at most so many."""
    has = cell_len(text)
    if has > width:
        return f"{set_cell_size(text, width - 1)}…"
    return text + " " * (width - has) if pad else text


def drop_unit(text: str, room: int) -> str:
    """Figures without the word that can be missed, where there is no room for it."""
    return text if cell_len(text) <= room else text.replace(" tokens", "")


def _cut(parts: StyledLine, width: int) -> Iterator[tuple[str, str]]:
    left = width
    for number, (text, style) in enumerate(parts):
        last = number == len(parts) - 1
        shown = fit_cells(text, left, pad=last)
        left -= cell_len(shown)
        yield shown, style
        if left <= 0:
            return
    if not parts:
        yield " " * width, ""


def _card(call: Call, agent: AgentView | None, now: str) -> Card:
    """One of several agents: how it stands, its last step, what it has used."""
    title = f"Agent {call.number}: {_title(call)}"
    if agent is None:
        unsent = _not_started(call)
        return Card(title, (((unsent.plain, str(unsent.style)),),), "warn")
    style = _colour(agent)
    last = agent.result.strip().splitlines()[:1] if agent.status.ended else [agent.step]
    lines = (
        (
            (f"{SIGNS[agent.status]} {visible_line(agent.agent, 24)}", "bold"),
            (f" · {state(agent)}{' · background' if agent.background else ''}", style),
        ),
        ((visible_line(last[0] if last else agent.error or "", 120), "faint"),),
        ((visible_line(figures(agent, now)), "faint"),),
    )
    return Card(title, lines, style)


def _colour(agent: AgentView) -> str:
    if not agent.status.ended:
        return "warn" if agent.stalled else "busy"
    return "good" if agent.status is Status.COMPLETED else "bad"


def _panel(body: RenderableType, title: str, style: str, width: int | None) -> Panel:
    head = Text(visible_line(title, 80), no_wrap=True, overflow="ellipsis")
    return Panel(body, title=head, title_align="left", border_style=style, box=ROUNDED, width=width)


def agent_line(agent: AgentView, now: str) -> Text:
    """One agent in a line, for the list of running ones."""
    drawn = Text(no_wrap=True, overflow="ellipsis")
    drawn.append(f"{SIGNS[agent.status]} ", _colour(agent))
    drawn.append(name_of(agent, 40), "bold")
    drawn.append(f"{' (background)' if agent.background else ''}", "faint")
    drawn.append(f" ↳ {visible_line(agent.step or state(agent), 100)}", _colour(agent))
    drawn.append(f" · {figures(agent, now)}", "faint")
    return drawn
