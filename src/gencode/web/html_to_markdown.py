"""Converts HTML to Markdown: the text a person would see, with headings, links, lists, tables and code.

One pass over the tags with a stack of our own, so that neither depth nor broken nesting costs more than a
longer page does. What is hidden is left out; what is around the main part of a page (menus, footers) comes
last.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple
from urllib.parse import urljoin

from msgspec import Struct

from gencode.web.html import (
    BARRIERS,
    BLOCKS,
    CODE_BLOCKS,
    ENDS,
    HEADINGS,
    LISTS,
    MARKS,
    TABLE_PARTS,
    VOID,
    EndTag,
    StartTag,
    is_hidden,
    language_of,
    list_start,
    tokens,
)

MarkdownBoxKind = Literal["page", "main", "quote", "list", "item", "table", "cell"]

_BACKTICKS = re.compile("`+")


class MarkdownBlock(NamedTuple):
    """A paragraph, a heading, a whole list. `tight`: no empty line parts it from the block above."""

    text: str
    tight: bool = False


class MarkdownBox(Struct):
    """Blocks that belong together. `marker` precedes an item; a table also has rows of cells."""

    kind: MarkdownBoxKind
    marker: str = ""
    blocks: list[MarkdownBlock] = []
    rows: list[list[list[MarkdownBlock]]] = []
    ordered: bool = False
    number: int = 1

    def next_marker(self) -> str:
        """The marker of the next item of this list."""
        if not self.ordered:
            return "- "
        self.number += 1
        return f"{self.number - 1}. "

    def rendered(self, inside: "MarkdownBox") -> list[MarkdownBlock]:
        """What the box becomes in the box around it."""
        match self.kind:
            case "table":
                return [*self.blocks, *_table(self.rows)]
            case "cell" if inside.kind == "table":
                if not inside.rows:
                    inside.rows.append([])
                inside.rows[-1].append(self.blocks)
                return []
            case "page" | "main" | "cell":
                return self.blocks
            case _:
                pass
        text = joined(self.blocks)
        if not text:
            return []
        match self.kind:
            case "quote":
                return [MarkdownBlock(_prefixed(text, "> ", "> "))]
            case "item":
                return [MarkdownBlock(_prefixed(text, self.marker, " " * len(self.marker)), tight=True)]
            case _:
                return [MarkdownBlock(text, tight=inside.kind in ("item", "list"))]


def joined(blocks: Iterable[MarkdownBlock]) -> str:
    """Blocks one below the other."""
    pieces: list[str] = []
    for block in blocks:
        if pieces:
            pieces.append("\n" if block.tight else "\n\n")
        pieces.append(block.text)
    return "".join(pieces)


def fenced(code: str, language: str) -> str:
    """Code between fences that it does not hold itself."""
    return f"{(fence := _fence(code, 3))}{language}\n{code}\n{fence}"


def code_span(code: str) -> str:
    """Code inside a line."""
    fence = _fence(code, 1)
    return f"{fence}{code}{fence}" if len(fence) == 1 else f"{fence} {code} {fence}"


def _fence(code: str, least: int) -> str:
    return "`" * max(least, 1 + max(map(len, _BACKTICKS.findall(code)), default=0))


def _prefixed(text: str, first: str, others: str) -> str:
    begun = text.replace("\n", f"\n{others}")
    return first + re.sub(f"\n{re.escape(others)}(?=\n)", f"\n{others.rstrip()}", begun)


def _table(rows: Sequence[Sequence[Sequence[MarkdownBlock]]]) -> list[MarkdownBlock]:
    """A table with columns as one; what only arranges a page with table tags is written row by row."""
    rows = [row for row in rows if any(row)]
    if not rows:
        return []
    if max(map(len, rows)) > 1 and all(_is_plain(cell) for row in rows for cell in row):
        lines = [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
        lines.insert(1, "|" + " --- |" * len(rows[0]))
        return [MarkdownBlock("\n".join(lines))]
    blocks: list[MarkdownBlock] = []
    for row in rows:
        if all(_is_plain(cell) for cell in row):
            blocks.append(MarkdownBlock(" ".join(cell[0].text for cell in row if cell)))
        else:
            blocks.extend(block for cell in row for block in cell)
    return blocks


def _is_plain(cell: Sequence[MarkdownBlock]) -> bool:
    return not cell or (len(cell) == 1 and "\n" not in cell[0].text)


def _cell(cell: Sequence[MarkdownBlock]) -> str:
    return cell[0].text.replace("|", "\\|") if cell else ""


MOST_MARKS = 8
_MANY_LINES = re.compile(r"\n{3,}")
_AROUND_NEWLINE = re.compile(r" ?\n ?")


class _OpenMark(Struct):
    """An emphasis, a code span or a link that is still open, and where it began in the line."""

    sign: str
    at: int
    url: str = ""


class MarkdownLine:
    """Pieces of text with open marks. `size` counts every character that was ever written."""

    def __init__(self) -> None:
        self.size = 0
        self._pieces: list[str] = []
        self._gap = False
        self._marks: list[_OpenMark] = []

    def words(self, text: str) -> None:
        """Text whose white space only parts words."""
        words = text.split()
        if not words:
            self._gap = self._gap or bool(text)
            return
        self._gap = self._gap or text[0].isspace()
        self._write_gap()
        said = " ".join(words)
        self.size += len(said)
        self._pieces.append(said)
        self._gap = text[-1].isspace()

    def space(self) -> None:
        """What follows is another word."""
        self._gap = True

    def newline(self) -> None:
        """Start a new line of the same block."""
        self._gap = False
        if self._pieces:
            self._pieces.append("\n")

    def open(self, sign: str, url: str = "") -> bool:
        """Begin an emphasis, code (a backtick) or, without a sign, a link; False when it cannot begin."""
        known = [mark.sign for mark in self._marks]
        if not (sign or url) or "`" in known or sign in known or len(known) >= MOST_MARKS:
            return False
        self._write_gap()
        self._marks.append(_OpenMark(sign, len(self._pieces), url))
        return True

    def close(self) -> None:
        """End the mark that was opened last."""
        self._wrap(self._marks.pop())

    def taken(self) -> str:
        """The line as it is; marks stay open for the next one."""
        self._gap = False
        if not self._pieces:
            return ""
        for mark in reversed(self._marks):
            self._wrap(mark)
            mark.at = 0
        text = "".join(self._pieces)
        self._pieces.clear()
        return _MANY_LINES.sub("\n\n", _AROUND_NEWLINE.sub("\n", text)).strip()

    def _write_gap(self) -> None:
        if self._gap and self._pieces and not self._pieces[-1][-1].isspace():
            self._pieces.append(" ")
        self._gap = False

    def _wrap(self, mark: _OpenMark) -> None:
        """Put the signs around what was written since a mark was opened."""
        written = "".join(self._pieces[mark.at :])
        said = written.strip()
        if not said or not (mark.sign or mark.url):
            return
        before, _, after = written.partition(said)
        if mark.sign == "`":
            said = code_span(said.replace("\n", " "))
        elif mark.sign:
            said = f"{mark.sign}{said}{mark.sign}"
        elif said != mark.url:
            said = f"[{said}]({mark.url})"
        self.size += len(mark.url) + 4
        # A card of several blocks is one link, not one for each of them.
        mark.url = ""
        self._pieces[mark.at :] = [before + said + after]


MOST_TEXT = 8 * 1024 * 1024
"""More characters than that are not written, whatever a page multiplies."""
AROUND = "(The rest of the page, such as menus and footers:)"
_BETWEEN_LOOKS = 256
"""After so many tags the caller is asked whether to continue."""
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
    """The conversion is never interrupted."""
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
        """The number of characters written so far, up to the limit."""
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
        """Close the elements that the new one cannot be inside of."""
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
