"""The screen of one agent: its live transcript, and where it is steered."""

from typing import TYPE_CHECKING

from rich.text import Text

from gencode.core.ids import stamp
from gencode.core.visible import visible_line
from gencode.interfaces.render.agent_tree import path
from gencode.interfaces.render.number_format import figures, state
from gencode.interfaces.tui.screens import TranscriptScreen

if TYPE_CHECKING:
    from gencode.interfaces.tui.app import TerminalApp


class AgentScreen(TranscriptScreen):
    """The live transcript of one agent; what is typed here steers it."""

    def __init__(self, host: "TerminalApp", task: str) -> None:
        super().__init__(host, task)
        self._left = False

    def leave(self) -> None:
        """Go: now, or when what lies on it was answered or closed."""
        self._left = True
        self.on_screen_resume()

    def on_screen_resume(self) -> None:
        """What was left does not come back."""
        if self._left and self.is_active:
            self.host.look_back()

    def title_line(self) -> Text:
        """Which agent this is, from the main one down, and how it stands."""
        talk, agent = self.host.talk, self.agent
        names = path(talk.view, self.whose) if talk else ()
        line = Text(" › ".join(visible_line(name, 30) for name in names) or self.whose, "bold")
        line.append(f" · {self.whose}", "faint")
        if agent is not None:
            where = " · background" if agent.background else ""
            line.append(f" · {state(agent)}{where} · {figures(agent, stamp())}", "busy")
        return line

    def foot_line(self) -> Text:
        """What typing does here."""
        agent = self.agent
        name = visible_line(agent.agent, 30) if agent else self.whose
        ended = agent is not None and agent.status.ended
        asks = "" if self.host.talk is not None and self.host.talk.woken_ask else " without questions"
        does = f"steers {name} before its next reply"
        if ended:
            does = f"wakes {name}, which has ended, in the background{asks}"
        line = Text(f"Enter: {does} ", "good")
        return line.append("· Esc back · /interrupt /keep /stop /stop-tree", "faint")

    def escaped(self) -> None:
        """Go back to where we came from."""
        self.host.look_back()
