"""tools: what the elements of HTML mean for a reader, and which of them end others."""

import re

from gencode.tools.html_tokens import StartTag

VOID = frozenset(
    {
        *("area", "base", "basefont", "bgsound", "br", "col", "embed", "frame", "hr", "img", "input"),
        *("keygen", "link", "meta", "param", "source", "track", "wbr"),
    }
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
        *("address", "article", "aside", "blockquote", "body", "center", "dd", "details", "dialog", "div"),
        *("dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "hr", "html"),
        *("legend", "li", "main", "nav", "optgroup", "option", "p", "search", "section", "summary", "table"),
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
    {
        *("annotation", "annotation-xml", "audio", "canvas", "datalist", "iframe", "noembed", "noframes"),
        *("object", "script", "select", "style", "svg", "template", "textarea", "video"),
    }
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
