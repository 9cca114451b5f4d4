"""A transcript as blocks that are drawn once and kept until something about them changes."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from rich.console import Group, RenderableType
from rich.text import Text
from textual.strip import Strip

from gencode.interfaces.cli.unsummarised_results import NOT_SUMMED_UP, results_of, tasks_of
from gencode.interfaces.render.agent_view import AgentView
from gencode.interfaces.render.markdown_chunks import code_parts, cut
from gencode.interfaces.render.transcript import (
    Call,
    Entry,
    HandedBack,
    Remark,
    Reply,
    Said,
    Thought,
    Transcript,
)
from gencode.interfaces.tui import agent_panels, entry_renderers
from gencode.interfaces.tui.rich_renderer import Paper

Agents = Mapping[str, AgentView]
HANDED_LINES = 40
"""So many lines of each result are shown that was not summed up."""
MOST_PARTS = 200
"""So many parts of long blocks of code are kept as they were drawn."""


class Block(Struct, eq=False):
    """Some entries that are drawn together. `mark` is everything that their drawing depends on."""

    key: int
    entries: tuple[Entry, ...]
    mark: tuple[object, ...] = ()
    strips: Sequence[Strip] = ()

    @property
    def opens(self) -> bool:
        """Whether there is more to see of it."""
        match self.entries:
            case (Said(sender=sender),):
                return sender != "user"
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


def grouped(transcript: Transcript) -> list[Block]:
    """The entries as blocks: calls of one reply that send agents belong together."""
    found: list[Block] = []
    entries = transcript.entries
    at = 0
    while at < len(entries):
        entry = entries[at]
        size = 1
        if isinstance(entry, Call) and entry.sends and entry.group > 1:
            while at + size < len(entries) and _follows(entry, size, entries[at + size]):
                size += 1
        found.append(Block(transcript.dropped + at, entries[at : at + size]))
        at += size
    return found


def _follows(first: Call, size: int, entry: Entry) -> bool:
    """Whether an agent was sent together with those before it."""
    if not isinstance(entry, Call) or not entry.sends:
        return False
    return (entry.group, entry.number) == (first.group, first.number + size)


class Drawing:
    """Draws blocks on a paper, each only when its mark has changed."""

    def __init__(self, paper: Paper) -> None:
        self.paper = paper
        self._pieces: dict[str, Sequence[Strip]] = {}
        self._parts: dict[str, Sequence[Strip]] = {}

    def draw(self, block: Block, width: int, agents: Agents, now: str, *, opened: bool) -> None:
        """Draw a block anew if it must be."""
        known = tuple(map(agents.get, block.children))
        alive = any(each is not None and not each.status.ended for each in known)
        mark = (id(self.paper), width, opened, *block.entries, *known, now[:19] if alive else "")
        if block.mark == mark:
            return
        block.mark = mark
        first = block.entries[0]
        if isinstance(first, Reply) and not first.verbatim:
            block.strips = self._reply(first, width)
            return
        drawn = self._drawn(block, width, agents, now, opened=opened)
        block.strips = self.paper.lines(drawn, width)

    def _reply(self, entry: Reply, width: int) -> Sequence[Strip]:
        """What the model said, from the pieces that were drawn while it spoke, so that nobody waits now."""
        strips = [Strip([])]
        for number, piece in enumerate(cut(entry.text.strip("\n"))):
            known = self._pieces.get(self._key(number, piece, width))
            strips += known or self._piece(piece, width, first=number == 0)
        return [*strips, *self.paper.lines(entry_renderers.CUT, width)] if entry.partial else strips

    def _drawn(self, block: Block, width: int, agents: Agents, now: str, *, opened: bool) -> RenderableType:
        names = {task: agent.agent for task, agent in agents.items()} if _from_agent(block) else {}
        match block.entries[0]:
            case Said() as entry if entry.sender == "user" or not opened:
                return Group(Text(""), entry_renderers.said(entry, names))
            case Said() as entry:
                return entry_renderers.said_open(entry, names)
            case Thought() as entry:
                return entry_renderers.thought(entry, opened=opened)
            case Reply() as entry:
                return Group(Text(""), entry_renderers.reply(entry))
            case Remark() as entry:
                return entry_renderers.remark(entry)
            case HandedBack(receipts):
                found = results_of(receipts, agents)
                panels = (agent_panels.result_panel(each, now, width, HANDED_LINES) for each in found)
                return Group(Text(NOT_SUMMED_UP if found else "", "warn"), *panels)
            case Call() as entry if not entry.sends or (opened and len(block.entries) == 1):
                return entry_renderers.call(entry, opened=opened)
            case Call():
                calls = [each for each in block.entries if isinstance(each, Call)]
                found = [agents.get(each.child) for each in calls]
                return Group(Text(""), agent_panels.sent(calls, found, now, width))

    def live(self, transcript: Transcript, queued: Sequence[str], width: int) -> Iterator[Strip]:
        """What is just being thought and said, and what waits to be heard."""
        if transcript.thinking and not transcript.text:
            words = len(transcript.thinking.split())
            yield from self.paper.lines(Text(f"\n▸ thinking… ({words} words)", "thought"), width)
        if transcript.text.strip():
            yield Strip([])
            yield from self._streamed(transcript, width)
        else:
            self._pieces = {}
        for text in queued:
            yield from self.paper.lines(entry_renderers.waits(text), width)

    def _streamed(self, transcript: Transcript, width: int) -> Iterator[Strip]:
        """Markdown that still grows: only its last piece is drawn again."""
        kept: dict[str, Sequence[Strip]] = {}
        if transcript.verbatim:
            yield from self.paper.lines(entry_renderers.markdown(transcript.text, "", verbatim=True), width)
            return
        *whole, last = cut(transcript.text)
        for number, piece in enumerate(whole):
            key = self._key(number, piece, width)
            kept[key] = self._pieces.get(key) or self._piece(piece, width, first=number == 0)
            yield from kept[key]
        self._pieces = kept
        yield from self._piece(last, width, first=not whole)

    def _key(self, number: int, piece: str, width: int) -> str:
        return f"{id(self.paper)} {width} {number} {piece}"

    def _piece(self, text: str, width: int, *, first: bool) -> Sequence[Strip]:
        if not text.strip():
            return ()
        parts = code_parts(text)
        if parts:
            lines = self._code(parts, width)
        else:
            lines = self.paper.lines(entry_renderers.markdown(text, self.paper.code), width)
        lines = _trimmed(lines)
        return lines if first else [Strip([]), *lines]

    def _code(self, parts: Sequence[str], width: int) -> list[Strip]:
        """Much code, part by part without the empty lines between them: only the last part is drawn again."""
        strips: list[Strip] = []
        for number, part in enumerate(parts):
            key = f"{id(self.paper)} {width} {part}"
            drawn = self._parts.pop(key, None)
            if drawn is None:
                drawn = self.paper.lines(entry_renderers.markdown(part, self.paper.code), width)
            self._parts[key] = drawn
            last = number == len(parts) - 1
            strips += drawn[1 if number else 0 : None if last else -1]
        while len(self._parts) > MOST_PARTS:
            del self._parts[next(iter(self._parts))]
        return strips


def _trimmed(lines: Sequence[Strip]) -> Sequence[Strip]:
    """Lines without the empty ones around them; one stands between two pieces, whatever they are."""
    full = [number for number, line in enumerate(lines) if line.text.strip()]
    return lines[full[0] : full[-1] + 1] if full else ()


def _from_agent(block: Block) -> bool:
    first = block.entries[0]
    return isinstance(first, Said) and first.sender not in ("user", "system")
