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
    "system": "#9aa0a6",
    "thought": "italic #9aa0a6",
    "call": "#c8c8c8",
    "faint": "#8a8f98",
    "good": "#6fcf97",
    "bad": "#ff7b72",
    "warn": "#f2c94c",
    "busy": "#56b6c2",
    "added": "#7ee787 on #10301c",
    "removed": "#ffa198 on #3c1618",
    "place": "#79c0ff",
    "kept": "#b0b5bd",
    "markdown.code": "#e5c07b",
    "markdown.code_block": "#d0d0d0",
    "markdown.h1": "bold underline",
    "markdown.h2": "bold #8ab4f8",
    "markdown.block_quote": "#9aa0a6",
    "markdown.link_url": "underline #79c0ff",
}
_LIGHT = {
    **_DARK,
    "you": "bold #0b57d0",
    "system": "#5f6368",
    "thought": "italic #5f6368",
    "call": "#303030",
    "faint": "#6a6f76",
    "good": "#137333",
    "bad": "#b3261e",
    "warn": "#8a5a00",
    "busy": "#00696f",
    "added": "#0a5c2a on #dcf5e4",
    "removed": "#8c1d18 on #fbe0de",
    "place": "#0b57d0",
    "kept": "#4a4f55",
    "markdown.code": "#7a4f01",
    "markdown.code_block": "#303030",
    "markdown.h2": "bold #0b57d0",
    "markdown.block_quote": "#5f6368",
    "markdown.link_url": "underline #0b57d0",
}
MIN_CONTRAST = 0.2
_REVERSE = Style(reverse=True)


class StripRenderer:
    """Draws renderables; `code` is the name of the colours for source text."""

    def __init__(self, *, dark: bool) -> None:
        self.code = "ansi_dark" if dark else "ansi_light"
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
