"""Parses here-documents: where their text begins and ends, and what is substituted in it."""

import re
from typing import NamedTuple

from gencode.permissions.bash.parts import Unparsable
from gencode.permissions.bash.scanner import WORD_ENDS
from gencode.permissions.bash.words import WordReader

_DELIMITER = re.compile(rf"""((?:[A-Za-z0-9_.:+%@/!,-]++|'[^'\n]*+'|"[^"\\$`\n]*+"|\\[^\n])++){WORD_ENDS}""")
_QUOTING = re.compile(r"""'([^']*)'|"([^"]*)"|\\(.)""")
_CONTINUED = re.compile(r"(?:[^\\]++|\\.)*+\\\Z", re.DOTALL)
_NO_MORE_COMMANDS = re.compile(r"""(?:[^\n;&|<>()#`$'"\\]|>>?(?:&[0-9-])?|&>>?|<(?![<&(>]))*+\n""")
_CLOSES = re.compile(r"[ \t\n]*+\)")
_SUBSTITUTED = re.compile(r"[$`\\]")


class HereText(NamedTuple):
    """The text of a here-document, None if it is only known when it runs; why that makes its part opaque."""

    text: str | None
    reason: str


class HereDocuments(WordReader):
    """Reads here-documents."""

    def here_document(self, *, strip_tabs: bool) -> HereText:
        """The delimiter is next. The text is read right away, and passed over when the line ends."""
        self.blanks()
        found = _DELIMITER.match(self.text, self.pos)
        if found is None or (self.text[found.end() : found.end() + 1] in ("<", ">") and found[1].isdigit()):
            raise Unparsable("a here-document whose end cannot be read for certain")
        self.pos = found.end()
        delimiter = _QUOTING.sub(lambda quoted: "".join(filter(None, quoted.groups())), found[1])
        if not delimiter or delimiter[0] == "\t":
            raise Unparsable("a here-document whose end cannot be read for certain")
        quoted = delimiter != found[1]
        body = self._body(delimiter, strip_tabs=strip_tabs, joins_lines=not quoted)
        if quoted or not _SUBSTITUTED.search(body):
            return HereText(body, "")
        return self.nested(body).here_text()

    def _body(self, delimiter: str, *, strip_tabs: bool, joins_lines: bool) -> str:
        if self.here_line < 0:
            self.here_line = self.text.find("\n", self.pos)
            if self.here_line < 0:
                raise Unparsable("a here-document is never closed")
            self.here_end = self.here_line + 1
            self.here_substitutions = self.substitutions
        elif self.here_substitutions != self.substitutions:
            raise Unparsable("a here-document begins in the middle of something else")
        lines: list[str] = []
        at = self.here_end
        while at < len(self.text):
            line, at = self._line(at, joins_lines=joins_lines)
            if strip_tabs:
                line = line.lstrip("\t")
            if line == delimiter:
                self.here_end = at
                self._check_end_in_substitution()
                return "".join(lines)
            if self.substitutions and line.startswith(delimiter):
                raise Unparsable("a here-document whose end cannot be read for certain")
            lines.append(line + "\n")
        raise Unparsable("a here-document is never closed")

    def _check_end_in_substitution(self) -> None:
        """Bash prints a substitution and reads it again before it runs; a here-document may come out garbled.

        Only one that belongs to the very last command in it is sure to survive.
        """
        if not self.substitutions:
            return
        last = _NO_MORE_COMMANDS.match(self.text, self.pos) and _CLOSES.match(self.text, self.here_end)
        if not last or self.depth != self.substitution_depth:
            raise Unparsable("a here-document that is not the last thing in a substitution")

    def _line(self, at: int, *, joins_lines: bool) -> tuple[str, int]:
        """One line without its newline, lines joined by a backslash being one; where the next one begins."""
        joined: list[str] = []
        while True:
            end = self.text.find("\n", at)
            if end < 0:
                end = len(self.text)
            if not joins_lines or not _CONTINUED.match(self.text, at, end):
                joined.append(self.text[at:end])
                return "".join(joined), end + 1
            joined.append(self.text[at : end - 1])
            at = end + 1

    def here_text(self) -> HereText:
        """The whole text as the body of a here-document whose delimiter is not quoted."""
        known = True
        texts: list[str] = []
        while self.pos < len(self.text):
            piece = self.inside_double_quotes(here=True)
            known = known and piece.kind == "text"
            texts.append(piece.text)
        return HereText("".join(texts) if known else None, self.reason)
