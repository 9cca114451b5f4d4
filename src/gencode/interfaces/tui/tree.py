"""The agent tree of a session: one line for each agent, below its parent."""

from rich.text import Text
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from gencode.core.status import Status
from gencode.core.text import visible_line
from gencode.interfaces.render.agent_view import SIGNS, AgentRow, View, rows, state, step_style
from gencode.interfaces.render.number_format import bar_text, counted, money, seconds, tokens
from gencode.interfaces.tui.agent_rows import fitting
from gencode.interfaces.tui.error_boundary import ErrorBoundary
from gencode.interfaces.tui.strip_renderer import StripRenderer

_MOVES = {"up": -1, "down": 1, "home": -1_000_000, "end": 1_000_000}
MAX_TITLE = 44
EMPTY = " No agents yet."
MIN_TITLE = 12
"""So many cells a title has at least; how the agent stands comes after it."""


class TreePanel(ErrorBoundary, ScrollView, can_focus=True):
    """The agent tree. Only visible lines are drawn."""

    class Opened(Message):
        """The transcript of an agent is to be looked at."""

        def __init__(self, task: str) -> None:
            super().__init__()
            self.task = task

    class ActionsWanted(Message):
        """What can be done with an agent is to be shown."""

        def __init__(self, task: str) -> None:
            super().__init__()
            self.task = task

    def __init__(self) -> None:
        super().__init__()
        self._renderer = StripRenderer(dark=True)
        self._rows: list[AgentRow] = []
        self._now = ""
        self._selected = ""

    def use(self, renderer: StripRenderer) -> None:
        """Draw in other colours."""
        self._renderer = renderer
        self.refresh()

    def show(self, view: View, root: str | None, now: str) -> None:
        """Show how the tree stands now."""
        self._rows = rows(view, root) if root else []
        self._now = now
        if self._rows and self._selected not in {row.agent.id for row in self._rows}:
            self._selected = self._rows[0].agent.id
        self.virtual_size = Size(self.size.width, max(len(self._rows), 1) + 1)
        self.refresh()

    def select(self, task: str) -> None:
        """Stand on an agent."""
        self._selected = task
        self.move(0)

    @property
    def selected_line(self) -> int:
        """The number of the line somebody stands on."""
        found = (place for place, row in enumerate(self._rows) if row.agent.id == self._selected)
        return next(found, 0)

    def render_line(self, y: int) -> Strip:
        """One line of what is seen; the first one counts the agents."""
        width, style = self.size.width, self.rich_style
        room = self.scrollable_content_region.width
        line = y + self.scroll_offset.y
        if line == 0:
            drawn = self._head()
        elif line - 1 < len(self._rows):
            drawn = self._line(self._rows[line - 1], room)
        elif line == 1:
            drawn = Text(EMPTY, "faint", no_wrap=True, overflow="ellipsis")
        else:
            return Strip.blank(width, style)
        strip = self._renderer.lines(drawn, room)[0]
        return strip.crop_extend(0, width, style).apply_style(style)

    def _head(self) -> Text:
        working = sum(row.agent.working for row in self._rows)
        head = Text.assemble(("Agents", "bold"), no_wrap=True, overflow="ellipsis")
        return head.append(f" · {working} of {len(self._rows)} working" if working else "", "faint")

    def _line(self, row: AgentRow, width: int) -> Text:
        agent = row.agent
        chosen = agent.id == self._selected
        colour = _colour(row)
        line = Text(no_wrap=True, overflow="ellipsis")
        line.append("▌" if chosen else " ", "you")
        line.append(row.lead, "faint")
        line.append(f"{SIGNS[agent.status]} ", colour)
        line.append(visible_line(agent.agent, 24), "bold reverse" if chosen and self.has_focus else "bold")
        line.append(f" {agent.id}", "faint")
        title = min(max(len(agent.title) + 1, MIN_TITLE), MAX_TITLE)
        stands = self._status_text(row, width - line.cell_len - title)
        room = min(max(width - line.cell_len - stands.cell_len - 1, MIN_TITLE), MAX_TITLE)
        line.append(f" {visible_line(agent.title, room)}" if agent.title else "", "call")
        line.append_text(stands)
        step = agent.doing if agent.working and agent.step else ""
        line.append(f" ↳ {visible_line(step, 80)}" if step else "", step_style(agent, "bad", "call"))
        return line

    def _status_text(self, row: AgentRow, room: int) -> Text:
        """How an agent stands, and what it and all below it have used."""
        agent = row.agent
        usual = agent.status in (Status.RUNNING, Status.COMPLETED) and not agent.stalled
        style = "faint" if usual else _colour(row)
        stands = Text(f" {state(agent)}{' · background' if agent.background else ''}", style)
        for bar in row.bars:
            stands.append(f" {bar_text(bar, 6)}", "warn" if bar.share >= 0.8 else "faint")
        done, cost = counted(row.turns, "turn"), money(row.spent.usd)
        rest = " · ".join((*((cost,) if cost else ()), seconds(agent.elapsed(self._now))))
        used = [f" · {done} · {tokens(row.spent, unit=unit)} · {rest}" for unit in (True, False)]
        used += [f" · {rest}", f" · {seconds(agent.elapsed(self._now))}"]
        stands.append(fitting(used, room - stands.cell_len), "faint")
        return stands

    def on_click(self, event: events.Click) -> None:
        """A click chooses an agent, a second one opens it."""
        place = event.y + self.scroll_offset.y - 1
        if 0 <= place < len(self._rows):
            again = self._rows[place].agent.id == self._selected
            self._selected = self._rows[place].agent.id
            self.refresh()
            if again:
                self._open()

    def on_key(self, event: events.Key) -> None:
        """Arrows select an agent, Enter opens it, Right shows what can be done; letters are text."""
        if event.key not in (*_MOVES, "enter", "right"):
            return
        event.stop()
        event.prevent_default()
        if not self._rows:
            return
        if event.key in _MOVES:
            self.move(_MOVES[event.key])
        elif event.key == "enter":
            self._open()
        else:
            self.post_message(self.ActionsWanted(self._selected))

    def move(self, by: int) -> None:
        """Stand on another agent."""
        if not self._rows:
            return
        place = max(0, min(self.selected_line + by, len(self._rows) - 1))
        self._selected = self._rows[place].agent.id
        height = max(self.scrollable_content_region.height, 1)
        top = self.scroll_offset.y
        if place + 1 < top + 1:
            self.scroll_to(y=place, animate=False, immediate=True)
        elif place + 1 >= top + height:
            self.scroll_to(y=place + 2 - height, animate=False, immediate=True)
        self.refresh()

    def _open(self) -> None:
        """Look at the agent."""
        self.post_message(self.Opened(self._selected))


def _colour(row: AgentRow) -> str:
    agent = row.agent
    if not agent.status.ended:
        return "warn" if agent.stalled or agent.status is Status.PENDING else "busy"
    return "good" if agent.status is Status.COMPLETED else "bad"
