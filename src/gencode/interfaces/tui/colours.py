"""How the app looks where there is little: a folder in a few letters, and a screen without any colours."""

from functools import lru_cache
from pathlib import Path

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

STANDS_OUT = 0.2
_REVERSE = Style(reverse=True)


def shortened(folder: Path, most: int = 28) -> str:
    """A folder as a person knows it: its end, from home on where it lies there."""
    home = Path.home()
    below = folder.relative_to(home).as_posix() if folder.is_relative_to(home) else ""
    name = f"~/{below}".removesuffix("/.") if below else str(folder)
    return name if len(name) <= most else f"…{name[-most + 1 :]}"


class NoColours(LineFilter):
    """Takes every colour away; what only its background marked is shown reversed."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """The same text without colours."""
        return [
            Segment(text, style and _plain(style, background.brightness), control)
            for text, style, control in segments
        ]


@lru_cache(1024)
def _plain(style: Style, around: float) -> Style:
    plain = style.without_color
    if style.bgcolor is None or style.bgcolor.is_default:
        return plain
    marked = abs(Color.from_rich_color(style.bgcolor).brightness - around) > STANDS_OUT
    return plain + _REVERSE if marked else plain


NO_COLOURS = NoColours()
