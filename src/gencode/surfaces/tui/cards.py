"""The panels of agents: who was launched, how each one stands side by side, and what came back."""

from collections.abc import Sequence

from rich.box import ROUNDED
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from gencode.core.spec import same_name
from gencode.core.status import Status
from gencode.surfaces.figures import SIGNS, figures, name_of, progress_line, state
from gencode.surfaces.transcripts import Call
from gencode.surfaces.view import AgentView
from gencode.surfaces.visible import visible, visible_line

RESULT_LINES = 8
CARD = 38
WIDEST = 100
NOBODY = AgentView("")


def sent(calls: Sequence[Call], agents: Sequence[AgentView | None], now: str, width: int) -> RenderableType:
    """The agents that one reply sent: a panel for one, cards side by side for several."""
    if len(calls) == 1:
        return _one(calls[0], agents[0], now, min(width, WIDEST))
    kinds = {same_name(_kind(each)) for each in calls}
    kind = f"{visible_line(_kind(calls[0]), 40)} " if len(kinds) == 1 else ""
    columns = max(1, min(width // CARD, len(calls), 4))
    grid = Table.grid(padding=(0, 1), expand=True)
    for _ in range(columns):
        grid.add_column(ratio=1)
    cards = [_card(number, each, agents[number - 1], now) for number, each in enumerate(calls, start=1)]
    for at in range(0, len(cards), columns):
        row = cards[at : at + columns]
        grid.add_row(*row, *([""] * (columns - len(row))))
    return Group(Text(f"[Launching {len(calls)} {kind}agents in parallel…]", "busy"), grid)


def _kind(call: Call) -> str:
    return str(call.input.get("subagent_type") or call.input.get("type") or "general-purpose")


def _title(call: Call) -> str:
    words = call.input.get("description") or call.input.get("label") or call.input.get("prompt")
    return visible_line(str(words or call.input.get("task") or call.input.get("input") or ""), 120)


def _one(call: Call, agent: AgentView | None, now: str, width: int) -> RenderableType:
    parts: list[RenderableType] = [_launch(call, agent, width)]
    if agent is None:
        parts.append(_unsent(call))
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


def _unsent(call: Call) -> Text:
    if call.state in ("denied", "failed"):
        return Text(f"✗ {visible_line(call.why or call.result, 200)}", "bad")
    return Text("? waits for an answer" if call.state == "asked" else "○ about to start", "warn")


def _progress(agent: AgentView, now: str) -> Text:
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"[{visible_line(agent.agent, 40)} agent working…] ", "busy")
    line.append(f"{progress_line(agent)} · {figures(agent, now)}", "faint")
    return line


def result_panel(agent: AgentView, now: str, width: int, most: int = RESULT_LINES) -> Panel:
    """What came back: green when it completed, red when it did not."""
    well = agent.status is Status.COMPLETED
    text = agent.result.strip() or agent.error or "(nothing)"
    lines = visible(text).splitlines()
    body = Text("\n".join(lines[:most]))
    if len(lines) > most:
        body.append(f"\n… {len(lines) - most} more lines (Enter opens it)", "faint")
    if not well and agent.error and agent.result.strip():
        body.append(f"\n{visible_line(agent.error)}", "bad")
    panel = _panel(body, f"Subagent Result · {name_of(agent, 50)}", "good" if well else "bad", width)
    panel.subtitle = Text(f"{agent.status} · {figures(agent, now)}")
    panel.subtitle_align = "right"
    return panel


def _card(number: int, call: Call, agent: AgentView | None, now: str) -> Panel:
    """One of several agents: how it stands, its last step, what it has used."""
    title = f"Agent {number}: {_title(call)}"
    if agent is None:
        return _panel(_unsent(call), title, "warn", None)
    style = _colour(agent)
    body = Text(no_wrap=True, overflow="ellipsis")
    body.append(f"{SIGNS[agent.status]} {visible_line(agent.agent, 24)}", "bold")
    body.append(f" · {state(agent)}{' · background' if agent.background else ''}\n", style)
    last = agent.result.strip().splitlines()[:1] if agent.status.ended else [agent.step]
    body.append(f"{visible_line(last[0] if last else agent.error or '', 120)}\n", "faint")
    body.append(figures(agent, now), "faint")
    return _panel(body, title, style, None)


def _colour(agent: AgentView) -> str:
    if not agent.status.ended:
        return "warn" if agent.stalled else "busy"
    return "good" if agent.status is Status.COMPLETED else "bad"


def _panel(body: RenderableType, title: str, style: str, width: int | None) -> Panel:
    head = Text(visible_line(title, 80), no_wrap=True, overflow="ellipsis")
    return Panel(body, title=head, title_align="left", border_style=style, box=ROUNDED, width=width)


def line(agent: AgentView, now: str) -> Text:
    """One agent in a line, for the strip of those at work."""
    drawn = Text(no_wrap=True, overflow="ellipsis")
    drawn.append(f"{SIGNS[agent.status]} ", _colour(agent))
    drawn.append(name_of(agent, 40), "bold")
    drawn.append(f"{' (background)' if agent.background else ''}", "faint")
    drawn.append(f" ↳ {visible_line(agent.step or state(agent), 100)}", _colour(agent))
    drawn.append(f" · {figures(agent, now)}", "faint")
    return drawn
