"""Shows a run with Rich: a panel for every launch and result, and a live line for every running agent."""

import sys
import time

from rich.box import ROUNDED
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from gencode.core.events import (
    CallFinished,
    CommandEnded,
    Event,
    MessageAdded,
    ProgressMade,
    TaskEnded,
    TaskStarted,
)
from gencode.core.ids import stamp
from gencode.core.messages import AssistantMessage
from gencode.core.spec import same_name
from gencode.core.status import Status
from gencode.core.text import visible, visible_line
from gencode.interfaces.render.agent_view import AgentView, View, fold, step_style
from gencode.interfaces.render.number_format import seconds
from gencode.interfaces.render.plain_text import (
    bare_terminal,
    command_end,
    ending,
    note,
    noted,
    receipt_lines,
)

WIDEST = 100
RESULT_LINES = 3
"""So much is shown of what an agent found: whoever sent it says what came of it, often in the same words."""
RESULT_ROOM = 4_000
ECHO_ROOM = 4
"""Columns left free behind a moving line: the terminal echoes ^C there, and must not start a new line."""


class RichRenderer:
    """Paints a run on the terminal: stderr when it is one, else stdout, so that pipes stay clean."""

    def __init__(self, *, live: bool | None = None, kept: bool = True) -> None:
        """`live` False: no moving lines; `kept` False: there is no journal to look into afterwards."""
        self.view = View()
        self._kept = kept
        self._console = terminal()
        self._spinner = Spinner("dots", style="cyan")
        self._live: Live | None = None
        self._still = False
        self._moves = self._console.is_terminal if live is None else live

    def hear(self, event: Event) -> None:
        """Take in one event, and print what a person should keep of it."""
        if self._moves and not self._still and self._live is None:
            self._live = self._lines()
        self.view = fold(self.view, event)
        agent = self.view.agents.get(event.task)
        match event.fact:
            case MessageAdded(AssistantMessage() as message):
                self._announce(message)
            case TaskStarted() if agent and not agent.conversation:
                self._console.print(launch_panel(agent, self._width))
                if agent.background:
                    self._console.print(Text(background_line(agent, kept=self._kept), "cyan"))
                if self._live is None:
                    self._console.print(Text(f"[{visible_line(agent.agent)} agent working…]", "dim"))
            case ProgressMade(text, note=True):
                self._console.print(Text(noted(self.view, event.task, text), "yellow"))
            case CommandEnded() as fact:
                self._console.print(Text(noted(self.view, event.task, command_end(fact)), "yellow"))
            case CallFinished() if agent and agent.failed and not agent.conversation:
                self._console.print(Text(f"  ↳ {noted(self.view, event.task, agent.step)}", "red"))
            case TaskEnded() if agent and not agent.conversation:
                self._console.print(self._result(agent, event.at))
            case _:
                pass

    def note(self, text: str) -> None:
        """Say something above the moving lines."""
        if self._live is None:
            note(text)
        else:
            self._console.print(Text(visible(text)), soft_wrap=True)

    def hold(self, still: bool) -> None:
        """Take the moving lines away while a person is asked something, and bring them back after."""
        if still:
            self._stop_moving()
        self._still = still

    def close(self) -> None:
        """Take the live lines away and give the cursor back."""
        self._moves = False
        self._stop_moving()

    def _stop_moving(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def _lines(self) -> Live:
        lines = Live(
            console=self._console,
            transient=True,
            refresh_per_second=8,
            get_renderable=self._progress,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        lines.start()
        return lines

    @property
    def _width(self) -> int:
        return max(min(self._console.width, WIDEST), 20)

    def _result(self, agent: AgentView, now: str) -> Panel:
        """The beginning of a result; all of it when it is what was asked for and stdout has no other copy."""
        panel_lines = None if agent.parent is None and sys.stdout.isatty() else RESULT_LINES
        more = f": gen task show {agent.id}" if self._kept else ""
        return result_panel(agent, now, self._width, panel_lines, more)

    def _announce(self, message: AssistantMessage) -> None:
        sent = [str(call.input.get("subagent_type", "?")) for call in message.calls if call.name == "Task"]
        if sent and message.text.strip():
            self._console.print(Text(visible(message.text.strip())))
        if len(sent) > 1:
            alike = len({same_name(each) for each in sent}) == 1
            kind = f"{visible_line(sent[0], 40)} " if alike else ""
            self._console.print(Text(f"[Launching {len(sent)} {kind}agents in parallel…]", "cyan"))
        for call in message.calls:
            if call.name == "Bash" and call.input.get("run_in_background"):
                command = visible_line(str(call.input.get("command", "")), 80)
                self._console.print(Text(f"[Running in the background: {command}]", "cyan"))

    def _progress(self) -> RenderableType:
        """One line for every agent at work; called from the thread that refreshes the screen."""
        now = stamp()
        busy = [each for each in self.view.agents.values() if not each.status.ended]
        sent = [each for each in busy if not each.conversation]
        rows = Table.grid(padding=(0, 1))
        rows.width = self._width - ECHO_ROOM
        rows.add_column(width=1)
        rows.add_column(no_wrap=True, overflow="ellipsis", ratio=2)
        rows.add_column(no_wrap=True, overflow="ellipsis", ratio=3)
        rows.add_column(no_wrap=True, justify="right")
        frame = self._spinner.render(time.monotonic())
        for agent in (sent or busy)[: max(self._console.height - 2, 1)]:
            title = agent.agent if agent.conversation else f"{agent.agent}: {agent.title}"
            rows.add_row(
                frame,
                Text(visible_line(title, 80), "bold"),
                Text(visible_line(agent.doing, 120), step_style(agent, "red", "dim")),
                Text(f"{agent.turns}t {seconds(agent.elapsed(now))}", "dim"),
            )
        return Group(rows) if busy else Text("")


def terminal() -> Console:
    """A console on the terminal: no escape codes at all where colours are not wanted or not known."""
    stream = sys.stderr if sys.stderr.isatty() else sys.stdout
    if bare_terminal():
        return Console(file=stream, force_terminal=False, color_system=None, highlight=False)
    return Console(file=stream, highlight=False)


def launch_panel(agent: AgentView, width: int) -> Panel:
    """Who was sent, with what, on which model."""
    rows = Table.grid(padding=(0, 1))
    for label, value in (("Type", agent.agent), ("Task", agent.title), ("Model", agent.model)):
        rows.add_row(Text(f"{label}:", "bold"), Text(visible_line(value)))
    return _panel(rows, "Launching Subagent", "cyan", width)


def background_line(agent: AgentView, *, kept: bool) -> str:
    """That an agent works in the background, and where there is a journal, how to look at it."""
    line = f"[Task running in background: agent-{agent.id}]"
    return f"{line} Progress: gen task show {agent.id}" if kept else line


def result_panel(agent: AgentView, now: str, width: int, most: int | None, more: str) -> Panel:
    """What came back, at most so many lines of it: green when it completed, red when it did not."""
    well = agent.status is Status.COMPLETED
    text = agent.result.strip() or agent.error or "(no output)"
    lines = visible(text).splitlines()
    body = Text("\n".join(lines[:most])[: None if most is None else RESULT_ROOM])
    if most is not None and len(lines) > most:
        body.append(
            f"\n… {len(lines) - most} more {'line' if len(lines) - most == 1 else 'lines'}{more}", "dim"
        )
    if not well and agent.error and agent.result.strip():
        body.append(f"\n{visible_line(agent.error)}", "red")
    for line in receipt_lines(agent):
        body.append(f"\n{line}", "yellow")
    title = f"Subagent Result · {visible_line(agent.agent)}: {visible_line(agent.title, 60)}"
    panel = _panel(body, title, "green" if well else "red", width)
    panel.subtitle = Text(ending(agent, now))
    return panel


def _panel(body: RenderableType, title: str, colour: str, width: int) -> Panel:
    return Panel(body, title=Text(title), title_align="left", border_style=colour, box=ROUNDED, width=width)
