"""tools: Markdown from HTML: the text a person would see, with headings, links, lists, tables and code.

One pass over the tags with a stack of our own, so that neither depth nor broken nesting costs more than a longer
page does. What is hidden is left out; what is around the main part of a page (menus, footers) comes last.
"""

import re
from collections.abc import Callable
from typing import Literal
from urllib.parse import urljoin

from msgspec import Struct

from gencode.tools.html_tokens import End, Start, tokens
from gencode.tools.markdown_boxes import Block, Box, BoxKind, code_span, fenced, joined

MOST_TEXT = 8 * 1024 * 1024
"""More characters than that are not written, whatever a page multiplies."""
AROUND = "(The rest of the page, such as menus and footers:)"
_LOOKED_UP = 256
"""After so many tags it is asked whether to go on."""
_DEEPEST = 12
_MOST_MARKS = 8
_MOST_TABLES = 6
_LONGEST_URL = 2_048

_VOID = frozenset(
    {
        *("area", "base", "br", "col", "embed", "frame", "hr", "img", "input", "link", "meta", "param"),
        *("source", "track", "wbr", "basefont", "bgsound", "keygen"),
    }
)
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_BLOCKS = frozenset(
    {
        *(
            "address",
            "article",
            "aside",
            "blockquote",
            "body",
            "caption",
            "center",
            "dd",
            "details",
            "dialog",
        ),
        *("dir", "div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup"),
        *("hr", "html", "legend", "li", "listing", "main", "menu", "nav", "ol", "optgroup", "option", "p"),
        *("pre", "search", "section", "summary", "table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul"),
        *("xmp", *_HEADINGS),
    }
)
_GONE = frozenset(
    {
        *("annotation", "annotation-xml", "audio", "canvas", "datalist", "iframe", "noembed", "noframes"),
        *("object", "script", "select", "style", "svg", "template", "textarea", "video"),
    }
)
_GONE_STYLE = re.compile(
    r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d]*[1-9]))",
    re.IGNORECASE,
)
_TABLE_PARTS = frozenset({"table", "thead", "tbody", "tfoot", "tr", "td", "th", "caption"})
_CELLS = ("td", "th", "caption")
_BARRIERS = frozenset({"table", *_CELLS})
# A start tag ends what it cannot stand in: up to the first of these that is open, but not beyond the second.
_ENDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "li": (("li",), ("ul", "ol", "menu", "dir")),
    **dict.fromkeys(("dt", "dd"), (("dt", "dd"), ("dl",))),
    **dict.fromkeys(_CELLS, (_CELLS, ("table", "tr"))),
    "tr": (("tr", *_CELLS), ("table",)),
    **dict.fromkeys(("thead", "tbody", "tfoot"), (("thead", "tbody", "tfoot", "tr", *_CELLS), ("table",))),
    "a": (("a",), ()),
    "option": (("option",), ("select",)),
}
_MARKS = {"b": "**", "strong": "**", "i": "*", "em": "*", "del": "~~", "s": "~~", "strike": "~~"}
_MARKS |= dict.fromkeys(("code", "kbd", "samp", "tt"), "`")
_LISTS = ("ul", "ol", "menu", "dir")
_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight-source)-([A-Za-z0-9_+#.-]{1,20})")
_UNSAFE_IN_LINK = {ord(character): f"%{ord(character):02X}" for character in ' "()<>[]`\\^{|}'}
_MANY_LINES = re.compile(r"\n{3,}")
_AROUND_NEWLINE = re.compile(r" ?\n ?")

Kind = Literal["", "block", "box", "mark", "heading", "code", "hidden", "title"]


class Markdown(Struct, frozen=True):
    """A page as text. `whole`: all of it was read."""

    title: str
    text: str
    whole: bool = True


class _Mark(Struct):
    """An emphasis, a code span or a link that is still open, and where it began in the line."""

    sign: str
    at: int
    url: str = ""


def never() -> bool:
    """Nobody stops the conversion."""
    return False


def to_markdown(page: str, url: str, give_up: Callable[[], bool] = never) -> Markdown:
    """A page of HTML as Markdown. `url` is where it was found; it ends early when `give_up` says so."""
    walk = _Walk(url)
    whole = True
    for number, token in enumerate(tokens(page.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n"))):
        if walk.size > MOST_TEXT or (number % _LOOKED_UP == 0 and give_up()):
            whole = False
            break
        if isinstance(token, str):
            walk.text(token)
        elif isinstance(token, Start):
            walk.start(token)
        else:
            walk.end(token)
    return walk.finished(whole=whole)


class _Walk:
    """The page so far: the open elements, the boxes they made, and the line that is being written."""

    def __init__(self, url: str) -> None:
        self.size = 0
        self._base = url
        self._title = ""
        self._open: list[tuple[str, Kind]] = []
        self._places: dict[str, list[int]] = {}
        self._barriers = [-1]
        self._boxes = [Box("page")]
        self._main: list[Block] = []
        self._line: list[str] = []
        self._gap = False
        self._marks: list[_Mark] = []
        self._heading = 0
        self._hidden = 0
        self._code: list[str] | None = None
        self._language = ""

    def text(self, text: str) -> None:
        """Some text of the page."""
        if self._open and self._open[-1][1] == "title":
            self._title = " ".join(text.split())[:300]
        elif self._hidden:
            return
        elif self._code is not None:
            self.size += len(text)
            self._code.append(text)
        else:
            self._words(text)

    def start(self, tag: Start) -> None:
        """A tag opens."""
        name = tag.name
        self._make_room(name)
        if name in _VOID:
            self._single(tag)
            return
        if tag.closed and self._places.get("svg"):
            return
        kind = self._opened(tag)
        self._places.setdefault(name, []).append(len(self._open))
        if name in _BARRIERS:
            self._barriers.append(len(self._open))
        self._open.append((name, kind))

    def end(self, tag: End) -> None:
        """A tag closes, and with it everything that is open inside."""
        name = tag.name
        if name == "br" or (name == "p" and not self._places.get("p")):
            self.start(Start(name, {}))
        places = self._places.get(name)
        if places and (name in _TABLE_PARTS or places[-1] > self._barriers[-1]):
            self._close_down_to(places[-1])

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
        if name in _ENDS:
            ended, within = _ENDS[name]
            place = min(filter(self._after(within), map(self._last, ended)), default=-1)
            if place >= 0:
                self._close_down_to(place)
        elif name in _HEADINGS and self._open and self._open[-1][0] in _HEADINGS:
            self._close_down_to(len(self._open) - 1)
        if name in _BLOCKS and self._last("p") > self._barriers[-1]:
            self._close_down_to(self._last("p"))

    def _after(self, within: tuple[str, ...]) -> Callable[[int], bool]:
        border = max((self._last(name) for name in within), default=-1)
        if "table" not in within:
            border = max(border, self._barriers[-1])
        return lambda place: place > border

    def _last(self, name: str) -> int:
        """Where the innermost open element of a name is; -1 when there is none."""
        places = self._places.get(name)
        return places[-1] if places else -1

    def _close_down_to(self, place: int) -> None:
        while len(self._open) > place:
            name, kind = self._open.pop()
            self._places[name].pop()
            if name in _BARRIERS:
                self._barriers.pop()
            self._closed(kind)

    def _opened(self, tag: Start) -> Kind:
        """Begin what an element means for the text."""
        name = tag.name
        if self._hidden:
            return ""
        if _is_hidden(tag):
            self._hidden = 1
            return "hidden"
        if name == "title":
            return "" if self._title else "title"
        if self._code is not None:
            self._language = self._language or _language(tag)
            self._break_code(name)
            return "block" if name in _BLOCKS else ""
        if name in _MARKS or name == "a":
            return self._open_mark(tag)
        if name not in _BLOCKS:
            self._gap = self._gap or name == "button"
            return ""
        self._flush()
        return self._open_block(tag)

    def _open_block(self, tag: Start) -> Kind:
        name = tag.name
        if name in ("pre", "xmp", "listing"):
            self._code, self._language = [], _language(tag)
            return "code"
        if name in _HEADINGS:
            self._heading = _HEADINGS[name]
            return "heading"
        if name in ("main", "article") or tag.get("role") == "main":
            return self._open_box("main") if len(self._boxes) == 1 else "block"
        if name == "table" and sum(box.kind == "table" for box in self._boxes) >= _MOST_TABLES:
            return "block"
        if name == "tr" and self._boxes[-1].kind == "table":
            self._boxes[-1].rows.append([])
            return "block"
        if name in _CELLS:
            return self._open_box("cell") if self._boxes[-1].kind == "table" else "block"
        if name in ("table", "blockquote"):
            return self._open_box("table" if name == "table" else "quote")
        if name in _LISTS:
            return self._open_box("list", number=_number(tag.get("start")), ordered=name == "ol")
        if name in ("li", "dd"):
            box = self._boxes[-1]
            marker = ": " if name == "dd" else box.next_marker() if box.kind == "list" else "- "
            return self._open_box("item", marker)
        return "block"

    def _open_box(self, kind: BoxKind, marker: str = "", *, number: int = 1, ordered: bool = False) -> Kind:
        if kind in ("quote", "item") and sum(box.kind == kind for box in self._boxes) >= _DEEPEST:
            return "block"
        if len(self._boxes) > 2 * _DEEPEST + 2 * _MOST_TABLES:
            return "block"
        self._boxes.append(Box(kind, marker, number=number, ordered=ordered))
        return "box"

    def _open_mark(self, tag: Start) -> Kind:
        sign = _MARKS.get(tag.name, "")
        url = "" if sign else self._absolute(tag.get("href"))
        known = [mark.sign for mark in self._marks]
        if not (sign or url) or "`" in known or (sign and sign in known) or len(known) >= _MOST_MARKS:
            return ""
        self._write_gap()
        self._marks.append(_Mark(sign, len(self._line), url))
        return "mark"

    def _closed(self, kind: Kind) -> None:
        """End what an element meant for the text."""
        match kind:
            case "hidden":
                self._hidden = 0
            case "mark":
                self._wrap(self._marks.pop())
            case "code":
                self._flush_code()
            case "block" if self._code is not None:
                self._break_code("div")
            case "block" | "box" | "heading":
                self._flush()
                if kind == "box":
                    self._close_box()
                elif kind == "heading":
                    self._heading = 0
            case "" | "title":
                pass

    def _close_box(self) -> None:
        box = self._boxes.pop()
        inside = self._boxes[-1]
        blocks = box.rendered(inside)
        if box.kind in ("quote", "item"):
            self.size += sum(block.text.count("\n") + 1 for block in blocks) * (len(box.marker) or 2)
        (self._main if box.kind == "main" else inside.blocks).extend(blocks)

    def _single(self, tag: Start) -> None:
        """An element without content."""
        if tag.name == "base" and not self._places.get("body"):
            self._base = self._absolute(tag.get("href")) or self._base
        if self._hidden or _is_hidden(tag):
            return
        if self._code is not None:
            if tag.name == "br":
                self._code.append("\n")
        elif tag.name == "br":
            self._gap = self._boxes[-1].kind == "cell"
            if not self._gap and self._line:
                self._line.append("\n")
        elif tag.name == "hr":
            self._flush()
            self._boxes[-1].blocks.append(Block("---"))
        elif tag.name == "img" and (alt := " ".join(tag.get("alt").split())):
            url = self._absolute(tag.get("src"))
            self._words(f"![{alt}]({url})" if url else f"![{alt}]")
        elif tag.name == "input" and tag.get("type") == "checkbox":
            self._words("[x] " if "checked" in tag.attributes else "[ ] ")

    def _words(self, text: str) -> None:
        """Text whose white space only parts words."""
        words = text.split()
        if not words:
            self._gap = self._gap or bool(text)
            return
        self._gap = self._gap or text[0].isspace()
        self._write_gap()
        said = " ".join(words)
        self.size += len(said)
        self._line.append(said)
        self._gap = text[-1].isspace()

    def _write_gap(self) -> None:
        if self._gap and self._line:
            self._line.append(" ")
        self._gap = False

    def _wrap(self, mark: _Mark) -> None:
        """Put the signs around what was written since a mark was opened."""
        said = "".join(self._line[mark.at :]).strip()
        if not said or (mark.at == 0 and not mark.sign and not mark.url):
            return
        if mark.sign == "`":
            said = code_span(said.replace("\n", " "))
        elif mark.sign:
            said = f"{mark.sign}{said}{mark.sign}"
        elif mark.url and said != mark.url:
            said = f"[{said}]({mark.url})"
        self.size += len(mark.url) + 4
        # A card of several blocks is one link, not one for each of them.
        mark.url = ""
        self._line[mark.at :] = [said]

    def _flush(self) -> None:
        """The line becomes a block of the innermost box; marks stay open for the next line."""
        for mark in reversed(self._marks):
            self._wrap(mark)
            mark.at = 0
        text = _AROUND_NEWLINE.sub("\n", "".join(self._line)).strip()
        self._line.clear()
        self._gap = False
        if not text:
            return
        if self._heading:
            text = f"{'#' * self._heading} {' '.join(text.split())}"
        self._boxes[-1].blocks.append(Block(_MANY_LINES.sub("\n\n", text)))

    def _break_code(self, name: str) -> None:
        if name in _BLOCKS and self._code and not self._code[-1].endswith("\n"):
            self._code.append("\n")

    def _flush_code(self) -> None:
        code = "".join(self._code or ()).removeprefix("\n").rstrip()
        self._code = None
        if code:
            self._boxes[-1].blocks.append(Block(fenced(code, self._language)))

    def _absolute(self, link: str) -> str:
        """Where a link leads; empty when it leads nowhere a reader could follow."""
        link = link.strip()
        if not link or link.startswith("#") or len(link) > _LONGEST_URL:
            return ""
        if not link.startswith(("https://", "http://", "mailto:")):
            try:
                link = urljoin(self._base, link)
            except ValueError:
                return ""
        if not link.startswith(("https://", "http://", "mailto:")) or len(link) > _LONGEST_URL:
            return ""
        return "".join(link.split()).translate(_UNSAFE_IN_LINK)


def _is_hidden(tag: Start) -> bool:
    if tag.name in _GONE or (tag.name == "dialog" and "open" not in tag.attributes):
        return True
    if not tag.attributes:
        return False
    if "hidden" in tag.attributes or tag.get("aria-hidden").lower() == "true":
        return True
    style = tag.get("style")
    return bool(style) and _GONE_STYLE.search(style) is not None


def _language(tag: Start) -> str:
    found = _LANGUAGE.search(tag.get("class"))
    return found[1] if found else ""


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 1
