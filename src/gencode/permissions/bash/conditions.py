"""Parses `[[ … ]]`: operands, operators, and regular expressions, in which parentheses are plain text."""

import re

from gencode.permissions.bash.commands import SimpleCommands
from gencode.permissions.bash.parts import Part, ShellWord, Unparsable, WordPiece
from gencode.permissions.bash.scanner import WORD_ENDS
from gencode.permissions.bash.words import WordBuilder, bare

_CLOSING = re.compile(rf"\]\]{WORD_ENDS}")
_NOT = re.compile(r"!(?=[ \t\n])")
_OR = re.compile(r"\|\|(?!\|)")
_AND = re.compile(r"&&(?![&>])")
_UNARY = re.compile(r"-[abcdefghknoprstuvwxzGLNORS]\Z")
_BINARY = re.compile(r"(?:==|=~|!=|=|-nt|-ot|-ef|-eq|-ne|-lt|-le|-gt|-ge)(?=[ \t\n])|[<>](?=[ \t\n])")
_EVALUATING = frozenset({"-v", "-R", "-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_PATTERN_RUN = re.compile(r"""[^ \t\n'"\\$`()|&;<>]++""")
_IN_PARENTHESES = re.compile(r"""(?:[^\n'"\\$`()&;<>]|\\[^\n]|\$(?=[)|A-Za-z_]))++""")

EVALUATED = "[[ evaluates an operand"


class Conditions(SimpleCommands):
    """Reads conditions."""

    def condition(self) -> None:
        """The part after `[[`, up to and including `]]`."""
        start, outer = self.pos, self.reason
        self.reason = ""
        operands: list[ShellWord] = []
        self._alternatives(operands)
        if not self.skip(_CLOSING):
            raise Unparsable("[[ is not closed by ]]")
        source = f"[[{self.text[start : self.pos]}"
        self.found.add(Part("inert", tuple(operands), opaque=self.reason, source=source))
        self.reason = outer

    def _alternatives(self, operands: list[ShellWord]) -> None:
        self.enter()
        while True:
            self._test(operands)
            self._space()
            if not (self.skip(_OR) or self.skip(_AND)):
                break
            self.newlines()
        self.leave()

    def _space(self) -> None:
        self.blanks()
        if self.peek() == "#":
            raise Unparsable("a comment inside [[")

    def _test(self, operands: list[ShellWord]) -> None:
        self._space()
        while self.skip(_NOT):
            self._space()
        if self.peek() == "(":
            self.operator(1)
            self._alternatives(operands)
            if self.peek() != ")":
                raise Unparsable("a ( inside [[ is not closed")
            self.pos += 1
            return
        word = self._operand()
        if _UNARY.match(bare(word)):
            self._note(bare(word))
            self._space()
            operands.append(self._operand())
            return
        operands.append(word)
        self._space()
        found = _BINARY.match(self.text, self.pos)
        if found:
            self.pos = found.end()
            self._note(found[0])
            self._space()
            operands.append(self._pattern() if found[0] == "=~" else self._operand())

    def _note(self, operator: str) -> None:
        if operator in _EVALUATING:
            self.mark(EVALUATED)

    def _operand(self) -> ShellWord:
        if self.peek() in ("<", ">") or _CLOSING.match(self.text, self.pos):
            raise Unparsable("an operand is missing in [[")
        word = self.word()
        if "<(" in word.source or ">(" in word.source:
            raise Unparsable("what may be a process substitution inside [[")
        if self.peek() == "(" or bare(word) in ("]]", "!"):
            raise Unparsable("a pattern that cannot be read for certain")
        return word

    def _pattern(self) -> ShellWord:
        """A regular expression: parentheses and bars belong to it, blanks only inside parentheses."""
        start = self.pos
        pieces = WordBuilder()
        while (character := self.peek()) not in ("", " ", "\t", "\n", ")"):
            found = _PATTERN_RUN.match(self.text, self.pos)
            if found:
                self.pos = found.end()
                pieces.text(found[0], quoted=False)
            elif character == "(":
                group = self._group()
                pieces.piece(WordPiece(group, "other" if "$" in group else "text"))
            elif character == "|" and not self.text.startswith("||", self.pos):
                self.pos += 1
                pieces.text("|", quoted=False)
            elif character in "\"'$\\`":
                self.special_piece(character, pieces)
            else:
                raise Unparsable("a regular expression that cannot be read for certain")
        if self.pos == start:
            raise Unparsable("an operand is missing in [[")
        return ShellWord(pieces.finished(), self.text[start : self.pos])

    def _group(self) -> str:
        start = self.pos
        open_parentheses = 0
        while True:
            character = self.peek()
            if character == "(":
                open_parentheses += 1
                self.pos += 1
            elif character == ")":
                open_parentheses -= 1
                self.pos += 1
                if not open_parentheses:
                    return self.text[start : self.pos]
            elif not self.skip(_IN_PARENTHESES):
                raise Unparsable("a regular expression that cannot be read for certain")
