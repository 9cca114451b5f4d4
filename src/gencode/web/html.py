"""HTML parser: a page as texts and tags, in one pass, whatever is wrong with it.

The parser of the standard library needs minutes for some hostile pages of 60 KB and gives up on others. Here
no character is looked at more than a few times, and nothing is an error: what browsers show is what comes
out, without comments, scripts and styles.
"""

import html
import re
from collections.abc import Iterator

from msgspec import Struct

MOST_ATTRIBUTES = 100
_SPACE = " \t\n\f\r"
_TAG = re.compile(rf"</?([A-Za-z][^{_SPACE}/>]*+)")
# One attribute, or the end of the tag. A quote that is never closed reaches to the end of the page.
_ATTRIBUTE = re.compile(
    rf"""[{_SPACE}/]*+(?:(>)|([^{_SPACE}/>][^{_SPACE}/>=]*+)"""
    rf"""(?:[{_SPACE}]*+=[{_SPACE}]*+(?:"([^"]*+)"?|'([^']*+)'?|([^{_SPACE}>]*+)))?)"""
)
_COMMENT_END = re.compile(r"--!?>")
_SCRIPT_MARK = re.compile(rf"<!--|-->|<(/?)script(?=[{_SPACE}/>])", re.IGNORECASE)
_REFERENCE = re.compile(r"&(?:#[0-9]++|#[xX][0-9a-fA-F]++|[A-Za-z][A-Za-z0-9]{1,31});?")
_LONGEST_REFERENCE = 40
"""Longer ones are numbers that no character has, and slow to read."""

_UNSHOWN = frozenset({"script", "style", "iframe", "noembed", "noframes"})
_PLAIN = frozenset({"title", "textarea", "xmp"})


class StartTag(Struct, frozen=True, gc=False):
    """A tag that opens something. `closed`: it ends in `/>`, which only counts inside drawings."""

    name: str
    attributes: dict[str, str]
    closed: bool = False

    def get(self, name: str) -> str:
        """An attribute, or an empty text."""
        return self.attributes.get(name, "")


class EndTag(Struct, frozen=True, gc=False):
    """A tag that closes something."""

    name: str


Token = str | StartTag | EndTag


def tokens(page: str) -> Iterator[Token]:
    """Every text and tag of a page in its order; character references are resolved."""
    at, size = 0, len(page)
    while at < size:
        opening = page.find("<", at)
        if opening != at:
            yield unescaped(page[at : size if opening < 0 else opening])
            if opening < 0:
                return
        tag = _TAG.match(page, opening)
        if tag is None:
            at = _after_markup(page, opening)
            if at == opening:
                yield "<"
                at += 1
            continue
        name = tag[1].lower()
        at, attributes = _attributes(page, tag.end())
        if not at:
            return
        if page[opening + 1] == "/":
            yield EndTag(name)
            continue
        yield StartTag(name, attributes, page[at - 2] == "/")
        if name == "plaintext":
            yield page[at:]
            return
        if name in _UNSHOWN or name in _PLAIN:
            end = _script_end(page, at) if name == "script" else _raw_end(page, at, name)
            if name in _PLAIN:
                yield page[at:end] if name == "xmp" else unescaped(page[at:end])
            at = end


def unescaped(text: str) -> str:
    """A text with its character references resolved."""
    return _REFERENCE.sub(_character, text) if "&" in text else text


def _character(reference: re.Match[str]) -> str:
    text = reference[0]
    return "\ufffd" if len(text) > _LONGEST_REFERENCE else html.unescape(text)


def _after_markup(page: str, at: int) -> int:
    """Where a comment or declaration ends that begins at `at`; `at` itself when there is none."""
    if page.startswith("<!--", at):
        end = _COMMENT_END.search(page, at + 2)
        return end.end() if end else len(page)
    if page[at + 1 : at + 2] not in ("!", "?", "/"):
        return at
    end = page.find(">", at + 2)
    return end + 1 if end >= 0 else len(page)


def _attributes(page: str, at: int) -> tuple[int, dict[str, str]]:
    """The attributes of a tag and the place behind it; 0 when the page ends before the tag does."""
    found: dict[str, str] = {}
    while one := _ATTRIBUTE.match(page, at):
        at = one.end()
        if one[1]:
            return at, found
        if len(found) < MOST_ATTRIBUTES:
            value = one[3] or one[4] or one[5] or ""
            found.setdefault(one[2].lower(), unescaped(value))
    return 0, found


def _raw_end(page: str, at: int, name: str) -> int:
    """Where an element ends that holds no tags: at its own end tag or with the page."""
    while (at := page.find("</", at)) >= 0:
        after = at + 2 + len(name)
        if page[at + 2 : after].lower() == name and page[after : after + 1] in (*_SPACE, "/", ">"):
            return at
        at += 2
    return len(page)


def _script_end(page: str, at: int) -> int:
    """Where a script ends. After `<!--` a script inside it has to end first; browsers know it so, too."""
    commented = nested = False
    while mark := _SCRIPT_MARK.search(page, at):
        at = mark.end()
        if mark[0] == "<!--":
            commented = True
            at -= 2
        elif mark[0] == "-->":
            commented = nested = False
        elif not mark[1]:
            nested = commented
        elif not nested:
            return mark.start()
        else:
            nested = False
    return len(page)


VOID = frozenset(
    [
        "area",
        "base",
        "basefont",
        "bgsound",
        "br",
        "col",
        "embed",
        "frame",
        "hr",
        "img",
        "input",
        "keygen",
        "link",
        "meta",
        "param",
        "source",
        "track",
        "wbr",
    ]
)
HEADINGS = {f"h{level}": level for level in range(1, 7)}
LISTS = ("ul", "ol", "menu", "dir")
CODE_BLOCKS = ("pre", "xmp", "listing")
CELLS = ("td", "th", "caption")
SECTIONS = ("thead", "tbody", "tfoot")
TABLE_PARTS = frozenset({"tr", *SECTIONS, *CELLS})
BARRIERS = frozenset({"table", *CELLS})
"""No end tag from inside closes what is open around one of these."""
BLOCKS = frozenset(
    {
        "address",
        "article",
        "aside",
        "blockquote",
        "body",
        "center",
        "dd",
        "details",
        "dialog",
        "div",
        "dl",
        "dt",
        "fieldset",
        "figcaption",
        "figure",
        "footer",
        "form",
        "header",
        "hgroup",
        "hr",
        "html",
        "legend",
        "li",
        "main",
        "nav",
        "optgroup",
        "option",
        "p",
        "search",
        "section",
        "summary",
        "table",
        *HEADINGS,
        *LISTS,
        *CODE_BLOCKS,
        *TABLE_PARTS,
    }
)
ENDS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "li": (("li",), LISTS),
    "dt": (("dt", "dd"), ("dl",)),
    "dd": (("dt", "dd"), ("dl",)),
    "tr": (("tr", *CELLS), ("table",)),
    **dict.fromkeys(CELLS, (CELLS, ("table", "tr"))),
    **dict.fromkeys(SECTIONS, ((*SECTIONS, "tr", *CELLS), ("table",))),
    "a": (("a",), ()),
    "option": (("option",), ()),
}
"""A start tag ends the outermost of the first elements that is open inside the innermost of the second."""

MARKS = {
    **dict.fromkeys(("b", "strong"), "**"),
    **dict.fromkeys(("i", "em"), "*"),
    **dict.fromkeys(("del", "s", "strike"), "~~"),
    **dict.fromkeys(("code", "kbd", "samp", "tt"), "`"),
}

_GONE = frozenset(
    [
        "annotation",
        "annotation-xml",
        "audio",
        "canvas",
        "datalist",
        "iframe",
        "noembed",
        "noframes",
        "object",
        "script",
        "select",
        "style",
        "svg",
        "template",
        "textarea",
        "video",
    ]
)
_GONE_STYLE = re.compile(
    r"(?:^|;)\s*+(?:display\s*+:\s*+none|visibility\s*+:\s*+hidden|font-size\s*+:\s*+0(?![.\d]*[1-9]))",
    re.IGNORECASE,
)
_LANGUAGE = re.compile(r"(?:^|\s)(?:language|lang|highlight-source)-([A-Za-z0-9_+#.-]{1,20})")


def is_hidden(tag: StartTag) -> bool:
    """Whether a person does not see what is inside."""
    if tag.name in _GONE or (tag.name == "dialog" and "open" not in tag.attributes):
        return True
    if not tag.attributes:
        return False
    if "hidden" in tag.attributes or tag.get("aria-hidden").lower() == "true":
        return True
    style = tag.get("style")
    return bool(style) and _GONE_STYLE.search(style) is not None


def language_of(tag: StartTag) -> str:
    """The programming language that the class of an element names."""
    found = _LANGUAGE.search(tag.get("class"))
    return found[1] if found else ""


def list_start(tag: StartTag) -> int:
    """The number of a list's first item."""
    text = tag.get("start")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 7 else 1
