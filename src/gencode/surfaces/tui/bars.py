"""Bars: a few lines that are always in sight, drawn anew without moving anything around them."""

from collections.abc import Sequence

from rich.text import Text
from textual.strip import Strip
from textual.widget import Widget

from gencode.surfaces.tui.paper import Paper


class Bar(Widget):
    """Some lines, as high as there are lines; gone when there are none."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._paper = Paper(dark=True)
        self._lines: Sequence[Text] = ()
        self.display = False

    def use(self, paper: Paper) -> None:
        """Draw in other colours."""
        self._paper = paper
        self.refresh()

    def show(self, lines: Sequence[Text]) -> None:
        """Show other lines."""
        if len(lines) != len(self._lines):
            self.styles.height = len(lines)
            self.display = bool(lines)
        if list(lines) != list(self._lines):
            self._lines = lines
            self.refresh()

    @property
    def shown(self) -> str:
        """The text of all lines, for those who cannot see colours."""
        return "\n".join(line.plain for line in self._lines)

    def render_line(self, y: int) -> Strip:
        """One line, cut where the screen ends."""
        width, style = self.size.width, self.rich_style
        if y >= len(self._lines):
            return Strip.blank(width, style)
        line = self._lines[y].copy()
        line.no_wrap, line.overflow = True, "ellipsis"
        strip = self._paper.lines(line, width)[0]
        return strip.crop_extend(0, width, style).apply_style(style)
