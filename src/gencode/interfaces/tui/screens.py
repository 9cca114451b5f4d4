"""Screens: a transcript with its bars and input, for the conversation and for one agent."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from rich.style import Style
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from gencode.core.events import Event
from gencode.core.ids import moment, stamp
from gencode.core.messages import Usage
from gencode.core.rules import Mode
from gencode.core.text import visible_line
from gencode.interfaces.chat.chat_session import ANSWER_THERE
from gencode.interfaces.chat.info_pages import MODES
from gencode.interfaces.chat.notices import Notice
from gencode.interfaces.render.agent_view import AgentView, View, busy, figures, path, spent, state
from gencode.interfaces.render.file_diff import change_counts
from gencode.interfaces.render.number_format import counted, money, seconds, tokens
from gencode.interfaces.render.transcript import Transcript, current_steps, hear
from gencode.interfaces.tui.agent_rows import working_agent
from gencode.interfaces.tui.clipboard import copied_picture
from gencode.interfaces.tui.composer import Composer
from gencode.interfaces.tui.dialogs import FRAME_LINES, Dialog, PageScreen, PickScreen, RenderedText
from gencode.interfaces.tui.diff_view import DiffView
from gencode.interfaces.tui.entry_renderers import changed_file, long_diff, step_lines
from gencode.interfaces.tui.error_boundary import ErrorBoundary
from gencode.interfaces.tui.external_editor import edit_text
from gencode.interfaces.tui.question_dialogs import dialog_keys_line
from gencode.interfaces.tui.show_result import choose_action
from gencode.interfaces.tui.strip_renderer import StripRenderer
from gencode.interfaces.tui.transcript_view import TranscriptView
from gencode.interfaces.tui.tree import TreePanel

if TYPE_CHECKING:
    from gencode.interfaces.tui.app import TerminalApp

MAX_BACKGROUND_LINES = 4
MAX_STEPS = 6
WELCOME = "Ask something, or type /help"
WIDE_COLUMNS = 100
NEARLY_FULL = 0.7
"""From this share on the context of a conversation is marked: it will be summarised soon."""
MAX_BUFFERED_EVENTS = 200
_NO_VIEW = View()
FIRST_KEYS = (
    ("/", "commands (/help lists them all)"),
    ("@", "mention a file"),
    ("new_line", "new line"),
    ("tree", "agent tree"),
    ("mode", "next permission mode"),
    ("Esc", "interrupt"),
    ("Ctrl+D", "quit"),
)


def spread(left: Text, right: Text, width: int) -> Text:
    """Two texts at the two ends of a line; where there is little room, the right one is cut."""
    room = width - left.cell_len - 2
    right.truncate(max(room, 0), overflow="ellipsis")
    return Text.assemble(left, " " * (width - left.cell_len - right.cell_len), right)


def capitalised(text: str) -> str:
    """A text with a capital letter at its beginning."""
    return f"{text[:1].upper()}{text[1:]}"


class StatusBar(Widget):
    """A few lines that are always visible, redrawn without moving anything around them."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._renderer = StripRenderer(dark=True)
        self._lines: Sequence[Text] = ()
        self._style: Style | None = None
        self.display = False

    def use(self, renderer: StripRenderer) -> None:
        """Draw in other colours."""
        self._renderer = renderer
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
        strip = self._renderer.line(self._lines[y], width)
        return strip.crop_extend(0, width, style).apply_style(style)


class TranscriptScreen(ErrorBoundary, Screen[None]):
    """A transcript with its bars and input. `task` is whose it is; empty in a new conversation."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "escape", show=False),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
        Binding("ctrl+o", "unfold_all", show=False, priority=True, id="details"),
        Binding("ctrl+r", "search_history", show=False, id="history"),
        Binding("ctrl+g", "edit_prompt", show=False, id="editor"),
    ]

    def __init__(self, host: "TerminalApp", task: str = "") -> None:
        super().__init__()
        self.host = host
        self.task_id = task
        self.transcript = Transcript(task)
        self.transcript_view = TranscriptView()
        self.composer = Composer(host.history, host.completions, vim=host.vim)
        self.title_bar = StatusBar(id="head")
        self.activity_bar = StatusBar(id="strip")
        self.status_bar = StatusBar(id="foot")
        self.dirty = True
        self._buffered: list[Event] = []

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield self.title_bar
        yield from self.compose_middle()
        yield self.activity_bar
        yield self.composer
        yield self.status_bar

    def compose_middle(self) -> ComposeResult:
        """What is read."""
        yield self.transcript_view

    def on_mount(self) -> None:
        """Typing comes first."""
        self.use(self.host.renderer)
        self.composer.editor.focus()

    def on_resize(self) -> None:
        """Lines that are broken for the width are broken anew."""
        self.dirty = True

    def use(self, renderer: StripRenderer) -> None:
        """Draw everything in other colours."""
        for part in (self.transcript_view, self.title_bar, self.activity_bar, self.status_bar):
            part.use(renderer)

    async def load(self, most: int | None = None) -> None:
        """Read the transcript from the journal."""
        chat = self.host.chat
        self._buffered = []
        transcript = Transcript(self.task_id)
        if chat is not None and self.task_id:
            transcript = await chat.transcript(self.task_id, most or self.transcript.most)
        for event in self._buffered:  # those that came while it was read
            if event.task != self.task_id or (event.seq or 0) > transcript.seq:
                transcript = hear(transcript, event)
        if transcript.task == self.task_id:  # another one may be shown by now
            self.transcript = transcript
        self.dirty = True

    def receive(self, event: Event) -> None:
        """Take in one event."""
        if event.seq is not None:
            self._buffered = [*self._buffered[-MAX_BUFFERED_EVENTS:], event]
        elif event.task == self.task_id and self.agent is not None and self.agent.status.ended:
            return  # a piece of what was read from the journal already
        self.transcript = hear(self.transcript, event)
        self.dirty = True

    def paint(self) -> None:
        """Show how everything stands now."""
        if not self.is_mounted:
            return
        now = stamp()
        chat = self.host.chat
        agents = chat.view.agents if chat else {}
        queued = list(chat.queued.values()) if chat and self.task_id == (chat.session or "") else []
        self.title_bar.show([spread(*self.title_texts(), self.size.width - 2)])
        self._show_activity(now)
        self.status_bar.show([dialog_keys_line(self.host.screen) or self.focus_text() or self.status_text()])
        self.transcript_view.show(self.transcript, agents, queued, now)
        self.dirty = False

    def _show_activity(self, now: str) -> None:
        """Show what goes on, above the input."""
        self.activity_bar.show(
            [*self.background_lines(now), *self.working_lines(now), *self.host.notice_lines()]
        )

    def move_spinner(self) -> None:
        """Move the spinner and the clock while the agent works."""
        if self.is_mounted and self.is_working:
            self._show_activity(stamp())

    @property
    def is_working(self) -> bool:
        """Whether the agent of this screen works at this moment."""
        return self.agent is not None and self.agent.working

    def title_texts(self) -> tuple[Text, Text]:
        """What this screen shows, and what stands at the right end."""
        raise NotImplementedError

    def working_lines(self, now: str) -> list[Text]:
        """What the agent does at this moment, for how long, and the steps it has listed."""
        agent = self.agent
        if agent is None or not self.is_working:
            return []
        line = Text(f"{self.host.spinner} ", "busy")
        line.append(f"{self._activity(agent)}", "busy")
        run = Usage(
            agent.usage.input_tokens - agent.before.input_tokens,
            agent.usage.output_tokens - agent.before.output_tokens,
        )
        used = f" · {tokens(run)}" if run != Usage() else ""
        began = agent.since or now
        line.append(f" {seconds((moment(now) - moment(began)).total_seconds(), whole=True)}{used}", "faint")
        line.append(" · Esc interrupts" if self.escape_interrupts else "", "faint")
        steps = current_steps(self.transcript)
        most = min(MAX_STEPS, max(self.size.height // 6 - 1, 1))
        return [line, *(step_lines(steps, most).split("\n") if steps else [])]

    def _activity(self, agent: AgentView) -> str:
        """What an agent does, in a word or two."""
        if self.host.desk.waiting():
            return "Waiting for your answer"
        children = [each for each in self.host.agents if each.parent == agent.id and not each.background]
        working = sum(not each.status.ended for each in children)
        if working:
            return f"Waiting for {counted(working, 'agent')}"
        match agent.activity:
            case "thinking" if agent.stalled:
                return "No reply yet"
            case "thinking":
                return "Thinking"
            case "answering":
                return "Answering"
            case "calling":
                running = [each.tool for each in self.transcript.running]
                return (
                    f"Running {visible_line(', '.join(dict.fromkeys(running)), 60)}" if running else "Working"
                )
            case "waiting":
                return visible_line(agent.step, 60)

    escape_interrupts = False
    """Whether Esc interrupts the agent of this screen."""

    def status_text(self) -> Text:
        """What can be done here."""
        raise NotImplementedError

    def focus_text(self) -> Text | None:
        """What has the keyboard focus, if not the input; first of all what is selected."""
        if self.selections:
            line = Text.assemble(("Selection ", "you"))
            return line.append("· Ctrl+C copies · Esc clears · Shift+drag: terminal's own", "faint")
        if not self.transcript_view.has_focus:
            return None
        line = Text.assemble(("Transcript ", "you"))
        return line.append("· Up and Down select · Enter opens · Esc back to the prompt", "faint")

    def background_lines(self, now: str) -> list[Text]:
        """One line for each agent and command in the background, the first few of them."""
        chat = self.host.chat
        if chat is None or not self.task_id:
            return []
        agents = [each for each in busy(chat.view, self.task_id) if each.background]
        commands = chat.gen.running.commands() if self.task_id == chat.session else ()
        lines = [working_agent(agent, now) for agent in agents]
        lines += [
            Text(f"● $ {visible_line(each.order.text, 100)} · in the background", "call") for each in commands
        ]
        more = len(lines) - MAX_BACKGROUND_LINES
        if more > 1:
            hint = f"… and {more} more in the background ({self.host.key('tree')})"
            lines[MAX_BACKGROUND_LINES:] = [Text(hint, "faint")]
        return lines

    @property
    def agent(self) -> AgentView | None:
        """The agent whose transcript this is."""
        return self.host.chat.view.agents.get(self.task_id) if self.host.chat else None

    def on_transcript_view_opened(self, event: TranscriptView.Opened) -> None:
        """One agent is looked at; of several the tree is shown."""
        if len(event.tasks) == 1:
            self.host.open_agent(event.tasks[0])
        else:
            self.host.show_tree(event.tasks[0])

    def on_transcript_view_change_opened(self, event: TranscriptView.ChangeOpened) -> None:
        """All lines of a change, as large as the screen."""
        path, diff = changed_file(event.call), long_diff(event.call)
        drawn = DiffView(diff, path, self.host.renderer.code)
        title = f"{event.call.tool} {path} {change_counts(diff)}"
        self.host.push_screen(PageScreen(title, RenderedText(drawn, self.host.renderer)))

    def on_transcript_view_more_wanted(self) -> None:
        """Read further back than what is kept; keys do not wait for it."""
        self.host.start_action(self.load(self.transcript.most * 2))

    def on_composer_transcript_wanted(self) -> None:
        """From the text to the transcript."""
        self.transcript_view.focus()

    def on_composer_submitted(self, event: Composer.Submitted) -> None:
        """Something was said, or a command given."""
        self.transcript_view.action_to_end()
        self.host.submit(event.text, self.task_id, event.images, event.draft)

    def on_composer_remarked(self, event: Composer.Remarked) -> None:
        """Something about what was pasted has to be said."""
        self.host.show_notice(Notice(event.text, "warning"))

    def on_editor_picture_wanted(self) -> None:
        """Ctrl+V: a picture, which no terminal pastes, or what was copied in the app."""
        self.host.start_action(self._paste_picture())

    async def _paste_picture(self) -> None:
        if raw := await copied_picture():
            self.composer.attach_picture(raw)
        else:
            self.composer.editor.paste_copied()

    def action_search_history(self) -> None:
        """Choose one of the earlier prompts, which typing narrows."""
        self.host.start_action(self._search_history())

    async def _search_history(self) -> None:
        prompts = list(dict.fromkeys(reversed(self.host.history.prompts)))
        lines = [(str(number), visible_line(prompt, 300)) for number, prompt in enumerate(prompts)]
        if (chosen := await self.host.ask(PickScreen("Earlier prompts", lines))) is not None:
            self.composer.set_text(prompts[int(chosen)])

    def action_edit_prompt(self) -> None:
        """Write the prompt in the person's own editor."""
        self.host.start_action(self._edit_prompt())

    async def _edit_prompt(self) -> None:
        self.composer.set_text(await edit_text(self.host, self.composer.whole_text))

    def on_descendant_focus(self) -> None:
        """The line below says what has the keyboard focus."""
        self.dirty = True

    on_screen_suspend = on_screen_resume = watch_selections = on_descendant_focus

    def action_page(self, by: int) -> None:
        """Scroll the transcript, wherever the focus is."""
        if by < 0:
            self.transcript_view.action_page_up()
        else:
            self.transcript_view.action_page_down()

    def action_unfold_all(self) -> None:
        """Open or close all details."""
        self.transcript_view.toggle_all()

    def action_escape(self) -> None:
        """Select nothing any more, or go back to typing; there it means more."""
        if self.selections:
            self.clear_selection()
        elif not self.composer.editor.has_focus:
            self.composer.editor.focus()
        else:
            self.escape_pressed()

    def escape_pressed(self) -> None:
        """Escape was pressed while nothing else was to be closed."""
        raise NotImplementedError


class ConversationScreen(TranscriptScreen):
    """The main conversation, with the agent tree beside or above it."""

    def __init__(self, host: "TerminalApp") -> None:
        super().__init__(host)
        self.agent_tree = TreePanel()

    def compose_middle(self) -> ComposeResult:
        """The transcript and the tree."""
        with Horizontal(id="middle"):
            yield self.transcript_view
            self.agent_tree.display = False
            yield self.agent_tree

    def use(self, renderer: StripRenderer) -> None:
        """Draw everything in other colours."""
        super().use(renderer)
        self.agent_tree.use(renderer)

    def on_resize(self) -> None:
        """Where there is room, both are seen."""
        super().on_resize()
        self._arrange()

    async def load(self, most: int | None = None) -> None:
        """Where nothing was said yet there is no tree to look at."""
        await super().load(most)
        if not self.task_id and self.agent_tree.display:
            self.toggle_tree()

    def _arrange(self) -> None:
        self.transcript_view.display = not self.agent_tree.display or self.size.width >= 150

    def toggle_tree(self, task: str = "") -> None:
        """Show the tree and stand in it, or put it away."""
        self.agent_tree.display = True if task else not self.agent_tree.display
        self._arrange()
        self.paint()
        if self.agent_tree.display:
            self.agent_tree.focus()
            if task:
                self.agent_tree.select(task)
        else:
            self.composer.editor.focus()

    def paint(self) -> None:
        """The tree too, when it is in sight."""
        self.transcript_view.greeting = None if self.task_id else self._greeting()
        super().paint()
        if self.is_mounted and self.agent_tree.display:
            chat = self.host.chat
            self.agent_tree.show(chat.view if chat else _NO_VIEW, self.task_id, stamp())

    def background_lines(self, now: str) -> list[Text]:
        """Nothing twice: the tree shows them already."""
        return [] if self.agent_tree.display else super().background_lines(now)

    escape_interrupts = True

    @property
    def is_working(self) -> bool:
        """Whether a turn is at work; one that only waits for background tasks is not."""
        return self.host.chat is not None and self.host.chat.working

    def title_texts(self) -> tuple[Text, Text]:
        """The folder; then the model, how full its context is, and what the conversation has cost."""
        host, agent = self.host, self.agent
        line = Text.assemble(("GenCode", "bold"))
        line.append(f"  {visible_line(host.folder, 60)}", "faint")
        right = Text(visible_line(host.model_name, 40), "faint")
        if agent is not None and host.chat is not None:
            total = spent(host.chat.view, self.task_id)
            right.append_text(self._context_text(agent))
            wide = self.size.width >= WIDE_COLUMNS
            right.append(f" · {tokens(total)}" if total.output_tokens and wide else "", "faint")
            cost = money(total.usd)
            right.append(f" · {cost}" if cost else "", "faint")
        return line, right

    def _context_text(self, agent: AgentView) -> Text:
        """How much of what the model can read is used."""
        if not agent.context or self.host.chat is None:
            return Text()
        share = agent.context / self.host.chat.gen.models.context(agent.model)
        return Text(f" · {share:.0%} context", "warn" if share >= NEARLY_FULL else "faint")

    def status_text(self) -> Text:
        """The mode, what typing does at this moment, and the keys."""
        host, chat = self.host, self.host.chat
        line, tree = self._mode_text(), f"{host.key('tree')} agents"
        if chat is None:
            return line.append(host.opening_text, "faint")
        if chat.working:
            return line.append(
                f"Enter queues a message · {host.key('background')} background · {tree}", "faint"
            )
        if chat.running:
            return line.append(f"Background task running · you can keep typing · {tree}", "faint")
        if chat.running_elsewhere and (asked := chat.remote_questions.first):
            tool = visible_line(asked[1], 30)
            return line.append(f"{asked[0]} needs approval to use {tool}: {ANSWER_THERE}", "warn")
        if chat.running_elsewhere:
            return line.append("Running in another process · Enter queues your message", "busy")
        keys = f"Enter sends · {host.key('mode')} mode · {tree} · /help"
        return line.append(keys if self.task_id else WELCOME, "faint")

    def _mode_text(self) -> Text:
        mode = self.host.mode
        style = "faint" if mode is Mode.DEFAULT else "warn" if mode is Mode.DONT_ASK else "you"
        return Text(f"{mode} mode", style).append(" · ", "faint")

    def _greeting(self) -> Text:
        """What a conversation shows in which nothing was said yet."""
        greeting = Text("\nAsk about this folder, or describe a task.\n", "bold")
        greeting.append(
            f"{capitalised(MODES[self.host.mode])}.\n"
            "The agent starts subagents where that helps; you can watch and steer each of them.\n",
            "call",
        )
        first = [(self.host.key(key), says) for key, says in FIRST_KEYS]
        width = max(len(key) for key, _ in first)
        for key, says in first:
            greeting.append(f"\n  {key:{width}}  ", "you")
            greeting.append(says, "faint")
        return greeting

    def focus_text(self) -> Text | None:
        """The tree has keys of its own."""
        line = super().focus_text()
        if self.agent_tree.has_focus:
            line = Text.assemble(("Agents ", "you"))
            line.append("· Enter opens · → stop and other actions · Esc back", "faint")
        return line and self._mode_text().append_text(line)

    def action_page(self, by: int) -> None:
        """The tree has pages as well."""
        if self.agent_tree.has_focus:
            self.agent_tree.move(10 * by)
        else:
            super().action_page(by)

    def action_escape(self) -> None:
        """Put the tree away first, also where what was typed in it went to the input."""
        if self.agent_tree.display and not (self.transcript_view.display and self.composer.editor.has_focus):
            self.toggle_tree()
        else:
            super().action_escape()

    def escape_pressed(self) -> None:
        """Interrupt the turn."""
        self.host.interrupt()

    def on_tree_panel_opened(self, event: TreePanel.Opened) -> None:
        """An agent is looked at; the conversation itself is here."""
        if event.task == self.task_id:
            self.toggle_tree()
        else:
            self.host.open_agent(event.task)

    def on_tree_panel_actions_wanted(self, event: TreePanel.ActionsWanted) -> None:
        """What can be done with an agent is chosen from a list, and confirmed."""
        if self.host.chat is not None:
            self.host.start_action(choose_action(self.host, self.host.chat, event.task))


class TreeScreen(Dialog[None]):
    """The agent tree on top of a question, which waits until this page is closed."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", show=False)]
    key_help = "Enter opens · → stop and other actions · Esc back to the question"

    def __init__(self, host: "TerminalApp") -> None:
        super().__init__()
        self._host = host
        self._tree = TreePanel()
        self._tree.use(host.renderer)

    def compose(self) -> ComposeResult:
        """Nothing but the tree, which has a head of its own."""
        with Vertical(classes="dialog wide") as dialog:
            dialog.border_subtitle = self.key_help
            yield self._tree

    def on_mount(self) -> None:
        """The agents go on meanwhile."""
        self._tree.focus()
        self._show()
        self.set_interval(1.0, self._show)

    def _show(self) -> None:
        chat = self._host.chat
        self._tree.show(chat.view if chat else _NO_VIEW, self._host.main.task_id, stamp())
        self._tree.styles.height = min(self._tree.virtual_size.height, self.size.height - FRAME_LINES - 2)

    def on_tree_panel_opened(self, event: TreePanel.Opened) -> None:
        """An agent is looked at; the conversation itself lies below the question."""
        if event.task == self._host.main.task_id:
            self.dismiss()
        else:
            self._host.open_agent(event.task)

    def on_tree_panel_actions_wanted(self, event: TreePanel.ActionsWanted) -> None:
        """What can be done with an agent is chosen from a list, and confirmed."""
        if self._host.chat is not None:
            self._host.start_action(choose_action(self._host, self._host.chat, event.task))


class AgentScreen(TranscriptScreen):
    """The live transcript of one agent; messages typed here go to that agent."""

    def __init__(self, host: "TerminalApp", task: str) -> None:
        super().__init__(host, task)
        self._leaving = False

    def close(self) -> None:
        """Go: now, or when what lies on it was answered or closed."""
        self._leaving = True
        self.on_screen_resume()

    def on_screen_resume(self) -> None:
        """What was left does not come back."""
        if self._leaving and self.is_active:
            self.host.close_agent()

    def title_texts(self) -> tuple[Text, Text]:
        """Which agent this is, from the main one down; then how it stands."""
        chat, agent = self.host.chat, self.agent
        names = path(chat.view, self.task_id) if chat else ()
        line = Text.assemble((" › ".join(visible_line(name, 30) for name in names) or self.task_id, "bold"))
        line.append(f" · {self.task_id}", "faint")
        if agent is None:
            return line, Text()
        where = " · background" if agent.background else ""
        return line, Text(f"{state(agent)}{where} · {figures(agent, stamp())}", "faint")

    def status_text(self) -> Text:
        """What typing does here."""
        agent = self.agent
        name = visible_line(agent.agent, 30) if agent else self.task_id
        ended = agent is not None and agent.status.ended
        asks = "" if self.host.chat is not None and self.host.chat.woken_can_ask else ", without questions"
        effect = f"Enter sends {name} a message"
        if ended:
            effect = f"Finished · Enter resumes it in the background{asks}"
        actions = "" if ended else " · /interrupt /keep /stop /stop-tree"
        return Text(f"{effect} ", "call").append(f"· Esc back{actions}", "faint")

    def escape_pressed(self) -> None:
        """Go back to where we came from."""
        self.host.close_agent()
