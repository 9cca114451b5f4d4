"""What is read and typed in: a transcript with everything around it, and the screen of the conversation."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from gencode.core.events import Event
from gencode.core.ids import stamp
from gencode.core.text import visible_line
from gencode.interfaces.chat.chat_session import ANSWER_THERE
from gencode.interfaces.chat.info_pages import MODES
from gencode.interfaces.render.agent_view import AgentView, View, busy, figures, path, spent, state
from gencode.interfaces.render.number_format import money, tokens
from gencode.interfaces.render.transcript import Transcript, hear
from gencode.interfaces.tui.agent_panels import line
from gencode.interfaces.tui.composer import Composer
from gencode.interfaces.tui.error_boundary import ActionBorder
from gencode.interfaces.tui.question_dialogs import asked_line
from gencode.interfaces.tui.rich_renderer import Paper
from gencode.interfaces.tui.show_result import sent_back
from gencode.interfaces.tui.transcript_view import TranscriptView
from gencode.interfaces.tui.tree import TreePanel

if TYPE_CHECKING:
    from gencode.interfaces.tui.app import TerminalApp

MOST_STRIP = 4
MOST_MEANWHILE = 200
_NO_VIEW = View()
WELCOME = "Ask something, or type /help"
ROOMY = 100
FIRST_KEYS = (
    ("/", "commands; /help lists them with all keys"),
    ("@", "names a file"),
    ("Ctrl+J", "a new line"),
    ("Ctrl+T", "the tree of all agents"),
    ("Shift+Tab", "the next permission mode"),
    ("Esc", "interrupts"),
    ("Ctrl+D", "quits"),
)


class Bar(Widget):
    """Some lines, as high as there are lines; gone when there are none."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._paper = Paper(dark=True)
        self._lines: Sequence[Text] = ()
        self._style: Style | None = None
        self.display = False

    def use(self, paper: Paper) -> None:
        """Draw in other colours."""
        self._paper = paper
        self._style = None
        self.refresh()

    def show(self, lines: Sequence[Text]) -> None:
        """Show other lines; only those that changed are drawn."""
        before, self._lines = self._lines, lines
        if len(lines) != len(before):
            self.styles.height = len(lines)
            self.display = bool(lines)
            self.refresh()
            return
        width = self.outer_size.width
        if changed := [at for at, line in enumerate(lines) if line != before[at]]:
            self._style = None
            self.refresh(*(Region(0, at, width, 1) for at in changed))

    @property
    def shown(self) -> str:
        """The text of all lines, for those who cannot see colours."""
        return "\n".join(line.plain for line in self._lines)

    def render_line(self, y: int) -> Strip:
        """One line, cut where the screen ends."""
        width = self.size.width
        if self._style is None:  # looked up once for all lines: that takes longer than to draw one
            self._style = self.rich_style
        style = self._style
        if y >= len(self._lines):
            return Strip.blank(width, style)
        strip = self._paper.line(self._lines[y], width)
        return strip.crop_extend(0, width, style).apply_style(style)


class TranscriptScreen(ActionBorder, Screen[None]):
    """A transcript with everything around it. `task` is whose; empty before anything was asked."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "escape", show=False),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
        Binding("ctrl+o", "unfold_all", show=False, priority=True),
    ]

    def __init__(self, host: "TerminalApp", task: str = "") -> None:
        super().__init__()
        self.host = host
        self.whose = task
        self.transcript = Transcript(task)
        self.reading = TranscriptView()
        self.composer = Composer(host.history, host.offers)
        self.head = Bar(id="head")
        self.strip = Bar(id="strip")
        self.foot = Bar(id="foot")
        self.dirty = True
        self._meanwhile: list[Event] = []

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield self.head
        yield from self.middle()
        yield self.strip
        yield self.composer
        yield self.foot

    def middle(self) -> ComposeResult:
        """What is read."""
        yield self.reading

    def on_mount(self) -> None:
        """Typing comes first."""
        self.use(self.host.paper)
        self.composer.editor.focus()

    def on_resize(self) -> None:
        """Lines that are broken for the width are broken anew."""
        self.dirty = True

    def use(self, paper: Paper) -> None:
        """Draw everything in other colours."""
        for part in (self.reading, self.head, self.strip, self.foot):
            part.use(paper)

    async def load(self, most: int | None = None) -> None:
        """Read the transcript from the journal."""
        talk = self.host.talk
        self._meanwhile = []
        transcript = Transcript(self.whose)
        if talk is not None and self.whose:
            transcript = await talk.transcript(self.whose, most or self.transcript.most)
        for event in self._meanwhile:  # those that came while it was read
            if event.task != self.whose or (event.seq or 0) > transcript.seq:
                transcript = hear(transcript, event)
        if transcript.task == self.whose:  # another one may be shown by now
            self.transcript = transcript
        self.dirty = True

    def hear(self, event: Event) -> None:
        """Take in one event."""
        if event.seq is not None:
            self._meanwhile = [*self._meanwhile[-MOST_MEANWHILE:], event]
        elif event.task == self.whose and self.agent is not None and self.agent.status.ended:
            return  # a piece of what was read from the journal already
        self.transcript = hear(self.transcript, event)
        self.dirty = True

    def paint(self) -> None:
        """Show how everything stands now."""
        if not self.is_mounted:
            return
        now = stamp()
        talk = self.host.talk
        agents = talk.view.agents if talk else {}
        queued = list(talk.queued.values()) if talk and self.whose == talk.session else []
        self.head.show([self.title_line()])
        self.strip.show([*self.agents_at_work(now), *self.host.notice_lines()])
        self.foot.show([asked_line(self.host.screen) or self.focus_line() or self.foot_line()])
        self.reading.show(self.transcript, agents, queued, now)
        self.dirty = False

    def title_line(self) -> Text:
        """What this screen shows."""
        raise NotImplementedError

    def foot_line(self) -> Text:
        """What can be done here."""
        raise NotImplementedError

    def focus_line(self) -> Text | None:
        """What has the keys, when it is not the text."""
        if not self.reading.has_focus:
            return None
        line = Text("[transcript] ", "you")
        return line.append("Up, Down · Enter opens · what you type goes to the text · Esc", "faint")

    def agents_at_work(self, now: str) -> list[Text]:
        """One line for each agent at work below this one, the first few of them."""
        talk = self.host.talk
        below = busy(talk.view, self.whose) if talk and self.whose else []
        lines = [line(agent, now) for agent in below[:MOST_STRIP]]
        if len(below) > MOST_STRIP:
            lines.append(Text(f"… and {len(below) - MOST_STRIP} more agents (Ctrl+T)", "faint"))
        return lines

    @property
    def agent(self) -> AgentView | None:
        """The agent whose transcript this is."""
        return self.host.talk.view.agents.get(self.whose) if self.host.talk else None

    def on_transcript_view_opened(self, event: TranscriptView.Opened) -> None:
        """One agent is looked at; of several the tree is shown."""
        if len(event.tasks) == 1:
            self.host.look_at(event.tasks[0])
        else:
            self.host.show_tree(event.tasks[0])

    def on_transcript_view_more_wanted(self) -> None:
        """Read further back than what is kept; keys do not wait for it."""
        self.host.do(self.load(self.transcript.most * 2))

    def on_composer_left(self) -> None:
        """From the text to the transcript."""
        self.reading.focus()

    def on_composer_sent(self, event: Composer.Sent) -> None:
        """Something was said, or a command given."""
        self.reading.action_to_end()
        self.host.typed(event.text, self.whose)

    def on_descendant_focus(self) -> None:
        """The line below says what has the keys."""
        self.dirty = True

    on_screen_suspend = on_screen_resume = on_descendant_focus

    def action_page(self, by: int) -> None:
        """Scroll the transcript, wherever the focus is."""
        if by < 0:
            self.reading.action_page_up()
        else:
            self.reading.action_page_down()

    def action_unfold_all(self) -> None:
        """Open or close all details."""
        self.reading.toggle_all()

    def action_escape(self) -> None:
        """Go back to typing; there it means more."""
        if not self.composer.editor.has_focus:
            self.composer.editor.focus()
        else:
            self.escaped()

    def escaped(self) -> None:
        """Escape was pressed while nothing else was to be closed."""
        raise NotImplementedError


class ConversationScreen(TranscriptScreen):
    """The main conversation, with the tree of all agents beside or above it."""

    def __init__(self, host: "TerminalApp") -> None:
        super().__init__(host)
        self.branches = TreePanel()

    def middle(self) -> ComposeResult:
        """The transcript and the tree."""
        with Horizontal(id="middle"):
            yield self.reading
            self.branches.display = False
            yield self.branches

    def use(self, paper: Paper) -> None:
        """Draw everything in other colours."""
        super().use(paper)
        self.branches.use(paper)

    def on_resize(self) -> None:
        """Where there is room, both are seen."""
        super().on_resize()
        self._arrange()

    async def load(self, most: int | None = None) -> None:
        """Where nothing was said yet there is no tree to look at."""
        await super().load(most)
        if not self.whose and self.branches.display:
            self.toggle_tree()

    def _arrange(self) -> None:
        self.reading.display = not self.branches.display or self.size.width >= 150

    def toggle_tree(self, task: str = "") -> None:
        """Show the tree and stand in it, or put it away."""
        self.branches.display = True if task else not self.branches.display
        self._arrange()
        self.paint()
        if self.branches.display:
            self.branches.focus()
            if task:
                self.branches.choose(task)
        else:
            self.composer.editor.focus()

    def paint(self) -> None:
        """The tree too, when it is in sight."""
        self.reading.greeting = None if self.whose else self._greeting()
        super().paint()
        if self.is_mounted and self.branches.display:
            talk = self.host.talk
            self.branches.show(talk.view if talk else _NO_VIEW, self.whose, stamp())

    def agents_at_work(self, now: str) -> list[Text]:
        """Nothing twice: the tree shows them already."""
        return [] if self.branches.display else super().agents_at_work(now)

    def title_line(self) -> Text:
        """Where we are, who answers, and how it stands."""
        host, agent = self.host, self.agent
        line = Text("GenCode", "bold")
        line.append(f" · {visible_line(host.folder, 60)}", "faint")
        line.append(f" · {visible_line(host.model_name, 40)}", "faint")
        if agent is not None and host.talk is not None:
            total = spent(host.talk.view, self.whose)
            cost = money(total.usd)
            line.append(f" · session {self.whose} · {tokens(total)}{f' · {cost}' if cost else ''}", "faint")
        return line

    def foot_line(self) -> Text:
        """The mode, what typing does at this moment, and the keys."""
        host, talk = self.host, self.host.talk
        mode, line = host.mode, self._mode_text()
        if talk is None:
            return line.append(host.opening, "faint")
        if talk.working:
            heard = "heard before the next reply" if self.size.width >= ROOMY else "heard next"
            return line.append(f"● working · Enter: {heard} · Esc interrupts · Ctrl+B background", "busy")
        if talk.running:
            return line.append("◌ waits for background work · Enter: answered at once · Ctrl+T tree", "busy")
        if talk.led_elsewhere and (asked := talk.asked_elsewhere.first):
            tool = visible_line(asked[1], 30)
            return line.append(f"? {asked[0]} asks to use {tool}: {ANSWER_THERE}", "warn")
        if talk.led_elsewhere:
            return line.append(
                "● another process is at work here · Enter: heard before its next reply", "busy"
            )
        hint = f"{MODES[mode]} · {WELCOME}" if not self.whose else "Enter sends · Ctrl+T tree · /help"
        return line.append(hint, "faint")

    def _mode_text(self) -> Text:
        mode = self.host.mode
        return Text(f"[{mode}] ", "warn" if mode.value == "dontAsk" else "good")

    def _greeting(self) -> Text:
        """What a conversation shows in which nothing was said yet."""
        greeting = Text("\nAsk about this folder, or say what should be done in it.\n", "bold")
        greeting.append(
            "The agent sends others where that helps, and you can watch and steer each of them.\n"
        )
        width = max(len(key) for key, _ in FIRST_KEYS)
        for key, says in FIRST_KEYS:
            greeting.append(f"\n  {key:{width}}  ", "you")
            greeting.append(says, "faint")
        return greeting

    def focus_line(self) -> Text | None:
        """The tree has keys of its own."""
        line = super().focus_line()
        if self.branches.has_focus:
            line = Text("[tree] ", "you")
            line.append("letters are verbs for the marked one · / goes to the text · Esc back", "faint")
        return line and self._mode_text().append_text(line)

    def action_page(self, by: int) -> None:
        """The tree has pages as well."""
        if self.branches.has_focus:
            self.branches.move(10 * by)
        else:
            super().action_page(by)

    def action_escape(self) -> None:
        """Put the tree away first."""
        if self.branches.display and self.branches.has_focus:
            self.toggle_tree()
        else:
            super().action_escape()

    def escaped(self) -> None:
        """Interrupt the turn."""
        self.host.interrupt()

    def on_tree_panel_opened(self, event: TreePanel.Opened) -> None:
        """An agent is looked at; the conversation itself is here."""
        if event.task == self.whose:
            self.toggle_tree()
        else:
            self.host.look_at(event.task)

    def on_tree_panel_struck(self, event: TreePanel.Struck) -> None:
        """A verb is meant for an agent; steering is done where its transcript is."""
        if event.verb == "steer":
            self.host.look_at(event.task)
        else:
            self.host.apply_action(event.task, event.verb)

    def on_tree_panel_sent_back(self, event: TreePanel.SentBack) -> None:
        """An agent is to go to the background."""
        if self.host.talk is not None:
            self.host.do(sent_back(self.host, self.host.talk, event.task))


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
