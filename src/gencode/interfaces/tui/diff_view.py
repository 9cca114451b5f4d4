"""A difference as it is read: line numbers, the colours of the language, a band behind each changed line."""

from collections.abc import Sequence

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.style import Style
from rich.syntax import Syntax
from rich.text import Text

from gencode.core.text import visible
from gencode.interfaces.render.file_diff import DiffLine

LONGEST_COLOURED = 20_000
"""So many characters of a difference are coloured at most: longer ones are mostly not read."""


class DiffView:
    """The lines of a difference of one file; `path` says in which language they are."""

    def __init__(self, lines: Sequence[DiffLine], path: str, code: str) -> None:
        self._lines = lines
        self._path = path
        self._code = code

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Every line, wrapped at the width there is."""
        digits = len(str(max((line.number for line in self._lines), default=0)))
        width = max(options.max_width - digits - 3, 10)
        for line, text in zip(self._lines, self._texts(), strict=True):
            style = console.get_style(f"diff.{line.kind}")
            number = str(line.number) if line.number else ""
            parts = text.wrap(console, width, no_wrap=False) or [text]
            for part in parts:
                drawn = Text.assemble((f"{number:>{digits}} ", "faint"), (f"{line.sign} ", ""), part)
                drawn.no_wrap, drawn.end = True, ""
                for segment in drawn.render(console):
                    over = segment.style or Style()
                    yield Segment(
                        segment.text, style + Style(color=over.color, bold=over.bold, italic=over.italic)
                    )
                room = options.max_width - drawn.cell_len
                yield Segment(" " * max(room, 0), style)
                yield Segment.line()
                number = ""

    def _texts(self) -> list[Text]:
        """The text of each line in the colours of its language, where that is known."""
        plain = [Text(visible(line.text)) for line in self._lines]
        places = [place for place, line in enumerate(self._lines) if line.kind != "note"]
        code = "\n".join(plain[place].plain for place in places)
        lexer = Syntax.guess_lexer(self._path) if len(code) <= LONGEST_COLOURED else "default"
        if lexer == "default":
            return plain
        syntax = Syntax("", lexer, theme=self._code, background_color="default")
        coloured = syntax.highlight(code).split("\n", allow_blank=True)
        for place, text in zip(places, coloured, strict=False):
            if text.plain == plain[place].plain:  # a lexer may take something away
                plain[place] = text
        return plain
