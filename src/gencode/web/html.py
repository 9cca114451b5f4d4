"""HTML as a stream of texts and tags, and what the elements of a page mean.

turbohtml's tokenizer reads the page as the HTML standard says, in one pass whose cost is that of its length.
No tree is built: every tree builder that was tried needs minutes or gigabytes for some page of 5 MB.
"""

import re
from collections.abc import Iterator
from itertools import islice

from msgspec import Struct

from gencode.core.text import word_set

MOST_ATTRIBUTES = 100
_UNSHOWN = frozenset({"script", "style", "iframe", "noembed", "noframes"})


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
    """Every text and tag of a page in its order, without comments, scripts and styles."""
    from turbohtml import TokenType, tokenize

    text, start, end = TokenType.TEXT, TokenType.START_TAG, TokenType.END_TAG
    unshown = False
    for token in tokenize(page):
        kind = token.type
        if kind is text:
            if not unshown:
                yield token.data or ""
        elif kind is start:
            name = token.tag or ""
            unshown = name in _UNSHOWN
            yield StartTag(name, dict(islice(token.attrs or (), MOST_ATTRIBUTES)), token.self_closing)
        elif kind is end:
            unshown = False
            yield EndTag(token.tag or "")


VOID = word_set(
    "area base basefont bgsound br col embed frame hr img input keygen link meta param source track wbr"
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

_GONE = word_set(
    "annotation annotation-xml audio canvas datalist iframe noembed noframes object script select style svg "
    "template textarea video"
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
