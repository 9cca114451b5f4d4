"""Parses expansions: variables, command substitutions, arithmetic.

The plain forms of a variable and what is substituted are dynamic pieces. Every other `${…}` may assign, look
up names or evaluate text, so it makes the part opaque; the commands in it are found all the same.
"""

import re

from gencode.permissions.bash.parts import Unparsable, WordPiece
from gencode.permissions.bash.scanner import NAME, Scanner

VARIABLE = re.compile(rf"\$(?:({NAME})|[0-9?#!@*-]|\$(?![({{\[])|\{{#?{NAME}\}})")
_SPLIT_NAME = re.compile(r"(?:\\\n)++[A-Za-z0-9_]")
_BRACED = re.compile(rf"\$\{{[!#]?(?:{NAME}|[0-9]++|[@*#?!-])(?=[}}\[:=+?#%/^,@*-])")
_BRACED_PLAIN = re.compile(r"""[^}'"\\$`<>]++""")
_BACKTICKS = re.compile(r"`((?:[^`\\]++|\\.)*+)`", re.DOTALL)
_ESCAPED_IN_BACKTICKS = re.compile(r"\\([$`\\])")
_ESCAPED_IN_QUOTED_BACKTICKS = re.compile(r'\\([$`\\"])')
_QUOTED_TEXT = re.compile(r'(?:[^"\\$`]++|\\.)++', re.DOTALL)
_QUOTED_ESCAPES = re.compile(r'\\(?:([$`"\\])|\n)')
_HERE_TEXT = re.compile(r"(?:[^\\$`]++|\\.)++", re.DOTALL)
_HERE_ESCAPES = re.compile(r"\\(?:([$`\\])|\n)")
_QUOTED_SIMPLE = re.compile(r'"([^"\\$`]*+)"')
_SINGLE_QUOTED = re.compile(r"'([^']*+)'")
_ARITHMETIC_CLEAN = re.compile(r"[0-9 \t+\-*/%<>=!&|^~?:,]++")
_ARITHMETIC_NAMES = re.compile(r"[A-Za-z0-9_#@.\[\]\n]++")
_OLD_ARITHMETIC = re.compile(r"\$\[((?:[A-Za-z0-9_ \t+\-*/%()<>=!&|^~?:,]|\$(?=[A-Za-z_]))*+)\]")
_OLD_ARITHMETIC_CLEAN = re.compile(r"[0-9 \t+\-*/%()<>=!&|^~?:,]*+\Z")
_SUBSTITUTES = re.compile(r"`|\$[({]")
_CLOSED_BY_PARENTHESIS = frozenset({")"})

ARITHMETIC = "arithmetic with names can run code"
BRACED = "it has a ${…} that does more than read a variable"
WRITTEN_PROCESS = "it has >(…)"
TRANSLATED = 'it has $"…", which is translated first'


class Expansions(Scanner):
    """Reads one expansion at a time."""

    def dollar(self, *, quoted: bool, here: bool = False) -> WordPiece:
        """Whatever begins with the dollar sign here; a lone one is text."""
        start = self.pos
        self.found.step()
        found = VARIABLE.match(self.text, start)
        if found:
            self.pos = found.end()
            return self.variable(found, quoted=quoted)
        following = self.text[start + 1 : start + 2]
        if following == "(":
            return self._dollar_parenthesis(quoted=quoted)
        if following == "{":
            self._braced(quoted=quoted, here=here)
            return WordPiece(self.text[start : self.pos], "other", quoted)
        if following == "[":
            self._old_arithmetic()
            return WordPiece(self.text[start : self.pos], "substitution", quoted)
        if self.text.startswith(("\\\n", "$"), start + 1) or not following.isascii():
            raise Unparsable("a $ without a name")
        self.pos += 1
        return WordPiece("$", "text", quoted)

    def variable(self, found: re.Match[str], *, quoted: bool) -> WordPiece:
        """The variable that has just been read."""
        if found[1] and _SPLIT_NAME.match(self.text, self.pos):
            raise Unparsable("a name is spread over two lines")
        return WordPiece(found[0], "variable", quoted)

    def _dollar_parenthesis(self, *, quoted: bool) -> WordPiece:
        start = self.pos
        if self.text.startswith("((", start + 1):
            self.pos = start + 3
            self.arithmetic()
        else:
            self.operator(2)
            self.substitution()
        return WordPiece(self.text[start : self.pos], "substitution", quoted)

    def substitution(self) -> None:
        """The commands up to the closing parenthesis; the opening one has been read."""
        reason, depth = self.reason, self.substitution_depth
        self.enter()
        self.substitution_depth = self.depth
        self.substitutions += 1
        with self.found.within("subshell"):
            self.commands(_CLOSED_BY_PARENTHESIS, may_be_empty=True)
        if self.here_line >= 0 and self.here_substitutions == self.substitutions:
            raise Unparsable("a here-document begins after its substitution has ended")
        self.substitutions -= 1
        self.leave()
        self.reason, self.substitution_depth = reason, depth

    def backticks(self, *, quoted: bool, strict: bool = False) -> WordPiece:
        """A substitution in backticks: its text ends at the next bare one and loses some backslashes.

        Whether it loses those before double quotes depends on where it stands; `strict` refuses them.
        """
        found = _BACKTICKS.match(self.text, self.pos)
        if found is None:
            raise Unparsable("a backtick is never closed")
        self.pos = found.end()
        script = found[1]
        if "\\" in script:
            if "\\\n" in script or (strict and '\\"' in script):
                raise Unparsable("backticks with a backslash whose meaning is not clear")
            escaped = _ESCAPED_IN_QUOTED_BACKTICKS if quoted else _ESCAPED_IN_BACKTICKS
            script = escaped.sub(r"\1", script)
        if script and not script.isspace():
            self.enter()
            with self.found.within("subshell"):
                self.nested(script).whole_text(may_be_empty=True)
            self.leave()
        return WordPiece(found[0], "substitution", quoted)

    def process_substitution(self) -> WordPiece:
        """`<(…)` or `>(…)`."""
        start = self.pos
        if self.text[start] == ">":
            self.mark(WRITTEN_PROCESS)
        if self.text.startswith("((", start + 1):
            raise Unparsable("two parentheses need a blank between them")
        self.operator(2)
        self.substitution()
        return WordPiece(self.text[start : self.pos], "substitution")

    def double_quoted(self) -> list[WordPiece]:
        """`"…"`; text pieces that follow each other are not joined."""
        found = _QUOTED_SIMPLE.match(self.text, self.pos)
        if found:
            self.pos = found.end()
            return [WordPiece(found[1], "text", True)]
        self.pos += 1
        pieces: list[WordPiece] = []
        while self.peek() != '"':
            pieces.append(self.inside_double_quotes(here=False))
        self.pos += 1
        return pieces or [WordPiece("", "text", True)]

    def inside_double_quotes(self, *, here: bool) -> WordPiece:
        """The next piece of what is read like a double-quoted text; a here-document has no quotes."""
        text, escapes = (_HERE_TEXT, _HERE_ESCAPES) if here else (_QUOTED_TEXT, _QUOTED_ESCAPES)
        found = text.match(self.text, self.pos)
        if found:
            self.pos = found.end()
            value = escapes.sub(r"\1", found[0]) if "\\" in found[0] else found[0]
            return WordPiece(value, "text", True)
        match self.peek():
            case "$":
                return self.dollar(quoted=True, here=here)
            case "`":
                return self.backticks(quoted=True, strict=here)
            case _:
                raise Unparsable("a quote is never closed")

    def single_quoted(self) -> str:
        found = _SINGLE_QUOTED.match(self.text, self.pos)
        if found is None:
            raise Unparsable("a quote is never closed")
        self.pos = found.end()
        return found[1]

    def _braced(self, *, quoted: bool, here: bool) -> None:
        """The forms of `${…}` that make a part opaque. Where bash has special rules for quotes, we refuse."""
        if not self.skip(_BRACED):
            raise Unparsable("a ${ without a name")
        self.mark(BRACED)
        self.enter()
        while (character := self.peek()) != "}":
            if self.skip(_BRACED_PLAIN):
                continue
            if character == '"' and not here:
                self.double_quoted()
            elif character == "'" and not quoted:
                self.single_quoted()
            elif character == "\\":
                self._escape_in_braces()
            elif character == "$":
                self._dollar_in_braces(quoted=quoted, here=here)
            elif character == "`":
                self.backticks(quoted=quoted, strict=True)
            elif character and character in "<>" and self.text[self.pos + 1 : self.pos + 2] != "(":
                self.pos += 1
            else:
                raise Unparsable("a ${…} that cannot be read for certain")
        self.pos += 1
        self.leave()

    def _escape_in_braces(self) -> None:
        if self.text[self.pos + 1 : self.pos + 2] in ("", "\n"):
            raise Unparsable("a ${…} is spread over two lines")
        self.pos += 2

    def _dollar_in_braces(self, *, quoted: bool, here: bool) -> None:
        if self.text[self.pos + 1 : self.pos + 2] in ("'", '"'):
            raise Unparsable("a ${…} that cannot be read for certain")
        self.dollar(quoted=quoted, here=here)

    def arithmetic(self, *, semicolons: int = 0) -> None:
        """What stands between `((` and `))`; the opening has been read.

        Bash takes `((` for two parentheses if it is not closed by `))`. Whoever means that can write a blank.
        """
        self.enter()
        start, loop, parentheses = self.pos, bool(semicolons), 0
        while True:
            if self.skip(_ARITHMETIC_CLEAN):
                if self.peek() == "(" and self.text[self.pos - 1] in "<>":
                    self.mark(ARITHMETIC)
                continue
            character = self.peek()
            if character == ")" and not parentheses:
                break
            if character and character in "()":
                parentheses += 1 if character == "(" else -1
                self.pos += 1
            elif character == ";" and semicolons and not parentheses:
                semicolons -= 1
                self.pos += 1
            else:
                self._unknown_in_arithmetic(character)
        if semicolons or not self.text.startswith("))", self.pos):
            raise Unparsable("(( is not closed by )); two parentheses need a blank between them")
        if loop and _SUBSTITUTES.search(self.text, start, self.pos):
            raise Unparsable("a substitution in for ((…))")
        self.pos += 2
        self.leave()

    def _unknown_in_arithmetic(self, character: str) -> None:
        self.mark(ARITHMETIC)
        if self.skip(_ARITHMETIC_NAMES):
            return
        if character == "$" and self.text[self.pos + 1 : self.pos + 2] not in ("'", '"'):
            self.dollar(quoted=True)
        elif character == "`":
            self.backticks(quoted=True, strict=True)
        else:
            raise Unparsable("arithmetic that cannot be read for certain")

    def _old_arithmetic(self) -> None:
        found = _OLD_ARITHMETIC.match(self.text, self.pos)
        if found is None:
            raise Unparsable("a $[…] that cannot be read for certain")
        self.pos = found.end()
        if not _OLD_ARITHMETIC_CLEAN.match(found[1]) or "<(" in found[1] or ">(" in found[1]:
            self.mark(ARITHMETIC)
