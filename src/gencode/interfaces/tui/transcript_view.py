"""The transcript widget: renders only changed blocks, and draws only visible lines."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import ClassVar

from msgspec import Struct
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.segment import Segment
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from gencode.interfaces.render.agent_view import AgentView, name_of
from gencode.interfaces.render.text_layout import code_parts, cut
from gencode.interfaces.render.transcript import (
    NOT_SUMMED_UP,
    Call,
    Entry,
    HandedBack,
    IncomingMessage,
    Remark,
    Reply,
    Thought,
    Transcript,
    results_of,
    tasks_of,
)
from gencode.interfaces.tui import agent_rows, entry_renderers
from gencode.interfaces.tui.error_boundary import ErrorBoundary
from gencode.interfaces.tui.strip_renderer import StripRenderer

RENDERED_SCREENS = 3
"""So many screens are drawn at the end of a transcript."""
MORE_BLOCKS = 12
"""So many blocks are drawn more when somebody scrolls up to them."""
GUTTER = 2
EMPTY_TRANSCRIPT = Transcript("")
Agents = Mapping[str, AgentView]
MAX_RESULT_LINES = 40
"""So many lines of each result are shown that was not summed up."""
MAX_CODE_PARTS = 200
"""So many parts of long blocks of code are kept as they were drawn."""


class TranscriptBlock(Struct, eq=False):
    """Entries that are rendered together, after an empty line if there is a `gap`.

    `mark` is everything that the rendering depends on.
    """

    key: int
    entries: tuple[Entry, ...]
    gap: bool = True
    mark: tuple[object, ...] = ()
    strips: Sequence[Strip] = ()

    @property
    def opens(self) -> bool:
        """Whether there is more to see of it."""
        match self.entries:
            case (IncomingMessage() as message,):
                return message.sender != "user" and not message.is_note
            case (Thought() | Call(), *_):
                return True
            case _:
                return False

    @property
    def children(self) -> list[str]:
        """The agents that it sent, or that it tells of."""
        match self.entries:
            case (HandedBack(receipts),):
                return tasks_of(receipts)
            case entries:
                return [each.child for each in entries if isinstance(each, Call) and each.child]


def group_blocks(transcript: Transcript) -> list[TranscriptBlock]:
    """The entries as blocks: calls of one reply that send agents belong together."""
    found: list[TranscriptBlock] = []
    entries = transcript.entries
    at = 0
    while at < len(entries):
        entry = entries[at]
        size = 1
        if isinstance(entry, Call) and entry.sends and entry.group > 1:
            while at + size < len(entries) and _same_launch(entry, size, entries[at + size]):
                size += 1
        gap = not (at and _is_plain_call(entry) and _is_plain_call(entries[at - 1]))
        found.append(TranscriptBlock(transcript.dropped + at, entries[at : at + size], gap))
        at += size
    return found


def _is_plain_call(entry: Entry) -> bool:
    """Whether it is a tool call that starts no agent: several of them stand close together."""
    return isinstance(entry, Call) and not entry.sends


def _same_launch(first: Call, size: int, entry: Entry) -> bool:
    """Whether an agent was sent together with those before it."""
    if not isinstance(entry, Call) or not entry.sends:
        return False
    return (entry.group, entry.number) == (first.group, first.number + size)


class BlockRenderer:
    """Renders blocks, each only when its mark has changed."""

    def __init__(self, renderer: StripRenderer) -> None:
        self.renderer = renderer
        self._pieces: dict[str, Sequence[Strip]] = {}
        self._parts: dict[str, Sequence[Strip]] = {}

    def render(self, block: TranscriptBlock, width: int, agents: Agents, now: str, *, opened: bool) -> None:
        """Draw a block anew if it must be."""
        known = tuple(map(agents.get, block.children))
        alive = any(each is not None and not each.status.ended for each in known)
        alive = alive or any(isinstance(each, Call) and each.state == "running" for each in block.entries)
        mark = (
            id(self.renderer),
            width,
            opened,
            block.gap,
            *block.entries,
            *known,
            now[:19] if alive else "",
        )
        if block.mark == mark:
            return
        block.mark = mark
        first = block.entries[0]
        if isinstance(first, IncomingMessage) and first.is_note and not opened:
            block.strips = ()
            return
        if isinstance(first, Reply) and not first.verbatim:
            block.strips = self._reply(first, width)
            return
        drawn = self._renderable(block, width, agents, now, opened=opened)
        block.strips = [*([Strip([])] if block.gap else []), *self.renderer.lines(drawn, width)]

    def _reply(self, entry: Reply, width: int) -> Sequence[Strip]:
        """What the model said, from the pieces that were drawn while it spoke, so that nobody waits now."""
        strips = [Strip([])]
        for number, piece in enumerate(cut(entry.text.strip("\n"))):
            known = self._pieces.get(self._key(number, piece, width))
            strips += known or self._piece(piece, width, first=number == 0)
        return [*strips, *self.renderer.lines(entry_renderers.CUT, width)] if entry.partial else strips

    def _renderable(
        self, block: TranscriptBlock, width: int, agents: Agents, now: str, *, opened: bool
    ) -> RenderableType:
        names = _names(block, agents)
        match block.entries[0]:
            case IncomingMessage(sender="user") as entry:
                return entry_renderers.prompt(entry)
            case IncomingMessage() as entry:
                return entry_renderers.message(entry, names, opened=opened)
            case Thought() as entry:
                return entry_renderers.thought(entry, opened=opened)
            case Reply() as entry:
                return entry_renderers.reply(entry)
            case Remark() as entry:
                return entry_renderers.remark(entry)
            case HandedBack(receipts):
                found = results_of(receipts, agents)
                results = (agent_rows.result_rows(each, now, MAX_RESULT_LINES) for each in found)
                return Group(Text(NOT_SUMMED_UP if found else "", "warn"), *results)
            case Call() as entry if not entry.sends or (opened and len(block.entries) == 1):
                return entry_renderers.call(entry, now, self.renderer.code, opened=opened)
            case Call():
                calls = [each for each in block.entries if isinstance(each, Call)]
                found = [agents.get(each.child) for each in calls]
                return agent_rows.started_agents(calls, found, now, width)

    def live(self, transcript: Transcript, queued: Sequence[str], width: int) -> Iterator[Strip]:
        """What is just being said, and the messages that are queued."""
        if transcript.text.strip():
            yield Strip([])
            yield from self._streamed(transcript, width)
        else:
            self._pieces = {}
        for text in queued:
            yield from self.renderer.lines(entry_renderers.queued_message(text), width)

    def _streamed(self, transcript: Transcript, width: int) -> Iterator[Strip]:
        """Markdown that still grows: only its last piece is drawn again."""
        kept: dict[str, Sequence[Strip]] = {}
        if transcript.verbatim:
            yield from self.renderer.lines(
                entry_renderers.markdown(transcript.text, "", verbatim=True), width
            )
            return
        *whole, last = cut(transcript.text)
        for number, piece in enumerate(whole):
            key = self._key(number, piece, width)
            kept[key] = self._pieces.get(key) or self._piece(piece, width, first=number == 0)
            yield from kept[key]
        self._pieces = kept
        yield from self._piece(last, width, first=not whole)

    def _key(self, number: int, piece: str, width: int) -> str:
        return f"{id(self.renderer)} {width} {number} {piece}"

    def _piece(self, text: str, width: int, *, first: bool) -> Sequence[Strip]:
        if not text.strip():
            return ()
        parts = code_parts(text)
        if parts:
            lines = self._code(parts, width)
        else:
            lines = self.renderer.lines(entry_renderers.markdown(text, self.renderer.code), width)
        lines = _trimmed(lines)
        return lines if first else [Strip([]), *lines]

    def _code(self, parts: Sequence[str], width: int) -> list[Strip]:
        """Much code, part by part without the empty lines between them: only the last part is drawn again."""
        strips: list[Strip] = []
        for number, part in enumerate(parts):
            key = f"{id(self.renderer)} {width} {part}"
            drawn = self._parts.pop(key, None)
            if drawn is None:
                drawn = self.renderer.lines(entry_renderers.markdown(part, self.renderer.code), width)
            self._parts[key] = drawn
            last = number == len(parts) - 1
            strips += drawn[1 if number else 0 : None if last else -1]
        while len(self._parts) > MAX_CODE_PARTS:
            del self._parts[next(iter(self._parts))]
        return strips


def _trimmed(lines: Sequence[Strip]) -> Sequence[Strip]:
    """Lines without the empty ones around them; one stands between two pieces, whatever they are."""
    full = [number for number, line in enumerate(lines) if line.text.strip()]
    return lines[full[0] : full[-1] + 1] if full else ()


def _names(block: TranscriptBlock, agents: Agents) -> dict[str, str]:
    """The names of the agents that a message is from, or whose results it brings."""
    first = block.entries[0]
    if not isinstance(first, IncomingMessage) or first.sender == "user":
        return {}
    results = {task: name_of(agents[task], 60) for task in first.results if task in agents}
    return {first.sender: agents[first.sender].agent, **results} if first.sender in agents else results


class RenderedLines(Struct, frozen=True):
    """The rendered lines of a transcript: made at once and never changed, so that none can be missing.

    `keys` name the blocks, `tops` the first line of each and, at last, the one behind them all.
    """

    keys: Sequence[int] = ()
    strips: Sequence[Sequence[Strip]] = ()
    tops: Sequence[int] = (0,)
    live: Sequence[Strip] = ()

    @property
    def lines(self) -> int:
        """How many lines there are."""
        return self.tops[-1] + len(self.live)

    def key_at(self, line: int) -> int | None:
        """The block that a line belongs to."""
        return self.keys[bisect_right(self.tops, line) - 1] if 0 <= line < self.tops[-1] else None

    def top_of(self, key: int) -> int:
        """The first line of a block; the one behind them all where it is not drawn."""
        return self.tops[self.keys.index(key) if key in self.keys else -1]

    def at(self, line: int) -> Strip | None:
        """One line, if it is there."""
        if 0 <= line < self.tops[-1]:
            place = bisect_right(self.tops, line) - 1
            return self.strips[place][line - self.tops[place]]
        return self.live[line - self.tops[-1]] if self.tops[-1] <= line < self.lines else None


NO_LINES = RenderedLines()


class TranscriptView(ErrorBoundary, ScrollView, can_focus=True):
    """Shows one transcript. It follows what comes as long as its end is in sight."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "move(-1)", "entry up", show=False),
        Binding("down", "move(1)", "entry down", show=False),
        Binding("enter", "unfold", "open or close", show=False),
        Binding("home", "scroll_home", show=False),
        Binding("end", "to_end", show=False),
        Binding("pageup", "page_up", show=False),
        Binding("pagedown", "page_down", show=False),
    ]

    class Opened(Message):
        """An agent, or several, are to be looked at."""

        def __init__(self, tasks: Sequence[str]) -> None:
            super().__init__()
            self.tasks = tasks

    class ChangeOpened(Message):
        """A long change of a file is to be read on a page of its own."""

        def __init__(self, call: Call) -> None:
            super().__init__()
            self.call = call

    class MoreWanted(Message):
        """Somebody reads at the beginning of what is kept here."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._block_renderer = BlockRenderer(StripRenderer(dark=True))
        self._transcript = EMPTY_TRANSCRIPT
        self._agents: Agents = {}
        self._queued: Sequence[str] = ()
        self._now = ""
        self._blocks: list[TranscriptBlock] = []
        """The blocks rendered last; only changed ones are rendered again."""
        self._rendered: RenderedLines | None = None
        """What is on the screen; None: it must be drawn before it can be seen."""
        self.greeting: Text | None = None
        """What is shown where there is no transcript yet."""
        self._visible: list[Strip | None] = []
        """The lines on the screen, to paint only those that change."""
        self._first_key: int | None = None
        """The first block that is drawn while somebody reads further up; None: those at the end."""
        self._opened: set[int] = set()
        self._all_open = False
        self._selected: int | None = None
        self._painting = False

    @property
    def lines(self) -> int:
        """How many lines there are to scroll through."""
        return self._current.lines

    @property
    def _current(self) -> RenderedLines:
        return self._rendered or NO_LINES

    def use(self, renderer: StripRenderer) -> None:
        """Draw everything in other colours."""
        self._block_renderer = BlockRenderer(renderer)
        self.redraw()

    def show(self, transcript: Transcript, agents: Agents, queued: Sequence[str], now: str) -> None:
        """Show how a transcript stands now."""
        if transcript.task != self._transcript.task:
            self._blocks, self._rendered, self._first_key, self._selected = [], None, None, None
            self._opened = set()
        self._transcript, self._agents, self._queued, self._now = transcript, agents, queued, now
        self.redraw()

    def toggle_all(self) -> None:
        """Open or close everything."""
        self._all_open = not self._all_open
        self._opened = set()
        self.redraw()

    def redraw(self) -> None:
        """Draw what has changed, and stay at the end if that is where we are."""
        width = self._width
        if width < 1:
            return
        self._blocks = self._render_blocks(group_blocks(self._transcript), width)
        live = list(self._block_renderer.live(self._transcript, self._queued, width))
        if self.greeting is not None and not self._blocks and not live:
            live = self._block_renderer.renderer.lines(self.greeting, width)
        strips = [block.strips for block in self._blocks]
        seen = self._rendered
        if seen is None or live != seen.live or not _same(strips, seen.strips):
            keys = [block.key for block in self._blocks]
            self._rendered = RenderedLines(keys, strips, [0, *accumulate(map(len, strips))], live)
            self._keep_selection(seen or NO_LINES)
            self.virtual_size = Size(self.size.width, self.lines)
        if self._first_key is None and self.scroll_offset.y != self.max_scroll_y:
            self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True)
        self._repaint()

    def _repaint(self) -> None:
        """Paint the lines of the screen that are not as they were, and no others."""
        top, height = self.scroll_offset.y, self.size.height
        now = [self._current.at(top + row) for row in range(height)]
        before, self._visible = self._visible, now
        if len(before) != height:
            self.refresh()
            return
        for row in range(height):
            if now[row] is not before[row] and now[row] != before[row]:
                self.refresh_lines(top + row)

    def _render_blocks(self, blocks: list[TranscriptBlock], width: int) -> list[TranscriptBlock]:
        """The blocks from where somebody reads; at the end only as many as fill a few screens."""
        known = {block.key: block for block in self._blocks}
        enough = RENDERED_SCREENS * max(self.size.height, 10)
        found: list[TranscriptBlock] = []
        lines = 0
        for block in reversed(blocks):
            if (self._first_key is not None and block.key < self._first_key) or (
                self._first_key is None and lines > enough
            ):
                break
            kept = self._kept(known.get(block.key), block)
            opened = (kept.key in self._opened) != self._all_open
            self._block_renderer.render(kept, width, self._agents, self._now, opened=opened)
            lines += len(kept.strips)
            found.append(kept)
        return found[::-1]

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width - GUTTER

    def _kept(self, before: TranscriptBlock | None, now: TranscriptBlock) -> TranscriptBlock:
        if before is None:
            return now
        before.entries, before.gap = now.entries, now.gap
        return before

    def render_lines(self, crop: Region) -> list[Strip]:
        """Lines for the screen, without the places in the text that only a selection asks for: they cost."""
        self._painting = True
        try:
            return super().render_lines(crop)
        finally:
            self._painting = False

    def render_line(self, y: int) -> Strip:
        """One line of what is seen."""
        width, style = self.size.width, self.rich_style
        line, seen = y + self.scroll_offset.y, self._current
        strip = seen.at(line)
        if strip is None:
            return Strip.blank(width, style)
        chosen = self.has_focus and self._selected is not None and seen.key_at(line) == self._selected
        gutter = Segment("▌ " if chosen else "  ")
        drawn = Strip([gutter, *strip]).crop_extend(0, width, style).apply_style(style)
        selection = self.text_selection
        span = selection.get_span(line) if selection is not None else None
        drawn = drawn if span is None else self._marked(drawn, *span)
        return drawn if self._painting else drawn.apply_offsets(0, line)

    def _marked(self, drawn: Strip, start: int, end: int) -> Strip:
        """A line with these characters marked as selected; -1 is its end."""
        text = drawn.text.rstrip()
        first, last = cell_len(text[:start]), cell_len(text if end < 0 else text[:end])
        style = self.screen.get_component_rich_style("screen--selection")
        chosen = Strip(Segment.apply_style(drawn.crop(first, last), post_style=style))
        return Strip.join([drawn.crop(0, first), chosen, drawn.crop(last)])

    def get_selection(self, selection: Selection) -> tuple[str, str]:
        """The selected text, without the gutter and what fills lines up."""
        lines = [self._line_text(line) for line in range(self.lines)]
        ends = (end and Offset(max(end.x - GUTTER, 0), end.y) for end in selection)
        chosen = Selection(*ends).extract("\n".join(lines))
        return "\n".join(line.rstrip() for line in chosen.split("\n")), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Mark what is selected."""
        self.refresh()

    def text_select_all(self) -> None:
        """A double click opens and closes; it does not select the whole transcript."""

    def _keep_selection(self, before: RenderedLines) -> None:
        """Select nothing any more where other text has come to the place of what was selected."""
        if (selection := self.text_selection) is not None:
            last = self.lines if selection.end is None else selection.end.y + 1
            if any(self._line_text(line) != _text_of(before.at(line)) for line in range(last)):
                self.screen.clear_selection()

    def _line_text(self, line: int) -> str:
        return _text_of(self._current.at(line))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Who reads further up stays there; who comes near the beginning gets more."""
        super().watch_scroll_y(old_value, new_value)
        if not self._blocks:
            return
        if self.is_vertical_scroll_end:
            if self._first_key is not None and self.lines > 4 * RENDERED_SCREENS * self.size.height:
                self.call_later(self.redraw)
            self._first_key = None
        elif self._first_key is None and new_value < old_value:
            self._first_key = self._blocks[0].key
        if round(new_value) <= 2 and new_value < old_value:
            self.call_later(self._extend)

    def _extend(self) -> None:
        """Draw some blocks more at the beginning, and stay where we are."""
        first = self._blocks[0].key if self._blocks else 0
        earlier = [block.key for block in group_blocks(self._transcript) if block.key < first]
        if not earlier:
            if self._transcript.dropped:
                self.post_message(self.MoreWanted())
            return
        before = self.lines
        self._first_key = earlier[-MORE_BLOCKS:][0]
        self.redraw()
        self.scroll_to(y=self.scroll_offset.y + self.lines - before, animate=False, immediate=True)

    def on_resize(self, event: events.Resize) -> None:
        """Lines break elsewhere now."""
        self.redraw()

    def on_focus(self) -> None:
        """Something is always chosen while it has the focus."""
        if self._selected is None:
            self.action_move(-1)
        self.refresh()

    def on_blur(self) -> None:
        """Nothing is chosen while it has not."""
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """A click opens what it hits; the end of a selection does not."""
        if (
            self.text_selection is None
            and (key := self._current.key_at(event.y + self.scroll_offset.y)) is not None
        ):
            self._selected = key
            self.action_unfold()

    def action_move(self, by: int) -> None:
        """Choose the next entry that can be opened; scroll where there is none."""
        keys = [block.key for block in self._blocks if block.opens]
        if not keys:
            self.scroll_relative(y=by, animate=False)
            return
        at = keys.index(self._selected) + by if self._selected in keys else len(keys) - 1
        if not 0 <= at < len(keys):
            self.scroll_relative(y=3 * by, animate=False)
            return
        self._selected = keys[at]
        top = self._current.top_of(keys[at])
        height = self.scrollable_content_region.height
        if not self.scroll_offset.y <= top < self.scroll_offset.y + height - 1:
            self.scroll_to(y=max(top - height // 3, 0), animate=False)
        self.refresh()

    def action_unfold(self) -> None:
        """Open or close what is chosen; an agent or a long change is shown on a screen of its own."""
        block = next((each for each in self._blocks if each.key == self._selected), None)
        if block is None:
            return
        if block.children:
            self.post_message(self.Opened(block.children))
            return
        match block.entries:
            case (Call() as call,) if entry_renderers.long_diff(call):
                self.post_message(self.ChangeOpened(call))
                return
            case _:
                pass
        self._opened ^= {block.key}
        self.redraw()

    def action_to_end(self) -> None:
        """Follow what comes."""
        self._first_key = None
        self.redraw()
        self.scroll_to(y=self.max_scroll_y, animate=False)


def _text_of(strip: Strip | None) -> str:
    return strip.text if strip is not None else ""


def _same(strips: Sequence[Sequence[Strip]], before: Sequence[Sequence[Strip]]) -> bool:
    """Whether these are the very drawings that were shown before."""
    pairs = zip(strips, before, strict=False)
    return len(strips) == len(before) and all(now is then for now, then in pairs)
