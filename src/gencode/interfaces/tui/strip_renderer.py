"""Renders Rich objects as lines of a given width, in colours for dark and light terminals, or without any."""

import io
from functools import lru_cache

from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from rich.theme import Theme
from textual.color import Color
from textual.filter import LineFilter
from textual.strip import Strip

_DARK = {
    "you": "bold #8ab4f8",
    "prompt": "#eceef1 on #24272c",
    "system": "#9aa0a6",
    "thought": "italic #9aa0a6",
    "call": "#c4c8ce",
    "faint": "#8a8f98",
    "good": "#6fcf97",
    "bad": "#ff8a80",
    "warn": "#f2c94c",
    "busy": "#8ab4f8",
    "diff.added": "#d6ecd9 on #14301f",
    "diff.removed": "#f4d7d4 on #3a1a1c",
    "diff.kept": "#a8adb5",
    "diff.note": "#8a8f98",
    "markdown.code": "#d7ba7d",
    "markdown.code_block": "#d0d0d0",
    "markdown.h1": "bold",
    "markdown.table.header": "bold",
    "markdown.table.border": "#5c6066",
    "markdown.h2": "bold",
    "markdown.h3": "bold",
    "markdown.block_quote": "#9aa0a6",
    "markdown.item.bullet": "#8a8f98",
    "markdown.item.number": "#8a8f98",
    "markdown.hr": "#5c6066",
    "markdown.link_url": "underline #8ab4f8",
}
_LIGHT = {
    **_DARK,
    "you": "bold #0b57d0",
    "prompt": "#17191c on #e9edf2",
    "system": "#53575c",
    "thought": "italic #53575c",
    "call": "#303338",
    "faint": "#575c63",
    "good": "#0f6a2e",
    "bad": "#b3261e",
    "warn": "#7a4f00",
    "busy": "#0b57d0",
    "diff.added": "#0f2417 on #dcf2e2",
    "diff.removed": "#331210 on #fbe1de",
    "diff.kept": "#4a4f55",
    "diff.note": "#575c63",
    "markdown.table.border": "#8a8f96",
    "markdown.code": "#6f4400",
    "markdown.code_block": "#303030",
    "markdown.block_quote": "#53575c",
    "markdown.item.bullet": "#575c63",
    "markdown.item.number": "#575c63",
    "markdown.hr": "#8a8f96",
    "markdown.link_url": "underline #0b57d0",
}
MIN_CONTRAST = 0.2
_REVERSE = Style(reverse=True)


class StripRenderer:
    """Draws renderables; `code` is the name of the colours for source text."""

    def __init__(self, *, dark: bool) -> None:
        self.code = "github-dark" if dark else "friendly"
        self._console = Console(
            file=io.StringIO(),
            width=80,
            force_terminal=True,
            color_system="truecolor",
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
            theme=Theme(_DARK if dark else _LIGHT),
        )

    def lines(self, drawn: RenderableType, width: int) -> list[Strip]:
        """The lines of something at a width."""
        options = self._console.options.update(width=max(width, 1), highlight=False)
        return [Strip(line) for line in self._console.render_lines(drawn, options, pad=False)]

    def line(self, drawn: Text, width: int) -> Strip:
        """One line, cut at a width: bars are drawn many times a second, and Rich is slow to break lines."""
        cut = drawn.copy()
        cut.end = ""
        cut.truncate(max(width, 1), overflow="ellipsis")
        if not cut.spans:  # Rich leaves the style of the whole text out where nothing else is styled
            cut.stylize(cut.style)
        return Strip(cut.render(self._console))


class NoColours(LineFilter):
    """Takes every colour away; what only its background marked is shown reversed."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same text without colours."""
        return [
            Segment(text, style and _without_colours(style, background.brightness), control)
            for text, style, control in segments
        ]


@lru_cache(1024)
def _without_colours(style: Style, around: float) -> Style:
    plain = style.without_color
    if style.bgcolor is None or style.bgcolor.is_default:
        return plain
    marked = abs(Color.from_rich_color(style.bgcolor).brightness - around) > MIN_CONTRAST
    return plain + _REVERSE if marked else plain


NO_COLOURS = NoColours()
