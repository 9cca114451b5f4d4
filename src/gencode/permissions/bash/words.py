"""Parses words: quotes and expansions become pieces whose value is known or dynamic."""

import re

from gencode.permissions.bash.expansions import TRANSLATED, VARIABLE, Expansions
from gencode.permissions.bash.parts import PieceKind, ShellWord, Unparsable, WordPiece

PLAIN = r"""[^ \t\n;&|<>()'"\\$`*?\[{#][^ \t\n;&|<>()'"\\$`*?\[{]*+"""
PLAIN_WORDS = re.compile(rf"(?:{PLAIN}[ \t]++)++")
PLAIN_WORD = re.compile(rf"{PLAIN}(?=[ \t\n;&|)]|\Z)")
"""A word without anything special. Before `<`, `>` or `(` it may be more than that."""

_QUOTED_WORD = re.compile(r"""(?:'[^']*+'|"[^"\\$`]*+")(?=[ \t\n;&|)]|\Z)""")
_RUN = re.compile(r"""[^ \t\n;&|<>()'"\\$`*?\[{]++""")
_STARS = re.compile(r"[*?]++")
_BRACKETS = re.compile(r"\[++")
_BRACES = re.compile(r"\{++")
_ANSI_QUOTED = re.compile(r"\$'((?:[^'\\]++|\\.)*+)'", re.DOTALL)
_BELONGS_TO_REDIRECTION = re.compile(r"[0-9]++\Z|\{[A-Za-z_].*\}\Z", re.DOTALL)
_ESCAPE = re.compile(
    r"\\(?:x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|([0-7]{1,3})|c([A-Za-z])|(.))",
    re.DOTALL,
)
_SIMPLE = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "?": "?",
}
_LAST_CHARACTER = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_MANY_CHARACTERS = 500
_UNKNOWN = "\0"


class WordBuilder:
    """The pieces of a word while it is read: texts that follow each other become one."""

    def __init__(self) -> None:
        self.pieces: list[WordPiece] = []
        self.texts: list[str] = []
        self.quoted = False
        self.unsure = False

    def text(self, value: str, *, quoted: bool) -> None:
        if self.texts and self.quoted != quoted:
            self.flush()
        self.quoted = quoted
        self.texts.append(value)

    def piece(self, piece: WordPiece) -> None:
        if piece.kind == "text":
            self.text(piece.text, quoted=piece.quoted)
            return
        if self.texts:
            self.flush()
        self.pieces.append(piece)

    def maybe(self, piece: WordPiece) -> None:
        """A `[` or `{` that is special only together with what follows."""
        self.unsure = True
        self.piece(piece)

    def flush(self) -> None:
        self.pieces.append(WordPiece("".join(self.texts), "text", self.quoted))
        self.texts.clear()

    def finished(self) -> tuple[WordPiece, ...]:
        if self.texts:
            self.flush()
        return _settled(self.pieces) if self.unsure else tuple(self.pieces)


class WordReader(Expansions):
    """Reads words."""

    def word(self) -> ShellWord:
        """The word that begins here; it is an error if none does."""
        found = PLAIN_WORD.match(self.text, self.pos)
        if found:
            self.pos = found.end()
            return ShellWord((WordPiece(found[0]),), found[0])
        found = _QUOTED_WORD.match(self.text, self.pos)
        if found:
            self.pos = found.end()
            return ShellWord((WordPiece(found[0][1:-1], "text", True),), found[0])
        start = self.pos
        pieces = WordBuilder()
        if self.peek() != "#":
            self._special_pieces(pieces)
        finished = pieces.finished()
        if not finished:
            raise Unparsable("a word is missing")
        word = ShellWord(finished, self.text[start : self.pos])
        if self.peek() in ("<", ">") and _BELONGS_TO_REDIRECTION.match(bare(word)):
            raise Unparsable("a redirection that cannot be read for certain")
        return word

    def _special_pieces(self, pieces: WordBuilder) -> None:
        """Read pieces up to the end of the word."""
        text = self.text
        while True:
            found = _RUN.match(text, self.pos)
            if found:
                self.pos = found.end()
                pieces.text(found[0], quoted=False)
            character = text[self.pos : self.pos + 1]
            if character == "$" and (found := VARIABLE.match(text, self.pos)):
                self.found.step()
                self.pos = found.end()
                pieces.piece(self.variable(found, quoted=False))
            elif character in "<>" and text[self.pos + 1 : self.pos + 2] == "(" and character:
                pieces.piece(self.process_substitution())
            elif character in " \t\n;&|<>()":
                return
            else:
                self.special_piece(character, pieces)

    def special_piece(self, character: str, pieces: WordBuilder) -> None:
        """Read what begins with a character that is not just text."""
        self.found.step()
        match character:
            case "'":
                pieces.text(self.single_quoted(), quoted=True)
            case '"':
                for piece in self.double_quoted():
                    pieces.piece(piece)
            case "\\":
                self._backslash(pieces)
            case "$":
                self._dollar_in_word(pieces)
            case "`":
                pieces.piece(self.backticks(quoted=False))
            case "[":
                pieces.maybe(self._run(_BRACKETS, "glob"))
            case "{":
                pieces.maybe(self._run(_BRACES, "brace"))
            case _:
                pieces.piece(self._run(_STARS, "glob"))

    def _run(self, pattern: re.Pattern[str], kind: PieceKind) -> WordPiece:
        start = self.pos
        self.skip(pattern)
        return WordPiece(self.text[start : self.pos], kind)

    def _backslash(self, pieces: WordBuilder) -> None:
        following = self.text[self.pos + 1 : self.pos + 2]
        if not following:
            raise Unparsable("it ends with a backslash")
        self.pos += 2
        if following != "\n":
            pieces.text(following, quoted=True)

    def _dollar_in_word(self, pieces: WordBuilder) -> None:
        following = self.text[self.pos + 1 : self.pos + 2]
        if following == "'":
            found = _ANSI_QUOTED.match(self.text, self.pos)
            if found is None:
                raise Unparsable("a quote is never closed")
            self.pos = found.end()
            pieces.text(_decoded(found[1]), quoted=True)
        elif following == '"':
            start = self.pos
            self.pos += 1
            self.double_quoted()
            self.mark(TRANSLATED)
            pieces.piece(WordPiece(self.text[start : self.pos], "other", True))
        else:
            pieces.piece(self.dollar(quoted=False))


def plain_words(text: str) -> list[ShellWord]:
    """The words of a text without anything special but blanks."""
    return [ShellWord((WordPiece(word),), word) for word in text.split()]


def bare(word: ShellWord) -> str:
    """The word if nothing in it is quoted or expanded, else an empty text; only such words are keywords."""
    first = word.pieces[0]
    return first.text if len(word.pieces) == 1 and first.kind == "text" and not first.quoted else ""


def _settled(pieces: list[WordPiece]) -> tuple[WordPiece, ...]:
    """The pieces after each `[` and `{` that turned out to be nothing special has become text."""
    last_closing = max((at for at, piece in enumerate(pieces) if "]" in piece.text), default=-1)
    braces = _expands_braces(pieces)
    settled = WordBuilder()
    for at, piece in enumerate(pieces):
        harmless = not braces if piece.kind == "brace" else piece.text[0:1] == "[" and at > last_closing
        if harmless and piece.kind in ("brace", "glob"):
            settled.text(piece.text, quoted=False)
        else:
            settled.piece(piece)
    return settled.finished()


def _expands_braces(pieces: list[WordPiece]) -> bool:
    shape = "".join(
        piece.text if not piece.quoted and piece.kind in ("text", "glob", "brace") else _UNKNOWN
        for piece in pieces
    )
    separators = [at for at in (shape.find(mark, shape.find("{")) for mark in (",", "..")) if at >= 0]
    if not separators or "}" not in shape[min(separators) :]:
        return False
    if len(shape) > _MANY_CHARACTERS:
        return True
    return any(_expands_at(shape, at) for at, character in enumerate(shape) if character == "{")


def _expands_at(shape: str, opening: int) -> bool:
    """Whether bash finds a list or range that begins with this brace. A `}` before any comma is text."""
    if opening == 0 and shape.startswith("{}"):
        return False
    level = separators = 0
    for at in range(opening + 1, len(shape)):
        character = shape[at]
        if character == "{":
            level += 1
        elif character == "}" and level:
            level -= 1
        elif character == "}" and separators:
            return True
        elif level == 0 and (
            character == "," or (shape.startswith("..", at) and shape[at + 2 : at + 3] != "}")
        ):
            separators += 1
    return False


def _decoded(text: str) -> str:
    """The value of the text between `$'` and `'`."""
    if "\\" not in text:
        return text
    value = _ESCAPE.sub(_character, text)
    if "\0" in value:
        raise Unparsable("$'…' with a NUL ends where it does not seem to")
    try:
        return value.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise Unparsable("$'…' holds what is no character") from None


def _character(found: re.Match[str]) -> str:
    byte, short, long, octal, control, simple = found.groups()
    if byte is not None:
        return _byte(int(byte, 16))
    if octal is not None:
        return _byte(int(octal, 8) & 0xFF)
    if control is not None:
        return chr(ord(control.upper()) & 0x1F)
    if simple is not None:
        return _simple(simple)
    code = int(short or long, 16)
    if code > _LAST_CHARACTER or code in _SURROGATES:
        raise Unparsable("$'…' holds what is no character")
    return chr(code)


def _byte(value: int) -> str:
    """Bytes beyond ASCII may be parts of one character, so they are put together at the end."""
    return chr(value) if value < 0x80 else bytes([value]).decode("ascii", "surrogateescape")


def _simple(letter: str) -> str:
    if letter in "xuUc":
        raise Unparsable(f"$'…' has an unfinished \\{letter}")
    return _SIMPLE.get(letter, "\\" + letter)
