"""tools: Markdown from HTML: the text a person would see, with headings, links, lists, tables and code.

One pass over the tags with a stack of our own, so that neither depth nor broken nesting costs more than a
longer page does. What is hidden is left out; what is around the main part of a page (menus, footers) comes
last.
"""

from collections.abc import Callable
from typing import Literal
from urllib.parse import urljoin

from msgspec import Struct

from gencode.tools.html_elements import (
    BARRIERS,
    BLOCKS,
    CODE_BLOCKS,
    ENDS,
    HEADINGS,
    LISTS,
    MARKS,
    TABLE_PARTS,
    VOID,
    is_hidden,
    language_of,
    list_start,
)
from gencode.tools.html_tokens import EndTag, StartTag, tokens
from gencode.tools.markdown_boxes import MarkdownBlock, MarkdownBox, fenced, joined
from gencode.tools.markdown_line import MarkdownLine

MOST_TEXT = 8 * 1024 * 1024
"""More characters than that are not written, whatever a page multiplies."""
AROUND = "(The rest of the page, such as menus and footers:)"
_BETWEEN_LOOKS = 256
"""After so many tags it is asked whether to go on."""
_MOST_NESTED = {"quote": 12, "item": 12, "list": 13, "table": 6, "cell": 6}
_LONGEST_URL = 2_048
_SCHEMES = ("https://", "http://", "mailto:")
_UNSAFE_IN_LINK = {ord(character): f"%{ord(character):02X}" for character in '"()<>[]`\\^{|}'}

_Kind = Literal["", "block", "box", "mark", "heading", "code", "hidden", "title"]
"""What has to be done when an element ends."""


class Markdown(Struct, frozen=True):
    """A page as text. `whole`: all of it was read."""

    title: str
    text: str
    whole: bool = True


def never() -> bool:
    """Nobody stops the conversion."""
    return False


def to_markdown(page: str, url: str, give_up: Callable[[], bool] = never) -> Markdown:
    """A page of HTML as Markdown. `url` is where it was found; it ends early when `give_up` says so."""
    walk = _MarkdownWriter(url)
    whole = True
    for number, token in enumerate(tokens(page.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n"))):
        if number % _BETWEEN_LOOKS == 0 and (walk.size > MOST_TEXT or give_up()):
            whole = False
            break
        if isinstance(token, str):
            walk.text(token)
        elif isinstance(token, StartTag):
            walk.start(token)
        else:
            walk.end(token)
    return walk.finished(whole=whole)


class _MarkdownWriter:
    """The page so far: the open elements, the boxes they made, and the line that is being written."""

    def __init__(self, url: str) -> None:
        self._base = url
        self._title = ""
        self._open: list[tuple[str, _Kind]] = []
        self._places: dict[str, list[int]] = {}
        self._barriers = [-1]
        self._boxes = [MarkdownBox("page")]
        self._main: list[MarkdownBlock] = []
        self._line = MarkdownLine()
        self._heading = 0
        self._hidden = False
        self._code: list[str] | None = None
        self._language = ""
        self._extra = 0

    @property
    def size(self) -> int:
        """How many characters were written, as far as they are counted."""
        return self._line.size + self._extra

    def text(self, text: str) -> None:
        """Some text of the page."""
        if self._open and self._open[-1][1] == "title":
            self._title = " ".join(text.split())[:300]
        elif self._hidden:
            return
        elif self._code is not None:
            self._extra += len(text)
            self._code.append(text)
        else:
            self._line.words(text)

    def start(self, tag: StartTag) -> None:
        """A tag opens."""
        name = tag.name
        self._make_room(name)
        if name in VOID:
            self._single(tag)
            return
        if tag.closed and self._places.get("svg"):
            return
        kind = self._opened(tag)
        self._places.setdefault(name, []).append(len(self._open))
        if name in BARRIERS:
            self._barriers.append(len(self._open))
        self._open.append((name, kind))

    def end(self, tag: EndTag) -> None:
        """A tag closes, and with it everything that is open inside."""
        name = tag.name
        if name == "br" or (name == "p" and not self._places.get("p")):
            self.start(StartTag(name, {}))
        if name == "table":
            border = -1
        elif name in TABLE_PARTS:
            border = self._last("table")
        else:
            border = self._barriers[-1]
        if (place := self._last(name)) > border:
            self._close_down_to(place)

    def finished(self, *, whole: bool) -> Markdown:
        """The page, once everything that is open has been closed."""
        self._close_down_to(0)
        self._flush()
        around = joined(self._boxes[0].blocks)
        text = joined(self._main)
        if text and around:
            text = f"{text}\n\n---\n\n{AROUND}\n\n{around}"
        return Markdown(self._title, text or around, whole)

    def _make_room(self, name: str) -> None:
        """End what the new element cannot stand in."""
        if name in ENDS:
            ended, within = ENDS[name]
            border = max((self._last(each) for each in within), default=-1)
            if "table" not in within:
                border = max(border, self._barriers[-1])
            places = [place for each in ended if (place := self._last(each)) > border]
            if places:
                self._close_down_to(min(places))
        elif name in HEADINGS and self._open and self._open[-1][0] in HEADINGS:
            self._close_down_to(len(self._open) - 1)
        if name in BLOCKS and (place := self._last("p")) > self._barriers[-1]:
            self._close_down_to(place)

    def _last(self, name: str) -> int:
        """Where the innermost open element of a name is; -1 when there is none."""
        places = self._places.get(name)
        return places[-1] if places else -1

    def _close_down_to(self, place: int) -> None:
        while len(self._open) > place:
            name, kind = self._open.pop()
            self._places[name].pop()
            if name in BARRIERS:
                self._barriers.pop()
            if kind:
                self._closed(kind)

    def _opened(self, tag: StartTag) -> _Kind:
        """Begin what an element means for the text."""
        name = tag.name
        if self._hidden:
            return ""
        if is_hidden(tag):
            self._hidden = True
            return "hidden"
        if name == "title":
            return "" if self._title else "title"
        if self._code is not None:
            self._language = self._language or language_of(tag)
            self._break_code(name)
            return "block" if name in BLOCKS else ""
        if name == "a":
            return "mark" if self._line.open("", self._absolute(tag.get("href"))) else ""
        if name in MARKS:
            return "mark" if self._line.open(MARKS[name]) else ""
        if name not in BLOCKS:
            if name == "button":
                self._line.space()
            return ""
        self._flush()
        return self._open_block(tag)

    def _open_block(self, tag: StartTag) -> _Kind:
        name, inside = tag.name, self._boxes[-1]
        if name in CODE_BLOCKS:
            self._code, self._language = [], language_of(tag)
            return "code"
        if name in HEADINGS:
            self._heading = HEADINGS[name]
            return "heading"
        if name == "tr" and inside.kind == "table":
            inside.rows.append([])
        box = self._box_for(tag)
        if box is None or sum(each.kind == box.kind for each in self._boxes) >= _MOST_NESTED.get(box.kind, 1):
            return "block"
        self._boxes.append(box)
        return "box"

    def _box_for(self, tag: StartTag) -> MarkdownBox | None:
        name, inside = tag.name, self._boxes[-1]
        if name in ("main", "article") or tag.get("role") == "main":
            return MarkdownBox("main") if inside.kind == "page" else None
        if name == "table":
            return MarkdownBox("table")
        if name in ("td", "th"):
            return MarkdownBox("cell") if inside.kind == "table" else None
        if name == "blockquote":
            return MarkdownBox("quote")
        if name in LISTS:
            return MarkdownBox("list", ordered=name == "ol", number=list_start(tag))
        if name == "dd":
            return MarkdownBox("item", ": ")
        if name == "li":
            return MarkdownBox("item", inside.next_marker())
        return None

    def _closed(self, kind: _Kind) -> None:
        """End what an element meant for the text."""
        if kind == "hidden":
            self._hidden = False
        elif kind == "mark":
            self._line.close()
        elif kind == "code":
            self._flush_code()
        elif self._code is not None:
            self._break_code("div")
        elif kind != "title":
            self._flush()
            if kind == "box":
                self._close_box()
            elif kind == "heading":
                self._heading = 0

    def _close_box(self) -> None:
        box = self._boxes.pop()
        inside = self._boxes[-1]
        blocks = box.rendered(inside)
        if box.kind in ("quote", "item"):
            self._extra += sum(block.text.count("\n") + 1 for block in blocks) * (len(box.marker) or 2)
        (self._main if box.kind == "main" else inside.blocks).extend(blocks)

    def _single(self, tag: StartTag) -> None:
        """An element without content."""
        if tag.name == "base" and not self._places.get("body"):
            self._base = self._absolute(tag.get("href")) or self._base
        if self._hidden or is_hidden(tag):
            return
        if self._code is not None:
            if tag.name == "br":
                self._code.append("\n")
        elif tag.name == "br":
            if self._boxes[-1].kind == "cell":
                self._line.space()
            else:
                self._line.newline()
        elif tag.name == "hr":
            self._flush()
            self._boxes[-1].blocks.append(MarkdownBlock("---"))
        elif tag.name == "img" and (alt := " ".join(tag.get("alt").split())):
            url = self._absolute(tag.get("src"))
            self._line.words(f"![{alt}]({url})" if url else f"![{alt}]")
        elif tag.name == "input" and tag.get("type") == "checkbox":
            self._line.words("[x] " if "checked" in tag.attributes else "[ ] ")

    def _flush(self) -> None:
        """The line becomes a block of the innermost box."""
        text = self._line.taken()
        if text and self._heading:
            text = f"{'#' * self._heading} {' '.join(text.split())}"
        if text:
            self._boxes[-1].blocks.append(MarkdownBlock(text))

    def _break_code(self, name: str) -> None:
        if name in BLOCKS and self._code and not self._code[-1].endswith("\n"):
            self._code.append("\n")

    def _flush_code(self) -> None:
        code = "".join(self._code or ()).removeprefix("\n").rstrip()
        self._code = None
        if code:
            self._boxes[-1].blocks.append(MarkdownBlock(fenced(code, self._language)))

    def _absolute(self, link: str) -> str:
        """Where a link leads; empty when it leads nowhere a reader could follow."""
        link = link.strip()
        if not link or link.startswith("#") or len(link) > _LONGEST_URL:
            return ""
        if not link.startswith(_SCHEMES):
            try:
                link = urljoin(self._base, link)
            except ValueError:
                return ""
        if not link.startswith(_SCHEMES) or len(link) > _LONGEST_URL:
            return ""
        return "%20".join(link.split()).translate(_UNSAFE_IN_LINK)
