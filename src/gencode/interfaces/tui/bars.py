"""Bars: a few lines that are always in sight, drawn anew without moving anything around them."""

from collections.abc import Sequence

from rich.style import Style
from rich.text import Text
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from gencode.interfaces.tui.rich_renderer import Paper


class Bar(Widget):
    """Some lines, as high as there are lines; gone when there are none."""

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self._paper = Paper(dark=True)
        self._lines: Sequence[Text] = ()
        self._style: Style | None = None
        self.display = False

    def use(self, paper: Paper) -> None:
        """Draw in other colours."""
        self._paper = paper
        self._style = None
        self.refresh()

    def show(self, lines: Sequence[Text]) -> None:
        """Show other lines; only those that changed are drawn."""
        before, self._lines = self._lines, lines
        if len(lines) != len(before):
            self.styles.height = len(lines)
            self.display = bool(lines)
            self.refresh()
            return
        width = self.outer_size.width
        if changed := [at for at, line in enumerate(lines) if line != before[at]]:
            self._style = None
            self.refresh(*(Region(0, at, width, 1) for at in changed))

    @property
    def shown(self) -> str:
        """The text of all lines, for those who cannot see colours."""
        return "\n".join(line.plain for line in self._lines)

    def render_line(self, y: int) -> Strip:
        """One line, cut where the screen ends."""
        width = self.size.width
        if self._style is None:  # looked up once for all lines: that takes longer than to draw one
            self._style = self.rich_style
        style = self._style
        if y >= len(self._lines):
            return Strip.blank(width, style)
        strip = self._paper.line(self._lines[y], width)
        return strip.crop_extend(0, width, style).apply_style(style)
