"""tools: the line of Markdown that is being written: words, emphasis, code and links, until it is a block."""

import re

from msgspec import Struct

from gencode.tools.markdown_boxes import code_span

MOST_MARKS = 8
_MANY_LINES = re.compile(r"\n{3,}")
_AROUND_NEWLINE = re.compile(r" ?\n ?")


class _OpenMark(Struct):
    """An emphasis, a code span or a link that is still open, and where it began in the line."""

    sign: str
    at: int
    url: str = ""


class MarkdownLine:
    """Pieces of text with open marks. `size` counts every character that was ever written."""

    def __init__(self) -> None:
        self.size = 0
        self._pieces: list[str] = []
        self._gap = False
        self._marks: list[_OpenMark] = []

    def words(self, text: str) -> None:
        """Text whose white space only parts words."""
        words = text.split()
        if not words:
            self._gap = self._gap or bool(text)
            return
        self._gap = self._gap or text[0].isspace()
        self._write_gap()
        said = " ".join(words)
        self.size += len(said)
        self._pieces.append(said)
        self._gap = text[-1].isspace()

    def space(self) -> None:
        """What follows is another word."""
        self._gap = True

    def newline(self) -> None:
        """What follows stands on the next line of the same block."""
        self._gap = False
        if self._pieces:
            self._pieces.append("\n")

    def open(self, sign: str, url: str = "") -> bool:
        """Begin an emphasis, code (a backtick) or, without a sign, a link; False when it cannot begin."""
        known = [mark.sign for mark in self._marks]
        if not (sign or url) or "`" in known or sign in known or len(known) >= MOST_MARKS:
            return False
        self._write_gap()
        self._marks.append(_OpenMark(sign, len(self._pieces), url))
        return True

    def close(self) -> None:
        """End the mark that was opened last."""
        self._wrap(self._marks.pop())

    def taken(self) -> str:
        """The line as it is; marks stay open for the next one."""
        self._gap = False
        if not self._pieces:
            return ""
        for mark in reversed(self._marks):
            self._wrap(mark)
            mark.at = 0
        text = "".join(self._pieces)
        self._pieces.clear()
        return _MANY_LINES.sub("\n\n", _AROUND_NEWLINE.sub("\n", text)).strip()

    def _write_gap(self) -> None:
        if self._gap and self._pieces and not self._pieces[-1][-1].isspace():
            self._pieces.append(" ")
        self._gap = False

    def _wrap(self, mark: _OpenMark) -> None:
        """Put the signs around what was written since a mark was opened."""
        written = "".join(self._pieces[mark.at :])
        said = written.strip()
        if not said or not (mark.sign or mark.url):
            return
        before, _, after = written.partition(said)
        if mark.sign == "`":
            said = code_span(said.replace("\n", " "))
        elif mark.sign:
            said = f"{mark.sign}{said}{mark.sign}"
        elif said != mark.url:
            said = f"[{said}]({mark.url})"
        self.size += len(mark.url) + 4
        # A card of several blocks is one link, not one for each of them.
        mark.url = ""
        self._pieces[mark.at :] = [before + said + after]
