"""The syntax of a parsed command line, as a flat list of parts, with their words and pieces of words.

The parser gives a flat list of parts, because every part is decided alone and the strictest decision wins;
how they hang together (pipes, loops, substitutions) never makes anything laxer. None of them can be part of a
cycle, and a hostile line has thousands, so the garbage collector does not look at them.
"""

from typing import Literal

from msgspec import Struct

PieceKind = Literal["text", "variable", "substitution", "glob", "brace", "other"]
"""`text` is known; all others are dynamic. `variable` is one of the plain forms `$x ${x} ${#x} $1 $?`,
`substitution` is `$(…)`, backticks, `<(…)` or arithmetic, `other` is whatever else bash may expand."""

PartKind = Literal["command", "write", "inert"]
"""`command` runs its words (or only assigns), `write` is a redirection that writes its one word, `inert` runs
nothing: the words of a `for` or `case`, `[[ … ]]`, an input redirection of a group."""


FrameKind = Literal["subshell", "loop", "function"]


class Unparsable(Exception):
    """The text cannot be shown to mean anything; its message says why."""


class WordPiece(Struct, frozen=True, gc=False):
    """A stretch of a word. `text` is its value after quote removal, or its source where it is dynamic."""

    text: str
    kind: PieceKind = "text"
    quoted: bool = False


class ShellWord(Struct, frozen=True, gc=False):
    """One word of a command. `source` is how it was typed."""

    pieces: tuple[WordPiece, ...]
    source: str

    @property
    def literal(self) -> bool:
        """Whether its value is known."""
        return all(piece.kind == "text" for piece in self.pieces)

    @property
    def value(self) -> str:
        """Its value if it is literal; otherwise with the source of the dynamic pieces in their place."""
        return "".join(piece.text for piece in self.pieces)

    def has(self, kind: PieceKind) -> bool:
        """Whether some piece is of this kind."""
        return any(piece.kind == kind for piece in self.pieces)


class Assignment(Struct, frozen=True, gc=False):
    """`name=value` before a command or alone (`+=` too)."""

    name: str
    value: ShellWord


class Frame:
    """What is around a part: a subshell, whose `cd` ends with it, or something that may run more than once.

    The body of a function (and the text of a trap) may also run later than where it stands.
    """

    __slots__ = ("kind", "outer")

    def __init__(self, kind: FrameKind, outer: "Frame | None") -> None:
        self.kind: FrameKind = kind
        self.outer = outer


class Part(Struct, frozen=True, gc=False):
    """Something that is decided alone.

    `opaque` says why nobody knows what it runs; empty if that is known. `inputs` are the targets of `<`,
    `fed` the texts a here-document or here-string gives it (None where the text is not known). `source` is
    the part as it was typed, for people. `frame` is the innermost thing around it; simple commands with the
    same `chain` that is not 0 are joined by `&&`.
    """

    kind: PartKind
    words: tuple[ShellWord, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    inputs: tuple[ShellWord, ...] = ()
    fed: tuple[str | None, ...] = ()
    opaque: str = ""
    source: str = ""
    frame: Frame | None = None
    chain: int = 0
